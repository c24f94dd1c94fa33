#include "predict/change_spread.h"

namespace ddlsim::whatif {
namespace {

using hardware::ChangeKind;

constexpr double kUnlearnt = 0.3;  // where no software profile is at hand
// Of the same sum by another library or framework: DDP beside Horovod in bench/accuracy/cases/raysgd_p3dn.csv, the 90th
// percentile of ten pairs, 0.123, over 1.645.
constexpr double kOtherExchange = 0.075;

double of_change(const Scenario& scenario, ChangeKind kind) {
  if (scenario.software == nullptr) return kUnlearnt;
  for (const hardware::ChangeSpread& one : scenario.software->changes) {
    if (one.change == kind) return one.deviation;
  }
  return kUnlearnt;
}

/// Whether one side's kernels are another's code: fused or not, of another age, with images that lie otherwise.
bool runs_other_code(const Scenario& a, const Scenario& b) {
  return (a.software == nullptr) != (b.software == nullptr) || a.software_fused.get() != b.software_fused.get() ||
         a.software_year.get() != b.software_year.get() || a.software_attention.get() != b.software_attention.get() ||
         a.software_layout.get() != b.software_layout.get() ||
         a.software_operators.get() != b.software_operators.get() ||
         a.software_optimizer.get() != b.software_optimizer.get() || a.fusion != b.fusion;
}

/// Whether gradients are summed by another's code: its library, or the messages that it makes of them.
bool exchanges_otherwise(const Scenario& a, const Scenario& b) {
  return a.collective.kind.get() != b.collective.kind.get() ||
         plan::grouping_of(a.strategy) != plan::grouping_of(b.strategy);
}

}  // namespace

double variance_of_kinds(const Scenario& a, const Scenario& b, double gpu) {
  double sum = 0;
  const auto add = [&](ChangeKind kind, double share) {
    sum += share * share * of_change(a, kind) * of_change(a, kind);
  };
  if (a.cluster.node.gpu.id != b.cluster.node.gpu.id) add(ChangeKind::kGpu, gpu);
  if (a.model->name != b.model->name) add(ChangeKind::kGpu, gpu);
  if (a.precision != b.precision || (sum == 0 && runs_other_code(a, b))) add(ChangeKind::kPrecision, gpu);
  // Of a layer's three products one gives way to others.
  if (plan::adapters_of(a) != plan::adapters_of(b)) add(ChangeKind::kPrecision, gpu / 3);
  const bool apart = a.cluster.gpus() > 1 && b.cluster.gpus() > 1;
  if (apart && a.strategy.kind != b.strategy.kind) {
    add(ChangeKind::kStrategy, 1);
  } else if (apart && exchanges_otherwise(a, b)) {
    sum += kOtherExchange * kOtherExchange;
  }
  return sum;
}

}  // namespace ddlsim::whatif
