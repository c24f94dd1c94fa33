#include "cases/case_degrees.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <string>

#include "cases/case_model.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"
#include "ddlsim/importers/training_way.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

/// A degree in the architecture's own words: "tp2-pp4-dp8", "TP=2".
std::optional<std::string> degree_in_words(const io::Case& one, std::string_view key) {
  constexpr auto kDegrees = std::to_array<std::string_view>({"tp", "pp", "dp", "cp", "ep"});
  if (std::find(kDegrees.begin(), kDegrees.end(), key) == kDegrees.end()) return std::nullopt;
  const std::string words = words_of(one.architecture.substr(0, one.architecture.find('(')));
  // Who calls a ring's ranks those of sequence parallelism has no tensor ranks whose rows it would cut.
  if (key == "cp" && (has_phrase(words, "ring attention") || has_phrase(words, "ulysses"))) {
    return one.said("sequence_parallel");
  }
  const std::string phrase = " " + std::string(key) + " ";
  const std::size_t at = words.find(phrase);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + phrase.size();
  const std::string next = words.substr(begin, words.find(' ', begin) - begin);
  const bool number = !next.empty() && next.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::optional(next) : std::nullopt;
}

/// Nothing where it is larger than anybody's count.
std::optional<std::int64_t> product_of(std::initializer_list<std::int64_t> counts) {
  constexpr double kMost = 1e15;
  double all = 1;
  std::int64_t exact = 1;
  for (const std::int64_t count : counts) {
    all *= static_cast<double>(count);
    if (all > kMost) return std::nullopt;
    exact *= count;
  }
  return exact;
}

/// Where several GPUs share a sample, nobody says a degree and ranks of one kind are named: these are as many.
std::optional<Degrees> ranks_of_one_sample(const io::Case& one) {
  constexpr auto kDegrees = std::to_array<std::string_view>({"tp", "pp", "cp", "dp", "ep", "fsdp"});
  const auto said = [&](std::string_view degree) { return count_of(one, degree).has_value(); };
  const auto global = count_of(one, "global_batch");
  if (!global || *global < 1 || *global >= one.total_gpus || one.total_gpus % *global != 0) return std::nullopt;
  if (std::any_of(kDegrees.begin(), kDegrees.end(), said) || is_submission(one)) return std::nullopt;
  const std::int64_t ranks = one.total_gpus / *global;
  const std::string words = words_of(architecture_family(one));
  const bool tensor = has_phrase(words, "tp");
  const bool context = has_phrase(words, "cp") || has_phrase(words, "sp");
  if (tensor) return Degrees{.tensor = ranks};
  return context && !tensor ? std::optional(Degrees{.context = ranks}) : std::nullopt;
}

/// Whether so many samples are those of one pass, and a GPU's batch those of all.
bool is_of_one_pass(const io::Case& one, std::int64_t samples) {
  return samples > 0 && one.batch_per_gpu && product_of({samples, count_or(one, "grad_accum", 1)}) == one.batch_per_gpu;
}

