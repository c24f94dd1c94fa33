// Hugging Face configurations: what is read can be written, and what is written can be read.
#include "ddlsim/importers/hf_config.h"
#include "ddlsim/io/model_file.h"
#include "input.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto imported = importers::parse_hf_config(fuzz::text_of(data, size), "fuzz.json", {});
  fuzz::require_answer(imported);
  if (!imported) return 0;
  const auto text = io::write_model(imported->description);
  if (!text) return 0;  // too large for a model file
  const auto again =
      io::parse_yaml(*text, "fuzz.yaml").and_then([](const io::Node& node) { return io::read_model(node); });
  fuzz::require(again.has_value() && again->parameters() == imported->model.parameters());
  return 0;
}
