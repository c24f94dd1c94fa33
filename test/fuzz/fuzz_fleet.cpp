// Tables of jobs (models/README.md).
#include <sstream>
#include <string>

#include "ddlsim/whatif/fleet.h"
#include "input.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  io::StudySetting setting;
  setting.peak = teraflops_per_second(11);
  setting.memory_bandwidth = gigabytes_per_second(1000);
  setting.memory_size = gigabytes(16);
  setting.network = gigabits_per_second(25);
  setting.pcie = gigabytes_per_second(10);
  setting.nvlink = gigabytes_per_second(50);
  setting.efficiency = 0.7;
  whatif::Fleet fleet(setting, true);
  std::istringstream table(std::string(fuzz::text_of(data, size)));
  const auto read = fleet.add_table(table, "fuzz.csv");
  fuzz::require_answer(read);
  if (read) (void)fleet.report();
  return 0;
}
