// One job over the values of one setting: a scaling curve.
//
// Every value is a scenario of its own, resolved and predicted as if it had been typed with --set, so that a point of a
// curve is what `predict` says. Values that have no answer (a batch that no count of GPUs divides) are gaps with their
// reason; a curve without a single point is that reason.
//
// Worked example: nodes = 1, 2, 4 of a job that takes 100 ms on one server, 125 ms on two and 150 ms on four, with 800
// samples a step and server: 8,000, 12,800 and 21,333 samples/s, beside 8,000, 16,000 and 32,000 of perfect scaling.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/curve.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

struct CurveSetting {
  std::string path;
  std::vector<std::string> values;
};

/// "nodes=1,2,4", "network=25 Gb/s,100 Gb/s", "nodes=1..64:x2" (doubling), "batch=32..256:+32".
/// Errors: kInvalidArgument for no '=', an empty value, a value stated twice, a range that is none, or more than 1,000
/// values.
[[nodiscard]] Expected<CurveSetting> parse_curve(const std::string& text);

/// Errors: those of the first value, where no value has an answer.
[[nodiscard]] Expected<answer::Curve> curve(const io::Catalog& catalog, std::span<const Override> base,
                                            const CurveSetting& setting);

}  // namespace ddlsim::whatif
