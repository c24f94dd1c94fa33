#include "ddlsim/cost/price.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "ddlsim/cost/nccl.h"
#include "ddlsim/cost/power.h"
#include "ddlsim/cost/price_memo.h"
#include "ddlsim/cost/straggler.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/software.h"
#include "layer_pricing.h"
#include "nccl_tuning.h"
#include "ps_fabric.h"

namespace ddlsim::cost {
namespace {

/// Every byte that crosses a link is written where it arrives, read from there, and summed or stored (derived).
constexpr double kAccessesPerByte = 3;

/// A collective leaves kernels some of the GPU, however fast its links (assumed).
constexpr double kMostTaken = 0.9;

/// PowerSGD: torch.linalg.qr of a P takes 110 to 118 us at 4 and 8 columns of 256 to 4,096 rows, whatever its size:
/// small kernels one after another (pytorch/pytorch pull request 76673; its GPU is not said). One and two columns,
/// which are made orthogonal in a loop, are taken to last as long.
constexpr Time kOrthogonalized = microseconds(113);
/// M Q, its transpose by P, and P Q' (powerSGD_hook.py).
constexpr double kProductsOfMatrix = 3;

/// Share of a GPU's multiprocessors that a running collective holds: one thread block per channel of NCCL.
double sm_share_of(const plan::Job& job, const Communicator& group) {
  const std::int64_t all = job.cluster.node.gpu.sm_count;
  if (job.collective.kind != CollectiveLibraryKind::kNccl || all <= 0) return 0;
  return nccl_channels(group) / static_cast<double>(all);
}

/// Of what one GPU's worker sends, the part that crosses its own link to the host.
DataSize over_host_link(const PsFabric& servers, DataSize all) {
  if (!servers.local && !servers.transport.through_host) return DataSize::zero();
  return servers.local_aggregation ? all / static_cast<double>(servers.workers_per_node) : all;
}

/// What a job's loader adds to its step.
void add_loader(const plan::Job& job, const Variation& variation, PricedStep& step) {
  const plan::Input& input = job.input;
  if (!input.dataset) return;
  const plan::ServerInput server = plan::server_input(job);
  const double samples = server.samples / server.processes;
  LoaderShare share = loader_share(job);
  share.storage = share.storage * variation.storage;
  share.stream = share.stream * variation.storage;
  if (share.iops) share.iops = *share.iops * variation.storage;
  share.speed *= variation.cpu;
  if (share.hand_over) share.hand_over = *share.hand_over * variation.cpu;
  if (share.receive) share.receive = *share.receive * variation.cpu;
  share.network = share.network * variation.network;
  step.loader = batch_pipeline(loader_work(input, job.cluster.node.host), share, input, samples);
  if (input.decode.get() == plan::DecodeOn::kGpu) {
    step.decoding = input.gpu_decode_of() * (samples * job.gpu_time_factor / variation.compute);
  }
}

class Pricing {
 public:
  Pricing(const plan::Job& job, const plan::StepPlan& plan, const LayerPrices& layers, const Variation& variation)
      : job_(job),
        plan_(plan),
        layers_(layers),
        variation_(variation),
        same_rates_(variation.compute == 1 && variation.memory == 1),
        surcharge_(surcharge_of(job)),
        gpu_time_factor_(plan::gpu_time_factor_of(job)) {}

  Expected<void> price(PricedStep& step) {
    auto rates = reached_rates(job_, variation_);
    if (!rates) return tl::unexpected<Error>(rates.error());
    price_alone(step, *rates);
    if (auto grouped = add_groups(step); !grouped) return grouped;
    add_rows(step);
    add_loader(job_, variation_, step);
    const bool synchronous = plan_.exchange.consistency == plan::Consistency::kSync;
    step.jitter_of_slowest = job_.jitter * expected_largest(job_.cluster.gpus());
    step.wait_for_slowest = synchronous ? step.jitter_of_slowest : 0;
    return {};
  }
  /// What needs no other rank.
  void price_alone(PricedStep& step, const ReachedRates& rates) {
    step.rates = rates;
    // What software takes on top of kernels is the GPU's time: an eager framework's launches are in the interval.
    step.launch_interval = plan::blocks_launches(job_) ? Time::zero() : launch_interval();
    for (std::size_t c = 0; c < plan_.classes.size(); ++c) step.classes.push_back(class_of(c, step.rates));
    step.clocks = as_kept() ? layers_.clocks : clocks(step.rates, gpu_time_factor_);
    step.groups.resize(plan_.groups.size());
    step.input = plan_.input / (step.rates.pcie_share * (job_.input.pinned ? 1.0 : kUnpinnedShare));
    step.pinned = job_.input.pinned;
  }

