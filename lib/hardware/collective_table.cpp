#include "ddlsim/hardware/collective_table.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::hardware {
namespace {

bool positive(double value) { return std::isfinite(value) && value > 0.0; }

auto key(const primitives::CollectiveMeasurement& p) { return std::tuple(p.op, p.gpus, p.nodes); }

std::string series_name(const primitives::CollectiveMeasurement& p) {
  return std::string(name_of(primitives::kCollectiveOps, p.op)) + " of " + std::to_string(p.gpus) + " GPUs on " +
         std::to_string(p.nodes) + (p.nodes == 1 ? " node" : " nodes");
}

Expected<void> check(const primitives::CollectiveMeasurement& p) {
  const auto bad = [&](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what), p.where); };
  if (p.gpus < 1 || p.nodes < 1) return bad("a measurement needs at least one GPU and one node");
  if (p.gpus % p.nodes != 0) {
    return bad(std::to_string(p.gpus) + " GPUs do not fill " + std::to_string(p.nodes) + " nodes evenly");
  }
  if (!positive(p.size.in(bytes))) return bad("the size of a measurement is not positive");
  if (!positive(p.time.in(seconds))) return bad("the time of a measurement is not positive");
  return {};
}

}  // namespace

Expected<CollectiveTable> CollectiveTable::create(std::span<const primitives::CollectiveMeasurement> points) {
  if (points.empty()) return fail(ErrorCode::kInvalidArgument, "a table without measurements");
  std::vector<primitives::CollectiveMeasurement> sorted(points.begin(), points.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return key(a) < key(b); });
  CollectiveTable table;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const primitives::CollectiveMeasurement& p = sorted[i];
    if (auto sound = check(p); !sound) return tl::unexpected<Error>(sound.error());
    const bool first = i == 0 || key(sorted[i - 1]) != key(p);
    if (!first && !(sorted[i - 1].size < p.size)) {
      return fail(ErrorCode::kInvalidArgument, "the sizes of " + series_name(p) + " do not increase", p.where);
    }
    if (first && (i + 1 == sorted.size() || key(sorted[i + 1]) != key(p))) {
      return fail(ErrorCode::kInvalidArgument,
                  series_name(p) + " has one size; between at least two can be interpolated", p.where);
    }
    if (first) table.series_.push_back({p.op, p.gpus, p.nodes, {}, 0});
    const double size = p.size.in(bytes);
    const double time = p.time.in(seconds);
    table.series_.back().knots.push_back({size, time, portable_log2(time), 0, portable_log2(size)});
  }
  for (Series& series : table.series_) {
    auto& knots = series.knots;
    for (std::size_t k = 0; k + 1 < knots.size(); ++k) {
      knots[k].slope = (knots[k + 1].log_time - knots[k].log_time) / (knots[k + 1].log_size - knots[k].log_size);
    }
    const Knot& last = knots.back();
    const Knot& before = knots[knots.size() - 2];
    const double per_byte = (last.time - before.time) / (last.size - before.size);
    series.last_per_byte = per_byte > 0 ? per_byte : last.time / last.size;
  }
  return table;
}

std::optional<CollectiveTable::Answer> CollectiveTable::time(primitives::CollectiveOp op, std::int64_t gpus,
                                                             std::int64_t nodes, DataSize size) const {
  for (const Series& series : series_) {
    if (series.op == op && series.gpus == gpus && series.nodes == nodes) return ask(series, size.in(bytes));
  }
  return std::nullopt;
}

CollectiveTable::Answer CollectiveTable::ask(const Series& series, double size) {
  const auto& knots = series.knots;
  if (size < knots.front().size) return {seconds(knots.front().time), Provenance::kExtrapolated};
  const Knot& last = knots.back();
  if (size > last.size) {
    return {seconds(last.time + (size - last.size) * series.last_per_byte), Provenance::kExtrapolated};
  }
  const auto above = std::upper_bound(knots.begin(), knots.end(), size,
                                      [](double wanted, const Knot& knot) { return wanted < knot.size; });
  const Knot& knot = *std::prev(above);
  if (knot.size == size) return {seconds(knot.time), Provenance::kMeasured};
  const double log_time = knot.log_time + knot.slope * (portable_log2(size) - knot.log_size);
  return {seconds(portable_exp2(log_time)), Provenance::kInterpolated};
}

}  // namespace ddlsim::hardware
