#include "ddlsim/cost/pai.h"

#include <array>
#include <catch2/catch.hpp>

using namespace ddlsim;
using namespace ddlsim::cost;
using workload::Architecture;

namespace {

/// The base setting of Wang et al. 2019 at an efficiency of 1: the bounds do not depend on it.
PaiSetting base() {
  return {.peak = teraflops_per_second(11),
          .memory = terabytes_per_second(1),
          .pcie = gigabytes_per_second(10),
          .nvlink = gigabytes_per_second(50),
          .network = gigabits_per_second(25),
          .efficiency = plan::Efficiency::uniform(1.0)};
}

PaiJob weight_bound(Architecture architecture, std::int64_t cnodes = 8) {
  PaiJob job;
  job.features.weight_traffic = gigabytes(1);
  job.architecture = architecture;
  job.cnodes = cnodes;
  return job;
}

Time step(const PaiJob& job, const PaiSetting& setting = base()) { return pai_step(job, setting).no_overlap(); }

}  // namespace

TEST_CASE("pai: a weight-bound PS/Worker job gains 21x on AllReduce-Local", "[unit][cost]") {
  const PaiJob job = weight_bound(Architecture::kPsWorker);
  // (1/3.125 + 1/10) / (1/50) = 0.42 / 0.02
  CHECK(step(job).in(seconds) == Approx(0.42).epsilon(1e-12));
  CHECK(step(job) / step(ported_to_allreduce_local(job, base())) == Approx(21.0).epsilon(1e-12));
}

TEST_CASE("pai: and 1.235x on AllReduce-Cluster", "[unit][cost]") {
  const PaiJob job = weight_bound(Architecture::kPsWorker);
  // (1/3.125 + 1/10) / (1/3.125 + 1/50) = 0.42 / 0.34
  CHECK(step(job) / step(ported_to_allreduce_cluster(job)) == Approx(0.42 / 0.34).epsilon(1e-12));
}

TEST_CASE("pai: Ethernet from 25 to 100 Gb/s gains at most 2.33x", "[unit][cost]") {
  PaiSetting fast = base();
  fast.network = gigabits_per_second(100);
  PaiJob job = weight_bound(Architecture::kPsWorker);
  // (1/3.125 + 1/10) / (1/12.5 + 1/10) = 0.42 / 0.18
  const double bound = 0.42 / 0.18;
  CHECK(step(job) / step(job, fast) == Approx(bound).epsilon(1e-12));
  job.features.flops = teraflops(1);
  CHECK(step(job) / step(job, fast) < bound);
}

TEST_CASE("pai: each architecture uses its links and no other", "[unit][cost]") {
  const auto links = [](Architecture architecture, std::int64_t cnodes = 8) {
    const PaiStep parts = pai_step(weight_bound(architecture, cnodes), base());
    return std::array{parts.network > Time::zero(), parts.pcie > Time::zero(), parts.nvlink > Time::zero()};
  };
  CHECK(links(Architecture::k1w1g, 1) == std::array{false, false, false});
  CHECK(links(Architecture::k1wng) == std::array{false, true, false});
  CHECK(links(Architecture::kPsWorker) == std::array{true, true, false});
  CHECK(links(Architecture::kAllReduceLocal) == std::array{false, false, true});
  CHECK(links(Architecture::kAllReduceCluster) == std::array{true, false, true});
  CHECK(links(Architecture::kPearl) == std::array{false, false, true});
  CHECK(links(Architecture::kPearl, 16) == std::array{true, false, true});
}

TEST_CASE("pai: the parts of a whole step", "[unit][cost]") {
  PaiJob job = weight_bound(Architecture::kPsWorker);
  job.features.flops = teraflops(2.2);          // 0.2 s
  job.features.memory_access = gigabytes(100);  // 0.1 s
  job.features.input = gigabytes(0.5);          // 0.05 s
  const PaiStep parts = pai_step(job, base());
  CHECK(parts.no_overlap().in(seconds) == Approx(0.05 + 0.3 + 0.42));
  CHECK(parts.ideal_overlap().in(seconds) == Approx(0.42));
  // 70 % of every rate makes every part longer by 1/0.7.
  PaiSetting real = base();
  real.efficiency = {};
  CHECK(pai_step(job, real).no_overlap() / parts.no_overlap() == Approx(1 / 0.7));
}

TEST_CASE("pai: GPUs of one server share its PCIe", "[unit][cost]") {
  PaiJob job;
  job.features.input = gigabytes(1);  // 0.1 s alone
  job.architecture = Architecture::kAllReduceLocal;
  job.cnodes = 8;
  CHECK(pai_step(job, base()).input.in(seconds) == Approx(0.8));
  PaiSetting uplinks = base();
  uplinks.pcie_uplinks = 3;  // 8 GPUs on 3 uplinks: 3 on the fullest
  CHECK(pai_step(job, uplinks).input.in(seconds) == Approx(0.3));
  job.architecture = Architecture::kPsWorker;  // one worker per server
  CHECK(pai_step(job, base()).input.in(seconds) == Approx(0.1));
}

TEST_CASE("pai: PS workers of one server share its network port", "[unit][cost]") {
  PaiSetting dense = base();
  dense.workers_per_server = 8;
  const PaiJob job = weight_bound(Architecture::kPsWorker, 32);
  CHECK(pai_step(job, dense).network / pai_step(job, base()).network == Approx(8));
  // A ring enters a server once, however many GPUs it has.
  const PaiJob ring = weight_bound(Architecture::kAllReduceCluster, 32);
  CHECK(pai_step(ring, dense).network == pai_step(ring, base()).network);
}

TEST_CASE("pai: PEARL's GPUs of one server share its network port", "[unit][cost]") {
  const PaiJob job = weight_bound(Architecture::kPearl, 16);  // two servers of 8
  CHECK(pai_step(job, base()).network.in(seconds) == Approx(8 / 3.125));
}

TEST_CASE("pai: a port to AllReduce-Local keeps at most one server", "[unit][cost]") {
  CHECK(ported_to_allreduce_local(weight_bound(Architecture::kPsWorker, 128), base()).cnodes == 8);
  CHECK(ported_to_allreduce_local(weight_bound(Architecture::kPsWorker, 3), base()).cnodes == 3);
  CHECK(ported_to_allreduce_cluster(weight_bound(Architecture::kPsWorker, 128)).cnodes == 128);
}

TEST_CASE("pai: a batch call is the single call, job by job", "[unit][cost]") {
  const std::array jobs{weight_bound(Architecture::kPsWorker), weight_bound(Architecture::k1wng, 4)};
  std::array<PaiStep, 2> steps;
  pai_steps(jobs, base(), steps);
  for (std::size_t i = 0; i < jobs.size(); ++i) CHECK(steps[i].no_overlap() == step(jobs[i]));
}
