// Laws of the single cost models, on random inputs.
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "ddlsim/cost/pai.h"
#include "ddlsim/cost/parameter_server.h"
#include "ddlsim/cost/ring.h"
#include "ddlsim/support/quantity_io.h"

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

double positive() { return std::exp(*rc::gen::inRange(-9000, 9000) / 1000.0); }

Ring random_ring() {
  Ring ring;
  ring.nodes = *rc::gen::inRange<std::int64_t>(1, 1000);
  ring.gpus = ring.nodes * *rc::gen::inRange<std::int64_t>(1, 9);
  ring.intra = gigabytes_per_second(positive());
  ring.inter = gigabytes_per_second(positive());
  ring.intra_latency = microseconds(positive());
  ring.inter_latency = microseconds(positive());
  return ring;
}

PaiJob random_job() {
  PaiJob job;
  job.features = {.flops = teraflops(positive()),
                  .memory_access = gigabytes(positive()),
                  .input = megabytes(positive()),
                  .weight_traffic = megabytes(positive())};
  job.architecture = (*rc::gen::elementOf(workload::kArchitectures)).second;
  job.cnodes = job.architecture == workload::Architecture::k1w1g ? 1 : *rc::gen::inRange<std::int64_t>(1, 1000);
  return job;
}

PaiSetting random_setting() {
  return {.peak = teraflops_per_second(positive()),
          .memory = gigabytes_per_second(positive()),
          .pcie = gigabytes_per_second(positive()),
          .nvlink = gigabytes_per_second(positive()),
          .network = gigabits_per_second(positive()),
          .gpus_per_server = *rc::gen::inRange<std::int64_t>(1, 17),
          .workers_per_server = *rc::gen::inRange<std::int64_t>(1, 17),
          .pcie_uplinks = *rc::gen::inRange<std::int64_t>(1, 9)};
}

}  // namespace

TEST_CASE("law: a ring grows with its bytes and shrinks with its rates", "[property]") {
  CHECK(rc::check("ring", [] {
    const Ring ring = random_ring();
    const DataSize size = megabytes(positive());
    const Time t = ring_all_reduce(size, ring);
    RC_ASSERT(ring_all_reduce(size * 2.0, ring) >= t);
    Ring faster = ring;
    faster.intra = faster.intra * 2.0;
    faster.inter = faster.inter * 2.0;
    RC_ASSERT(ring_all_reduce(size, faster) <= t);
    // Two halves cost at least the whole: latency is paid twice.
    RC_ASSERT(ring_all_reduce(size / 2.0, ring) * 2.0 >= t * (1 - 1e-12));
    // It is never faster than its slowest link alone.
    if (ring.nodes > 1) RC_ASSERT(t >= ring_traffic(size, ring) / ring.inter * (1 - 1e-12));
  }));
}

TEST_CASE("law: a PS pipeline is no faster than its slowest station and no slower than all in turn", "[property]") {
  CHECK(rc::check("pipeline", [] {
    PsPath path;
    for (Time& t : path.per_byte) t = nanoseconds(positive());
    path.latency_before[1] = path.latency_before[3] = microseconds(positive());
    const DataSize piece = kilobytes(positive());
    const double count = *rc::gen::inRange(1, 1000);
    PsPipeline pipeline(path);
    const Time done = pipeline.send(Time::zero(), piece, count);
    Time slowest;
    Time all;
    for (const Time& t : path.per_byte) {
      slowest = max(slowest, t * piece.in(bytes));
      all += t * piece.in(bytes);
    }
    const Time travel = path.latency_before[1] + path.latency_before[3];
    RC_ASSERT(done >= slowest * count * (1 - 1e-12));
    RC_ASSERT(done <= (all * count + travel) * (1 + 1e-12));
  }));
}

TEST_CASE("law: the PAI step is bounded by its two overlaps and halves with its rates", "[property]") {
  CHECK(rc::check("pai", [] {
    const PaiJob job = random_job();
    const PaiSetting setting = random_setting();
    const PaiStep step = pai_step(job, setting);
    RC_ASSERT(step.ideal_overlap() <= step.no_overlap());
    RC_ASSERT(step.no_overlap() <= step.ideal_overlap() * 3.0 * (1 + 1e-12));  // three parts
    PaiSetting twice = setting;
    twice.peak = twice.peak * 2.0;
    twice.memory = twice.memory * 2.0;
    twice.pcie = twice.pcie * 2.0;
    twice.nvlink = twice.nvlink * 2.0;
    twice.network = twice.network * 2.0;
    RC_ASSERT(pai_step(job, twice).no_overlap() * 2.0 == step.no_overlap());
  }));
}

TEST_CASE("law: a bandwidth printed and read again is the same to four digits", "[property]") {
  CHECK(rc::check("text", [] {
    const Bandwidth rate = gigabytes_per_second(positive());
    const auto read = parse_bandwidth(to_text(rate));
    RC_ASSERT(read.has_value());
    RC_ASSERT(std::abs(*read / rate - 1.0) < 6e-4);
    RC_ASSERT(std::abs(*parse_bandwidth(to_text_in_bits(rate)) / rate - 1.0) < 6e-4);
  }));
}
