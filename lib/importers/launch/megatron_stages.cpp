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
// --pipeline-model-parallel-layout lists what every part has. With virtual stages the first and the last stage's blocks
// are dealt to their parts alike (get_num_layers_to_build).
//
// Worked example: Llama 3.1 405B, 126 blocks, 16 stages, both counted: 128 / 16 = 8 a stage, the first and the last 7;
// in 8 virtual stages each part has one, the first the embedding alone, the last norm, head and loss alone. BLOOM, 70
// blocks on 12 stages by "type:transformer|embedding": 72 / 12 = 6, the first and the last 5.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "ddlsim/support/quantity_io.h"
#include "megatron_arguments.h"

namespace ddlsim::importers::launch {
namespace {

/// Blocks of a pipeline's parts, in the order in which a micro-batch meets them.
using Dealt = std::vector<std::int64_t>;

/// Blocks of stages, dealt to the several parts that each rank has; nothing where they leave a remainder.
std::optional<Dealt> dealt_to_chunks(const Dealt& stages, std::int64_t chunks) {
  Dealt parts;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (const std::int64_t blocks : stages) {
      if (blocks % chunks != 0) return std::nullopt;
      parts.push_back(blocks / chunks);
    }
  }
  return parts;
}

/// "23-25". `norm_apart`: the part before the last has nothing but the final norm. Empty: a part would have no layer.
std::string in_layers(const Dealt& dealt, const BlockStarts& blocks, bool norm_apart = false) {
  std::string counts;
  std::size_t begin = 0;
  std::int64_t block = 0;
  for (std::size_t part = 0; part < dealt.size(); ++part) {
    block += dealt[part];
    const auto next = static_cast<std::size_t>(block);
    std::size_t end = next < blocks.first.size() ? blocks.first[next] : blocks.after;
    if (part + 1 == dealt.size()) end = blocks.layers;
    if (norm_apart && part + 2 == dealt.size()) end = blocks.after + 1;
    if (end <= begin) return {};
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
  Dealt dealt(static_cast<std::size_t>(parts), each);
  if (embedding) --dealt.front();
  if (loss) --dealt.back();
  out.assume("parallel.layers_per_stage", in_layers(dealt, blocks),
             fmt::format("{} blocks in every part, {}, in layers of the model file", each,
                         embedding && loss ? "embedding and loss counted as one each"
                         : embedding       ? "the embedding counted as one"
                                           : "the loss counted as one"));
}

constexpr std::string_view kLayout = "pipeline-model-parallel-layout";

/// Letters and bars with what is repeated written out, up to a closing bracket; nothing: it is no layout.
std::optional<std::string> written_out(std::string_view text, std::size_t& at, bool inside) {
  constexpr std::size_t kMost = 100'000;
  std::string all;
  while (at < text.size() && text[at] != ')') {
    std::string one(1, text[at++]);
    if (one == "(") {
      const auto group = written_out(text, at, true);
      if (!group || at++ >= text.size()) return std::nullopt;
      one = *group;
    } else if (one == "," || one == " " || one == "'" || one == "\"") {
      continue;
    } else if (std::string_view("EtmL|").find(one) == std::string_view::npos) {
      return std::nullopt;
    }
    std::int64_t times = 1;
    if (at < text.size() && text[at] == '*') {
      const std::size_t end = std::min(text.find_first_not_of("0123456789", at + 1), text.size());
      const auto said = parse_count(text.substr(at + 1, end - at - 1), {0, 10'000});
      if (!said) return std::nullopt;
      times = *said;
      at = end;
    }
    for (; times > 0 && all.size() < kMost; --times) all += one;
  }
  if ((!inside && at < text.size()) || all.size() >= kMost) return std::nullopt;
  return all;
}

/// The stages as the layout lists them. A part of the multi-token prediction alone, which no model here has, runs the
/// final norm.
void deal_layout(Arguments& arguments, const BlockStarts& blocks, const std::vector<std::string>& parts, Builder& out) {
  const Argument& said = *arguments.find(kLayout);
  Dealt dealt;
  std::int64_t all = 0;
  for (const std::string& part : parts) {
    dealt.push_back(std::count(part.begin(), part.end(), 't'));
    all += dealt.back();
  }
  if (all != static_cast<std::int64_t>(blocks.first.size())) {
    out.fault(fmt::format("'{}' has {} blocks", shown(said.words()), all), said.where,
              {fmt::format("the model has {}", blocks.first.size())});
    return;
  }
  const bool norm_apart = parts.size() > 1 && parts[parts.size() - 2] == "m";
  const std::string counts = in_layers(dealt, blocks, norm_apart);
  if (counts.empty()) {
    out.ask("parallel.layers_per_stage", said.words() + ": a part without layers is not modelled", said.where);
    return;
  }
  out.set("parallel.layers_per_stage", counts, said.words() + ", in layers of the model file", said.where);
}

/// As many blocks in every stage, but for the first and the last where they are told.
void deal_stages(Arguments& arguments, const BlockStarts& blocks, std::int64_t stages, std::int64_t chunks,
                 Builder& out) {
  const auto all = static_cast<std::int64_t>(blocks.first.size());
  const std::int64_t first = stated_blocks(arguments, "decoder-first-pipeline-num-layers");
  const std::int64_t last = stated_blocks(arguments, "decoder-last-pipeline-num-layers");
  if (chunks > 1 && first == 0 && last == 0) return;
  const std::int64_t others = stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const std::int64_t left = all - first - last;
  const bool even =
      left >= 0 && (others == 0) == (left == 0) && (others == 0 || (left % others == 0 && left >= others));
  const std::int64_t each = left / std::max<std::int64_t>(others, 1);
  Dealt dealt(static_cast<std::size_t>(stages), each);
  if (first > 0) dealt.front() = first;
  if (last > 0) dealt.back() = last;
  const auto parts = even ? dealt_to_chunks(dealt, chunks) : std::nullopt;
  if (!parts) {
    out.fault(
        fmt::format("{} blocks on {} stages{} leave a remainder", all, stages,
                    chunks > 1 ? fmt::format(" of {} parts", chunks) : std::string()),
        arguments.find_first({"pipeline-model-parallel-size", "num-layers"})->where,
        {"every stage has as many; --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers make "
         "exceptions, and so do --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split"});
    return;
  }
  const std::string why =
      first > 0 || last > 0
          ? fmt::format("blocks of the first and last stage as stated ({} and {})", dealt.front(), dealt.back())
          : fmt::format("{} blocks in every stage, in layers of the model file", each);
  out.assume("parallel.layers_per_stage", in_layers(*parts, blocks), why);
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
  if (stages <= 1) return;
  const bool virtual_stages = out.has("parallel.virtual_stages");
  const std::int64_t chunks = virtual_stages ? out.count_of("parallel.virtual_stages") : 1;
  if (chunks < 1) return;  // asked for
  if (const auto parts = layout_parts(arguments)) {
    deal_layout(arguments, blocks, *parts, out);
  } else if (counted) {
    deal_counted(arguments, blocks, stages * chunks, out);
  } else if (!arguments.has(kLayout)) {
    deal_stages(arguments, blocks, stages, chunks, out);
  }
}

std::optional<std::vector<std::string>> layout_parts(Arguments& arguments) {
  const Argument* said = arguments.find(kLayout);
  if (said == nullptr || said->values.size() != 1 || arguments.is_unknown(kLayout)) return std::nullopt;
  std::size_t at = 0;
  const auto letters = written_out(said->values.front(), at, false);
  if (!letters) return std::nullopt;
  std::vector<std::string> parts(1);
  for (const char letter : *letters) {
    if (letter == '|') {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

}  // namespace ddlsim::importers::launch
