#include "ddlsim/importers/onnx_file.h"
#include "ddlsim/support/lower_case.h"

#include <fmt/core.h>

#include <cctype>
#include <utility>

#include "onnx_builder.h"
#include "onnx_graph.h"
#include "onnx_mapping.h"

namespace ddlsim::importers {
namespace {

constexpr std::int64_t kLargestBatch = std::int64_t{1} << 32;  // of a model file

std::string batch_source(const OnnxOptions& options, const onnx::Builder& builder) {
  if (options.batch) return "stated at the import (--batch)";
  if (builder.stated_batch()) return "the first dimension of the graph's first input, as the file or --dim states it";
  return "the file leaves the batch open: 1 until somebody says otherwise";
}

std::string producer_of(const onnx::Graph& graph) {
  if (graph.producer.empty()) return "no producer named";
  std::string text = "produced by " + onnx::printable(graph.producer);
  if (!graph.producer_version.empty()) text += " " + onnx::printable(graph.producer_version);
  return text;
}

Expected<std::string> checked_id(const std::filesystem::path& path, const OnnxOptions& options) {
  std::string id = options.id.empty() ? id_from_file(path) : options.id;
  if (!id.empty()) return id;
  return fail(ErrorCode::kInvalidArgument, "no id can be made of the file's name", {path.string(), 0, 0},
              {"give one, as --name mine"});
}

}  // namespace

std::string id_from_file(const std::filesystem::path& path) {
  std::string id;
  for (const char c : path.stem().string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) != 0) {
      id += lower_letter(c);
    } else if (!id.empty() && id.back() != '_') {
      id += '_';
    }
  }
  while (!id.empty() && id.back() == '_') id.pop_back();
  return id;
}

Expected<OnnxImport> import_onnx(const std::filesystem::path& path, const OnnxOptions& options) {
  auto id = checked_id(path, options);
  if (!id) return tl::unexpected<Error>(id.error());
  if (options.batch && (*options.batch < 1 || *options.batch > kLargestBatch)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("a batch of {}", *options.batch), {},
                {fmt::format("write a whole number from 1 to {}", kLargestBatch)});
  }
  const auto file = onnx::MappedFile::open(path);
  if (!file) return tl::unexpected<Error>(file.error());
  auto graph = onnx::read_graph(file->bytes(), path.string());
  if (!graph) return tl::unexpected<Error>(graph.error());
  if (auto sorted = onnx::sort_nodes(*graph, path.string()); !sorted) return tl::unexpected<Error>(sorted.error());
  onnx::Builder builder(*graph, options, path.string());
  auto description = builder.build();
  if (!description) return tl::unexpected<Error>(description.error());

  const std::string name = onnx::shown_file(path);
  const std::string origin = fmt::format("ONNX file {}, {}, graph '{}', operator set {}", name, producer_of(*graph),
                                         onnx::printable(graph->name), graph->opset);
  description->id = std::move(*id);
  description->name = fmt::format("{} (ONNX)", onnx::printable(path.stem().string()));
  description->task = "imported from ONNX";
  description->batch = options.batch.value_or(builder.stated_batch().value_or(1));
  if (description->batch > kLargestBatch) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("the graph's batch is {}", description->batch),
                {path.string(), 0, 0}, {"say how many samples a GPU takes per step: --batch 32"});
  }
  description->sources = {
      {"layers", origin},
      {"input", "the graph's inputs, in the data types the file gives them"},
      {"batch", batch_source(options, builder)},
      {"optimizer", "chosen by ddlsim: an ONNX file names none"},
  };
  auto model = io::build_model(*description);
  if (!model) {
    Error error = model.error();
    error.where.file = path.string();
    return tl::unexpected<Error>(std::move(error));
  }
  return OnnxImport{std::move(*description), std::move(*model), builder.trained_elements()};
}

}  // namespace ddlsim::importers
