#include "loaders/shared_job.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ddlsim/cost/loader.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {
namespace {

using io::JobEntry;

/// An error of a setting that stands in no line of its own is the job's.
tl::unexpected<Error> at(Error error, const SourceLocation& where) {
  if (error.where.file.empty()) error.where = where;
  return tl::unexpected<Error>(std::move(error));
}

/// Jobs that differ in nothing but name, arrival and length have one profile.
std::string key_of(const JobEntry& job) {
  std::string key = fmt::format("{}:{}:{}", job.rates_where.line, job.rates_where.column, job.gpus);
  const auto add = [&](const std::string& text) { key += fmt::format("|{}:{}", text.size(), text); };
  if (job.model) add(job.model->text);
  if (job.dataset) add(job.dataset->text);
  add(fmt::format("{} {} {}", job.batch.value_or(0), job.most_workers.value_or(0), job.stored.in(bytes)));
  for (const auto& [path, value] : job.settings) {
    add(path);
    add(value.text);
  }
  return key;
}

/// Of one of a server's `workers`: its part of the cores while all of them run and all GPUs train.
double cores_per_worker(const hardware::Host& host, double workers, std::int64_t gpus) {
  const double left = cost::cores_beside_training(host, static_cast<double>(gpus));
  return std::min(cost::filled_cores(host, workers), left) / workers;
}

/// Bytes that storage reads in the time a sample holds it.
/// `from_storage`: the share of samples that come from it.
DataSize read_of(const cost::LoaderWork& work, double from_storage, const hardware::Host& host) {
  if (!host.storage || from_storage <= 0) return {};
  DataSize read = work.stored;
  if (host.storage->iops) read = max(read, host.storage->bandwidth / *host.storage->iops * work.requests);
  return read * from_storage;
}

/// Workers of a job beyond its batches have none to make.
std::int64_t most_useful(const JobProfile& profile, double loaders) {
  const std::int64_t batches = std::max<std::int64_t>(profile.samples_per_epoch / profile.samples_per_step, 1);
  return static_cast<std::int64_t>(static_cast<double>(batches) * loaders);
}

/// Measured on one GPU, of so many: each has a part of the workers.
Rate measured_at(const io::RatesByWorkers& curve, double workers) {
  const auto& [first, rate] = curve.points.front();
  if (workers < static_cast<double>(first)) return rate * (workers / static_cast<double>(first));
  Rate reached;
  for (const auto& [count, there] : curve.points) {
    if (static_cast<double>(count) <= workers) reached = max(reached, there);
  }
  return reached;
}

}  // namespace

std::vector<Override> JobProfiler::of_server(std::int64_t nodes, std::int64_t gpus) const {
  const io::JobsServer& server = file_->server;
  std::vector<Override> settings{{"node", server.node.text, server.node.where},
                                 {"nodes", std::to_string(nodes), server.where},
                                 {"gpus_per_node", std::to_string(gpus), server.where}};
  if (server.storage) settings.push_back({"input.storage", server.storage->text, server.storage->where});
  if (server.storage_bandwidth) {
    settings.push_back({"input.storage.bandwidth", server.storage_bandwidth->text, server.storage_bandwidth->where});
  }
  if (threads_ > 0) settings.push_back({"input.threads", std::to_string(threads_), server.where});
  return settings;
}

Expected<void> JobProfiler::set_threads(const hardware::Node& node) {
  const std::optional<std::int64_t> cores = file_->server.cores;
  if (!cores) return {};
  const hardware::Host& host = node.host;
  if (host.threads > 0 && static_cast<double>(*cores) > host.cores()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("cores: {} of {}, which has {}", to_text(*cores), node.name, significant(host.cores())),
                file_->server.where, {"at most as many as the server has; without them, a worker for each thread"});
  }
  threads_ = *cores * (host.cpu ? host.cpu->threads_per_core : 1);
  return {};
}

