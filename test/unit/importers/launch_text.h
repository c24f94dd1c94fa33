// What the tests of importers/launch_file.h read, and how they look at it.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "ddlsim/importers/launch_file.h"

namespace ddlsim::test {

using namespace importers;

inline LaunchImport taken(LaunchFormat format, const std::string& text, const LaunchOptions& options = {},
                          const std::string& file = "job.txt") {
  auto result = parse_launch(format, text, file, options);
  if (!result) FAIL(to_string(result.error()) << "\n" << text);
  return std::move(*result);
}

inline std::string refused(LaunchFormat format, const std::string& text, const std::string& file = "job.txt") {
  const auto result = parse_launch(format, text, file, {});
  if (result) FAIL("taken: " << text);
  return to_string(result.error());
}

/// The value of a setting; "-" when it is not set.
inline std::string value(const LaunchImport& launch, const std::string& path) {
  for (const LaunchSetting& setting : launch.settings) {
    if (setting.path == path) return setting.value;
  }
  return "-";
}

inline std::string left_out(const LaunchImport& launch) {
  std::string text;
  for (const std::string& line : launch.left_out) text += line + "\n";
  return text;
}

inline LaunchImport megatron(const std::string& text, const LaunchOptions& options = {}) {
  return taken(LaunchFormat::kMegatron, text, options, "train.sh");
}

}  // namespace ddlsim::test
