#include "scenario/number_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/setting_words.h"
#include "scenario/settings.h"

namespace ddlsim::whatif {
namespace {

using MaybeNumber = std::optional<double>;
using Kind = NumberKind;
using Role = NumberRole;

constexpr double kSlowestRate = 1e5;
constexpr double kInfiniteComputeRate = 1e24;
constexpr double kLongestTime = 1e3;
constexpr double kLargestSize = 1e15;
constexpr std::int64_t kMostCounted = 1'000'000'000'000'000;

template <Dimension D>
double si_of(const Quantity<D>& value) {
  return value.in(Unit<D>{1.0});
}
template <typename T>
double si_of(const Stated<T>& value) {
  return si_of(value.get());
}
template <Dimension D>
void multiply(Quantity<D>& value, double times) {
  value = value * times;
}
template <typename T>
void multiply(Stated<T>& value, double times) {
  value.set(value.get() * times);
}

struct Bounds {
  double lowest;
  double highest;
};

/// A quantity that `At` points at; null: the job has none.
template <typename At>
constexpr NumberSetting quantity(std::string_view path, Kind kind, Bounds limits, Role role, At) {
  return {path,
          kind,
          limits.lowest,
          limits.highest,
          role,
          [](const Scenario& s) -> MaybeNumber {
            const auto* at = At{}(s);
            return at == nullptr ? std::nullopt : MaybeNumber(si_of(*at));
          },
          [](Scenario& s, double times) {
            if (auto* at = At{}(s); at != nullptr) multiply(*at, times);
          }};
}

/// A count, factor or share that `Now` tells.
template <typename Now>
constexpr NumberSetting plain(std::string_view path, Kind kind, Bounds limits, Now) {
  return {path,           kind,         limits.lowest,
          limits.highest, Role::kOther, [](const Scenario& s) -> MaybeNumber { return static_cast<double>(Now{}(s)); },
          nullptr};
}
/// The same where a job has none until somebody says so.
constexpr NumberSetting unsaid(std::string_view path, Kind kind, Bounds limits) {
  return {path, kind, limits.lowest, limits.highest, Role::kOther, nullptr, nullptr};
}

template <Precision P>
constexpr NumberSetting peak(std::string_view path) {
  return {path,
          Kind::kComputeRate,
          1e9,
          kInfiniteComputeRate,
          Role::kRate,
          [](const Scenario& s) -> MaybeNumber {
            const auto rate = s.cluster.node.gpu.peak.at(P);
            return rate && s.precision == P ? MaybeNumber(rate->in(flops_per_second)) : std::nullopt;
          },
          [](Scenario& s, double times) {
            hardware::PeakRates& rates = s.cluster.node.gpu.peak;
            if (const auto rate = rates.at(P)) rates.set(P, *rate * times);
          }};
}

template <typename Field>
constexpr NumberSetting feature(std::string_view path, Kind kind, Field) {
  return {path,
          kind,
          1e3,
          kLargestSize,
          Role::kSize,
          [](const Scenario& s) -> MaybeNumber {
            if (!s.model->features) return std::nullopt;
            return si_of((*s.model->features).*Field{}());
          },
          [](Scenario& s, double times) {
            if (!s.model->features) return;
            workload::Model changed = *s.model;
            multiply((*changed.features).*Field{}(), times);
            s.model = std::make_shared<const workload::Model>(std::move(changed));
          }};
}

constexpr Bounds kRates{kSlowestRate, kInfiniteRate};
constexpr Bounds kTimes{0, kLongestTime};
constexpr Bounds kSizes{1e3, kLargestSize};
constexpr Bounds kShares{1e-3, 1};
constexpr Bounds kPowers{1, 1e6};

constexpr auto kNumbers = std::to_array<NumberSetting>({
    plain("nodes", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.cluster.nodes; }),
    plain("gpus_per_node", Kind::kCount, {1, 16}, [](const Scenario& s) { return s.cluster.gpus_per_node; }),
    plain("batch", Kind::kCount, {1, 65536}, [](const Scenario& s) { return s.batch; }),
    {"network", Kind::kNetworkRate, kSlowestRate, kInfiniteRate, Role::kRate,
     [](const Scenario& s) -> MaybeNumber {
       if (s.cluster.nodes == 1) return std::nullopt;
       return s.cluster.node.network_bandwidth().in(bytes_per_second);
     },
     [](Scenario& s, double times) { multiply(s.cluster.node.network.bandwidth, times); }},
    quantity("network.latency", Kind::kTime, kTimes, Role::kFixedTime,
             [](auto& s) { return s.cluster.nodes > 1 ? &s.cluster.node.network.latency : nullptr; }),
    peak<Precision::kFp32>("gpu.peak.fp32"),
    peak<Precision::kTf32>("gpu.peak.tf32"),
    peak<Precision::kFp16>("gpu.peak.fp16"),
    peak<Precision::kBf16>("gpu.peak.bf16"),
    peak<Precision::kFp8>("gpu.peak.fp8"),
    peak<Precision::kFp4>("gpu.peak.fp4"),
    quantity("gpu.memory_bandwidth", Kind::kBandwidth, kRates, Role::kRate,
             [](auto& s) { return &s.cluster.node.gpu.memory_bandwidth; }),
    quantity("gpu.memory_size", Kind::kDataSize, kSizes, Role::kOther,
             [](auto& s) { return &s.cluster.node.gpu.memory_size; }),
    quantity("gpu.power_limit", Kind::kPower, kPowers, Role::kRate,
             [](auto& s) { return s.cluster.node.gpu.draw ? &s.cluster.node.gpu.tdp : nullptr; }),
    quantity("nvlink", Kind::kBandwidth, kRates, Role::kRate,
             [](auto& s) { return s.cluster.node.nvlink ? &s.cluster.node.nvlink->bandwidth : nullptr; }),
    quantity("nvlink.latency", Kind::kTime, kTimes, Role::kFixedTime,
             [](auto& s) { return s.cluster.node.nvlink ? &s.cluster.node.nvlink->latency : nullptr; }),
    {"pcie", Kind::kBandwidth, kSlowestRate, kInfiniteRate, Role::kRate,
     [](const Scenario& s) -> MaybeNumber { return s.cluster.node.pcie.bandwidth.in(bytes_per_second); },
     [](Scenario& s, double times) {
       multiply(s.cluster.node.pcie.bandwidth, times);
       multiply(s.cluster.node.host_link.bandwidth, times);
     }},
    quantity("pcie.host", Kind::kBandwidth, kRates, Role::kOther,
             [](auto& s) { return &s.cluster.node.host_link.bandwidth; }),
    quantity("pcie.latency", Kind::kTime, kTimes, Role::kFixedTime,
             [](auto& s) { return &s.cluster.node.pcie.latency; }),
    plain("pcie.uplinks", Kind::kCount, {1, 16}, [](const Scenario& s) { return s.cluster.node.pcie_uplinks; }),
    quantity("strategy.first_bucket", Kind::kDataSize, kSizes, Role::kSize,
             [](auto& s) { return &s.strategy.first_bucket; }),
    quantity("strategy.bucket", Kind::kDataSize, kSizes, Role::kSize, [](auto& s) { return &s.strategy.bucket; }),
    quantity("strategy.cycle", Kind::kTime, {1e-6, 10}, Role::kFixedTime, [](auto& s) { return &s.strategy.cycle; }),
    quantity("strategy.partition", Kind::kDataSize, kSizes, Role::kSize, [](auto& s) { return &s.strategy.partition; }),
    plain("strategy.density", Kind::kShare, {1e-5, 1}, [](const Scenario& s) { return s.strategy.density.get(); }),
    plain("strategy.rank", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.strategy.rank.get(); }),
    plain("strategy.accumulation", Kind::kCount, {1, 1024},
          [](const Scenario& s) { return s.strategy.accumulation.get(); }),
    plain("strategy.sync_every", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.strategy.sync_every.get(); }),
    quantity("strategy.spread_from", Kind::kDataSize, kSizes, Role::kSize,
             [](auto& s) { return &s.strategy.spread_from; }),
    plain("parallel.tensor", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.parallel.tensor; }),
    plain("parallel.pipeline", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.parallel.pipeline; }),
    plain("parallel.context", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.parallel.context; }),
    plain("parallel.expert", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.parallel.expert; }),
    plain("parallel.virtual_stages", Kind::kCount, {1, 64}, [](const Scenario& s) { return s.parallel.virtual_stages; }),
    plain("parallel.zero", Kind::kCount, {0, 3}, [](const Scenario& s) { return s.parallel.zero; }),
    plain("parallel.shard_ranks", Kind::kCount, {0, 1024}, [](const Scenario& s) { return s.parallel.shard_ranks; }),
    plain("parallel.prefetch", Kind::kCount, {0, 32}, [](const Scenario& s) { return s.parallel.prefetch; }),
    plain("parallel.recompute_every", Kind::kCount, {1, 64},
          [](const Scenario& s) { return s.parallel.recompute_every; }),
    plain("parallel.recompute_first", Kind::kCount, {1, 64},
          [](const Scenario& s) { return s.parallel.recompute_first; }),
    plain("parallel.lora_rank", Kind::kCount, {0, 1024}, [](const Scenario& s) { return s.parallel.lora_rank; }),
    plain("parallel.expert_servers", Kind::kCount, {0, 1024}, [](const Scenario& s) { return s.parallel.expert_servers; }),
    plain("parallel.expert_capacity", Kind::kFactor, {0.1, 64},
          [](const Scenario& s) { return s.parallel.expert_capacity; }),
    plain("parallel.expert_imbalance", Kind::kFactor, {1, 64},
          [](const Scenario& s) { return s.parallel.expert_imbalance; }),
    unsaid("global_batch", Kind::kCount, {1, 65536}),
    plain("strategy.parameter_compression", Kind::kFactor, {1, 1000},
          [](const Scenario& s) { return s.strategy.parameter_compression.get(); }),
    plain("strategy.servers", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.strategy.servers.get(); }),
    plain("strategy.staleness", Kind::kCount, {0, 64}, [](const Scenario& s) { return s.strategy.staleness.get(); }),
    plain("network.oversubscription", Kind::kFactor, {1, 1000},
          [](const Scenario& s) { return s.cluster.oversubscription; }),
    {"network.uplink", Kind::kNetworkRate, kSlowestRate, kInfiniteRate, Role::kRate,
     [](const Scenario& s) -> MaybeNumber {
       if (!s.leaf_uplink.get()) return std::nullopt;
       return s.leaf_uplink.get()->in(bytes_per_second);
     },
     [](Scenario& s, double times) {
       if (s.leaf_uplink.get()) s.leaf_uplink.set(*s.leaf_uplink.get() * times);
     }},
    {"ps.memory_bandwidth", Kind::kBandwidth, kRates.lowest, kRates.highest, Role::kRate,
     [](const Scenario& s) -> MaybeNumber { return plan::host_memory_rate(s).in(bytes_per_second); },
     // Stated, so that no datasheet is asked.
     [](Scenario& s, double times) { s.server_memory = plan::host_memory_rate(s) * times; }},
    unsaid("input.workers", Kind::kCount, {0, 64}),
    plain("input.prefetch", Kind::kCount, {1, 64}, [](const Scenario& s) { return s.input.prefetch.get(); }),
    unsaid("input.cache_size", Kind::kDataSize, {0, kLargestSize}),
    quantity("input.gpu_decode", Kind::kTime, {0, 10}, Role::kFixedTime, [](auto& s) { return &s.input.gpu_decode; }),
    plain("input.contention", Kind::kFactor, {0, 1}, [](const Scenario& s) { return s.input.contention_of(); }),
    unsaid("input.variation", Kind::kFactor, {0, 10}),
    quantity("input.storage.bandwidth", Kind::kBandwidth, kRates, Role::kRate,
             [](auto& s) {
               auto& storage = s.cluster.node.host.storage;
               return storage ? &storage->bandwidth : nullptr;
             }),
    quantity("input.storage.iops", Kind::kEventRate, {1, 1e12}, Role::kRate,
             [](auto& s) {
               auto& storage = s.cluster.node.host.storage;
               return storage && storage->iops ? &*storage->iops : nullptr;
             }),
    quantity("input.storage.latency", Kind::kTime, {0, 10}, Role::kFixedTime,
             [](auto& s) {
               auto& storage = s.cluster.node.host.storage;
               return storage ? &storage->latency : nullptr;
             }),
    unsaid("input.storage.capacity", Kind::kDataSize, kSizes),
    plain("input.threads", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.cluster.node.host.threads; }),
    plain("jitter", Kind::kShare, kShares, [](const Scenario& s) { return s.jitter.get(); }),
    unsaid("software.year", Kind::kCount, {2010, 2030}),
    plain("gpu.time_factor", Kind::kFactor, {1e-3, 1e3}, [](const Scenario& s) { return s.gpu_time_factor.get(); }),
    plain("jobs", Kind::kCount, {1, 32}, [](const Scenario& s) { return s.jobs.get(); }),
    quantity("jobs.offset", Kind::kTime, {0, 10}, Role::kFixedTime, [](auto& s) { return &s.jobs_offset; }),
    plain("straggler", Kind::kFactor, {1, 1e3}, [](const Scenario& s) { return s.straggler.get(); }),
    plain("straggler.gpus", Kind::kCount, {1, 1024}, [](const Scenario& s) { return s.stragglers.get(); }),
    unsaid("efficiency", Kind::kShare, kShares),
    plain("efficiency.compute", Kind::kShare, kShares, [](const Scenario& s) { return s.efficiency.compute.get(); }),
    plain("efficiency.memory", Kind::kShare, kShares, [](const Scenario& s) { return s.efficiency.memory.get(); }),
    plain("efficiency.pcie", Kind::kShare, kShares, [](const Scenario& s) { return s.efficiency.pcie.get(); }),
    plain("efficiency.nvlink", Kind::kShare, kShares, [](const Scenario& s) { return s.efficiency.nvlink.get(); }),
    plain("efficiency.network", Kind::kShare, kShares, [](const Scenario& s) { return s.efficiency.network.get(); }),
    quantity("launch_interval", Kind::kTime, {0, 1}, Role::kFixedTime, [](auto& s) { return &s.launch_interval; }),
    {"price", Kind::kPriceRate, 1e-2 / 3600, 1e5 / 3600, Role::kOther,
     [](const Scenario& s) -> MaybeNumber {
       const auto price = price_of(s);
       return price ? MaybeNumber(si_of(*price)) : std::nullopt;
     },
     nullptr},
    unsaid("training.samples", Kind::kCount, {1, 1e12}),
    unsaid("training.tokens", Kind::kCount, {1, 1e15}),
    unsaid("training.epochs", Kind::kFactor, {1e-2, 1e4}),
    unsaid("training.steps", Kind::kCount, {1, 1e12}),
    unsaid("training.startup", Kind::kTime, {0, 1e6}),
    unsaid("training.evaluation", Kind::kTime, {0, 1e6}),
    unsaid("training.evaluate_every", Kind::kFactor, {1e-2, 1e4}),
    unsaid("training.checkpoint", Kind::kTime, {0, 1e6}),
    unsaid("training.checkpoint_every", Kind::kTime, {1, 1e6}),
    unsaid("failures.mtbf_gpu", Kind::kTime, {3600, 1e12}),
    unsaid("failures.mtbf_node", Kind::kTime, {3600, 1e12}),
    unsaid("failures.mtbf_switch", Kind::kTime, {3600, 1e12}),
    unsaid("failures.nodes_per_switch", Kind::kCount, {1, 1024}),
    unsaid("failures.restart", Kind::kTime, {0, 1e6}),
    unsaid("failures.warmup", Kind::kTime, {0, 1e6}),
    plain("failures.spares", Kind::kCount, {0, 1024}, [](const Scenario& s) { return s.failures.spares; }),
    unsaid("failures.repair", Kind::kTime, {0, 1e7}),
    unsaid("failures.runs", Kind::kCount, {2, 1000}),
    unsaid("failures.seed", Kind::kCount, {0, 1024}),
    unsaid("checkpoint.interval", Kind::kTime, {1, 1e6}),
    unsaid("checkpoint.bandwidth", Kind::kBandwidth, {1e6, kInfiniteRate}),
    unsaid("checkpoint.node_bandwidth", Kind::kBandwidth, {1e6, kInfiniteRate}),
    unsaid("checkpoint.size", Kind::kDataSize, {1e6, kLargestSize}),
    unsaid("checkpoint.writers", Kind::kCount, {1, 1024}),
    unsaid("checkpoint.write", Kind::kTime, {0, 1e6}),
    unsaid("checkpoint.snapshot", Kind::kTime, {0, 1e6}),
    unsaid("checkpoint.remote_every", Kind::kCount, {1, 1024}),
    feature("model.flops", Kind::kWork, [] { return &workload::StepFeatures::flops; }),
    feature("model.memory_access", Kind::kDataSize, [] { return &workload::StepFeatures::memory_access; }),
    feature("model.input", Kind::kDataSize, [] { return &workload::StepFeatures::input; }),
    feature("model.weight_traffic", Kind::kDataSize, [] { return &workload::StepFeatures::weight_traffic; }),
});

