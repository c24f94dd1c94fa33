// What a change does to ResNet-50 on DGX-1s, by name: told apart, ranked, or not compared.
#include <algorithm>
#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/report/views.h"
#include "ddlsim/whatif/compare.h"
#include "dgx1_job.h"
#include "overrides.h"

using namespace ddlsim;
using Catch::Matchers::Contains;
using ddlsim::test::catalog;
using ddlsim::test::dgx1_job;
using namespace ddlsim::whatif;
using ddlsim::test::overrides;

TEST_CASE("what-if: the changes are told apart from the baseline", "[unit][whatif]") {
  const std::vector<Change> changes{{"", overrides("network 100 Gb/s")}, {"ring", overrides("strategy allreduce")}};
  const auto base = dgx1_job(overrides("nodes 4; strategy ps"));
  const auto comparison = compare(catalog(), base, changes).value();
  REQUIRE(comparison.alternatives.size() == 2);
  CHECK(comparison.alternatives[0].name == "network = 100 Gb/s");
  CHECK(comparison.alternatives[1].name == "ring");
  CHECK(comparison.alternatives[1].changes.front().first == "strategy");
  CHECK(comparison.alternatives[0].speedup ==
        Approx(comparison.baseline.step_time / comparison.alternatives[0].prediction.step_time));
  CHECK(comparison.alternatives[0].prediction.bottleneck != "network");
}

TEST_CASE("what-if: more nodes are compared by throughput", "[unit][whatif]") {
  const std::vector<Change> changes{{"", overrides("nodes 2")}};
  const auto comparison = compare(catalog(), dgx1_job(), changes).value();
  CHECK(comparison.alternatives[0].speedup > 1.5);
  CHECK(comparison.alternatives[0].prediction.step_time >= comparison.baseline.step_time);
}

TEST_CASE("what-if: more GPUs with the same batch are compared by their step", "[unit][whatif]") {
  std::vector<Override> base = dgx1_job();
  base.push_back({"global_batch", "512", {}});
  const auto first_line = [&](const std::vector<Override>& change) {
    const auto comparison = compare(catalog(), base, std::vector<Change>{{"other", change}}).value();
    const std::string text = report::render(comparison, report::Format::kText);
    return text.substr(0, text.find('\n'));
  };
  const std::string slower = first_line(overrides("nodes 2; network 1 Gb/s"));
  CHECK_THAT(slower, Contains("x slower: step "));
  CHECK_THAT(slower, !Contains("throughput") && !Contains("512 -> 512"));
  CHECK_THAT(first_line(overrides("nodes 2; global_batch 1024")), Contains("x the throughput: "));
}

TEST_CASE("what-if: without a change, every upgradable part is tried and ranked", "[unit][whatif]") {
  const auto comparison = what_would_help(catalog(), dgx1_job(overrides("nodes 4; strategy ps"))).value();
  std::vector<std::string> tried;
  double last = 1e300;
  for (const auto& alternative : comparison.alternatives) {
    tried.push_back(alternative.changes.front().first);
    CHECK(alternative.speedup <= last);
    last = alternative.speedup;
  }
  for (const char* part : {"network", "gpu", "nvlink", "pcie", "strategy", "gpu.memory_bandwidth", "gpu.peak.fp32"}) {
    INFO(part);
    CHECK(std::count(tried.begin(), tried.end(), part) >= 1);
  }
  const auto alone = what_would_help(catalog(), dgx1_job(overrides("gpus_per_node 1"))).value();
  CHECK(alone.skipped.size() >= 3);  // network, nvlink, strategy: not used
}

TEST_CASE("what-if: another GPU leaves the server's PCIe and takes its price away", "[unit][whatif]") {
  const std::vector<Override> rented = overrides("model resnet50; node p3.16xlarge");
  const Scenario old = resolve(catalog(), rented).value();
  std::vector<Override> swapped = rented;
  swapped.push_back({"gpu", "h100-sxm5-80gb", {}});
  const Scenario now = resolve(catalog(), swapped).value();
  CHECK(old.cluster.node.price);
  CHECK_FALSE(now.cluster.node.price);
  CHECK(now.cluster.node.pcie.bandwidth == old.cluster.node.pcie.bandwidth);
  CHECK(now.cluster.node.host_link.bandwidth == old.cluster.node.host_link.bandwidth);
}

