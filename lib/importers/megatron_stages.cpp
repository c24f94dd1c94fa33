// Which blocks Megatron-LM gives to which stage of a pipeline, as layers of the model file.
//
// Every stage gets as many blocks (megatron/core/transformer/transformer_block.py, get_num_layers_to_build), but the
// first and the last where they are told what to have. With --account-for-embedding-in-pipeline-split the embedding
// counts as a block of the first stage, with --account-for-loss-in-pipeline-split head and loss as one of the last;
// with virtual stages it is the first and the last part of a rank's that have one fewer.
//
// Megatron-DeepSpeed (megatron/model/gpt_model.py, GPTModelPipe; deepspeed/runtime/pipe/module.py, _partition_layers)
// counts the layers whose class matches --pp-partition-method: "type:transformer", which it does unless told otherwise,
// the blocks; "type:transformer|embedding" the embedding as well, and the head where it is tied (an EmbeddingPipe too).
//
// Worked example: Llama 3.1 405B, 126 blocks, 16 stages, both counted: 128 / 16 = 8 a stage, the first and the last 7;
// in 8 virtual stages each part has one, the first the embedding alone, the last norm, head and loss alone. BLOOM, 70
// blocks on 12 stages by "type:transformer|embedding": 72 / 12 = 6, the first and the last 5.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "megatron_arguments.h"

namespace ddlsim::importers::launch {
namespace {

/// Blocks of a pipeline's parts: of its stages, or of the several parts that each rank has.
struct Dealt {
  std::int64_t parts = 1;
  std::int64_t first = 0;   // blocks of the first part
  std::int64_t last = 0;    // of the last
  std::int64_t others = 0;  // of every other
};

/// "23-25"
std::string in_layers(const Dealt& dealt, const BlockStarts& blocks) {
  std::string counts;
  std::size_t begin = 0;
  std::int64_t block = 0;
  for (std::int64_t part = 0; part < dealt.parts; ++part) {
    const bool last = part == dealt.parts - 1;
    block += part == 0 ? dealt.first : last ? dealt.last : dealt.others;
    const auto next = static_cast<std::size_t>(block);
    const std::size_t end = last ? blocks.layers : next < blocks.first.size() ? blocks.first[next] : blocks.after;
    counts += fmt::format("{}{}", part == 0 ? "" : "-", end - begin);
    begin = end;
  }
  return counts;
}

constexpr std::string_view kDeepspeedMethod = "pp-partition-method";

/// Layers that count, by Megatron-DeepSpeed's method.
enum class Counted { kBlocks, kTables, kOther };

Counted counted_by_method(Arguments& arguments) {
  const std::string method = arguments.word(kDeepspeedMethod);
  if (method.empty() || method == "type:transformer") return Counted::kBlocks;
  const bool tables = method == "type:transformer|embedding" || method == "type:embedding|transformer";
  return tables ? Counted::kTables : Counted::kOther;
}

bool counts_embedding(Arguments& arguments) {
  return arguments.flag("account-for-embedding-in-pipeline-split") || counted_by_method(arguments) == Counted::kTables;
}
bool counts_loss(Arguments& arguments) {
  return arguments.flag("account-for-loss-in-pipeline-split") ||
         (counted_by_method(arguments) == Counted::kTables && ties_embeddings(arguments));
}

std::int64_t stated_blocks(Arguments& arguments, std::string_view name) { return arguments.count(name, 0).value_or(0); }

/// Embedding or loss stand for a block: the same share of parts for everybody, less what they stand for.
void deal_counted(Arguments& arguments, const BlockStarts& blocks, std::int64_t parts, Builder& out) {
  const bool embedding = counts_embedding(arguments);
  const bool loss = counts_loss(arguments);
  const auto own = static_cast<std::int64_t>(blocks.first.size());
  const std::int64_t all = own + (embedding ? 1 : 0) + (loss ? 1 : 0);
  if (all % parts != 0) {
    out.fault(
        fmt::format("{} blocks, {} with embedding or loss counted, on {} parts leave a remainder", own, all, parts),
        arguments
            .find_first(
                {kDeepspeedMethod, "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"})
            ->where,
        {"every part of a pipeline has as many"});
    return;
  }
  const std::int64_t each = all / parts;
  out.assume(
      "parallel.layers_per_stage",
      in_layers({.parts = parts, .first = each - (embedding ? 1 : 0), .last = each - (loss ? 1 : 0), .others = each},
                blocks),
      fmt::format("{} blocks in every part, {}, in layers of the model file", each,
                  embedding && loss ? "embedding and loss counted as one each"
                  : embedding       ? "the embedding counted as one"
                                    : "the loss counted as one"));
}

}  // namespace

std::optional<std::int64_t> counted_layers(Arguments& arguments) {
  const auto layers = arguments.count("num-layers");
  if (!layers) return std::nullopt;
  return *layers + (counts_embedding(arguments) ? 1 : 0) + (counts_loss(arguments) ? 1 : 0);
}

void add_megatron_stages(Arguments& arguments, const BlockStarts& blocks, Builder& out) {
  const std::int64_t stages = out.count_of("parallel.pipeline");
  const bool counted = counts_embedding(arguments) || counts_loss(arguments);
  if (const Argument* method = arguments.find(kDeepspeedMethod);
      stages > 1 && method != nullptr && counted_by_method(arguments) == Counted::kOther) {
    out.leave_out(method->words(), "as many blocks are in every stage: state parallel.layers_per_stage", method->where);
  }
  if (stages <= 1 || arguments.has("pipeline-model-parallel-layout")) return;
  const bool virtual_stages = out.has("parallel.virtual_stages");
  if (counted && (!virtual_stages || out.count_of("parallel.virtual_stages") > 0)) {
    deal_counted(arguments, blocks, stages * std::max<std::int64_t>(out.count_of("parallel.virtual_stages"), 1), out);
    return;
  }
  if (virtual_stages) return;
  const auto all = static_cast<std::int64_t>(blocks.first.size());
  const std::int64_t first = stated_blocks(arguments, "decoder-first-pipeline-num-layers");
  const std::int64_t last = stated_blocks(arguments, "decoder-last-pipeline-num-layers");
  const std::int64_t others = stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const std::int64_t left = all - first - last;
  if (left < 0 || (others == 0) != (left == 0) || (others > 0 && (left % others != 0 || left < others))) {
    out.fault(
        fmt::format("{} blocks on {} stages leave a remainder", all, stages),
        arguments.find("pipeline-model-parallel-size")->where,
        {"every stage has as many; --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers make "
         "exceptions, and so do --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split"});
    return;
  }
  const std::int64_t each = left / std::max<std::int64_t>(others, 1);
  const Dealt dealt{.parts = stages, .first = first > 0 ? first : each, .last = last > 0 ? last : each, .others = each};
  const std::string why =
      first > 0 || last > 0
          ? fmt::format("blocks of the first and last stage as stated ({} and {})", dealt.first, dealt.last)
          : fmt::format("{} blocks in every stage, in layers of the model file", each);
  out.assume("parallel.layers_per_stage", in_layers(dealt, blocks), why);
}

}  // namespace ddlsim::importers::launch
