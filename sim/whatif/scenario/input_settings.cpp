#include "scenario/input_settings.h"

#include <fmt/core.h>

#include <utility>

#include "ddlsim/support/quantity_io.h"
#include "scenario/setting_values.h"

namespace ddlsim::whatif::input {
namespace {

Expected<hardware::Storage*> storage_of(Scenario& scenario) {
  auto& storage = scenario.cluster.node.host.storage;
  if (storage) return &*storage;
  return fail(ErrorCode::kInvalidArgument, fmt::format("nobody says what storage {} has", scenario.cluster.node.name),
              {}, {"--set input.storage=nvme (`ddlsim list storage`)"});
}

template <typename T, typename U>
Expected<void> store_in_storage(Scenario& scenario, Expected<T> parsed, U hardware::Storage::*field) {
  auto storage = storage_of(scenario);
  if (!storage) return tl::unexpected<Error>(storage.error());
  return store(std::move(parsed), (**storage).*field);
}

}  // namespace

Expected<void> set_storage(Scenario& scenario, Value value, const io::Catalog& catalog) {
  auto storage = catalog.storage(value);
  const auto& own = scenario.cluster.node.host.storage;
  // The server's own, named: at what the server reaches of it.
  if (storage && own && own->id == storage->id) return {};
  if (!storage) return tl::unexpected<Error>(std::move(storage.error()));
  scenario.cluster.node.host.storage = scenario.cluster.node.host.reaching(std::move(*storage));
  return {};
}

Expected<void> set_storage_bandwidth(Scenario& scenario, Value value, const io::Catalog&) {
  return store_in_storage(scenario, parse_bandwidth(value), &hardware::Storage::bandwidth).map([&] {
    scenario.cluster.node.host.storage->bandwidth_origin = Origin::kStated;
  });
}

Expected<void> set_storage_iops(Scenario& scenario, Value value, const io::Catalog&) {
  return store_in_storage(scenario, parse_rate(value), &hardware::Storage::iops).map([&] {
    scenario.cluster.node.host.storage->iops_origin = Origin::kStated;
  });
}

Expected<void> set_storage_latency(Scenario& scenario, Value value, const io::Catalog&) {
  return store_in_storage(scenario, parse_time(value, Range::kNonNegative), &hardware::Storage::latency);
}

Expected<void> set_storage_capacity(Scenario& scenario, Value value, const io::Catalog&) {
  return store_in_storage(scenario, parse_data_size(value), &hardware::Storage::capacity);
}

/// Another processor in the same sockets: a thread of it for each that there was, unless somebody says how many.
Expected<void> set_cpu(Scenario& scenario, Value value, const io::Catalog& catalog) {
  auto cpu = catalog.cpu(value);
  if (!cpu) return tl::unexpected<Error>(cpu.error());
  hardware::Host& host = scenario.cluster.node.host;
  if (host.threads == 0) host.threads = 2 * cpu->cores * cpu->threads_per_core;  // two sockets, as most GPU servers
  host.cpu = std::move(*cpu);
  return {};
}

}  // namespace ddlsim::whatif::input
