#include "cases/case_strategy.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "cases/case_degrees.h"
#include "cases/case_metric.h"
#include "cases/case_scenario.h"
#include "cases/case_software.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/framework.h"

namespace ddlsim::whatif {
namespace {

constexpr std::string_view kAssumed = "pytorch-ddp";
constexpr std::string_view kAfterBackward = "apex-ddp-delayed";  // one all-reduce by NCCL, nothing beside it
constexpr std::string_view kByTensor = "tf-replicated";          // NCCL too, as gradients are ready

/// Frameworks that share gradients in a way of their own, and which of those that have a name is nearest. All of a
/// row's words stand in the framework's name or its architecture; the first such row counts.
struct Nearest {
  std::string_view words;
  std::string_view strategy;
};
constexpr auto kNearest = std::to_array<Nearest>({
    // kungfu/tensorflow/optimizers/sync_sgd.py: nccl_fusion packs all gradients; without NCCL sums are the CPU's.
    {"kungfu nccl", kAfterBackward},
    {"kungfu", "pytorch-ddp-gloo"},
    // chainermn/communicators/pure_nccl_communicator.py: allreduce_grad packs all, after backward; Chainer's
    // MultiprocessParallelUpdater likewise (gather_grads).
    {"chainer", kAfterBackward},
    // Source/SGDLib/SimpleDistGradAggregator.h: AggregateGradients is called once backward is done.
    {"cntk", kAfterBackward},
    {"cognitive toolkit", kAfterBackward},
    // theanompi/lib/exchanger.py: BSP_Exchanger exchanges after each iteration.
    {"theano-mpi", kAfterBackward},
    // caffe2/python/data_parallel_model.py: an all-reduce for each gradient, beside backward; Detectron runs it. Gloo's
    // between servers (way_by_name).
    {"caffe2", kByTensor},
    // BVLC/caffe src/caffe/parallel.cpp: NCCL layer by layer (layer_wise_reduce); before it P2PSync's tree, at the end.
    {"caffe nccl", kByTensor},
    {"nvcaffe", kByTensor},
    {"caffe", kAfterBackward},
    // apache/singa python/singa/opt.py: DistOpt.backward_and_update sends what is above 2 MB by itself, as it is ready.
    {"singa", kByTensor},
    // tensorpack/train/trainers.py: SyncMultiGPUTrainerReplicated, NCCL for each gradient.
    {"tensorpack", kByTensor},
    // flashlight/fl/distributed: CoalescingReducer, asynchronous; bagua: buckets of 10 MiB, beside backward.
    {"flashlight", kAssumed},
    {"bagua", kAssumed},
});

/// Trainers on PyTorch's DistributedDataParallel, or what comes to it, whose names do not say PyTorch.
bool runs_pytorch(const io::Case& one, std::string_view framework) {
  if (has(framework, "jax")) return false;
  return has_any(framework, {"pytorch", "hugging", "transformers", "hf ", "primus", "llmboost", "dgl", "timm",
                             "maskrcnn-benchmark", "openclip", "surogate", "xtuner", "swift"}) ||
         !way_of(one).names.empty();
}

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

/// In lower case.
struct Said {
  std::string framework;  // and its architecture
  std::string extra;      // how variables and gradients are shared
  std::string backend;
};

Said said_of(const io::Case& one) {
  return {framework_of(one) + " " + lower_case(one.architecture),
          lower_case(one.said("variable_update").value_or("") + " " + one.said("allreduce").value_or("") + " " +
                     one.said("setup").value_or("")),
          lower_case(one.said("backend").value_or(""))};
}

bool denies_nccl(const io::Case& one) { return denies(one, "nccl") || denies(one, "use_nccl"); }

/// Horovod's way over MPI; empty: NCCL sums. Open MPI is what starts its processes, whoever sums.
std::string_view horovod_by_mpi(const io::Case& one, const Said& said) {
  std::string words = said.framework + " " + said.backend;
  const bool nccl = has(words + said.extra, "nccl");
  if (has(said.extra, "mpi") || (has(said.backend, "mpi") && !has(said.backend, "nccl"))) return "horovod-mpi";
  if (nccl) return {};
  // Awan et al. 2019: their CUDA-aware MPI_Allreduce is MVAPICH2-GDR's.
  if (has_any(words, {"mvapich2-gdr", "mvapich2 gdr", "mpi-opt"})) return "horovod-mpi-opt";
  if (!has_any(words, {"cuda-aware", "cuda aware"})) {
    for (const std::string_view starter : {"open mpi", "open-mpi", "openmpi", "mpirun"}) {
      for (std::size_t at = words.find(starter); at != std::string::npos; at = words.find(starter)) {
        words.erase(at, starter.size());
      }
    }
  }
  const bool named = has_word(words, "mpi") || has_any(words, {"mvapich", "mpich", "openmpi", "mpi_allreduce"});
  return named || denies_nccl(one) ? "horovod-mpi" : "";
}

/// TensorFlow's variable_update where it is more than the architecture says; empty: it is none that shares variables.
std::string_view by_variable_update(const io::Case& one, std::string_view family, const Said& said) {
  if (one.total_gpus < 2 || family == "single") return {};
  if (has(said.extra, "distributed_replicated")) return "tf-distributed-replicated";
  if (says(one, "variable_update", "parameter_server")) return "tf-ps";
  if (says(one, "variable_update", "collective_all_reduce")) return "tf-multiworker-mirrored";
  return {};
}

/// What tf_cnn_benchmarks sums replicated gradients by, where it is not NCCL; empty: it is, or nobody says.
std::string other_sums_of(const io::Case& one) {
  const std::string spec = lower_case(one.said("all_reduce_spec").value_or(""));
  return has_any(spec, {"nccl", "collective"}) ? "" : spec;
}

/// Of tf_cnn_benchmarks. Sums on the CPU of one server are what its parameter servers there do.
std::string_view replicated_of(const io::Case& one) {
  return has(other_sums_of(one), "pscpu") && one.nodes == 1 ? "tf-ps" : kByTensor;
}

bool has_tables(const io::Case& one) {
  const std::string model = lower_case(one.model);
  return has_any(model, {"dlrm", "dcn", "deepfm", "wide", "recommend"});
}

struct Way {
  std::string strategy;
  bool assumed = false;  // nobody knows
};

/// Of frameworks whose name alone says it.
Way way_by_name(const io::Case& one, const Said& said) {
  const std::string& framework = said.framework;
  if (has(framework, "caffe2") && one.nodes > 1) return {"pytorch-ddp-gloo"};
  const auto* const nearest = std::find_if(kNearest.begin(), kNearest.end(),
                                           [&](const Nearest& way) { return has_all_words(framework, way.words); });
  if (nearest != kNearest.end()) return {std::string(nearest->strategy)};
  // The scripts of its model zoo for ResNets and BERT send some pieces as they are ready (all_reduce_fusion_config);
  // else all gradients are fused to one (mindspore/context.py, all_reduce_fusion_config).
  if (has(framework, "mindspore")) {
    const bool pieces = has_any(lower_case(one.model), {"resnet", "bert"});
    return {std::string(pieces ? kAssumed : kAfterBackward)};
  }
  const bool tables = has_tables(one);
  if (has(framework, "torchrec") && tables) return {"torchrec"};
  if (has(framework, "hugectr") && tables) return {"hugectr"};
  // PyTorch's others are MPI, which who has it names, and Gloo.
  const bool without = denies_nccl(one) && !has(said.backend, "mpi");
  if (without || (has(said.backend, "gloo") && !has(said.backend, "nccl"))) return {"pytorch-ddp-gloo"};
  // Hivemind's peers average over the internet, which no setting has.
  return {std::string(kAssumed), has(framework, "hivemind") || !runs_pytorch(one, framework_of(one))};
}

Way way_of_sharing(const io::Case& one, std::string_view family) {
  if (const auto stated = one.said("strategy"); stated && find_framework(*stated) != nullptr) {
    return {std::string(find_framework(*stated)->name)};
  }
  const Said said = said_of(one);
  const auto& [framework, extra, backend] = said;
  if (has_word(framework, "dataparallel")) return {"data-parallel"};  // torch.nn.DataParallel, nobody else's
  const bool scheduled = has(framework, "bytescheduler");
  if (family.starts_with("ps")) {
    if (has_any(framework, {"byteps"})) return {has(extra, "tcp") ? "byteps-tcp" : "byteps"};
    if (scheduled || has(framework, "mxnet")) return {"mxnet-kvstore"};  // pieces by priority
    return {has(extra, "distributed_replicated") ? "tf-distributed-replicated" : "tf-ps"};
  }
  if (scheduled) return {"bytescheduler"};
  // What MLPerf calls embedding model parallel is NVIDIA's HugeCTR, whatever container it names.
  if (has(lower_case(one.architecture), "embedding model parallel")) {
    return {has(framework, "torchrec") ? "torchrec" : "hugectr"};
  }
  if (has(framework + extra, "horovod")) {
    if (const std::string_view mpi = horovod_by_mpi(one, said); !mpi.empty()) return {std::string(mpi)};
    return {runs_xla(one) ? "horovod-xla" : horovod_of(one)};
  }
  if (const std::string_view way = by_variable_update(one, family, said); !way.empty()) return {std::string(way)};
  const bool replicated = has(extra, "replicated") || family == "replicated";  // of tf_cnn_benchmarks
  if (replicated) return {std::string(replicated_of(one))};
  const bool nvidia =
      has(framework, "ngc") || has(lower_case(one.source), "deeplearningexamples") || is_submission(one);
  const bool half = precision_of(one.precision) != "fp32" && precision_of(one.precision) != "tf32";
  const bool bert = has(lower_case(one.model), "bert") && phase_of(one) != TrainingPhase::kFineTuning;
  if (nvidia && has(framework, "pytorch") && bert) {
    // DLPerf's single_node_train.sh leaves allreduce_post_accumulation off: apex with buckets of 250,000,000 elements,
    // of which BERT-Base fills none before its last gradient.
    return {has(one.source, "DLPerf") && !half ? "apex-ddp-delayed" : "ngc-bert"};
  }
  if (has(framework, "apex")) return {"apex-ddp"};
  if (has_any(framework, {"multiworkermirrored", "multi_worker_mirrored", "tf.distribute", "mirroredstrategy"})) {
    return {"tf-multiworker-mirrored"};
  }
  if (has(framework, "baidu")) return {"baidu"};
  if (has(framework, "gloo")) return {"pytorch-ddp-gloo"};
  if (has(framework, "deepspeed")) return {"deepspeed"};
  if (has_any(framework, {"paddle", "fleet"})) return {"paddle-fleet"};
  if (has(framework, "oneflow")) return {"oneflow"};
  // MXNet's multi-GPU recipes of NVIDIA share by Horovod.
  if (has(framework, "mxnet") && !has(framework, "pytorch")) return {horovod_of(one)};
  if (has(framework, "byteps")) return {"byteps"};
  return way_by_name(one, said);
}

/// A word of how gradients are made smaller, and what it asks for.
struct Smaller {
  std::string gradients;    // their format
  std::string compression;  // in the setting's words
};

/// Nothing where the word is not known. "allreduce" is PyTorch's hook that changes nothing.
std::optional<Smaller> smaller_by(std::string_view word) {
  Smaller smaller;
  const bool none = word.empty() || std::any_of(kDenials.begin(), kDenials.end(),
                                                [&](std::string_view no) { return word.starts_with(no); });
  if (none || word == "no" || word == "0" || word == "off" || word == "allreduce" || word == "allreduce_hook" ||
      word == "noop") {
    return smaller;
  }
  if (has_any(word, {"bf16", "bfloat16"})) {
    smaller.gradients = "bf16";
  } else if (has_any(word, {"fp16", "float16", "half"})) {
    smaller.gradients = "fp16";
  }
  if (has_any(word, {"powersgd", "power_sgd", "power-sgd"})) {
    smaller.compression = "powersgd";
  } else if (has_any(word, {"topk", "top-k", "top_k"})) {
    smaller.compression = "top-k";
  } else if (has_any(word, {"sign", "1bit", "1-bit", "onebit"})) {
    smaller.compression = "sign";
  }
  if (smaller.gradients.empty() && smaller.compression.empty()) return std::nullopt;
  return smaller;
}

constexpr auto kSmallerKeys = std::to_array<std::string_view>({"compression", "gradient_compression", "comm_hook"});

bool has_buckets(const io::Case& one) {
  const std::string family = architecture_family(one);
  const std::string strategy = strategy_of(one, family);
  const bool whole = !has_any(family, {"fsdp", "hsdp", "zero"});
  return whole && (strategy == "pytorch-ddp" || strategy == "pytorch-ddp-gloo");
}

/// MiB of a bucket, where PyTorch has some.
std::optional<double> bucket_of(const io::Case& one) {
  constexpr double kMost = 1e6;
  const auto said = parse_number(one.said("bucket_cap_mb").value_or(""));
  return said && *said > 0 && *said < kMost && has_buckets(one) ? std::optional(*said) : std::nullopt;
}

/// Steps between two averages.
std::optional<std::int64_t> steps_between_averages(const io::Case& one) {
  const auto steps = count_of(one, "local_sgd");
  return steps && *steps > 1 && *steps <= 1'000'000 ? steps : std::nullopt;
}

}  // namespace

std::string strategy_of(const io::Case& one, std::string_view family) { return way_of_sharing(one, family).strategy; }

bool assumes_strategy(const io::Case& one) {
  return one.total_gpus > 1 && way_of_sharing(one, architecture_family(one)).assumed;
}

std::vector<Override> exchange_settings_of(const io::Case& one) {
  std::vector<Override> settings;
  const auto add = [&](const char* path, std::string value) {
    settings.push_back({path, std::move(value), one.where});
  };
  if (one.total_gpus < 2) return settings;
  const std::string backend = lower_case(one.said("backend").value_or(""));
  const std::string strategy = strategy_of(one, architecture_family(one));
  if (strategy == "pytorch-ddp" && has_word(backend, "mpi") && !has(backend, "nccl")) add("collective.library", "mpi");
  if (strategy.starts_with("horovod") && has(backend, "gloo") && !has(backend, "nccl")) {
    add("collective.library", "gloo");
  }
  // tensorflow/benchmarks, variable_mgr.py: GreedyLoadBalancingStrategy by bytes.
  const bool balances = strategy == "tf-ps" && one.nodes > 1 && has(framework_of(one), "tf_cnn_benchmarks");
  if (balances) add("strategy.placement", "greedy");
  for (const std::string_view key : kSmallerKeys) {
    const auto smaller = smaller_by(lower_case(one.said(key).value_or("")));
    if (!smaller) continue;
    if (!smaller->gradients.empty()) add("strategy.gradients", smaller->gradients);
    if (smaller->compression.empty()) continue;
    add("strategy.compression", smaller->compression);
    if (smaller->compression != "powersgd") continue;
    if (const auto rank = count_of(one, "powersgd_rank"); rank && *rank > 0) {
      add("strategy.rank", std::to_string(*rank));
    } else if (key == "comm_hook") {
      add("strategy.rank", "1");  // torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py
    }
  }
  if (affirms(one, "fp16_allreduce")) add("strategy.gradients", "fp16");
  if (const auto bucket = bucket_of(one)) add("strategy.bucket", fmt::format("{} MiB", *bucket));
  if (const auto steps = steps_between_averages(one)) add("strategy.sync_every", std::to_string(*steps));
  return settings;
}

std::vector<std::string> unread_exchange_words(const io::Case& one) {
  std::vector<std::string> unread;
  if (one.total_gpus < 2) return unread;
  const auto add = [&](std::string_view key, std::string_view taken) {
    unread.push_back(fmt::format("extra: {} '{}' {}", key, one.said(key).value_or("").substr(0, 60), taken));
  };
  for (const std::string_view key : kSmallerKeys) {
    if (!smaller_by(lower_case(one.said(key).value_or("")))) {
      add(key, "is not known: gradients are taken as they are (known: fp16, bf16, powersgd, top-k, sign)");
    }
  }
  if (one.said("fp16_allreduce") && !affirms(one, "fp16_allreduce") && !denies(one, "fp16_allreduce")) {
    add("fp16_allreduce", "is neither yes nor no");
  }
  if (one.said("bucket_cap_mb") && !bucket_of(one)) {
    add("bucket_cap_mb", "counts for nothing (a number of MiB, of PyTorch's DistributedDataParallel)");
  }
  const bool averages = one.said("local_sgd") && !denies(one, "local_sgd") && one.said("local_sgd") != "1";
  if (averages && !steps_between_averages(one)) {
    add("local_sgd", "does not say after how many steps weights are averaged");
  }
  const std::string family = architecture_family(one);
  const Framework* const way = find_framework(strategy_of(one, family));
  if (way != nullptr && has(way->settings, "collective.library=nccl")) {
    const std::string_view taken = "is not known: NCCL is taken to sum";
    if (!other_sums_of(one).empty()) add("all_reduce_spec", taken);
    for (const std::string_view key : {"nccl", "use_nccl"}) {
      if (denies(one, key)) add(key, taken);
    }
  }
  if (says(one, "variable_update", "independent") || says(one, "variable_update", "distributed_all_reduce")) {
    add("variable_update", fmt::format("is not known, and taken as {}", strategy_of(one, family)));
  }
  return unread;
}

}  // namespace ddlsim::whatif
