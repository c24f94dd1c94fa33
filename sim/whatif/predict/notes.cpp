#include "predict/notes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <variant>

#include "ddlsim/cost/attention_time.h"
#include "ddlsim/cost/nccl.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/collective.h"
#include "ddlsim/whatif/folding.h"
#include "predict/correction.h"
#include "predict/goodput_notes.h"
#include "predict/input_part.h"
#include "predict/interval.h"
#include "predict/prediction.h"
#include "predict/setting_uses.h"
#include "scenario/number_settings.h"
#include "scenario/setting_values.h"

namespace ddlsim::whatif {
namespace {

using answer::Fidelity;
using answer::Prediction;

/// Servers under one leaf switch, between which nothing meets: 32 in NVIDIA's DGX SuperPOD (a scalable unit).
constexpr std::int64_t kServersOfOneLeaf = 32;

std::string gloo_note(const Question& question) {
  std::string note = "Gloo: buffers go through the hosts' memory, one connection for two ranks";
  const Bandwidth connection = cost::communicator_of(question.scenario).connection;
  if (question.scenario.cluster.nodes > 1 && connection < Bandwidth::infinity()) {
    note += fmt::format(", of {:.3g} Gb/s between EC2 instances outside of a placement group",
                        connection.in(gigabits_per_second));
  }
  return note;
}

/// Whether the formulas of a collective library have a part in the answer, and no table of measurements.
bool by_formulas(const Question& question) {
  if (question.fidelity == Fidelity::kAggregate || !by_collectives(question)) return false;
  const auto& table = question.scenario.collective_table;
  return table == nullptr || !table->time(primitives::CollectiveOp::kAllReduce, question.gpus(),
                                          question.scenario.cluster.nodes, megabytes(1));
}

bool assumes_tuning(const Question& question) {
  return by_formulas(question) && cost::communicator_of(question.scenario).tuning_assumed;
}

/// Whether the model's times were measured on another GPU, or at another batch or precision.
bool measured_elsewhere(const Scenario& scenario) {
  const auto& on = scenario.model->measured;
  return on && (on->gpu != scenario.cluster.node.gpu.id || scenario.batch != scenario.model->batch ||
                on->precision != scenario.precision);
}

/// Of the curve that answers for products.
std::string another_run_note(const hardware::Gpu& gpu, Precision precision) {
  for (const hardware::MeasuredProfile& one : gpu.profiles.get()) {
    for (const hardware::GemmCurve& curve : one.profile->gemms) {
      if (curve.precision != precision || curve.batched || curve.grouped) continue;
      if (!curve.report.another_run) return {};
      return fmt::format(
          "; another run of such a GPU took {:.2f} of the time for products: the middle of both is taken",
          curve.report.another_run->time);
    }
  }
  return {};
}

std::string calibration_note(const Question& question) {
  const cost::CalibratedTimes& times = *question.calibrated();
  const Time all = times.measured + times.extrapolated + times.assumed;
  const auto percent = [&](Time part) { return all > Time::zero() ? 100 * (part / all) : 0; };
  std::vector<std::string> names;
  const hardware::Gpu& gpu = question.scenario.cluster.node.gpu;
  for (const hardware::MeasuredProfile& one : gpu.profiles.get()) {
    names.push_back(one.profile->id + (cost::is_borrowed(gpu, one) ? " (borrowed)" : ""));
  }
  std::string note = fmt::format(
      "kernels by the profile {}: {:.0f} % of GPU time within what was measured, {:.0f} % extrapolated, {:.0f} % "
      "assumed",
      join(names), percent(times.measured), percent(times.extrapolated), percent(times.assumed));
  return note + another_run_note(gpu, question.scenario.precision);
}

/// Whether attention that the model lists as separate kernels runs as one without anybody's word.
bool fuses_attention_by_default(const Scenario& scenario) {
  if (scenario.fusion != workload::Fusion{.attention = true} || !plan::runs_flash_attention(scenario)) return false;
  const auto& layers = scenario.model->layers;
  return std::any_of(layers.begin(), layers.end(), [](const workload::Layer& layer) {
    const auto* op = layer.op ? std::get_if<workload::Attention>(&*layer.op) : nullptr;
    return op != nullptr && !op->biased;
  });
}

/// "1.12", or what it is on each of both bounds where they differ; and on small kernels.
std::string factor_text(const hardware::SoftwareFactor& factor) {
  std::string text = fmt::format("{:.2f}", factor.compute);
  if (factor.compute != factor.memory) text += fmt::format(" (kernels bound by memory {:.2f})", factor.memory);
  if (factor.small > 0) text += fmt::format(", small kernels up to {:.2f} times as long", 1 + factor.small);
  return text;
}

std::string software_note(const Scenario& scenario) {
  const hardware::SoftwareProfile& learnt = *scenario.software;
  std::string note = fmt::format(
      "software: GPU time x {}, interpolated from {} published steps ({:.0f} % off in the median on sources left "
      "out); --set software=none gives kernels alone",
      factor_text(plan::software_factor(scenario)), to_text(learnt.rows), 100 * learnt.median_error);
  if (!scenario.software_fused.get()) {
    if (const auto range = plan::software_factor_range(scenario)) {
      note += fmt::format(
          "; nobody says whether kernels are fused: software.fused=yes ({}) x {}, no x {}",
          scenario.model->totals.convolutional ? "XLA, NVIDIA's MXNet; element-wise kernels joined" : "Megatron, NeMo",
          factor_text(range->first), factor_text(range->second));
    }
  }
  return note;
}

/// "fp16 on GPUs without bf16, as NVIDIA T4 is"
std::string usual_precision_text(const Scenario& scenario) {
  const std::string& gpu = scenario.cluster.node.gpu.name;
  if (scenario.precision == Precision::kFp16) return fmt::format("fp16 on GPUs without bf16, as {} is", gpu);
  if (scenario.precision == Precision::kFp32) return fmt::format("16 bits, which {} multiplies no faster: fp32", gpu);
  return "bf16";
}

/// What a stated number was taken to mean besides.
void add_taken_notes(const Scenario& scenario, std::vector<std::string>& notes) {
  const workload::Model& model = *scenario.model;
  const hardware::Node& node = scenario.cluster.node;
  if (scenario.batch_taken == scenario.batch) {
    notes.push_back(fmt::format(
        "batch: nobody stated one; {} {} a pass, so that a replica's {} of the global batch come out even (the model's "
        "own: {}); --batch states another",
        to_text(scenario.batch), in_number(scenario.batch, model.sample),
        to_text(scenario.batch * scenario.strategy.accumulation), to_text(model.batch)));
  }
  const bool endless = node.network_bandwidth() >= bytes_per_second(kInfiniteRate);
  if (scenario.ports_taken == node.network_ports && scenario.cluster.nodes > 1 && !endless) {
    const std::string all = to_text_in_bits(node.network_bandwidth());
    notes.push_back(
        fmt::format("network: {} taken as {} ports of {}, as nobody says how many; --network '1 x {}' says "
                    "otherwise",
                    all, node.network_ports, to_text_in_bits(node.network.bandwidth), all));
  }
}

/// What frameworks make of fp32 where a GPU has TF32, and of fp8 and fp4 where a layer has no kernel for it.
void add_precision_notes(const Question& question, std::vector<std::string>& notes) {
  const Scenario& scenario = question.scenario;
  const hardware::Gpu& gpu = scenario.cluster.node.gpu;
  const workload::Model& model = *scenario.model;
  const bool ampere = gpu.nccl_tuning && *gpu.nccl_tuning >= hardware::GpuGeneration::kAmpere && gpu.peak.tf32;
  if (scenario.precision == Precision::kFp32 && ampere && model.has_layers() && !model.measured) {
    const bool convolves = std::any_of(model.layers.begin(), model.layers.end(), [](const workload::Layer& layer) {
      return layer.op && std::holds_alternative<workload::Convolution>(*layer.op);
    });
    notes.emplace_back(
        convolves
            ? "fp32: on this GPU PyTorch (since 1.7) runs convolutions as TF32 unless told otherwise, TensorFlow "
              "(since 2.4) all products: --precision tf32"
            : "fp32: on this GPU TensorFlow (since 2.4) and PyTorch 1.7 to 1.11 run matrix products as TF32 unless "
              "told otherwise: --precision tf32");
  }
  if (scenario.precision_taken == scenario.precision) {
    notes.push_back("precision: nobody stated one; models with causal attention are trained in " +
                    usual_precision_text(scenario));
  }
  if (!scenario.software_layout.stated() && model.totals.convolutional && plan::layout_matters(scenario)) {
    notes.emplace_back(
        plan::turns_by_profile(scenario)
            ? "images: taken to lie channel by channel; pixel by pixel (channels_last, NVIDIA's MXNet) spares "
              "convolutions to turn them: --set software.layout=channels-last"
            : "images: taken to lie pixel by pixel (channels_last); PyTorch unless told otherwise turns them around "
              "every "
              "convolution: --set software.layout=channels-first");
  }
  const double share = is_cast(scenario.precision) ? share_without_cast(model) : 0;
  if (share > 0.01) {
    notes.push_back(
        fmt::format("{0}: {1:.0f} % of the FLOPs are convolutions and recurrences, which have no {0} kernels: "
                    "the former are taken in bf16, the latter take longer than this",
                    name_of(kPrecisions, scenario.precision), 100 * share));
  }
  if (scenario.precision == Precision::kFp4) {
    notes.push_back(fmt::format("fp4: {}every linear layer runs in it, where recipes keep the first and last in bf16",
                                question.calibrated() != nullptr
                                    ? "products as fast as measured on a B300, by the fp8 curve (cost/gemm_time.h); "
                                    : ""));
  }
}

void add_server_notes(const Question& question, std::vector<std::string>& notes) {
  const Scenario& scenario = question.scenario;
  const plan::Strategy& strategy = scenario.strategy;
  if (question.scenario.cluster.nodes > 1 && !strategy.colocated) {
    notes.emplace_back("parameter servers: their own machines are not in the price");
  }
  if (scenario.framework.empty()) {
    notes.emplace_back(
        "parameter servers: ideal ones, without copies of gradients on the GPU; what frameworks run: --strategy tf-ps, "
        "byteps, mxnet-kvstore");
  }
  if (!scenario.server_memory.stated()) {
    notes.push_back(fmt::format("assumed: a server's host memory moves {} (--set ps.memory_bandwidth=...)",
                                to_text(plan::host_memory_rate(scenario))));
  }
  if (scenario.ps_transport.get() && question.scenario.cluster.nodes > 1 &&
      cost::transport_cost(*scenario.ps_transport.get()).assumed) {
    notes.push_back(fmt::format("assumed: costs of the transport {} (cost/parameter_server.h)",
                                name_of(plan::kPsTransports, *scenario.ps_transport.get())));
  }
  if (strategy.consistency == plan::Consistency::kAsync) {
    notes.push_back(fmt::format("asynchronous: a gradient is {} updates old when it is applied, on average",
                                to_text(question.gpus() - 1)));
  } else if (strategy.consistency == plan::Consistency::kStale) {
    notes.push_back(fmt::format("stale-synchronous: a worker may be {} steps ahead of the slowest",
                                to_text(strategy.staleness.get())));
  }
}

}  // namespace

bool assumes_transport(const Question& question) {
  const auto& carrier = question.scenario.ps_transport.get();
  const bool open = !carrier || carrier == plan::PsTransport::kGrpcMpi;
  const bool servers = question.fidelity != Fidelity::kAggregate && open && by_driven_servers(question);
  return (servers || by_formulas(question)) && question.scenario.cluster.nodes > 1 &&
         cost::communicator_of(question.scenario).transport_assumed;
}

/// What rests on nothing better than an assumption. A measured step says what the GPU reaches.
Provenance provenance_of(const Question& question) {
  const Scenario& scenario = question.scenario;
  std::vector<std::string> shares = assumed_shares(question);
  if (scenario.gpu_time_measured || scenario.model->measured) {
    std::erase_if(shares, [](const std::string& s) { return s == "compute" || s == "memory"; });
  }
  const bool servers = question.fidelity != Fidelity::kAggregate && by_servers(question);
  const bool guessed =
      servers && (!scenario.server_memory.stated() ||
                  (scenario.ps_transport.get() && cost::transport_cost(*scenario.ps_transport.get()).assumed));
  const bool workers = scenario.input.dataset && !scenario.input.workers.stated();
  // What MPI and Gloo take of a message is assumed: cost/mpi_collectives.h, cost/gloo_collectives.h.
  const bool host = by_formulas(question) && scenario.collective.kind != plan::CollectiveLibraryKind::kNccl;
  const bool unsaid = assumes_transport(question) || assumes_tuning(question) || workers || host;
  if (!shares.empty() || guessed || unsaid) return Provenance::kAssumed;
  if (measured_elsewhere(scenario)) return Provenance::kExtrapolated;
  if (question.calibrated() == nullptr || scenario.gpu_time_measured) return Provenance::kAnalytic;
  if (question.calibrated()->extrapolated > Time::zero()) return Provenance::kExtrapolated;
  // Nothing but kernels between measured ones, or formulas beside them as well.
  return question.gpus() == 1 ? Provenance::kInterpolated : Provenance::kAnalytic;
}

std::optional<std::string> congestion_note(const hardware::Cluster& cluster) {
  if (cluster.nodes <= kServersOfOneLeaf || cluster.oversubscription != 1) return std::nullopt;
  return fmt::format(
      "without congestion: the switches between {} servers are taken to pass all they send; "
      "--set network.oversubscription=... says otherwise",
      to_text(cluster.nodes));
}

std::optional<std::string> copied_heads_note(const plan::Job& job) {
  const plan::Parallel& parallel = job.parallel;
  if (parallel.context == 1 || parallel.context_by != plan::ContextBy::kUlysses) return std::nullopt;
  for (const workload::Layer& layer : job.model->layers) {
    const auto* attention = layer.op ? std::get_if<workload::GroupedAttention>(&*layer.op) : nullptr;
    if (attention == nullptr || attention->kv_heads == 0) continue;
    const std::int64_t heads = std::max<std::int64_t>(attention->kv_heads / parallel.tensor, 1);
    if (heads >= parallel.context) return std::nullopt;
    return fmt::format(
        "Ulysses: {} context ranks share {} key head{} of a tensor rank; each is counted with a copy, sent and kept, "
        "as "
        "DeepSpeed's makes it; Transformer Engine (Megatron-LM's a2a) refuses it: --set parallel.context_by=ring",
        parallel.context, heads, heads == 1 ? "" : "s");
  }
  return std::nullopt;
}

namespace {

/// Of a kernel of attention that somebody states and nobody measured on such GPUs.
std::optional<std::string> attention_note(const Question& question) {
  const hardware::Gpu& gpu = question.scenario.cluster.node.gpu;
  const primitives::AttentionKernel kernel = question.scenario.software_attention;
  constexpr double kAnyWidth = 128;  // which GPUs it was measured on is of no width
  const bool measured =
      cost::kernel_slowdown(kernel, cost::attention_generation(gpu), primitives::AttentionPass::kForward, kAnyWidth)
          .has_value();
  if (measured || !question.scenario.model->totals.attention) return std::nullopt;
  return fmt::format("software.attention: nobody measured {} on GPUs of {}'s generation; taken as the GPU's fastest",
                     name_of(primitives::kAttentionKernels, kernel), gpu.name);
}

/// What the time of kernels rests on.
void add_kernel_notes(const Question& question, Prediction& prediction) {
  const Scenario& scenario = question.scenario;
  const workload::Model& model = *scenario.model;
  std::vector<std::string>& notes = prediction.notes;
  if (const auto shares = assumed_shares(question); !shares.empty()) {
    const double compute = cost::compute_share(scenario);
    const bool sustained = shares.front() == "compute" && compute != scenario.efficiency.compute.get();
    notes.push_back(fmt::format(
        "assumed: 70 % of the peak rate of {} (Wang et al. 2019){}; state measured shares with "
        "--set efficiency.{}=...",
        join(shares),
        sustained ? fmt::format(", of compute {:.0f} %, which large products sustain on it", 100 * compute) : "",
        shares.front()));
  }
  if (question.calibrated() != nullptr) notes.push_back(calibration_note(question));
  if (scenario.software && question.plan && !model.measured) notes.push_back(software_note(scenario));
  if (question.plan && fuses_attention_by_default(scenario)) {
    notes.emplace_back(
        "attention: one kernel (FlashAttention; in 32 bits the memory-efficient one), as since PyTorch 2.0; "
        "--set fusion=none has a kernel for every operation");
  }
  if (auto attention = attention_note(question)) notes.push_back(std::move(*attention));
  add_precision_notes(question, notes);
  add_taken_notes(scenario, notes);
  if (auto executed = executed_note(model, prediction)) notes.push_back(std::move(*executed));
  if (const auto& on = model.measured) {
    notes.push_back(measured_elsewhere(scenario)
                        ? fmt::format("kernels' times scaled from {}, {} {}, {} (cost/wave_scaling.h)", on->gpu,
                                      to_text(model.batch), in_number(model.batch, model.sample),
                                      name_of(kPrecisions, on->precision))
                        : fmt::format("kernels' times as measured on {}", on->gpu));
  }
  if (may_wait_for_launches(question, prediction.step_time)) {
    constexpr Time usual = plan::kDefaultLaunchInterval;
    const Time taken = scenario.launch_interval.get();
    notes.push_back(fmt::format(
        "launches: the CPU is taken to leave {} between kernels; others leave {} to {}, and the 90 % "
        "interval reaches as far; state yours with --set launch_interval=... (`ddlsim import kineto` reads it off a "
        "trace)",
        to_text(taken), to_text(taken * (plan::kShortLaunchInterval / usual)),
        to_text(taken * (plan::kLongLaunchInterval / usual))));
  }
  for (const workload::Layer& layer : model.layers) {
    if (layer.host == Time::zero()) continue;
    notes.push_back(fmt::format("launches: {} of the CPU's work on every {} ({}) among them, for which the GPU waits",
                                to_text(layer.host), model.sample, layer.name));
  }
  if (!model.recalled.empty()) {
    std::string keys;
    for (const std::string& key : model.recalled) keys += (keys.empty() ? "" : ", ") + key;
    notes.push_back("recalled, not checked against the paper's text: " + keys);
  }
}

/// What the GPUs send each other, and how.
void add_exchange_notes(const Question& question, std::vector<std::string>& notes) {
  const Scenario& scenario = question.scenario;
  const workload::Model& model = *scenario.model;
  const bool analytic = question.fidelity != Fidelity::kAggregate && question.gpus() > 1;
  if (analytic && by_servers(question)) add_server_notes(question, notes);
  if (assumes_transport(question)) notes.emplace_back(assumed_transport_note(scenario));
  if (auto note = omni_path_note(scenario); note && analytic) notes.push_back(std::move(*note));
  const hardware::PeerPath peers = scenario.cluster.node.peers(scenario.cluster.gpus_per_node);
  if (analytic && by_formulas(question) && !peers.by_nvlink() && peers.through_host) {
    notes.push_back(
        fmt::format("assumed: GPUs of a server without peer access meet in the host's memory, at most {} a "
                    "GPU (cost/nccl.h; peer_to_peer=yes where they have it)",
                    to_text(cost::host_memory_limit(scenario.cluster.node.pcie.bandwidth))));
  }
  if (by_formulas(question) && scenario.collective.kind == plan::CollectiveLibraryKind::kGloo) {
    notes.push_back(gloo_note(question));
  }
  if (auto congestion = congestion_note(scenario.cluster); analytic && congestion) notes.push_back(*congestion);
  if (analytic && question.fidelity == Fidelity::kAnalytic && scenario.cluster.nodes > kServersOfOneLeaf) {
    notes.push_back("folded: " + folding_text(*question.plan, scenario.cluster.oversubscription));
  }
  if (auto copied = copied_heads_note(scenario)) notes.push_back(std::move(*copied));
  if (assumes_tuning(question)) {
    notes.push_back(fmt::format("assumed: collectives as NCCL tunes them for Pascal; the file of {} has no nccl_tuning",
                                scenario.cluster.node.gpu.name));
  }
  const bool tables = analytic && by_collectives(question) && !model.totals.sparse_tables.empty();
  if (tables && plan::spreads_tables(scenario)) {
    notes.push_back(fmt::format("tables from {} on are spread over {} GPUs, evenly; ids travel beside the step before",
                                to_text(scenario.strategy.spread_from), to_text(question.gpus())));
  } else if (tables) {
    notes.emplace_back("embedding gradients are gathered, not summed: every GPU receives the rows of all others");
  }
}

/// What holds the job up beside its own work. `analytic`: by layers, on several GPUs.
void add_condition_notes(const Question& question, bool analytic, std::vector<std::string>& notes) {
  const Scenario& scenario = question.scenario;
  for (const OtherJob& other : scenario.other_jobs) {
    notes.push_back(
        fmt::format("beside it on {} servers: {}", other.same_servers ? "the same" : "other", describe(*other.job)));
  }
  if (analytic && scenario.strategy.sync_every > 1) {
    notes.push_back(
        fmt::format("local SGD: the mean of {} steps, of which the last averages the weights; how many more "
                    "it needs is not modelled",
                    to_text(scenario.strategy.sync_every)));
  }
  if (scenario.straggler > 1) {
    notes.push_back(fmt::format("{} of {} GPUs: all their work takes {:.6g} times as long",
                                to_text(scenario.stragglers), to_text(question.gpus()), scenario.straggler));
  }
  if (scenario.jobs > 1) {
    notes.push_back(
        fmt::format("{} alike jobs share the servers' network ports; this is one of them", to_text(scenario.jobs)));
  }
}

/// Of a rate that a server reaches for minutes alone, and what a run costs.
void add_run_notes(const Scenario& scenario, const Prediction& prediction, std::vector<std::string>& notes) {
  const hardware::Node& node = scenario.cluster.node;
  if (node.network_burst && scenario.cluster.nodes > 1) {
    notes.push_back(fmt::format("network: the {} that a server sustains; it reaches {} for minutes{}",
                                to_text_in_bits(node.network.bandwidth), to_text_in_bits(*node.network_burst),
                                scenario.own_runs ? ", which measured steps are taken to have had" : ""));
  }
  if (node.network_sustained && scenario.cluster.nodes > 1) {
    notes.push_back(
        fmt::format("network: the {} that a server reaches for minutes; it sustains {}, which a run of "
                    "stated length (--samples, --steps) and a job that reads a data set (--dataset) get",
                    to_text_in_bits(node.network.bandwidth), to_text_in_bits(*node.network_sustained)));
  }
  if (prediction.training) {
    if (auto note = no_evaluation_note(scenario, *prediction.training)) notes.push_back(std::move(*note));
    notes.emplace_back(
        prediction.power ? "energy: what the GPUs draw, without hosts and cooling"
                         : "energy: the GPUs' TDP while kernels run; waiting GPUs, hosts and cooling are not counted");
    if (!prediction.training->cost) {
      notes.push_back(fmt::format("cost: nobody says what {} costs (--price \"{}=12 $/h\")", node.name, node.id));
    }
  }
}

}  // namespace

void add_notes(const Question& question, const plan::Needed& needed, Prediction& prediction) {
  const Scenario& scenario = question.scenario;
  std::vector<std::string>& notes = prediction.notes;
  add_kernel_notes(question, prediction);
  if (question.gpus() == 1) notes.emplace_back("one GPU keeps its weights: nothing is communicated");
  add_memory_notes(scenario, needed, prediction);
  if (auto adapters = adapters_note(scenario)) notes.push_back(std::move(*adapters));
  if (auto stages = stages_note(question, prediction)) notes.push_back(std::move(*stages));
  if (auto queueing = queueing_note(question, prediction)) notes.push_back(std::move(*queueing));
  if (!needed.tensors.complete) {
    notes.emplace_back("memory counts the weights alone: the model's activations are unknown");
  }
  if (const double kept = scenario.parallel.expert_capacity;
      kept > 0 && kept < 1 && workload::has_experts(*scenario.model)) {
    notes.push_back(fmt::format(
        "experts: a capacity of {:.6g} drops {:.3g} % of their rows or more: faster, but not the same training", kept,
        100 * (1 - kept)));
  }
  if (scenario.fusion.apart && stays_one_kernel(*scenario.model, plan::fusion_as_run(scenario))) {
    notes.push_back(
        fmt::format("attention: {} has it as one kernel here, whatever fusion says; as products and a "
                    "softmax it would take longer and keep more",
                    scenario.model->name));
  }
  add_exchange_notes(question, notes);
  const bool analytic = question.fidelity != Fidelity::kAggregate && question.gpus() > 1;
  add_condition_notes(question, analytic, notes);
  add_input_notes(question, prediction);
  add_run_notes(scenario, prediction, notes);
  if (const std::string unused = unused_of_run(scenario); !unused.empty()) {
    notes.push_back(fmt::format("stated, but without effect here: {}, as nobody says how long {}", unused,
                                asks_for_training(scenario) ? "one of them takes" : "the run is (--samples, --steps)"));
  }
  add_goodput_notes(scenario, prediction, notes);
  if (const std::string unused = unused_settings(question); !unused.empty()) {
    notes.push_back("stated, but without effect here: " + unused);
  }
}

}  // namespace ddlsim::whatif
