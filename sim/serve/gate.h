// Who may ask what: the checks of a request's head. Private to the room.
#pragma once

#include <httplib.h>

#include <optional>
#include <string>
#include <string_view>

#include "ddlsim/serve/server.h"

namespace ddlsim::serve {

struct Refusal {
  int status = 400;
  std::string message;
  std::string note;   // may be empty
  std::string allow;  // the methods of a path, with 405
};

/// Nothing: the request may go on. `port`: the server's own.
[[nodiscard]] std::optional<Refusal> refusal_of(const httplib::Request& request, const ServerOptions& options,
                                                int port);

/// Of a request's body, in small letters and without parameters: "application/json".
[[nodiscard]] std::string media_type(const httplib::Request& request);

/// The command of a path, "predict" of "/v1/predict"; empty where there is none.
[[nodiscard]] std::string_view command_of(std::string_view path);

/// Whether texts are equal, in a time that depends on `given` alone.
[[nodiscard]] bool same_secret(std::string_view given, std::string_view secret);

/// Whether a numeric address is this host's own alone. Nothing: it is no address.
[[nodiscard]] std::optional<bool> is_loopback(const std::string& address);

}  // namespace ddlsim::serve
