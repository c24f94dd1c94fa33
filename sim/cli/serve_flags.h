// The flags of `ddlsim serve`: ddlsim reads them for their mistakes and their help, ddlsim-serve for what they say.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ddlsim::cli {

struct ServeFlags {
  std::string port_text = "8080";
  std::string host = "127.0.0.1";
  std::string token;
  std::string data;

  /// Makes `app` the command's and parses `arguments`. Throws HelpRequest or UsageError.
  void read(CLI::App& app, const std::vector<std::string>& arguments);
  /// Throws UsageError.
  [[nodiscard]] int port() const;
};

}  // namespace ddlsim::cli