/// As it is said; or a batch that is that of a GPU, as loaders have it for each of their ranks.
std::optional<std::int64_t> micro_batch_said(const io::Case& one) {
  if (const auto stated = count_of(one, "micro_batch")) return stated;
  const auto loaded = count_of(one, "batch_size");
  return loaded == one.batch_per_gpu || (loaded && is_of_one_pass(one, *loaded)) ? loaded : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> count_of(const io::Case& one, std::string_view key) {
  const auto said = one.said(key);
  const auto text = said ? said : degree_in_words(one, key);
  if (!text) return std::nullopt;
  const auto number = parse_number(*text);
  if (!number || *number < 0 || *number > 1e15 || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

bool says_no_split(const io::Case& one) {
  if (one.architecture.starts_with("not stated")) return true;
  const std::string words = words_of(one.architecture);
  constexpr auto kDegrees = std::to_array<std::string_view>({"tp", "pp", "cp", "dp", "fsdp"});
  const auto said = [&](std::string_view degree) { return count_of(one, degree).has_value(); };
  if (!is_submission(one) || !has_phrase(words, "tp") || !one.said("grad_accum")) return false;
  return std::none_of(kDegrees.begin(), kDegrees.end(), said);
}

Expected<Degrees> degrees_of(const io::Case& one) {
  Degrees degrees{count_or(one, "tp", 1), count_or(one, "cp", 1)};
  if (const auto shared = ranks_of_one_sample(one)) return *shared;
  if (!says_no_split(one)) return degrees;
  const auto global = count_of(one, "global_batch");
  const auto passes = count_of(one, "grad_accum");
  if (is_submission(one) && global && passes && *passes > 0) {
    const std::int64_t replicas = std::min(one.total_gpus, *global / *passes);
    const auto known = product_of({replicas, degrees.tensor, degrees.context, count_or(one, "pp", 1)});
    const std::int64_t left = known && *known > 0 && one.total_gpus % *known == 0 ? one.total_gpus / *known : 0;
    (one.said("tp") ? degrees.context : degrees.tensor) *= left;
    if (left > 0 && left <= one.gpus_per_node) return degrees;
  }
  return fail(ErrorCode::kUnsupported, "the source does not say how the model was split");
}

Expected<std::int64_t> replicas_of(const io::Case& one, const Degrees& degrees) {
  if (const auto stated = count_of(one, "dp")) {
    for (const std::string_view apart : {"fsdp", "ep"}) {
      const std::int64_t shards = count_or(one, apart, 1);
      const auto all = product_of({*stated, shards, degrees.tensor, degrees.context, count_or(one, "pp", 1)});
      if (shards > 1 && all == one.total_gpus) return *stated * shards;
    }
    return *stated;
  }
  const auto others = product_of({degrees.tensor, degrees.context, count_or(one, "pp", 1)});
  if (!others || *others < 1 || one.total_gpus % *others != 0) {
    return fail(ErrorCode::kUnsupported,
                others
                    ? fmt::format("{} GPUs are not a multiple of the {} that hold the model", one.total_gpus, *others)
                    : fmt::format("{} GPUs are fewer than its degrees ask for", one.total_gpus));
  }
  return one.total_gpus / *others;
}

std::optional<std::int64_t> global_batch_of(const io::Case& one, std::int64_t replicas) {
  if (const auto stated = count_of(one, "global_batch")) return stated;
  const auto passes = count_of(one, "grad_accum");
  const bool pipelined = count_or(one, "pp", 1) > 1;
  const auto micro = micro_batch_said(one);
  if (micro && (passes || !pipelined)) return product_of({*micro, replicas, passes.value_or(1)});
  if (one.batch_per_gpu) return product_of({*one.batch_per_gpu, one.total_gpus, passes.value_or(1)});
  return std::nullopt;
}

std::int64_t micro_batch_of(const io::Case& one, std::int64_t replicas) {
  if (const auto stated = micro_batch_said(one)) return *stated;
  const auto global = global_batch_of(one, replicas);
  const bool pipelined = count_or(one, "pp", 1) > 1;
  const bool of_gpus = !one.said("global_batch") && !pipelined;
  const std::int64_t passes = count_of(one, "grad_accum").value_or(of_gpus ? 1 : 0);
  const auto shares = product_of({replicas, passes});
  if (global && shares && *shares > 0 && *global % *shares == 0) return *global / *shares;
  const bool once = !importers::accumulates(framework_of(one), software_year_of(one).value_or(importers::kNewest));
  if (once && !pipelined && global && *global % replicas == 0) return *global / replicas;
  // Megatron's examples of these sizes use 1 with pipelines of many stages; without a statement the smallest is the
  // one that always fits. Nobody has a GPU wait for the host with a model that is small.
  constexpr double kLarge = 1e9;
  constexpr double kTokens = 8192;
  const auto hidden = static_cast<double>(count_or(one, "hidden", 0));
  const double parameters = 12 * static_cast<double>(count_or(one, "layers", 0)) * hidden * hidden;
  const bool whole = count_or(one, "tp", 1) == 1 && !pipelined && count_or(one, "experts", 1) == 1;
  const auto length = static_cast<double>(count_or(one, "seq_len", 0));
  if (!whole || parameters == 0 || parameters >= kLarge || length == 0) return 1;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kTokens / length));
}

std::int64_t batch_of_pass(const io::Case& one) {
  const std::int64_t all = one.batch_per_gpu.value_or(1);
  const std::int64_t said = count_or(one, "micro_batch", count_or(one, "batch_size", 0));
  return is_of_one_pass(one, said) ? said : all;
}

}  // namespace ddlsim::whatif
