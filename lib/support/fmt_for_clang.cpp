// clang 16 mangles one template of fmt 9 otherwise than the g++ that built Debian's libfmt: here it is, by clang.
#undef FMT_SHARED
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

#include <string>

std::string formatted_by_clang(int value);

std::string formatted_by_clang(int value) {
  std::string text;
  fmt::format_to(std::back_inserter(text), "{}", value);
  return text;
}
