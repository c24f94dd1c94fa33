#include "settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/collective.h"
#include "ddlsim/whatif/framework.h"

namespace ddlsim::whatif {
namespace {

constexpr std::int64_t kMaxBatch = std::int64_t{1} << 32;
constexpr std::int64_t kMaxServers = hardware::kMaxNodes;
constexpr std::int64_t kMaxRank = 1 << 20;
constexpr std::int64_t kMaxDegree = 1 << 20;
constexpr std::int64_t kMaxAccumulation = 1 << 20;  // times kMaxBatch stays far from 64 bits

constexpr Choices<bool, 4> kYesNo{{{"yes", true}, {"no", false}, {"true", true}, {"false", false}}};

using Value = const std::string&;

/// Stores a parsed value, or passes its error on.
template <typename T, typename U>
Expected<void> store(Expected<T> parsed, U& target) {
  if (!parsed) return tl::unexpected<Error>(std::move(parsed.error()));
  target = std::move(*parsed);
  return {};
}

Expected<void> set_network(Scenario& scenario, Value value, const io::Catalog& catalog) {
  hardware::Node& node = scenario.cluster.node;
  std::string name = value;
  std::int64_t ports = 1;
  if (const std::size_t times = value.find(" x "); times != std::string::npos) {
    const auto count = parse_count(value.substr(0, times), {1, hardware::kMaxGpusPerNode});
    if (!count) return tl::unexpected<Error>(count.error());
    ports = *count;
    name = value.substr(times + 3);
  }
  // "100GbE" is a link's name, "100 Gb/s" a rate.
  const bool digit = !name.empty() && name.front() >= '0' && name.front() <= '9';
  const bool rate = digit && !catalog.knows(io::Kind::kLinks, name);
  if (rate) {
    const auto bandwidth = parse_bandwidth(name);
    if (!bandwidth) return tl::unexpected<Error>(bandwidth.error());
    node.network.bandwidth = *bandwidth;
    node.network.transport = {};  // a rate does not say what drives it
    node.network.id.clear();
    node.network.name = to_text_in_bits(*bandwidth);
  } else {
    auto link = catalog.link(name);
    if (!link) {
      link.error().notes.push_back("or write a rate, as '25 Gb/s', or several ports, as '4 x infiniband-100g'");
      return tl::unexpected<Error>(link.error());
    }
    if (link->kind != hardware::LinkKind::kNetwork) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is no network but {}", name, name_of(hardware::kLinkKinds, link->kind)));
    }
    node.network = std::move(*link);
  }
  node.network_ports = ports;
  return {};
}

Expected<void> set_nvlink(Scenario& scenario, Value value, const io::Catalog&) {
  hardware::Node& node = scenario.cluster.node;
  if (!node.nvlink) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no NVLink", node.gpu.name), {},
                {"choose a node whose GPU has one (`ddlsim list nodes`)"});
  }
  return store(parse_bandwidth(value), node.nvlink->bandwidth);
}

Expected<void> set_pcie(Scenario& scenario, Value value, const io::Catalog&) {
  const auto bandwidth = parse_bandwidth(value);
  if (!bandwidth) return tl::unexpected<Error>(bandwidth.error());
  scenario.cluster.node.pcie.bandwidth = *bandwidth;
  scenario.cluster.node.host_link.bandwidth = *bandwidth;
  return {};
}

Expected<void> set_interconnect(Scenario& scenario, Value value, const io::Catalog&) {
  hardware::Node& node = scenario.cluster.node;
  const auto kind = parse_choice(hardware::kInterconnects, value, "interconnect");
  if (!kind) return tl::unexpected<Error>(kind.error());
  if (*kind == hardware::Interconnect::kNvlink && !node.nvlink) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no NVLink", node.gpu.name));
  }
  if (*kind == hardware::Interconnect::kNvlinkMesh && !(node.nvlink && node.nvlink_mesh)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("the file of {} does not say which GPUs are linked", node.id),
                {}, {"a mesh is a node whose file has `nvlink_pairs` (hardware/README.md)"});
  }
  if (*kind == hardware::Interconnect::kPcie) node.nvlink_mesh.reset();
  node.gpu_interconnect = *kind;
  return {};
}

