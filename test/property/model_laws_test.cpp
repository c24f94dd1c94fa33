// Laws of the single cost models, on random inputs.
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "ddlsim/cost/pai.h"
#include "ddlsim/cost/parameter_server.h"
#include "ddlsim/support/quantity_io.h"

using namespace ddlsim;
using namespace ddlsim::cost;

namespace {

double positive() { return std::exp(*rc::gen::inRange(-9000, 9000) / 1000.0); }

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

TEST_CASE("law: a PS pipeline is no faster than its slowest station and no slower than all in turn", "[property]") {
  CHECK(rc::check("pipeline", [] {
    const PsFabric fabric{.workers = *rc::gen::inRange(2, 100),
                          .servers = *rc::gen::inRange(1, 100),
                          .colocated = *rc::gen::arbitrary<bool>(),
                          .pcie = gigabytes_per_second(positive()),
                          .node_network = gigabytes_per_second(positive()),
                          .server_network = gigabytes_per_second(positive()),
                          .server_memory = gigabytes_per_second(positive()),
                          .update_accesses = 7,
                          .latency = microseconds(positive())};
    const PsLoad load{.piece = kilobytes(positive()), .count = static_cast<double>(*rc::gen::inRange(1, 1000))};
    PsPipeline pipeline(fabric);
    const Time done = pipeline.push_and_pull(Time::zero(), load);
    const PsPath path = ps_path(fabric, fabric.servers);
    Time slowest;
    Time all;
    Time travel;
    for (std::size_t i = 0; i < kPsStations; ++i) {
      slowest = max(slowest, path.per_byte[i] * load.piece.in(bytes));
      all += path.per_byte[i] * load.piece.in(bytes);
      travel += path.travel[i];
    }
    RC_ASSERT(done >= slowest * load.count * (1 - 1e-12));
    RC_ASSERT(done <= (all * load.count + travel) * (1 + 1e-12));
    // Pushing first and pulling then is no faster than both at once.
    PsPipeline apart(fabric);
    RC_ASSERT(apart.pull(apart.push(Time::zero(), load), load) >= done * (1 - 1e-12));
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
