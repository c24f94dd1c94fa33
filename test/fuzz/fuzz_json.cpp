// nccl-tests' JSON, with and without what the caller knows; kernels' times as JSON lines.
#include <sstream>
#include <string>

#include "ddlsim/importers/collective_file.h"
#include "ddlsim/io/kernel_file.h"
#include "input.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::require_answer(importers::read_nccl_tests_json(text, "fuzz.json"));
  const importers::CollectiveFileDefaults known{
      .op = primitives::CollectiveOp::kAllReduce, .gpus = 8, .nodes = 1, .in_place = true};
  fuzz::require_answer(importers::read_nccl_tests_json(text, "fuzz.json", known));
  std::istringstream kernels{std::string(text)};
  fuzz::require_answer(io::read_kernels_json(kernels, "fuzz.jsonl", {}));
  return 0;
}
