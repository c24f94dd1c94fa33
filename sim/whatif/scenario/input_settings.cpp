#include "scenario/input_settings.h"

#include <fmt/core.h>

#include <utility>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif::input {
namespace {

constexpr Choices<bool, 4> kPinnedOrNot{{{"yes", true}, {"no", false}, {"true", true}, {"false", false}}};
constexpr std::int64_t kMostWorkers = 1 << 16;
constexpr std::int64_t kMostAhead = 1 << 20;

/// Stores a parsed value, or passes its error on.
template <typename T, typename U>
Expected<void> keep(Expected<T> parsed, U& target) {
  if (!parsed) return tl::unexpected<Error>(std::move(parsed.error()));
  target = std::move(*parsed);
  return {};
}

template <typename T>
Expected<void> keep_some(Expected<T> parsed, Stated<std::optional<T>>& target) {
  if (!parsed) return tl::unexpected<Error>(std::move(parsed.error()));
  target = std::optional<T>(std::move(*parsed));
  return {};
}

/// A plain number from zero to `most`.
Expected<double> number_up_to(const std::string& value, double most) {
  auto number = parse_number(value);
  if (!number) return number;
  if (*number < 0 || *number > most) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not between 0 and {}", value.substr(0, 60), most));
  }
  return number;
}

Expected<hardware::Storage*> storage_of(Scenario& scenario) {
  auto& storage = scenario.cluster.node.host.storage;
  if (storage) return &*storage;
  return fail(ErrorCode::kInvalidArgument, fmt::format("nobody says what storage {} has", scenario.cluster.node.name),
              {}, {"--set input.storage=nvme (`ddlsim list storage`)"});
}

template <typename T, typename U>
Expected<void> keep_in_storage(Scenario& scenario, Expected<T> parsed, U hardware::Storage::*field) {
  auto storage = storage_of(scenario);
  if (!storage) return tl::unexpected<Error>(storage.error());
  return keep(std::move(parsed), (**storage).*field);
}

}  // namespace

Expected<void> set_dataset(Scenario& scenario, const std::string& value, const io::Catalog& catalog) {
  return keep(catalog.dataset(value), scenario.input.dataset);
}

Expected<void> set_loader(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep(parse_choice(plan::kLoaders, value, "loader"), scenario.input.loader);
}

Expected<void> set_workers(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep_some(parse_count(value, {0, kMostWorkers}), scenario.input.workers);
}

Expected<void> set_prefetch(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep(parse_count(value, {1, kMostAhead}), scenario.input.prefetch);
}

Expected<void> set_cache(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep(parse_choice(plan::kCachePolicies, value, "cache"), scenario.input.cache);
}

Expected<void> set_cache_size(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep_some(parse_data_size(value, Range::kNonNegative), scenario.input.cache_size);
}

Expected<void> set_epoch(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep(parse_choice(plan::kEpochs, value, "epoch"), scenario.input.epoch);
}

Expected<void> set_decode(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep(parse_choice(plan::kDecodeOn, value, "place to decode"), scenario.input.decode);
}

Expected<void> set_gpu_decode(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep(parse_time(value, Range::kNonNegative), scenario.input.gpu_decode);
}

Expected<void> set_contention(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep_some(number_up_to(value, 1), scenario.input.contention);
}

Expected<void> set_variation(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep_some(number_up_to(value, 10), scenario.input.variation);
}

Expected<void> set_pinned(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep(parse_choice(kPinnedOrNot, value, "answer"), scenario.input.pinned);
}

Expected<void> set_storage(Scenario& scenario, const std::string& value, const io::Catalog& catalog) {
  auto storage = catalog.storage(value);
  const auto& own = scenario.cluster.node.host.storage;
  // The server's own, named: at what the server reaches of it.
  if (storage && own && own->id == storage->id) return {};
  if (!storage) return tl::unexpected<Error>(std::move(storage.error()));
  scenario.cluster.node.host.storage = scenario.cluster.node.host.reaching(std::move(*storage));
  return {};
}

Expected<void> set_storage_bandwidth(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep_in_storage(scenario, parse_bandwidth(value), &hardware::Storage::bandwidth).map([&] {
    scenario.cluster.node.host.storage->bandwidth_origin = Origin::kStated;
  });
}

Expected<void> set_storage_iops(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep_in_storage(scenario, parse_rate(value), &hardware::Storage::iops).map([&] {
    scenario.cluster.node.host.storage->iops_origin = Origin::kStated;
  });
}

Expected<void> set_storage_latency(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep_in_storage(scenario, parse_time(value, Range::kNonNegative), &hardware::Storage::latency);
}

Expected<void> set_storage_capacity(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep_in_storage(scenario, parse_data_size(value), &hardware::Storage::capacity);
}

/// Another processor in the same sockets: a thread of it for each that there was, unless somebody says how many.
Expected<void> set_cpu(Scenario& scenario, const std::string& value, const io::Catalog& catalog) {
  auto cpu = catalog.cpu(value);
  if (!cpu) return tl::unexpected<Error>(cpu.error());
  hardware::Host& host = scenario.cluster.node.host;
  if (host.threads == 0) host.threads = 2 * cpu->cores * cpu->threads_per_core;  // two sockets, as most GPU servers
  host.cpu = std::move(*cpu);
  return {};
}

Expected<void> set_threads(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return keep(parse_count(value, {1, kMostWorkers}), scenario.cluster.node.host.threads);
}

}  // namespace ddlsim::whatif::input