template <Precision kPrecision>
Expected<void> set_peak(Scenario& scenario, Value value, const io::Catalog&) {
  const auto rate = parse_compute_rate(value);
  if (!rate) return tl::unexpected<Error>(rate.error());
  scenario.cluster.node.gpu.peak.set(kPrecision, *rate);
  return {};
}

/// What hyphens part.
std::vector<std::string> parts_of(Value value) {
  std::vector<std::string> parts{""};
  for (const char c : value) {
    if (c == '-') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Expected<bool> parse_yes(Value value) { return parse_choice(kYesNo, value, "answer"); }

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

/// "tp-cp-ep-dp-pp": every axis once.
Expected<void> set_order(Scenario& scenario, Value value, const io::Catalog&) {
  const auto names = parts_of(value);
  const auto wrong = [] {
    return fail(ErrorCode::kInvalidArgument, "the order names every axis once, innermost first", {},
                {"as tp-cp-ep-dp-pp"});
  };
  if (names.size() != plan::kAxes) return wrong();
  plan::AxisOrder order{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto axis = parse_choice(plan::kAxisNames, names[i], "axis");
    if (!axis) return tl::unexpected<Error>(axis.error());
    if (std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), *axis) !=
        order.begin() + static_cast<std::ptrdiff_t>(i)) {
      return wrong();
    }
    order[i] = *axis;
  }
  scenario.parallel.order = order;
  return {};
}

/// "8-8-7-9": so many layers of the model's list in each stage.
Expected<void> set_layers_per_stage(Scenario& scenario, Value value, const io::Catalog&) {
  std::vector<std::size_t> cuts;
  std::size_t layers = 0;
  for (const std::string& part : parts_of(value)) {
    const auto count = parse_count(part, {1, 1 << 20});
    if (!count) return tl::unexpected<Error>(count.error());
    if (layers > 0) cuts.push_back(layers);
    layers += static_cast<std::size_t>(*count);
  }
  if (scenario.model != nullptr && scenario.model->has_layers() && layers != scenario.model->layers.size()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} layers in all, but {} has {}", layers, scenario.model->id,
                                                         scenario.model->layers.size()));
  }
  scenario.parallel.cuts = std::move(cuts);
  return {};
}

Expected<void> set_factor(Value value, double least, double most, double& target) {
  const auto number = parse_number(value);
  if (!number) return tl::unexpected<Error>(number.error());
  if (*number < least || *number > most) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is not between {} and {}", value.substr(0, 60), least, most));
  }
  target = *number;
  return {};
}

constexpr Choices<workload::Fusion, 4> kFusions{
    {{"none", {}}, {"pointwise", {true, false}}, {"attention", {false, true}}, {"all", {true, true}}}};

Expected<void> set_fusion(Scenario& scenario, Value value, const io::Catalog&) {
  return store(parse_choice(kFusions, value, "fusion"), scenario.fusion);
}

/// A kind of strategy; what a framework adds to it was spelt out before (with_frameworks).
Expected<void> set_strategy(Scenario& scenario, Value value, const io::Catalog&) {
  auto kind = parse_choice(plan::kStrategies, value, "strategy");
  if (!kind) {
    std::vector<std::string> names;
    for (const auto& [name, what] : plan::kStrategies) names.emplace_back(name);
    for (const Framework& framework : frameworks()) names.emplace_back(framework.name);
    kind.error().notes = {suggestion(value, names)};
  }
  return store(std::move(kind), scenario.strategy.kind);
}

Expected<void> set_collective_table(Scenario& scenario, Value value, const io::Catalog&) {
  return store(load_collective_table(value), scenario.collective_table);
}

Expected<void> set_oversubscription(Scenario& scenario, Value value, const io::Catalog&) {
  const auto ratio = parse_number(value);
  if (!ratio) return tl::unexpected<Error>(ratio.error());
  if (*ratio < 1 || *ratio > 1000) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not between 1 and 1000", value.substr(0, 60)));
  }
  scenario.cluster.oversubscription = *ratio;
  return {};
}

