#include "ddlsim/cost/loader.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "catalog.h"
#include "ddlsim/calib/robust.h"
#include "ddlsim/io/csv.h"

using namespace ddlsim;
using namespace ddlsim::cost;
using ddlsim::test::catalog;

namespace {

double per_s(Rate rate) { return rate.in(per_second); }
double ms(Time time) { return time.in(milliseconds); }

/// Of an LRU cache of `cached` of `samples`, one of `servers` that read a part of a new order each epoch.
double simulated_hit(double cached, std::size_t servers, std::size_t samples, int epochs) {
  std::mt19937_64 random(7);
  std::vector<std::size_t> order(samples);
  std::iota(order.begin(), order.end(), 0);
  std::list<std::size_t> recent;
  std::unordered_map<std::size_t, std::list<std::size_t>::iterator> kept;
  const auto capacity = static_cast<std::size_t>(cached * static_cast<double>(samples));
  std::size_t hits = 0;
  std::size_t reads = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < samples / servers; ++i) {
      const auto found = kept.find(order[i]);
      const bool warm = epoch >= epochs / 3;
      if (warm) ++reads;
      if (found != kept.end()) {
        if (warm) ++hits;
        recent.splice(recent.begin(), recent, found->second);
        continue;
      }
      recent.push_front(order[i]);
      kept[order[i]] = recent.begin();
      if (kept.size() > capacity) {
        kept.erase(recent.back());
        recent.pop_back();
      }
    }
  }
  return static_cast<double>(hits) / static_cast<double>(reads);
}

/// 8 cores of two threads, of which the second fills a quarter of one.
hardware::Host ten_cores_worth() {
  hardware::Cpu cpu;
  cpu.cores = 8;
  cpu.threads_per_core = 2;
  cpu.second_thread = 0.25;
  hardware::Host host;
  host.cpu = cpu;
  host.threads = 16;
  return host;
}

std::vector<std::map<std::string, std::string>> rows_of(const std::string& name, std::vector<std::string> columns) {
  const std::string path = std::string(DDLSIM_SOURCE_DATA) + "/test/data/loader/" + name;
  std::ifstream stream(path);
  auto csv = io::CsvReader::open(stream, path, columns).value();
  std::vector<std::map<std::string, std::string>> rows;
  while (csv.next().value()) {
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < columns.size(); ++i) row[columns[i]] = csv.field(i);
  }
  return rows;
}

}  // namespace

TEST_CASE("loader: an LRU cache under new orders hits as its law says", "[unit][loader]") {
  CHECK(lru_hit(0) == 0);
  CHECK(lru_hit(1) == 1);
  CHECK(lru_hit(0.5) == Approx(0.5 + 0.5 * std::log(0.5)));
  for (const double cached : {0.25, 0.35, 0.5, 0.65, 0.9}) {
    CHECK(lru_hit(cached) == Approx(simulated_hit(cached, 1, 20000, 18)).margin(0.002));
  }
  for (const double cached : {0.2, 0.5, 0.8}) {
    CHECK(lru_hit(cached, 2) == Approx(simulated_hit(cached, 2, 8000, 120)).margin(0.002));
    CHECK(lru_hit(cached, 4) == Approx(simulated_hit(cached, 4, 8000, 240)).margin(0.002));
  }
}

TEST_CASE("loader: where samples come from", "[unit][loader]") {
  using plan::CachePolicy;
  using plan::Epoch;
  CHECK(sourced(CachePolicy::kPinned, Epoch::kLater, 0.35, 1).storage == Approx(0.65));
  CHECK(sourced(CachePolicy::kPinned, Epoch::kFirst, 0.35, 1).storage == 1);
  CHECK(sourced(CachePolicy::kNone, Epoch::kLater, 0.35, 1).storage == 1);
  CHECK(sourced(CachePolicy::kPage, Epoch::kLater, 0.35, 1).storage == Approx(-0.65 * std::log(0.65)).margin(0.65));
  CHECK(sourced(CachePolicy::kPage, Epoch::kLater, 1.2, 1).storage == 0);
  CHECK(sourced(CachePolicy::kAll, Epoch::kFirst, 0, 1).storage == 0);
  // 2 servers with 40 % each: 80 % of the set is in memory, half of that on the other server.
  const Sourced shared = sourced(CachePolicy::kPartitioned, Epoch::kLater, 0.4, 2);
  CHECK(shared.storage == Approx(0.2));
  CHECK(shared.remote == Approx(0.4));
  CHECK(sourced(CachePolicy::kPartitioned, Epoch::kLater, 0.6, 2).storage == 0);
}

