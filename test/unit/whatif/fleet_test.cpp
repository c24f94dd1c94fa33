#include "ddlsim/whatif/fleet.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

#include "catalog.h"
#include "ddlsim/whatif/population.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using workload::Architecture;

namespace {

std::string table(const std::string& rows) {
  return "job,architecture,cnodes,flops,memory_access_bytes,input_bytes,weight_traffic_bytes,dense_weights_bytes,"
         "embedding_weights_bytes\n" +
         rows;
}

answer::FleetReport study(const std::string& rows) {
  std::istringstream stream(table(rows));
  Fleet fleet(catalog().setting("pai-2019").value(), true);
  REQUIRE(fleet.add_table(stream, "jobs.csv"));
  return fleet.report();
}

const answer::SpeedupRow& row(const answer::FleetReport& report, std::string_view change, std::string_view group) {
  for (const answer::SpeedupRow& candidate : report.speedups) {
    if (candidate.change == change && candidate.architecture == group) return candidate;
  }
  throw std::runtime_error("no such row");
}

}  // namespace

TEST_CASE("fleet: shares by job and by cNode, by hand", "[unit][whatif]") {
  // Job 1 only computes; job 2, with 3 cNodes, only communicates.
  const auto report = study("1,1w1g,1,1e12,0,0,0,0,0\n2,ps-worker,3,1e-6,0,0,1e9,1e9,0\n");
  const answer::FleetGroup& all = report.groups.front();
  CHECK(all.jobs == 2);
  CHECK(all.cnodes == 4);
  CHECK(all.by_job.communication == Approx(0.5));
  CHECK(all.by_cnode.communication == Approx(0.75));
  CHECK(all.by_cnode.compute == Approx(0.25));
}

TEST_CASE("fleet: the bounds of the paper on a weight-bound job", "[unit][whatif]") {
  const auto report = study("1,ps-worker,8,1e-6,0,0,1e9,1e9,0\n");
  // Means are exact; 0.42 / 0.02, 0.42 / 0.34, 0.42 / 0.18 seconds
  CHECK(row(report, "port to allreduce-local, throughput", "ps-worker").mean == Approx(21));
  CHECK(row(report, "port to allreduce-cluster, throughput", "ps-worker").mean == Approx(0.42 / 0.34));
  CHECK(row(report, "network = 100 Gb/s", "ps-worker").mean == Approx(0.42 / 0.18));
  CHECK(row(report, "network = 100 Gb/s", "ps-worker").median == Approx(0.42 / 0.18).epsilon(0.002));
  CHECK(row(report, "network = 25 Gb/s", "ps-worker").mean == 1.0);
}

TEST_CASE("fleet: a port trades cNodes for speed", "[unit][whatif]") {
  const auto report = study("1,ps-worker,16,1e-6,0,0,1e9,1e9,0\n");
  CHECK(row(report, "port to allreduce-local, per cNode", "ps-worker").mean == Approx(21));
  CHECK(row(report, "port to allreduce-local, throughput", "ps-worker").mean == Approx(10.5));  // 8 of 16 cNodes
}

TEST_CASE("fleet: weights larger than a GPU cannot be ported", "[unit][whatif]") {
  const auto report = study("1,ps-worker,8,1e12,0,0,1e9,0,3e11\n2,ps-worker,8,1e12,0,0,1e9,1e9,0\n");
  const auto& port = row(report, "port to allreduce-local, throughput", "ps-worker");
  CHECK(port.jobs == 1);
  CHECK(port.too_large == 1);
  CHECK(port.faster == Approx(0.5));
}

TEST_CASE("fleet: every fault of a table has its place", "[unit][whatif]") {
  std::istringstream stream(table("1,ps-worker,8,1e12,0,0,1e9,1e9,0\n2,ps-worker,x,-1,0,0,1e9,1e9,0\n"));
  Fleet fleet(catalog().setting("pai-2019").value(), false);
  const auto read = fleet.add_table(stream, "jobs.csv");
  REQUIRE_FALSE(read);
  CHECK(read.error().where == SourceLocation{"jobs.csv", 3, 13});
  REQUIRE(read.error().also.size() == 1);
  CHECK(read.error().also[0].where == SourceLocation{"jobs.csv", 3, 15});
  CHECK(read.error().also[0].message.find("negative") != std::string::npos);
}

