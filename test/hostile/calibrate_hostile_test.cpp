// What bad measurements and profiles get: a clear error, an exit status, in little time and memory.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;

const std::string kHeader = "gpu,op,kind,bytes,row,time_us\n";
const std::string kContext = R"({"schema":"ddlsim/measurement/1","context":{"gpu":"t4"}})"
                             "\n";

/// Runs `ddlsim calibrate words...` and checks that it fails with `status`, in time, with a word on stderr only.
std::string refused(const Words& words, int status = 1) {
  const Outcome outcome = run_program(plus({"calibrate"}, words));
  CAPTURE(words, outcome.err);
  CHECK(outcome.status == status);
  CHECK(outcome.out.empty());
  CHECK(outcome.cpu_seconds < kMostSeconds);
  CHECK(outcome.peak_bytes < kMostBytes);
  CHECK_THAT(outcome.err, Contains("error: "));
  return outcome.err;
}

std::string fit(const std::string& file) { return refused({"fit", file, "--gpu", "t4"}); }

/// Element-wise kernels of 1 MB, 2 MB ... on a GPU of 320 GB/s.
std::string rows(int count, double times = 1.1) {
  std::string text = kHeader;
  for (int i = 1; i <= count; ++i) {
    text += "t4,memory_bound,elementwise," + std::to_string(i * 1'000'000) + ",," +
            std::to_string(5 + times * i / 0.32) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("hostile: measurements that are none say what they are") {
  const TempFolder folder;
  CHECK_THAT(fit(folder.file("a.csv", "")), Contains("the file is empty"));
  CHECK_THAT(fit((folder.path() / "none.csv").string()), Contains("could not be opened"));
  CHECK_THAT(fit(folder.path().string()), Contains("is a folder"));
  CHECK_THAT(fit(folder.file("b.csv", "\x1f\x8b\x08")), Contains("gzip -d"));
  CHECK_THAT(fit(folder.file("c.csv", std::string(3, '\0'))), Contains("error: "));
  CHECK_THAT(fit("/dev/zero"), Contains("a line of over"));
  CHECK_THAT(fit(folder.file("d.csv", "op,gpu,bytes,time\n")),
             Contains("d.csv:1:14: error: unknown column 'time'") && Contains("time_us, time_ms or time_s"));
  CHECK_THAT(fit(folder.file("e.csv", kHeader)), Contains("no rows"));
  CHECK_THAT(fit(folder.file("f.csv", kHeader + "v100,memory_bound,copy,1,,1\n")),
             Contains("f.csv:2:1: error: measured on") && Contains("which is not t4"));
  CHECK_THAT(fit(folder.file("g.csv", kHeader + "t4,memory_bound,copy,1,,nan\n")), Contains("g.csv:2:25"));
  CHECK_THAT(fit(folder.file("h.csv", kHeader + "t4,memory_bound,copy,1e400,,1\n")), Contains("h.csv:2:22"));
  CHECK_THAT(fit(folder.file("i.csv", kHeader + "t4,memory_bound,copy,1,,-3\n")), Contains("must be above 0"));
}

TEST_CASE("hostile: JSON lines that are cut, deep or endless") {
  const TempFolder folder;
  const std::string row = R"({"op":"launch","time_us":2})";
  CHECK_THAT(fit(folder.file("a.jsonl", kContext + row.substr(0, 13))),
             Contains("a.jsonl:2:14: error: the line is cut"));
  CHECK_THAT(fit(folder.file("b.jsonl", kContext, "[", 60'000)), Contains("nested deeper"));
  CHECK_THAT(fit(folder.file("c.jsonl", kContext, "x", 5'000'000)), Contains("c.jsonl:2:1: error: a line of over"));
  CHECK_THAT(fit(folder.file("d.jsonl", "{}\n")), Contains("ddlsim/measurement/1"));
  CHECK_THAT(fit(folder.file("e.jsonl", kContext + "{\"op\":\"launch\",\"time_us\":1e999}\n")), Contains("e.jsonl:2"));
  CHECK_THAT(fit(folder.file("f.jsonl", kContext + "\xff\xfe\n")), Contains("f.jsonl:2"));
}

TEST_CASE("hostile: curves that cannot be") {
  const TempFolder folder;
  CHECK_THAT(fit(folder.file("a.csv", rows(1))), Contains("elementwise: 1 shapes of 1 sizes are too few"));
  CHECK_THAT(fit(folder.file("b.csv", kHeader, "t4,memory_bound,elementwise,1000,,5\n", 20'000)), Contains("too few"));
  CHECK_THAT(fit(folder.file("c.csv", rows(300, 0.0))), Contains("every row takes the same time"));
  CHECK_THAT(fit(folder.file("d.csv", kHeader + "t4,copy,h2d,1000,,5\n")),
             Contains("unknown") || Contains("no row that a curve can use"));
}

TEST_CASE("hostile: times that make no sense still give a file that can be read") {
  const TempFolder folder;
  std::string text = kHeader;
  for (int i = 1; i <= 300; ++i) {
    text +=
        "t4,memory_bound,elementwise," + std::to_string(i * 1'000'000) + ",," + (i % 2 == 0 ? "1e-9" : "1e12") + "\n";
  }
  const std::string out = (folder.path() / "wild.yaml").string();
  const Outcome fitted = run_program({"calibrate", "fit", folder.file("wild.csv", text), "--gpu", "t4", "-o", out});
  CAPTURE(fitted.err);
  CHECK((fitted.status == 0 || fitted.status == 1));
  CHECK(fitted.cpu_seconds < kMostSeconds);
  if (fitted.status != 0) return;
  const Outcome checked = run_program({"calibrate", "check", out, folder.file("fine.csv", rows(100))});
  CHECK_FALSE(checked.out.empty());
}

TEST_CASE("hostile: fit, write, check; and a GPU that has changed is told") {
  const TempFolder folder;
  const std::string out = (folder.path() / "mine.yaml").string();
  const Outcome fitted =
      run_program({"calibrate", "fit", folder.file("rows.csv", rows(300)), "--gpu", "t4", "-o", out, "--json"});
  CAPTURE(fitted.err);
  REQUIRE(fitted.status == 0);
  CHECK_THAT(fitted.out, Contains("\"ddlsim/calibrate-fit/1\""));
  CHECK(folder.names() == Words{"mine.yaml", "rows.csv"});
  CHECK(run_program({"calibrate", "check", out, folder.file("rows.csv", rows(300))}).status == 0);
  const Outcome slow =
      run_program({"calibrate", "check", out, folder.file("slow.csv", rows(300, 1.6)), "--anchor", "5"});
  CHECK(slow.status == 1);
  CHECK_THAT(slow.out, Contains("elementwise"));
  CHECK_THAT(slow.err, Contains("do not hold"));
  CHECK_THAT(refused({"check", "none", folder.file("rows.csv", rows(300))}), Contains("unknown calibration 'none'"));
  CHECK_THAT(refused({"check", folder.file("bad.yaml", "calibration: bad\ngpu: t4\nmemory_bound: 3\n"),
                      folder.file("rows.csv", rows(300))}),
             Contains("bad.yaml:3:15: error: a list is wanted"));
}

TEST_CASE("hostile: calibrate's wrong usage") {
  CHECK_THAT(refused({}, 2), Contains("steps: measure, fit, check"));
  CHECK_THAT(refused({"fits"}, 2), Contains("unknown step 'fits'"));
  CHECK_THAT(refused({"fit", "a.csv"}, 2), Contains("--gpu"));
  CHECK_THAT(refused({"fit", "a.csv", "--gpu", "t4", "-o", "x.json"}, 2), Contains(".yaml"));
  CHECK_THAT(refused({"fit", "a.csv", "--gpu", "t5"}), Contains("unknown gpu 't5'"));
  CHECK_THAT(refused({"check", "t4"}, 2), Contains("rows"));
}
