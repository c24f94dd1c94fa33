#include "cases/case_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "cases/case_degrees.h"
#include "cases/case_text.h"
#include "cases/framework_name.h"

namespace ddlsim::whatif {
namespace {

/// Who makes batches.
struct Pipeline {
  std::string_view loader = "workers";
  bool decodes_on_gpu = false;
  int workers = 0;  // of each GPU; 0: nobody says
};

/// What the scripts of a folder of Oneflow-Inc/DLPerf start, without and with DALI. The first row counts whose words
/// stand in the path, the framework and the precision.
struct Scripts {
  std::string_view words;
  Pipeline plain;
  Pipeline dali;
};

constexpr Pipeline kDaliGpu{"dali", true, 3};
constexpr Pipeline kDaliCpu{"dali", false, 8};
constexpr auto kScripts = std::to_array<Scripts>({
    // RN50v1.5/runner.sh leaves DALI's 3 threads a GPU and its decoder on the GPU as they are.
    {"mxnet", kDaliGpu, kDaliGpu},
    // resnet50v1.5/scripts: -j8, dali-cpu.
    {"nvidiadeeplearningexamples pytorch", kDaliCpu, kDaliCpu},
    // ConvNets/runtime/runner.py: 4 threads; DALI unless a row says real data without it, then 10 calls of map.
    {"tensorflow", {"tf.data", false, 10}, {"dali", true, 4}},
    // scripts: reader_thread=8, OpenCV in Python; dali.py: decoder "mixed", 4 threads.
    {"paddlepaddle", {"workers", false, 8}, {"dali", true, 4}},
    // README.md: -j 8 or -j 48 of a server, which a row says; dali_cpu=True.
    {"pytorch", {"workers", false, 0}, {"dali", false, 0}},
    // rn50_train.sh: gpu_image_decoder in half precision; what fp32's runs decoded with is not said.
    {"oneflow amp", kDaliGpu, kDaliGpu},
});

/// Nothing where a row of DLPerf read no images, or nobody says how.
std::optional<Pipeline> dlperf_pipeline(const io::Case& one, bool real, bool dali) {
  const std::string path = one.source.substr(one.source.find(':') + 1);
  const std::string text = lower_case(path.substr(path.find(':') + 1) + " " + one.framework + " " + one.precision);
  const auto* found = std::find_if(kScripts.begin(), kScripts.end(),
                                   [&](const Scripts& scripts) { return has_all_words(text, scripts.words); });
  if (found == kScripts.end()) return std::nullopt;
  const bool by_default = has(found->words, "tensorflow") && !real;
  return dali || by_default ? found->dali : found->plain;
}

}  // namespace

std::vector<Override> input_of(const io::Case& one, const hardware::Node& server) {
  const std::string data = lower_case(one.said("data").value_or(""));
  const bool dali = lower_case(one.said("dali").value_or("")) == "true";
  const bool real = has_any(data, {"real", "imagenet"});
  const std::string framework = framework_of(one);
  const bool dlperf = has(one.source, "Oneflow-Inc/DLPerf") && one.metric == io::CaseMetric::kImagesPerSecond;
  if (dlperf ? has(data, "synthetic") : (!server.host.cpu || !(dali || real))) return {};

  Pipeline pipeline{dali ? "dali" : has(framework, "tensorflow") ? "tf.data" : "workers", dali, 0};
  if (dlperf) {
    const auto said = dlperf_pipeline(one, real, dali);
    if (!said) return {};
    pipeline = *said;
  }
  if (const auto all = count_of(one, "workers_per_server"); all && *all > 0) {
    const std::int64_t processes = std::max<std::int64_t>(one.total_gpus / std::max<std::int64_t>(one.nodes, 1), 1);
    pipeline.workers = static_cast<int>(std::min<std::int64_t>((*all + processes - 1) / processes, 1000));
  }

  std::vector<Override> settings;
  const auto add = [&](std::string_view path, std::string value) {
    settings.push_back({std::string(path), std::move(value), one.where});
  };
  const bool records = has_any(framework, {"tensorflow", "mxnet", "tensorpack", "oneflow"});
  add("input.dataset", records ? "imagenet-records" : "imagenet");
  add("input.loader", std::string(pipeline.loader));
  if (pipeline.decodes_on_gpu) add("input.decode", "gpu");
  if (pipeline.workers > 0) add("input.workers", std::to_string(pipeline.workers));
  if (dlperf) {
    add("input.cpu", "xeon-gold-5118");
    add("input.threads", "48");
  }
  // Nobody says what disk: the files are taken to stand in memory, as DLPerf's 384 GB hold them.
  if (!server.host.storage || dlperf) add("input.cache", "all");
  return settings;
}

}  // namespace ddlsim::whatif