Expected<void> set_jitter(Scenario& scenario, Value value, const io::Catalog&) {
  if (value == "0" || value == "0 %") {
    scenario.jitter = 0.0;
    return {};
  }
  return store(parse_fraction(value), scenario.jitter);
}

Expected<void> set_time_factor(Scenario& scenario, Value value, const io::Catalog&) {
  const auto factor = parse_number(value);
  if (!factor) return tl::unexpected<Error>(factor.error());
  if (*factor < 1e-6 || *factor > 1e6) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not between 1e-6 and 1e6", value));
  }
  scenario.gpu_time_factor = *factor;
  return {};
}

/// What frameworks take on top of kernels comes with the catalog; somebody may want kernels alone.
Expected<void> set_software(Scenario& scenario, Value value, const io::Catalog&) {
  if (value == "learnt") return {};
  if (value != "none") {
    return fail(ErrorCode::kNotFound, fmt::format("'{}' is no software", value.substr(0, 60)), {},
                {"valid: learnt, none"});
  }
  scenario.software = nullptr;
  return {};
}

Expected<void> set_software_year(Scenario& scenario, Value value, const io::Catalog&) {
  const auto year = parse_number(value);
  if (!year) return tl::unexpected<Error>(year.error());
  if (*year < 2010 || *year > 2100) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no year from 2010 to 2100", value.substr(0, 60)));
  }
  scenario.software_year = std::optional<double>(*year);
  return {};
}

/// The GPU comes with the profiles that may answer for it; somebody may name another, or none.
Expected<void> set_profile(Scenario& scenario, Value value, const io::Catalog& catalog) {
  if (value == "auto") return {};
  std::vector<hardware::MeasuredProfile> named;
  if (value != "none") {
    auto profile = catalog.measured_profile(value);
    if (!profile) return tl::unexpected<Error>(profile.error());
    named.push_back(std::move(*profile));
  }
  scenario.cluster.node.gpu.profiles = std::move(named);
  return {};
}

Expected<void> set_straggler(Scenario& scenario, Value value, const io::Catalog&) {
  const auto factor = parse_number(value);
  if (!factor) return tl::unexpected<Error>(factor.error());
  if (*factor < 1 || *factor > 1e6) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not between 1 and 1e6", value), {},
                {"1.3 is a GPU whose work takes 1.3 times as long"});
  }
  scenario.straggler = *factor;
  return {};
}

