#include "flat.h"

#include <fmt/core.h>

#include <string>

namespace ddlsim::report {

Table flat_table() {
  return Table({"name",
                "speedup",
                "step_time_s",
                "throughput_samples_per_s",
                "scaling_efficiency",
                "compute_s",
                "memory_s",
                "launch_s",
                "input_exposed_s",
                "communication_exposed_s",
                "communication_s",
                "memory_bytes_per_gpu",
                "fits",
                "mfu",
                "bottleneck",
                "provenance",
                "input_needed_samples_per_s",
                "loader_samples_per_s",
                "loader_bound_by",
                "price_usd_per_h",
                "steps",
                "time_to_train_s",
                "cost_usd",
                "energy_j",
                "co2_g",
                "goodput",
                "speedup_90_low",
                "speedup_90_high",
                "probability_faster",
                "bubble_s",
                "other_s",
                "host_update_s",
                "unexplained_s"});
}

void add_flat(Table& table, const answer::Alternative& one) {
  const answer::Prediction& p = one.prediction;
  const answer::Breakdown& b = p.breakdown;
  const auto number = [](double value) { return fmt::format("{}", value); };
  table.add({one.name,
             number(one.speedup),
             number(p.step_time.in(seconds)),
             number(p.throughput_samples_per_second),
             number(p.scaling_efficiency),
             number(b.compute.in(seconds)),
             number(b.memory.in(seconds)),
             number(b.launch.in(seconds)),
             number(b.input_exposed.in(seconds)),
             number(b.communication_exposed.in(seconds)),
             number(b.communication.in(seconds)),
             number(p.memory_per_gpu.in(bytes)),
             p.fits ? (*p.fits ? "true" : "false") : "",
             number(p.mfu),
             p.bottleneck,
             std::string(to_string(p.provenance)),
             number(p.input.needed_samples_per_second),
             p.input.samples_per_second && !p.input.bound_by.empty() ? number(*p.input.samples_per_second) : "",
             p.input.bound_by,
             p.price ? number(p.price->in(dollars_per_hour)) : "",
             p.training ? std::to_string(p.training->steps) : "",
             p.training ? number(p.training->time().in(seconds)) : "",
             p.training && p.training->cost ? number(p.training->cost->in(dollars)) : "",
             p.training ? number(p.training->energy.in(joules)) : "",
             p.training && p.training->carbon ? number(p.training->carbon->in(grams)) : "",
             p.goodput ? number(p.goodput->share) : "",
             number(one.speedup_interval_90.first),
             number(one.speedup_interval_90.second),
             number(one.probability_faster),
             number(b.bubble.in(seconds)),
             number(b.other.in(seconds)),
             number(b.host_update.in(seconds)),
             number(b.unexplained.in(seconds))});
}

}  // namespace ddlsim::report
