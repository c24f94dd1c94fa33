// Which lines of a log are one job's: batches that ramp up, MLPerf's runs.
#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ddlsim/importers/log_file.h"
#include "log_lines.h"

using namespace ddlsim;
using namespace ddlsim::test;

TEST_CASE("log: a batch that ramps up is one job's, the steps of the last one count", "[unit][importers]") {
  // `samples`: consumed so far; 0: not printed.
  const auto line = [](int iteration, int samples, const char* time, int batch) {
    const std::string consumed = samples > 0 ? fmt::format("consumed samples: {:12d} | ", samples) : "";
    return fmt::format(" iteration {:8d}/ 900 | {}elapsed time per iteration (s): {} | global batch size: {:5d} |\n",
                       iteration, consumed, time, batch);
  };
  const auto ramp = read(line(1, 768, "9", 768) + line(2, 1536, "5", 768) + line(3, 2688, "7", 1152) +
                         line(4, 4224, "9.5", 1536) + line(5, 5760, "9.25", 1536));
  REQUIRE(ramp);
  CHECK(ramp->global_batch == 1536);
  CHECK(in_seconds(*ramp) == std::vector<double>{9.5, 9.25});
  CHECK(ramp->notes ==
        std::vector<std::string>{"the global batch grows from 768 to 1536: 3 steps of its ramp-up are left out"});
  // Ten iterations a line: 5 of 768 and 5 of 1,536 are of the ramp as well.
  const std::string tens = line(10, 7680, "5", 768) + line(20, 15'360, "5", 768) + line(30, 26'880, "7", 1536);
  const auto coarse = read(tens + line(40, 42'240, "9", 1536));
  REQUIRE(coarse);
  CHECK(in_seconds(*coarse) == std::vector<double>{9});
  CHECK(coarse->notes.front().find("3 steps") != std::string::npos);
  CHECK(error_of(tens) == "no step in this log");
  // Another job: samples that are not those of the iterations between, or another interval; a batch that falls.
  const std::string several = "the log is of several jobs: the global batch changes from 768 to 1536";
  CHECK(error_of(line(1, 768, "5", 768) + line(2, 99'840, "9", 1536)) == several);
  CHECK(error_of(line(1, 768, "5", 768) + line(2, 1536, "5", 768) + line(200, 300'000, "9", 1536)) == several);
  CHECK(error_of(line(1, 1536, "9", 1536) + line(2, 2304, "5", 768)) ==
        "the log is of several jobs: the global batch changes from 1536 to 768");
  // Without consumed samples the job has to say that it ramps up; one that says it does not has none.
  const std::string grows = line(1, 0, "5", 768) + line(2, 0, "9", 1536);
  CHECK(error_of(grows) == several);
  CHECK(in_seconds(*read(" rampup_batch_size ............ ['768', '768', '1000']\n" + grows)) ==
        std::vector<double>{9});
  CHECK(in_seconds(*read("will use batch size rampup starting from global batch size 768 to\n" + grows)) ==
        std::vector<double>{9});
  CHECK(error_of(" rampup_batch_size ............ None\n" + line(1, 768, "5", 768) + line(2, 2304, "9", 1536)) ==
        several);
}

TEST_CASE("log: MLPerf's lines of several jobs are refused where the next begins", "[unit][importers]") {
  const auto said = [](const std::string& key, const std::string& value, const std::string& metadata = "{}") {
    return fmt::format(":::MLLOG {{\"key\": \"{}\", \"value\": {}, \"time_ms\": 1, \"metadata\": {}}}\n", key, value,
                       metadata);
  };
  const auto mark = [](const char* end, int when, int number) {
    return fmt::format(":::MLLOG {{\"key\": \"epoch_{}\", \"time_ms\": {}, \"metadata\": {{\"epoch_num\": {}}}}}\n",
                       end, when, number);
  };
  const auto epoch = [&](int number, int start) {
    return mark("start", start, number) + mark("stop", start + 2000, number);
  };
  const std::string batch = said("global_batch_size", "32") + said("train_samples", "64");
  const std::string start = said("run_start", "null");
  const std::string stop = said("run_stop", "null", "{\"status\": \"success\"}");
  const std::string resnet = said("submission_benchmark", "\"resnet\"");
  // Two steps of a second in each epoch.
  CHECK(in_seconds(*read(resnet + batch + start + epoch(1, 1000) + epoch(2, 4000) + stop)) ==
        std::vector<double>{1, 1});
  const auto refused = [](const std::string& text, int line) {
    const auto log = read(text);
    REQUIRE_FALSE(log);
    CHECK(log.error().where.line == line);
    return log.error().message;
  };
  const std::string one = resnet + batch + start + epoch(1, 1000) + stop;
  CHECK(refused(one + said("submission_benchmark", "\"bert\"") + batch + start + epoch(1, 9000) + stop, 8) ==
        "the log is of several jobs: the benchmark changes from \"resnet\" to \"bert\"");
  CHECK(refused(one + one, 11) == "the log is of several jobs: another starts behind run_stop");
  CHECK(refused(one + said("init_start", "null"), 8) == "the log is of several jobs: another starts behind run_stop");
  // No run_stop: of a job that went on after a failure, or of another.
  const std::string broken = batch + start + epoch(1, 1000);
  CHECK(in_seconds(*read(broken + start + epoch(2, 9000) + stop)) == std::vector<double>{1, 1});
  CHECK(refused(broken + start + epoch(1, 9000), 6) == "the log is of several jobs: its epochs begin again");
  const auto stats = [&](const std::string& metadata) {
    return said("tracked_stats", "{\"train_step_time\": 1}", metadata);
  };
  const std::string counted = start + stats("{\"step\": 10}") + start;
  CHECK(in_seconds(*read(counted + stats("{\"step\": 20}"))) == std::vector<double>{1, 1});
  CHECK(refused(counted + stats("{\"step\": 10}"), 3) == "the log is of several jobs: its steps begin again");
  CHECK(refused(counted + stats("{}"), 3) ==
        "the log is of several jobs: a run starts twice, and nothing says that the second goes on where the first was");
  // Every rank says when it starts.
  CHECK(in_seconds(*read(batch + start + start + mark("start", 900, 1) + start + epoch(1, 1000))) ==
        std::vector<double>{1});
}
