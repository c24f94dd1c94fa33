#include <fmt/core.h>

#include "ddlsim/cost/power.h"
#include "ddlsim/support/quantity_io.h"
#include "explain/explain_parts.h"

namespace ddlsim::whatif {

void explain_power(const Question& question, std::string_view provenance, const std::string& kernels,
                   ExplainedParts& parts) {
  if (!question.layers || question.layers->clocks.drawn <= Power::zero()) return;
  const cost::SustainedClocks& clocks = question.layers->clocks;
  const hardware::Gpu& gpu = question.scenario.cluster.node.gpu;
  PartBuilder part("power", "what a GPU draws while kernels run; clocks fall where it would be over the limit", "w");
  part.with("w_idle", "where none runs", gpu.draw->idle, "measured", fmt::format("hardware/gpus/{}.yaml", gpu.id))
      .with("A", "FLOPs of a pass, at the clocks of short bursts", clocks.pass.arithmetic, "analytic", "cost/power.h")
      .with("M", "bytes that it reads and writes", clocks.pass.memory, "analytic", "cost/power.h")
      .with("C", "its kernels bound by arithmetic, at those clocks, software included", clocks.pass.compute, provenance,
            kernels)
      .with("R", "its other kernels", clocks.pass.rest, provenance, kernels)
      .with("s", fmt::format("1 / clocks: the least for which w is at most {}", to_text(gpu.tdp)), clocks.slowdown,
            "analytic", "cost/power.h");
  parts.push_back(part.is("w_idle + (A / (s * s) + M) / (s * C + R)", clocks.drawn));
}

}  // namespace ddlsim::whatif
