#include "ddlsim/support/error.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace ddlsim {

std::string_view word_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kParse: return "parse";
    case ErrorCode::kInvalidArgument: return "invalid-argument";
    case ErrorCode::kNotFound: return "not-found";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kInfeasible: return "infeasible";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kOutOfTime: return "out-of-time";
  }
  return "io";
}

tl::unexpected<Error> fail(ErrorCode code, std::string message, SourceLocation where, std::vector<std::string> notes) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(where), std::move(notes), {}});
}

tl::unexpected<Error> fail_with_all(std::vector<Error> errors) {
  std::stable_sort(errors.begin(), errors.end(), [](const Error& a, const Error& b) {
    return std::tie(a.where.file, a.where.line, a.where.column) < std::tie(b.where.file, b.where.line, b.where.column);
  });
  Error first = std::move(errors.front());
  first.also.insert(first.also.end(), std::make_move_iterator(errors.begin() + 1),
                    std::make_move_iterator(errors.end()));
  return tl::unexpected<Error>(std::move(first));
}

Error named_at(Error error, const SourceLocation& where) {
  if (error.where.file.empty()) {
    error.where = where;
  } else if (!where.file.empty() && where.file != error.where.file) {
    error.notes.push_back("named in " + to_string(where));
  }
  return error;
}

std::string to_string(const SourceLocation& where) {
  std::string text = where.file;
  if (where.line > 0) text += ":" + std::to_string(where.line);
  if (where.line > 0 && where.column > 0) text += ":" + std::to_string(where.column);
  return text;
}

std::string to_string(const Error& error) {
  std::string text = error.where.file.empty() ? "" : to_string(error.where) + ": ";
  text += "error: " + error.message;
  for (const std::string& note : error.notes) text += "\n  " + note;
  for (const Error& other : error.also) text += "\n" + to_string(other);
  return text;
}

}  // namespace ddlsim