/// A unit that a kind is written in, and what one of it is in SI.
struct WrittenIn {
  Kind kind;
  std::string_view si;
  std::string_view unit;
  double factor;
};
constexpr auto kWritten = std::to_array<WrittenIn>({
    {Kind::kCount, "", "", 1},
    {Kind::kFactor, "", "", 1},
    {Kind::kShare, "", " %", 1e-2},
    {Kind::kTime, "s", " ms", 1e-3},
    {Kind::kDataSize, "B", " MB", 1e6},
    {Kind::kBandwidth, "B/s", " GB/s", 1e9},
    {Kind::kNetworkRate, "B/s", " Gb/s", 1e9 / 8},
    {Kind::kComputeRate, "FLOP/s", " TFLOP/s", 1e12},
    {Kind::kWork, "FLOP", " GFLOP", 1e9},
    {Kind::kEventRate, "1/s", " IOPS", 1},
    {Kind::kPower, "W", " W", 1},
    {Kind::kPriceRate, "$/s", " $/h", 1.0 / 3600},
});
const WrittenIn& written(Kind kind) {
  return *std::find_if(kWritten.begin(), kWritten.end(), [&](const WrittenIn& w) { return w.kind == kind; });
}

template <Dimension D>
Expected<double> parsed(std::string_view text) {
  return parse_quantity<D>(text, Range::kNonNegative).map([](Quantity<D> value) { return si_of(value); });
}

}  // namespace

