// What bad traces get: a clear error, an exit status, in little time and memory.
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "ddlsim/importers/chakra_file.h"
#include "hostile/run_program.h"
#include "unit/importers/trace_text.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;

std::string refused(const std::string& file, const Words& more = {}, int status = 1) {
  return refused_import("kineto", file, more, status);
}

TraceText small_trace() {
  return {{step_event(1, 0, 100), launch_event(1, 1, 5), kernel_event("volta_sgemm", 2, 50, 7, 5)}};
}

/// A gzip file of `text`, then `times` times `part`.
std::string gzip_file(const TempFolder& folder, const std::string& text, const std::string& part = {}, int times = 0) {
  const std::string path = (folder.path() / "packed.json.gz").string();
  gzFile file = gzopen(path.c_str(), "wb1");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  for (int i = 0; i < times; ++i) gzwrite(file, part.data(), static_cast<unsigned>(part.size()));
  gzclose(file);
  return path;
}

}  // namespace

TEST_CASE("hostile: files that are no trace say what they are") {
  const TempFolder folder;
  CHECK_THAT(refused(folder.file("a.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")),
             Contains("Git LFS pointer") && Contains("git lfs pull"));
  CHECK_THAT(refused(folder.file("b.json", "")), Contains("the file is empty"));
  CHECK_THAT(refused(folder.file("c.json", "   \n")), Contains("the file is empty"));
  CHECK_THAT(refused(folder.file("d.json", "model: resnet50\n")), Contains("not JSON"));
  CHECK_THAT(refused(folder.file("tar.json", "worker0.json" + std::string(245, '\0') + "ustar")),
             Contains("tar archive"));
  CHECK_THAT(refused(folder.file("e.json", "[{\"ph\": \"X\"}]")), Contains("a bare list of events"));
  CHECK_THAT(refused(folder.file("f.json", "{\"schema\": \"1.0.1\", \"nodes\": []}")),
             Contains("an execution trace of PyTorch") && Contains("ddlsim import kineto"));
  CHECK_THAT(refused(folder.file("n.json", "{\"nodes\": []}")), Contains("has no traceEvents"));
  CHECK_THAT(refused(folder.file("g.json", "{\"traceEvents\": 7}")), Contains("not the JSON of a trace"));
  CHECK_THAT(refused(folder.file("h.json", "{\"traceEvents\": [7]}")), Contains("not the JSON of a trace"));
  CHECK_THAT(refused(folder.file("i.json", "{\"traceEvents\": []}")), Contains("no kernel ran on a GPU"));
  CHECK_THAT(refused(folder.file("j.json", "{\"traceEvents\": [{\"name\": \"\xFF\"}]}")), Contains("UTF-8"));
  CHECK_THAT(refused(folder.path().string()), Contains("is a folder"));
  CHECK_THAT(refused((folder.path() / "none.json").string()), Contains("could not be opened"));
  CHECK_THAT(refused("/dev/zero"), Contains("not a regular file"));
}

TEST_CASE("hostile: a trace cut anywhere is refused") {
  const TempFolder folder;
  const std::string whole = small_trace().text();
  for (std::size_t kept = 1; kept + 1 < whole.size(); kept += 23) {
    static_cast<void>(refused(folder.file("cut.json", whole.substr(0, kept))));
  }
}

