#include "ddlsim/cost/loader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::cost {
namespace {

constexpr std::size_t kBatches = 4096;
constexpr std::size_t kWarmUp = 512;
constexpr std::uint64_t kSeed = 20210;

double natural_log(double x) { return std::numbers::ln2 * portable_log2(x); }

/// P(S T >= a), S and T uniform in [low, 1].
double product_above(double a, double low) {
  if (a >= 1) return 0;
  if (a <= low * low) return 1;
  const double area = (1 - low) * (1 - low);
  if (a >= low) return (1 - a + a * natural_log(a)) / area;
  return 1 - (a * natural_log(a / (low * low)) - a + low * low) / area;
}

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t mixed_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// A standard normal deviate. The sum of twelve uniform ones has the first three moments of one, and is enough here.
double normal_draw(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t state = mixed_bits(mixed_bits(seed) ^ index);
  double sum = -6;
  for (int i = 0; i < 12; ++i) {
    state = mixed_bits(state);
    sum += std::ldexp(static_cast<double>(state >> 11), -53);
  }
  return sum;
}

Time time_at(double count, Rate rate) {
  return rate == Rate::infinity() ? Time::zero() : seconds(count / rate.in(per_second));
}

/// Where a job's samples would come from under a policy.
Sourced sourced_by(const plan::Job& job, plan::CachePolicy policy) {
  const DataSize cache = job.input.cache_size->value_or(job.cluster.node.host.memory);
  return sourced(policy, job.input.epoch, cache / job.input.dataset->size(), job.cluster.nodes);
}

Rate rate_of(double count, Time time) {
  return time > Time::zero() ? per_second(count / time.in(seconds)) : Rate::infinity();
}

Rate rate_of(Bandwidth bandwidth, DataSize size) {
  return size > DataSize::zero() ? per_second(bandwidth.in(bytes_per_second) / size.in(bytes)) : Rate::infinity();
}

/// Parameter servers' messages are gRPC's, which sleeps while there are none.
bool moves_messages(const plan::Job& job) {
  return job.cluster.nodes > 1 && job.strategy.kind != plan::StrategyKind::kPs;
}

}  // namespace

double lru_hit(double cached, std::int64_t servers) {
  if (cached >= 1) return 1;
  if (cached <= 0) return 0;
  const double low = 1 - 1 / static_cast<double>(servers);
  double hit = 0;
  double gone = 1;  // the share of the set that so many whole epochs do not touch
  double chance = 1 / static_cast<double>(servers);
  while (chance > 1e-9 && 1 - cached < gone) {
    hit += chance * product_above((1 - cached) / gone, low);
    chance *= low;
    gone *= low;
  }
  return hit;
}

Sourced sourced(plan::CachePolicy policy, plan::Epoch epoch, double cached, std::int64_t servers) {
  const double own = std::clamp(cached, 0.0, 1.0);
  if (policy == plan::CachePolicy::kAll) return {};
  if (epoch == plan::Epoch::kFirst) return {.storage = 1};
  switch (policy) {
    case plan::CachePolicy::kNone: return {.storage = 1};
    case plan::CachePolicy::kPinned: return {.storage = 1 - own};
    case plan::CachePolicy::kPage: return {.storage = 1 - lru_hit(own, servers)};
    case plan::CachePolicy::kPartitioned: {
      const auto count = static_cast<double>(servers);
      const double all = std::min(1.0, own * count);
      return {.storage = 1 - all, .remote = all * (count - 1) / count};
    }
    case plan::CachePolicy::kAll: break;
  }
  return {};
}

double filled_cores(const hardware::Host& host, double running) {
  const double cores = host.cores();
  const double threads = std::min(running, static_cast<double>(host.threads));
  const double second = host.cpu ? host.cpu->second_thread : 0;
  return std::min(threads, cores) + std::max(threads - cores, 0.0) * second;
}

double cores_beside_training(const hardware::Host& host, double gpus, double messengers) {
  const auto threads = static_cast<double>(host.threads);
  const double all = filled_cores(host, threads);
  const double left = all * (1 - messengers / std::max(threads, messengers)) - gpus * kTrainingCores;
  return std::max(left, all * kTrainingCores);
}

