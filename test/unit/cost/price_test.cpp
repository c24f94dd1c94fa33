// What a plan costs on a catalogue's server, where no other test pins it by hand.
#include "ddlsim/cost/price.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "catalog.h"
#include "ddlsim/cost/nccl.h"
#include "ddlsim/plan/lower.h"

using namespace ddlsim;
using ddlsim::test::catalog;

TEST_CASE("price: what a running collective takes from its GPU", "[unit][cost]") {
  plan::Job job;
  job.model = catalog().model("resnet50").value();
  job.cluster.node = catalog().node("dgx1-v100").value();
  job.cluster.gpus_per_node = 8;
  job.batch = 64;
  const auto plan = std::make_shared<const plan::StepPlan>(plan::lower(job).value());
  const cost::LayerPrices layers = cost::price_layers(job, *plan, {1, 1}).value();
  const cost::PricedStep step = cost::price(job, plan, layers).value();
  // Written where it arrives, read, and stored: 3 bytes of the 900 GB/s for each over a link.
  CHECK(step.memory_per_wire_byte.in(seconds) == Approx(3 / 900e9));
  // 12 channels of a mesh on 80 multiprocessors.
  CHECK(step.sm_share == Approx(12.0 / 80));
  // And 3 GB of its memory's 900 in 10 ms for 1 GB; never all of it.
  CHECK(cost::held_of_gpu(step, milliseconds(10), gigabytes(1)) == Approx(12.0 / 80 + 3 / 9.0));
  CHECK(cost::held_of_gpu(step, milliseconds(1), gigabytes(1)) == Approx(0.9));
  CHECK(step.groups.front()->communicator().gpus == 8);
  // A ring sends 2 * 7 / 8 of what it sums.
  const plan::Row& row = plan->rows.front();
  CHECK(step.rows.front().sent / row.size == Approx(2 * 7.0 / 8));
}

TEST_CASE("price: kernels lose by what passes beside them between servers and through the host", "[unit][cost]") {
  const auto taken = [](const std::string& node, Precision precision, int zero, std::int64_t nodes, bool peers = true) {
    plan::Job job;
    job.model = catalog().model("resnet50").value();
    job.cluster.node = catalog().node(node).value();
    job.cluster.gpus_per_node = peers ? 8 : 4;
    job.cluster.nodes = nodes;
    job.cluster.node.peer_to_peer = peers;
    job.batch = 64;
    job.precision = precision;
    job.parallel.zero = zero;
    const auto plan = std::make_shared<const plan::StepPlan>(plan::lower(job).value());
    const cost::LayerPrices layers = cost::price_layers(job, *plan, {1, 1}).value();
    const cost::PricedStep step = cost::price(job, plan, layers).value();
    const auto rates = cost::effective_rates(step.groups.front()->communicator(), cost::collective_library_of(job));
    const Time more = step.memory_per_wire_byte - bytes(3) / job.cluster.node.gpu.memory_bandwidth;
    return more / (bytes(1) / (peers ? rates.inter : rates.intra));  // of the exchange's time
  };
  CHECK(taken("dgx1-v100", Precision::kFp16, 0, 2) == Approx(0.4));
  CHECK(taken("dgx-a100", Precision::kBf16, 1, 4) == Approx(0.4));
  for (const double none : {taken("dgx1-v100", Precision::kFp16, 0, 1), taken("dgx1-v100", Precision::kFp32, 0, 2),
                            taken("dgx-a100", Precision::kBf16, 3, 2), taken("dgx-h100", Precision::kBf16, 0, 2),
                            taken("mi300x-8gpu", Precision::kBf16, 0, 2)}) {
    CHECK(none == Approx(0).margin(1e-9));
  }
  CHECK(taken("pcie-4xv100", Precision::kFp32, 0, 1, false) == Approx(0.8));
}

TEST_CASE("price: gradients are added up at the memory's rate, without a profile too", "[unit][cost]") {
  plan::Job job;
  job.model = catalog().model("resnet50").value();
  job.cluster.node = catalog().node("dgx1-v100").value();
  job.cluster.gpus_per_node = 1;
  job.cluster.node.gpu.profiles.set({});
  job.batch = 64;
  const auto backward = [&](std::int64_t passes, const cost::Variation& variation) {
    job.strategy.accumulation = passes;
    const auto plan = std::make_shared<const plan::StepPlan>(plan::lower(job).value());
    const cost::LayerPrices layers = cost::price_layers(job, *plan, {1, 1}).value();
    const cost::PricedStep step = cost::price(job, plan, layers, variation).value();
    Time sum;
    for (const cost::PricedLayer& layer : step.classes.front().backward) sum += layer.time;
    return sum;
  };
  // 25.6 M parameters, 12 B each, at 70 % of 900 GB/s; where memory is twice as fast, half of it.
  const double moved = 12 * static_cast<double>(job.model->totals.dense_parameters);
  CHECK((backward(4, {}) - backward(1, {})).in(seconds) == Approx(moved / (0.7 * 900e9)));
  cost::Variation fast;
  fast.memory = 2;
  CHECK((backward(4, fast) - backward(1, fast)).in(seconds) == Approx(moved / (2 * 0.7 * 900e9)));
}

