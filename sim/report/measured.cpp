#include "ddlsim/report/measured.h"

#include <fmt/core.h>

#include "ddlsim/support/quantity_io.h"
#include "json.h"

namespace ddlsim::report {
namespace {

std::string share(Time part, Time whole) {
  return fmt::format("{} ({:.0f} %)", to_text(part), whole > Time::zero() ? 100.0 * (part / whole) : 0.0);
}

Json split_of(const importers::StepSplit& split) {
  return {{"compute", split.compute.in(seconds)},
          {"copies", split.copies.in(seconds)},
          {"collectives_exposed", split.collectives.in(seconds)},
          {"idle", split.idle.in(seconds)}};
}

Json collectives_of(const importers::StepSplit& split) {
  return {{"all", split.collectives_all.in(seconds)},
          {"beside_compute", split.collectives_beside.in(seconds)},
          {"waiting_for_ranks", split.collectives_waiting.in(seconds)}};
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const importers::TracedKernel& kernel) {
  Json json{{"name", kernel.name},
            {"work", name_of(importers::kGpuWorks, kernel.work)},
            {"phase", name_of(importers::kStepPhases, kernel.phase)},
            {"stream", kernel.stream},
            {"correlation", kernel.correlation},
            {"start_s", kernel.start.in(seconds)},
            {"duration_s", kernel.duration.in(seconds)},
            {"alone_s", kernel.alone.in(seconds)}};
  if (kernel.grid[0] > 0) json["grid"] = kernel.grid;
  if (kernel.block[0] > 0) json["block"] = kernel.block;
  if (kernel.bytes > DataSize::zero()) json["bytes"] = kernel.bytes.in(bytes);
  if (kernel.collective) {
    const importers::TracedCollective& collective = *kernel.collective;
    json["collective"] = {
        {"op", collective.op ? Json(std::string(name_of(primitives::kCollectiveOps, *collective.op))) : Json(nullptr)},
        {"type", collective.type},
        {"elements", or_null(collective.elements)},
        {"group", or_null(collective.group)},
        {"waiting_s", collective.waiting.in(seconds)}};
  }
  return json;
}

Json json_of(const importers::TracedRank& rank) {
  Json json{{"file", rank.file},
            {"rank", or_null(rank.rank)},
            {"gpu", rank.gpu},
            {"steps_s", Json::array()},
            {"step_time_s", rank.typical.duration.in(seconds)},
            {"split_s", split_of(rank.typical.split)},
            {"collectives_s", collectives_of(rank.typical.split)}};
  for (const importers::TracedStep& step : rank.steps) json["steps_s"].push_back(step.duration.in(seconds));
  return json;
}

}  // namespace

std::string text_of(const importers::MeasuredStep& measured) {
  const importers::TracedRank& rank = measured.rank();
  const importers::TracedStep& step = rank.typical;
  const importers::StepSplit& split = step.split;
  std::string text = fmt::format("measured step {} ({}, {}): compute {}, copies {}, collectives {}, idle {}\n",
                                 to_text(step.duration), step.name, rank.gpu.empty() ? "device not named" : rank.gpu,
                                 share(split.compute, step.duration), share(split.copies, step.duration),
                                 share(split.collectives, step.duration), share(split.idle, step.duration));
  text +=
      fmt::format("{} kernels and copies, {} between launches (median), {} copied in, CPU waiting for the GPU {}\n",
                  step.kernels.size(), to_text(step.launch_interval), to_text(step.copied_in), to_text(step.blocked));
  if (split.collectives_all > Time::zero()) {
    text += fmt::format("collectives {} in all, {} of it beside compute, {} waiting for other ranks\n",
                        to_text(split.collectives_all), to_text(split.collectives_beside),
                        to_text(split.collectives_waiting));
  }
  for (const std::string& note : measured.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string json_of(const importers::MeasuredStep& measured) {
  const importers::TracedRank& rank = measured.rank();
  const importers::TracedStep& step = rank.typical;
  Json json{{"schema", "ddlsim/measured-step/1"},
            {"step_time_s", step.duration.in(seconds)},
            {"step", step.name},
            {"steps", rank.steps.size()},
            {"gpu", rank.gpu},
            {"optimizer", rank.optimizer},
            {"rank", or_null(rank.rank)},
            {"world_size", or_null(rank.world_size)},
            {"split_s", split_of(step.split)},
            {"collectives_s", collectives_of(step.split)},
            {"launch_interval_s", step.launch_interval.in(seconds)},
            {"cpu_waiting_s", step.blocked.in(seconds)},
            {"copied_in_bytes", step.copied_in.in(bytes)},
            {"ranks", Json::array()},
            {"kernels", Json::array()},
            {"gradients", Json::array()},
            {"notes", measured.notes}};
  for (const importers::TracedRank& one : measured.ranks) json["ranks"].push_back(json_of(one));
  for (const importers::TracedKernel& kernel : step.kernels) json["kernels"].push_back(json_of(kernel));
  for (const importers::TracedGradient& gradient : step.gradients) {
    json["gradients"].push_back({{"elements", gradient.elements}, {"after", gradient.after}});
  }
  return dump(json);
}

}  // namespace ddlsim::report