LoaderWork loader_work(const plan::Input& input, const hardware::Host& host) {
  const workload::Dataset& data = *input.dataset;
  LoaderWork work{
      .loader = input.loader,
      .stored = data.stored,
      .decoded = data.decoded,
      .cpu = data.decode + data.augment * (input.loader.get() == plan::Loader::kWorkers ? kPythonAugment : 1),
      .contention = input.contention_of()};
  if (input.decode.get() == plan::DecodeOn::kGpu) work.cpu = data.decode * kHostShareOfGpuDecode;
  if (const auto& storage = host.storage) {
    const double pieces = data.stored / storage->request;
    const bool packed = data.samples_per_file > 1;
    work.requests = packed ? pieces : std::ceil(pieces);
    work.latency = storage->latency * (packed ? pieces : 1.0);
  }
  return work;
}

LoaderShare loader_share(const plan::Job& job) {
  const plan::Input& input = job.input;
  const hardware::Cluster& cluster = job.cluster;
  const hardware::Host& host = cluster.node.host;
  const plan::ServerInput server = plan::server_input(job);
  const double processes = server.processes;
  LoaderShare share;
  share.workers = input.workers.get() ? static_cast<double>(*input.workers.get())
                                      : std::max(std::floor(static_cast<double>(host.threads) / processes), 1.0);
  const double left = cores_beside_training(host, processes, moves_messages(job) ? processes : 0);
  share.cores = std::min(filled_cores(host, std::max(share.workers, 1.0) * processes), left) / processes;
  share.speed = host.cpu->decode_speed;
  share.hand_over = host.cpu->hand_over;
  share.receive = host.cpu->receive;
  share.from = sourced_by(job, input.cache);
  share.network = cluster.network_bandwidth() * job.efficiency.network.get() / processes;
  if (const auto& storage = host.storage) {
    const double readers = processes * (storage->shared ? static_cast<double>(cluster.nodes) : 1.0);
    share.storage = storage->bandwidth / readers;
    share.stream = storage->stream.value_or(storage->bandwidth);
    if (storage->iops) share.iops = *storage->iops / readers;
    share.by_network = storage->attached == hardware::Attachment::kNetwork;
  }
  return share;
}

Time least_reading(const plan::Job& job) {
  const plan::Input& input = job.input;
  const auto& storage = job.cluster.node.host.storage;
  if (!input.dataset || !storage) return Time::zero();
  const bool page = input.cache.get() == plan::CachePolicy::kPage;
  const LoaderShare share = loader_share(job);
  const plan::ServerInput server = plan::server_input(job);
  const double from_storage = page ? sourced_by(job, plan::CachePolicy::kPinned).storage : share.from.storage;
  const double read = server.samples / server.processes * from_storage;
  const LoaderWork work = loader_work(input, job.cluster.node.host);
  Time least;
  if (storage->bandwidth_origin == Origin::kStated) least = work.stored * read / share.storage;
  if (share.iops && storage->iops_origin == Origin::kStated) {
    least = max(least, time_at(work.requests * read, *share.iops));
  }
  return least;
}

Rate LoaderRates::at(LoaderStage stage) const {
  switch (stage) {
    case LoaderStage::kStorage: return storage;
    case LoaderStage::kNetwork: return network;
    case LoaderStage::kWorkers: return workers;
    case LoaderStage::kCpu: return cpu;
    case LoaderStage::kReceive: return receive;
  }
  return Rate::infinity();
}

LoaderStage LoaderRates::slowest() const {
  LoaderStage slowest = LoaderStage::kCpu;
  for (const auto& [name, stage] : kLoaderStages) {
    if (at(stage) < at(slowest)) slowest = stage;
  }
  return slowest;
}

