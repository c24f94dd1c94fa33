// What the library returns instead of throwing, printing or aborting.
//
// A function that can fail returns Expected<T>. The Error says what was wrong, where (file:line:column when the input
// had one), and what would have been right. A reader that finds several faults in one input returns the first as the
// Error and the rest in `also`, in the order of the input, so that a user mends a file once.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace ddlsim {

enum class ErrorCode {
  kParse,            // the text is not what its format says
  kInvalidArgument,  // well-formed, but not a value this can take
  kNotFound,         // a name nobody defined
  kUnsupported,      // understood, but not modelled
  kInfeasible,       // modelled, and it cannot be done
  kIo,               // the file could not be read or written
  kOutOfTime,        // the time that was allowed ended first: more of it may bring an answer
};

/// "parse", "invalid-argument", "not-found", "unsupported", "infeasible", "io", "out-of-time": in JSON, over HTTP and
/// in Python.
[[nodiscard]] std::string_view word_of(ErrorCode code);

/// A place in an input. line and column count from 1; 0 means "not known".
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;

  friend bool operator==(const SourceLocation&, const SourceLocation&) = default;
};

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;
  SourceLocation where;
  std::vector<std::string> notes;
  std::vector<Error> also;
};

template <typename T>
using Expected = tl::expected<T, Error>;

/// Makes the unexpected value a function returns.
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, std::string message, SourceLocation where = {},
                                         std::vector<std::string> notes = {});

/// Folds the faults found in one input into one Error. Requires at least one.
[[nodiscard]] tl::unexpected<Error> fail_with_all(std::vector<Error> errors);

/// The error of something that is named at `where`: its place, or, where it has one of its own (a file that another one
/// names), a note of it.
[[nodiscard]] Error named_at(Error error, const SourceLocation& where);

/// "file:line:col", as much of it as is known.
[[nodiscard]] std::string to_string(const SourceLocation& where);

/// "file:line:col: error: message", a line per note, then the same for every error in `also`.
[[nodiscard]] std::string to_string(const Error& error);

}  // namespace ddlsim
