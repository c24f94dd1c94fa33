#include "scenario/failure_settings.h"

#include "ddlsim/hardware/node.h"
#include "ddlsim/support/quantity_io.h"
#include "scenario/setting_values.h"

namespace ddlsim::whatif::failing {
namespace {

constexpr std::int64_t kMostRuns = 100'000;
constexpr std::int64_t kMostRounds = 1'000'000;

}  // namespace

Expected<void> set_rates(Scenario& scenario, const std::string& value, const io::Catalog& catalog) {
  return store(catalog.failures(value), scenario.failures.published);
}

Expected<void> set_mtbf_gpu(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_time(value), scenario.failures.gpu);
}

Expected<void> set_mtbf_node(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_time(value), scenario.failures.node);
}

Expected<void> set_mtbf_switch(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_time(value), scenario.failures.network);
}

Expected<void> set_nodes_per_switch(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_count(value, {1, hardware::kMaxNodes}), scenario.failures.nodes_per_switch);
}

Expected<void> set_restart(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_time(value, Range::kNonNegative), scenario.failures.restart);
}

Expected<void> set_warmup(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_time(value, Range::kNonNegative), scenario.failures.warmup);
}

Expected<void> set_spares(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_count(value, {0, hardware::kMaxNodes}), scenario.failures.spares);
}

Expected<void> set_repair(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_time(value, Range::kNonNegative), scenario.failures.repair);
}

Expected<void> set_runs(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_count(value, {0, kMostRuns}), scenario.failures.simulated_runs);
}

Expected<void> set_seed(Scenario& scenario, const std::string& value, const io::Catalog&) {
  const auto seed = parse_count(value, {0, std::int64_t{1} << 62});
  if (!seed) return tl::unexpected<Error>(seed.error());
  scenario.failures.seed = static_cast<std::uint64_t>(*seed);
  return {};
}

Expected<void> set_mode(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_choice(cost::kCheckpointModes, value, "way of taking checkpoints"), scenario.checkpoints.mode);
}

Expected<void> set_interval(Scenario& scenario, const std::string& value, const io::Catalog&) {
  if (value == "best") {
    scenario.checkpoints.interval.reset();
    return {};
  }
  return store(parse_time(value), scenario.checkpoints.interval);
}

Expected<void> set_storage(Scenario& scenario, const std::string& value, const io::Catalog& catalog) {
  return store(catalog.storage(value), scenario.checkpoints.storage);
}

Expected<void> set_bandwidth(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_bandwidth(value), scenario.checkpoints.bandwidth);
}

Expected<void> set_node_bandwidth(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_bandwidth(value), scenario.checkpoints.node_bandwidth);
}

Expected<void> set_size(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_data_size(value), scenario.checkpoints.size);
}

Expected<void> set_writers(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_count(value, {1, hardware::kMaxNodes}), scenario.checkpoints.writers);
}

Expected<void> set_write(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_time(value, Range::kNonNegative), scenario.checkpoints.write);
}

Expected<void> set_snapshot(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_time(value, Range::kNonNegative), scenario.checkpoints.snapshot);
}

Expected<void> set_remote_every(Scenario& scenario, const std::string& value, const io::Catalog&) {
  return store(parse_count(value, {1, kMostRounds}), scenario.checkpoints.remote_every);
}

}  // namespace ddlsim::whatif::failing
