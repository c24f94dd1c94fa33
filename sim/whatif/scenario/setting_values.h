// How the text of a setting becomes a value of a scenario: the functions that the table in settings.cpp names. Private
// to the room.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ddlsim/io/catalog.h"
#include "ddlsim/plan/stage_cuts.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

using Into = Scenario&;
using Value = const std::string&;
using Names = const io::Catalog&;  // what names in a value stand for

/// Stores a parsed value, or passes its error on.
template <typename T, typename U>
Expected<void> store(Expected<T> parsed, U& target) {
  if (!parsed) return tl::unexpected<Error>(std::move(parsed.error()));
  target = std::move(*parsed);
  return {};
}

[[nodiscard]] Expected<bool> parse_yes(Value value);

/// The largest port that a stated rate is taken to be one of: of 100 Gb/s, of which TCP's rate is known (Zhang et al.,
/// NetAI 2020); where RDMA is assumed, of the server's own cards.
[[nodiscard]] Bandwidth assumed_port(const hardware::Node& node);

template <Precision kPrecision>
Expected<void> set_peak(Scenario& scenario, Value value, const io::Catalog&) {
  const auto rate = parse_compute_rate(value);
  if (!rate) return tl::unexpected<Error>(rate.error());
  scenario.cluster.node.gpu.peak.set(kPrecision, *rate);
  return {};
}

template <typename T>
using ParallelField = T plan::Parallel::*;

template <ParallelField<std::int64_t> kField, std::int64_t kLeast, std::int64_t kMost>
Expected<void> set_degree(Scenario& scenario, Value value, const io::Catalog&) {
  return store(parse_count(value, {kLeast, kMost}), scenario.parallel.*kField);
}

template <ParallelField<bool> kField>
Expected<void> set_choice(Scenario& scenario, Value value, const io::Catalog&) {
  return store(parse_yes(value), scenario.parallel.*kField);
}

/// A feature of a model that is known by its features. A model with layers has them from its layers.
template <typename T>
Expected<void> set_feature(Scenario& scenario, Expected<T> parsed, T workload::StepFeatures::*feature) {
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  if (!scenario.model->features) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is described by its layers, from which this follows", scenario.model->id), {},
                {"copy its file, change it there, and name the copy's path as the model"});
  }
  workload::Model changed = *scenario.model;
  (*changed.features).*feature = *parsed;
  scenario.model = std::make_shared<const workload::Model>(std::move(changed));
  return {};
}

[[nodiscard]] Expected<void> set_network(Scenario& scenario, Value value, const io::Catalog& catalog);
[[nodiscard]] Expected<void> set_nvlink(Scenario& scenario, Value value, const io::Catalog&);
[[nodiscard]] Expected<void> set_power_limit(Scenario& scenario, Value value, const io::Catalog& catalog);
[[nodiscard]] Expected<void> set_pcie(Scenario& scenario, Value value, const io::Catalog&);
[[nodiscard]] Expected<void> set_interconnect(Scenario& scenario, Value value, const io::Catalog&);
/// Of a value of `price` what names its servers: "10 $/h, dgx-a100=33 $/h" -> "dgx-a100=33 $/h". What names none is the
/// price of the job's own server, and of no other kind.
[[nodiscard]] std::string named_prices(std::string_view value);
/// Whether settings state a price that names no server.
[[nodiscard]] bool price_unnamed(std::span<const Override> settings);

[[nodiscard]] Expected<void> set_peer_to_peer(Scenario& scenario, Value value, const io::Catalog&);
/// "tp-cp-ep-dp-pp": every axis once.
[[nodiscard]] Expected<void> set_order(Scenario& scenario, Value value, const io::Catalog&);
/// "8-8-7-9": so many layers of the model's list in each stage.
[[nodiscard]] Expected<void> set_layers_per_stage(Scenario& scenario, Value value, const io::Catalog&);
/// Its value for cuts between a model's blocks: "5-5-4".
[[nodiscard]] std::string layers_per_stage_text(const plan::CutPoints& points, std::span<const std::size_t> cuts);
[[nodiscard]] Expected<double> number_between(Value value, double least, double most);
/// A kind of strategy; what a framework adds to it was spelt out before (with_frameworks).
[[nodiscard]] Expected<void> set_strategy(Scenario& scenario, Value value, const io::Catalog&);
[[nodiscard]] Expected<void> set_jitter(Scenario& scenario, Value value, const io::Catalog&);
/// The GPU comes with the profiles that may answer for it; somebody may name another, or none.
[[nodiscard]] Expected<void> set_profile(Scenario& scenario, Value value, const io::Catalog& catalog);
[[nodiscard]] Expected<void> set_straggler(Scenario& scenario, Value value, const io::Catalog&);
[[nodiscard]] Expected<void> set_partition(Scenario& scenario, Value value, const io::Catalog&);
[[nodiscard]] Expected<DataSize> size_or_zero(Value value);
[[nodiscard]] Expected<void> set_software(Scenario& scenario, Value value, const io::Catalog&);
[[nodiscard]] Expected<void> set_model_optimizer(Scenario& scenario, Value value, const io::Catalog&);
[[nodiscard]] Expected<void> set_software_year(Scenario& scenario, Value value, const io::Catalog&);
[[nodiscard]] Expected<void> set_price(Scenario& scenario, Value value, const io::Catalog& catalog);
/// A number above zero.
[[nodiscard]] Expected<double> parse_positive(Value value);

}  // namespace ddlsim::whatif
