#include "ddlsim/whatif/fleet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ddlsim/io/csv.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

using workload::Architecture;

constexpr std::size_t kArchitectureCount = workload::kArchitectures.size();
constexpr std::size_t kGroupCount = kArchitectureCount + 1;  // and "all", the last
constexpr std::size_t kAll = kArchitectureCount;
constexpr std::size_t kMostErrors = 20;
constexpr std::int64_t kMaxCnodes = 1'000'000'000;

std::size_t group_of(Architecture architecture) { return static_cast<std::size_t>(architecture); }

std::string group_name(std::size_t group) {
  return group == kAll ? "all" : std::string(workload::kArchitectures.at(group).first);
}

/// Counts of positive numbers in bins of 1/512 octave: the leading bits of a double.
class Histogram {
 public:
  void add(double value) {
    if (counts_.empty()) counts_.resize(kBins);
    ++counts_[bin(value)];
    ++total_;
  }
  /// The value below which `share` of the numbers lie, at the middle of its bin.
  [[nodiscard]] double quantile(double share) const {
    if (total_ == 0) return 1;
    const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(total_)));
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= std::max<std::int64_t>(wanted, 1)) return value_of(i);
    }
    return value_of(kBins - 1);
  }

 private:
  static constexpr int kShift = 52 - 9;
  static constexpr std::uint64_t kLowest = std::uint64_t{1023 - 24} << 9;  // 2^-24
  static constexpr std::size_t kBins = std::size_t{48} << 9;               // up to 2^24

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
  std::int64_t total_ = 0;
};

struct ShareSums {
  answer::TimeShares by_job;
  answer::TimeShares by_cnode;
  std::int64_t jobs = 0;
  std::int64_t cnodes = 0;
  std::int64_t mostly_communicating = 0;  // over 80 % of the step

  void add(const answer::TimeShares& shares, std::int64_t job_cnodes) {
    const auto accumulate = [&](answer::TimeShares& sums, double weight) {
      sums.input += shares.input * weight;
      sums.compute += shares.compute * weight;
      sums.memory += shares.memory * weight;
      sums.communication += shares.communication * weight;
    };
    accumulate(by_job, 1.0);
    accumulate(by_cnode, static_cast<double>(job_cnodes));
    ++jobs;
    cnodes += job_cnodes;
    if (shares.communication > 0.8) ++mostly_communicating;
  }
};

struct SpeedupSums {
  Histogram histogram;
  double sum = 0;
  double weighted_sum = 0;
  double largest = 0;
  std::int64_t jobs = 0;
  std::int64_t cnodes = 0;
  std::int64_t faster = 0;
  std::int64_t too_large = 0;

  void add(double speedup, std::int64_t job_cnodes) {
    histogram.add(speedup);
    sum += speedup;
    weighted_sum += speedup * static_cast<double>(job_cnodes);
    largest = std::max(largest, speedup);
    ++jobs;
    cnodes += job_cnodes;
    if (speedup > 1.0) ++faster;
  }
};

enum class Port { kNone, kAllReduceLocal, kAllReduceLocalPerCnode, kAllReduceCluster };

/// One change of the study, and what it did to each group.
struct Variant {
  std::string name;
  cost::PaiSetting setting;
  Port port = Port::kNone;
  std::array<SpeedupSums, kGroupCount> sums;
};

cost::PaiSetting base_setting(const io::StudySetting& setting) {
  return {.peak = setting.peak,
          .memory = setting.memory_bandwidth,
          .pcie = setting.pcie,
          .nvlink = setting.nvlink,
          .network = setting.network,
          .efficiency = plan::Efficiency::uniform(setting.efficiency),
          .gpus_per_server = setting.gpus_per_server};
}