TEST_CASE("loader: storage as DS-Analyzer works it out", "[unit][loader]") {
  // 146 GiB of 1,281,167 images at 530 MB/s: 4,331 a second, and with 35, 50 and 65 % pinned 6,664, 8,663, 12,375.
  const LoaderWork work{.stored = gibibytes(146) / 1281167.0, .cpu = milliseconds(1)};
  LoaderShare share{.storage = bytes_per_second(530e6), .stream = bytes_per_second(530e6)};
  for (const auto& [pinned, rate] : {std::pair{0.0, 4331.0}, {0.35, 6664.0}, {0.5, 8663.0}, {0.65, 12375.0}}) {
    share.from.storage = 1 - pinned;
    CHECK(per_s(loader_rates(work, share).storage) == Approx(rate).epsilon(2e-4));
  }
  share.from.storage = 1;
  share.iops = per_second(1000);
  CHECK(per_s(loader_rates(work, share).storage) == Approx(1000));
}

TEST_CASE("loader: a worker reads and then decodes, a pipeline does both at once", "[unit][loader]") {
  // 1 MB at 100 MB/s after 2 ms: 12 ms; 8 ms at double speed: 4 ms.
  LoaderWork work{.stored = megabytes(1), .cpu = milliseconds(8), .requests = 1, .latency = milliseconds(2)};
  LoaderShare share{.workers = 4,
                    .cores = 8,
                    .speed = 2,
                    .from = {.storage = 1},
                    .storage = gigabytes_per_second(1),
                    .stream = gigabytes_per_second(0.1)};
  LoaderRates rates = loader_rates(work, share);
  CHECK(per_s(rates.workers) == Approx(4 / 0.016));
  CHECK(per_s(rates.cpu) == Approx(4 / 0.004));
  CHECK(rates.slowest() == LoaderStage::kWorkers);
  work.loader = plan::Loader::kPipelined;
  rates = loader_rates(work, share);
  CHECK(per_s(rates.workers) == Approx(4 / 0.012));
  // Two cores for four threads, each a tenth slower beside the other.
  share.cores = 2;
  work.contention = 0.1;
  CHECK(per_s(loader_rates(work, share).cpu) == Approx(2 / 1.1 / 0.004));
  // Nothing ahead: one sample after the other.
  share.workers = 0;
  CHECK(per_s(loader_rates(work, share).workers) == Approx(1 / 0.016));
}

TEST_CASE("loader: Python augments as torchvision does, GPUs leave the host half of decoding", "[unit][loader]") {
  workload::Dataset data;
  data.decode = milliseconds(2);
  data.augment = milliseconds(1);
  plan::Input input;
  input.dataset = std::make_shared<const workload::Dataset>(data);
  CHECK(ms(loader_work(input, {}).cpu) == Approx(2 + 1.8));
  input.loader = plan::Loader::kPipelined;
  CHECK(ms(loader_work(input, {}).cpu) == Approx(3));
  input.decode = plan::DecodeOn::kGpu;
  CHECK(ms(loader_work(input, {}).cpu) == Approx(1));
}

TEST_CASE("loader: second threads fill what cores leave", "[unit][loader]") {
  const hardware::Host host = ten_cores_worth();
  CHECK(filled_cores(host, 4) == 4);
  CHECK(filled_cores(host, 12) == 9);
  CHECK(filled_cores(host, 100) == 10);
}

TEST_CASE("loader: threads that move messages between servers are not the loaders'", "[unit][loader]") {
  const hardware::Host host = ten_cores_worth();
  CHECK(cores_beside_training(host, 4) == Approx(9.6));
  CHECK(cores_beside_training(host, 4, 4) == Approx(10 * 12.0 / 16 - 0.4));
  CHECK(cores_beside_training(host, 4, 16) == Approx(1));  // the least: a tenth of all
  CHECK(cores_beside_training(host, 4, 64) == Approx(1));

  plan::Job job;
  job.cluster.node = catalog().node("dgx1-v100").value();
  job.cluster.gpus_per_node = 8;
  job.input.dataset = catalog().dataset("imagenet").value();
  job.input.workers = 80;
  job.strategy.kind = plan::StrategyKind::kAllReduce;
  const double alone = loader_share(job).cores;
  job.cluster.nodes = 2;
  const auto threads = static_cast<double>(job.cluster.node.host.threads);
  const double all = filled_cores(job.cluster.node.host, threads);
  CHECK(alone - loader_share(job).cores == Approx(all / threads));
  job.strategy.kind = plan::StrategyKind::kPs;  // its transport is gRPC's
  CHECK(loader_share(job).cores == Approx(alone));
}