 private:
  [[nodiscard]] Time launch_interval() const {
    return plan::launch_interval_of(job_) / variation_.launch * job_.gpu_time_factor;
  }

  [[nodiscard]] LayerTime time_of(const workload::Layer& layer, const LayerTimes& known, Pass pass,
                                  const ReachedRates& rates) const {
    const LayerTime& nominal = pass == Pass::kForward ? known.forward : known.backward;
    if (same_rates_) return nominal;
    if (layers_.calibrated) return varied(nominal, variation_);
    const DeviceRates device = rates_for(layer, rates.device, job_.precision);
    LayerTime time =
        layer_time(layer, pass, static_cast<double>(job_.batch), activation_size(job_.precision), device, surcharge_);
    time.host = nominal.host;  // no rate of the GPU's
    if (pass == Pass::kBackward) {
      time.memory += accumulated_by(layer, plan::accumulated_per_parameter(job_)) / rates.device.memory;
    }
    return time;
  }

  /// The part of its backward that is the weights' gradient.
  [[nodiscard]] LayerTime weights_of(const workload::Layer& layer, const LayerTimes& known,
                                     const ReachedRates& rates) const {
    if (layers_.calibrated) return varied(known.weights, variation_);
    const LayerTime backward = time_of(layer, known, Pass::kBackward, rates);
    const double share = weights_share(layer).work;
    return {backward.compute * share, backward.memory * share};
  }

  /// Backward of a class's layers in two. Both parts of a layer have a kernel at least, if they take time.
  void split(const plan::Chunk& layers, std::span<const LayerTimes> known, const ReachedRates& rates,
             const hardware::SoftwareFactor& factor, PricedClass& priced) const {
    std::vector<PricedLayer> inputs;
    std::vector<PricedLayer> weights;
    for (std::size_t i = layers.count; i-- > 0;) {
      const PricedLayer& backward = priced.backward[layers.count - 1 - i];
      const LayerTime put_off = weights_of(layers[i], known[i], rates);
      const Time kernels = backward.time - backward.host;
      const Time later = min(put_off.compute * factor.compute + put_off.memory * factor.memory, kernels);
      const Time first = backward.time - later;
      const int all = layers[i].backward_kernels;
      const int of_weights =
          later > Time::zero() ? std::clamp(weights_share(layers[i]).kernels, 1, std::max(all - 1, 1)) : 0;
      const bool any = first > Time::zero() || of_weights == 0;
      inputs.push_back(PricedLayer::of(first, any ? std::max(all - of_weights, all > 0 ? 1 : 0) : 0));
      inputs.back().host = backward.host;  // between a recurrent layer's steps, which go with the input's gradient
      weights.push_back(PricedLayer::of(later, any ? of_weights : all));
    }
    priced.backward_input = std::move(inputs);
    priced.backward_weights = std::move(weights);
  }

  /// Layers are those that were laid out when they were priced.
  [[nodiscard]] bool as_kept() const {
    return same_rates_ && gpu_time_factor_ == layers_.factor && host_factor() == layers_.host;
  }

  PricedClass class_of(std::size_t c, const ReachedRates& rates) const {
    const hardware::SoftwareFactor& factor = gpu_time_factor_;
    PricedClass priced = as_kept() && c < layers_.classes.size() ? layers_.classes[c] : laid_out(c, rates, factor);
    const Time launching = launch_interval() * static_cast<double>(plan_.classes[c].update_launches);
    if (plan::blocks_launches(job_)) {
      block(priced, launch_interval());
      priced.update += launching;
    }
    priced.update = max(priced.update, launching);
    if (!plan_.classes[c].updates_on_gpu) priced.update = Time::zero();
    return priced;
  }

