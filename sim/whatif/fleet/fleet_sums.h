// What a fleet keeps of its jobs: sums without rounding, counts and histograms. Private to the room.
//
// All of it can be merged, and what comes out is the same bits however the jobs were shared out: counts and histograms
// are whole numbers, the greatest of several is the greatest of all, and sums of doubles are exact (ExactSum), each
// term being a pure function of its job. Nothing is kept for all jobs together: that is what the groups add up to.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ddlsim/cost/pai.h"
#include "ddlsim/io/hardware_files.h"
#include "ddlsim/support/exact_sum.h"
#include "ddlsim/whatif/fleet.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::whatif {

inline constexpr std::size_t kFleetGroups = workload::kArchitectures.size();

/// Counts of positive numbers in bins of 1/512 octave: the leading bits of a double.
class Histogram {
 public:
  static constexpr std::size_t kBins = std::size_t{48} << 9;  // from 2^-24 up to 2^24

  void add(double value) {
    if (counts_.empty()) counts_.resize(kBins);
    ++counts_[bin(value)];
  }
  void add_to_bin(std::size_t bin, std::int64_t count) {
    if (counts_.empty()) counts_.resize(kBins);
    counts_[bin] += count;
  }
  void add(const Histogram& other) {
    for (std::size_t i = 0; i < other.counts_.size(); ++i) {
      if (other.counts_[i] != 0) add_to_bin(i, other.counts_[i]);
    }
  }
  /// By bin; empty where nothing was added.
  [[nodiscard]] const std::vector<std::int64_t>& counts() const { return counts_; }
  [[nodiscard]] std::int64_t total() const {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts_) sum += count;
    return sum;
  }
  /// The values below which 1 %, 2 %, ..., 100 % of the numbers lie, at the middle of their bins.
  [[nodiscard]] std::vector<double> percentiles() const {
    std::vector<double> values;
    const std::int64_t all = total();
    std::int64_t seen = 0;
    std::size_t at = 0;
    for (int percent = 1; percent <= 100 && all > 0; ++percent) {
      const auto wanted = static_cast<std::int64_t>(std::ceil(percent / 100.0 * static_cast<double>(all)));
      while (at < kBins && seen + counts_[at] < std::max<std::int64_t>(wanted, 1)) seen += counts_[at++];
      values.push_back(value_of(std::min(at, kBins - 1)));
    }
    return values;
  }

 private:
  static constexpr int kShift = 52 - 9;
  static constexpr std::uint64_t kLowest = std::uint64_t{1023 - 24} << 9;  // 2^-24

  static std::size_t bin(double value) {
    const std::uint64_t leading = std::bit_cast<std::uint64_t>(value) >> kShift;
    return static_cast<std::size_t>(std::clamp(leading, kLowest, kLowest + kBins - 1) - kLowest);
  }
  static double value_of(std::size_t index) {
    // A speedup of exactly 1 is the common case and must read as 1.
    const double low = std::bit_cast<double>((kLowest + index) << kShift);
    if (low == 1.0) return 1.0;
    return (low + std::bit_cast<double>((kLowest + index + 1) << kShift)) / 2;
  }

  std::vector<std::int64_t> counts_;
};

/// Shares of the step, over jobs and weighted by cNodes: input, compute, memory, communication.
struct ShareSums {
  std::array<ExactSum, 4> by_job;
  std::array<ExactSum, 4> by_cnode;
  std::int64_t jobs = 0;
  std::int64_t cnodes = 0;
  std::int64_t mostly_communicating = 0;  // over 80 % of the step

  void add(const std::array<double, 4>& shares, std::int64_t job_cnodes) {
    for (std::size_t i = 0; i < shares.size(); ++i) {
      by_job[i].add(shares[i]);
      by_cnode[i].add(shares[i] * static_cast<double>(job_cnodes));
    }
    ++jobs;
    cnodes += job_cnodes;
    mostly_communicating += shares[3] > 0.8 ? 1 : 0;
  }
  void add(const ShareSums& other) {
    for (std::size_t i = 0; i < by_job.size(); ++i) {
      by_job[i].add(other.by_job[i]);
      by_cnode[i].add(other.by_cnode[i]);
    }
    jobs += other.jobs;
    cnodes += other.cnodes;
    mostly_communicating += other.mostly_communicating;
  }
};

/// Speedups of a group's jobs under one change.
struct SpeedupSums {
  Histogram histogram;
  ExactSum sum;
  ExactSum weighted_sum;  // by cNodes
  double largest = 0;
  std::int64_t jobs = 0;
  std::int64_t cnodes = 0;
  std::int64_t faster = 0;
  std::int64_t too_large = 0;

  void add(double speedup, std::int64_t job_cnodes) {
    histogram.add(speedup);
    sum.add(speedup);
    weighted_sum.add(speedup * static_cast<double>(job_cnodes));
    largest = std::max(largest, speedup);
    ++jobs;
    cnodes += job_cnodes;
    if (speedup > 1.0) ++faster;
  }
  void add(const SpeedupSums& other) {
    histogram.add(other.histogram);
    sum.add(other.sum);
    weighted_sum.add(other.weighted_sum);
    largest = std::max(largest, other.largest);
    jobs += other.jobs;
    cnodes += other.cnodes;
    faster += other.faster;
    too_large += other.too_large;
  }
};

enum class Port { kNone, kAllReduceLocal, kAllReduceLocalPerCnode, kAllReduceCluster };

/// One change of the study, and what it did to each group.
struct FleetVariant {
  std::string name;
  cost::PaiSetting setting;
  Port port = Port::kNone;
  std::array<SpeedupSums, kFleetGroups> sums;

  /// Of all groups; nothing for a port, which applies to one group.
  [[nodiscard]] SpeedupSums all() const {
    SpeedupSums total;
    if (port == Port::kNone) {
      for (const SpeedupSums& group : sums) total.add(group);
    }
    return total;
  }
};

struct Fleet::State {
  io::StudySetting study;
  cost::PaiSetting setting;
  std::array<ShareSums, kFleetGroups> shares;
  std::vector<FleetVariant> variants;

  [[nodiscard]] ShareSums all() const {
    ShareSums total;
    for (const ShareSums& group : shares) total.add(group);
    return total;
  }
  [[nodiscard]] const SpeedupSums* find(std::string_view change, workload::Architecture architecture) const {
    const auto variant =
        std::find_if(variants.begin(), variants.end(), [&](const auto& v) { return v.name == change; });
    return variant == variants.end() ? nullptr : &variant->sums[static_cast<std::size_t>(architecture)];
  }
  [[nodiscard]] std::optional<double> metric(std::string_view name) const;
};

}  // namespace ddlsim::whatif
