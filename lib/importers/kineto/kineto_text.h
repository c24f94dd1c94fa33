// The text of a trace or a log, unpacked where it is gzip.
#pragma once

#include <filesystem>
#include <string>

#include "ddlsim/support/error.h"

namespace ddlsim::importers::kineto {

inline constexpr std::size_t kMaxTraceSize = std::size_t{1} << 30U;

/// The file's text, with `padding` spare bytes reserved behind it. Errors: kIo, and kParse for what is no gzip, is cut
/// short, or unpacks to more than kMaxTraceSize.
[[nodiscard]] Expected<std::string> read_text(const std::filesystem::path& path, std::size_t padding);

}  // namespace ddlsim::importers::kineto
