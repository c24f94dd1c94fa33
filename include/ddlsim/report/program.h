// Which program an answer is of, and which data.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddlsim::report {

/// The JSON of an answer with "program": {"version", "data"} after its schema; `data` is a fingerprint of the files it
/// comes from (io/content_hash.h), null where nobody looked. Text without a schema stays as it is.
[[nodiscard]] std::string with_program(const std::string& json, std::string_view version,
                                       const std::optional<std::string>& data);

}  // namespace ddlsim::report