TEST_CASE("what-if: what does not fit is never what helps most", "[unit][whatif]") {
  const auto comparison =
      what_would_help(catalog(), overrides("model dlrm; node dgx1-v100; nodes 4; network 1 Gb/s; strategy ps")).value();
  CHECK(comparison.alternatives.front().prediction.fits == true);
  CHECK(comparison.alternatives.back().prediction.fits == false);  // every GPU holding all tables
}

TEST_CASE("what-if: images are not compared with sequences", "[unit][whatif]") {
  const std::vector<Change> changes{{"", overrides("model bert_base")}};
  const auto comparison = compare(catalog(), dgx1_job(), changes);
  REQUIRE_FALSE(comparison);
  CHECK(comparison.error().message.find("cannot be compared") != std::string::npos);
}

TEST_CASE("what-if: twice the PCIe is twice of both its links", "[unit][whatif]") {
  const auto comparison = what_would_help(catalog(), overrides("model resnet50; node p4d.24xlarge")).value();
  for (const auto& alternative : comparison.alternatives) {
    if (alternative.changes.front().first != "pcie") continue;
    REQUIRE(alternative.changes.size() == 2);
    CHECK(alternative.changes[0].second == "63.02 GB/s");  // Gen4 x16, twice
    CHECK(alternative.changes[1].second == "31.51 GB/s");  // Gen3 x16, twice
  }
}

TEST_CASE("what-if: a price that names no server is of the baseline's kind alone", "[unit][whatif]") {
  const auto price = [](const char* stated, std::vector<Override> change) {
    const auto base = dgx1_job(overrides("price {}; training.steps 1000", stated));
    const auto comparison = compare(catalog(), base, std::vector{Change{"", std::move(change)}}).value();
    return comparison.alternatives.front().prediction.price.value().in(dollars_per_hour);
  };
  const auto listed = catalog().node("p4d.24xlarge").value().price.value().in(dollars_per_hour);
  CHECK(price("5 $/h", overrides("node p4d.24xlarge")) == Approx(listed));
  CHECK(price("5 $/h, p4d.24xlarge=7 $/h", overrides("node p4d.24xlarge")) == Approx(7));
  CHECK(price("5 $/h", overrides("node p4d.24xlarge; price 9 $/h")) == Approx(9));
  CHECK(price("5 $/h", overrides("nodes 2")) == Approx(2 * 5));
}

TEST_CASE("what-if: what changes no step says what it changes", "[unit][whatif]") {
  const auto first_line = [](std::vector<Override> base, const Override& change) {
    for (Override& one : dgx1_job()) base.push_back(std::move(one));
    base.push_back({"price", "10 $/h", {}});
    const auto comparison = compare(catalog(), base, std::vector<Change>{{"other", {change}}}).value();
    const std::string text = report::render(comparison, report::Format::kText);
    return text.substr(0, text.find('\n'));
  };
  const std::vector<Override> run{{"training.samples", "1e6", {}}, {"training.epochs", "1", {}}};
  const std::string dearer = first_line(run, {"price", "20 $/h", {}});
  CHECK_THAT(dearer, Contains("other: same step: ") && Contains(", cost "));
  CHECK_THAT(dearer, !Contains("no change"));
  const std::string longer = first_line(run, {"training.epochs", "3", {}});
  CHECK_THAT(longer, Contains(", run ") && Contains(", cost ") && !Contains("no change"));
  CHECK_THAT(first_line({}, {"price", "20 $/h", {}}), Contains(", price 10 $/h -> 20 $/h"));
  CHECK_THAT(first_line({}, {"price", "10 $/h", {}}), Contains("no change"));
}