TEST_CASE("loader: a GPU waits for the slowest stage", "[unit][loader]") {
  BatchPipeline pipeline{.storage = milliseconds(2), .worker = milliseconds(12), .workers = 4};
  CHECK(ms(wait_for_batch(pipeline, milliseconds(2))) == Approx(1));
  CHECK(wait_for_batch(pipeline, milliseconds(3)) == Time::zero());
  pipeline.storage = milliseconds(5);
  CHECK(ms(wait_for_batch(pipeline, milliseconds(2))) == Approx(3));
  pipeline.workers = 0;
  CHECK(ms(wait_for_batch(pipeline, milliseconds(100))) == Approx(12));
}

TEST_CASE("loader: numbers that vary have the mean and deviation asked for", "[unit][loader]") {
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 20000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double x = varied_share(0.3, 5, i);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  CHECK(mean == Approx(1).margin(0.01));
  CHECK(std::sqrt(squares / kDraws - mean * mean) == Approx(0.3).margin(0.01));
  CHECK(varied_share(0, 5, 1) == Approx(1));
}

TEST_CASE("loader: PyTorch's workers on four processors, decoder by decoder", "[unit][loader]") {
  // One thread says what a decoder takes; opencv set what handing over costs, and is not counted.
  const auto rows = rows_of("jpeg.csv", {"cpu", "library", "protocol", "threads_or_workers", "images_per_s"});
  std::map<std::pair<std::string, std::string>, double> alone;
  for (auto row : rows) {
    if (row["protocol"] == "decode-memory") alone[{row["cpu"], row["library"]}] = std::stod(row["images_per_s"]);
  }
  std::vector<double> errors;
  for (auto row : rows) {
    const int workers = row["threads_or_workers"].empty() ? 0 : std::stoi(row["threads_or_workers"]);
    if (row["protocol"] != "dataloader" || workers == 0 || row["library"] == "opencv") continue;
    const auto cpu = catalog().cpu(row["cpu"]).value();
    const hardware::Host host{.cpu = cpu, .threads = 16};
    const LoaderWork work{.decoded = bytes(657.6e3), .cpu = seconds(1 / alone.at({row["cpu"], row["library"]}))};
    const LoaderRates rates = loader_rates(work, {.workers = static_cast<double>(workers),
                                                  .cores = filled_cores(host, workers),
                                                  .hand_over = cpu.hand_over,
                                                  .receive = cpu.receive});
    errors.push_back(std::abs(per_s(rates.all()) / std::stod(row["images_per_s"]) - 1));
  }
  REQUIRE(errors.size() > 100);
  INFO("median " << calib::median(errors) << ", worst " << calib::quantile(errors, 1));
  CHECK(calib::median(errors) < 0.15);
}

TEST_CASE("loader: storage systems of MLPerf Storage are never below what they delivered", "[unit][loader]") {
  // What a system can deliver is at least the most it did; what it was asked for follows from the emulated
  // accelerators.
  auto rows =
      rows_of("mlperf_storage.csv", {"id", "submitter", "storage_system", "model", "accelerators", "hosts",
                                     "samples_per_s", "record_length_bytes", "batch_size", "computation_time_s"});
  std::map<std::string, double> most;
  for (auto& row : rows) {
    double& bytes_of = most[row["submitter"] + row["storage_system"]];
    bytes_of = std::max(bytes_of, std::stod(row["samples_per_s"]) * std::stod(row["record_length_bytes"]));
  }
  for (auto& row : rows) {
    const double accelerators = std::stod(row["accelerators"]);
    const double batch = std::stod(row["batch_size"]);
    const Bandwidth storage = bytes_per_second(most[row["submitter"] + row["storage_system"]] / accelerators);
    const BatchPipeline pipeline{.storage = bytes(std::stod(row["record_length_bytes"]) * batch) / storage};
    const Time step = seconds(std::stod(row["computation_time_s"]));
    const Time whole = step + wait_for_batch(pipeline, step);
    INFO(row["id"] << " " << row["storage_system"]);
    CHECK(accelerators * batch / whole.in(seconds) >= std::stod(row["samples_per_s"]) * (1 - 1e-9));
  }
}

TEST_CASE("loader: what servers share is read through their ports", "[unit][loader]") {
  const LoaderWork work{.stored = bytes(1e6), .cpu = microseconds(1)};
  LoaderShare share{.workers = 64,
                    .cores = 64,
                    .from = {.storage = 1},
                    .storage = bytes_per_second(10e9),
                    .stream = bytes_per_second(10e9),
                    .network = bytes_per_second(1e9)};
  CHECK(loader_rates(work, share).all().in(per_second) == Approx(10'000));
  share.by_network = true;
  CHECK(loader_rates(work, share).all().in(per_second) == Approx(1'000));
  CHECK(loader_rates(work, share).slowest() == LoaderStage::kNetwork);
}
