#include <array>
#include <cstddef>

#include "ddlsim/service/service.h"
#include "page_data.h"

namespace ddlsim::service {
namespace {

/// A hash in hexadecimal digits as base64.
std::string base64_of(std::string_view hex) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto digit = [&](std::size_t i) -> unsigned {
    const char c = i < hex.size() ? hex[i] : '0';
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  std::string text;
  for (std::size_t at = 0; at < hex.size(); at += 6) {  // three bytes, four letters
    const unsigned bits = digit(at) << 20U | digit(at + 1) << 16U | digit(at + 2) << 12U | digit(at + 3) << 8U |
                          digit(at + 4) << 4U | digit(at + 5);
    const std::size_t bytes = std::min<std::size_t>((hex.size() - at) / 2, 3);
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= bytes ? kAlphabet[bits >> (18U - 6U * static_cast<unsigned>(i)) & 63U] : '=';
    }
  }
  return text;
}

}  // namespace

std::string_view page() { return kPage; }

std::string page_policy() {
  return "default-src 'none'; connect-src 'self'; style-src 'sha256-" + base64_of(kStyleHash) +
         "'; script-src 'sha256-" + base64_of(kScriptHash) +
         "'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

}  // namespace ddlsim::service