/// The sweeps of the paper: network 10/25/100 Gb/s, PCIe 10/50 GB/s, GPU 8/16/32/64 TFLOP/s, memory 1/2/4 TB/s, ports.
std::vector<Variant> make_variants(const cost::PaiSetting& base) {
  std::vector<Variant> variants;
  const auto add = [&](std::string name, Port port, auto change) {
    Variant variant;
    variant.name = std::move(name);
    variant.setting = base;
    variant.port = port;
    change(variant.setting);
    variants.push_back(std::move(variant));
  };
  for (const double rate : {10.0, 25.0, 100.0}) {
    add(fmt::format("network = {} Gb/s", rate), Port::kNone,
        [&](cost::PaiSetting& s) { s.network = gigabits_per_second(rate); });
  }
  for (const double rate : {10.0, 50.0}) {
    add(fmt::format("pcie = {} GB/s", rate), Port::kNone,
        [&](cost::PaiSetting& s) { s.pcie = gigabytes_per_second(rate); });
  }
  for (const double rate : {8.0, 16.0, 32.0, 64.0}) {
    add(fmt::format("gpu.peak = {} TFLOP/s", rate), Port::kNone,
        [&](cost::PaiSetting& s) { s.peak = teraflops_per_second(rate); });
  }
  for (const double rate : {1.0, 2.0, 4.0}) {
    add(fmt::format("gpu.memory_bandwidth = {} TB/s", rate), Port::kNone,
        [&](cost::PaiSetting& s) { s.memory = terabytes_per_second(rate); });
  }
  const auto unchanged = [](cost::PaiSetting&) {};
  add("port to allreduce-local, throughput", Port::kAllReduceLocal, unchanged);
  add("port to allreduce-local, per cNode", Port::kAllReduceLocalPerCnode, unchanged);
  add("port to allreduce-cluster, throughput", Port::kAllReduceCluster, unchanged);
  return variants;
}

/// The speedup of a job under a variant; nothing when the job is not one it applies to.
std::optional<double> speedup(const cost::PaiJob& job, Time base, const Variant& variant) {
  if (variant.port == Port::kNone) return base / pai_step(job, variant.setting).no_overlap();
  if (job.architecture != Architecture::kPsWorker) return std::nullopt;
  const cost::PaiJob ported = variant.port == Port::kAllReduceCluster
                                  ? cost::ported_to_allreduce_cluster(job)
                                  : cost::ported_to_allreduce_local(job, variant.setting);
  const double per_cnode = base / pai_step(ported, variant.setting).no_overlap();
  if (variant.port == Port::kAllReduceLocalPerCnode) return per_cnode;
  return per_cnode * static_cast<double>(ported.cnodes) / static_cast<double>(job.cnodes);
}

answer::TimeShares normalized(answer::TimeShares sums, double weight) {
  if (weight <= 0) return {};
  return {sums.input / weight, sums.compute / weight, sums.memory / weight, sums.communication / weight};
}

answer::SpeedupRow row_of(const Variant& variant, std::size_t group) {
  const SpeedupSums& sums = variant.sums[group];
  answer::SpeedupRow row;
  row.change = variant.name;
  row.architecture = group_name(group);
  row.jobs = sums.jobs;
  row.too_large = sums.too_large;
  row.faster = static_cast<double>(sums.faster) / static_cast<double>(sums.jobs + sums.too_large);
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto jobs = static_cast<double>(sums.jobs);
  row.mean = sums.jobs > 0 ? sums.sum / jobs : none;
  row.mean_by_cnode = sums.jobs > 0 ? sums.weighted_sum / static_cast<double>(sums.cnodes) : none;
  row.largest = sums.jobs > 0 ? sums.largest : none;
  row.percentiles.reserve(100);
  for (int percent = 1; percent <= 100; ++percent) {
    row.percentiles.push_back(sums.jobs > 0 ? std::min(sums.histogram.quantile(percent / 100.0), sums.largest) : none);
  }
  row.p10 = row.percentiles[9];
  row.median = row.percentiles[49];
  row.p90 = row.percentiles[89];
  return row;
}

}  // namespace

struct Fleet::State {
  io::StudySetting study;
  cost::PaiSetting setting;
  std::array<ShareSums, kGroupCount> shares;
  std::vector<Variant> variants;

