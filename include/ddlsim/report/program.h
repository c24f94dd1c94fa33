// Which program an answer is of, and which data.
#pragma once

#include <optional>
#include <string>

namespace ddlsim::report {

/// The JSON of an answer, in whose "program": {"version", "data"} (its second field) `data` stands: a fingerprint of
/// the files that it comes from (io/content_hash.h), null where nobody looked. Text without a schema stays as it is.
[[nodiscard]] std::string with_program(const std::string& json, const std::optional<std::string>& data);

}  // namespace ddlsim::report