Expected<void> set_partition(Scenario& scenario, Value value, const io::Catalog&) {
  const auto size = parse_data_size(value);
  if (!size) return tl::unexpected<Error>(size.error());
  if (*size < kilobytes(1)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is smaller than 1 kB", value));
  }
  scenario.strategy.partition = *size;
  return {};
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

Expected<DataSize> size_or_zero(Value value) { return parse_data_size(value, Range::kNonNegative); }

/// In the order in which they are applied: what replaces a whole part comes before its details.
constexpr auto kLeaves = std::to_array<Leaf>({
    {"model", "the workload: a name or a file (and model.NAME for its dimensions, as model.sequence)", "resnet50",
     nullptr},
    {"node", "the server or cloud instance: a name or a file", "dgx1-v100",
     [](Scenario& s, Value v, const io::Catalog& c) { return store(c.node(v), s.cluster.node); }},
    {"gpu", "another GPU in that server", "h100",
     [](Scenario& s, Value v, const io::Catalog& c) -> Expected<void> {
       auto gpu = c.gpu(v);
       if (!gpu) return tl::unexpected<Error>(gpu.error());
       return c.fit_gpu(s.cluster.node, std::move(*gpu));
     }},
    {"nodes", "how many servers", "4",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_count(v, {1, hardware::kMaxNodes}), s.cluster.nodes);
     }},
    {"gpus_per_node", "how many GPUs of a server the job uses (default: all)", "8",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_count(v, {1, s.cluster.node.gpus}), s.cluster.gpus_per_node);
     }},
    {"batch", "samples per GPU and pass; of a split model, of a replica: the micro-batch", "64",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_count(v, {1, kMaxBatch}), s.batch); }},
    {"precision", "fp32, tf32, fp16 (amp), bf16, fp8", "fp16",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(kPrecisions, v, "precision"), s.precision);
     }},
    {"strategy", "ps, allreduce, pearl, or a framework's way (`ddlsim list frameworks`)", "allreduce", set_strategy},
    {"network", "of a server: a rate, a link's name, or several ports of it", "25 Gb/s", set_network},
    {"network.latency", "one hop", "14 us",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_time(v, Range::kNonNegative), s.cluster.node.network.latency);
     }},
    {"gpu.peak.fp32", "dense rate of the GPU at that precision", "15.7 TFLOP/s", set_peak<Precision::kFp32>},
    {"gpu.peak.tf32", "likewise", "156 TFLOP/s", set_peak<Precision::kTf32>},
    {"gpu.peak.fp16", "likewise", "125 TFLOP/s", set_peak<Precision::kFp16>},
    {"gpu.peak.bf16", "likewise", "312 TFLOP/s", set_peak<Precision::kBf16>},
    {"gpu.peak.fp8", "likewise", "1979 TFLOP/s", set_peak<Precision::kFp8>},
    {"gpu.memory_bandwidth", "of the GPU's memory", "900 GB/s",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_bandwidth(v), s.cluster.node.gpu.memory_bandwidth);
     }},
    {"gpu.memory_size", "of the GPU's memory", "32 GB",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_data_size(v), s.cluster.node.gpu.memory_size);
     }},
    {"gpu.calibration", "profile of the GPU's kernels: auto (its own, else the nearest of its architecture's), none, or an id", "none",
     set_profile},
    {"fusion", "what runs as one kernel: none, pointwise, attention, all (workload/fusion.h)", "all", set_fusion},
    {"cuda_graphs", "the CPU launches a step's kernels at once: yes, no", "yes",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_yes(v), s.cuda_graphs); }},
    {"gpu_interconnect", "what joins the GPUs of a server: nvlink or pcie", "nvlink", set_interconnect},
    {"nvlink", "all NVLinks of one GPU, one direction", "150 GB/s", set_nvlink},
    {"nvlink.latency", "one hop", "3.4 us",
     [](Scenario& s, Value v, const io::Catalog&) -> Expected<void> {
       if (!s.cluster.node.nvlink) return fail(ErrorCode::kInvalidArgument, "the GPU has no NVLink");
       return store(parse_time(v, Range::kNonNegative), s.cluster.node.nvlink->latency);
     }},
    {"pcie", "every PCIe link of the server, one direction", "15.75 GB/s", set_pcie},
    {"pcie.host", "the links between the host and the switches of its GPUs alone", "15.75 GB/s",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_bandwidth(v), s.cluster.node.host_link.bandwidth);
     }},
    {"pcie.latency", "one hop", "5.7 us",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_time(v, Range::kNonNegative), s.cluster.node.pcie.latency);
     }},
    {"pcie.uplinks", "PCIe links between the host and the switches of its GPUs", "4",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_count(v, {1, hardware::kMaxGpusPerNode}), s.cluster.node.pcie_uplinks);
     }},
    {"strategy.grouping", "how gradients become messages: buckets, fusion, per-tensor, flat, partitions", "buckets",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kGroupings, v, "grouping"), s.strategy.grouping);
     }},
    {"strategy.first_bucket", "buckets: size of the first", "1 MiB",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_data_size(v), s.strategy.first_bucket); }},
    {"strategy.bucket", "buckets: size of the others; fusion: size of the buffer", "25 MiB",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_data_size(v), s.strategy.bucket); }},
    {"strategy.cycle", "fusion: time between two wakes of the coordinator", "1 ms",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_time(v), s.strategy.cycle); }},
    {"strategy.partition", "partitions: tensors are cut into pieces of this size", "4 MB", set_partition},
    {"strategy.priority", "what the next forward pass needs first is sent first: yes, no", "no",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_yes(v), s.strategy.priority); }},
    {"strategy.gradients", "format in which gradients travel", "fp32",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(kPrecisions, v, "precision"), s.strategy.gradients);
     }},
    {"strategy.compression", "of gradients: none, top-k, powersgd, sign", "none",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kCompressions, v, "compression"), s.strategy.compression);
     }},
    {"strategy.density", "top-k: share of the elements that are sent", "1 %",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_fraction(v), s.strategy.density); }},
    {"strategy.rank", "powersgd: columns of the factors", "4",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_count(v, {1, kMaxRank}), s.strategy.rank); }},
    {"strategy.accumulation", "forward and backward passes per step; the last one sends", "1",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_count(v, {1, kMaxAccumulation}), s.strategy.accumulation);
     }},
    {"parallel.tensor", "ranks that share every large matrix (Megatron-LM)", "8",
     set_degree<&plan::Parallel::tensor, 1, kMaxDegree>},
    {"parallel.pipeline", "stages of layers", "4", set_degree<&plan::Parallel::pipeline, 1, kMaxDegree>},
    {"parallel.context", "ranks that share a sample's positions", "2",
     set_degree<&plan::Parallel::context, 1, kMaxDegree>},
    {"parallel.expert", "ranks that share a layer's experts; they divide the data-parallel degree", "8",
     set_degree<&plan::Parallel::expert, 1, kMaxDegree>},
    {"parallel.data", "replicas: what the other degrees leave of the GPUs; stated, it is checked", "8", nullptr},
    {"parallel.order", "axes of ranks, innermost (nearest) first", "tp-cp-ep-dp-pp", set_order},
    {"parallel.sequence", "norms and residual sums are cut along the sequence in the tensor group: yes, no", "yes",
     set_choice<&plan::Parallel::sequence>},
    {"parallel.context_by", "how positions are shared: ring, ulysses", "ring",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kContextWays, v, "way of context parallelism"), s.parallel.context_by);
     }},
    {"parallel.schedule", "of a pipeline: none, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zbv, dualpipe, pipedream, pipedream-2bw",
     "1f1b",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kPipelineSchedules, v, "schedule"), s.parallel.schedule);
     }},
    {"parallel.virtual_stages", "interleaved: chunks of layers per rank", "2",
     set_degree<&plan::Parallel::virtual_stages, 1, kMaxDegree>},
    {"parallel.layers_per_stage", "of the model's list, stage by stage (default: nearly equal work)", "20-20-21",
     set_layers_per_stage},
    {"parallel.zero", "what data-parallel ranks share: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too (FSDP)",
     "3",
     [](Scenario& s, Value v, const io::Catalog&) -> Expected<void> {
       const auto stage = parse_count(v, {0, 3});
       if (!stage) return tl::unexpected<Error>(stage.error());
       s.parallel.zero = static_cast<int>(*stage);
       return {};
     }},
    {"parallel.shard_ranks", "zero: ranks that share; among groups of them there are copies (HSDP). 0: all", "8",
     set_degree<&plan::Parallel::shard_ranks, 0, kMaxDegree>},
    {"parallel.prefetch", "zero 3: weights are gathered so many layers ahead", "1",
     set_degree<&plan::Parallel::prefetch, 0, kMaxDegree>},
    {"parallel.reshard", "zero 3: weights gathered for forward are dropped and gathered again: yes, no", "yes",
     set_choice<&plan::Parallel::reshard>},
    {"parallel.overlap_gather", "zero 1, 2: updated weights are gathered beside the next forward pass: yes, no", "yes",
     set_choice<&plan::Parallel::overlap_gather>},
    {"parallel.recompute", "in backward: none, selective (attention's core), full (whole blocks)", "selective",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kRecomputes, v, "recomputation"), s.parallel.recompute);
     }},
    {"parallel.recompute_every", "full: of so many blocks one is computed again", "2",
     set_degree<&plan::Parallel::recompute_every, 1, kMaxDegree>},
    {"parallel.offload_optimizer", "states and update on the host: yes, no", "yes",
     set_choice<&plan::Parallel::offload_optimizer>},
    {"parallel.offload_activations", "what is kept for backward waits on the host: yes, no", "yes",
     set_choice<&plan::Parallel::offload_activations>},
    {"parallel.states", "formats of weights, gradients and optimizer states: fp32, mixed, mixed-16, fp8, adam-8bit", "mixed",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kStates, v, "format of states"), s.parallel.states);
     }},
    {"parallel.overlap_tensor", "a product's pieces run beside the collective of others: yes, no", "yes",
     set_choice<&plan::Parallel::overlap_tensor>},
    {"parallel.overlap_p2p", "stages send beside their work: yes, no", "no",
     set_choice<&plan::Parallel::overlap_p2p>},
    {"parallel.lora_rank", "adapters of this rank are trained, all else is frozen; 0: everything is trained", "16",
     set_degree<&plan::Parallel::lora_rank, 0, kMaxDegree>},
    {"parallel.expert_capacity", "a rank's experts take at most this times their even share of tokens; 0: all", "1.25",
     [](Scenario& s, Value v, const io::Catalog&) { return set_factor(v, 0, 1000, s.parallel.expert_capacity); }},
    {"parallel.expert_imbalance", "tokens of the busiest rank's experts over the mean", "1.2",
     [](Scenario& s, Value v, const io::Catalog&) { return set_factor(v, 1, 1000, s.parallel.expert_imbalance); }},
    {"global_batch", "samples of a step over all replicas: sets strategy.accumulation", "1024", nullptr},
    {"strategy.split_on_host", "data-parallel: the host sends every GPU its part of the batch: yes, no", "yes",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_yes(v), s.strategy.split_on_host); }},
    {"strategy.preload", "data-parallel: the next batch is copied while this one is worked on: yes, no", "yes",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_yes(v), s.strategy.preload); }},
    {"strategy.parameter_compression", "data-parallel: weights are broadcast so many times as small", "2",
     [](Scenario& s, Value v, const io::Catalog&) {
       double ratio = 1;
       if (auto set = set_factor(v, 1, 1000, ratio); !set) return set;
       s.strategy.parameter_compression = ratio;
       return Expected<void>{};
     }},
    {"strategy.servers", "ps: servers (default: as many as worker nodes)", "4",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_count(v, {1, kMaxServers}), s.strategy.servers); }},
    {"strategy.colocated", "ps: servers run on the workers' machines: yes, no", "no",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_yes(v), s.strategy.colocated); }},
    {"strategy.placement", "ps: which server holds a tensor: even, round-robin, greedy", "even",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kPlacements, v, "placement"), s.strategy.placement);
     }},
    {"strategy.local_aggregation", "ps: a node's GPUs sum their gradients first: yes, no", "no",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_yes(v), s.strategy.local_aggregation); }},
    {"strategy.pull_at_start", "ps: weights are pulled when the next step asks for them: yes, no", "no",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_yes(v), s.strategy.pull_at_start); }},
    {"strategy.consistency", "ps: sync, async, stale-sync", "sync",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kConsistencies, v, "consistency"), s.strategy.consistency);
     }},
    {"strategy.staleness", "stale-sync: steps a worker may be ahead", "3",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_count(v, {0, kMaxAccumulation}), s.strategy.staleness);
     }},
    {"collective.library", "nccl, mpi, mpi-opt, baidu", "nccl",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kCollectiveLibraries, v, "library"), s.collective.kind);
     }},
    {"collective.algorithm", "forced upon the library (default: its own choice)", "ring",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kCollectiveAlgorithms, v, "algorithm"), s.collective.algorithm);
     }},
    {"collective.table", "measured collectives, instead of formulas: a file of nccl-tests output or JSON, or CSV", "sweep.txt",
     set_collective_table},
    {"network.oversubscription", "of the leaf switches: what servers may send over what goes up; 1 is full bisection", "4",
     set_oversubscription},
    {"network.transport", "what drives it: infiniband, roce, efa, tcpx, tcp (default: as its file says, else assumed)", "tcp",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(hardware::kNetworkTransports, v, "transport"), s.cluster.node.network.transport);
     }},
    {"ps.transport", "grpc, grpc+mpi, grpc+verbs, grpc+gdr, tcp, rdma (default: the network's own rate)", "grpc",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(plan::kPsTransports, v, "transport"), s.ps_transport);
     }},
    {"ps.memory_bandwidth", "of a server's host memory", "60 GB/s",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_bandwidth(v), s.server_memory); }},
    {"jitter", "standard deviation of one GPU's step, as a share; a synchronous step waits for the slowest", "2 %",
     set_jitter},
    {"software", "what frameworks take on top of kernels: learnt from published steps, or none (kernels alone)", "none",
     set_software},
    {"software.year", "of the framework's release, where it is old (default: new)", "2020", set_software_year},
    {"gpu.time_factor", "on all GPU time, where a measured step says so", "1.2", set_time_factor},
    {"overlap", "none, backward, ideal", "backward",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_choice(plan::kOverlaps, v, "overlap"), s.overlap); }},
    {"jobs", "alike jobs on the same servers' network ports (event)", "2",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_count(v, {1, 1000}), s.jobs); }},
    {"jobs.offset", "between the starts of two such jobs (event)", "20 ms",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_time(v, Range::kNonNegative), s.jobs_offset); }},
    {"straggler", "how many times as slow one of the job's GPUs is (event)", "1.3", set_straggler},
    {"straggler.gpus", "how many of them are that slow (event)", "1",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_count(v, {1, hardware::kMaxNodes * hardware::kMaxGpusPerNode}), s.stragglers);
     }},
    {"fidelity", "aggregate, analytic, event (default: analytic where the model has layers)", "analytic",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_choice(answer::kFidelities, v, "fidelity"), s.fidelity);
     }},
    {"efficiency", "share of every peak rate that is reached (default 70 %, assumed)", "70 %",
     [](Scenario& s, Value v, const io::Catalog&) -> Expected<void> {
       const auto share = parse_fraction(v);
       if (!share) return tl::unexpected<Error>(share.error());
       s.efficiency = plan::Efficiency::uniform(*share);
       return {};
     }},
    {"efficiency.compute", "of the GPU's peak rate", "50 %",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_fraction(v), s.efficiency.compute); }},
    {"efficiency.memory", "of the GPU's memory bandwidth", "80 %",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_fraction(v), s.efficiency.memory); }},
    {"efficiency.pcie", "of PCIe", "80 %",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_fraction(v), s.efficiency.pcie); }},
    {"efficiency.nvlink", "of NVLink", "80 %",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_fraction(v), s.efficiency.nvlink); }},
    {"efficiency.network", "of the network", "90 %",
     [](Scenario& s, Value v, const io::Catalog&) { return store(parse_fraction(v), s.efficiency.network); }},
    {"launch_interval", "between two kernels that the CPU issues", "6 us",
     [](Scenario& s, Value v, const io::Catalog&) {
       return store(parse_time(v, Range::kNonNegative), s.launch_interval);
     }},
    {"model.flops", "per step at the model's own batch (models known by their features)", "1.56 TFLOP",
     [](Scenario& s, Value v, const io::Catalog&) {
       return set_feature(s, parse_quantity<dimension::kWork>(v), &workload::StepFeatures::flops);
     }},
    {"model.memory_access", "likewise", "31.9 GB",
     [](Scenario& s, Value v, const io::Catalog&) {
       return set_feature(s, size_or_zero(v), &workload::StepFeatures::memory_access);
     }},
    {"model.input", "likewise", "38 MB",
     [](Scenario& s, Value v, const io::Catalog&) {
       return set_feature(s, size_or_zero(v), &workload::StepFeatures::input);
     }},
    {"model.weight_traffic", "likewise", "357 MB",
     [](Scenario& s, Value v, const io::Catalog&) {
       return set_feature(s, size_or_zero(v), &workload::StepFeatures::weight_traffic);
     }},
});

}  // namespace

std::span<const Leaf> leaves() { return kLeaves; }

}  // namespace ddlsim::whatif
