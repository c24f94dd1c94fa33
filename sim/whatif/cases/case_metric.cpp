#include "cases/case_metric.h"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "cases/case_degrees.h"
#include "cases/case_text.h"
#include "cases/language_case.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/plural.h"

namespace ddlsim::whatif {
namespace {

/// The milliseconds of some parts of a step.
double part_of(const answer::Prediction& prediction, std::initializer_list<std::string_view> names) {
  Time sum;
  for (const answer::Segment& segment : prediction.critical_path) {
    if (std::find(names.begin(), names.end(), segment.name) != names.end()) sum += segment.time;
  }
  return sum.in(milliseconds);
}

/// Clicks that MLPerf's DLRM-DCNv2 evaluates for each that it trains with: a day of Criteo, 89,137,319, after every
/// twentieth of an epoch (mlcommons/training_results_v5.1 hugectr train.py). The throughput that it logs counts their
/// time: one submission's 23.02 M/s with eight B200 are 25.96 M/s between evaluations.
double evaluated_per_trained(const io::Case& one) {
  const auto epoch = count_of(one, "train_samples");
  if (!has(lower_case(one.model), "dcnv2") || !epoch || *epoch == 0) return 0;
  return 89137319.0 / (0.05 * static_cast<double>(*epoch));
}

/// Tokens in one sample, as the source counts them where it says so, the encoder's of a model that it gives by its
/// sizes; of a translator both languages count. Nothing: its samples have none.
std::optional<std::int64_t> tokens_per_sample(const io::Case& one, const workload::Model& model) {
  if (const auto counted = count_of(one, "tokens_per_sample"); counted && *counted > 0) return *counted;
  if (const auto sequence = count_of(one, "seq_len"); sequence && one.said("hidden")) return *sequence;
  for (const std::string_view wanted : {"tokens", "sequence"}) {
    for (const auto& [name, size] : model.dimensions) {
      if (name == wanted) return size;
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_pass(io::CaseMetric metric) {
  return metric == io::CaseMetric::kForwardMilliseconds || metric == io::CaseMetric::kGradientMilliseconds;
}

bool is_rate(io::CaseMetric metric) {
  switch (metric) {
    case io::CaseMetric::kImagesPerSecond:
    case io::CaseMetric::kSamplesPerSecond:
    case io::CaseMetric::kTokensPerSecond:
    case io::CaseMetric::kTflopsPerGpu:
    case io::CaseMetric::kBusBandwidth: return true;
    case io::CaseMetric::kStepMilliseconds:
    case io::CaseMetric::kForwardMilliseconds:
    case io::CaseMetric::kGradientMilliseconds:
    case io::CaseMetric::kLatencyMicroseconds: return false;
  }
  return false;
}

Expected<double> metric_of(const io::Case& one, const Scenario& scenario, const answer::Prediction& prediction,
                           Time step) {
  const double faster = prediction.step_time / step;
  const double samples = prediction.throughput_samples_per_second * faster;
  switch (one.metric) {
    case io::CaseMetric::kImagesPerSecond:
    case io::CaseMetric::kSamplesPerSecond: {
      const double forward = part_of(prediction, {"forward"}) / prediction.step_time.in(milliseconds);
      return samples / (1 + evaluated_per_trained(one) * forward);
    }
    case io::CaseMetric::kTokensPerSecond: {
      const auto tokens = tokens_per_sample(one, *scenario.model);
      if (tokens) return samples * static_cast<double>(*tokens);
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{} counts {}, not tokens", scenario.model->name, plural(scenario.model->sample)));
    }
    case io::CaseMetric::kStepMilliseconds: return step.in(milliseconds);
    case io::CaseMetric::kForwardMilliseconds: return part_of(prediction, {"forward"}) / faster;
    case io::CaseMetric::kGradientMilliseconds: return part_of(prediction, {"forward", "backward"}) / faster;
    case io::CaseMetric::kTflopsPerGpu:
      if (gives_sizes(one) && one.said("hidden")) {
        const auto flops =
            published_flops(one, prediction.throughput_samples_per_second * prediction.step_time.in(seconds));
        if (!flops) return tl::unexpected<Error>(flops.error());
        return flops->in(teraflops) / step.in(seconds) / static_cast<double>(scenario.cluster.gpus());
      }
      {
        // A source that prints HFU counts what is computed again.
        const double again = one.said("hfu_printed") && prediction.mfu > 0 ? prediction.hfu / prediction.mfu : 1.0;
        return workload::features_at(*scenario.model, scenario.batch, scenario.precision).flops.in(teraflops)*samples /
               static_cast<double>(scenario.cluster.gpus() * scenario.batch) * again;
      }
    case io::CaseMetric::kBusBandwidth:
    case io::CaseMetric::kLatencyMicroseconds: break;
  }
  return fail(ErrorCode::kUnsupported, fmt::format("a training step has no {}", name_of(io::kCaseMetrics, one.metric)));
}

}  // namespace ddlsim::whatif
