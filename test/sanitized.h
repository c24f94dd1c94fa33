// Whether a sanitizer watches what is tested: ten times slower. Tests are compiled without one (CMakeLists.txt), so
// that the build says it, to those that ask.
#pragma once

#if !defined(DDLSIM_SANITIZED)
#error "test/CMakeLists.txt does not define DDLSIM_SANITIZED for this file"
#endif

namespace ddlsim::test {

inline constexpr bool kSanitized = DDLSIM_SANITIZED != 0;

}  // namespace ddlsim::test
