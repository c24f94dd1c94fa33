#include "ddlsim/plan/input.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/plan/job.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::plan {
namespace {

/// What a loader needs to know of its server and nobody says: all of it at once.
Expected<void> check_server(const Job& job) {
  const Input& input = job.input;
  const hardware::Host& host = job.cluster.node.host;
  std::vector<std::string> missing;
  std::vector<std::string> notes;
  const auto need = [&](bool known, const char* what, const char* note) {
    if (known) return;
    missing.emplace_back(what);
    notes.emplace_back(note);
  };
  need(host.cpu.has_value(), "processors", "--set input.cpu=xeon-e5-2686-v4 (`ddlsim list cpus`)");
  // Processors that are named say it too.
  need(!host.cpu || host.threads >= 1, "hardware threads", "--set input.threads=64");
  const bool in_memory = input.cache.get() == CachePolicy::kAll;
  need(in_memory || host.storage, "storage", "--set input.storage=nvme (`ddlsim list storage`), or input.cache=all");
  const bool caches = !in_memory && input.cache.get() != CachePolicy::kNone && input.epoch.get() == Epoch::kLater;
  need(!caches || input.cache_size.get() || host.memory > DataSize::zero(), "memory",
       "--set input.cache_size=\"400 GB\", or input.cache=none");
  if (missing.empty()) return {};
  std::string list = missing.front();
  for (std::size_t i = 1; i < missing.size(); ++i) list += (i + 1 == missing.size() ? " and " : ", ") + missing[i];
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("input: nobody says what {} {} has", list, job.cluster.node.name), {}, std::move(notes));
}

}  // namespace

ServerInput server_input(const Job& job) {
  const double replicas = static_cast<double>(replicas_of(job)) / static_cast<double>(job.cluster.nodes);
  return {.samples = static_cast<double>(job.batch) * replicas, .processes = std::max(replicas, 1.0)};
}

Expected<void> check_input(const Job& job) {
  const Input& input = job.input;
  if (!input.dataset) return {};
  if (auto known = check_server(job); !known) return known;
  const hardware::Host& host = job.cluster.node.host;
  const workload::Dataset& data = *input.dataset;
  if (host.storage && host.storage->capacity && data.size() > *host.storage->capacity) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} has {}, {} holds {}", data.name, to_text(data.size()), host.storage->name,
                            to_text(*host.storage->capacity)),
                {}, {"--set input.storage.capacity=... where several are joined, or another input.storage"});
  }
  const std::int64_t in_step = job.batch * std::max<std::int64_t>(replicas_of(job), 1);
  if (in_step > data.samples) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a step takes {} samples, {} has {}", to_text(in_step), data.name, to_text(data.samples)),
                {}, {"choose a smaller batch, fewer GPUs or another data set"});
  }
  const std::int64_t batches = std::max<std::int64_t>(data.samples / in_step, 1);
  const std::int64_t workers = input.workers->value_or(1);
  if (workers > batches) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} workers for a GPU, which has {} batches in an epoch of {}", to_text(workers),
                            to_text(batches), data.name),
                {}, {"choose fewer workers, or a smaller batch"});
  }
  return {};
}

}  // namespace ddlsim::plan
