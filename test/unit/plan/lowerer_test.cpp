#include "ddlsim/plan/lowerer.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddlsim/plan/lower.h"
#include "lowered.h"

using namespace ddlsim;
using namespace ddlsim::plan;
using namespace ddlsim::test;

TEST_CASE("lowerer: what layers keep for backward grows with the batch, with attention and without", "[unit][plan]") {
  for (const auto& model : {model_of({1000, 2000}), block()}) {
    Lowerer lowerer;
    const auto kept = [&](std::int64_t batch) {
      Job job = job_of(model, 1, 1);
      job.batch = batch;
      return lowerer.held(job).value().kept;
    };
    const std::vector<DataSize> one = kept(1);
    const std::vector<DataSize> four = kept(4);
    REQUIRE(one.size() == model->layers.size());
    DataSize all;
    for (std::size_t i = 0; i < one.size(); ++i) {
      CHECK(four[i].in(bytes) == Approx(4 * one[i].in(bytes)));
      all += one[i];
    }
    CHECK(all > DataSize::zero());
  }
}

TEST_CASE("lowerer: what is kept of plans answers for its own job and no other", "[unit][plan]") {
  const auto model = block();
  Lowerer lowerer;
  const auto alike = [&](const Job& job) {
    const StepPlan alone = lower(job).value();
    const StepPlan kept = lowerer.lower(job).value();
    const StepPlan timed = lowerer.timed(job).value();
    REQUIRE(kept.classes.size() == alone.classes.size());
    REQUIRE(timed.classes.size() == alone.classes.size());
    for (std::size_t c = 0; c < alone.classes.size(); ++c) {
      CHECK(kept.classes[c].memory.total() == alone.classes[c].memory.total());
      CHECK(timed.classes[c].memory.total() == DataSize::zero());
      CHECK(timed.classes[c].updated == alone.classes[c].updated);
      CHECK(timed.classes[c].chunk.count == alone.classes[c].chunk.count);
    }
    REQUIRE(timed.rows.size() == alone.rows.size());
    for (std::size_t r = 0; r < alone.rows.size(); ++r) {
      CHECK(kept.rows[r].size == alone.rows[r].size);
      CHECK(timed.rows[r].size == alone.rows[r].size);
    }
  };
  std::size_t asked = 0;
  for (const Precision precision : {Precision::kFp32, Precision::kFp16}) {
    for (const std::int64_t batch : {1, 4}) {
      for (const int zero : {0, 3}) {
        for (const Recompute again : {Recompute::kNone, Recompute::kFull}) {
          Job job = job_of(model, 2, 2);
          job.precision = precision;
          job.batch = batch;
          job.parallel.zero = zero;
          job.parallel.recompute = again;
          alike(job);
          job.parallel.tensor = 2;
          alike(job);
          asked += 2;
        }
      }
    }
  }
  CHECK(asked == 32);
  CHECK(lowerer.kept() > 8);
  CHECK(lowerer.kept() < 64);
}
