#include "ddlsim/whatif/framework.h"

#include <algorithm>
#include <array>

#include "ddlsim/support/names.h"

namespace ddlsim::whatif {
namespace {

constexpr auto kFrameworks = std::to_array<Framework>({
    {"pytorch-ddp", "DistributedDataParallel: buckets of 1 MiB, then 25 MiB, NCCL, overlapped",
     "strategy=allreduce; strategy.grouping=buckets; strategy.first_bucket=1 MiB; strategy.bucket=25 MiB; "
     "collective.library=nccl",
     "torch/nn/parallel/distributed.py: bucket_cap_mb = 25, dist._DEFAULT_FIRST_BUCKET_BYTES = 1 MiB"},
    {"pytorch-ddp-gloo", "DistributedDataParallel over Gloo: the same buckets, copied to the host and back",
     "strategy=allreduce; strategy.grouping=buckets; strategy.first_bucket=1 MiB; strategy.bucket=25 MiB; "
     "collective.library=gloo",
     "torch/nn/parallel/distributed.py; facebookincubator/gloo"},
    {"apex-ddp", "apex DistributedDataParallel: buckets of 10,000,000 elements, NCCL, overlapped",
     "strategy=allreduce; strategy.grouping=buckets; strategy.first_bucket=40 MB; strategy.bucket=40 MB; "
     "collective.library=nccl",
     "NVIDIA/apex apex/parallel/distributed.py: message_size = 1e7"},
    {"apex-ddp-delayed", "apex with delay_allreduce: one all-reduce after backward (Stash's runs of DS-Analyzer)",
     "strategy=allreduce; strategy.grouping=flat; collective.library=nccl",
     "NVIDIA/apex apex/parallel/distributed.py: delay_allreduce"},
    {"horovod", "Horovod since 0.21 with NCCL: fusion buffer of 128 MiB, cycle of 1 ms",
     "strategy=allreduce; strategy.grouping=fusion; strategy.bucket=128 MiB; strategy.cycle=1 ms; "
     "collective.library=nccl",
     "horovod/common/operations.cc; changed by pull request 2468"},
    {"horovod-xla", "Horovod around TensorFlow's XLA: gradients leave a compiled cluster together, after backward",
     "strategy=allreduce; strategy.grouping=fusion; strategy.bucket=128 MiB; strategy.cycle=1 ms; "
     "collective.library=nccl; overlap=none",
     "horovod/horovod issues 1283 and 1673; NVIDIA/tensorflow 9932ec3 (tf_xla_async_io_level, off by default)"},
    {"pytorch-dp", "torch.nn.DataParallel: one process shares out batch and weights from GPU 0",
     "strategy=data-parallel; collective.library=nccl",
     "torch/nn/parallel/data_parallel.py; torch/nn/parallel/comm.py"},
    {"pytorch-fsdp", "fully_shard of every block: weights gathered a block ahead, and again in backward",
     "strategy=allreduce; parallel.zero=3; parallel.prefetch=1; parallel.reshard=yes; collective.library=nccl",
     "torch/distributed/fsdp; Zhao et al., VLDB 2023; torchtitan's apply_fsdp"},
    {"hugectr", "HugeCTR: tables spread over all GPUs, one all-reduce of fp16 for the rest, CUDA graphs",
     "strategy=pearl; strategy.grouping=flat; strategy.gradients=fp16; cuda_graphs=yes; collective.library=nccl",
     "NVIDIA-Merlin/HugeCTR; mlcommons/training_results_v5.1 hugectr train.py: use_embedding_collection, "
     "grouped_all_reduce, use_cuda_graph"},
    {"torchrec", "TorchRec: tables spread over all GPUs, DistributedDataParallel for the rest",
     "strategy=pearl; strategy.grouping=buckets; strategy.first_bucket=1 MiB; strategy.bucket=25 MiB; "
     "collective.library=nccl",
     "pytorch/torchrec torchrec/distributed/model_parallel.py: DistributedModelParallel"},
    {"horovod-2018", "Horovod up to 0.20 with NCCL: fusion buffer of 64 MiB, cycle of 5 ms",
     "strategy=allreduce; strategy.grouping=fusion; strategy.bucket=64 MiB; strategy.cycle=5 ms; "
     "collective.library=nccl",
     "horovod docs/tensor-fusion.rst (64 MB); cycle of 5 ms: CHANGELOG of pull request 2468"},
    {"horovod-mpi", "Horovod up to 0.20 with MPI on host buffers",
     "strategy=allreduce; strategy.grouping=fusion; strategy.bucket=64 MiB; strategy.cycle=5 ms; "
     "collective.library=mpi",
     "horovod docs (host-staged unless CUDA-aware); Awan et al. 2019"},
    {"horovod-mpi-opt", "Horovod with the CUDA-aware MPI_Allreduce of Awan et al. 2019",
     "strategy=allreduce; strategy.grouping=fusion; strategy.bucket=64 MiB; strategy.cycle=5 ms; "
     "collective.library=mpi-opt",
     "Awan et al., CCGRID 2019"},
    {"baidu", "Baidu all-reduce: a ring of MPI messages for every tensor",
     "strategy=allreduce; strategy.grouping=per-tensor; collective.library=baidu",
     "baidu-research/baidu-allreduce README; Awan et al. 2019"},
    {"tf-replicated", "tf_cnn_benchmarks variable_update=replicated: one NCCL all-reduce per tensor",
     "strategy=allreduce; strategy.grouping=per-tensor; collective.library=nccl",
     "tensorflow/docs_src/performance/performance_models.md"},
    {"ngc-bert", "NVIDIA's BERT for PyTorch: one all-reduce of fp16 after the last backward pass",
     "strategy=allreduce; strategy.grouping=flat; strategy.gradients=fp16; collective.library=nccl",
     "NVIDIA/DeepLearningExamples PyTorch/LanguageModeling/BERT/run_pretraining.py: allreduce_post_accumulation_fp16"},
    {"deepspeed", "DeepSpeed without ZeRO: gradients summed after backward, NCCL",
     "strategy=allreduce; strategy.grouping=flat; collective.library=nccl",
     "microsoft/DeepSpeed deepspeed/runtime/engine.py: allreduce_gradients, buffered_allreduce_fallback (500,000,000 "
     "elements at once)"},
    {"paddle-fleet", "PaddlePaddle fleet: gradients fused to 32 MiB, NCCL, overlapped",
     "strategy=allreduce; strategy.grouping=buckets; strategy.first_bucket=32 MiB; strategy.bucket=32 MiB; "
     "collective.library=nccl",
     "PaddlePaddle/Paddle python/paddle/distributed/fleet: fuse_all_reduce_ops, fuse_grad_size_in_MB = 32"},
    {"oneflow", "OneFlow: gradients fused to 16 MiB, NCCL, overlapped",
     "strategy=allreduce; strategy.grouping=buckets; strategy.first_bucket=16 MiB; strategy.bucket=16 MiB; "
     "collective.library=nccl",
     "Oneflow-Inc: nccl_fusion_threshold_mb = 16, nccl_fusion_max_ops = 24"},
    {"tf-multiworker-mirrored", "MultiWorkerMirroredStrategy with NCCL: one pack of all gradients after backward",
     "strategy=allreduce; strategy.grouping=flat; collective.library=nccl",
     "tensorflow/python/distribute: bytes_per_pack is 0 unless stated, and group_by_size then makes one pack; before "
     "2.3 num_packs = 1"},
    {"tf-ps", "TensorFlow 1 parameter servers: variables in turn on co-located servers, gRPC, pulled when asked for",
     "strategy=ps; strategy.grouping=per-tensor; strategy.placement=round-robin; strategy.colocated=yes; "
     "strategy.pull_at_start=yes; ps.transport=grpc",
     "tf.train.replica_device_setter; tf_cnn_benchmarks variable_update=parameter_server, which places them by bytes: "
     "strategy.placement=greedy"},
    {"tf-distributed-replicated",
     "tf_cnn_benchmarks variable_update=distributed_replicated: as tf-ps, gradients summed inside the node first",
     "strategy=ps; strategy.grouping=per-tensor; strategy.placement=round-robin; strategy.colocated=yes; "
     "strategy.pull_at_start=yes; strategy.local_aggregation=yes; ps.transport=grpc",
     "tensorflow/docs_src/performance/performance_models.md"},
    {"mxnet-kvstore", "MXNet dist_device_sync: tensors over 1,000,000 elements are split over all servers, ZeroMQ",
     "strategy=ps; strategy.grouping=partitions; strategy.partition=4 MB; strategy.local_aggregation=yes; "
     "strategy.priority=yes; ps.transport=tcp",
     "MXNET_KVSTORE_BIGARRAY_BOUND = 1e6; apache/mxnet docs, environment variables"},
    {"byteps", "BytePS: pieces of 4,096,000 bytes by priority, summed inside the node and by servers, RDMA",
     "strategy=ps; strategy.grouping=partitions; strategy.partition=4096000 B; strategy.local_aggregation=yes; "
     "strategy.servers_update=no; strategy.priority=yes; ps.transport=rdma",
     "bytedance/byteps docs/env.md, docs/rationale.md; Jiang et al., OSDI 2020"},
    {"byteps-tcp", "BytePS over TCP",
     "strategy=ps; strategy.grouping=partitions; strategy.partition=4096000 B; strategy.local_aggregation=yes; "
     "strategy.servers_update=no; strategy.priority=yes; ps.transport=tcp",
     "bytedance/byteps docs/env.md"},
    {"bytescheduler", "ByteScheduler on all-reduce: pieces of 8,000,000 elements by priority",
     "strategy=allreduce; strategy.grouping=partitions; strategy.partition=32 MB; strategy.priority=yes; "
     "collective.library=nccl",
     "bytedance/byteps bytescheduler/docs/scheduling.md; Peng et al., SOSP 2019"},
    {"p3", "P3 on parameter servers: slices of 50,000 elements by priority",
     "strategy=ps; strategy.grouping=partitions; strategy.partition=200 kB; strategy.priority=yes; ps.transport=tcp",
     "Jayarajan et al., SysML 2019 (slice size recalled)"},
});

}  // namespace

std::span<const Framework> frameworks() { return kFrameworks; }

const Framework* find_framework(std::string_view name) {
  const std::string folded = fold_name(name);
  const auto found = std::find_if(kFrameworks.begin(), kFrameworks.end(),
                                  [&](const Framework& f) { return fold_name(f.name) == folded; });
  return found == kFrameworks.end() ? nullptr : &*found;
}

std::vector<std::pair<std::string, std::string>> settings_of(const Framework& framework) {
  std::vector<std::pair<std::string, std::string>> settings;
  std::string_view rest = framework.settings;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("; "), rest.size());
    const std::string_view one = rest.substr(0, end);
    const std::size_t equals = one.find('=');
    settings.emplace_back(one.substr(0, equals), one.substr(equals + 1));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return settings;
}

}  // namespace ddlsim::whatif
