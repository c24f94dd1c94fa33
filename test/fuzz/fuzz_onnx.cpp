// ONNX files, through a file in memory, as the importer maps what it reads.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "ddlsim/importers/onnx_file.h"
#include "ddlsim/io/model_file.h"
#include "input.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("fuzz", 0);
  fuzz::require(file >= 0 && ::ftruncate(file, 0) == 0);
  fuzz::require(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  importers::OnnxOptions options;
  options.id = "fuzz";
  options.unknown = importers::UnknownOperator::kAssumed;
  const auto imported = importers::import_onnx("/proc/self/fd/" + std::to_string(file), options);
  fuzz::require_answer(imported);
  if (!imported) return 0;
  const auto text = io::write_model(imported->description);
  if (!text) return 0;  // too large for a model file
  const auto again =
      io::parse_yaml(*text, "fuzz.yaml").and_then([](const io::Node& node) { return io::read_model(node); });
  fuzz::require(again.has_value() && again->parameters() == imported->model.parameters());
  return 0;
}
