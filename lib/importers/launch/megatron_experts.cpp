// How Megatron-LM's arguments deal tokens to experts.
#include <fmt/core.h>

#include "ddlsim/support/quantity_io.h"
#include "megatron_arguments.h"

namespace ddlsim::importers::launch {
namespace {

class ExpertsReader {
 public:
  ExpertsReader(Arguments& arguments, Builder& out) : in_(arguments), out_(out) {}

  void read() {
    read_dispatch();
    read_groups();
    const Argument* found = in_.find("moe-expert-capacity-factor");
    if (found == nullptr || found->values.size() != 1 || in_.word("moe-expert-capacity-factor") == "-1") return;
    const auto factor = parse_number(found->values.front());
    if (factor && *factor > 0) {
      out_.set("parallel.expert_capacity", found->values.front(), found->words(), found->where);
    } else {
      out_.fault(fmt::format("'{}'", shown(found->words())), found->where, {"it takes a number above 0"});
    }
  }

 private:
  void read_dispatch() {
    const Argument* found = in_.find_first({"moe-token-dispatcher-type", "moe-enable-deepep"});
    if (!out_.has("parallel.expert") || out_.count_of("parallel.expert") == 1) return;
    if (found == nullptr) {
      // megatron/core/transformer/transformer_config.py: moe_token_dispatcher_type
      return out_.ask(
          "parallel.expert_dispatch",
          "no --moe-token-dispatcher-type, Megatron's own is allgather: copies (alltoall) or once (flex) is "
          "modelled");
    }
    const std::string way = in_.word("moe-token-dispatcher-type");
    if (way == "flex" || in_.flag("moe-enable-deepep")) {
      out_.set("parallel.expert_dispatch", "once", found->words(), found->where);
    } else if (way == "alltoall") {
      out_.set("parallel.expert_dispatch", "copies", found->words(), found->where);
    } else {
      out_.ask("parallel.expert_dispatch", found->words() + ": copies (alltoall) or once (flex) is modelled",
               found->where);
    }
  }

  /// Experts in groups, a token's in so many of them (DeepSeek-V3): groups that fill servers bound its servers.
  void read_groups() {
    const Argument* found = in_.find("moe-router-group-topk");
    const auto groups = in_.count("moe-router-num-groups");
    const auto taken = in_.count("moe-router-group-topk");
    if (found == nullptr || !groups || !taken || *taken >= *groups) return;
    const std::int64_t expert = out_.count_of("parallel.expert");
    const std::int64_t each = out_.gpus_per_node();
    const bool once = in_.word("moe-token-dispatcher-type") == "flex" || in_.flag("moe-enable-deepep");
    const std::int64_t ranks = expert % *groups == 0 ? expert / *groups : 0;  // of a group
    if (once && ranks > 0 && each > 0 && ranks % each == 0) {
      out_.set("parallel.expert_servers", *taken * (ranks / each), found->words() + ", of groups that are servers",
               found->where);
    } else {
      out_.leave_out(found->words(),
                     once ? "groups of experts are no whole servers: a token's may be on any"
                          : "a copy of a row goes to every one of its experts, wherever they are",
                     found->where);
    }
  }

  Arguments& in_;
  Builder& out_;
};

}  // namespace

void read_megatron_experts(Arguments& arguments, Builder& out) { ExpertsReader(arguments, out).read(); }

}  // namespace ddlsim::importers::launch
