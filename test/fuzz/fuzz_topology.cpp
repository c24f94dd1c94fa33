// Topologies: NCCL's XML and the matrix of nvidia-smi.
#include "ddlsim/importers/topology_file.h"
#include "input.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::require_answer(importers::parse_nccl_topology(text, "fuzz.xml"));
  importers::NvidiaSmiOptions options;
  options.pcie.bandwidth = gigabytes_per_second(12);
  fuzz::require_answer(importers::parse_nvidia_smi_topology(text, "fuzz.txt", options));
  return 0;
}
