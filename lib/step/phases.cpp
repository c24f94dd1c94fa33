#include "ddlsim/step/phases.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "folded.h"
#include "mean.h"

namespace ddlsim::step {
namespace {

using answer::Breakdown;
using answer::Timeline;

constexpr int kPhases = 16;  // phases.h

/// A segment that only one of them has takes no time in the other.
void mix_paths(std::vector<answer::Segment>& path, const std::vector<answer::Segment>& other, double share) {
  for (answer::Segment& segment : path) segment.time = segment.time * (1.0 - share);
  auto at = path.begin();  // behind what was met last
  for (const answer::Segment& more : other) {
    const auto same =
        std::find_if(path.begin(), path.end(), [&](const answer::Segment& one) { return one.name == more.name; });
    if (same == path.end()) {
      at = path.insert(at, {more.name, more.time * share});
    } else {
      same->time += more.time * share;
      at = same;
    }
    ++at;
  }
}

}  // namespace

void mix(Timeline& line, const Timeline& other, double share) {
  const auto with = [share](Time& here, Time there) { here = here * (1.0 - share) + there * share; };
  for (const auto part : {&Breakdown::compute, &Breakdown::memory, &Breakdown::launch, &Breakdown::input_exposed,
                          &Breakdown::communication, &Breakdown::communication_exposed, &Breakdown::bubble,
                          &Breakdown::other, &Breakdown::host_update}) {
    with(line.parts.*part, other.parts.*part);
  }
  for (const auto section : {&Timeline::step, &Timeline::forward, &Timeline::backward, &Timeline::earlier_passes,
                             &Timeline::copying, &Timeline::contention, &Timeline::waiting, &Timeline::update,
                             &Timeline::loading, &Timeline::starved, &Timeline::decoding}) {
    with(line.*section, other.*section);
  }
  mix_paths(line.critical_path, other.critical_path, share);
}

std::vector<double> phases() {
  std::vector<double> all;
  for (int k = 0; k < kPhases; ++k) all.push_back((k + 0.5) / kPhases);
  return all;
}

bool wakes_in_cycles(const cost::PricedStep& step) {
  return step.plan->folds && step.plan->exchange.fusion && step.groups.front();
}

Timeline schedule_at(const cost::PricedStep& step, double phase, answer::Detail detail) {
  return schedule_folded(step, detail, phase);
}

Timeline mean_of(std::vector<Timeline> lines) {
  Timeline mean = lines.front();
  for (std::size_t i = 1; i < lines.size(); ++i) mix(mean, lines[i], 1.0 / static_cast<double>(i + 1));
  const auto nearest = std::min_element(lines.begin(), lines.end(), [&](const Timeline& a, const Timeline& b) {
    return std::abs((a.step - mean.step).in(seconds)) < std::abs((b.step - mean.step).in(seconds));
  });
  mean.backward_kernels = std::move(nearest->backward_kernels);
  mean.sent = std::move(nearest->sent);
  return mean;
}

}  // namespace ddlsim::step
