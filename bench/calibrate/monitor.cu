#include "monitor.h"

#include "json_line.h"

// NVML's functions by name, so that neither its header nor its stub library is needed. Numbers as in nvml.h: clocks 1
// SM, 2 memory; temperature sensor 0; ECC counters 0 corrected, 1 uncorrected, 0 since the driver's start.
namespace ddlsim::measure {

std::string State::reason_names() const {
  const char* names[] = {"idle",    "clock-setting",    "power-cap",   "hardware", "sync-boost",
                         "thermal", "thermal-hardware", "power-brake", "display"};
  std::string text;
  for (int bit = 0; bit < 9; ++bit) {
    if ((reasons >> bit & 1U) != 0) text += (text.empty() ? "" : " ") + std::string(names[bit]);
  }
  return text;
}

void Monitor::open(const std::string& bus, const std::string& folders) {
  library_ = Library({"libnvidia-ml.so.1", "libnvidia-ml.so"}, folders);
  const auto init = library_.find<int (*)()>("nvmlInit_v2");
  const auto by_bus = library_.find<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || by_bus == nullptr || init() != 0) return;
  if (by_bus(bus.c_str(), &device_) != 0) device_ = nullptr;
  library_.need(clock_, "nvmlDeviceGetClockInfo");
  library_.need(temperature_, "nvmlDeviceGetTemperature");
  library_.need(power_, "nvmlDeviceGetPowerUsage");
  reasons_ = library_.find<int (*)(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksEventReasons");
  if (reasons_ == nullptr) library_.need(reasons_, "nvmlDeviceGetCurrentClocksThrottleReasons");
}

State Monitor::read() {
  State state;
  if (device_ == nullptr) return state;
  unsigned milliwatts = 0;
  unsigned long long reasons = 0;
  state.known = clock_(device_, 1, &state.sm_mhz) == 0;
  if (clock_(device_, 2, &state.memory_mhz) != 0) state.memory_mhz = 0;
  if (temperature_(device_, 0, &state.temperature) != 0) state.temperature = 0;
  if (power_(device_, &milliwatts) == 0) state.power = milliwatts * 1e-3;
  if (reasons_(device_, &reasons) == 0) state.reasons = reasons;
  return state;
}

unsigned Monitor::ask(const char* function, unsigned which) const {
  const auto call = library_.find<int (*)(void*, unsigned, unsigned*)>(function);
  unsigned value = 0;
  return call != nullptr && device_ != nullptr && call(device_, which, &value) == 0 ? value : 0;
}

unsigned Monitor::ask(const char* function) const {
  const auto call = library_.find<int (*)(void*, unsigned*)>(function);
  unsigned value = 0;
  return call != nullptr && device_ != nullptr && call(device_, &value) == 0 ? value : 0;
}

std::string Monitor::driver() const {
  const auto version = library_.find<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
  char text[96] = "";
  return version != nullptr && device_ != nullptr && version(text, sizeof text) == 0 ? text : "";
}

double Monitor::max_sm_hz() const { return 1e6 * ask("nvmlDeviceGetMaxClockInfo", 1U); }

std::string Monitor::facts() const {
  Line line;
  line.add("max_sm_mhz", ask("nvmlDeviceGetMaxClockInfo", 1U))
      .add("max_memory_mhz", ask("nvmlDeviceGetMaxClockInfo", 2U));
  line.add("power_limit_w", ask("nvmlDeviceGetEnforcedPowerLimit") * 1e-3);
  const auto ecc = library_.find<int (*)(void*, unsigned*, unsigned*)>("nvmlDeviceGetEccMode");
  unsigned current = 0;
  unsigned pending = 0;
  if (ecc != nullptr && device_ != nullptr && ecc(device_, &current, &pending) == 0) line.add("ecc", current == 1);
  const auto errors = library_.find<int (*)(void*, int, int, unsigned long long*)>("nvmlDeviceGetTotalEccErrors");
  for (int kind = 0; kind < 2; ++kind) {
    unsigned long long count = 0;
    if (errors == nullptr || device_ == nullptr || errors(device_, kind, 0, &count) != 0) continue;
    line.add(kind == 0 ? "ecc_corrected" : "ecc_uncorrected", count);
  }
  return line.text();
}

}  // namespace ddlsim::measure
