#include "ddlsim/cost/loader_shares.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "unit/synergy.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using ddlsim::test::synergy_job;

namespace {

const LoaderSupply kServer{24, gigabytes(500), Bandwidth::infinity(), 8};

double worth(SharePolicy policy, const LoaderSupply& supply, const std::vector<LoaderDemand>& demands) {
  return worth_of(demands, share_loaders(policy, supply, demands).value());
}

std::vector<LoaderDemand> jobs(const std::vector<std::string>& models, bool fair = true) {
  std::vector<LoaderDemand> demands;
  for (const std::string& model : models) demands.push_back(synergy_job(model, fair));
  return demands;
}

/// `per_core` samples/s of each core up to `most`, from storage so much a sample.
LoaderDemand line(double per_core, double most, DataSize read = {}, std::int64_t cores = 16) {
  LoaderDemand demand;
  for (std::int64_t i = 1; i <= cores; ++i) {
    demand.options.push_back({i, {}, per_second(std::min(per_core * static_cast<double>(i), most))});
  }
  demand.options = useful_options(std::move(demand.options));
  demand.read = read;
  return demand;
}

}  // namespace

// Exact optima over Synergy's matrices, nobody below three cores and 62.5 GB: xu_adloader.md 2.2 of the project's
// research, by a program of its own.
TEST_CASE("loader shares: five mixes of Synergy's jobs, exactly", "[unit][loader_shares]") {
  struct Row {
    std::vector<std::string> models;
    LoaderSupply supply;
    double even, fair, free;
  };
  const std::vector<Row> rows{
      {{"alexnet", "res18", "res50", "mobilenet", "shufflenet", "m5", "gnmt", "lstm"}, kServer, 8, 9.30, 9.47},
      {{"res18", "m5", "gnmt", "lstm", "transformer", "gnmt", "lstm", "transformer"}, kServer, 8, 10.90, 10.90},
      {{"alexnet", "res18", "res50", "shufflenet", "gnmt", "lstm", "transformer", "gnmt"}, kServer, 8, 10.03, 10.03},
      // The row says "8 vision only": these eight give its 8.00 and its 1.2 %.
      {{"alexnet", "res18", "res18", "res50", "res50", "mobilenet", "mobilenet", "shufflenet"}, kServer, 8, 8, 8.10},
      {{"alexnet", "res50", "gnmt", "lstm"}, {12, gigabytes(250), Bandwidth::infinity(), 4}, 4, 4.90, 4.90},
  };
  for (const Row& row : rows) {
    CHECK(worth(SharePolicy::kEven, row.supply, jobs(row.models)) == Approx(row.even).epsilon(1e-12));
    CHECK(worth(SharePolicy::kGpuProportional, row.supply, jobs(row.models)) == Approx(row.even).epsilon(1e-12));
    CHECK(worth(SharePolicy::kOptimal, row.supply, jobs(row.models)) == Approx(row.fair).epsilon(1e-12));
    CHECK(worth(SharePolicy::kOptimal, row.supply, jobs(row.models, false)) == Approx(row.free).epsilon(1e-12));
    CHECK(worth(SharePolicy::kADloader, row.supply, jobs(row.models)) <= row.fair + 1e-12);
    CHECK(worth(SharePolicy::kADloader, row.supply, jobs(row.models)) >= row.even - 1e-12);
  }
}

TEST_CASE("loader shares: the worked example", "[unit][loader_shares]") {
  const auto demands = jobs({"alexnet", "res50", "gnmt", "lstm"});
  const auto grants =
      share_loaders(SharePolicy::kOptimal, {12, gigabytes(250), Bandwidth::infinity(), 4}, demands).value();
  CHECK(grants[0].cores == 6);
  CHECK(grants[1].cores == 4);
  CHECK(grants[2].cores == 1);
  CHECK(grants[3].cores == 1);
}

TEST_CASE("loader shares: alike jobs on straight lines share evenly", "[unit][loader_shares]") {
  const LoaderSupply server{8, gigabytes(100), Bandwidth::infinity(), 2};
  const std::vector<LoaderDemand> alike{line(10, 1000), line(10, 1000)};
  for (const SharePolicy policy : {SharePolicy::kADloader, SharePolicy::kOptimal}) {
    const auto grants = share_loaders(policy, server, alike).value();
    CHECK(grants[0].cores == 4);
    CHECK(grants[1].cores == 4);
  }
  // One of them with nothing to gain above two cores leaves the other the rest.
  const std::vector<LoaderDemand> unlike{line(10, 1000), line(10, 20)};
  CHECK(share_loaders(SharePolicy::kADloader, server, unlike).value()[0].cores == 6);
}

