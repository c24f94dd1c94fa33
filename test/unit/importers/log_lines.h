// How the tests of importers/log_file.h read the lines of a log.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "ddlsim/importers/log_file.h"

namespace ddlsim::test {

inline Expected<importers::TrainingLog> read(const std::string& text) {
  std::istringstream stream(text);
  return importers::read_log(stream, "train.log");
}

inline std::string error_of(const std::string& text) {
  const auto log = read(text);
  return log ? "" : log.error().message;
}

inline std::vector<double> in_seconds(const importers::TrainingLog& log) {
  std::vector<double> values;
  for (const Time step : log.steps) values.push_back(step.in(seconds));
  return values;
}

}  // namespace ddlsim::test
