// What was typed. Host only.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace ddlsim::measure {

inline constexpr const char* kUsage =
    R"(measure: times the kernels of deep-learning training on this GPU, for `ddlsim calibrate fit`

  measure [--out FILE] [--quick] [--only BENCH,...] [--budget SECONDS]
  measure --resume FILE          go on where FILE ends (same GPU and driver)
  measure --list [--only ...]    print the plan; needs no GPU

  --out FILE        rows, JSON lines (measurement.jsonl); what the fit does not read goes to FILE.extra.jsonl
  --quick           fewer points, about a minute
  --only BENCH,...  of launches, streams, rows, gemms, convolutions, copies, collectives, overlap, host
  --budget SECONDS  stop after about so long (480; 60 with --quick)
  --device N        the GPU (0)
  --seed N          of the points' order and choice (1)
  --libraries DIRS  folders, joined by ':', where libcublas, libcudnn, libnccl are looked for first
  --force           overwrite FILE

Exit: 0 all measured or budget spent, 1 stopped (Ctrl-C keeps what was measured) or failed, 2 wrong usage.
)";

inline constexpr const char* kBenches[] = {"launches", "streams",     "rows",    "gemms", "convolutions",
                                           "copies",   "collectives", "overlap", "host"};

struct Options {
  std::string out = "measurement.jsonl";
  std::string libraries;
  std::vector<std::string> only;
  double budget = 0;  // seconds; 0: the default
  std::uint64_t seed = 1;
  int device = 0;
  bool quick = false;
  bool resume = false;
  bool list = false;
  bool force = false;
  bool help = false;
  std::string error;  // not empty: wrong usage

  [[nodiscard]] double seconds() const { return budget > 0 ? budget : quick ? 60 : 480; }
  [[nodiscard]] bool wants(const std::string& bench) const {
    if (only.empty()) return true;
    for (const std::string& name : only) {
      if (name == bench) return true;
    }
    return false;
  }
};

inline bool parse_number(const std::string& text, double least, double most, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && end == text.c_str() + text.size() && value >= least && value <= most;
}

inline std::string parse_benches(const std::string& text, std::vector<std::string>& only) {
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, comma - at);
    std::string choices;
    bool known = false;
    for (const char* bench : kBenches) {
      known = known || name == bench;
      choices += (choices.empty() ? "" : ", ") + std::string(bench);
    }
    if (!known) return "--only '" + name.substr(0, 60) + "': the benches are " + choices;
    only.push_back(name);
    at = comma + 1;
  }
  return {};
}

/// The value of a flag that takes one. Returns what is wrong, or nothing.
inline std::string take_value(Options& options, const std::string& flag, const std::string& value) {
  double count = 0;
  if (value.empty()) return flag + " needs a value";
  if (flag == "--out" || flag == "--resume") {
    options.out = value;
    options.resume = flag == "--resume";
  } else if (flag == "--libraries") {
    options.libraries = value;
  } else if (flag == "--only") {
    return parse_benches(value, options.only);
  } else if (flag == "--budget") {
    if (!parse_number(value, 1, 1e6, options.budget)) return "--budget '" + value + "' is not seconds (1 to 1000000)";
  } else if (flag == "--device") {
    if (!parse_number(value, 0, 1023, count)) return "--device '" + value + "' is not a number of a GPU";
    options.device = static_cast<int>(count);
  } else {
    if (!parse_number(value, 0, 1e15, count)) return "--seed '" + value + "' is not a whole number";
    options.seed = static_cast<std::uint64_t>(count);
  }
  return {};
}

inline Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size() && options.error.empty(); ++i) {
    const std::string& whole = arguments[i];
    const std::size_t equals = whole.rfind("--", 0) == 0 ? whole.find('=') : std::string::npos;
    const std::string flag = whole.substr(0, equals);
    if (whole == "--quick") {
      options.quick = true;
    } else if (whole == "--list") {
      options.list = true;
    } else if (whole == "--force") {
      options.force = true;
    } else if (whole == "--help" || whole == "-h") {
      options.help = true;
    } else if (flag == "--out" || flag == "--resume" || flag == "--only" || flag == "--budget" || flag == "--device" ||
               flag == "--seed" || flag == "--libraries") {
      const bool inside = equals != std::string::npos;
      if (!inside) ++i;
      options.error = take_value(options, flag,
                                 inside                 ? whole.substr(equals + 1)
                                 : i < arguments.size() ? arguments[i]
                                                        : "");
    } else {
      options.error = "unknown argument '" + whole.substr(0, 60) + "'";
    }
  }
  return options;
}

}  // namespace ddlsim::measure
