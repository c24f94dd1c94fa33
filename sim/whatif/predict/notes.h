// What a prediction rests on, and what its reader should know beside the numbers.
#pragma once

#include <optional>
#include <string>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/plan/memory.h"
#include "predict/question.h"

namespace ddlsim::whatif {

/// Whether collectives cross a network of which nobody says what drives it, and no measurement answers for them.
[[nodiscard]] bool assumes_transport(const Question& question);

/// That switches between many servers are taken to pass all they send: nothing unless there are, and nobody says
/// otherwise (network.oversubscription).
[[nodiscard]] std::optional<std::string> congestion_note(const hardware::Cluster& cluster);

/// That Ulysses is counted with copies of key heads, of which there are fewer than context ranks: nothing otherwise.
[[nodiscard]] std::optional<std::string> copied_heads_note(const plan::Job& job);

/// That nobody stated a format of weights, gradients and states, of a job whose products take 16 bits or fewer: nothing
/// of one that stated it, or has adapters, whose frozen weights are as they are computed with.
[[nodiscard]] std::optional<std::string> states_note(const plan::Job& job);

/// What adapters on all products of a mixture of experts leave out.
[[nodiscard]] std::optional<std::string> adapters_note(const plan::Job& job);

/// That a job leaves the allocator less than it usually holds: nothing of one that does not fit, or leaves it that.
[[nodiscard]] std::optional<std::string> tight_note(const answer::Prediction& prediction);

/// Whether a job fits, how closely, and what its host holds.
void add_memory_notes(const Scenario& scenario, const plan::Needed& memory, answer::Prediction& prediction);

/// Why HFU is below MFU: nothing where it is not.
[[nodiscard]] std::optional<std::string> executed_note(const workload::Model& model,
                                                       const answer::Prediction& prediction);

/// Where all stages have as many blocks and wait for the last, which has the head besides: cuts that are noticeably
/// faster, and fit where these do.
[[nodiscard]] std::optional<std::string> stages_note(const Question& question, const answer::Prediction& prediction);

/// That stages' messages hold each other up on a busy network, of which the closed form has a part.
[[nodiscard]] std::optional<std::string> queueing_note(const Question& question, const answer::Prediction& prediction);

/// The weakest of its parts.
[[nodiscard]] Provenance provenance_of(const Question& question);

/// Assumptions, where kernels' times come from, what does not fit, and settings without effect.
void add_notes(const Question& question, const plan::Needed& needed, answer::Prediction& prediction);

}  // namespace ddlsim::whatif