Expected<void> JobProfiler::set_supply() {
  const io::JobsServer& server = file_->server;
  const std::vector<Override> node{{"node", server.node.text, server.node.where}};
  const auto plain = resolve_cluster(*catalog_, node);
  if (!plain) return at(plain.error(), server.node.where);
  supply_.gpus = plain->cluster.node.gpus;
  if (auto set = set_threads(plain->cluster.node); !set) return set;
  const auto whole = resolve_cluster(*catalog_, of_server(1, supply_.gpus));
  if (!whole) {
    if (!plain->cluster.node.host.storage && server.storage_bandwidth && !server.storage) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("nobody says what storage {} has", plain->cluster.node.name),
                  server.storage_bandwidth->where, {"storage: nvme (`ddlsim list storage`) beside its bandwidth"});
    }
    return at(whole.error(), server.where);
  }
  const hardware::Host& host = whole->cluster.node.host;
  const std::string& name = whole->cluster.node.name;
  if (host.threads < 1) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("nobody says how many cores {} has", name), server.where,
                {"cores: 24, of which each runs one loader worker"});
  }
  supply_.cores = server.cores.value_or(host.threads);
  if (supply_.cores < supply_.gpus) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} cores for {} GPUs: a job may have no worker", name, to_text(supply_.cores),
                            to_text(supply_.gpus)),
                server.where, {"at least one for each GPU"});
  }
  supply_.memory = server.memory.value_or(host.memory);
  if (host.storage) {
    const bool shared = host.storage->shared;
    supply_.storage = host.storage->bandwidth / (shared ? static_cast<double>(server.nodes) : 1.0);
  }
  title_ = fmt::format("{} x {} ({} GPUs each: {}), {} loader workers", to_text(server.nodes), name,
                       to_text(supply_.gpus), whole->cluster.node.gpu.name, to_text(supply_.cores));
  if (supply_.memory > DataSize::zero()) title_ += ", " + to_text(supply_.memory) + " of memory";
  if (host.storage) title_ += ", storage " + to_text(supply_.storage);
  return {};
}

Expected<JobProfiler> JobProfiler::open(const io::Catalog& catalog, const io::JobsFile& file) {
  JobProfiler profiler(catalog, file);
  if (auto set = profiler.set_supply(); !set) return tl::unexpected<Error>(set.error());
  return profiler;
}

Expected<void> JobProfiler::place(const JobEntry& job, JobProfile& profile) const {
  const std::int64_t all = supply_.gpus;
  const std::string name = job.name.substr(0, 60);
  if (job.gpus > all && job.gpus % all != 0) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("job '{}' would never start: {} GPUs are no whole servers of {}", name, to_text(job.gpus),
                            to_text(all)),
                job.gpus_where, {fmt::format("up to {}, or a multiple of it", all)});
  }
  profile.servers = std::max<std::int64_t>(job.gpus / all, 1);
  profile.demand.gpus = std::min(job.gpus, all);
  if (profile.servers > file_->server.nodes) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("job '{}' would never start: {} GPUs of {}", name, to_text(job.gpus),
                            to_text(all * file_->server.nodes)),
                job.gpus_where, {"server: {nodes: ...}, or fewer gpus"});
  }
  return {};
}

Expected<void> JobProfiler::predict(const JobEntry& job, JobProfile& profile) {
  cost::LoaderDemand& demand = profile.demand;
  std::vector<Override> settings = of_server(profile.servers, demand.gpus);
  settings.push_back({"model", job.model->text, job.model->where});
  settings.push_back({"input.dataset", job.dataset->text, job.dataset->where});
  if (job.batch) settings.push_back({"batch", std::to_string(*job.batch), job.where});
  for (const auto& [path, value] : job.settings) settings.push_back({path, value.text, value.where});
  auto scenario = resolve(*catalog_, settings);
  if (!scenario) return at(scenario.error(), job.where);
  const double part = static_cast<double>(demand.gpus) / static_cast<double>(supply_.gpus);
  const bool known_cache = scenario->input.cache_size.stated() || supply_.memory == DataSize::zero();
  if (!known_cache) scenario->input.cache_size = std::optional(supply_.memory * part);
  const double processes = plan::server_input(*scenario).processes;
  const double loaders = processes * static_cast<double>(profile.servers);
  const double wanted = static_cast<double>(job.most_workers.value_or(0)) / loaders;
  scenario->input.workers = std::optional(std::max(static_cast<std::int64_t>(std::ceil(wanted)), std::int64_t{1}));
  if (auto sound = plan::check_input(*scenario); !sound) return at(sound.error(), job.workers_where);
  const auto prediction = predictor_.predict(*scenario);
  if (!prediction) return at(prediction.error(), job.where);
  profile.model = scenario->model->name;
  profile.sample = scenario->input.dataset->sample;
  profile.samples_per_epoch = scenario->input.dataset->samples;
  profile.samples_per_step = scenario->batch * plan::replicas_of(*scenario) * scenario->strategy.accumulation;
  profile.full = per_second(prediction->input.needed_samples_per_second);
  const auto servers = static_cast<double>(profile.servers);
  const Rate full = profile.full / servers;
  const hardware::Host& host = scenario->cluster.node.host;
  const cost::LoaderWork work = cost::loader_work(scenario->input, host);
  cost::LoaderShare share = cost::loader_share(*scenario);
  share.iops.reset();
  share.storage = supply_.storage / processes;
  demand.read = read_of(work, share.from.storage, host);
  if (share.from.storage < 1) {
    profile.read_once =
        read_of(work, 1, host) * (static_cast<double>(profile.samples_per_epoch) / servers) / supply_.storage;
  }
  const double each = cores_per_worker(host, static_cast<double>(supply_.cores), supply_.gpus);
  const std::int64_t most = job.most_workers.value_or(most_useful(profile, loaders));
  for (std::int64_t workers = 1; workers <= supply_.cores && workers * profile.servers <= most; ++workers) {
    share.workers = std::max(static_cast<double>(workers) / processes, 1.0);
    share.cores = static_cast<double>(workers) * each / processes;
    const Rate loader = cost::loader_rates(work, share).all() * processes;
    demand.options.push_back({workers, {}, min(full, loader)});
    if (loader >= full) break;
  }
  return {};
}

