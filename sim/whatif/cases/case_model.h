// The model that a published case gives by its sizes (language_case.h). Private to the room.
#pragma once

#include <cstdint>
#include <string_view>

#include "ddlsim/io/case_file.h"
#include "ddlsim/support/error.h"

namespace ddlsim::whatif {

/// What a case's model is built as.
enum class ModelFamily { kGpt, kLlama, kMixture, kHybrid, kOpt, kBert, kT5, kVit };

[[nodiscard]] ModelFamily family_of(const io::Case& one);

/// The sizes that nobody can guess.
struct Sizes {
  std::int64_t layers = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t vocabulary = 1;  // 1: a model of images
  std::int64_t sequence = 1;
};

/// Errors: kInvalidArgument for sizes and degrees that are said and are no counts.
[[nodiscard]] Expected<void> check_counts(const io::Case& one);

/// Of a vocabulary that nobody says, nor names the tokenizer of: GPT-2's, padded.
inline constexpr std::int64_t kAssumedVocabulary = 50304;
/// Whether that is so.
[[nodiscard]] bool assumes_vocabulary(const io::Case& one);

/// `may_assume`: a vocabulary. Errors: those of check_counts; kUnsupported, naming what the source does not say.
[[nodiscard]] Expected<Sizes> sizes_of(const io::Case& one, bool may_assume = false);

/// A whole number of `extra`, or what stands for it.
[[nodiscard]] std::int64_t count_or(const io::Case& one, std::string_view key, std::int64_t otherwise);

/// The inner size of an MLP as one with a gate: two thirds where it has none (Nemotron-4's squared ReLU, GPTs with
/// grouped keys), which are the same products, weights and activations, to a multiple of eight a rank. `otherwise`:
/// where no row says it.
[[nodiscard]] std::int64_t gated_size(const io::Case& one, std::string_view key, std::int64_t otherwise);

}  // namespace ddlsim::whatif
