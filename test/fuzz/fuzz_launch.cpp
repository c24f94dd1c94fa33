// What frameworks are started with: what is read is a scenario that is YAML, and a model that can be read again. The
// first byte chooses the format.
#include "ddlsim/importers/launch_file.h"
#include "ddlsim/io/model_file.h"
#include "input.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto format = importers::kLaunchFormats[data[0] % importers::kLaunchFormats.size()].second;
  const char* const file = (data[0] & 0x80U) != 0 ? "fuzz.yaml" : "fuzz.sh";
  const auto launch = importers::parse_launch(format, fuzz::text_of(data + 1, size - 1), file, {});
  fuzz::require_answer(launch);
  if (!launch) return 0;
  const std::string scenario = importers::write_scenario(*launch, "fuzz", "model.yaml");
  fuzz::require(io::parse_yaml(scenario, "scenario.yaml").has_value());
  if (!launch->model) return 0;
  const auto text = io::write_model(*launch->model);
  if (!text) return 0;  // too large for a model file
  const auto again =
      io::parse_yaml(*text, "model.yaml").and_then([](const io::Node& node) { return io::read_model(node); });
  fuzz::require(again.has_value());
  return 0;
}
