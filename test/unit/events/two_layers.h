// Two layers that the tests of the step's two fidelities share.
#pragma once

#include <vector>

#include "ddlsim/step/step.h"

namespace ddlsim::test {

/// Two layers of 1 and 2 ms forward, twice that backward, at 1 TFLOP/s; one 10 MB gradient each.
inline workload::Model two_layers() {
  workload::Model model;
  for (const double gflop : {1.0, 2.0}) {
    workload::Layer layer;
    layer.name = gflop < 1.5 ? "first" : "second";
    layer.forward_work = gigaflops(gflop);
    layer.backward_work = gigaflops(2 * gflop);
    layer.parameters = {2'500'000};
    model.layers.push_back(layer);
  }
  model.totals = workload::total(model.layers).value();
  return model;
}

inline step::StepSetting setting() {
  step::StepSetting s;
  s.device = {.compute = teraflops_per_second(1), .memory = terabytes_per_second(1)};
  s.activation = bytes(4);
  return s;
}

inline std::vector<plan::Message> one_per_tensor() {
  return {{.size = megabytes(10), .count = 1, .after = 1}, {.size = megabytes(10), .count = 1, .after = 0}};
}

}  // namespace ddlsim::test
