// Standard input in a file's place: `-`.
//
// Readers want regular files of a known size, so what comes is kept in a file without a name (in $TMPDIR) that goes
// with the program, and readers get its path. Messages say <stdin>.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ddlsim::cli {

/// Puts the path of what standard input holds where `-` stands for a file that is read: as a positional argument of
/// validate, loader, import and calibrate, as the value of an option that names a file (-f, --model, --table, ...), and
/// in
/// `--set PATH=-` of settings that do. Bounded: 64 MiB for options, 1 GiB for arguments. `fleet -` reads as it comes.
/// Throws UsageError where `-` stands twice, Error where it cannot be read or is too large.
void take_standard_input(const CLI::App& app, std::vector<std::string>& arguments);

/// Whether a path is one of the above.
[[nodiscard]] bool is_standard_input(const std::string& path);

/// A text with <stdin> where it has the path.
[[nodiscard]] std::string with_standard_input_named(std::string text);

}  // namespace ddlsim::cli
