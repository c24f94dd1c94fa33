// What bad ONNX files get: a clear error, an exit status, in little time and memory.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "hostile/run_program.h"
#include "unit/importers/onnx_bytes.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;

std::string refused(const std::string& file, const Words& more = {}, int status = 1) {
  return refused_import("onnx", file, more, status);
}

std::string small_model() {
  return model_of({{node("Conv", {"x", "w"}, {"y"}, {ints("pads", {1, 1, 1, 1})}), node("Relu", {"y"}, {"z"})},
                   {weight("w", {4, 3, 3, 3})},
                   {value_info("x", {-1, 3, 8, 8})}});
}

}  // namespace

TEST_CASE("hostile: files that are no ONNX say what they are") {
  const TempFolder folder;
  CHECK_THAT(refused(folder.file("a.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")),
             Contains("Git LFS pointer") && Contains("git lfs pull"));
  CHECK_THAT(refused(folder.file("b.onnx", "{\"architectures\": [\"GPT2\"]}")), Contains("JSON text, not ONNX"));
  CHECK_THAT(refused(folder.file("c.onnx", "")), Contains("the file is empty"));
  CHECK_THAT(refused(folder.file("d.onnx", "PK\x03\x04zip")), Contains("torch.onnx.export"));
  CHECK_THAT(refused(folder.path().string()), Contains("is a folder"));
  CHECK_THAT(refused((folder.path() / "none.onnx").string()), Contains("could not be opened"));
  CHECK_THAT(refused("/dev/zero"), Contains("not a regular file"));
  CHECK_THAT(refused(folder.file("e.onnx", "\xFF", "\xFF", 5'000'000)), Contains("at byte 0"));
}

TEST_CASE("hostile: a file cut anywhere is refused, at a byte") {
  const TempFolder folder;
  const std::string whole = small_model();
  for (std::size_t kept = 20; kept + 12 < whole.size(); kept += 17) {
    CHECK_THAT(refused(folder.file("cut.onnx", whole.substr(0, kept))), Contains("at byte "));
  }
}

TEST_CASE("hostile: sizes and nodes beyond all measure") {
  const TempFolder folder;
  const auto file = [&](const std::string& bytes) { return folder.file("big.onnx", bytes); };
  const std::string input = value_info("x", {-1, 3, 8, 8});
  const std::int64_t huge = std::int64_t{1} << 40;
  CHECK_THAT(refused(file(model_of({{node("Conv", {"x", "w"}, {"y"})}, {weight("w", {huge, huge, huge})}, {input}}))),
             Contains("over 2^53 elements"));
  CHECK_THAT(refused(file(model_of({{node("Conv", {"x", "w"}, {"y"})}, {weight("w", {4, huge, 1, 1})}, {input}}))),
             Contains("node 'Conv_y'"));
  CHECK_THAT(refused(file(model_of({{node("Relu", {"x"}, {"y"})}, {}, {value_info("x", {1, huge, huge})}}))),
             Contains("over 2^53 elements"));
  CHECK_THAT(refused(file(model_of({{node("Conv", {"x", "w"}, {"y"})}, {weight("w", {4, -3, 3, 3})}, {input}}))),
             Contains("negative size"));
  CHECK_THAT(refused(file(model_of({{node("Add", {"x", "b"}, {"a"}), node("Relu", {"a"}, {"b"})}, {}, {input}}))),
             Contains("cycle"));
  // A million nodes: the graph's length comes first, so it is worked out here.
  const std::string relu = field(1, node("Relu", {"x"}, {""}));
  const std::string graph = varint(7 * 8 + 2) + varint(relu.size() * 1'000'000);
  CHECK_THAT(refused(folder.file("many.onnx", graph, relu, 1'000'000)), Contains("more than 50000 nodes"));
  // Half a million tensors nobody reads, and a tensor of a million dimensions.
  const std::string tensor = field(5, weight("w", {1}));
  CHECK_THAT(
      refused(folder.file("tensors.onnx", varint(7 * 8 + 2) + varint(tensor.size() * 1'000'000), tensor, 1'000'000)),
      Contains("more than 500000 tensors"));
  const std::string dims(1'000'000, '\x01');
  CHECK_THAT(refused(file(model_of({{node("Relu", {"x"}, {"y"})}, {field(1, dims)}, {input}}))),
             Contains("over 16 dimensions"));
}