LoaderRates loader_rates(const LoaderWork& work, const LoaderShare& share) {
  LoaderRates rates;
  const bool processes = work.loader == plan::Loader::kWorkers;
  Time reading;
  if (share.from.storage > 0) {
    rates.storage = rate_of(share.storage, work.stored * share.from.storage);
    if (share.iops) rates.storage = min(rates.storage, *share.iops / (work.requests * share.from.storage));
    reading += (work.latency + work.stored / share.stream) * share.from.storage;
  }
  const double by_network = share.from.remote + (share.by_network ? share.from.storage : 0);
  if (by_network > 0) rates.network = rate_of(share.network, work.stored * by_network);
  if (share.from.remote > 0) {
    reading += work.stored * share.from.remote / share.network;
  }
  rates.work = work.cpu / share.speed;
  const bool serial = share.workers < 1;
  if (processes && !serial && share.hand_over) rates.work += work.decoded / *share.hand_over;
  if (processes && !serial && share.receive) rates.receive = rate_of(*share.receive, work.decoded);
  const double workers = std::max(share.workers, 1.0);
  const double busy = std::min(workers, share.cores);
  const double filled = busy / (1 + work.contention * std::max(busy - 1, 0.0));
  rates.cpu = rate_of(filled, rates.work);
  rates.worker = reading + rates.work;
  rates.workers = rate_of(workers, processes || serial ? rates.worker : reading);
  return rates;
}

Time BatchPipeline::interval() const {
  Time slowest = max(max(storage, network), max(cpu, receive));
  return max(slowest, workers > 0 ? worker / static_cast<double>(workers) : worker);
}

BatchPipeline batch_pipeline(const LoaderWork& work, const LoaderShare& share, const plan::Input& input,
                             double samples) {
  const LoaderRates rates = loader_rates(work, share);
  BatchPipeline pipeline{.storage = time_at(samples, rates.storage),
                         .network = time_at(samples, rates.network),
                         .cpu = time_at(samples, rates.cpu),
                         .receive = time_at(samples, rates.receive),
                         .prefetch = input.prefetch};
  const bool serial = share.workers < 1;
  const bool processes = work.loader == plan::Loader::kWorkers;
  pipeline.pipelined = !serial && !processes;
  pipeline.workers = serial ? 0 : processes ? static_cast<std::int64_t>(share.workers) : 1;
  pipeline.worker = serial || processes ? rates.worker * samples : time_at(samples, rates.all());
  const double deviation = input.variation->value_or(input.dataset->variation);
  const double varies = rates.worker > Time::zero() && processes ? rates.work / rates.worker : 1.0;
  pipeline.variation = deviation * varies / std::sqrt(std::max(samples, 1.0));
  return pipeline;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): a sequence, and the place in it
double varied_share(double deviation, std::uint64_t seed, std::uint64_t index) {
  const double spread = portable_log2(1 + deviation * deviation) * std::numbers::ln2;  // of the logarithm, squared
  const double exponent = normal_draw(seed, index) * std::sqrt(spread) - spread / 2;
  return portable_exp2(exponent / std::numbers::ln2);
}

Time wait_for_batch(const BatchPipeline& pipeline, Time consumer) {
  const Time interval = pipeline.interval();
  if (pipeline.workers == 0) return interval;
  if (pipeline.variation <= 0 || interval == Time::zero()) return max(interval - consumer, Time::zero());
  const auto workers = static_cast<std::size_t>(pipeline.workers);
  const std::size_t ahead = workers * static_cast<std::size_t>(std::max<std::int64_t>(pipeline.prefetch, 1));
  const Time of_worker = max(interval * static_cast<double>(workers), pipeline.worker);
  std::vector<Time> made(kBatches);
  std::vector<Time> taken(kBatches);
  for (std::size_t i = 0; i < kBatches; ++i) {
    Time start = i >= workers ? made[i - workers] : Time::zero();
    if (i >= ahead) start = max(start, taken[i - ahead]);
    made[i] = start + of_worker * varied_share(pipeline.variation, kSeed, i);
    taken[i] = max(i > 0 ? taken[i - 1] + consumer : Time::zero(), made[i]);
  }
  const Time step = (taken[kBatches - 1] - taken[kWarmUp]) / static_cast<double>(kBatches - 1 - kWarmUp);
  return max(step - consumer, Time::zero());
}

}  // namespace ddlsim::cost