std::span<const NumberSetting> number_settings() { return kNumbers; }

Expected<NumberSetting> number_setting(std::string_view word) {
  std::string path = fold_name(setting_at(std::string(word)));
  std::replace(path.begin(), path.end(), '-', '_');
  if (path == "micro_batch") path = "batch";
  const auto found = std::find_if(kNumbers.begin(), kNumbers.end(), [&](const auto& n) { return n.path == path; });
  if (found != kNumbers.end()) return *found;
  std::vector<std::string> paths;
  for (const NumberSetting& number : kNumbers) paths.emplace_back(number.path);
  for (const Leaf& leaf : leaves()) {
    if (leaf.path != path) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no number that can be looked for", leaf.path), {},
                {"numbers: " + join(paths)});
  }
  if (word.starts_with("model.")) {
    // Sequences of language models reach a million tokens.
    return NumberSetting{.path = word, .kind = Kind::kCount, .lowest = 1, .highest = 1 << 22};
  }
  return fail(ErrorCode::kNotFound, fmt::format("unknown setting '{}'", word.substr(0, 60)), {},
              {suggested_setting(path, paths), "a dimension of a model is written model.NAME, as model.sequence"});
}

std::string_view si_unit(NumberKind kind) { return written(kind).si; }

std::string number_text(NumberKind kind, double value, int digits) {
  if (kind == Kind::kCount) return fmt::format("{:.0f}", value);
  const WrittenIn& as = written(kind);
  const double number = value / as.factor;
  return fmt::format("{}{}", number >= 1e12 ? fmt::format("{:.{}g}", number, digits) : significant(number, digits),
                     as.unit);
}

