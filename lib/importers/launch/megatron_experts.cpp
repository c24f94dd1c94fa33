// How Megatron-LM's arguments deal tokens to experts.
#include <fmt/core.h>

#include <cctype>

#include "ddlsim/support/quantity_io.h"
#include "hf/hf_layers.h"
#include "megatron_arguments.h"
#include "shell_words.h"

namespace ddlsim::importers::launch {
namespace {

/// "([0]*3+[1]*58)" or "[0,1,1]" as a list, "2" as every second; nothing for anything else.
std::optional<std::vector<bool>> pattern_of(std::string_view text, std::int64_t layers) {
  std::vector<bool> made;
  const auto number = parse_count(text, {1, kLargest});
  if (number) {
    for (std::int64_t i = 0; i < layers; ++i) made.push_back(i % *number == 0);
    return made;
  }
  std::vector<bool> group;
  bool closed = false;  // a group that waits for "*n"
  const auto flush = [&](std::int64_t times) {
    for (std::int64_t i = 0; i < times && static_cast<std::int64_t>(made.size()) <= layers; ++i) {
      made.insert(made.end(), group.begin(), group.end());
    }
    group.clear();
    closed = false;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '[') {
      if (closed) flush(1);
    } else if (c == ']') {
      closed = true;
    } else if (c == '*' && closed) {
      std::size_t end = at + 1;
      while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == ' ')) ++end;
      std::string digits(text.substr(at + 1, end - at - 1));
      std::erase(digits, ' ');
      const auto times = parse_count(digits, {0, hf::kMostBlocks});
      if (!times) return std::nullopt;
      flush(*times);
      at = end - 1;
    } else if ((c == '0' || c == '1') && !closed) {
      group.push_back(c == '1');
    } else if (c != ',' && c != ' ' && c != '(' && c != ')' && c != '+' && c != '"' && c != '\'') {
      return std::nullopt;
    }
  }
  if (closed) flush(1);
  return group.empty() ? std::optional(made) : std::nullopt;
}

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

std::vector<bool> blocks_of_experts(Arguments& arguments, std::int64_t layers, Builder& out) {
  std::vector<bool> every(static_cast<std::size_t>(layers), true);
  const Argument* frequency = arguments.find("moe-layer-freq");
  if (frequency == nullptr) return every;
  std::string text;
  for (const std::string& value : frequency->values) text += value + " ";
  if (!shell::is_known(text)) return {};
  if (!text.empty()) text.pop_back();
  auto pattern = pattern_of(text, layers);
  if (pattern && static_cast<std::int64_t>(pattern->size()) == layers) return std::move(*pattern);
  out.fault(fmt::format("'{}'", shown(frequency->words())), frequency->where,
            {fmt::format("it takes a number (every so many layers), or a list of {} times 0 or 1, as ([0]*3+[1]*58)",
                         layers)});
  return every;
}

}  // namespace ddlsim::importers::launch
