#include "ddlsim/io/jobs_file.h"

#include <catch2/catch.hpp>
#include <string>

using namespace ddlsim;
using Catch::Matchers::Contains;

namespace {

Expected<io::JobsFile> read(const std::string& text) {
  const auto document = io::parse_yaml(text, "jobs.yaml");
  if (!document) return tl::unexpected<Error>(document.error());
  return io::read_jobs(*document, "jobs.yaml");
}

std::string fault(const std::string& text) {
  const auto file = read(text);
  return file ? std::string("no fault") : to_string(file.error());
}

std::string with_job(const std::string& job) { return "server: {node: dgx1-v100}\njobs:\n  - {" + job + "}\n"; }

}  // namespace

TEST_CASE("jobs file: everything that it can say", "[unit][jobs_file]") {
  const auto file = read(R"(
server: {node: dgx1-v100, nodes: 3, cores: 24, memory: 500 GB, storage: nvme, storage_bandwidth: 500 MB/s}
policies: [even, a-dloader]
objective: full-speed
fair: no
restart: 4 s
hysteresis: 2 %
notes: [one]
jobs:
  - {name: a, model: resnet18, dataset: imagenet, gpus: 4, batch: 256, arrival: 30 min, epochs: 2.5, most_workers: 9, set: {precision: fp16}}
  - {name: b, samples_per_s: {12: 100, 1: 10}, stored: 110 kB, samples: 2e6}
  - name: c
    time: 2 h
    samples_per_s:
      - {memory: 62.5 GB, workers: {1: 10}}
      - {memory: 125 GB, workers: {1: 10, 2: 20}}
)");
  REQUIRE(file);
  CHECK(file->server.nodes == 3);
  CHECK(file->server.cores == 24);
  CHECK(file->server.memory == gigabytes(500));
  CHECK(file->policies.size() == 2);
  CHECK(file->objective == io::ShareObjective::kFullSpeed);
  CHECK_FALSE(file->fair);
  CHECK(file->restart == seconds(4));
  CHECK(file->hysteresis == 0.02);
  const io::JobEntry& a = file->jobs[0];
  CHECK(a.model->text == "resnet18");
  CHECK(a.gpus == 4);
  CHECK(a.arrival == hours(0.5));
  CHECK(a.epochs == 2.5);
  CHECK(a.most_workers == 9);
  CHECK(a.settings.front().second.text == "fp16");
  CHECK(a.settings.front().second.where.line == 10);
  const io::JobEntry& b = file->jobs[1];
  CHECK(b.rates.front().points.front().first == 1);
  CHECK(b.rates.front().points.back().second == per_second(100));
  CHECK(b.stored == kilobytes(110));
  CHECK(b.samples == 2'000'000);
  CHECK(file->jobs[2].rates[1].memory == gigabytes(125));
  CHECK(file->jobs[2].time == hours(2));
}

TEST_CASE("jobs file: jobs to draw", "[unit][jobs_file]") {
  const auto file = read(R"(
server: {node: dgx1-v100}
draw: {jobs: 7, seed: 3, per_hour: 9.5, gpus: {1: 3, 8: 1}, time: [1 min, 1 h], kinds: [{name: a, weight: 2, samples_per_s: {1: 5}}]}
)");
  REQUIRE(file);
  REQUIRE(file->draw);
  CHECK(file->draw->jobs == 7);
  CHECK(file->draw->seed == 3);
  CHECK(file->draw->per_hour == 9.5);
  CHECK(file->draw->gpus[1] == std::pair<std::int64_t, double>(8, 1.0));
  CHECK(file->draw->longest == hours(1));
  CHECK(file->draw->kinds.front().weight == 2);
}