Expected<void> JobProfiler::measure(const JobEntry& job, JobProfile& profile) const {
  cost::LoaderDemand& demand = profile.demand;
  const double copies = file_->draw ? static_cast<double>(job.gpus) : 1.0;
  const auto servers = static_cast<double>(profile.servers);
  demand.read = job.stored;
  if (job.batch) profile.samples_per_step = *job.batch * job.gpus;
  const DataSize least = std::min_element(job.rates.begin(), job.rates.end(), [](const auto& a, const auto& b) {
                           return a.memory < b.memory;
                         })->memory;
  const double part = static_cast<double>(demand.gpus) / static_cast<double>(supply_.gpus);
  if (least * (copies / servers) > supply_.memory * part * (1 + 1e-9)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("job '{}' was measured with {} of memory and more; its share of a server is {}",
                    job.name.substr(0, 60), to_text(least * (copies / servers)), to_text(supply_.memory * part)),
        job.rates_where, {"server: {memory: ...}, or rates at less"});
  }
  const std::int64_t most = job.most_workers.value_or(supply_.cores * profile.servers);
  for (const io::RatesByWorkers& curve : job.rates) {
    const DataSize memory = curve.memory * (copies / servers);
    for (std::int64_t workers = 1; workers <= supply_.cores && workers * profile.servers <= most; ++workers) {
      const double of_curve = static_cast<double>(workers) * servers / copies;
      demand.options.push_back({workers, memory, measured_at(curve, of_curve) * (copies / servers)});
    }
    for (const auto& [count, rate] : curve.points) profile.full = max(profile.full, rate * copies);
  }
  return {};
}

/// What the fair share gives, and what a rate is worth.
void JobProfiler::value(JobProfile& profile) const {
  cost::LoaderDemand& demand = profile.demand;
  demand.options = cost::useful_options(std::move(demand.options));
  const Rate fair = cost::fair_share(supply_, demand).rate;
  const auto servers = static_cast<double>(profile.servers);
  profile.fair = fair * servers;
  if (file_->fair) demand.least = fair;
  switch (file_->objective) {
    case io::ShareObjective::kFairShare: demand.unit = fair; break;
    case io::ShareObjective::kFullSpeed:
      demand.unit = profile.full / (servers * static_cast<double>(demand.gpus));
      break;
    case io::ShareObjective::kSamples: demand.unit = per_second(1); break;
  }
}

Expected<JobProfile> JobProfiler::make(const JobEntry& job) {
  JobProfile profile;
  if (auto placed = place(job, profile); !placed) return tl::unexpected<Error>(placed.error());
  if (auto made = job.model ? predict(job, profile) : measure(job, profile); !made) {
    return tl::unexpected<Error>(made.error());
  }
  value(profile);
  return profile;
}

Expected<const JobProfile*> JobProfiler::profile(const JobEntry& job) {
  const std::string key = key_of(job);
  const auto known = known_.find(key);
  if (known != known_.end()) return &known->second;
  auto made = make(job);
  if (!made) return tl::unexpected<Error>(made.error());
  return &known_.emplace(key, std::move(*made)).first->second;
}

}  // namespace ddlsim::whatif
