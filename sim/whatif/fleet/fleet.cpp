#include "ddlsim/whatif/fleet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "ddlsim/io/csv.h"
#include "ddlsim/support/quantity_io.h"
#include "fleet/fleet_sums.h"

namespace ddlsim::whatif {
namespace {

using workload::Architecture;

constexpr std::size_t kMostErrors = 20;
constexpr std::int64_t kMaxCnodes = 1'000'000'000;

std::size_t group_of(Architecture architecture) { return static_cast<std::size_t>(architecture); }

std::string group_name(std::size_t group) { return std::string(workload::kArchitectures.at(group).first); }

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
std::vector<FleetVariant> make_variants(const cost::PaiSetting& base) {
  std::vector<FleetVariant> variants;
  const auto add = [&](std::string name, Port port, auto change) {
    FleetVariant variant;
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
std::optional<double> speedup(const cost::PaiJob& job, Time base, const FleetVariant& variant) {
  if (variant.port == Port::kNone) return base / pai_step(job, variant.setting).no_overlap();
  if (job.architecture != Architecture::kPsWorker) return std::nullopt;
  const cost::PaiJob ported = variant.port == Port::kAllReduceCluster
                                  ? cost::ported_to_allreduce_cluster(job)
                                  : cost::ported_to_allreduce_local(job, variant.setting);
  const double per_cnode = base / pai_step(ported, variant.setting).no_overlap();
  if (variant.port == Port::kAllReduceLocalPerCnode) return per_cnode;
  return per_cnode * static_cast<double>(ported.cnodes) / static_cast<double>(job.cnodes);
}

answer::TimeShares normalized(const std::array<ExactSum, 4>& sums, std::int64_t weight) {
  if (weight <= 0) return {};
  const auto all = static_cast<double>(weight);
  return {sums[0].value() / all, sums[1].value() / all, sums[2].value() / all, sums[3].value() / all};
}

answer::FleetGroup group_of(std::string name, const ShareSums& sums) {
  return {std::move(name), sums.jobs, sums.cnodes, normalized(sums.by_job, sums.jobs),
          normalized(sums.by_cnode, sums.cnodes)};
}

answer::SpeedupRow row_of(std::string change, std::string group, const SpeedupSums& sums) {
  answer::SpeedupRow row;
  row.change = std::move(change);
  row.architecture = std::move(group);
  row.jobs = sums.jobs;
  row.too_large = sums.too_large;
  row.faster = static_cast<double>(sums.faster) / static_cast<double>(sums.jobs + sums.too_large);
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto jobs = static_cast<double>(sums.jobs);
  row.mean = sums.jobs > 0 ? sums.sum.value() / jobs : none;
  row.mean_by_cnode = sums.jobs > 0 ? sums.weighted_sum.value() / static_cast<double>(sums.cnodes) : none;
  row.largest = sums.jobs > 0 ? sums.largest : none;
  row.percentiles = sums.histogram.percentiles();
  for (double& value : row.percentiles) value = std::min(value, sums.largest);
  if (row.percentiles.empty()) row.percentiles.assign(100, none);
  row.p10 = row.percentiles[9];
  row.median = row.percentiles[49];
  row.p90 = row.percentiles[89];
  return row;
}

/// Jobs of one architecture, by their numbers in `jobs`: in a row of them no branch has to be guessed.
void add_shares(cost::PaiSetting setting, Architecture architecture, std::span<const cost::PaiJob> jobs,
                std::span<const std::uint16_t> numbers, ShareSums& sums) {
  setting.pcie_uplinks = 1;  // as base_setting has it: known here, it divides nothing
  setting.workers_per_server = 1;
  for (const std::uint16_t number : numbers) {
    cost::PaiJob job = jobs[number];
    job.architecture = architecture;
    const cost::PaiStep step = pai_step(job, setting);
    const Time whole = step.no_overlap();
    sums.add({step.input / whole, step.compute / whole, step.memory / whole, step.weights() / whole}, job.cnodes);
  }
}

/// At most kJobsAtOnce jobs, sorted by architecture: sums are exact, so their order does not matter.
constexpr std::size_t kJobsAtOnce = 1024;
void add_shares(const cost::PaiSetting& setting, std::span<const cost::PaiJob> jobs,
                std::array<ShareSums, kFleetGroups>& shares) {
  std::array<std::uint16_t, kJobsAtOnce> numbers{};
  std::array<std::size_t, kFleetGroups + 1> first{};
  for (const cost::PaiJob& job : jobs) ++first[group_of(job.architecture) + 1];
  for (std::size_t group = 0; group < kFleetGroups; ++group) first[group + 1] += first[group];
  auto next = first;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    numbers[next[group_of(jobs[i].architecture)]++] = static_cast<std::uint16_t>(i);
  }
  for (std::size_t group = 0; group < kFleetGroups; ++group) {
    const std::span some(numbers.data() + first[group], first[group + 1] - first[group]);
    add_shares(setting, workload::kArchitectures.at(group).second, jobs, some, shares[group]);
  }
}

}  // namespace

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

void Fleet::add(std::span<const cost::PaiJob> jobs) {
  for (std::size_t at = 0; at < jobs.size(); at += kJobsAtOnce) {
    add_shares(state_->setting, jobs.subspan(at, std::min(kJobsAtOnce, jobs.size() - at)), state_->shares);
  }
  if (state_->variants.empty()) return;
  for (const cost::PaiJob& job : jobs) {
    const Time whole = pai_step(job, state_->setting).no_overlap();
    const std::size_t group = group_of(job.architecture);
    const bool too_large = job.features.dense_weights + job.features.embedding_weights > state_->study.memory_size;
    for (FleetVariant& variant : state_->variants) {
      const auto gain = speedup(job, whole, variant);
      if (!gain) continue;
      if (variant.port != Port::kNone && too_large) {
        ++variant.sums[group].too_large;
      } else {
        variant.sums[group].add(*gain, job.cnodes);
      }
    }
  }
}

void Fleet::add(const Fleet& other) {
  for (std::size_t i = 0; i < kFleetGroups; ++i) state_->shares[i].add(other.state_->shares[i]);
  for (std::size_t v = 0; v < state_->variants.size(); ++v) {
    for (std::size_t i = 0; i < kFleetGroups; ++i) state_->variants[v].sums[i].add(other.state_->variants[v].sums[i]);
  }
}

std::int64_t Fleet::jobs() const {
  std::int64_t sum = 0;
  for (const ShareSums& group : state_->shares) sum += group.jobs;
  return sum;
}

Expected<void> Fleet::add_table(std::istream& stream, const std::string& file,
                                const std::function<void(std::int64_t)>& progress,
                                const std::function<bool(std::int64_t)>& takes) {
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
  std::int64_t row = 0;
  while (errors.size() < kMostErrors) {
    const auto more = reader->next();
    if (!more) {
      errors.push_back(more.error());
      break;
    }
    if (!*more) break;
    cost::PaiJob job;
    const auto architecture = accept(parse_choice(workload::kArchitectures, reader->field(1), "architecture"), 1);
    job.architecture = architecture.value_or(Architecture::k1w1g);
    job.cnodes = accept(parse_count(reader->field(2), {1, kMaxCnodes}), 2).value_or(1);
    if (architecture && job.architecture == Architecture::k1w1g && job.cnodes > 1) {
      errors.push_back(Error{ErrorCode::kInvalidArgument,
                             fmt::format("a job of 1w1g is one worker on one GPU, not on {}", job.cnodes),
                             reader->where(2),
                             {"look at its architecture"},
                             {}});
    }
    const bool of_one_server =
        job.architecture == Architecture::k1wng || job.architecture == Architecture::kAllReduceLocal;
    const std::int64_t most = state_->setting.gpus_per_server;
    if (architecture && of_one_server && job.cnodes > most) {
      errors.push_back(Error{ErrorCode::kInvalidArgument,
                             fmt::format("a job of {} is on one server, which has {} GPUs, not on {}",
                                         name_of(workload::kArchitectures, *architecture), most, job.cnodes),
                             reader->where(2),
                             {"look at its architecture, or name a setting of larger servers: --setting"},
                             {}});
    }
    job.features = {.flops = flops(amount(3)),
                    .memory_access = bytes(amount(4)),
                    .input = bytes(amount(5)),
                    .weight_traffic = bytes(amount(6)),
                    .dense_weights = bytes(amount(7)),
                    .embedding_weights = bytes(amount(8))};
    if (architecture && job.architecture == Architecture::k1w1g && job.features.weight_traffic > DataSize::zero()) {
      errors.push_back(Error{ErrorCode::kInvalidArgument,
                             "a job of 1w1g shares its weights with nobody: it has no traffic of them",
                             reader->where(6),
                             {"write 0, or look at its architecture"},
                             {}});
    }
    if (job.features.flops == Work::zero() && job.features.memory_access == DataSize::zero() && errors.empty()) {
      errors.push_back(Error{
          ErrorCode::kInvalidArgument, "a job without FLOPs and without memory access", reader->where(3), {}, {}});
    }
    if (errors.empty() && (!takes || takes(row))) add(job);
    if (progress && row % (1 << 16) == 0) progress(row);
    ++row;
  }
  if (!errors.empty()) return fail_with_all(std::move(errors));
  if (row == 0) return fail(ErrorCode::kInvalidArgument, "no jobs in the table", {file, 0, 0});
  return {};
}

std::optional<double> Fleet::State::metric(std::string_view name) const {
  const ShareSums all = this->all();
  const ShareSums& ps = shares[group_of(Architecture::kPsWorker)];
  const auto ratio = [](double a, double b) { return b > 0 ? std::optional(a / b) : std::nullopt; };
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  if (name == "communication_share_cnode") return ratio(all.by_cnode[3].value(), count(all.cnodes));
  if (name == "communication_share_job") return ratio(all.by_job[3].value(), count(all.jobs));
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
    return sums == nullptr ? std::nullopt : ratio(sums->sum.value(), count(sums->jobs));
  }
  return std::nullopt;
}

answer::FleetReport Fleet::report(const io::PopulationFile* population) const {
  const State& state = *state_;
  answer::FleetReport report;
  report.jobs = jobs();
  report.setting = fmt::format(
      "{}: GPU {}, memory {}, PCIe {}, NVLink {}, network {}, {} of each", state.study.name, to_text(state.study.peak),
      to_text(state.study.memory_bandwidth), to_text(state.study.pcie), to_text(state.study.nvlink),
      to_text_in_bits(state.study.network), fmt::format("{:.0f} %", state.study.efficiency * 100));
  if (report.jobs > 0) report.groups.push_back(group_of("all", state.all()));
  for (std::size_t group = 0; group < kFleetGroups; ++group) {
    if (state.shares[group].jobs > 0) report.groups.push_back(group_of(group_name(group), state.shares[group]));
  }
  for (const FleetVariant& variant : state.variants) {
    const auto add_row = [&](std::string group, const SpeedupSums& sums) {
      if (sums.jobs + sums.too_large > 0) report.speedups.push_back(row_of(variant.name, std::move(group), sums));
    };
    for (std::size_t group = 0; group < kFleetGroups; ++group) add_row(group_name(group), variant.sums[group]);
    add_row("all", variant.all());
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
