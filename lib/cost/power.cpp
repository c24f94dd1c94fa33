#include "ddlsim/cost/power.h"

#include <variant>

namespace ddlsim::cost {
namespace {

constexpr int kMostSteps = 60;
constexpr double kPrecise = 1e-13;

}  // namespace

SustainedClocks sustained_clocks(const DrawnByPass& pass, const hardware::PowerDraw& draw, Power limit) {
  const double idle = draw.idle.in(watts);
  const double room = limit.in(watts)-idle;
  const double arithmetic = pass.arithmetic.in(joules);
  const double memory = pass.memory.in(joules);
  const double compute = pass.compute.in(seconds);
  const double rest = pass.rest.in(seconds);
  if (!(compute + rest > 0)) return {1, draw.idle, pass};
  const double drawn = (arithmetic + memory) / (compute + rest);
  if (drawn <= room || !(compute > 0) || !(room > 0)) return {1, watts(idle + drawn), pass};
  // room C s^3 + (room R - M) s^2 - A rises through its one root above 1: Newton's steps from above stay above.
  const auto over = [&](double s) { return (room * compute * s + room * rest - memory) * s * s - arithmetic; };
  double s = 1;
  while (over(s) < 0) s *= 2;
  for (int i = 0; i < kMostSteps; ++i) {
    const double slope = (3 * room * compute * s + 2 * (room * rest - memory)) * s;
    const double step = over(s) / slope;
    s -= step;
    if (step <= kPrecise * s) break;
  }
  return {s, limit, pass};
}

std::optional<EnergyPerFlop> drawn_per_flop(const workload::Layer& layer, const hardware::Gpu& gpu,
                                            Precision precision) {
  if (!gpu.draw) return std::nullopt;
  const auto is = [&]<typename... Ops>() { return layer.op && (std::holds_alternative<Ops>(*layer.op) || ...); };
  const bool wide =
      is.operator()<workload::Convolution, workload::Attention, workload::GroupedAttention>() && is_cast(precision);
  return gpu.draw->at(wide ? Precision::kBf16 : multiplied_in(gpu, precision));
}

}  // namespace ddlsim::cost