TEST_CASE("jobs file: jobs that are none", "[unit][jobs_file]") {
  CHECK_THAT(fault(with_job("name: a, samples_per_s: {1: 5}, samples: 10, arrival: -1 s")),
             Contains("jobs.yaml:3:") && Contains("before time zero"));
  CHECK_THAT(fault(with_job("name: a, samples_per_s: {1: 5}")), Contains("would never end") && Contains("epochs: 10"));
  CHECK_THAT(fault(with_job("name: a, samples_per_s: {1: 5}, samples: 5, steps: 2")), Contains("has 2 lengths"));
  CHECK_THAT(fault(with_job("name: a, samples: 5")), Contains("neither a model nor measured rates"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, model: x, dataset: y, samples_per_s: {1: 5}")),
             Contains("a model and measured rates"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, model: resnet18")), Contains("no dataset"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, dataset: imagenet, samples_per_s: {1: 5}")),
             Contains("settings that change none"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, model: m, dataset: d, stored: 1 kB")), Contains("the data set's"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, samples_per_s: {0: 5}")), Contains("no count of workers"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, samples_per_s: {1: -5}")), Contains("not above 0"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, samples_per_s: {1: 5, 01: 6}")), Contains("stands twice"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, samples_per_s: fast")), Contains("rates by workers are a map"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, samples_per_s: []")), Contains("no rates in the list"));
  CHECK_THAT(fault(with_job("name: a, samples: 0, samples_per_s: {1: 5}")), Contains("out of range"));
  CHECK_THAT(fault(with_job("name: a, steps: 0, samples_per_s: {1: 5}")), Contains("jobs.yaml:3:"));
  CHECK_THAT(fault(with_job("name: a, time: 5, samples_per_s: {1: 5}")), Contains("unit"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, model: m, dataset: d, set: {nodes: 3}")),
             Contains("'nodes' is no setting of one job"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, model: m, dataset: d, set: fast")), Contains("a map of settings"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, samples_per_s: {1: 5}, gpu: 2")), Contains("gpus"));
  CHECK_THAT(fault(with_job("name: a, samples: 5, samples_per_s: {1: 5}, weight: 2")), Contains("weight"));
  CHECK_THAT(
      fault(with_job("name: a, samples: 5, samples_per_s: {1: 5}}\n  - {name: a, samples: 5, samples_per_s: {1: 5}")),
      Contains("the name 'a' stands twice"));
}

TEST_CASE("jobs file: files that are none", "[unit][jobs_file]") {
  const std::string job = "jobs: [{name: a, samples: 5, samples_per_s: {1: 5}}]\n";
  CHECK_THAT(fault(job), Contains("server"));
  CHECK_THAT(fault("server: {node: n}\n"), Contains("no jobs: nobody says which"));
  CHECK_THAT(fault("server: {node: n}\njobs: []\n"), Contains("at least one"));
  CHECK_THAT(fault("server: {node: n}\ndraw: {}\n" + job), Contains("one of them"));
  CHECK_THAT(fault("server: {node: n, cores: 0}\n" + job), Contains("jobs.yaml:1:") && Contains("'0'"));
  CHECK_THAT(fault("server: {node: n, nodes: 0}\n" + job), Contains("'0'"));
  CHECK_THAT(fault("server: {node: n, storage_bandwidth: 5 GB}\n" + job), Contains("5 GB"));
  CHECK_THAT(fault("server: {node: n}\npolicies: even\n" + job), Contains("policies are a list"));
  CHECK_THAT(fault("server: {node: n}\nobjective: fast\n" + job), Contains("fair-share"));
  CHECK_THAT(fault("server: {node: n}\nhysteresis: 110 %\n" + job), Contains("out of range"));
  CHECK_THAT(fault("server: {node: n}\nrestart: -1 s\n" + job), Contains("jobs.yaml:2:"));
  CHECK_THAT(fault("server: {node: n}\nnotes: x\n" + job), Contains("list of texts"));
  const auto drawn = [](const std::string& draw) { return fault("server: {node: n}\ndraw: {" + draw + "}\n"); };
  const std::string kinds = "kinds: [{name: a, samples_per_s: {1: 5}}]";
  CHECK_THAT(drawn("jobs: 5, per_hour: 0, time: [1 s, 2 s], " + kinds), Contains("per_hour is 0"));
  CHECK_THAT(drawn("jobs: 5, per_hour: 1, time: [3 s, 2 s], " + kinds), Contains("shorter than the shortest"));
  CHECK_THAT(drawn("jobs: 5, per_hour: 1, time: 3 s, " + kinds), Contains("the shortest and the longest"));
  CHECK_THAT(drawn("jobs: 5, per_hour: 1, time: [1 s, 2 s], gpus: 3, " + kinds), Contains("weights by number"));
  CHECK_THAT(drawn("jobs: 5, per_hour: 1, time: [1 s, 2 s], gpus: {x: 3}, " + kinds), Contains("'x'"));
  CHECK_THAT(drawn("jobs: 5, per_hour: 1, time: [1 s, 2 s]"), Contains("kinds"));
  CHECK_THAT(drawn("jobs: 5, per_hour: 1, time: [1 s, 2 s], kinds: [{name: a, samples: 5, samples_per_s: {1: 5}}]"),
             Contains("samples"));
}