 public:
  /// At which all classes run.
  [[nodiscard]] const SustainedClocks& clocks(const ReachedRates& rates, const hardware::SoftwareFactor& factor) const {
    if (!clocks_) {
      const hardware::Gpu& gpu = job_.cluster.node.gpu;
      const auto bare = [&](const workload::Layer& layer, const LayerTimes& known, Pass pass) {
        LayerTime time = time_of(layer, known, pass, rates);
        if (pass == Pass::kBackward) time.memory -= known.accumulation / variation_.memory;
        return time;
      };
      const auto pass = drawn_by_pass(job_, plan_, layers_, {factor, host_factor()}, bare);
      clocks_ = pass ? sustained_clocks(*pass, *gpu.draw, gpu.tdp) : SustainedClocks{};
    }
    return *clocks_;
  }

  /// On the CPU's work on samples. What is captured as a graph has none in it.
  [[nodiscard]] double host_factor() const { return job_.cuda_graphs ? 0.0 : job_.gpu_time_factor.get(); }

  /// Layers in the order they run.
  [[nodiscard]] PricedClass laid_out(std::size_t c, const ReachedRates& rates,
                                     const hardware::SoftwareFactor& factor) const {
    const plan::RankClass& one = plan_.classes[c];
    const plan::Chunk& layers = one.chunk;
    const std::size_t count = layers.count;
    const std::span known = std::span(layers_.layers).subspan(layers_.first[c], count);
    PricedClass priced;
    const double host = host_factor();
    const double slowdown = clocks(rates, factor).slowdown;
    const auto laid = [&](std::size_t i, Pass pass, int kernels) {
      const LayerTime time = with_software(time_of(layers[i], known[i], pass, rates), kernels, factor);
      const Time compute = time.compute * slowdown;
      const Time memory = time.memory;
      priced.compute += compute;
      priced.memory += memory;
      PricedLayer priced_layer = PricedLayer::of(compute + memory + time.host * host, kernels);
      priced_layer.host = time.host * host;
      return priced_layer;
    };
    std::vector<PricedLayer> forward(count);
    std::vector<PricedLayer> backward(count);
    for (std::size_t i = 0; i < count; ++i) forward[i] = laid(i, Pass::kForward, layers[i].forward_kernels);
    for (std::size_t i = count; i-- > 0;) {
      backward[count - 1 - i] = laid(i, Pass::kBackward, layers[i].backward_kernels);
    }
    priced.forward = std::move(forward);
    priced.backward = std::move(backward);
    if (plan::splits_backward(plan_.schedule) && plan_.classes.size() > 1) split(layers, known, rates, factor, priced);
    priced.update = layers_.update[c] / variation_.memory * factor.update;
    return priced;
  }

 private:
  Expected<void> add_groups(PricedStep& step) const {
    if (plan_.servers) {
      step.servers = servers_of(job_, plan_, step.rates, variation_);
      DataSize all;
      for (const plan::Row& row : plan_.rows) all += row.size * static_cast<double>(row.count);
      step.pulled = over_host_link(*step.servers, all);
      if (plan_.exchange.consistency == plan::Consistency::kSync) return {};
      step.servers_seen_by_one = step.servers;
      step.servers_seen_by_one->senders = step.servers->local_aggregation ? 1 : step.servers->workers_per_node;
      return {};
    }
    const CollectiveLibrary library = collective_library_of(job_);
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      if (plan_.groups[g].ranks == 1) continue;
      auto model = CollectiveModel::create(communicator_of(job_, plan_.groups[g], variation_), library,
                                           job_.collective_table, ops_of(g));
      if (!model) return tl::unexpected<Error>(model.error());
      step.groups[g] = std::move(*model);
    }
    // Copies of whole experts sum gradients where there is one replica alone.
    const auto sums = std::find_if(plan_.groups.begin(), plan_.groups.end(), [](const plan::RankGroup& group) {
      const bool gradients =
          group.role == plan::GroupRole::kGradients || group.role == plan::GroupRole::kExpertGradients;
      return gradients && group.ranks > 1;
    });
    if (sums != plan_.groups.end()) {
      const auto& model = step.groups[static_cast<std::size_t>(sums - plan_.groups.begin())];
      // Shards of weights that are gathered ahead show nothing of it (fms_fsdp on A100: 9 % off, 16 with it).
      const bool narrow = !is_single(job_.precision) && job_.parallel.zero < 3;
      step.sm_share = sm_share_of(job_, model->communicator());
      step.memory_per_wire_byte = bytes(kAccessesPerByte) / job_.cluster.node.gpu.memory_bandwidth +
                                  taken_beside(model->communicator(), library, narrow);
    }
    return {};
  }