  [[nodiscard]] const SpeedupSums* find(std::string_view change, Architecture architecture) const {
    const auto variant =
        std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == change; });
    return variant == variants.end() ? nullptr : &variant->sums[group_of(architecture)];
  }
  [[nodiscard]] std::optional<double> metric(std::string_view name) const;
};

const std::vector<std::string>& job_columns() {
  static const std::vector<std::string> columns{"job",
                                                "architecture",
                                                "cnodes",
                                                "flops",
                                                "memory_access_bytes",
                                                "input_bytes",
                                                "weight_traffic_bytes",
                                                "dense_weights_bytes",
                                                "embedding_weights_bytes"};
  return columns;
}

std::string job_row(std::uint64_t index, const cost::PaiJob& job) {
  const workload::StepFeatures& features = job.features;
  return fmt::format("{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}", index + 1,
                     name_of(workload::kArchitectures, job.architecture), job.cnodes, features.flops.in(flops),
                     features.memory_access.in(bytes), features.input.in(bytes), features.weight_traffic.in(bytes),
                     features.dense_weights.in(bytes), features.embedding_weights.in(bytes));
}

Fleet::Fleet(const io::StudySetting& setting, bool what_if) : state_(std::make_unique<State>()) {
  state_->study = setting;
  state_->setting = base_setting(setting);
  if (what_if) state_->variants = make_variants(state_->setting);
}

Fleet::~Fleet() = default;
Fleet::Fleet(Fleet&&) noexcept = default;
Fleet& Fleet::operator=(Fleet&&) noexcept = default;

void Fleet::add(const cost::PaiJob& job) {
  const cost::PaiStep step = pai_step(job, state_->setting);
  const Time whole = step.no_overlap();
  const answer::TimeShares shares{step.input / whole, step.compute / whole, step.memory / whole,
                                  step.weights() / whole};
  const std::size_t group = group_of(job.architecture);
  state_->shares[group].add(shares, job.cnodes);
  state_->shares[kAll].add(shares, job.cnodes);
  const bool too_large = job.features.dense_weights + job.features.embedding_weights > state_->study.memory_size;
  for (Variant& variant : state_->variants) {
    const auto gain = speedup(job, whole, variant);
    if (!gain) continue;
    if (variant.port != Port::kNone && too_large) {
      ++variant.sums[group].too_large;
      continue;
    }
    variant.sums[group].add(*gain, job.cnodes);
    if (variant.port == Port::kNone) variant.sums[kAll].add(*gain, job.cnodes);
  }
}

Expected<void> Fleet::add_table(std::istream& stream, const std::string& file,
                                const std::function<void(std::int64_t)>& progress) {
  auto reader = io::CsvReader::open(stream, file, job_columns());
  if (!reader) return tl::unexpected<Error>(reader.error());
  std::vector<Error> errors;
  const auto accept = [&](auto parsed, std::size_t column) {
    if (!parsed) {
      Error error = std::move(parsed.error());
      error.message = job_columns()[column] + ": " + error.message;
      error.where = reader->where(column);
      errors.push_back(std::move(error));
    }
    return parsed;
  };
  const auto amount = [&](std::size_t column) {
    auto number = parse_number(reader->field(column));
    if (number && *number < 0) {
      number = fail(ErrorCode::kInvalidArgument, fmt::format("{} is negative", reader->field(column).substr(0, 60)));
    }
    return accept(std::move(number), column).value_or(0.0);
  };
  while (errors.size() < kMostErrors) {
    const auto more = reader->next();
    if (!more) {
      errors.push_back(more.error());
      break;
    }
    if (!*more) break;
    cost::PaiJob job;
    job.architecture = accept(parse_choice(workload::kArchitectures, reader->field(1), "architecture"), 1)
                           .value_or(Architecture::k1w1g);
    job.cnodes = accept(parse_count(reader->field(2), {1, kMaxCnodes}), 2).value_or(1);
    job.features = {.flops = flops(amount(3)),
                    .memory_access = bytes(amount(4)),
                    .input = bytes(amount(5)),
                    .weight_traffic = bytes(amount(6)),
                    .dense_weights = bytes(amount(7)),
                    .embedding_weights = bytes(amount(8))};
    if (job.features.flops == Work::zero() && job.features.memory_access == DataSize::zero() && errors.empty()) {
      errors.push_back(Error{
          ErrorCode::kInvalidArgument, "a job without FLOPs and without memory access", reader->where(3), {}, {}});
    }
    if (errors.empty()) add(job);
    if (progress && state_->shares[kAll].jobs % (1 << 16) == 0) progress(state_->shares[kAll].jobs);
  }
  if (!errors.empty()) return fail_with_all(std::move(errors));
  if (state_->shares[kAll].jobs == 0) return fail(ErrorCode::kInvalidArgument, "no jobs in the table", {file, 0, 0});
  return {};
}

