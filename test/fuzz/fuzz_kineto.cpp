// Traces of torch.profiler, plain or gzip: by their steps, and taken as one.
#include <array>

#include "ddlsim/importers/kineto_file.h"
#include "input_file.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::array files{fuzz::file_of(data, size)};
  fuzz::require_answer(importers::read_kineto(files));
  fuzz::require_answer(importers::read_kineto(files, {.whole = true}));
  return 0;
}