TEST_CASE("fleet: one worker on one GPU is no job of several", "[unit][whatif]") {
  std::istringstream stream(table("1,1w1g,1,1e12,0,0,0,0,0\n2,1w1g,4,1e12,0,0,0,0,0\n"));
  Fleet fleet(catalog().setting("pai-2019").value(), false);
  const auto read = fleet.add_table(stream, "jobs.csv");
  REQUIRE_FALSE(read);
  CHECK(read.error().where == SourceLocation{"jobs.csv", 3, 8});
  CHECK(read.error().message == "a job of 1w1g is one worker on one GPU, not on 4");
}

TEST_CASE("fleet: one worker on one GPU sends no weights", "[unit][whatif]") {
  std::istringstream stream(table("1,1w1g,1,1e12,0,0,0,1e9,0\n2,1w1g,1,1e12,1e10,1e6,9e99,1e9,0\n"));
  Fleet fleet(catalog().setting("pai-2019").value(), false);
  const auto read = fleet.add_table(stream, "jobs.csv");
  REQUIRE_FALSE(read);
  CHECK(read.error().where == SourceLocation{"jobs.csv", 3, 24});
  CHECK(read.error().message == "a job of 1w1g shares its weights with nobody: it has no traffic of them");
}

TEST_CASE("population: job i of a seed is always the same", "[unit][whatif]") {
  const auto population = catalog().population("pai_2019").value();
  CHECK(job_row(7, draw_job(population, 1, 7)) == job_row(7, draw_job(population, 1, 7)));
  CHECK(job_row(7, draw_job(population, 1, 7)) != job_row(7, draw_job(population, 2, 7)));
}

TEST_CASE("population: the drawn marginals are the stated ones", "[unit][whatif]") {
  const auto population = catalog().population("pai_2019").value();
  constexpr int kJobs = 20'000;
  int ps = 0;
  int ps_over_8 = 0;
  int over_128 = 0;
  int under_10_gb = 0;
  for (int i = 0; i < kJobs; ++i) {
    const cost::PaiJob job = draw_job(population, 3, static_cast<std::uint64_t>(i));
    const bool is_ps = job.architecture == Architecture::kPsWorker;
    ps += is_ps ? 1 : 0;
    ps_over_8 += is_ps && job.cnodes > 8 ? 1 : 0;
    over_128 += job.cnodes > 128 ? 1 : 0;
    const DataSize weights = job.features.dense_weights + job.features.embedding_weights;
    under_10_gb += weights < gigabytes(10) ? 1 : 0;
    CHECK(job.features.weight_traffic <= weights * 2.0);
    CHECK(job.features.flops.in(teraflops) <= 7.9 * 1.0000001);
    if (job.architecture == Architecture::k1w1g) CHECK(job.features.weight_traffic == DataSize::zero());
  }
  // Within four standard deviations of a binomial draw.
  CHECK(ps / double{kJobs} == Approx(0.29).margin(0.013));
  CHECK(ps_over_8 / double(ps) == Approx(0.49).margin(0.03));  // 8.5 rounds up to 9
  CHECK(over_128 / double{kJobs} == Approx(0.007).margin(0.0025));
  CHECK(under_10_gb / double{kJobs} == Approx(0.90).margin(0.009));
}

TEST_CASE("fleet: statistics of no jobs are nothing, not zero", "[unit][whatif]") {
  const auto report = study("1,ps-worker,8,1e12,0,0,1e9,0,3e11\n");
  const auto& port = row(report, "port to allreduce-local, throughput", "ps-worker");
  CHECK(port.jobs == 0);
  CHECK(port.faster == 0.0);
  CHECK(std::isnan(port.mean));
  CHECK(std::isnan(port.median));
}

TEST_CASE("fleet: a job of one server has no more GPUs than a server", "[unit][whatif]") {
  const auto refused = [](const std::string& rows) {
    std::istringstream stream(table(rows));
    Fleet fleet(catalog().setting("pai-2019").value(), true);
    const auto added = fleet.add_table(stream, "jobs.csv");
    return added ? std::string() : to_string(added.error());
  };
  CHECK(refused("1,allreduce-local,8,1e12,1e9,0,1e6,1e6,0\n2,1wng,8,1e12,1e9,0,1e6,1e6,0\n").empty());
  for (const char* architecture : {"allreduce-local", "1wng"}) {
    const std::string row = std::string(architecture) + ",9,1e12,1e9,0,1e6,1e6,0\n";
    CHECK(refused("1,1w1g,1,1e12,0,0,0,0,0\n2," + row).find("jobs.csv:3:") != std::string::npos);
    CHECK(refused("1," + row).find("is on one server, which has 8 GPUs, not on 9") != std::string::npos);
  }
}
