// Kernels bound by memory.
#include "ddlsim/cost/memory_bound_time.h"

#include <catch2/catch.hpp>

namespace {

using namespace ddlsim;
using namespace ddlsim::cost;

const hardware::DeviceSpec kV100{80, teraflops_per_second(14), gigabytes_per_second(900), mebibytes(6)};

hardware::MemoryBoundCurve curve(primitives::MemoryBoundKind kind, std::int64_t row_from = 0) {
  hardware::MemoryBoundCurve made;
  made.kind = kind;
  made.row_from = row_from;
  made.slope_changes = {{0, 1.1}};
  return made;
}

}  // namespace

TEST_CASE("memory-bound time: the header's example") {
  hardware::MemoryBoundCurve one = curve(primitives::MemoryBoundKind::kSoftmax);
  CHECK(memory_bound_time(one, kV100, {megabytes(90), 1000}).in(microseconds) == Approx(110));
  one.time_per_row = nanoseconds(80);
  CHECK(memory_bound_time(one, kV100, {megabytes(90), 1000}).in(microseconds) == Approx(111));
  one.row_length_factors = {{1537, 1.2}};
  CHECK(memory_bound_time(one, kV100, {megabytes(90), 1000, 1536}).in(microseconds) == Approx(111));
  CHECK(memory_bound_time(one, kV100, {megabytes(90), 1000, 1537}).in(microseconds) == Approx(133));
  one.row_length_factors = {{1537, 1.2}, {2049, 0.5}};
  CHECK(memory_bound_time(one, kV100, {megabytes(90), 1000, 4096}).in(microseconds) == Approx(56));
}

TEST_CASE("memory-bound time: data that outgrow the L2 take longer per byte than those far beyond it") {
  hardware::MemoryBoundCurve one = curve(primitives::MemoryBoundKind::kSoftmax);
  one.slope_changes = {{0, 0.4}, {0.5, 1.6}, {2, -1}};
  // 3 MiB at 0.4, 9 MiB at 2, 12 MiB at 1 of 1 / (900 GB/s).
  CHECK(memory_bound_time(one, kV100, {mebibytes(24), 0}).in(microseconds) == Approx((1.2 + 18 + 12) * 1.048576 / 0.9));
}

TEST_CASE("memory-bound time: beyond a slope change every byte takes more") {
  hardware::MemoryBoundCurve one = curve(primitives::MemoryBoundKind::kElementwise);
  one.slope_changes = {{0, 0.5}, {2, 0.5}};
  // 12 MiB in the L2's reach, then 12 MiB more: (24 + 12) / 2 MiB at 900 GB/s.
  CHECK(memory_bound_time(one, kV100, {mebibytes(12), 0}).in(microseconds) == Approx(6.0 * 1.048576 / 0.9));
  CHECK(memory_bound_time(one, kV100, {mebibytes(24), 0}).in(microseconds) == Approx(18.0 * 1.048576 / 0.9));
  CHECK(memory_bound_time(one, kV100, {}) == Time::zero());
}

TEST_CASE("memory-bound time: rows of a reduction") {
  // 1000 rows of 512 fp32 elements, read and written.
  CHECK(rows_of(bytes(2.0 * 1000 * 512 * 4), 512, bytes(4)) == Approx(1000));
  CHECK(rows_of(bytes(4096), 0, bytes(4)) == 0.0);
}

TEST_CASE("memory-bound time: what a measurement shows") {
  hardware::MemoryBoundCurve one = curve(primitives::MemoryBoundKind::kElementwise);
  one.overheads = {{"add", microseconds(16), microseconds(32)}};
  const auto added = overhead_of(one, "add");
  CHECK(measured_time(added, microseconds(10)) == microseconds(32));
  CHECK(measured_time(added, microseconds(20)).in(microseconds) == Approx(36));
  CHECK(measured_time(overhead_of(one, "mul"), microseconds(10)) == microseconds(10));
}

TEST_CASE("memory-bound time: the curve of a kind and length of row") {
  hardware::GpuProfile profile;
  CHECK_FALSE(choose_memory_bound(profile, primitives::MemoryBoundKind::kElementwise, 0).has_value());
  profile.memory_bound = {curve(primitives::MemoryBoundKind::kElementwise),
                          curve(primitives::MemoryBoundKind::kSoftmax),
                          curve(primitives::MemoryBoundKind::kSoftmax, 1025)};
  CHECK(choose_memory_bound(profile, primitives::MemoryBoundKind::kSoftmax, 1024)->curve->row_from == 0);
  CHECK(choose_memory_bound(profile, primitives::MemoryBoundKind::kSoftmax, 1025)->curve->row_from == 1025);
  for (const primitives::MemoryBoundKind kind :
       {primitives::MemoryBoundKind::kPool, primitives::MemoryBoundKind::kCopy, primitives::MemoryBoundKind::kLookup,
        primitives::MemoryBoundKind::kBatchNorm, primitives::MemoryBoundKind::kUpdate,
        primitives::MemoryBoundKind::kRecurrent}) {
    const auto chosen = choose_memory_bound(profile, kind, 0);
    REQUIRE(chosen.has_value());
    CHECK(chosen->stand_in);
    CHECK(chosen->curve->kind == primitives::MemoryBoundKind::kElementwise);
  }
  CHECK_FALSE(choose_memory_bound(profile, primitives::MemoryBoundKind::kElementwise, 0)->stand_in);
  CHECK_FALSE(choose_memory_bound(profile, primitives::MemoryBoundKind::kNorm, 100).has_value());
  // Only long rows were measured: they answer for short ones.
  profile.memory_bound = {curve(primitives::MemoryBoundKind::kNorm, 1025)};
  CHECK(choose_memory_bound(profile, primitives::MemoryBoundKind::kNorm, 100)->curve->row_from == 1025);
}

TEST_CASE("memory-bound time: doublings outside what was measured") {
  hardware::CurveReport report;
  report.fitted_ranges = {{"bytes", 1000, 8000}};
  CHECK(doublings_outside(report, "bytes", 4000) == 0.0);
  CHECK(doublings_outside(report, "bytes", 32000) == Approx(2.0));
  CHECK(doublings_outside(report, "bytes", 500) == Approx(1.0));
  CHECK(doublings_outside(report, "row", 500) == 0.0);
}