std::optional<double> Fleet::State::metric(std::string_view name) const {
  const ShareSums& all = shares[kAll];
  const ShareSums& ps = shares[group_of(Architecture::kPsWorker)];
  const auto ratio = [](double a, double b) { return b > 0 ? std::optional(a / b) : std::nullopt; };
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  if (name == "communication_share_cnode") return ratio(all.by_cnode.communication, count(all.cnodes));
  if (name == "communication_share_job") return ratio(all.by_job.communication, count(all.jobs));
  if (name == "ps_over_80_share") return ratio(count(ps.mostly_communicating), count(ps.jobs));
  const auto faster = [&](std::string_view change) -> std::optional<double> {
    const SpeedupSums* sums = find(change, Architecture::kPsWorker);
    return sums == nullptr ? std::nullopt : ratio(count(sums->faster), count(sums->jobs + sums->too_large));
  };
  if (name == "ps_faster_on_allreduce_local") return faster("port to allreduce-local, throughput");
  if (name == "ps_faster_on_allreduce_cluster") return faster("port to allreduce-cluster, throughput");
  if (name == "ps_no_cnode_gain_on_allreduce_local") {
    const auto gained = faster("port to allreduce-local, per cNode");
    return gained ? std::optional(1.0 - *gained) : std::nullopt;
  }
  if (name == "network_100g_mean_speedup") {
    const SpeedupSums* sums = find("network = 100 Gb/s", Architecture::kPsWorker);
    return sums == nullptr ? std::nullopt : ratio(sums->sum, count(sums->jobs));
  }
  return std::nullopt;
}

answer::FleetReport Fleet::report(const io::PopulationFile* population) const {
  const State& state = *state_;
  answer::FleetReport report;
  report.jobs = state.shares[kAll].jobs;
  report.setting = fmt::format(
      "{}: GPU {}, memory {}, PCIe {}, NVLink {}, network {}, {} of each", state.study.name, to_text(state.study.peak),
      to_text(state.study.memory_bandwidth), to_text(state.study.pcie), to_text(state.study.nvlink),
      to_text_in_bits(state.study.network), fmt::format("{:.0f} %", state.study.efficiency * 100));
  const auto add_group = [&](std::size_t group) {
    const ShareSums& sums = state.shares[group];
    if (sums.jobs == 0) return;
    report.groups.push_back({group_name(group), sums.jobs, sums.cnodes,
                             normalized(sums.by_job, static_cast<double>(sums.jobs)),
                             normalized(sums.by_cnode, static_cast<double>(sums.cnodes))});
  };
  add_group(kAll);
  for (std::size_t group = 0; group < kArchitectureCount; ++group) add_group(group);
  for (const Variant& variant : state.variants) {
    for (std::size_t group = 0; group < kGroupCount; ++group) {
      const SpeedupSums& sums = variant.sums[group];
      if (sums.jobs + sums.too_large > 0) report.speedups.push_back(row_of(variant, group));
    }
  }
  if (population == nullptr) return report;
  report.title = population->name;
  for (const io::Headline& headline : population->headlines) {
    const auto computed = state.metric(headline.metric);
    if (!computed) continue;
    report.headlines.push_back(
        {headline.text, headline.value, *computed, headline.value <= 1.0, headline.status, headline.difference});
  }
  report.notes.push_back(population->notes);
  return report;
}

}  // namespace ddlsim::whatif
