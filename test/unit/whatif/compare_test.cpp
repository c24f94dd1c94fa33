// Alternatives beside a baseline, and what of them cannot be.
#include "ddlsim/whatif/compare.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/collective.h"
#include "ddlsim/whatif/predict.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using ddlsim::test::joined;
using ddlsim::test::overrides;
using whatif::Change;
using whatif::Override;

namespace {

std::vector<Override> job(std::vector<Override> more = {}) {
  return joined(overrides("model gpt2_medium; node dgx-a100; nodes 1"), more);
}

Change set(const std::string& path, const std::string& value) { return {{}, {{path, value, {}}}}; }

bool notes(const std::vector<Override>& settings, const std::string& text) {
  const auto prediction = whatif::predict(whatif::resolve(catalog(), settings).value()).value();
  for (const std::string& note : prediction.notes) {
    if (note.find(text) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("compare: what cannot be of this job is skipped, with the reason", "[unit][whatif]") {
  const std::vector<Change> changes{set("parallel.tensor", "2"), set("parallel.tensor", "3"), set("precision", "bf16")};
  const auto compared = whatif::compare(catalog(), job(), changes);
  REQUIRE(compared);
  REQUIRE(compared->alternatives.size() == 2);
  CHECK(compared->alternatives[1].name == "precision = bf16");
  REQUIRE(compared->skipped.size() == 1);
  CHECK(compared->skipped.front() ==
        "parallel.tensor = 3: layer 'attention_7': tensor degree 3 does not divide 16 heads");
  // Alone it is the answer.
  const auto alone = whatif::compare(catalog(), job(), std::vector<Change>{changes[1]});
  REQUIRE_FALSE(alone);
  CHECK(alone.error().notes.back() == "in the alternative 'parallel.tensor = 3'");
}

TEST_CASE("compare: what is not understood is an error beside others too", "[unit][whatif]") {
  for (const Change& wrong : {set("strategy", "foo"), set("parallel.tensr", "2"), set("model", "resnet50")}) {
    const auto compared = whatif::compare(catalog(), job(), std::vector<Change>{set("precision", "bf16"), wrong});
    CHECK_FALSE(compared);
  }
}

TEST_CASE("compare: what drives the network stays under another GPU, and is tried itself", "[unit][whatif]") {
  const std::vector<Override> old =
      overrides("model bert_large; node p3.16xlarge; nodes 4; precision fp16; network 100 Gb/s");
  const Change newer = set("gpu", "h100-sxm5-80gb");
  const Change stated{{}, overrides("gpu h100-sxm5-80gb; network.transport tcp")};
  const auto compared = whatif::compare(catalog(), old, std::vector<Change>{newer, stated}).value();
  // GPU time is a tenth of this step: no GPU makes it twice as fast.
  CHECK(compared.alternatives[0].speedup == Approx(compared.alternatives[1].speedup));
  CHECK(compared.alternatives[0].speedup < 1.2);
  // Asked alone, that GPU would come with RDMA: what says the same is named.
  CHECK(compared.alternatives[0].prediction.notes.back() ==
        "network: driven as the baseline's is; alone this is --set network.transport=tcp");
  const auto helping = whatif::what_would_help(catalog(), old).value();
  CHECK(std::any_of(helping.alternatives.begin(), helping.alternatives.end(),
                    [](const auto& one) { return one.name == "network.transport = roce"; }));
}

TEST_CASE("compare: a rate alone leaves the network driven as the baseline says", "[unit][whatif]") {
  const std::vector<Override> bert = overrides("model bert_large; node dgx-a100; nodes 4");
  const std::vector<Change> rates{set("network", "200 Gb/s"),
                                  set("network", "3200 Gb/s"),
                                  {{}, overrides("network 3200 Gb/s; network.transport tcp")}};
  const auto compared = whatif::compare(catalog(), bert, rates).value();
  CHECK(compared.alternatives[0].speedup < compared.alternatives[1].speedup);
  CHECK(compared.alternatives[1].speedup > 0.999);
  CHECK(compared.alternatives[1].prediction.notes.back() ==
        "network: driven by infiniband as the baseline's is, unless --set network.transport says what");
  CHECK(compared.alternatives[2].speedup < compared.alternatives[1].speedup);
}

TEST_CASE("compare: a speedup's interval holds what the other transport would give both sides", "[unit][whatif]") {
  const auto gain = [](const std::string& transport) {
    std::vector<Override> settings = overrides("model resnet50; node dgx1-v100; nodes 4; network 25 Gb/s; strategy ps");
    Change faster = set("network", "100 Gb/s");
    if (!transport.empty()) {
      settings.push_back({"network.transport", transport, {}});
      faster.overrides.push_back({"network.transport", transport, {}});
    }
    return whatif::compare(catalog(), settings, std::vector<Change>{faster}).value().alternatives.front();
  };
  const auto unsaid = gain("");
  CHECK(unsaid.speedup == Approx(gain("tcp").speedup));
  CHECK(unsaid.speedup_interval_90.second >= gain("roce").speedup * (1 - 1e-9));
}

TEST_CASE("compare: what would help says that plan compares splits", "[unit][whatif]") {
  const auto compared = whatif::what_would_help(catalog(), job()).value();
  CHECK(std::any_of(compared.skipped.begin(), compared.skipped.end(),
                    [](const std::string& text) { return text.find("`ddlsim plan`") != std::string::npos; }));
}

TEST_CASE("compare: faster cards come with faster slots only where those gain something", "[unit][whatif]") {
  const auto tried = [](std::vector<Override> settings, const std::string& part) {
    settings = joined(overrides("model resnet50; node dgx1-v100; nodes 4"), settings);
    const auto compared = whatif::what_would_help(catalog(), settings).value();
    return std::any_of(compared.alternatives.begin(), compared.alternatives.end(), [&](const auto& one) {
      return one.name.starts_with("network = ") && one.name.find(part) != std::string::npos;
    });
  };
  // 100 Gb/s fill what a slot of 15.75 GB/s reaches, but copies of this job take less.
  const std::vector<Override> servers = overrides("strategy ps; network 50 Gb/s");
  CHECK(tried(servers, "network = 100 Gb/s"));
  CHECK_FALSE(tried(servers, "pcie"));
  // 200 Gb/s tied with the slots that feed it: neither alone helps much.
  const std::vector<Override> tied = overrides("model bert_large; network 200 Gb/s; network.transport roce; batch 2");
  CHECK(tried(tied, "pcie"));
  std::vector<Override> reaches = tied;
  reaches = joined(reaches, overrides("pcie 60 GB/s"));
  CHECK_FALSE(tried(reaches, "pcie"));
}

TEST_CASE("compare: what would help a job that waits for input is its storage, threads and decoder", "[unit][whatif]") {
  const std::vector<Override> reads =
      overrides("model resnet18; node p3.8xlarge; precision fp16; input.dataset imagenet");
  const auto tried = [&](std::vector<Override> more) {
    more = joined(reads, more);
    return whatif::what_would_help(catalog(), more).value();
  };
  const auto speedup = [](const answer::Comparison& compared, const std::string& name) {
    for (const auto& one : compared.alternatives) {
      if (one.name == name) return one.speedup;
    }
    return 0.0;
  };
  const auto skips = [](const answer::Comparison& compared, const std::string& reason) {
    return std::find(compared.skipped.begin(), compared.skipped.end(), reason) != compared.skipped.end();
  };
  const auto by_storage = tried(overrides("input.epoch first"));
  CHECK(by_storage.alternatives.front().name.starts_with("input.storage = "));
  CHECK(speedup(by_storage, "input.storage = nvme") > 1.4);
  CHECK(speedup(by_storage, "input.storage = ebs-st1") == 0);  // 500 MiB/s, and 500 requests a second
  const auto by_cores = tried(overrides("input.workers 2"));
  CHECK(speedup(by_cores, "input.workers = 4") == Approx(2).epsilon(0.05));
  CHECK(speedup(by_cores, "input.threads = 64") >= 1);
  CHECK(by_cores.alternatives.front().name == "input.decode = gpu");
  CHECK(skips(by_cores, "input.storage: the data set is in memory"));
  CHECK(skips(tried(overrides("model vgg16; precision fp32")), "input: the loader keeps up"));
  CHECK(skips(whatif::what_would_help(catalog(), job()).value(), "input: nobody says what the job reads (--dataset)"));
}

TEST_CASE("notes: settings of a split that it has no use for", "[unit][whatif]") {
  const std::string text = "stated, but without effect here: ";
  CHECK(notes(job(overrides("parallel.schedule zb-h1; parallel.prefetch 2")),
              text + "parallel.schedule, parallel.prefetch"));
  CHECK_FALSE(notes(job(overrides("parallel.prefetch 2; parallel.zero 3")), text));
  CHECK(notes(job(overrides("parallel.expert_imbalance 1.5")), text + "parallel.expert_imbalance"));
  CHECK(notes(job(overrides("parallel.expert_dispatch once")), text + "parallel.expert_dispatch"));
  const std::vector<Override> mixture = overrides("model mixtral_8x7b; node dgx-h100");
  auto cut = mixture;
  cut.push_back({"parallel.layers_per_stage", "16-16", {}});
  CHECK(notes(cut, text + "parallel.layers_per_stage"));
  cut.push_back({"parallel.pipeline", "2", {}});
  CHECK_FALSE(notes(cut, text));
  CHECK(notes(job(overrides("collective.pointer_cache yes")), text + "collective.pointer_cache"));
  CHECK_FALSE(notes(job(overrides("collective.pointer_cache yes; collective.library mpi")), text));
}

TEST_CASE("notes: a GPU whose power does not hold its peak says what it sustains", "[unit][whatif]") {
  const std::vector<Override> l4 = overrides("model bert_base; node g6.xlarge");
  CHECK(notes(l4, "of compute 36 %, which large products sustain on it"));
}

TEST_CASE("notes: many servers are without congestion, of collectives too", "[unit][whatif]") {
  const auto said = [](const char* nodes) {
    const std::vector<Override> settings = overrides("node dgx-a100; nodes {}", nodes);
    const auto scenario = whatif::resolve_cluster(catalog(), settings).value();
    const auto report = whatif::sweep_collective(scenario, {}).value();
    return std::any_of(report.notes.begin(), report.notes.end(),
                       [](const std::string& note) { return note.find("without congestion") != std::string::npos; });
  };
  CHECK(said("64"));
  CHECK_FALSE(said("32"));
}

TEST_CASE("predict: a V100 gets no slower with its batch", "[unit][whatif]") {
  const auto rate = [](const char* batch) {
    const std::vector<Override> settings =
        overrides("model resnet50; node p3.2xlarge; precision fp16; batch {}", batch);
    return whatif::predict(whatif::resolve(catalog(), settings).value()).value().throughput_samples_per_second;
  };
  CHECK(rate("256") > 0.995 * rate("64"));
}

TEST_CASE("predict: Ada's GPUs are ahead of Ampere's", "[unit][whatif]") {
  const auto step = [](const char* node, const char* model, const char* precision) {
    const std::vector<Override> settings =
        overrides("model {}; node {}; gpus_per_node 1; precision {}", model, node, precision);
    return whatif::predict(whatif::resolve(catalog(), settings).value()).value().step_time;
  };
  for (const char* model : {"resnet50", "bert_base"}) {
    for (const char* precision : {"fp32", "tf32", "fp16"}) {
      CAPTURE(model, precision);
      CHECK(step("pcie-8x4090", model, precision) < 0.9 * step("pcie-8x3090", model, precision));
    }
  }
}