TEST_CASE("hostile: as many nodes as are accepted take little time, forwards and backwards") {
  const TempFolder folder;
  std::string body = field(11, value_info("t0", {-1, 8}));
  std::string backwards = body;
  for (int i = 0; i < 50'000; ++i) {
    body += field(1, node("Relu", {"t" + std::to_string(i)}, {"t" + std::to_string(i + 1)}));
    backwards += field(1, node("Relu", {"t" + std::to_string(49'999 - i)}, {"t" + std::to_string(50'000 - i)}));
  }
  for (const std::string& graph : {body, backwards}) {
    const std::string out = (folder.path() / "long.yaml").string();
    const Outcome outcome = run_program({"import", "onnx", folder.file("long.onnx", field(7, graph)), "-o", out});
    CHECK(outcome.status == 0);
    CHECK(outcome.cpu_seconds < kMostSeconds);
    CHECK(outcome.peak_bytes < kMostBytes);
    CHECK_THAT(outcome.err, Contains("long: 50000 layers"));
  }
  const Outcome predicted =
      run_program({"predict", "--model", (folder.path() / "long.yaml").string(), "--node", "dgx1-v100"});
  CHECK(predicted.status == 0);
}

TEST_CASE("hostile: an import ends in a prediction, and names cannot break its file") {
  const TempFolder folder;
  const std::string nasty = "a\"b\\c\n{d}: #\x01\xFF";
  const std::string named =
      field(1, std::string("x")) + field(2, std::string("y")) + field(3, nasty) + field(4, std::string("Relu"));
  const std::string out = (folder.path() / "mine.yaml").string();
  const Outcome imported =
      run_program({"import", "onnx", folder.file("n.onnx", model_of({{named}, {}, {value_info("x", {-1, 3, 8, 8})}})),
                   "-o", out, "--batch", "32"});
  CHECK(imported.status == 0);
  CHECK(imported.out.empty());
  CHECK_THAT(imported.err, Contains("mine: 1 layers, 0 parameters, 0 GFLOP per sample forward"));
  const std::string conv = (folder.path() / "conv.yaml").string();
  CHECK(run_program({"import", "onnx", folder.file("c.onnx", small_model()), "-o", conv}).status == 0);
  for (const std::string& model : {out, conv}) {
    const Outcome predicted = run_program({"predict", "--model", model, "--node", "dgx1-v100"});
    CAPTURE(predicted.err);
    CHECK(predicted.status == 0);
  }
  const Outcome compared =
      run_program({"what-if", "--model", conv, "--node", "dgx1-v100", "--nodes", "2", "--vs", "--set", "batch=64"});
  CHECK(compared.status == 0);
  const Outcome shown = run_program({"import", "onnx", (folder.path() / "c.onnx").string(), "--name", "shown"});
  CHECK(shown.status == 0);
  CHECK_THAT(shown.out, Contains("model: \"shown\"") && Contains("- conv: {"));
  CHECK(folder.names() == Words{"c.onnx", "conv.yaml", "mine.yaml", "n.onnx"});
}

TEST_CASE("hostile: wrong usage of import") {
  const TempFolder folder;
  const std::string file = folder.file("a.onnx", small_model());
  CHECK_THAT(refused(file, {"--batch", "0"}, 2), Contains("--batch"));
  CHECK_THAT(refused(file, {"--dim", "s"}, 2), Contains("--dim") && Contains("sequence=128"));
  CHECK_THAT(refused(file, {"--dim", "s=-1"}, 2), Contains("--dim"));
  CHECK_THAT(refused(file, {"--unknown", "never"}, 2), Contains("error, assumed"));
  CHECK_THAT(refused(file, {"-o", "mine"}, 2), Contains(".yaml"));
  CHECK_THAT(refused(file, {"-o", "mine.yaml", "--name", "other"}, 2), Contains("named after its id"));
  CHECK_THAT(refused(file, {"--dim", "s=4"}), Contains("no open dimension 's'"));
  CHECK_THAT(refused(file, {"-o", "/nonexistent/mine.yaml"}), Contains("could not be written"));
  CHECK(run_program({"import"}).status == 2);
  CHECK(run_program({"import", "torch", file}).status == 2);
  CHECK(run_program({"import", "--help"}).status == 0);
}
