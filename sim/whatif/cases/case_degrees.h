// Over what a row's GPUs and samples are divided: degrees, replicas, passes. Private to the room.
//
// Degrees are keys of `extra` (tp, pp, cp, dp, ep) or words of the architecture ("tp2-pp4-dp8"). GPUs that nobody
// divides are replicas. Products of what a row says that are larger than anybody's count are no number.
//
// Worked example: 16 GPUs, tp 4, pp 2, global_batch 32, grad_accum 8: 16 / (4 x 2) = 2 replicas of 32 / (2 x 8) = 2
// samples a pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ddlsim/io/case_file.h"
#include "ddlsim/support/error.h"

namespace ddlsim::whatif {

struct Degrees {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
};

/// A whole number of `extra`; nothing where it is not said, or no number.
[[nodiscard]] std::optional<std::int64_t> count_of(const io::Case& one, std::string_view key);

/// In so many words, or, of a submission to MLPerf that says its passes, by naming the kinds of ranks and no number.
[[nodiscard]] bool says_no_split(const io::Case& one);

/// As stated; of a submission that does not say its split, as assumed (language_case.h): what is stated of it stays.
[[nodiscard]] Expected<Degrees> degrees_of(const io::Case& one);

/// Whole replicas: what is stated, or what the other degrees leave. MaxText counts those that share states apart,
/// others those that share experts.
[[nodiscard]] Expected<std::int64_t> replicas_of(const io::Case& one, const Degrees& degrees);

/// Samples of a step: as stated, or those of every GPU or of every pass.
[[nodiscard]] std::optional<std::int64_t> global_batch_of(const io::Case& one, std::int64_t replicas);

/// Samples of one pass of a replica of a model that is split.
[[nodiscard]] std::int64_t micro_batch_of(const io::Case& one, std::int64_t replicas);

/// Samples of a GPU and pass where each GPU has the model: where a row's batch is that of all its passes, one's.
[[nodiscard]] std::int64_t batch_of_pass(const io::Case& one);

}  // namespace ddlsim::whatif
