// What a value is and where it came from decide a prediction; how it was written does not: flags in any order, a
// scenario file and fields set in C++ give the same answer, notes and provenance included.
#include <fmt/core.h>
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/report/views.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/saved_job.h"

using namespace ddlsim;
using namespace ddlsim::whatif;
using ddlsim::test::catalog;

namespace {

/// A setting as text, and the same in C++.
struct Way {
  std::string path;
  std::string text;
  void (*set)(Scenario&);
};

/// By path: one of these is chosen.
const std::vector<std::vector<Way>>& ways() {
  static const std::vector<std::vector<Way>> all{
      {{"nodes", "4", [](Scenario& s) { s.cluster.nodes = 4; }},
       {"nodes", "2", [](Scenario& s) { s.cluster.nodes = 2; }}},
      {{"gpus_per_node", "2", [](Scenario& s) { s.cluster.gpus_per_node = 2; }},
       {"gpus_per_node", "1", [](Scenario& s) { s.cluster.gpus_per_node = 1; }}},
      {{"batch", "7", [](Scenario& s) { s.batch = 7; }}},
      {{"strategy", "ps", [](Scenario& s) { s.strategy.kind = plan::StrategyKind::kPs; }},
       {"strategy", "allreduce", [](Scenario& s) { s.strategy.kind = plan::StrategyKind::kAllReduce; }}},
      {{"efficiency.network", "30 %", [](Scenario& s) { s.efficiency.network = 0.3; }},
       {"efficiency.network", "70 %", [](Scenario& s) { s.efficiency.network = 0.7; }}},
      {{"efficiency.nvlink", "60 %", [](Scenario& s) { s.efficiency.nvlink = 0.6; }}},
      {{"efficiency.pcie", "70 %", [](Scenario& s) { s.efficiency.pcie = 0.7; }}},
      {{"efficiency.compute", "45 %", [](Scenario& s) { s.efficiency.compute = 0.45; }},
       {"efficiency.memory", "70 %", [](Scenario& s) { s.efficiency.memory = 0.7; }}},
      {{"gpu.memory_bandwidth", "1 TB/s",
        [](Scenario& s) { s.cluster.node.gpu.memory_bandwidth = terabytes_per_second(1); }},
       {"gpu.peak.fp32", "20 TFLOP/s", [](Scenario& s) { s.cluster.node.gpu.peak.fp32 = teraflops_per_second(20); }}},
      {{"gpu.calibration", "none",
        [](Scenario& s) { s.cluster.node.gpu.profiles = std::vector<hardware::MeasuredProfile>{}; }},
       {"gpu.calibration", "t4",
        [](Scenario& s) {
          s.cluster.node.gpu.profiles =
              std::vector<hardware::MeasuredProfile>{catalog().measured_profile("t4").value()};
        }}},
      {{"network.transport", "roce",
        [](Scenario& s) { s.cluster.node.network.transport = hardware::NetworkTransport::kRoce; }},
       {"network.transport", "tcp",
        [](Scenario& s) { s.cluster.node.network.transport = hardware::NetworkTransport::kTcp; }}},
      {{"network.latency", "20 us", [](Scenario& s) { s.cluster.node.network.latency = microseconds(20); }}},
      {{"pcie.latency", "9 us", [](Scenario& s) { s.cluster.node.pcie.latency = microseconds(9); }}},
      {{"ps.memory_bandwidth", "60 GB/s", [](Scenario& s) { s.server_memory = gigabytes_per_second(60); }},
       {"ps.memory_bandwidth", "90 GB/s", [](Scenario& s) { s.server_memory = gigabytes_per_second(90); }}},
      {{"ps.transport", "grpc", [](Scenario& s) { s.ps_transport = plan::PsTransport::kGrpc; }}},
      {{"strategy.bucket", "25 MiB", [](Scenario& s) { s.strategy.bucket = mebibytes(25); }},
       {"strategy.bucket", "5 MiB", [](Scenario& s) { s.strategy.bucket = mebibytes(5); }}},
      {{"strategy.grouping", "fusion", [](Scenario& s) { s.strategy.grouping = plan::Grouping::kFusion; }},
       {"strategy.grouping", "per-tensor", [](Scenario& s) { s.strategy.grouping = plan::Grouping::kPerTensor; }}},
      {{"strategy.cycle", "2 ms", [](Scenario& s) { s.strategy.cycle = milliseconds(2); }}},
      {{"strategy.priority", "no", [](Scenario& s) { s.strategy.priority = false; }},
       {"strategy.priority", "yes", [](Scenario& s) { s.strategy.priority = true; }}},
      {{"strategy.compression", "top-k", [](Scenario& s) { s.strategy.compression = plan::Compression::kTopK; }}},
      {{"strategy.density", "2 %", [](Scenario& s) { s.strategy.density = 0.02; }}},
      {{"strategy.accumulation", "2", [](Scenario& s) { s.strategy.accumulation = 2; }}},
      {{"strategy.servers_update", "no", [](Scenario& s) { s.strategy.servers_update = false; }}},
      {{"strategy.servers", "2", [](Scenario& s) { s.strategy.servers = 2; }}},
      {{"strategy.consistency", "async", [](Scenario& s) { s.strategy.consistency = plan::Consistency::kAsync; }}},
      {{"collective.library", "nccl", [](Scenario& s) { s.collective.kind = plan::CollectiveLibraryKind::kNccl; }},
       {"collective.library", "mpi", [](Scenario& s) { s.collective.kind = plan::CollectiveLibraryKind::kMpi; }}},
      {{"collective.algorithm", "ring",
        [](Scenario& s) { s.collective.algorithm = plan::CollectiveAlgorithm::kRing; }}},
      {{"input.dataset", "imagenet", [](Scenario& s) { s.input.dataset = catalog().dataset("imagenet").value(); }}},
      {{"input.workers", "4", [](Scenario& s) { s.input.workers = std::optional<std::int64_t>(4); }}},
      {{"input.prefetch", "2", [](Scenario& s) { s.input.prefetch = 2; }}},
      {{"input.loader", "dali", [](Scenario& s) { s.input.loader = plan::Loader::kPipelined; }}},
      {{"input.cache", "pinned", [](Scenario& s) { s.input.cache = plan::CachePolicy::kPinned; }}},
      {{"input.epoch", "first", [](Scenario& s) { s.input.epoch = plan::Epoch::kFirst; }}},
      {{"input.pinned", "no", [](Scenario& s) { s.input.pinned = false; }}},
      {{"jitter", "1 %", [](Scenario& s) { s.jitter = 0.01; }},
       {"jitter", "3 %", [](Scenario& s) { s.jitter = 0.03; }}},
      {{"launch_interval", "6 us", [](Scenario& s) { s.launch_interval = microseconds(6); }}},
      {{"cuda_graphs", "yes", [](Scenario& s) { s.cuda_graphs = true; }}},
      {{"fusion", "all",
        [](Scenario& s) {
          s.fusion = {true, true};
        }}},
      {{"gpu.time_factor", "1.2", [](Scenario& s) { s.gpu_time_factor = 1.2; }}},
      {{"software", "none", [](Scenario& s) { s.software = nullptr; }}},
      {{"software.year", "2018",
        [](Scenario& s) {
          s.software_year = std::optional<double>(2018);
          // Attention was several kernels then, where nobody stated more.
          s.fusion.attention = s.fusion.attention && s.fusion.pointwise;
        }}},
      {{"software.fused", "yes", [](Scenario& s) { s.software_fused = std::optional<bool>(true); }}},
      {{"overlap", "none", [](Scenario& s) { s.overlap = plan::Overlap::kNone; }}},
      {{"network.oversubscription", "2", [](Scenario& s) { s.cluster.oversubscription = 2; }}},
      {{"fidelity", "aggregate", [](Scenario& s) { s.fidelity = answer::Fidelity::kAggregate; }}},
      {{"jobs", "1", [](Scenario& s) { s.jobs = 1; }}},
      {{"strategy.sync_every", "4", [](Scenario& s) { s.strategy.sync_every = 4; }}},
      {{"price", "12 $/h",
        [](Scenario& s) {
          s.cluster.node.price = dollars_per_hour(12);
          s.price_stated = true;
        }}},
      {{"training.samples", "1281167", [](Scenario& s) { s.training.samples = 1'281'167; }}},
      {{"training.startup", "5 min", [](Scenario& s) { s.training.startup = seconds(300); }}},
      {{"energy.carbon", "400 g/kWh", [](Scenario& s) { s.training.carbon = grams_per_kilowatt_hour(400); }}},
      {{"failures.mtbf_gpu", "80000 h", [](Scenario& s) { s.failures.gpu = hours(80'000); }},
       {"failures", "opt-175b", [](Scenario& s) { s.failures.published = catalog().failures("opt-175b").value(); }}},
      {{"failures.spares", "1", [](Scenario& s) { s.failures.spares = 1; }}},
      {{"checkpoint.bandwidth", "2 GB/s", [](Scenario& s) { s.checkpoints.bandwidth = gigabytes_per_second(2); }},
       {"checkpoint.mode", "async", [](Scenario& s) { s.checkpoints.mode = cost::CheckpointMode::kAsync; }}},
      {{"parallel.tensor", "2", [](Scenario& s) { s.parallel.tensor = 2; }}},
      {{"parallel.pipeline", "2", [](Scenario& s) { s.parallel.pipeline = 2; }}},
      {{"parallel.schedule", "gpipe", [](Scenario& s) { s.parallel.schedule = plan::PipelineSchedule::kGpipe; }}},
      {{"parallel.zero", "1", [](Scenario& s) { s.parallel.zero = 1; }},
       {"parallel.zero", "3", [](Scenario& s) { s.parallel.zero = 3; }}},
      {{"parallel.prefetch", "2", [](Scenario& s) { s.parallel.prefetch = 2; }}},
      {{"parallel.offload_optimizer", "yes", [](Scenario& s) { s.parallel.offload_optimizer = true; }}},
  };
  return all;
}

/// Everything that is said of a scenario, or why nothing is.
std::string said(const Expected<Scenario>& scenario) {
  if (!scenario) return to_string(scenario.error());
  const auto prediction = predict(*scenario);
  return prediction ? report::render(*prediction, "", report::Format::kJson) : to_string(prediction.error());
}

std::string as_file(const std::vector<Way>& chosen, const Override& model, const Override& node) {
  const auto path = std::filesystem::temp_directory_path() / "ddlsim_provenance_law.yaml";
  std::ofstream file(path);
  file << model.path << ": " << model.value << "\n" << node.path << ": " << node.value << "\n";
  for (const Way& way : chosen) file << way.path << ": " << way.text << "\n";
  file.close();
  const auto overrides = load_scenario(path);
  if (!overrides) return to_string(overrides.error());
  return said(resolve(catalog(), *overrides));
}

/// What the job says once it was saved and read back; nothing to save has its reason.
std::string saved_and_read(const std::vector<Override>& flags) {
  const auto scenario = resolve(catalog(), flags);
  if (!scenario) return to_string(scenario.error());
  const auto text = saved_job(*scenario, flags, "head");
  if (!text) return to_string(text.error());
  const auto path = std::filesystem::temp_directory_path() / "ddlsim_saved_job_law.yaml";
  std::ofstream(path) << *text;
  const auto overrides = load_scenario(path);
  if (!overrides) return to_string(overrides.error());
  return said(resolve(catalog(), *overrides));
}

}  // namespace

TEST_CASE("law: the same values give the same answer however they were given", "[property]") {
  CHECK(rc::check("flags, files, fields", [] {
    const Override model{
        "model", *rc::gen::element<std::string>("resnet50", "bert_base", "gnmt", "ncf", "vgg16", "pai_bert"), {}};
    const Override node{
        "node",
        *rc::gen::element<std::string>("dgx1-v100", "dgx-a100", "g4dn.12xlarge", "pcie-4x2080ti", "piz-daint-xc50"),
        {}};
    std::vector<Way> chosen;
    const int count = *rc::gen::inRange(0, 7);
    for (int i = 0; i < count; ++i) {
      const Way way = *rc::gen::elementOf(*rc::gen::elementOf(ways()));
      const bool again = std::any_of(chosen.begin(), chosen.end(), [&](const Way& w) { return w.path == way.path; });
      const bool widest = way.path == "gpus_per_node" && node.value == "piz-daint-xc50";
      if (!again && !widest) chosen.push_back(way);
    }
    for (const Way& way : chosen) RC_LOG(way.path + " = " + way.text);
    RC_LOG(model.value + " on " + node.value);
    std::vector<Override> flags{model, node};
    for (const Way& way : chosen) flags.push_back({way.path, way.text, {}});
    const std::string by_flags = said(resolve(catalog(), flags));
    std::reverse(flags.begin(), flags.end());
    RC_ASSERT(said(resolve(catalog(), flags)) == by_flags);
    RC_ASSERT(as_file(chosen, model, node) == by_flags);
    RC_ASSERT(saved_and_read(flags) == by_flags);
    auto fields = resolve(catalog(), std::vector<Override>{model, node});
    for (const Way& way : chosen) way.set(*fields);
    RC_ASSERT(said(fields) == by_flags);
  }));
}