TEST_CASE("hostile: gzip that is cut, damaged, or unpacks to no end") {
  const TempFolder folder;
  std::string packed;
  {
    std::ifstream in(gzip_file(folder, small_trace().text()), std::ios::binary);
    packed.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (std::size_t kept = 2; kept < packed.size(); kept += 37) {
    CHECK_THAT(refused(folder.file("cut.gz", packed.substr(0, kept))), Contains("gzip"));
  }
  std::string damaged = packed;
  for (std::size_t i = 40; i < 60; ++i) damaged[i] = '\x55';
  CHECK_THAT(refused(folder.file("damaged.gz", damaged)), Contains("gzip data is damaged at byte"));
  // 1.1 GiB of spaces; and the same with a trailer that says it is little.
  const std::string bomb = gzip_file(folder, "{", std::string(std::size_t{1} << 20U, ' '), 1126);
  CHECK_THAT(refused(bomb), Contains("unpacks to more than 1024 MiB"));
}

TEST_CASE("hostile: JSON deeper than any trace") {
  const TempFolder folder;
  CHECK_THAT(refused(folder.file("deep.json", "{\"traceEvents\": ", "[", 1'000'000)), Contains("JSON"));
  CHECK_THAT(refused(folder.file("args.json", "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\", \"args\": ",
                                 "{\"Input Dims\": ", 100'000)),
             Contains("JSON"));
}

TEST_CASE("hostile: more events than any trace") {
  const TempFolder folder;
  CHECK_THAT(refused(folder.file("many.json", "{\"traceEvents\": [{\"ph\":\"M\"}", ",{}", 10'000'000, "]}")),
             Contains("more than 4000000 events") && Contains("profile fewer steps"));
}

TEST_CASE("hostile: a trace's steps, durations and device") {
  const TempFolder folder;
  const auto file = [&](const TraceText& trace) { return folder.file("t.json", trace.text()); };
  TraceText trace = small_trace();
  trace.events.push_back(kernel_event("k", 60, -5, 7, 6));
  CHECK_THAT(refused(file(trace)), Contains("t.json") && Contains("'k' has a negative duration"));
  trace = small_trace();
  trace.events.erase(trace.events.begin());
  CHECK_THAT(refused(file(trace)), Contains("no step markers") && Contains("--whole"));
  trace = small_trace();
  trace.gpu = "NVIDIA A100-PG509-200";
  CHECK_THAT(refused(file(trace)),
             Contains("no GPU 'NVIDIA A100-PG509-200' is known") && Contains("--gpu a100-sxm4-40gb"));
  CHECK_THAT(refused(file(trace), {"--gpu", "a1000"}), Contains("a100"));
  CHECK_THAT(refused(file(trace), {"--batch", "0"}, 2), Contains("--batch"));
  CHECK_THAT(refused(file(trace), {"-o", "mine.json"}, 2), Contains("does not end in .yaml"));
  CHECK_THAT(refused(file(trace), {"-o", "mine.yaml", "--name", "yours"}, 2), Contains("named after its id"));
}

TEST_CASE("hostile: two ranks of one number") {
  const TempFolder folder;
  const std::string one = folder.file("a.json", small_trace().text());
  CHECK_THAT(refused(one, {folder.file("b.json", small_trace().text())}), Contains("a second trace of rank 0"));
}

TEST_CASE("hostile: many spans around one moment take no time") {
  const TempFolder folder;
  // One long span before very many short ones, and a launch after all of these.
  TraceText trace = small_trace();
  std::string text = trace.text();
  const std::string head = text.substr(0, text.rfind(']'));
  const std::string path =
      folder.file("spans.json", head + "," + span_event("cpu_op", "autograd::engine::evaluate_function: x", 0, 90, 1),
                  "," + span_event("cpu_op", "autograd::engine::evaluate_function: y", 0.25, 0.25, 1) + "," +
                      launch_event(40, 1, 8),
                  100'000, "]}");
  const Outcome outcome = run_program({"import", "kineto", path});
  CHECK(outcome.status == 0);
  CHECK(outcome.cpu_seconds < kMostSeconds);
}

TEST_CASE("import kineto: the model replays the step it was made of") {
  const TempFolder folder;
  const std::string out = (folder.path() / "mine.yaml").string();
  const Outcome made = run_program({"import", "kineto", folder.file("t.json", small_trace().text()), "-o", out});
  CAPTURE(made.err);
  REQUIRE(made.status == 0);
  CHECK_THAT(made.err, Contains("measured step 100 us") && Contains("compute 50 us (50 %)") && Contains("idle 50 us"));
  // One kernel of 50 us, launched after 100 us of CPU time (the GPU idled): step 150 us at most, 100 at least.
  const Outcome same =
      run_program({"predict", "--model", out, "--node", "dgx1-v100", "--gpus-per-node", "1", "--json"});
  REQUIRE(same.status == 0);
  CHECK_THAT(same.out, Contains("kernels' times as measured on v100-sxm2-16gb"));
  const Outcome other =
      run_program({"predict", "--model", out, "--node", "dgx-a100", "--gpus-per-node", "1", "--json"});
  REQUIRE(other.status == 0);
  CHECK_THAT(other.out, Contains("kernels' times scaled from v100-sxm2-16gb"));
  const Outcome json = run_program({"import", "kineto", folder.file("t.json", small_trace().text()), "--json"});
  CHECK(json.status == 0);
  CHECK_THAT(json.out, Contains("\"schema\": \"ddlsim/measured-step/1\""));
  const Outcome aggregate =
      run_program({"predict", "--model", out, "--node", "dgx1-v100", "--set", "fidelity=aggregate"});
  CHECK(aggregate.status == 1);
  CHECK_THAT(aggregate.err, Contains("known by measured times"));
}

TEST_CASE("hostile: Chakra traces") {
  using ddlsim::importers::ChakraNode;
  using ddlsim::importers::ChakraTrace;
  const TempFolder folder;
  const auto chakra = [&](const std::string& file, const Words& more = {"--gpu", "v100"}) {
    return run_program(plus({"import", "chakra", file}, more));
  };
  const auto refused_as = [&](const std::string& bytes) {
    const Outcome outcome = chakra(folder.file("t.et", bytes));
    CHECK(outcome.status == 1);
    CHECK(outcome.out.empty());
    CHECK(outcome.cpu_seconds < kMostSeconds);
    CHECK(outcome.peak_bytes < kMostBytes);
    CHECK_THAT(outcome.err, Contains("t.et"));
    return outcome.err;
  };
  // A chain so long that recursion would fall over; then closed to a circle.
  ChakraTrace trace;
  for (std::int64_t i = 0; i < 90'000; ++i) {
    ChakraNode node;
    node.id = i;
    node.duration = ddlsim::microseconds(1);
    if (i > 0) node.data = {i - 1};
    trace.nodes.push_back(node);
  }
  const Outcome chain = chakra(folder.file("chain.et", ddlsim::importers::write_chakra(trace)));
  CHECK(chain.status == 0);
  CHECK(chain.cpu_seconds < kMostSeconds);
  trace.nodes.front().data = {89'999};
  CHECK_THAT(refused_as(ddlsim::importers::write_chakra(trace)), Contains("lead back to it"));
  CHECK_THAT(refused_as(""), Contains("the file is empty"));
  CHECK_THAT(refused_as("version https://git-lfs.github.com/spec/v1\n"), Contains("Git LFS pointer"));
  CHECK_THAT(refused_as(std::string(1000, '\xFF')), Contains("at byte 0"));
  CHECK_THAT(refused_as(small_trace().text()), Contains("import kineto"));
  CHECK(chakra(folder.file("t.et", ""), {}).status == 2);
  CHECK_THAT(chakra(folder.file("t.et", ""), {"--gpu", "v1000"}).err, Contains("error: "));
}