std::string shown_number(NumberKind kind, double value, int digits) {
  struct Unit {
    double factor;
    std::string_view name;
  };
  constexpr auto kUnits = std::to_array<Unit>({{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}});
  if (kind == Kind::kTime) {
    for (const Unit& unit : kUnits) {
      const double number = value / unit.factor;
      if (number >= 1) return fmt::format("{} {}", significant(number, digits), unit.name);
    }
  }
  return number_text(kind, value, digits);
}

double rounded_number(NumberKind kind, double value, int digits) {
  if (kind == Kind::kCount) return std::round(value);
  return parse_number_of(kind, shown_number(kind, value, digits)).value_or(value);
}

Expected<double> parse_number_of(NumberKind kind, std::string_view text) {
  switch (kind) {
    case Kind::kCount: {
      if (const auto exact = parse_count(text, {0, kMostCounted})) return static_cast<double>(*exact);
      return parse_large_count(text).map([](std::int64_t n) { return static_cast<double>(n); });  // "300e9"
    }
    case Kind::kFactor: return parse_number(text);
    case Kind::kShare: return parse_fraction(text);
    case Kind::kTime: return parsed<dimension::kTime>(text);
    case Kind::kDataSize: return parsed<dimension::kData>(text);
    case Kind::kBandwidth:
    case Kind::kNetworkRate: return parsed<dimension::kData - dimension::kTime>(text);
    case Kind::kComputeRate: return parsed<dimension::kWork - dimension::kTime>(text);
    case Kind::kWork: return parsed<dimension::kWork>(text);
    case Kind::kEventRate: return parsed<Dimension{.time = -1}>(text);
    case Kind::kPower: return parsed<dimension::kEnergy - dimension::kTime>(text);
    case Kind::kPriceRate: return parsed<dimension::kMoney - dimension::kTime>(text);
  }
  return 0.0;
}

}  // namespace ddlsim::whatif
