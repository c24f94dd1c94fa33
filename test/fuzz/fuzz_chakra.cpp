// Chakra execution traces: what is read can be written and read again.
#include "ddlsim/importers/chakra_file.h"
#include "input_file.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto trace = importers::read_chakra(fuzz::file_of(data, size));
  fuzz::require_answer(trace);
  if (!trace) return 0;
  const std::string text = importers::write_chakra(*trace);
  const auto again =
      importers::read_chakra(fuzz::file_of(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  fuzz::require(again.has_value() && again->nodes.size() == trace->nodes.size());
  return 0;
}
