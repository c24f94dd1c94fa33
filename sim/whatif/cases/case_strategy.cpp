#include "cases/case_strategy.h"

#include "cases/case_metric.h"
#include "cases/case_software.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"

namespace ddlsim::whatif {
namespace {

/// Horovod as it waited for gradients before 0.21 of November 2020: by the version that a row names, or by its year.
/// NVIDIA's recipes for MXNet state how long it waits, but DLPerf's copy of one does not export it
/// (RN50v1.5/runner.sh).
std::string horovod_of(const io::Case& one) {
  constexpr double kSince = 2020.9;
  const std::string framework = framework_of(one);
  const bool stated = has(framework, "mxnet") && !has(one.source, "DLPerf");
  const bool by_year = has(framework, "tensorflow 1.x") || software_year_of(one).value_or(kSince) < kSince;
  const bool old = has(framework, "horovod 0.") ? has_any(framework, {"horovod 0.1", "horovod 0.20"}) : by_year;
  return old && !stated ? "horovod-2018" : "horovod";
}

}  // namespace

std::string strategy_of(const io::Case& one, std::string_view family) {
  const std::string framework = framework_of(one) + " " + lower_case(one.architecture);
  const std::string extra = lower_case(one.said("variable_update").value_or("") + " " +
                                       one.said("allreduce").value_or("") + " " + one.said("setup").value_or(""));
  const std::string backend = lower_case(one.said("backend").value_or(""));
  if (has_word(framework, "dataparallel")) return "data-parallel";  // torch.nn.DataParallel, nobody else's
  if (family.starts_with("ps")) {
    if (has_any(framework, {"byteps"})) return has(extra, "tcp") ? "byteps-tcp" : "byteps";
    if (has(framework, "mxnet")) return "mxnet-kvstore";
    return has(extra, "distributed_replicated") ? "tf-distributed-replicated" : "tf-ps";
  }
  // What MLPerf calls embedding model parallel is NVIDIA's HugeCTR, whatever container it names.
  if (has(lower_case(one.architecture), "embedding model parallel")) {
    return has(framework, "torchrec") ? "torchrec" : "hugectr";
  }
  if (has(framework + extra, "horovod")) {
    if (has(extra, "mpi") || (has(backend, "mpi") && !has(backend, "nccl"))) return "horovod-mpi";
    if (runs_xla(one)) return "horovod-xla";
    return horovod_of(one);
  }
  const bool replicated = has(extra, "replicated") || family == "replicated";  // of tf_cnn_benchmarks
  if (replicated) return "tf-replicated";
  const bool nvidia =
      has(framework, "ngc") || has(lower_case(one.source), "deeplearningexamples") || is_submission(one);
  const bool half = precision_of(one.precision) != "fp32" && precision_of(one.precision) != "tf32";
  const bool bert = has(lower_case(one.model), "bert") && phase_of(one) != TrainingPhase::kFineTuning;
  if (nvidia && has(framework, "pytorch") && bert) {
    // DLPerf's single_node_train.sh leaves allreduce_post_accumulation off: apex with buckets of 250,000,000 elements,
    // of which BERT-Base fills none before its last gradient.
    return has(one.source, "DLPerf") && !half ? "apex-ddp-delayed" : "ngc-bert";
  }
  if (has(framework, "apex")) return "apex-ddp";
  if (has_any(framework, {"multiworkermirrored", "multi_worker_mirrored", "tf.distribute", "mirroredstrategy"})) {
    return "tf-multiworker-mirrored";
  }
  if (has(framework, "baidu")) return "baidu";
  if (has(framework, "gloo")) return "pytorch-ddp-gloo";
  if (has(framework, "deepspeed")) return "deepspeed";
  if (has_any(framework, {"paddle", "fleet"})) return "paddle-fleet";
  if (has(framework, "oneflow")) return "oneflow";
  // MXNet's multi-GPU recipes of NVIDIA share by Horovod.
  if (has(framework, "mxnet") && !has(framework, "pytorch")) return horovod_of(one);
  if (has(framework, "byteps")) return "byteps";
  return "pytorch-ddp";
}

}  // namespace ddlsim::whatif
