// Where the time of the slowest ranks of a split goes, as equations: every moment of theirs is in one of the parts
// (step/schedule.h), so the parts add up to when they have updated their weights.
#include <fmt/core.h>

#include <utility>

#include "ddlsim/cost/straggler.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/whatif/explain.h"
#include "explain/explain_parts.h"

namespace ddlsim::whatif {
namespace {

constexpr const char* kSchedule = "step/schedule.h";

void explain_bubble(const plan::StepPlan& plan, const answer::Timeline& line, Time end, ExplainedParts& parts) {
  const std::size_t stages = plan.classes.size();
  PartBuilder part("bubble", fmt::format("{} waits for other stages", plan.classes[line.rank_class].role), "T_bubble");
  part.with("E", "it has updated its weights", end, "analytic", kSchedule)
      .with("F", "its forward passes, all of them", line.forward, "analytic", kSchedule)
      .with("G", "its backward passes, all of them", line.backward, "analytic", kSchedule)
      .with("C", "copying gradients into buckets and back", line.copying, "analytic", "plan/messages.h")
      .above("T_exposed", "communication that kernels do not hide", line.parts.communication_exposed)
      .with("U", "weight update", line.update, "analytic", kSchedule);
  const bool on_host = line.parts.host_update > Time::zero();
  if (on_host) part.above("H", "weight update on the CPU", line.parts.host_update);
  if (plan.schedule == plan::PipelineSchedule::kOneForwardOneBackward ||
      plan.schedule == plan::PipelineSchedule::kGpipe) {
    part.note(
        fmt::format("of stages that are alike it is {} / {} of F + G (plan/order.h)", stages - 1, plan.micro_batches));
  }
  parts.push_back(
      part.is(on_host ? "E - (F + G + C + T_exposed + U + H)" : "E - (F + G + C + T_exposed + U)", line.parts.bubble));
}

}  // namespace

void explain_split(const Question& question, const Laid& laid, ExplainedParts& parts) {
  const plan::StepPlan& plan = *question.plan;
  const answer::Timeline& line = laid.line;
  const Scenario& scenario = question.scenario;
  const auto passes = static_cast<double>(plan::passes_of(plan::pipeline_of(plan)));
  const cost::PricedClass& all = laid.step->classes[line.rank_class];

  PartBuilder launch("launch", "what the GPU waits for the CPU: launches, and work on samples", "T_launch");
  launch.with("P", "passes of a step", passes, "stated", "")
      .with("F", "forward passes, all of them", line.forward, "analytic", kSchedule)
      .with("G", "backward passes, all of them", line.backward, "analytic", kSchedule)
      .with("A", "kernels of a pass bound by arithmetic, software included", all.compute, "analytic", "compute")
      .with("M", "kernels of a pass bound by memory, software included", all.memory, "analytic", "memory-bound");
  answer::ExplainedPart launched = launch.is("F + G - P * (A + M)", line.parts.launch);
  if (check_equations({launched})) parts.push_back(std::move(launched));

  PartBuilder waiting("other", "a synchronous step waits for the slowest GPU", "T_wait");
  const std::int64_t gpus = scenario.cluster.gpus();
  waiting.with("F", "forward passes, all of them", line.forward, "analytic", kSchedule)
      .with("G", "backward passes, all of them", line.backward, "analytic", kSchedule)
      .with("P", "passes of a step", passes, "stated", "")
      .with("j", "standard deviation of one GPU's step", scenario.jitter.get(), origin_word(scenario.jitter.origin()),
            "jitter")
      .with("E", fmt::format("largest of {} standard normal values, on average", gpus), cost::expected_largest(gpus),
            "analytic", "cost/straggler.h");
  answer::ExplainedPart waited = waiting.is("(F + G) / sqrt(P) * j * E", line.waiting);
  if (check_equations({waited})) parts.push_back(std::move(waited));
  PartBuilder other("other", "waiting for others, and kernels slowed by collectives", "T_other");
  other.above("T_wait", "waiting for the slowest", line.waiting);
  other.with("contention", "multiprocessors and memory that running collectives take", line.contention, "analytic",
             kSchedule);
  const Time on_host = line.parts.host_update;
  if (on_host > Time::zero()) {
    other.with("H", "weight update on the CPU, over its server's memory", on_host, "analytic", kSchedule);
  }
  parts.push_back(
      other.is(on_host > Time::zero() ? "T_wait + contention + H" : "T_wait + contention", line.parts.other));

  PartBuilder exposed("exposed", "communication that kernels do not hide", "T_exposed");
  exposed
      .with("I", "collectives between kernels that need them at once, all passes",
            line.parts.communication_exposed - line.kept_waiting, "analytic", kSchedule)
      .with("W", "waiting for messages that were sent beside kernels", line.kept_waiting, "analytic", kSchedule);
  parts.push_back(exposed.is("I + W", line.parts.communication_exposed));

  if (line.parts.bubble > Time::zero()) {
    const Time end = line.step - line.parts.input_exposed - line.waiting - line.contention - line.decoding;
    explain_bubble(plan, line, end, parts);
  }
}

}  // namespace ddlsim::whatif