  /// What its rows ask of a group; what is fused is all-reduced.
  [[nodiscard]] std::vector<primitives::CollectiveOp> ops_of(std::size_t group) const {
    std::vector<primitives::CollectiveOp> ops{primitives::CollectiveOp::kAllReduce};
    for (const plan::Row& row : plan_.rows) {
      if (row.group != group || std::find(ops.begin(), ops.end(), row.op) != ops.end()) continue;
      ops.push_back(row.op);
    }
    return ops;
  }

  void add_rows(PricedStep& step) {
    step.rows.reserve(plan_.rows.size());
    for (const plan::Row& row : plan_.rows) step.rows.push_back(row_of(step, row));
  }

  [[nodiscard]] bool fused(const plan::Row& row) const {
    const plan::Exchange& exchange = plan_.exchange;
    return exchange.fusion && !exchange.priority && row.op == primitives::CollectiveOp::kAllReduce && row.group == 0;
  }

  [[nodiscard]] bool waits_on_host() const {
    return job_.parallel.offload_optimizer || job_.parallel.offload_activations;
  }
  /// What every rank of a server moves in the host's memory.
  [[nodiscard]] Time in_host(DataSize size) const {
    return size * static_cast<double>(job_.cluster.gpus_per_node) /
           (plan::host_memory_rate(job_) * variation_.server_memory);
  }
  /// One GPU's copy while no other uses its link to the host.
  [[nodiscard]] Bandwidth alone_on_pcie(const ReachedRates& rates) const {
    return min(rates.host_link, job_.cluster.node.pcie.bandwidth * (job_.efficiency.pcie * variation_.pcie));
  }

  [[nodiscard]] Time hidden_by(const PricedStep& step, const plan::Row& row) const {
    if (row.beside == 0) return Time::zero();
    const PricedClass& layers = step.classes[row.rank_class];
    const bool forward = row.needed.at == plan::Moment::kForward;
    const std::size_t last = layers.backward.size() - 1;
    return (forward ? layers.forward[row.needed.layer] : layers.backward[last - row.needed.layer]).time * row.beside;
  }

  /// A collective by itself. A model's layers ask for few different ones.
  [[nodiscard]] const PricedRow& collective_of(const CollectiveModel& group, const plan::Row& row) {
    const auto [found, added] = collectives_.try_emplace({row.group, row.op, row.size});
    if (!added) return found->second;
    PricedRow& priced = found->second;
    const Communicator& ranks_of = group.communicator();
    const CollectiveCost cost = group.cost(row.op, buffer_of(row, ranks_of.gpus));
    priced.once = cost.time;
    priced.sent = cost.wire.of_gpu(ranks_of.gpus_per_node());
    const EffectiveRates reach = effective_rates(ranks_of, group.library());
    if (ranks_of.nodes > 1) priced.network = min(cost.wire.inter / reach.inter, cost.time);
    // NCCL sends into buffers: what a network's hop takes longer than usual keeps nobody from sending on.
    if (ranks_of.nodes > 1 && row.op == primitives::CollectiveOp::kSendRecv && row.rank_class != row.needed_by) {
      priced.in_flight = min(max(ranks_of.inter_latency - microseconds(kUsualNetworkHop), Time::zero()), cost.time);
    }
    // What meets in a host is limited by more than a link.
    const bool on_links = ranks_of.fabric != GpuFabric::kPcie && ranks_of.fabric != GpuFabric::kHostMemory;
    if (ranks_of.gpus_per_node() > 1 && on_links) priced.peers = min(cost.wire.intra / reach.intra, cost.time);
    return priced;
  }

