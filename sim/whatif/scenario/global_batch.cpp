#include "scenario/global_batch.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "scenario/settings.h"

namespace ddlsim::whatif {
namespace {

tl::unexpected<Error> bad_samples(const Override& global, std::string what, std::string note) {
  return at(Error{ErrorCode::kInvalidArgument, std::move(what), {}, {std::move(note)}, {}}, global);
}

/// Of a share, up to `most`.
std::int64_t largest_divisor(std::int64_t share, std::int64_t most) {
  std::int64_t largest = 1;
  for (std::int64_t d = 1; d * d <= share; ++d) {
    if (share % d != 0) continue;
    for (const std::int64_t divisor : {d, share / d}) {
      if (divisor <= most) largest = std::max(largest, divisor);
    }
  }
  return largest;
}

/// The nearest numbers of samples that come out even: "1984 or 2048".
std::string nearest_multiples(std::int64_t samples, std::int64_t of) {
  const std::int64_t below = samples / of * of;
  const std::string above = std::to_string(below + of);
  return below == 0 ? above : fmt::format("{} or {}", below, above);
}

/// "1, 2, 4, 8, 16, 32": what divides a share, the largest that are named.
std::string named_divisors(std::int64_t share, std::int64_t most) {
  constexpr std::size_t kNamed = 8;
  constexpr std::int64_t kTried = 1 << 16;
  std::vector<std::string> names;
  for (std::int64_t d = std::min({share, most, kTried}); d > 0 && names.size() < kNamed; --d) {
    if (share % d == 0) names.push_back(std::to_string(d));
  }
  std::reverse(names.begin(), names.end());
  return join(names);
}

/// The batch that nobody states. Errors: stated passes that do not divide a replica's share.
Expected<void> take_batch(Scenario& scenario, const StatedSamples& stated, std::int64_t share) {
  const std::int64_t usual = scenario.batch;
  if (stated.accumulation == nullptr) {
    scenario.batch = largest_divisor(share, usual);
  } else if (const std::int64_t passes = scenario.strategy.accumulation; share % passes == 0) {
    scenario.batch = share / passes;
  } else {
    return bad_samples(*stated.global,
                       fmt::format("the {} samples of a replica are not a multiple of strategy.accumulation {}",
                                   to_text(share), to_text(passes)),
                       "state passes that divide them, or leave strategy.accumulation out");
  }
  if (scenario.batch != usual) scenario.batch_taken = scenario.batch;
  return {};
}

}  // namespace

Expected<void> set_global_batch(Scenario& scenario, const StatedSamples& stated) {
  scenario.states_global_batch = stated.global != nullptr;
  if (stated.global == nullptr) return {};
  const auto samples = parse_count(stated.global->value, {1, std::int64_t{1} << 40});
  if (!samples) return at(samples.error(), *stated.global);
  // Degrees that leave no whole replica are the plan's to refuse, which knows the legal ones.
  const std::int64_t parts = scenario.parallel.tensor * scenario.parallel.context * scenario.parallel.pipeline;
  if (scenario.cluster.gpus() % parts != 0) return {};
  const std::int64_t replicas = std::max<std::int64_t>(plan::replicas_of(scenario), 1);
  const bool even = *samples % replicas == 0;
  const std::int64_t share = *samples / replicas;
  if (stated.batch == nullptr) {
    if (!even) {
      return bad_samples(
          *stated.global,
          fmt::format("{} samples do not spread evenly over {} replicas", to_text(*samples), to_text(replicas)),
          fmt::format("state {}, or GPUs or degrees with other replicas", nearest_multiples(*samples, replicas)));
    }
    if (auto taken = take_batch(scenario, stated, share); !taken) return taken;
  }
  const std::int64_t pass = scenario.batch * replicas;
  if (*samples % pass != 0) {
    return bad_samples(
        *stated.global,
        fmt::format("{} samples are not a multiple of batch {} x {} replicas = {}", to_text(*samples),
                    to_text(scenario.batch), to_text(replicas), to_text(pass)),
        even
            ? fmt::format("choose another batch (the micro-batch): what divides a replica's {}, as {}, or none for the "
                          "largest up to the model's own {}; or other degrees",
                          to_text(share), named_divisors(share, scenario.batch), to_text(scenario.model->batch))
            : fmt::format("state {}, or GPUs or degrees with other replicas", nearest_multiples(*samples, pass)));
  }
  if (stated.accumulation != nullptr && scenario.strategy.accumulation != *samples / pass) {
    return bad_samples(*stated.global,
                       fmt::format("{} samples are {} passes, but strategy.accumulation is {}", to_text(*samples),
                                   *samples / pass, to_text(scenario.strategy.accumulation)),
                       "state one of them");
  }
  scenario.strategy.accumulation = *samples / pass;
  return {};
}

}  // namespace ddlsim::whatif
