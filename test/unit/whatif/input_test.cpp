#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "catalog.h"
#include "ddlsim/report/views.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/workload/dataset.h"
#include "overrides.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;
using ddlsim::test::joined;
using ddlsim::test::overrides;

namespace {

Expected<answer::Prediction> asked(std::vector<Override> settings) {
  settings = joined(overrides("model resnet18; node p3.16xlarge; precision fp16"), settings);
  const auto scenario = resolve(catalog(), settings);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  return predict(*scenario);
}

std::string refused(std::vector<Override> settings) {
  const auto answer = asked(std::move(settings));
  REQUIRE_FALSE(answer);
  return to_string(answer.error());
}

bool notes(const answer::Prediction& prediction, const std::string& part) {
  return std::any_of(prediction.notes.begin(), prediction.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("input: all that nobody says of a server is asked for at once", "[unit][input]") {
  const std::vector<Override> reads = overrides("node pcie-8xv100; input.dataset imagenet");
  CHECK_THAT(refused(reads), Catch::Matchers::Contains("nobody says what processors, storage and memory") &&
                                 Catch::Matchers::Contains("input.cpu=") &&
                                 Catch::Matchers::Contains("input.storage=") &&
                                 Catch::Matchers::Contains("input.cache_size="));
  std::vector<Override> said = reads;
  said = joined(said, overrides("input.cpu xeon-e5-2686-v4; input.cache all"));
  CHECK(asked(said));
}

TEST_CASE("input: nobody says what the loader is, so it keeps up and one note says with what", "[unit][input]") {
  const auto prediction = asked({}).value();
  CHECK(prediction.breakdown.input_exposed == Time::zero());
  CHECK(notes(prediction, "the loader is taken to keep up"));
  CHECK_FALSE(prediction.input.samples_per_second);
  CHECK(prediction.input.needed_samples_per_second == Approx(prediction.throughput_samples_per_second));
}

TEST_CASE("input: three workers of a GPU make as much as three cores decode", "[unit][input]") {
  // 1.733 + 1.8 x 1.1 ms at 0.66 of the speed are 5.626 ms; 3 workers of 8 GPUs: 4,266 images/s. ImageNet fits in 488
  // GiB.
  const auto prediction = asked(overrides("input.dataset imagenet; input.workers 3")).value();
  CHECK(prediction.throughput_samples_per_second == Approx(8 * 3 / (3.713e-3 / 0.66)).epsilon(1e-9));
  CHECK(*prediction.input.samples_per_second == Approx(prediction.throughput_samples_per_second).epsilon(1e-9));
  CHECK(prediction.input.from_storage == 0);
  CHECK(prediction.breakdown.input_exposed > Time::zero());
  CHECK(prediction.breakdown.step().in(seconds) == Approx(prediction.step_time.in(seconds)).epsilon(1e-12));
  CHECK(prediction.bottleneck == "cpu");
  const auto many = asked(overrides("input.dataset imagenet; input.workers 8")).value();
  CHECK(many.step_time < prediction.step_time);
}

TEST_CASE("input: the first epoch reads from storage, later ones from memory", "[unit][input]") {
  // 250 MiB/s of 114,660 bytes each: 2,286 images/s.
  const auto first = asked(overrides("input.dataset imagenet; input.epoch first")).value();
  CHECK(first.throughput_samples_per_second == Approx(250 * 1024 * 1024 / 114660.0).epsilon(1e-9));
  CHECK(first.input.bound_by == "storage");
  CHECK(first.bottleneck == "storage");
  const auto pinned =
      asked(overrides("input.dataset imagenet; input.cache pinned; input.cache_size 73.449 GB")).value();
  CHECK(pinned.input.from_storage == Approx(0.5).epsilon(1e-4));
  // What nothing is read from, and a cache that has no size.
  const std::vector<Override> slow = overrides("input.dataset imagenet; input.storage.latency 1 s");
  CHECK(notes(asked(slow).value(), "stated, but without effect here: input.storage.latency, as all samples are"));
  auto run = slow;
  run.push_back({"training.epochs", "1", {}});
  CHECK_FALSE(notes(asked(run).value(), "without effect here: input.storage.latency"));
  const auto sized = asked(overrides("input.dataset imagenet; input.cache none; input.cache_size 10 GB"));
  CHECK(notes(sized.value(), "stated, but without effect here: input.cache_size"));
}

TEST_CASE("input: an object store is read through the server's port", "[unit][input]") {
  const auto delivered = [](const std::string& storage) {
    return *asked(
        overrides("model alexnet; node p3.8xlarge; input.dataset cosmoflow; input.epoch first; input.loader pipelined; "
                  "input.workers 64; input.storage {}",
                  storage));
  };
  // 70 % of 10 Gb/s, samples of 2.828 MB.
  const double port = 0.7 * 1.25e9 / catalog().dataset("cosmoflow").value()->stored.in(bytes);
  for (const std::string storage : {"object-store", "nfs-10g"}) {
    CAPTURE(storage);
    const answer::Prediction prediction = delivered(storage);
    CHECK(*prediction.input.samples_per_second == Approx(port));
    CHECK(prediction.input.bound_by == "network");
    CHECK(prediction.bottleneck == "network");
  }
  CHECK(delivered("ebs-gp2").bottleneck == "storage");
}

TEST_CASE("input: what a volume's rates stand for is said where samples come from it", "[unit][input]") {
  const auto read = [](std::vector<Override> more) {
    more = joined(more, overrides("input.dataset imagenet; input.epoch first"));
    return asked(std::move(more)).value();
  };
  const auto volume = read(overrides("input.storage ebs-gp3"));
  CHECK(notes(volume, "storage: AWS EBS gp3 volume: 125 MiB/s and 3,000 IOPS are what every volume has"));
  CHECK(notes(read(overrides("input.storage ebs-io2")), "reaches 1.75 GB/s of all its volumes in the long run"));
  const auto own =
      predict(
          resolve(
              catalog(),
              overrides(
                  "model resnet18; node dgx1-v100; input.dataset imagenet; input.epoch first; input.storage ebs-io2"))
              .value())
          .value();
  CHECK(notes(own, "Nobody says what NVIDIA DGX-1 with V100 reaches of all its volumes"));
  // Nothing of a rate that somebody states, nor where memory has all of it.
  CHECK_FALSE(notes(read(overrides("input.storage ebs-gp3; input.storage.bandwidth 500 MB/s")), "storage: "));
  CHECK_FALSE(notes(asked(overrides("input.dataset imagenet")).value(), "storage: "));
  CHECK(notes(asked(overrides("input.dataset imagenet; training.epochs 3")).value(), "storage: AWS EBS gp2"));
}

TEST_CASE("input: text is read in the model's sequences, as many tokens an epoch", "[unit][input]") {
  // 156,725,653 sequences of 512 tokens are 626,902,612 of 128, a quarter of the bytes each.
  const workload::Dataset wikipedia = *catalog().dataset("wikipedia").value();
  const workload::Dataset shorter = workload::in_sequences_of(wikipedia, 128);
  CHECK(shorter.samples == 626902612);
  CHECK(shorter.stored.in(bytes) == Approx(625));
  CHECK(shorter.size().in(bytes) == Approx(wikipedia.size().in(bytes)).epsilon(1e-6));
  CHECK(workload::in_sequences_of(wikipedia, 8192).samples == 9795353);
  CHECK(workload::in_sequences_of(shorter, 512).samples == wikipedia.samples);
  CHECK(workload::in_sequences_of(*catalog().dataset("imagenet").value(), 128).samples == 1281167);
  const auto run = [](const char* sequence) {
    const auto scenario = resolve(
        catalog(),
        overrides("model bert_large; model.sequence {}; node p4d.24xlarge; input.dataset wikipedia; training.epochs 1",
                  sequence));
    return predict(scenario.value()).value();
  };
  const auto as_stored = run("512");
  const auto cut = run("128");
  CHECK(static_cast<double>(cut.training->steps) ==
        Approx(4.0 * static_cast<double>(as_stored.training->steps)).epsilon(1e-5));
  CHECK(notes(cut, "the model takes sequences of 128 tokens"));
  CHECK_FALSE(notes(as_stored, "the model takes sequences"));
}

TEST_CASE("input: a volume is no faster than the server's path to volumes", "[unit][input]") {
  const auto read = [](const std::string& node, const std::string& storage) {
    const auto scenario = resolve(catalog(), overrides("model resnet18; node {}; input.storage {}", node, storage));
    return scenario->cluster.node.host.storage->bandwidth.in(bytes_per_second);
  };
  CHECK(read("p3.2xlarge", "ebs-gp2") == Approx(218.75e6));
  CHECK(read("p3.2xlarge", "ebs-gp3-max") == Approx(218.75e6));
  CHECK(read("p3.2xlarge", "ebs-gp3") == Approx(125 * 1048576.0));
  CHECK(read("g4dn.xlarge", "ebs-gp3-max") == Approx(118.75e6));
  CHECK(read("g5.xlarge", "ebs-gp3") == Approx(87.5e6));
  CHECK(read("p3.8xlarge", "ebs-io2") == Approx(875e6));
  CHECK(read("p4d.24xlarge", "ebs-io2") == Approx(2375e6));
  CHECK(read("dgx1-v100", "ebs-io2") == Approx(4000 * 1048576.0));
  CHECK(read("p3.2xlarge", "nvme") == Approx(2896e6));
}

TEST_CASE("input: the event fidelity has the same step", "[unit][input]") {
  for (const std::vector<Override>& change : std::vector<std::vector<Override>>{
           overrides("input.workers 3"),
           overrides("input.workers 0"),
           overrides("input.workers 3; input.variation 2"),
           overrides("input.loader dali; input.decode gpu; input.workers 3"),
           overrides("input.workers 3; input.pinned no"),
           overrides("input.workers 16; parallel.pipeline 2; strategy.accumulation 4"),
       }) {
    std::vector<Override> settings = change;
    settings.push_back({"input.dataset", "imagenet", {}});
    const auto analytic = asked(settings);
    REQUIRE(analytic);
    settings.push_back({"fidelity", "event", {}});
    const auto event = asked(settings);
    REQUIRE(event);
    INFO(change.front().value);
    CHECK(event->step_time.in(seconds) == Approx(analytic->step_time.in(seconds)).epsilon(2e-9));
  }
}

TEST_CASE("input: what takes GPU time, and what nothing hides", "[unit][input]") {
  const std::vector<Override> enough = overrides("input.dataset imagenet; input.workers 16; input.threads 512");
  const auto with = [&](std::vector<Override> more) {
    more = joined(more, enough);
    return asked(more).value().step_time;
  };
  const Time plain = with({});
  // 64 samples of 45 us.
  CHECK((with(overrides("input.decode gpu")) - plain).in(milliseconds) == Approx(64 * 0.045).epsilon(1e-6));
  CHECK(with(overrides("input.pinned no")) > plain);
  // Without workers a step waits for 64 samples of one core, in Python: 1.733 + 1.8 x 1.1 = 3.713 ms, 64 x 5.626 ms.
  const auto alone = asked(overrides("input.dataset imagenet; input.workers 0")).value();
  CHECK(alone.breakdown.input_exposed.in(milliseconds) == Approx(64 * 3.713 / 0.66).epsilon(1e-9));
}

TEST_CASE("input: bad input", "[unit][input]") {
  const Override data{"input.dataset", "imagenet", {}};
  CHECK(refused({data, {"input.threads", "0", {}}}).find("input.threads") != std::string::npos);
  CHECK(refused({data, {"input.workers", "60000", {}}, {"batch", "128", {}}}).find("batches") != std::string::npos);
  CHECK(refused({data, {"input.storage.capacity", "100 GB", {}}}).find("holds 100 GB") != std::string::npos);
  CHECK(refused(overrides("input.dataset kits19; batch 512")).find("samples, ") != std::string::npos);
  CHECK(refused(overrides("input.dataset imagenette")).find("imagenet") != std::string::npos);
  CHECK(refused(overrides("input.dataset imagenet-22k; node g4dn.xlarge")).find("holds 125 GB") != std::string::npos);
  CHECK(refused({data, {"input.cache", "pinnde", {}}}).find("pinned") != std::string::npos);
  CHECK(refused({data, {"input.loader", "workrs", {}}}).find("workers") != std::string::npos);
  CHECK(refused({data, {"node", "dgx-b200", {}}}).find("input.cpu") != std::string::npos);
  CHECK(refused({data, {"fidelity", "aggregate", {}}}).find("knows nothing of the loader") != std::string::npos);
  const auto idle = asked(overrides("input.prefetch 4")).value();
  CHECK(notes(idle, "without effect here: input.prefetch"));
}

TEST_CASE("input: a processor of a server that nobody described is in two sockets", "[unit][input]") {
  const std::vector<Override> settings = overrides("model resnet18; node dgx-b200; input.cpu epyc-7742");
  const hardware::Host host = resolve(catalog(), settings).value().cluster.node.host;
  CHECK(host.threads == 2 * 64 * 2);
}

TEST_CASE("input: a GPU decodes a larger image longer", "[unit][input]") {
  CHECK(notes(asked(overrides("node dgx-h100; input.dataset imagenet; input.decode gpu")).value(),
              "the time measured on a V100"));
  const auto decode = [](const char* dataset, std::vector<Override> more) {
    const std::vector<Override> settings =
        joined(overrides("model resnet18; node p3.16xlarge; input.dataset {}", dataset), more);
    return resolve(catalog(), settings).value().input.gpu_decode_of().in(microseconds);
  };
  CHECK(decode("imagenet", {}) == Approx(45));
  CHECK(decode("openimages", {}) == Approx(45 * 321851.0 / 114660));
  CHECK(decode("openimages", overrides("input.gpu_decode 100 us")) == Approx(100));
}

TEST_CASE("input: no interval and no measured step beats the storage that somebody stated", "[unit][input]") {
  const std::vector<Override> first =
      overrides("input.dataset imagenet; input.epoch first; model resnet50; batch 64; global_batch 512");
  const auto with = [&](std::vector<Override> more) {
    std::vector<Override> settings = first;
    settings = joined(settings, more);
    return settings;
  };
  // 512 images of 114,660 bytes at 262 MB/s.
  const Time floor = seconds(512 * 114660 / 262e6);
  const Override stated{"input.storage.bandwidth", "262 MB/s", {}};
  const auto bound = asked(with({stated})).value();
  CHECK(bound.step_time.in(seconds) == Approx(floor.in(seconds)).epsilon(1e-9));
  CHECK(bound.interval_90.first == bound.step_time);
  CHECK(asked(with({stated, {"input.cache", "none", {}}, {"input.epoch", "later", {}}}))->interval_90.first ==
        bound.step_time);
  // The same volume by its file is typical, and may be faster.
  const auto typical = asked(with(overrides("input.storage ebs-gp2"))).value();
  CHECK(typical.interval_90.first < typical.step_time * 0.9);
  // 2,000 requests of up to 256 KiB a second.
  const auto requests = asked(with(overrides("input.storage.iops 2000 IOPS"))).value();
  CHECK(requests.interval_90.first.in(milliseconds) == Approx(256));
  // Half of the set is kept: no cache of that size misses less than half.
  const auto cached =
      asked(with({stated, {"input.epoch", "later", {}}, {"input.cache_size", "73.449 GB", {}}})).value();
  CHECK(cached.interval_90.first < cached.step_time);
  CHECK(cached.interval_90.first >= floor * 0.49);

  const std::string no = refused(with({stated, {"measured.step", "175 ms", {}}}));
  CHECK(no.find("faster than its storage allows") != std::string::npos);
  CHECK(no.find("512 images take 224.1 ms") != std::string::npos);
  CHECK(asked(with({stated, {"measured.step", "230 ms", {}}})));
  CHECK(asked(with(overrides("input.storage ebs-gp2; measured.step 175 ms"))));
}

TEST_CASE("input: workers that wait for an object store are no processor", "[unit][input]") {
  // 100 ms to the first byte of a sample: 4 workers of 8 GPUs ask for 320 a second at most, whatever decodes them.
  std::vector<Override> far =
      overrides("input.dataset imagenet; input.epoch first; input.storage object-store; input.workers 4");
  const auto waits = asked(far).value();
  CHECK(*waits.input.samples_per_second < 320);
  CHECK(waits.input.bound_by == "workers");
  CHECK(waits.bottleneck == "loader workers");
  // The same workers beside a disk that answers at once are busy decoding.
  far[2].value = "nvme";
  const auto busy = asked(far).value();
  CHECK(busy.input.bound_by == "workers");
  CHECK(busy.bottleneck == "cpu");
}

TEST_CASE("input: nothing binds a loader without work", "[unit][input]") {
  // Volumes are kept as they are trained on: nothing is read, decoded or handed over.
  const auto prediction = asked(overrides("model unet3d; input.dataset kits19")).value();
  REQUIRE(prediction.input.samples_per_second);
  CHECK(std::isinf(*prediction.input.samples_per_second));
  CHECK(prediction.input.bound_by.empty());
  CHECK(report::render(prediction, "", report::Format::kText).find("delivers") == std::string::npos);
  const std::string json = report::render(prediction, "", report::Format::kJson);
  CHECK(json.find("\"loader_samples_per_s\": null") != std::string::npos);
  CHECK(json.find("\"bound_by\": null") != std::string::npos);
  CHECK(report::render(prediction, "", report::Format::kCsv).find("inf") == std::string::npos);
}

TEST_CASE("input: a server's storage and processors without a data set say that nothing is read", "[unit][input]") {
  const auto said = [](std::vector<Override> more) {
    more = joined(overrides("model resnet18; node dgx1-v100"), more);
    const auto notes = predict(resolve(catalog(), more).value()).value().notes;
    const std::string start = "stated, but without effect here: ";
    for (const std::string& note : notes) {
      if (note.starts_with(start)) return note.substr(start.size());
    }
    return std::string();
  };
  CHECK(said(overrides("input.storage hdd")) == "input.storage");
  CHECK(said(overrides("input.threads 8; input.storage.bandwidth 1 GB/s")) == "input.storage.bandwidth, input.threads");
  CHECK(said(overrides("input.storage hdd; input.dataset imagenet; input.epoch first")).empty());
  // Parameter servers sum in the memory of the processors.
  CHECK(said(overrides("input.threads 8; strategy ps")).empty());
}
