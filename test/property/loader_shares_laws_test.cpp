// What holds between policies that share a server, for any jobs.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "ddlsim/cost/loader_shares.h"

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

struct Case {
  LoaderSupply supply;
  std::vector<LoaderDemand> demands;
};

/// A curve that rises to its ceiling: each core gains at most what the one before did.
LoaderDemand random_job(bool concave, bool reads, std::int64_t cores) {
  LoaderDemand demand;
  const double first = *rc::gen::inRange(1, 1000);
  const double ceiling = first * *rc::gen::inRange(1, 12);
  double rate = 0;
  double gain = first;
  for (std::int64_t i = 1; i <= cores; ++i) {
    rate = std::min(rate + gain, ceiling);
    demand.options.push_back({i, {}, per_second(rate)});
    gain = concave ? gain * (1 - *rc::gen::inRange(0, 100) / 1000.0) : first * (*rc::gen::inRange(0, 30) / 10.0);
  }
  demand.options = useful_options(std::move(demand.options));
  if (reads && *rc::gen::inRange(0, 4) > 0) demand.read = kilobytes(*rc::gen::inRange(1, 400));
  demand.gpus = *rc::gen::element<std::int64_t>(1, 1, 1, 2);
  return demand;
}

Case random_case(bool concave, bool reads) {
  Case one;
  const int jobs = *rc::gen::inRange(1, 7);
  for (int i = 0; i < jobs; ++i) one.demands.push_back(random_job(concave, reads, 24));
  std::int64_t gpus = 0;
  for (const LoaderDemand& demand : one.demands) gpus += demand.gpus;
  one.supply = {gpus + *rc::gen::inRange<std::int64_t>(0, 24), {}, Bandwidth::infinity(), gpus};
  if (reads) one.supply.storage = megabytes(1) * *rc::gen::inRange(1, 400) / seconds(1);
  for (LoaderDemand& demand : one.demands) {
    const Rate fair = fair_share(one.supply, demand).rate;
    demand.unit = fair;
    demand.least = *rc::gen::arbitrary<bool>() ? fair : Rate{};
  }
  return one;
}

std::vector<LoaderGrant> grants(SharePolicy policy, const Case& one) {
  return share_loaders(policy, one.supply, one.demands).value();
}

double worth(SharePolicy policy, const Case& one) { return worth_of(one.demands, grants(policy, one)); }

/// The best of every whole split of the cores; storage by the knapsack that `optimal` is checked against.
double tried(const Case& one, std::size_t job, std::int64_t cores, std::vector<Rate>& most) {
  if (job == one.demands.size()) {
    std::vector<std::size_t> order(most.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto dear = [&](std::size_t i) { return one.demands[i].unit.in(per_second)*one.demands[i].read.in(bytes); };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return dear(a) < dear(b); });
    Bandwidth left = one.supply.storage;
    for (std::size_t i = 0; i < most.size(); ++i) {
      if (most[i] < one.demands[i].least) return 0;
      left -= one.demands[i].read * one.demands[i].least;
    }
    double sum = 0;
    for (const std::size_t i : order) {
      Rate rate = most[i];
      const LoaderDemand& demand = one.demands[i];
      if (demand.read > DataSize::zero()) rate = min(rate, demand.least + max(left, Bandwidth{}) / demand.read);
      left -= demand.read * (rate - demand.least);
      sum += rate / demand.unit;
    }
    return sum;
  }
  double best = 0;
  for (const LoaderOption& option : one.demands[job].options) {
    if (option.cores > cores) break;
    most[job] = option.rate;
    best = std::max(best, tried(one, job + 1, cores - option.cores, most));
  }
  return best;
}

}  // namespace

TEST_CASE("loader shares: nobody gets what is not there, nor less than his least", "[property]") {
  CHECK(rc::check([] {
    const Case one = random_case(*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
    for (const auto& [name, policy] : kSharePolicies) {
      const auto all = grants(policy, one);
      std::int64_t cores = 0;
      Bandwidth storage;
      const bool best = policy == SharePolicy::kADloader || policy == SharePolicy::kOptimal;
      for (std::size_t i = 0; i < all.size(); ++i) {
        cores += all[i].cores;
        storage += all[i].storage;
        RC_ASSERT(all[i].cores >= 1);
        if (best) RC_ASSERT(all[i].rate >= one.demands[i].least * (1 - 1e-9));
      }
      RC_ASSERT(cores <= one.supply.cores);
      RC_ASSERT(storage <= one.supply.storage * (1 + 1e-9));
    }
  }));
}

TEST_CASE("loader shares: optimal is what trying every split finds", "[property]") {
  CHECK(rc::check([] {
    Case one = random_case(*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
    if (one.demands.size() > 3) one.demands.resize(3);
    one.supply.cores = std::min<std::int64_t>(one.supply.cores, 12);
    for (LoaderDemand& demand : one.demands) {
      demand.least = *rc::gen::arbitrary<bool>() ? fair_share(one.supply, demand).rate : Rate{};
    }
    std::vector<Rate> most(one.demands.size());
    RC_ASSERT(std::abs(worth(SharePolicy::kOptimal, one) / tried(one, 0, one.supply.cores, most) - 1) < 1e-9);
  }));
}

TEST_CASE("loader shares: no policy beats optimal", "[property]") {
  CHECK(rc::check([] {
    Case one = random_case(*rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>());
    for (LoaderDemand& demand : one.demands) demand.least = Rate{};
    const double best = worth(SharePolicy::kOptimal, one) * (1 + 1e-9);
    for (const auto& [name, policy] : kSharePolicies) RC_ASSERT(worth(policy, one) <= best);
  }));
}

TEST_CASE("loader shares: marginal gain is optimal where curves are concave", "[property]") {
  CHECK(rc::check([] {
    const Case one = random_case(true, false);
    RC_ASSERT(worth(SharePolicy::kADloader, one) >= worth(SharePolicy::kOptimal, one) * (1 - 1e-9));
  }));
}

// Of 160,000 cases two were over 1 % below, the one that was printed by 1.1 %.
TEST_CASE("loader shares: marginal gain is within 3 % where curves are concave and the storage binds", "[property]") {
  CHECK(rc::check([] {
    const Case one = random_case(true, true);
    RC_ASSERT(worth(SharePolicy::kADloader, one) >= worth(SharePolicy::kOptimal, one) * 0.97);
  }));
}