  [[nodiscard]] PricedRow row_of(const PricedStep& step, const plan::Row& row) {
    const auto& group = step.groups[row.group];
    // What a coordinator fuses has no price of its own.
    const bool priced_alone = row.kind == plan::RowKind::kCollective && group && !fused(row);
    PricedRow priced = priced_alone ? collective_of(*group, row) : PricedRow{};
    const double ranks = group ? static_cast<double>(group->communicator().gpus) : 1.0;
    priced.encoding = (row.encoded + row.encoded_per_rank * ranks) / step.rates.device.memory +
                      row.encoding / step.rates.device.compute;
    if (row.orthogonalized > 0) {
      const auto matrices = static_cast<double>(row.orthogonalized);
      priced.encoding = max(priced.encoding, launch_interval() * (kProductsOfMatrix * matrices));
      priced.encoding += kOrthogonalized * matrices / variation_.compute;
    }
    priced.hidden = hidden_by(step, row);
    switch (row.kind) {
      case plan::RowKind::kCollective:
      case plan::RowKind::kServer: break;
      case plan::RowKind::kKernel: priced.once = row.size / step.rates.device.memory; break;
      case plan::RowKind::kCopy:
      case plan::RowKind::kCopyBack:
        priced.once = row.size / (row.alone ? alone_on_pcie(step.rates) : step.rates.pcie_share);
        // All ranks of a server copy what they have at once.
        if (!row.alone && waits_on_host()) priced.once = max(priced.once, in_host(row.size));
        break;
      case plan::RowKind::kHost: priced.once = in_host(row.size); break;
    }
    return priced;
  }

  const plan::Job& job_;
  const plan::StepPlan& plan_;
  const LayerPrices& layers_;
  const Variation& variation_;
  bool same_rates_;
  Surcharge surcharge_;
  hardware::SoftwareFactor gpu_time_factor_;
  mutable std::optional<SustainedClocks> clocks_;
  std::map<std::tuple<std::size_t, primitives::CollectiveOp, DataSize>, PricedRow> collectives_;  // by group and size
};

/// Layers as their classes run them.
void lay_out(const plan::Job& job, const plan::StepPlan& plan, const ReachedRates& rates, LayerPrices& prices) {
  const Variation as_it_is;
  const Pricing pricing(job, plan, prices, as_it_is);
  std::vector<PricedClass> classes;
  prices.factor = plan::gpu_time_factor_of(job);
  prices.host = pricing.host_factor();
  for (std::size_t c = 0; c < plan.classes.size(); ++c) classes.push_back(pricing.laid_out(c, rates, prices.factor));
  prices.classes = std::move(classes);
  prices.clocks = pricing.clocks(rates, prices.factor);
}

}  // namespace

bool by_profiles(const plan::Job& job) {
  const auto& profiles = job.cluster.node.gpu.profiles;
  if (profiles->empty() || !job.model->has_layers() || job.model->measured) return false;
  return profiles.stated() || !(job.efficiency.compute.stated() || job.efficiency.memory.stated());
}

bool is_borrowed(const hardware::Gpu& gpu, const hardware::MeasuredProfile& profile) {
  return profile.peak != gpu.peak || profile.memory_bandwidth != gpu.memory_bandwidth ||
         profile.sm_count != gpu.sm_count;
}

DataSize buffer_of(const plan::Row& row, std::int64_t ranks) {
  using primitives::CollectiveOp;
  const bool shares =
      row.op == CollectiveOp::kAllGather || row.op == CollectiveOp::kReduceScatter || row.op == CollectiveOp::kAllToAll;
  return shares ? row.size * static_cast<double>(ranks) : row.size;
}

