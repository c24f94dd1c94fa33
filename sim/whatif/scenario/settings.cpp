#include "scenario/settings.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/collective.h"
#include "scenario/input_settings.h"
#include "scenario/setting_values.h"

namespace ddlsim::whatif {
namespace {

constexpr Choices<workload::Fusion, 4> kFusions{
    {{"none", {}}, {"pointwise", {true, false}}, {"attention", {false, true}}, {"all", {true, true}}}};
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 32;
constexpr std::int64_t kMaxServers = hardware::kMaxNodes;
constexpr Choices<int, 3> kFrozenBits{{{"4", 4}, {"8", 8}, {"0", 0}}};
constexpr std::int64_t kMaxRank = 1 << 20;
constexpr std::int64_t kMaxDegree = 1 << 20;
constexpr std::int64_t kMostWorkers = 1 << 16;
constexpr std::int64_t kMostAhead = 1 << 20;
constexpr std::int64_t kMostRuns = 100'000;
constexpr std::int64_t kMostCopies = 1'000'000;
constexpr std::int64_t kMaxAccumulation = 1 << 20;  // times kMaxBatch stays far from 64 bits

/// In the order in which they are applied: what replaces a whole part comes before its details.
constexpr auto kLeaves = std::to_array<Leaf>({
    {"model", "the workload: a name or a file (and model.NAME for its dimensions, as model.sequence)", "resnet50",
     nullptr},
    {"node", "the server or cloud instance: a name or a file", "dgx1-v100",
     [](Into s, Value v, Names c) { return store(c.node(v), s.cluster.node); }},
    {"gpu", "another GPU in that server", "h100",
     [](Into s, Value v, Names c) -> Expected<void> {
       auto gpu = c.gpu(v);
       if (!gpu) return tl::unexpected<Error>(gpu.error());
       // The server's own, named, is as it is, with its price.
       if (gpu->id == s.cluster.node.gpu.id && !io::is_path(v)) return {};
       return c.fit_gpu(s.cluster.node, std::move(*gpu));
     }},
    {"nodes", "how many servers", "4",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, hardware::kMaxNodes}), s.cluster.nodes); }},
    {"gpus_per_node", "how many GPUs of a server the job uses (default: all)", "8",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, s.cluster.node.gpus}), s.cluster.gpus_per_node); }},
    {"batch", "samples per GPU and pass; of a split model, of a replica: the micro-batch", "64",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, kMaxBatch}), s.batch); }},
    {"precision", "fp32, tf32, fp16 (amp), bf16, fp8, fp4 (NVFP4)", "fp16",
     [](Into s, Value v, Names) { return store(parse_choice(kPrecisions, v, "precision"), s.precision); }},
    {"strategy", "ps, allreduce, pearl, or a framework's way (`ddlsim list frameworks`)", "allreduce", set_strategy},
    {"network", "of a server: a rate (its ports: hardware/README.md), a link's name, or several ports of it", "25 Gb/s", set_network},
    {"network.latency", "one hop", "14 us",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.cluster.node.network.latency); }},
    {"gpu.peak.fp32", "dense rate of the GPU at that precision", "15.7 TFLOP/s", set_peak<Precision::kFp32>},
    {"gpu.peak.tf32", "likewise", "156 TFLOP/s", set_peak<Precision::kTf32>},
    {"gpu.peak.fp16", "likewise", "125 TFLOP/s", set_peak<Precision::kFp16>},
    {"gpu.peak.bf16", "likewise", "312 TFLOP/s", set_peak<Precision::kBf16>},
    {"gpu.peak.fp8", "likewise", "1979 TFLOP/s", set_peak<Precision::kFp8>},
    {"gpu.peak.fp4", "likewise", "9000 TFLOP/s", set_peak<Precision::kFp4>},
    {"gpu.memory_bandwidth", "of the GPU's memory", "900 GB/s",
     [](Into s, Value v, Names) { return store(parse_bandwidth(v), s.cluster.node.gpu.memory_bandwidth); }},
    {"gpu.memory_size", "of the GPU's memory", "32 GB",
     [](Into s, Value v, Names) { return store(parse_data_size(v), s.cluster.node.gpu.memory_size); }},
    {"gpu.power_limit", "what a GPU may draw (default: its TDP); clocks fall to it where its file says what work draws", "500 W",
     set_power_limit},
    {"gpu.calibration", "profile of the GPU's kernels: auto (its own, else the nearest of its architecture's), none, or an id", "none",
     set_profile},
    {"fusion", "what runs as one kernel: none, pointwise, attention, all (default: attention, on a GPU with bf16 in software since 2023)", "all",
     [](Into s, Value v, Names) { return store(parse_choice(kFusions, v, "fusion"), s.fusion); }},
    {"cuda_graphs", "the CPU launches a step's kernels at once, and works on no sample between them: yes, no", "yes",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.cuda_graphs); }},
    {"launch_blocking", "every launch waits until its kernel has ended (CUDA_LAUNCH_BLOCKING=1), and nothing runs beside kernels: yes, no", "yes",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.launch_blocking); }},
    {"gpu_interconnect", "what joins the GPUs of a server: nvlink or pcie", "nvlink", set_interconnect},
    {"peer_to_peer", "over PCIe, GPUs of a server reach each other's memory: yes, or no (they meet in the host's)", "yes",
     set_peer_to_peer},
    {"nvlink", "all NVLinks of one GPU, one direction", "150 GB/s", set_nvlink},
    {"nvlink.latency", "one hop", "3.4 us",
     [](Into s, Value v, Names) -> Expected<void> {
       if (!s.cluster.node.nvlink) return fail(ErrorCode::kInvalidArgument, "the GPU has no NVLink");
       return store(parse_time(v, Range::kNonNegative), s.cluster.node.nvlink->latency);
     }},
    {"pcie", "every PCIe link of the server, one direction", "15.75 GB/s", set_pcie},
    {"pcie.host", "the links between the host and the switches of its GPUs alone", "15.75 GB/s",
     [](Into s, Value v, Names) { return store(parse_bandwidth(v), s.cluster.node.host_link.bandwidth); }},
    {"pcie.latency", "one hop", "5.7 us",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.cluster.node.pcie.latency); }},
    {"pcie.uplinks", "PCIe links between the host and the switches of its GPUs", "4",
     [](Into s, Value v, Names) {
       return store(parse_count(v, {1, hardware::kMaxGpusPerNode}), s.cluster.node.pcie_uplinks);
     }},
    {"strategy.grouping", "how gradients become messages: buckets, fusion, per-tensor, flat, partitions", "buckets",
     [](Into s, Value v, Names) { return store(parse_choice(plan::kGroupings, v, "grouping"), s.strategy.grouping); }},
    {"strategy.first_bucket", "buckets: size of the first", "1 MiB",
     [](Into s, Value v, Names) { return store(parse_data_size(v), s.strategy.first_bucket); }},
    {"strategy.bucket", "buckets: size of the others; fusion: size of the buffer", "25 MiB",
     [](Into s, Value v, Names) { return store(parse_data_size(v), s.strategy.bucket); }},
    {"strategy.cycle", "fusion: time between two wakes of the coordinator", "1 ms",
     [](Into s, Value v, Names) { return store(parse_time(v), s.strategy.cycle); }},
    {"strategy.partition", "partitions: tensors are cut into pieces of this size", "4 MB", set_partition},
    {"strategy.priority", "what the next forward pass needs first is sent first: yes, no", "no",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.strategy.priority); }},
    {"strategy.gradients", "format in which gradients travel", "fp32",
     [](Into s, Value v, Names) -> Expected<void> {
       if (v == "fp4") return fail(ErrorCode::kInvalidArgument, "no framework sends gradients of 4 bits");
       return store(parse_choice(kPrecisions, v, "precision"), s.strategy.gradients);
     }},
    {"strategy.compression", "of gradients: none, top-k, powersgd, sign", "none",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kCompressions, v, "compression"), s.strategy.compression);
     }},
    {"strategy.density", "top-k: share of the elements that are sent", "1 %",
     [](Into s, Value v, Names) { return store(parse_fraction(v), s.strategy.density); }},
    {"strategy.rank", "powersgd: columns of the factors", "4",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, kMaxRank}), s.strategy.rank); }},
    {"strategy.accumulation", "forward and backward passes per step; the last one sends", "1",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, kMaxAccumulation}), s.strategy.accumulation); }},
    {"strategy.sync_every", "local SGD: replicas average their weights once in so many steps; 1: gradients in every step", "8",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, kMaxAccumulation}), s.strategy.sync_every); }},
    {"strategy.spread_from", "pearl: smaller tables are on every GPU", "8 MiB",
     [](Into s, Value v, Names) { return store(parse_data_size(v, Range::kNonNegative), s.strategy.spread_from); }},
    {"parallel.tensor", "ranks that share every large matrix (Megatron-LM)", "8",
     set_degree<&plan::Parallel::tensor, 1, kMaxDegree>},
    {"parallel.pipeline", "stages of layers", "4", set_degree<&plan::Parallel::pipeline, 1, kMaxDegree>},
    {"parallel.context", "ranks that share a sample's positions", "2",
     set_degree<&plan::Parallel::context, 1, kMaxDegree>},
    {"parallel.expert", "ranks that share a layer's experts; they divide the replicas, or these times the context degree", "8",
     set_degree<&plan::Parallel::expert, 1, kMaxDegree>},
    {"parallel.expert_tensor", "ranks that an expert is cut over: 1 (whole ones, which tensor ranks share as well), or as tensor",
     "1", set_degree<&plan::Parallel::expert_tensor, 1, kMaxDegree>},
    {"parallel.data", "replicas: what the other degrees leave of the GPUs; stated, it is checked", "8", nullptr},
    {"parallel.order", "axes of ranks, innermost (nearest) first", "tp-cp-ep-dp-pp", set_order},
    {"parallel.sequence", "norms and residual sums are cut along the sequence in the tensor group: yes, no", "yes",
     set_choice<&plan::Parallel::sequence>},
    {"parallel.context_by", "how positions are shared: ring, ulysses", "ring",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kContextWays, v, "way of context parallelism"), s.parallel.context_by);
     }},
    {"parallel.schedule", "of a pipeline: none, gpipe, 1f1b, interleaved, zb-h1, zb-h2, zbv, dualpipe, pipedream, pipedream-2bw",
     "1f1b",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kPipelineSchedules, v, "schedule"), s.parallel.schedule);
     }},
    {"parallel.virtual_stages", "interleaved: chunks of layers per rank", "2",
     set_degree<&plan::Parallel::virtual_stages, 1, kMaxDegree>},
    {"parallel.layers_per_stage", "blocks of each stage (at an end 0: embedding or head alone), or layers of the model's list (default: as many each, where they divide; else nearly equal work)", "20-20-21",
     set_layers_per_stage},
    {"parallel.zero", "what data-parallel ranks share: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too (FSDP)",
     "3",
     [](Into s, Value v, Names) -> Expected<void> {
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
    {"parallel.no_sync", "zero 3: gradients of several passes add up whole and are scattered once a step: yes, no", "yes",
     set_choice<&plan::Parallel::no_sync>},
    {"parallel.overlap_gather", "zero 1, 2: updated weights are gathered beside the next forward pass: yes, no", "yes",
     set_choice<&plan::Parallel::overlap_gather>},
    {"parallel.gather_fp8", "zero, products in 8 bits: weights are gathered in 8 bits: yes, no", "yes",
     set_choice<&plan::Parallel::gather_fp8>},
    {"parallel.recompute", "in backward: none, selective (attention's core), per-op (blocks but attention and every other product), full (whole blocks), stage (all of a stage)", "selective",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kRecomputes, v, "recomputation"), s.parallel.recompute);
     }},
    {"parallel.recompute_stops", "per-op, full: not a block's last product, which no gradient needs (PyTorch since 2.1; Megatron-LM: no)",
     "yes", set_choice<&plan::Parallel::recompute_stops>},
    {"parallel.recompute_every", "full: of every so many blocks one, or parallel.recompute_first, is computed again", "2",
     set_degree<&plan::Parallel::recompute_every, 1, kMaxDegree>},
    {"parallel.recompute_first", "full: of every parallel.recompute_every blocks so many first are computed again (Megatron's --recompute-method block: of a stage's)", "1",
     set_degree<&plan::Parallel::recompute_first, 1, kMaxDegree>},
    {"parallel.offload_optimizer", "states and update on the host: yes, no", "yes",
     set_choice<&plan::Parallel::offload_optimizer>},
    {"parallel.offload_weights", "zero 3, optimizer on the host: weights too, copied to the GPU before every use: yes, no", "yes",
     set_choice<&plan::Parallel::offload_weights>},
    {"parallel.offload_activations", "what is kept for backward waits on the host: yes, no", "yes",
     set_choice<&plan::Parallel::offload_activations>},
    {"parallel.gated_fp8", "what a gated activation reads is kept for backward in 8 bits (Megatron-Core's activation_func_fp8_input_store): yes, no",
     "yes", set_choice<&plan::Parallel::gated_fp8>},
    {"parallel.states", "formats of weights, gradients and optimizer states: fp32, mixed, mixed-16 (or mixed-bf16), pure-16 (or pure-bf16), fp8, fp8-primary, adam-8bit", "mixed",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kStates, v, "format of states"), s.parallel.states);
     }},
    {"parallel.overlap_tensor", "a product's pieces run beside the collective of others: yes, no", "yes",
     set_choice<&plan::Parallel::overlap_tensor>},
    {"parallel.overlap_p2p", "stages send beside their work: yes, no", "no",
     set_choice<&plan::Parallel::overlap_p2p>},
    {"parallel.scatter_gather", "tensor ranks without parallel.sequence send a part each to the next stage, and gather (Megatron-LM until 2023, DeepSpeed), not the whole each: yes, no", "yes",
     set_choice<&plan::Parallel::scatter_gather>},
    {"parallel.lora_rank", "adapters of this rank beside products (parallel.lora_products) are trained, all else is frozen; 0: everything is trained", "16",
     set_degree<&plan::Parallel::lora_rank, 0, kMaxDegree>},
    {"parallel.lora_products", "which have adapters: qkv (queries, keys, values), attention (and the one after it), all (and the MLPs'; routed experts have none)", "all",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kAdaptedProducts, v, "products"), s.parallel.lora_products);
     }},
    {"parallel.frozen_bits", "of the frozen weights beside adapters: 4 (QLoRA), 8; 0: as they are computed with (where parallel.states is stated, as it says)", "4",
     [](Into s, Value v, Names) {
       return store(parse_choice(kFrozenBits, v, "bits of frozen weights"), s.parallel.frozen_bits);
     }},
    {"parallel.expert_capacity", "a rank's experts take at most this times their even share of tokens; 0: all", "1.25",
     [](Into s, Value v, Names) { return store(number_between(v, 0, 1000), s.parallel.expert_capacity); }},
    {"parallel.expert_imbalance", "tokens of the busiest rank's experts over the mean", "1.2",
     [](Into s, Value v, Names) { return store(number_between(v, 1, 1000), s.parallel.expert_imbalance); }},
    {"parallel.expert_dispatch",
     "how tokens get to experts on other ranks: copies (an all-to-all), once per server (DeepEP, HybridEP): copies, once",
     "once",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kExpertDispatches, v, "dispatch to experts"), s.parallel.expert_dispatch);
     }},
    {"parallel.expert_servers", "dispatch once: the experts of a token are on at most so many servers; 0: on any", "4",
     set_degree<&plan::Parallel::expert_servers, 0, kMaxDegree>},
    {"global_batch", "samples of a step over all replicas: sets strategy.accumulation, and batch where nobody states it", "1024", nullptr},
    {"strategy.split_on_host", "data-parallel: the host sends every GPU its part of the batch: yes, no", "yes",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.strategy.split_on_host); }},
    {"strategy.preload", "data-parallel: the next batch is copied while this one is worked on: yes, no", "yes",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.strategy.preload); }},
    {"strategy.parameter_compression", "data-parallel: weights are broadcast so many times as small", "2",
     [](Into s, Value v, Names) { return store(number_between(v, 1, 1000), s.strategy.parameter_compression); }},
    {"strategy.servers", "ps: servers (default: as many as worker nodes)", "4",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, kMaxServers}), s.strategy.servers); }},
    {"strategy.colocated", "ps: servers run on the workers' machines: yes, no", "no",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.strategy.colocated); }},
    {"strategy.placement", "ps: which server holds a tensor: even, round-robin, greedy", "even",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kPlacements, v, "placement"), s.strategy.placement);
     }},
    {"strategy.local_aggregation", "ps: a node's GPUs sum their gradients first: yes, no", "no",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.strategy.local_aggregation); }},
    {"strategy.servers_update", "ps: servers update the weights (no: they only sum, as BytePS's): yes, no", "yes",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.strategy.servers_update); }},
    {"strategy.pull_at_start", "ps: weights are pulled when the next step asks for them: yes, no", "no",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.strategy.pull_at_start); }},
    {"strategy.consistency", "ps: sync, async, stale-sync", "sync",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kConsistencies, v, "consistency"), s.strategy.consistency);
     }},
    {"strategy.staleness", "stale-sync: steps a worker may be ahead", "3",
     [](Into s, Value v, Names) { return store(parse_count(v, {0, kMaxAccumulation}), s.strategy.staleness); }},
    {"collective.library", "nccl, mpi, mpi-opt, baidu, gloo", "nccl",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kCollectiveLibraries, v, "library"), s.collective.kind);
     }},
    {"collective.algorithm", "forced upon the library (default: its own choice)", "ring",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kCollectiveAlgorithms, v, "algorithm"), s.collective.algorithm);
     }},
    {"collective.pointer_cache", "MPI: where a buffer lies is asked once, and kept: yes, no (default: as the library is)", "yes",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.collective.pointer_cache); }},
    {"collective.sums_on", "mpi-opt: cpu, gpu (default: the cheaper for each size)", "gpu",
     [](Into s, Value v, Names) { return store(parse_choice(plan::kSumsOn, v, "processor"), s.collective.sums_on); }},
    {"collective.table", "measured collectives, instead of formulas: a file of nccl-tests output or JSON, or CSV", "sweep.txt",
     [](Into s, Value v, Names) { return store(load_collective_table(v), s.collective_table); }},
    {"network.oversubscription", "of the leaf switches: what servers may send over what goes up; 1 is full bisection", "4",
     [](Into s, Value v, Names) { return store(number_between(v, 1, 1000), s.cluster.oversubscription); }},
    {"network.uplink", "of the leaf that all a job's traffic between servers crosses, and other jobs' (event; default: it never fills)", "400 Gb/s",
     [](Into s, Value v, Names) { return store(parse_bandwidth(v), s.leaf_uplink); }},
    {"network.transport", "what drives it: infiniband, roce, omni-path, efa, tcpx, tcp (default: as its file says, else assumed)", "tcp",
     [](Into s, Value v, Names) {
       return store(parse_choice(hardware::kNetworkTransports, v, "transport"), s.cluster.node.network.transport);
     }},
    {"ps.transport", "grpc, grpc+mpi, grpc+verbs, grpc+gdr, tcp, rdma (default: as network.transport drives it)", "grpc",
     [](Into s, Value v, Names) { return store(parse_choice(plan::kPsTransports, v, "transport"), s.ps_transport); }},
    {"ps.memory_bandwidth", "of a server's host memory", "60 GB/s",
     [](Into s, Value v, Names) { return store(parse_bandwidth(v), s.server_memory); }},
    {"input.dataset", "what is read: a name (`ddlsim list datasets`) or a file; without it the loader keeps up", "imagenet",
     [](Into s, Value v, Names c) { return store(c.dataset(v), s.input.dataset); }},
    {"input.loader", "workers (PyTorch: each reads, then decodes) or pipelined (DALI, tf.data)", "pipelined",
     [](Into s, Value v, Names) { return store(parse_choice(plan::kLoaders, v, "loader"), s.input.loader); }},
    {"input.workers", "of one GPU (default: its share of the hardware threads); 0: nothing is loaded ahead", "8",
     [](Into s, Value v, Names) { return store(parse_count(v, {0, kMostWorkers}), s.input.workers); }},
    {"input.prefetch", "batches made ahead: by each worker; pipelined: in all", "2",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, kMostAhead}), s.input.prefetch); }},
    {"input.cache", "of a server's memory: page (LRU), pinned, partitioned (over the servers), none, all (it all fits)",
     "pinned",
     [](Into s, Value v, Names) { return store(parse_choice(plan::kCachePolicies, v, "cache"), s.input.cache); }},
    {"input.cache_size", "of one server (default: its memory)", "400 GB",
     [](Into s, Value v, Names) { return store(parse_data_size(v, Range::kNonNegative), s.input.cache_size); }},
    {"input.epoch", "first (nothing is cached yet) or later", "first",
     [](Into s, Value v, Names) { return store(parse_choice(plan::kEpochs, v, "epoch"), s.input.epoch); }},
    {"input.decode", "on the cpu, or on the gpu (which loses the time)", "gpu",
     [](Into s, Value v, Names) { return store(parse_choice(plan::kDecodeOn, v, "place to decode"), s.input.decode); }},
    {"input.gpu_decode", "GPU time of one sample, where the GPU decodes", "0.52 ms",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.input.gpu_decode); }},
    {"input.contention", "what each core does less for every other one of a loader (pipelined: 0.05)", "0.05",
     [](Into s, Value v, Names) { return store(number_between(v, 0, 1), s.input.contention); }},
    {"input.variation", "standard deviation of a sample's work over its mean (the data set's)", "0.5",
     [](Into s, Value v, Names) { return store(number_between(v, 0, 10), s.input.variation); }},
    {"input.pinned", "batches lie in pinned memory, so that their copies run beside kernels: yes, no", "yes",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.input.pinned); }},
    {"input.storage", "what it is read from: a name (`ddlsim list storage`) or a file", "nvme", input::set_storage},
    {"input.storage.bandwidth", "of all who read it", "2 GB/s", input::set_storage_bandwidth},
    {"input.storage.iops", "requests per second", "16000 IOPS", input::set_storage_iops},
    {"input.storage.latency", "of one request", "1 ms", input::set_storage_latency},
    {"input.storage.capacity", "what it holds", "16 TiB", input::set_storage_capacity},
    {"input.cpu", "the server's processor: a name (`ddlsim list cpus`) or a file", "epyc-7742", input::set_cpu},
    {"input.threads", "hardware threads of the server that the job may use", "64",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, kMostWorkers}), s.cluster.node.host.threads); }},
    {"jitter", "standard deviation of one GPU's step, as a share; a synchronous step waits for the slowest", "2 %",
     set_jitter},
    {"software", "what frameworks take on top of kernels: learnt from published steps, or none (kernels alone)", "none",
     set_software},
    {"software.year", "of the framework's release, where it is old (default: new)", "2020", set_software_year},
    {"software.fused", "whether blocks run as fused kernels, as Megatron's and NeMo's, or XLA's convolutions, whose norms then take "
     "element-wise kernels in; no: RMSNorm, rotary positions, SwiGLU and GPT-2's GELU are single operations (default: nobody says)", "yes",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.software_fused); }},
    {"software.attention", "the kernel of attention where it is one: best (the GPU's fastest), flash-2 (FlashAttention-2, "
     "as PyTorch's scaled_dot_product_attention before 2.11), sdpa (that, but cuDNN's on Blackwell: torchtitan), flash-1 (Triton, "
     "2022)", "flash-2",
     [](Into s, Value v, Names) {
       return store(parse_choice(primitives::kAttentionKernels, v, "attention kernel"), s.software_attention);
     }},
    {"software.optimizer", "how the weights' update runs: fused (one kernel), foreach (PyTorch's default since 2.0), for-loop (PyTorch's "
     "before: a kernel for every operation on every tensor)", "for-loop",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kUpdateKernels, v, "way of an optimizer"), s.software_optimizer);
     }},
    {"software.operators", "whole (a kernel each), composed (GELU, layer norm and dropout of single operations: TensorFlow without XLA), "
     "autocast (whole, with casts between them: torch.autocast, as Hugging Face's Trainer runs)", "composed",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kOperatorKernels, v, "kernels of operators"), s.software_operators);
     }},
    {"software.layout", "of images: channels-last, channels-first (PyTorch unless told otherwise: convolutions of 16 bits turn them); default: as the "
     "GPU's convolutions were measured, channels-first on Volta and Turing", "channels-first",
     [](Into s, Value v, Names) {
       return store(parse_choice(plan::kImageLayouts, v, "layout of images"), s.software_layout);
     }},
    {"gpu.time_factor", "on all GPU time, where a measured step says so", "1.2",
     [](Into s, Value v, Names) { return store(number_between(v, 1e-6, 1e6), s.gpu_time_factor); }},
    {"measured.step", "of this very job: a measured step, which corrects what is predicted", "180 ms", nullptr},
    {"measured.runs", "measured runs of this job: a CSV file with gpus, nodes, step and, if they differ, batch, passes, parallel.tensor, ...", "RUNS.csv",
     nullptr},
    {"measured.steps", "the same in words: nodes x GPUs per node [@ batch] [(parallel.tensor 4, ...)] = step; ...", "1x8@64 = 213 ms; 2x8@64 = 251 ms",
     nullptr},
    {"measured.gpu", "what the runs ran on; of another GPU they are refused", "v100-sxm2-16gb", nullptr},
    {"measured.precision", "likewise", "fp16", nullptr},
    {"overlap", "none, backward, ideal", "backward",
     [](Into s, Value v, Names) { return store(parse_choice(plan::kOverlaps, v, "overlap"), s.overlap); }},
    {"jobs", "alike jobs on the same servers' network ports (event)", "2",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, 1000}), s.jobs); }},
    {"jobs.offset", "between the starts of two such jobs (event)", "20 ms",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.jobs_offset); }},
    {"straggler", "how many times as slow one of the job's GPUs is (event)", "1.3", set_straggler},
    {"straggler.gpus", "how many of them are that slow (event)", "1",
     [](Into s, Value v, Names) {
       return store(parse_count(v, {1, hardware::kMaxNodes * hardware::kMaxGpusPerNode}), s.stragglers);
     }},
    {"fidelity", "aggregate, analytic, event (default: analytic where the model has layers)", "analytic",
     [](Into s, Value v, Names) { return store(parse_choice(answer::kFidelities, v, "fidelity"), s.fidelity); }},
    {"efficiency", "share of every peak rate that is reached (default 70 %, assumed)", "70 %",
     [](Into s, Value v, Names) -> Expected<void> {
       const auto share = parse_fraction(v);
       if (!share) return tl::unexpected<Error>(share.error());
       s.efficiency = plan::Efficiency::uniform(*share);
       return {};
     }},
    {"efficiency.compute", "of the GPU's peak rate", "50 %",
     [](Into s, Value v, Names) { return store(parse_fraction(v), s.efficiency.compute); }},
    {"efficiency.memory", "of the GPU's memory bandwidth", "80 %",
     [](Into s, Value v, Names) { return store(parse_fraction(v), s.efficiency.memory); }},
    {"efficiency.pcie", "of PCIe", "80 %",
     [](Into s, Value v, Names) { return store(parse_fraction(v), s.efficiency.pcie); }},
    {"efficiency.nvlink", "of NVLink", "80 %",
     [](Into s, Value v, Names) { return store(parse_fraction(v), s.efficiency.nvlink); }},
    {"efficiency.network", "of the network", "90 %",
     [](Into s, Value v, Names) { return store(parse_fraction(v), s.efficiency.network); }},
    {"launch_interval", "between two kernels that the CPU issues", "20 us",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.launch_interval); }},
    {"price", "of a server, or of several, by their names: owned or reserved hardware", "dgx-a100=12 $/h", set_price},
    {"price.spot", "servers at their spot price: yes, no", "no",
     [](Into s, Value v, Names) { return store(parse_yes(v), s.training.spot); }},
    {"training.samples", "of an epoch", "1281167",
     [](Into s, Value v, Names) { return store(parse_large_count(v), s.training.samples); }},
    {"training.tokens", "of an epoch, instead of its samples", "300e9",
     [](Into s, Value v, Names) { return store(parse_large_count(v), s.training.tokens); }},
    {"training.epochs", "passes over those samples (1)", "90",
     [](Into s, Value v, Names) { return store(parse_positive(v), s.training.epochs); }},
    {"training.steps", "of the run, instead of samples and epochs", "450450",
     [](Into s, Value v, Names) { return store(parse_large_count(v), s.training.steps); }},
    {"training.startup", "before the first step", "5 min",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.training.startup); }},
    {"training.evaluation", "one of them (default: none)", "40 s",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.training.evaluation); }},
    {"training.evaluate_every", "epochs from one to the next (default: 1)", "1",
     [](Into s, Value v, Names) { return store(parse_positive(v), s.training.evaluate_every); }},
    {"training.checkpoint", "that training stands still for one (default: none)", "30 s",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.training.checkpoint); }},
    {"training.checkpoint_every", "of training from one to the next (default: 1 h)", "1 h",
     [](Into s, Value v, Names) { return store(parse_time(v), s.training.checkpoint_every); }},
    {"failures", "how often GPUs, servers and switches fail: published rates (`ddlsim list failures`) or a file",
     "llama3-405b",
     [](Into s, Value v, Names c) { return store(c.failures(v), s.failures.published); }},
    {"failures.mtbf_gpu", "mean time between failures of one GPU", "80000 h",
     [](Into s, Value v, Names) { return store(parse_time(v), s.failures.gpu); }},
    {"failures.mtbf_node", "of one server besides its GPUs", "20000 h",
     [](Into s, Value v, Names) { return store(parse_time(v), s.failures.node); }},
    {"failures.mtbf_switch", "of one switch and its cables", "75000 h",
     [](Into s, Value v, Names) { return store(parse_time(v), s.failures.network); }},
    {"failures.nodes_per_switch", "servers that one of these switches joins (1)", "32",
     [](Into s, Value v, Names) {
       return store(parse_count(v, {1, hardware::kMaxNodes}), s.failures.nodes_per_switch);
     }},
    {"failures.restart", "from a failure until reading the checkpoint begins (default: no time)", "5 min",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.failures.restart); }},
    {"failures.warmup", "after reading it, until steps are as long as ever (default: no time)", "2 min",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.failures.warmup); }},
    {"failures.spares", "servers that stand by; they are paid for (0)", "16",
     [](Into s, Value v, Names) { return store(parse_count(v, {0, hardware::kMaxNodes}), s.failures.spares); }},
    {"failures.repair", "until a failed server is back; without a spare the run waits (default: no time)", "24 h",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.failures.repair); }},
    {"failures.runs", "simulated beside the formula, event by event (0)", "100",
     [](Into s, Value v, Names) { return store(parse_count(v, {0, kMostRuns}), s.failures.simulated_runs); }},
    {"failures.seed", "of their random numbers (1)", "7",
     [](Into s, Value v, Names) {
       const auto seed = parse_count(v, {0, std::int64_t{1} << 62});
       return store(seed.map([](std::int64_t n) { return static_cast<std::uint64_t>(n); }), s.failures.seed);
     }},
    {"checkpoint.mode", "blocking, async (training waits for a snapshot alone), memory (most failures go back to that)",
     "async",
     [](Into s, Value v, Names) {
       return store(parse_choice(cost::kCheckpointModes, v, "way of taking checkpoints"), s.checkpoints.mode);
     }},
    {"checkpoint.interval", "worked between two (default: best, the shortest run)", "30 min",
     [](Into s, Value v, Names) {
       if (v != "best") return store(parse_time(v), s.checkpoints.interval);
       s.checkpoints.interval.reset();
       return Expected<void>{};
     }},
    {"checkpoint.storage", "what they are written to: a name (`ddlsim list storage`) or a file", "lustre",
     [](Into s, Value v, Names c) { return store(c.storage(v), s.checkpoints.storage); }},
    {"checkpoint.bandwidth", "of all who write (default: the storage's)", "100 GB/s",
     [](Into s, Value v, Names) { return store(parse_bandwidth(v), s.checkpoints.bandwidth); }},
    {"checkpoint.node_bandwidth", "of one server that writes (default: its network's)", "5 GB/s",
     [](Into s, Value v, Names) { return store(parse_bandwidth(v), s.checkpoints.node_bandwidth); }},
    {"checkpoint.size", "of all servers together (default: weights and optimizer states)", "2 TB",
     [](Into s, Value v, Names) { return store(parse_data_size(v), s.checkpoints.size); }},
    {"checkpoint.writers", "servers that write (default: those of one replica; with zero all)", "16",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, hardware::kMaxNodes}), s.checkpoints.writers); }},
    {"checkpoint.write", "the time it takes, instead of size over bandwidth", "2 min",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.checkpoints.write); }},
    {"checkpoint.snapshot", "async, memory: training waits so long (default: copying it over PCIe)", "5 s",
     [](Into s, Value v, Names) { return store(parse_time(v, Range::kNonNegative), s.checkpoints.snapshot); }},
    {"checkpoint.remote_every", "memory: so many copies to one in storage (default: as often as it takes them)", "8",
     [](Into s, Value v, Names) { return store(parse_count(v, {1, kMostCopies}), s.checkpoints.remote_every); }},
    {"energy.carbon", "CO2 of the electricity", "400 g/kWh",
     [](Into s, Value v, Names) {
       return store(parse_quantity<dimension::kMass - dimension::kEnergy>(v), s.training.carbon);
     }},
    {"model.optimizer", "sgd, sgd-momentum, adagrad, adam (and what keeps as much: AdamW, LAMB; LARS: sgd-momentum)", "sgd-momentum",
     set_model_optimizer},
    {"model.flops", "per step at the model's own batch (models known by their features)", "1.56 TFLOP",
     [](Into s, Value v, Names) {
       return set_feature(s, parse_quantity<dimension::kWork>(v), &workload::StepFeatures::flops);
     }},
    {"model.memory_access", "likewise", "31.9 GB",
     [](Into s, Value v, Names) { return set_feature(s, size_or_zero(v), &workload::StepFeatures::memory_access); }},
    {"model.input", "likewise", "38 MB",
     [](Into s, Value v, Names) { return set_feature(s, size_or_zero(v), &workload::StepFeatures::input); }},
    {"model.weight_traffic", "likewise", "357 MB",
     [](Into s, Value v, Names) { return set_feature(s, size_or_zero(v), &workload::StepFeatures::weight_traffic); }},
});

}  // namespace

std::span<const Leaf> leaves() { return kLeaves; }

const Leaf* find_leaf(std::string_view path) {
  static const std::unordered_map<std::string_view, const Leaf*> by_path = [] {
    std::unordered_map<std::string_view, const Leaf*> all;
    for (const Leaf& leaf : leaves()) all.emplace(leaf.path, &leaf);
    return all;
  }();
  const auto found = by_path.find(path);
  return found == by_path.end() ? nullptr : found->second;
}

bool is_of_servers(std::string_view path) {
  return path == "node" || path == "nodes" || path == "gpu" || path.starts_with("gpu.") ||
         path.starts_with("network") || path.starts_with("nvlink") || path.starts_with("pcie") ||
         path == "gpu_interconnect" || path == "peer_to_peer";
}

}  // namespace ddlsim::whatif
