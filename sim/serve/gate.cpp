#include "gate.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::serve {
namespace {

using Checked = std::optional<Refusal>;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return text;
}

/// The one value of a header; nothing when it is absent or there are several.
std::optional<std::string> only(const httplib::Request& request, const char* name) {
  if (request.get_header_value_count(name) != 1) return std::nullopt;
  return request.get_header_value(name);
}

Checked check_host(const httplib::Request& request, const ServerOptions& options, int port) {
  const auto host = only(request, "Host");
  if (!host) return Refusal{400, "a request needs one Host header", "", ""};
  // Who has the token is no page of somebody else's.
  if (!options.token.empty()) return std::nullopt;
  const std::string own = options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
  for (const std::string& name : {std::string("127.0.0.1"), std::string("localhost"), std::string("[::1]"), own}) {
    if (lower(*host) == name + ":" + std::to_string(port) || (port == 80 && lower(*host) == name)) return std::nullopt;
  }
  return Refusal{403, fmt::format("'{}' is no name of this server", host->substr(0, 60)),
                 fmt::format("ask for http://127.0.0.1:{}/", port), ""};
}

Checked check_origin(const httplib::Request& request) {
  if (!request.has_header("Origin")) return std::nullopt;
  const auto origin = only(request, "Origin");
  if (origin && lower(*origin) == "http://" + lower(request.get_header_value("Host"))) return std::nullopt;
  return Refusal{403, "pages of other origins cannot ask", "", ""};
}

Checked check_token(const httplib::Request& request, const ServerOptions& options) {
  if (options.token.empty() || request.path == "/" || request.path == "/healthz") return std::nullopt;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string given = only(request, "Authorization").value_or("");
  if (given.starts_with(kScheme) && same_secret(std::string_view(given).substr(kScheme.size()), options.token)) {
    return std::nullopt;
  }
  return Refusal{401, "the token is missing or wrong", "as the header `Authorization: Bearer TOKEN`", ""};
}

Checked check_path(const httplib::Request& request) {
  constexpr auto kReadable =
      std::to_array<std::string_view>({"/", "/v1/catalog", "/openapi.json", "/healthz", "/metrics"});
  const bool readable = std::find(kReadable.begin(), kReadable.end(), request.path) != kReadable.end();
  const bool askable = !command_of(request.path).empty();
  if (!readable && !askable) {
    std::vector<std::string> paths(kReadable.begin(), kReadable.end());
    for (const std::string_view command : service::commands()) paths.push_back("/v1/" + std::string(command));
    return Refusal{404, "there is nothing here", "valid: " + join(paths), ""};
  }
  if (readable && request.method != "GET" && request.method != "HEAD") {
    return Refusal{405, "this is read, by GET", "", "GET, HEAD"};
  }
  if (askable && request.method != "POST") return Refusal{405, "this is asked, by POST", "", "POST"};
  return std::nullopt;
}

Checked check_length(const httplib::Request& request, const ServerOptions& options) {
  const std::size_t lengths = request.get_header_value_count("Content-Length");
  const bool encoded = request.has_header("Transfer-Encoding");
  if (lengths > 1 || (lengths == 1 && encoded)) return Refusal{400, "the length of the body is stated twice", "", ""};
  if (encoded && lower(request.get_header_value("Transfer-Encoding")) != "chunked") {
    return Refusal{400, "the only transfer encoding is chunked", "", ""};
  }
  if (lengths == 0) return std::nullopt;
  const std::string text = request.get_header_value("Content-Length");
  const bool digits = !text.empty() && text.size() < 19 &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return Refusal{400, "Content-Length is no length", "", ""};
  if (std::stoull(text) > options.body) {
    return Refusal{413, fmt::format("a request of more than {} bytes", options.body), "", ""};
  }
  return std::nullopt;
}

Checked check_body(const httplib::Request& request, const ServerOptions& options) {
  if (auto wrong = check_length(request, options)) return wrong;
  const bool has_body = request.has_header("Transfer-Encoding") ||
                        (request.has_header("Content-Length") && request.get_header_value("Content-Length") != "0");
  if (request.method != "POST") {
    if (has_body) return Refusal{400, "a body where none is read", "", ""};
    return std::nullopt;
  }
  if (!request.has_header("Transfer-Encoding") && !request.has_header("Content-Length")) {
    return Refusal{411, "the length of the body is missing", "", ""};
  }
  if (request.has_header("Content-Encoding")) return Refusal{415, "the body must not be compressed", "", ""};
  const std::string type = media_type(request);
  for (const std::string_view known : {"application/json", "application/yaml", "application/x-yaml"}) {
    if (type == known) return std::nullopt;
  }
  return Refusal{415, fmt::format("'{}' is no type of request", type.substr(0, 60)),
                 "valid: application/json, application/yaml", ""};
}

}  // namespace

std::optional<Refusal> refusal_of(const httplib::Request& request, const ServerOptions& options, int port) {
  if (auto wrong = check_host(request, options, port)) return wrong;
  if (auto wrong = check_origin(request)) return wrong;
  if (auto wrong = check_token(request, options)) return wrong;
  if (auto wrong = check_path(request)) return wrong;
  return check_body(request, options);
}

std::string media_type(const httplib::Request& request) {
  std::string type = lower(only(request, "Content-Type").value_or(""));
  type = type.substr(0, type.find(';'));
  return type.substr(0, type.find_last_not_of(' ') + 1);
}

std::string_view command_of(std::string_view path) {
  constexpr std::string_view kPrefix = "/v1/";
  if (!path.starts_with(kPrefix)) return {};
  for (const std::string_view command : service::commands()) {
    if (path.substr(kPrefix.size()) == command) return command;
  }
  return {};
}

bool same_secret(std::string_view given, std::string_view secret) {
  unsigned differences = given.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    differences |= static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other));
  }
  return differences == 0;
}

std::optional<bool> is_loopback(const std::string& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24U) == 127;
  in6_addr six{};
  if (inet_pton(AF_INET6, address.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return std::nullopt;
}

}  // namespace ddlsim::serve