TEST_CASE("price: what a GPU does to compress gradients and to add up what came", "[unit][cost]") {
  plan::Job job;
  job.model = catalog().model("resnet50").value();
  job.cluster.node = catalog().node("dgx1-v100").value();
  job.cluster.gpus_per_node = 8;
  job.batch = 64;
  const auto priced = [&](const cost::Variation& variation) {
    const auto plan = std::make_shared<const plan::StepPlan>(plan::lower(job).value());
    return cost::price(job, plan, cost::price_layers(job, *plan, {1, 1}).value(), variation).value();
  };
  // The largest 1 %: three passes over 4 B of 25.6 M gradients, which two copies brought into buckets and back (read
  // and written each); then 2 % of those bytes of each of 8 ranks, read and added.
  job.strategy.compression = plan::Compression::kTopK;
  const cost::PricedStep top = priced({});
  Time sum;
  for (const cost::PricedRow& row : top.rows) sum += row.encoding;
  const double gradients = 4 * static_cast<double>(job.model->totals.dense_parameters);
  const double memory = top.rates.device.memory.in(bytes_per_second);
  CHECK(sum.in(seconds) == Approx((4 + 3 + 8 * 2 * 0.02) * gradients / memory));
  // PowerSGD: products as the rates have them, but three launches a matrix at least; then 113 us for each P.
  job.strategy.compression = plan::Compression::kPowerSgd;
  for (const double faster : {1.0, 2.0}) {
    cost::Variation variation;
    variation.compute = faster;
    const cost::PricedStep step = priced(variation);
    const plan::StepPlan plan = plan::lower(job).value();
    std::int64_t matrices = 0;
    for (std::size_t i = 0; i < step.rows.size(); ++i) {
      const plan::Row& row = plan.rows[i];
      matrices += row.orthogonalized;
      const double products =
          row.encoded / step.rates.device.memory / seconds(1) + row.encoding / step.rates.device.compute / seconds(1);
      const double of_each = static_cast<double>(row.orthogonalized);
      const double issued = 3 * of_each * plan::launch_interval_of(job).in(seconds);
      CHECK(step.rows[i].encoding.in(seconds) == Approx(std::max(products, issued) + of_each * 113e-6 / faster));
    }
    CHECK(matrices > 30);
  }
}

TEST_CASE("price: an assumed share of the peak is no more than large products sustain", "[unit][cost]") {
  plan::Job job;
  job.cluster.node = catalog().node("g6.xlarge").value();  // L4
  CHECK(cost::compute_share(job) == Approx(10.9 / 30.3));
  job.precision = Precision::kFp8;  // nobody timed it
  CHECK(cost::compute_share(job) == plan::kDefaultEfficiency);
  job.cluster.node = catalog().node("pcie-8x4090").value();
  job.precision = Precision::kFp16;  // 156 of 165
  CHECK(cost::compute_share(job) == plan::kDefaultEfficiency);
  job.efficiency.compute = 0.99;
  CHECK(cost::compute_share(job) == 0.99);
}

TEST_CASE("price: what a collective sends goes through GPUs, alone on its server or with others", "[unit][cost]") {
  const cost::WireBytes inside{.intra = megabytes(14), .inter = megabytes(16)};
  CHECK(inside.of_gpu(8).in(megabytes) == Approx(14));  // 2 of the 16 that leave the server are its own
  CHECK(inside.of_gpu(1).in(megabytes) == Approx(16));
}

TEST_CASE("price: groups side by side have ports of their own, or a part of one", "[unit][cost]") {
  // Eight ports of 25 GB/s, TCP at 4 GB/s each at most. Alone a group has 32 GB/s, and 4 on one way; so has each of
  // eight groups on its port; two have four ports each. Of four ports eight groups have half of one each.
  plan::Job job;
  job.cluster.node = catalog().node("dgx-a100").value();
  job.cluster.node.network.transport = hardware::NetworkTransport::kTcp;
  job.cluster.nodes = 2;
  job.cluster.gpus_per_node = 8;
  const auto rates = [&](std::int64_t siblings) {
    const plan::RankGroup group{.ranks = 16 / siblings, .nodes = 2, .siblings = siblings};
    return cost::effective_rates(cost::communicator_of(job, group), {});
  };
  CHECK(rates(1).inter.in(gigabytes_per_second) == Approx(32));
  CHECK(rates(1).port.in(gigabytes_per_second) == Approx(4));
  CHECK(rates(8).inter.in(gigabytes_per_second) == Approx(4));
  CHECK(rates(8).port.in(gigabytes_per_second) == Approx(4));
  CHECK(rates(2).inter.in(gigabytes_per_second) == Approx(16));
  CHECK(rates(2).port.in(gigabytes_per_second) == Approx(4));
  job.cluster.node.network_ports = 4;
  CHECK(rates(8).inter.in(gigabytes_per_second) == Approx(2));
  CHECK(rates(8).port.in(gigabytes_per_second) == Approx(2));
}

TEST_CASE("price: recurrent layers' kernels wait for each other on GPUs without a profile too", "[unit][cost]") {
  plan::Job job;
  job.model = catalog().model("lstm_text_classification").value();
  job.cluster.node = catalog().node("dgx-h100").value();
  job.cluster.gpus_per_node = 1;
  job.batch = 8;
  const auto waits = [&](const cost::Variation& variation) {
    const auto plan = std::make_shared<const plan::StepPlan>(plan::lower(job).value());
    const cost::LayerPrices layers = cost::price_layers(job, *plan, {1, 1}).value();
    const cost::PricedStep step = cost::price(job, plan, layers, variation).value();
    Time sum;
    for (const cost::PricedLayer& layer : step.classes.front().forward) sum += layer.host;
    for (const cost::PricedLayer& layer : step.classes.front().backward) sum += layer.host;
    return sum.in(microseconds);
  };
  const double measured = waits({});
  CHECK(measured > 1000);
  job.cluster.node.gpu.profiles.set({});
  CHECK(waits({}) == Approx(measured));
  cost::Variation fast;
  fast.compute = fast.memory = 2;
  CHECK(waits(fast) == Approx(measured));
  job.cuda_graphs = true;
  CHECK(waits({}) == 0);
}
