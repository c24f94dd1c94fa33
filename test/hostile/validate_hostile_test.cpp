// What bad tables get from `ddlsim validate`, and the contract of its JSON.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using nlohmann::json;

const std::string kHeader =
    "id,group,source,model,framework,precision,gpu,gpus_per_node,nodes,total_gpus,intra_interconnect,inter_network,"
    "batch_per_gpu,architecture,extra,metric,value,notes\n";

std::string row(const std::string& id, int gpus, const std::string& value) {
  const std::string n = std::to_string(gpus);
  return id + ",g,paper,ResNet-50,PyTorch,FP32,V100," + n + ",1," + n + ",NVLink,,64," +
         (gpus == 1 ? "single" : "ddp") + ",,images_per_s," + value + ",\n";
}

void refuses(int status, const Words& arguments, const Words& says) {
  const Outcome outcome = run_program(arguments);
  CAPTURE(arguments);
  CHECK(outcome.status == status);
  CHECK(outcome.out.empty());
  for (const std::string& part : says) CHECK_THAT(outcome.err.substr(0, 4000), Contains(part));
  CHECK_THAT(outcome.err.substr(0, 4000), !Contains("fault of ddlsim itself"));
  CHECK(outcome.cpu_seconds < kMostSeconds);
  CHECK(outcome.peak_bytes < kMostBytes);
}

}  // namespace

TEST_CASE("validate: wrong usage and bad tables", "[hostile]") {
  const TempFolder folder;
  const auto table = [&](const std::string& text) { return folder.file("cases.csv", text); };
  refuses(2, {"validate"}, {"no CASES.csv named"});
  refuses(2, {"validate", "--anchor", "frist", table(kHeader + row("a", 1, "300"))}, {"did you mean 'first'"});
  refuses(1, {"validate", (folder.path() / "none.csv").string()}, {"cannot read"});
  refuses(1, {"validate", folder.path().string()}, {"cannot read"});
  refuses(1, {"validate", table("")}, {"cases.csv:1:1", "the file is empty"});
  refuses(1, {"validate", table(kHeader)}, {"no rows"});
  refuses(1, {"validate", table("id,group\n")}, {"the column 'source' is missing"});
  refuses(1, {"validate", table(kHeader + row("a", 1, "fast"))}, {"cases.csv:2:"});
  refuses(1, {"validate", table(kHeader + row("a", 1, "0"))}, {"above zero"});
  refuses(1, {"validate", table(kHeader + row("a", 0, "1"))}, {"cases.csv:2:"});
  refuses(1, {"validate", table(kHeader + row("a", 1, "1") + row("a", 1, "1"))}, {"cases.csv:3:1", "stands twice"});
  refuses(1, {"validate", folder.file("long.csv", kHeader, "x", 2 << 20)}, {"long.csv:2:"});
  refuses(1, {"validate", folder.file("binary.csv", std::string("\x7f\x45\x4c\x46\0\0", 6), "\xff", 1000)},
          {"binary.csv:1: error: is no text: it has a zero byte"});
  refuses(1, {"validate", table("id;group;source\n")}, {"separated by ';', not by commas"});
}

TEST_CASE("validate: rows nobody can predict are listed, and the others are predicted", "[hostile]") {
  const TempFolder folder;
  std::string odd = row("odd", 8, "1");
  odd.replace(odd.find("ResNet-50"), 9, "\xc3\xa9\xff");
  std::string wide = row("wide", 8, "1");
  wide.replace(wide.find(",8,1,8,"), 7, ",1000,1,1000,");
  const std::string file =
      folder.file("cases.csv", kHeader + row("one", 1, "400") + row("eight", 8, "3000") + odd + wide);
  const Outcome outcome = run_program({"validate", "--anchor", "first", file, "--json"});
  REQUIRE(outcome.status == 0);
  const json answer = json::parse(outcome.out);
  CHECK(answer["schema"] == "ddlsim/validate/1");
  CHECK(answer["rows"] == 4);
  CHECK(answer["predicted"] == 1);
  REQUIRE(answer["unsupported"].size() == 2);
  for (const json& one : answer["unsupported"]) {
    CHECK(one["id"].is_string());
    CHECK_FALSE(one["why"].get<std::string>().empty());
  }
  REQUIRE(answer["cases"].size() == 1);
  const json& only = answer["cases"].front();
  CHECK(only["id"] == "eight");
  CHECK(only["metric"] == "images_per_s");
  CHECK(only["measured"] == 3000);
  CHECK(only["error"].get<double>() == Approx(only["predicted"].get<double>() / 3000 - 1));
  CHECK(only["interval_90"].size() == 2);
  CHECK(only["interval_90"][0].get<double>() < only["interval_90"][1].get<double>());
  CHECK(only["provenance"].is_string());
  for (const char* key : {"mape", "median_ape", "p90_ape", "max_ape", "coverage_90"}) CHECK(answer[key].is_number());
}