Expected<LayerPrices> price_layers(const plan::Job& job, const plan::StepPlan& plan,
                                   std::pair<double, double> assumed_interval) {
  const auto rates = reached_rates(job);
  if (!rates) return tl::unexpected<Error>(rates.error());
  const auto inputs = price_inputs(job);
  if (!inputs) return tl::unexpected<Error>(inputs.error());
  const LayerPricing pricing(*inputs, assumed_interval);
  LayerPrices prices;
  if (pricing.calibrated()) prices.calibrated.emplace();
  const plan::Chunk* known = nullptr;  // GPUs of two speeds run the same layers
  for (const plan::RankClass& one : plan.classes) {
    const bool again = known != nullptr && known->layers == one.chunk.layers && known->first == one.chunk.first &&
                       known->which == one.chunk.which;
    if (again) {
      prices.first.push_back(prices.first.back());
      prices.update.push_back(prices.update.back());
      continue;
    }
    known = &one.chunk;
    prices.first.push_back(prices.layers.size());
    std::vector<workload::Layer> copies;
    CalibratedTimes times = pricing.times(list_of(one.chunk, copies), one.updated, input_of(one.chunk));
    prices.layers.insert(prices.layers.end(), times.layers.begin(), times.layers.end());
    prices.update.push_back(times.update);
    if (!prices.calibrated) continue;
    prices.calibrated->low += times.low;
    prices.calibrated->high += times.high;
    prices.calibrated->measured += times.measured;
    prices.calibrated->extrapolated += times.extrapolated;
    prices.calibrated->assumed += times.assumed;
    prices.calibrated->executed += times.executed;
  }
  lay_out(job, plan, *rates, prices);
  return prices;
}

Expected<LayerPrices> price_layers(const plan::Job& job, const plan::StepPlan& plan, PriceMemo& memo) {
  const auto rates = reached_rates(job);
  if (!rates) return tl::unexpected<Error>(rates.error());
  const auto inputs = price_inputs(job);
  if (!inputs) return tl::unexpected<Error>(inputs.error());
  const LayerPricing pricing(*inputs, {1, 1});
  LayerPrices prices;
  if (pricing.calibrated()) prices.calibrated.emplace();
  for (const plan::RankClass& one : plan.classes) {
    prices.update.push_back(pricing.times({}, one.updated, std::nullopt).update);
    prices.first.push_back(prices.layers.size());
    if (one.chunk.count == 0) continue;
    // The whole list at once: stages that are cut elsewhere share it.
    const auto [found, added] =
        memo.layers.try_emplace({one.chunk.layers.get(), job.batch, plan::accumulated_per_parameter(job).in(bytes)});
    if (added) found->second = pricing.times(*one.chunk.layers, {}, 0).layers;
    for (std::size_t i = 0; i < one.chunk.count; ++i) prices.layers.push_back(found->second[one.chunk.place(i)]);
  }
  lay_out(job, plan, *rates, prices);
  return prices;
}

Expected<PricedStep> price(const plan::Job& job, std::shared_ptr<const plan::StepPlan> plan, const LayerPrices& layers,
                           const Variation& variation) {
  PricedStep step;
  step.plan = std::move(plan);
  if (auto priced = Pricing(job, *step.plan, layers, variation).price(step); !priced) {
    return tl::unexpected<Error>(priced.error());
  }
  return step;
}

double held_of_gpu(const PricedStep& step, Time taken, DataSize sent) {
  if (!(taken > Time::zero())) return 0;
  return std::min(step.sm_share + step.memory_per_wire_byte * sent.in(bytes) / taken, kMostTaken);
}

Expected<PricedStep> price_alone(const plan::Job& job, const plan::StepPlan& plan, const LayerPrices& layers) {
  auto one = std::make_shared<plan::StepPlan>();
  one->model = plan.model;
  one->groups.emplace_back();
  one->classes.push_back(plan.classes.front());
  one->classes.front().ranks = 1;
  one->classes.front().slowness = 1;
  one->classes.front().updates_on_gpu = !(plan.model->measured && plan.model->measured->update);
  one->exchange.overlap = plan.exchange.overlap;
  one->micro_batches = plan.micro_batches;
  one->input = plan.input;
  auto rates = reached_rates(job, {}, 1);
  if (!rates) return tl::unexpected<Error>(rates.error());
  PricedStep step;
  step.plan = one;
  const Variation as_it_is;
  Pricing(job, *one, layers, as_it_is).price_alone(step, *rates);
  if (job.input.dataset) {
    plan::Job single = job;
    single.cluster.nodes = 1;
    single.cluster.gpus_per_node = 1;
    add_loader(single, as_it_is, step);
  }
  return step;
}

}  // namespace ddlsim::cost
