// The page as cmake/embed_page.cmake puts it together from sim/service/page. Private to the room.
#pragma once

#include <string_view>

namespace ddlsim::service {

extern const std::string_view kPage;
extern const std::string_view kStyleHash;   // SHA-256, hexadecimal
extern const std::string_view kScriptHash;  // likewise

}  // namespace ddlsim::service
