// A fleet's sums are the same however its jobs are cut.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/whatif/fleet.h"
#include "ddlsim/whatif/population.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

constexpr int kJobs = 20'000;

const std::vector<cost::PaiJob>& jobs() {
  static const auto drawn = [] {
    std::vector<cost::PaiJob> some(kJobs);
    JobDrawer(catalog().population("pai_2019").value(), 5).draw(0, some);
    return some;
  }();
  return drawn;
}

Fleet fleet(bool what_if) { return {catalog().setting("pai-2019").value(), what_if}; }

Fleet of(std::span<const cost::PaiJob> some, bool what_if) {
  Fleet made = fleet(what_if);
  made.add(some);
  return made;
}

}  // namespace

TEST_CASE("fleet: any cut and any order give the same sums", "[unit][whatif]") {
  for (const bool what_if : {false, true}) {
    const std::string straight = of(jobs(), what_if).sums();
    for (const std::size_t cut : {1U, 777U, 10'000U, 19'999U}) {
      const std::span all(jobs());
      Fleet later = of(all.subspan(cut), what_if);
      later.add(of(all.first(cut), what_if));
      CHECK(later.sums() == straight);
    }
    Fleet backwards = fleet(what_if);
    for (auto job = jobs().rbegin(); job != jobs().rend(); ++job) backwards.add(*job);
    CHECK(backwards.sums() == straight);
    CHECK(backwards.jobs() == kJobs);
  }
}

TEST_CASE("fleet: sums come back from their text", "[unit][whatif]") {
  const Fleet one = of(jobs(), true);
  Fleet back = fleet(true);
  REQUIRE(back.add_sums(one.sums(), "part"));
  CHECK(back.sums() == one.sums());
  const auto a = one.report();
  const auto b = back.report();
  REQUIRE(a.speedups.size() == b.speedups.size());
  for (std::size_t i = 0; i < a.speedups.size(); ++i) {
    CHECK(a.speedups[i].mean == b.speedups[i].mean);
    CHECK(a.speedups[i].percentiles == b.speedups[i].percentiles);
  }
}

TEST_CASE("fleet: lines that are no sums have their place", "[unit][whatif]") {
  const std::string good = "shares 1w1g 1 1 0 0 0 0 0 0 0 0 0\n";
  Fleet checked = fleet(true);
  REQUIRE(checked.add_sums(good, "part"));
  const std::string sums = " 31:80000000 31:80000000 ";
  for (const std::string& bad :
       {std::string("shares 1w1g 1 1 0 0 0 0 0 0 0 0\n"), std::string("shares 2w1g 1 1 0 0 0 0 0 0 0 0 0\n"),
        std::string("shares 1w1g -1 1 0 0 0 0 0 0 0 0 0\n"), std::string("shares 1w1g 1 1 0 0 0 0 0 0 0 0 0 0\n"),
        std::string("sharing 1w1g\n"), std::string("\n"), "change 99 1w1g 1 1 0 0 0" + sums + "3:1\n",
        "change 0 1w1g 2 2 0 0 0" + sums + "3:1\n", "change 0 1w1g 1 1 0 0 0" + sums + "99999999:1\n"}) {
    CAPTURE(bad);
    Fleet some = fleet(true);
    const auto read = some.add_sums(good + bad, "part", 9);
    REQUIRE_FALSE(read);
    CHECK(read.error().where == SourceLocation{"part", 10, 1});
  }
}

TEST_CASE("population: a stretch of jobs is its jobs one by one", "[unit][whatif]") {
  const auto population = catalog().population("pai_2019").value();
  for (std::uint64_t i = 0; i < 2000; i += 7) {
    CHECK(job_row(i, draw_job(population, 5, i)) == job_row(i, jobs()[i]));
  }
}
