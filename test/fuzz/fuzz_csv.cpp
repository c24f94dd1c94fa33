// Tables: published cases, measured collectives, what nccl-tests prints, and kernels' times.
#include <sstream>
#include <string>

#include "ddlsim/importers/collective_file.h"
#include "ddlsim/io/case_file.h"
#include "ddlsim/io/kernel_file.h"
#include "input.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  std::istringstream cases(text);
  fuzz::require_answer(io::read_cases(cases, "fuzz.csv"));
  std::istringstream collectives(text);
  fuzz::require_answer(importers::read_collective_csv(collectives, "fuzz.csv"));
  std::istringstream printed(text);
  fuzz::require_answer(importers::read_nccl_tests_text(printed, "fuzz.txt"));
  std::istringstream kernels(text);
  fuzz::require_answer(io::read_kernels_csv(kernels, "fuzz.csv", {}));
  return 0;
}
