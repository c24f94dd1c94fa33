// The GPU's state by NVML, which comes with the driver: clocks, temperature, power, errors, what holds the clocks down.
#pragma once

#include <cstdint>
#include <string>

#include "libraries.h"

namespace ddlsim::measure {

struct State {
  bool known = false;
  unsigned sm_mhz = 0;
  unsigned memory_mhz = 0;
  unsigned temperature = 0;  // degrees Celsius
  double power = 0;          // watts
  std::uint64_t reasons = 0;
  /// The GPU slowed itself down (heat, power brake). Its ordinary power cap is not among them: products run into it in
  /// training too.
  [[nodiscard]] bool throttled() const { return (reasons & 0xe8U) != 0; }
  [[nodiscard]] std::string reason_names() const;
};

class Monitor {
 public:
  /// `bus` as cudaDeviceGetPCIBusId gives it.
  void open(const std::string& bus, const std::string& folders);
  [[nodiscard]] bool known() const { return device_ != nullptr; }
  State read();
  /// JSON: driver, clocks, power limit, ECC.
  [[nodiscard]] std::string driver() const;
  [[nodiscard]] std::string facts() const;
  [[nodiscard]] double max_sm_hz() const;

 private:
  [[nodiscard]] unsigned ask(const char* function, unsigned which) const;
  [[nodiscard]] unsigned ask(const char* function) const;
  Library library_;
  void* device_ = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*temperature_)(void*, int, unsigned*) = nullptr;
  int (*power_)(void*, unsigned*) = nullptr;
  int (*reasons_)(void*, unsigned long long*) = nullptr;
};

}  // namespace ddlsim::measure
