// What would shorten a step most. Private to the room.
#pragma once

#include <string>

#include "predict/correction.h"
#include "predict/question.h"

namespace ddlsim::whatif {

struct Bottleneck {
  std::string name;
  Time gain{};  // what the step is shorter by when it is 10 % faster
};

/// What a part of a step gives at most where it is 10 % faster.
[[nodiscard]] Time gain_of_faster(Time part);

/// The bubble, where a pipeline stands for more than half of its step; else the resource that, 10 % faster, shortens
/// the step most. What it takes by itself bounds what it can give, so resources are asked in that order and most are
/// never asked. Where messages stick out for more than half of a step and no link alone helps, for they bound each
/// other (PCIe and the host's memory), it is the busiest of them. `runs`: as the scenario's own have it beside a loader
/// that works apart, its gain over runs.parts; null: as the model has it.
[[nodiscard]] Bottleneck bottleneck_of(const Question& question, const Laid& laid, const RunCorrection* runs);

}  // namespace ddlsim::whatif