TEST_CASE("validate: CSV lists what has no prediction where it stands, with the reason", "[hostile]") {
  const TempFolder folder;
  std::string odd = row("odd", 8, "5");
  odd.replace(odd.find("ResNet-50"), 9, "NoNet");
  const std::string first = folder.file("first.csv", kHeader + row("one", 1, "400") + odd);
  const std::string second = folder.file("second.csv", kHeader + odd + row("eight", 8, "3000"));
  const Outcome outcome = run_program({"validate", first, second, "--format", "csv"});
  REQUIRE(outcome.status == 0);
  std::istringstream lines(outcome.out);
  std::string line;
  std::getline(lines, line);
  CHECK_THAT(line, Catch::Matchers::EndsWith(",memory_error,unsupported"));
  for (const char* start : {"one,", "odd,", "odd,", "eight,"}) {
    REQUIRE(std::getline(lines, line));
    CHECK_THAT(line, Catch::Matchers::StartsWith(start));
    const bool listed = line.starts_with("odd,g,images_per_s,5,,,,,,,");
    CHECK(listed == (std::string(start) == "odd,"));
    CHECK((line.find("NoNet") != std::string::npos) == listed);
  }
  CHECK_FALSE(std::getline(lines, line));
}

TEST_CASE("validate: rows that do not fit in memory are counted and named", "[hostile]") {
  const TempFolder folder;
  const auto large = [](const std::string& id) {
    std::string text = row(id, 1, "400");
    return text.replace(text.find(",64,"), 4, ",4096,");
  };
  const std::string fits = row("small", 1, "400");
  const std::string four = folder.file("four.csv", kHeader + large("a") + fits + large("b") + large("c") + large("d"));
  for (const char* format : {"text", "md"}) {
    const Outcome outcome = run_program({"validate", four, "--format", format});
    CHECK_THAT(outcome.out,
               Contains("\n4 rows that do not fit in memory by prediction count all the same: a, b, c, ...\n"));
  }
  const json answer = json::parse(run_program({"validate", four, "--json"}).out);
  CHECK(answer["does_not_fit"] == 4);
  CHECK(answer["sets"][0]["does_not_fit"] == 4);
  CHECK(answer["predicted"] == 5);
  const Outcome none = run_program({"validate", folder.file("one.csv", kHeader + fits)});
  CHECK_THAT(none.out, !Contains("not fit"));
}

TEST_CASE("validate: words that count for nothing are said", "[hostile]") {
  const TempFolder folder;
  std::string foo = row("a", 8, "3000");
  foo.replace(foo.find(",ddp,"), 5, ",foo,");
  const std::string odd = folder.file("odd.csv", kHeader + foo + row("b", 8, "3000"));
  const std::string what = "architecture 'foo' is not known, and taken as data parallel";
  const Outcome outcome = run_program({"validate", odd});
  CHECK_THAT(outcome.out, Contains("\nwords that counted for nothing, in 1 row:\n  a: " + what));
  CHECK_THAT(run_program({"validate", odd, "--row", "a"}).out, Contains("note: " + what));
  const json answer = json::parse(run_program({"validate", odd, "--json"}).out);
  CHECK(answer["unread"].size() == 1);
  CHECK(answer["unread"][0]["id"] == "a");
  CHECK(answer["sets"][0]["unread"].size() == 1);
}

TEST_CASE("validate: conditions that nobody states are said", "[hostile]") {
  const TempFolder folder;
  std::string open = row("a", 8, "3000");
  open.replace(open.find(",PyTorch,FP32,"), 14, ",PyTorch 1.9,AMP,");
  const std::string rows = folder.file("open.csv", kHeader + open + row("b", 8, "3000"));
  const std::string what = "nobody states the layout of images: the interval spans ";
  CHECK_THAT(run_program({"validate", rows}).out, Contains("\nconditions that nobody states, in 1 row:\n  a: " + what));
  CHECK_THAT(run_program({"validate", rows, "--row", "a"}).out, Contains("note: " + what));
  const json answer = json::parse(run_program({"validate", rows, "--json"}).out);
  REQUIRE(answer["cases"].size() == 2);
  CHECK(answer["cases"][0]["open"].size() == 1);
  CHECK_FALSE(answer["cases"][1].contains("open"));
}

TEST_CASE("validate: many rows are soon done", "[hostile]") {
  const TempFolder folder;
  std::string text = kHeader;
  for (int i = 0; i < 200; ++i) text += row("r" + std::to_string(i), 1 + i % 8, "300");
  const Outcome outcome = run_program({"validate", folder.file("many.csv", text), "--format", "csv"});
  CHECK(outcome.status == 0);
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 201);
  CHECK(outcome.cpu_seconds < kMostSeconds);
}