TEST_CASE("loader shares: shares without a question", "[unit][loader_shares]") {
  std::vector<LoaderDemand> demands{line(10, 1e9), line(10, 1e9), line(10, 1e9)};
  demands[2].gpus = 4;
  const LoaderSupply supply{16, {}, Bandwidth::infinity(), 8};
  const auto even = share_loaders(SharePolicy::kEven, supply, demands).value();
  CHECK(even[0].cores == 6);  // 16 = 6 + 5 + 5
  CHECK(even[1].cores == 5);
  CHECK(even[2].rate == per_second(50));
  const auto by_gpus = share_loaders(SharePolicy::kGpuProportional, supply, demands).value();
  CHECK(by_gpus[0].cores == 2);
  CHECK(by_gpus[2].cores == 8);
  // Hard shares of the storage: 90 kB/s in three, of 1 kB a sample; by GPUs 37.5 and 150.
  for (LoaderDemand& demand : demands) demand.read = kilobytes(1);
  const LoaderSupply slow{16, {}, bytes_per_second(90e3), 8};
  CHECK(share_loaders(SharePolicy::kEven, slow, demands)->at(0).rate.in(per_second) == Approx(30));
  CHECK(share_loaders(SharePolicy::kGpuProportional, slow, demands)->at(0).rate.in(per_second) == Approx(11.25));
  CHECK(share_loaders(SharePolicy::kGpuProportional, slow, demands)->at(2).rate.in(per_second) == Approx(45));
}

// m5 has 1.4 at 5 cores and 2.5 at 6: one core at a time from 3 on gains 0.2, three at once 0.5 each.
TEST_CASE("loader shares: a steep step is taken at once", "[unit][loader_shares]") {
  const auto demands = jobs({"m5", "res18"});
  const LoaderSupply supply{9, gigabytes(500), Bandwidth::infinity(), 2};
  const auto grants = share_loaders(SharePolicy::kADloader, supply, demands).value();
  CHECK(grants[0].cores == 6);
  CHECK(grants[1].cores == 3);
  CHECK(worth_of(demands, grants) == Approx(3.5));
}

// Jobs that make 10 samples/s a core; a sample of the first reads 1 kB, of the second 4 kB. 8 cores, 100 kB/s.
//   nobody has a least: every core to the first gives 80/s of 80 kB/s, one core must stay with the second: 70 + 10/s
//   needs 110 kB/s, so the second is cut to 30 kB/s: 7.5/s. 70 + 7.5 = 77.5.
//   the second has at least 15/s, of 2 cores: 60 kB/s, 40 are left for the first: 40/s.
TEST_CASE("loader shares: the storage is filled by what bytes are worth", "[unit][loader_shares]") {
  std::vector<LoaderDemand> demands{line(10, 1e9, kilobytes(1)), line(10, 1e9, kilobytes(4))};
  const LoaderSupply supply{8, {}, bytes_per_second(100e3), 2};
  for (const SharePolicy policy : {SharePolicy::kADloader, SharePolicy::kOptimal}) {
    const auto grants = share_loaders(policy, supply, demands).value();
    CHECK(grants[0].rate.in(per_second) == Approx(70));
    CHECK(grants[1].rate.in(per_second) == Approx(7.5));
    CHECK(grants[1].storage.in(bytes_per_second) == Approx(30e3));
  }
  demands[1].least = per_second(15);
  for (const SharePolicy policy : {SharePolicy::kADloader, SharePolicy::kOptimal}) {
    const auto grants = share_loaders(policy, supply, demands).value();
    CHECK(grants[0].rate.in(per_second) == Approx(40));
    CHECK(grants[1].rate.in(per_second) == Approx(15));
  }
}

TEST_CASE("loader shares: options that others beat", "[unit][loader_shares]") {
  const auto useful = useful_options({{2, gigabytes(1), per_second(5)},
                                      {1, gigabytes(2), per_second(4)},
                                      {3, gigabytes(1), per_second(5)},
                                      {1, gigabytes(1), per_second(3)},
                                      {2, gigabytes(3), per_second(5)}});
  const std::vector<LoaderOption> expected{
      {1, gigabytes(1), per_second(3)}, {1, gigabytes(2), per_second(4)}, {2, gigabytes(1), per_second(5)}};
  CHECK(useful == expected);
}

TEST_CASE("loader shares: leasts that no server has", "[unit][loader_shares]") {
  std::vector<LoaderDemand> demands{line(10, 1e9), line(10, 1e9)};
  demands[0].least = per_second(20);
  const auto grants = share_loaders(SharePolicy::kOptimal, {2, {}, Bandwidth::infinity(), 2}, demands);
  REQUIRE_FALSE(grants);
  CHECK(grants.error().code == ErrorCode::kInfeasible);
}
