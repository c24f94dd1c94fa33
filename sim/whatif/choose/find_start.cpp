#include "choose/find_start.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/training.h"
#include "scenario/setting_values.h"

namespace ddlsim::whatif {
namespace {

constexpr std::int64_t kMostTried = 1024;

Expected<SearchStart> started(const io::Catalog& catalog, std::span<const Override> settings, Predictor& predictor) {
  auto scenario = resolve(catalog, settings);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  auto prediction = predictor.predict(*scenario);
  if (!prediction) return tl::unexpected<Error>(prediction.error());
  return SearchStart{std::move(*scenario), std::move(*prediction), {}};
}

/// Of what a job may leave unsaid, and is looked for: where the search begins. Nothing: the job says it, or needs none.
std::optional<std::string> first_value(std::string_view path, const Expected<SearchStart>& as_it_is) {
  if (!as_it_is) return path == "checkpoint.bandwidth" ? std::optional<std::string>("1 GB/s") : std::nullopt;
  if (path == "price" && !price_of(as_it_is->scenario)) return "1 $/h";
  if (path == "failures.mtbf_gpu" && !as_it_is->scenario.failures.stated()) return "10000 h";
  return std::nullopt;
}

/// Whether other counts may do: what nobody can read or find stays so with any number of servers.
bool may_be_of_count(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsupported ||
         error.code == ErrorCode::kInfeasible;
}

}  // namespace

Expected<SearchStart> start_of_search(const io::Catalog& catalog, std::span<const Override> base,
                                      const NumberSetting& variable, Predictor& predictor) {
  auto as_it_is = started(catalog, base, predictor);
  if (const auto value = first_value(variable.path, as_it_is)) {
    std::vector<Override> settings(base.begin(), base.end());
    settings.push_back({std::string(variable.path), *value, {}});
    if (auto found = started(catalog, settings, predictor)) {
      found->instead = settings.back();
      return found;
    }
  }
  if (as_it_is) return as_it_is;
  const bool gpus = variable.path == "nodes" || variable.path == "gpus_per_node";
  if (!gpus || !may_be_of_count(as_it_is.error())) return as_it_is;
  std::vector<Override> settings(base.begin(), base.end());
  settings.push_back({std::string(variable.path), "", {}});
  for (std::int64_t count = 1; count <= kMostTried; ++count) {
    settings.back().value = std::to_string(count);
    auto found = started(catalog, settings, predictor);
    if (!found) continue;
    found->instead = settings.back();
    return found;
  }
  return as_it_is;
}

std::string with_ports(std::span<const Override> stated, std::int64_t ports, const std::string& rate) {
  const auto last = std::find_if(stated.rbegin(), stated.rend(), [](const auto& s) { return s.path == "network"; });
  const bool counted = last != stated.rend() && last->value.find(" x ") != std::string::npos;
  return ports > 1 || counted ? fmt::format("{} x {}", ports, rate) : rate;
}

namespace {

/// Of a run whose steps have more samples the more there is of the variable: nobody asked for another batch.
std::optional<std::string> note_of_batch(const Scenario& scenario, const answer::Inverse& result) {
  const bool asked = result.variable == "batch" || result.variable == "global_batch";
  if (asked || !asks_for_training(scenario)) return std::nullopt;
  const std::int64_t now = result.baseline->split.global_batch();
  const std::int64_t there = result.prediction.split.global_batch();
  if (there == now && result.limit.split.global_batch() == now) return std::nullopt;
  return fmt::format(
      "the batch of a step grows with {}: {} {} at {} ({} in the job as stated), and the {} it trains are taken to "
      "stay; --global-batch keeps it",
      result.variable, to_text(there), in_number(there, result.prediction.sample), result.setting, to_text(now),
      scenario.training.steps ? "steps" : "epochs");
}

/// Of a rate within 1 % above a multiple of the assumed port, where it is taken as more ports than that.
std::optional<std::string> note_of_ports(const io::Catalog& catalog, std::span<const Override> base,
                                         const answer::Inverse& result) {
  constexpr double kJustAbove = 1.01;
  if (result.variable != "network" || !result.value) return std::nullopt;
  std::vector<Override> settings(base.begin(), base.end());
  std::erase_if(settings, [](const Override& s) { return s.path.starts_with("network"); });
  const auto own = resolve(catalog, settings);
  if (!own) return std::nullopt;
  const Bandwidth port = assumed_port(own->cluster.node);
  const Bandwidth found = bytes_per_second(*result.value);
  const double times = std::floor(found / port);
  const Bandwidth below = port * times;
  if (times < 1 || found <= below || found > below * kJustAbove) return std::nullopt;
  const auto ports_of = [&](const std::string& rate) {
    settings.push_back({"network", rate, {}});
    const auto scenario = resolve(catalog, settings);
    settings.pop_back();
    return scenario ? scenario->cluster.node.network_ports : 0;
  };
  const std::int64_t before = ports_of(to_text_in_bits(below));
  const std::int64_t after = ports_of(result.setting);
  if (before < 1 || after <= before) return std::nullopt;
  return fmt::format(
      "network: {} is just above {}: nobody says how many ports a rate is, up to {} it is taken as {}, above as {}, "
      "and "
      "that makes it hold, not the rate; --network '{} x {}' has {} whatever the rate",
      result.setting, to_text_in_bits(below), to_text_in_bits(below), before, after, before,
      to_text_in_bits(below / static_cast<double>(before)), before);
}

}  // namespace

std::vector<std::string> notes_of_answer(const io::Catalog& catalog, std::span<const Override> base,
                                         const Scenario& scenario, const answer::Inverse& result) {
  std::vector<std::string> notes;
  for (auto& note : {note_of_batch(scenario, result), note_of_ports(catalog, base, result)}) {
    if (note) notes.push_back(*note);
  }
  return notes;
}

Expected<void> check_variable(std::string_view variable, const FindOptions& options) {
  const auto number = number_setting(variable);
  if (!number) return tl::unexpected<Error>(number.error());
  std::array<std::optional<double>, 2> ends;
  for (const auto& [said, end, word] :
       {std::tuple{&options.from, ends.data(), "--from"}, {&options.to, ends.data() + 1, "--to"}}) {
    if (!*said) continue;
    const auto value = parse_number_of(number->kind, **said);
    if (!value) {
      Error error = value.error();
      error.message = fmt::format("{}: {}", word, error.message);
      return tl::unexpected<Error>(std::move(error));
    }
    *end = *value;
  }
  if (!ends[0] || !ends[1] || *ends[0] < *ends[1]) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("--from {} --to {}: there is nothing between them", *options.from, *options.to));
}

}  // namespace ddlsim::whatif
