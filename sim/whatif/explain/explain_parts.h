// Parts of an explanation, built one by one. Private to the room.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ddlsim/answer/explanation.h"
#include "ddlsim/cost/collective.h"
#include "ddlsim/support/stated.h"
#include "ddlsim/support/units.h"
#include "predict/question.h"

namespace ddlsim::whatif {

/// What a value is, with its SI unit.
struct Explained {
  double value = 0;
  std::string_view unit;

  Explained(double number) : value(number) {}                                  // NOLINT(google-explicit-constructor)
  Explained(std::int64_t count) : value(static_cast<double>(count)) {}         // NOLINT(google-explicit-constructor)
  Explained(Time t) : value(t.in(seconds)), unit("s") {}                       // NOLINT(google-explicit-constructor)
  Explained(DataSize s) : value(s.in(bytes)), unit("B") {}                     // NOLINT(google-explicit-constructor)
  Explained(Bandwidth b) : value(b.in(bytes_per_second)), unit("B/s") {}       // NOLINT(google-explicit-constructor)
  Explained(Work w) : value(w.in(flops)), unit("FLOP") {}                      // NOLINT(google-explicit-constructor)
  Explained(ComputeRate r) : value(r.in(flops_per_second)), unit("FLOP/s") {}  // NOLINT(google-explicit-constructor)
  Explained(Energy e) : value(e.in(joules)), unit("J") {}                      // NOLINT(google-explicit-constructor)
  Explained(Power p) : value(p.in(watts)), unit("W") {}                        // NOLINT(google-explicit-constructor)
  Explained(double number, std::string_view of) : value(number), unit(of) {}
};

/// A part with its values added one after another.
class PartBuilder {
 public:
  PartBuilder(std::string_view name, std::string title, std::string symbol);

  PartBuilder& with(std::string symbol, std::string meaning, Explained value, std::string_view provenance,
                    std::string source);
  /// The result of another part.
  PartBuilder& above(std::string symbol, std::string meaning, Explained value) {
    return with(std::move(symbol), std::move(meaning), value, "above", "");
  }
  PartBuilder& note(std::string text);
  [[nodiscard]] answer::ExplainedPart is(std::string equation, Explained result);

 private:
  answer::ExplainedPart part_;
};

[[nodiscard]] std::string_view origin_word(Origin origin);

using ExplainedParts = std::vector<answer::ExplainedPart>;

/// The lines of a library that were explained, by who talks and what is asked: the number of each, L_1.
using ExplainedLines = std::map<std::tuple<const cost::CollectiveModel*, const cost::CollectiveLine*>, std::string>;

/// What a GPU draws, and clocks that fall. `kernels`: where their times come from.
void explain_power(const Question& question, std::string_view provenance, const std::string& kernels,
                   ExplainedParts& parts);

/// One collective: its time, and what that is made of, unless another of the same line said so. `number` tells it from
/// others: t_1.
void explain_collective(const cost::CollectiveModel& model, primitives::CollectiveOp op, DataSize buffer,
                        const std::string& number, ExplainedLines& lines, ExplainedParts& parts);

/// Messages of gradients, their sum, and what of it sticks out.
void explain_messages(const Question& question, const Laid& laid, ExplainedParts& parts);

/// Of messages by priority.
inline constexpr std::string_view kNearestFirst =
    "the layer nearest to the input goes first: b counts from the end of backward";
struct NextForwardWords {
  std::string sum{};   // what comes before it in the equation
  bool shown = false;  // whether a part before it says how `b` comes about
};
/// What of messages is waited for in the next forward pass.
void explain_next_forward(const Question& question, const answer::Timeline& line, PartBuilder part,
                          const NextForwardWords& words, ExplainedParts& parts);

/// Gradients pushed and weights pulled, in order of time: the longest way through the stations of
/// cost/parameter_server.h.
void explain_servers(const Question& question, const Laid& laid, ExplainedParts& parts);

/// Where the time of the slowest ranks of a split goes: launches, waiting for each other, collectives in the way.
void explain_split(const Question& question, const Laid& laid, ExplainedParts& parts);

/// Weights averaged once in so many steps.
void explain_local_sgd(const Question& question, const Laid& laid, ExplainedParts& parts);

}  // namespace ddlsim::whatif
