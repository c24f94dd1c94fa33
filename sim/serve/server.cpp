#include "ddlsim/serve/server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <httplib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "connection.h"
#include "connection_threads.h"
#include "gate.h"
#include "metrics.h"
#include "workers.h"

namespace ddlsim::serve {
namespace {

constexpr const char* kJsonType = "application/json";
constexpr std::size_t kLeastToken = 16;
constexpr double kSearched = 0.9;      // of the time of an answer; the rest is to write it down
constexpr double kLeastSearch = 1e-3;  // seconds

/// Of the connection that this thread serves.
thread_local Connection* connection = nullptr;

/// What is fixed from the start.
struct Site {
  std::shared_ptr<const service::Service> service;
  ServerOptions options;
  int port = 0;
  std::string openapi;
  std::string policy;
};

/// cpp-httplib's parsing and routing, between our connections and our answers.
class Http final : public httplib::Server {
 public:
  Http(Site site, int socket, int wake);
  ~Http() override;

  void begin_stop() {
    stopping_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
    stop();
  }
  [[nodiscard]] bool stopping() const { return stopping_; }
  [[nodiscard]] bool busy() const { return quick_.busy() || long_.busy(); }
  [[nodiscard]] int port() const { return site_.port; }

 private:
  bool process_and_close_socket(socket_t socket) override;
  void refuse_connection(int socket);
  void answer(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader);
  void read_only(const httplib::Request& request, httplib::Response& response);
  HandlerResponse before(const httplib::Request& request, httplib::Response& response);
  HandlerResponse explain_error(httplib::Response& response);
  void after(httplib::Response& response);

  Site site_;
  int wake_;
  std::atomic<bool> stopping_ = false;
  Metrics metrics_;
  Workers quick_;  // predict, explain
  Workers long_;
  std::shared_future<Expected<std::string>> catalog_;
};

std::string_view word_of_status(int status) {
  switch (status) {
    case 404: return word_of(ErrorCode::kNotFound);
    case 408:
    case 503: return word_of(ErrorCode::kOutOfTime);
    case 500: return "fault";
    default: return word_of(ErrorCode::kInvalidArgument);
  }
}

void refuse(httplib::Response& response, const Refusal& refusal) {
  response.status = refusal.status;
  if (!refusal.allow.empty()) response.set_header("Allow", refusal.allow);
  if (refusal.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (refusal.status == 503) response.set_header("Retry-After", "1");
  Error error{ErrorCode::kInvalidArgument, refusal.message, {}, {}, {}};
  if (!refusal.note.empty()) error.notes.push_back(refusal.note);
  response.set_content(service::error_json(error, word_of_status(refusal.status)), kJsonType);
}

Http::Http(Site site, int socket, int wake)
    : site_(std::move(site)), wake_(wake), quick_(site_.options.threads), long_(site_.options.threads) {
  svr_sock_ = socket;
  set_keep_alive_timeout(static_cast<time_t>(site_.options.idle_time.in(seconds)));
  set_keep_alive_max_count(1'000'000'000);
  new_task_queue = [this] { return new ConnectionThreads(site_.options.connections); };
  set_pre_routing_handler([this](const auto& request, auto& response) { return before(request, response); });
  set_error_handler(HandlerWithResponse([this](const auto&, auto& response) { return explain_error(response); }));
  set_post_routing_handler([this](const auto&, auto& response) { after(response); });
  set_exception_handler([](const auto&, auto& response, const std::exception_ptr&) {
    refuse(response, {500, "a fault of ddlsim itself", "", ""});
  });
  set_expect_100_continue_handler([this](const auto& request, auto& response) {
    const auto refusal = refusal_of(request, site_.options, site_.port);
    if (!refusal) return 100;
    connection->close_after();
    refuse(response, *refusal);
    return refusal->status;
  });
  // What may pass `before` with a body is a question.
  Post("/v1/[a-z-]+", [this](const auto& request, auto& response, const httplib::ContentReader& reader) {
    answer(request, response, reader);
  });
  // Reads hundreds of files once; the first page must not wait for it.
  catalog_ = std::async(std::launch::async, [this] { return site_.service->catalog_json(); }).share();
}

Http::~Http() {
  if (const int socket = svr_sock_.exchange(INVALID_SOCKET); socket != INVALID_SOCKET) ::close(socket);
  ::close(wake_);
}

Http::HandlerResponse Http::before(const httplib::Request& request, httplib::Response& response) {
  connection->whole = Clock::now();
  if (const std::string_view command = command_of(request.path); !command.empty()) connection->what = command;
  if (const auto refusal = refusal_of(request, site_.options, site_.port)) {
    connection->close_after();  // a body may follow that nobody reads
    refuse(response, *refusal);
    return HandlerResponse::Handled;
  }
  if (request.method == "POST") return HandlerResponse::Unhandled;
  read_only(request, response);
  return HandlerResponse::Handled;
}

void Http::read_only(const httplib::Request& request, httplib::Response& response) {
  response.status = 200;
  if (request.path == "/") {
    connection->what = "page";
    response.set_header("Content-Security-Policy", site_.policy);
    response.set_content(service::page().data(), service::page().size(), "text/html; charset=utf-8");
  } else if (request.path == "/v1/catalog") {
    connection->what = "catalog";
    const auto& all = catalog_.get();
    if (!all) response.status = 500;
    response.set_content(all ? *all : service::error_json(all.error()), kJsonType);
  } else if (request.path == "/openapi.json") {
    response.set_content(site_.openapi, kJsonType);
  } else if (request.path == "/metrics") {
    response.set_content(metrics_.text(), "text/plain; version=0.0.4");
  } else {
    response.set_content("ok\n", "text/plain");
  }
}

void Http::answer(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader) {
  const std::string command(command_of(request.path));
  // A chunk of one byte takes six.
  connection->allow(6 * site_.options.body + site_.options.head);
  std::string body;
  bool too_long = false;
  const bool whole = reader([&](const char* data, std::size_t size) {
    too_long = body.size() + size > site_.options.body;
    if (!too_long) body.append(data, size);
    return !too_long;
  });
  connection->whole = Clock::now();
  if (!whole) {
    connection->close_after();
    if (too_long) {
      return refuse(response, {413, fmt::format("a request of more than {} bytes", site_.options.body), "", ""});
    }
    return refuse(response, {connection->late() ? 408 : 400, "the body ends early", "", ""});
  }
  Workers& workers = command == "predict" || command == "explain" ? quick_ : long_;
  const auto syntax = media_type(request) == kJsonType ? service::Syntax::kJson : service::Syntax::kYaml;
  // What a question waited for a thread is no longer there for its search.
  const Clock::time_point end = connection->whole + duration_of(site_.options.answer_time * kSearched);
  auto answered = workers.run(
      [service = site_.service, command, body, syntax, end] {
        const double left = std::chrono::duration<double>(end - Clock::now()).count();
        return service->answer(command, body, syntax, seconds(std::max(left, kLeastSearch)));
      },
      duration_of(site_.options.answer_time));
  if (!answered) {
    return refuse(response, {503, "no answer in time", "ask for less, or the command; a plan takes a limit", ""});
  }
  const bool late = !*answered && answered->error().code == ErrorCode::kOutOfTime;
  response.status = *answered ? 200 : late ? 503 : 400;
  response.set_content(*answered ? **answered : service::error_json(answered->error()), kJsonType);
}

/// What cpp-httplib refused itself has no words yet.
Http::HandlerResponse Http::explain_error(httplib::Response& response) {
  if (!response.body.empty()) return HandlerResponse::Unhandled;
  connection->close_after();
  if (connection->late()) response.status = 408;
  if (connection->too_long()) response.status = 431;
  refuse(response,
         {response.status, response.status == 431 ? "the head of the request is too long" : "not a request", "", ""});
  return HandlerResponse::Handled;
}

void Http::after(httplib::Response& response) {
  connection->status = response.status;
  if (stopping_) connection->close_after();
  if (connection->closes()) {
    response.headers.erase("Keep-Alive");
    response.headers.erase("Connection");
    response.set_header("Connection", "close");
  }
  response.headers.erase("Accept-Ranges");
  if (!response.has_header("Content-Length")) {  // what was refused before its body was asked for
    response.set_header("Content-Length", std::to_string(response.body.size()));
  }
  for (const auto& [name, value] :
       {std::pair{"Cache-Control", "no-store"}, std::pair{"X-Content-Type-Options", "nosniff"},
        std::pair{"Cross-Origin-Resource-Policy", "same-origin"}, std::pair{"Referrer-Policy", "no-referrer"}}) {
    response.set_header(name, value);
  }
}

void Http::refuse_connection(int socket) {
  metrics_.refused_connection();
  constexpr std::string_view kBusy =
      "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
  [[maybe_unused]] const auto sent = ::send(socket, kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
}

bool Http::process_and_close_socket(socket_t socket) {
  if (ConnectionThreads::refusing()) {
    refuse_connection(socket);
    return false;
  }
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  metrics_.connections(1);
  {
    Connection here(socket, wake_, site_.options);
    connection = &here;
    const auto set_up = [](httplib::Request& request) {
      request.ranges.clear();
      request.headers.erase("Accept-Encoding");  // compressing takes longer than predicting
    };
    while (here.wait_for_request()) {
      bool closed = false;
      const bool parsed = process_request(here, false, closed, set_up);
      const bool sent = here.flush();
      if (here.status != 0) {
        metrics_.count(here.what, here.status,
                       seconds(std::chrono::duration<double>(Clock::now() - here.whole).count()));
      }
      if (!parsed || !sent || closed || here.closes()) break;
    }
    if (here.closes()) here.linger();
    connection = nullptr;
  }
  metrics_.connections(-1);
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
  return true;
}

/// A socket that listens, and its port.
Expected<std::pair<int, int>> open_socket(const ServerOptions& options) {
  sockaddr_storage address{};
  socklen_t length = sizeof(sockaddr_in);
  auto& four = reinterpret_cast<sockaddr_in&>(address);  // NOLINT: the socket interface
  auto& six = reinterpret_cast<sockaddr_in6&>(address);  // NOLINT
  if (inet_pton(AF_INET, options.host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<std::uint16_t>(options.port));
  } else {
    inet_pton(AF_INET6, options.host.c_str(), &six.sin6_addr);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(options.port));
    length = sizeof(sockaddr_in6);
  }
  const auto failed = [&](int socket) {
    const std::string why = std::strerror(errno);
    if (socket >= 0) ::close(socket);
    return fail(ErrorCode::kIo, fmt::format("port {} of {}: {}", options.port, options.host, why), {},
                {"--port takes another; 0: any that is free"});
  };
  const int socket = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return failed(socket);
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  auto* const name = reinterpret_cast<sockaddr*>(&address);  // NOLINT
  if (::bind(socket, name, length) != 0 || ::listen(socket, 512) != 0 || ::getsockname(socket, name, &length) != 0) {
    return failed(socket);
  }
  return std::pair{socket, static_cast<int>(ntohs(address.ss_family == AF_INET ? four.sin_port : six.sin6_port))};
}

Expected<void> check(const ServerOptions& options) {
  const auto loopback = is_loopback(options.host);
  if (!loopback) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no address", options.host.substr(0, 60)), {},
                {"as localhost, 127.0.0.1, ::1 or 0.0.0.0"});
  }
  if (options.port < 0 || options.port > 65535) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} is no port", options.port), {}, {"valid: 0 to 65535"});
  }
  if (!*loopback && options.token.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} can be reached from other machines: a token is missing", options.host), {},
                {"--token, or DDLSIM_TOKEN in the environment"});
  }
  const bool printable =
      std::all_of(options.token.begin(), options.token.end(), [](char c) { return c > ' ' && c < 127; });
  if (!options.token.empty() && (options.token.size() < kLeastToken || !printable)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a token has at least {} letters, digits or signs", kLeastToken), {},
                {"as from `openssl rand -hex 16`"});
  }
  return {};
}

}  // namespace

struct Server::Parts {
  std::unique_ptr<Http> http;
};

Expected<Server> Server::listen(std::shared_ptr<const service::Service> service, ServerOptions options) {
  if (options.host == "localhost") options.host = "127.0.0.1";
  if (auto sound = check(options); !sound) return tl::unexpected<Error>(sound.error());
  const auto socket = open_socket(options);
  if (!socket) return tl::unexpected<Error>(socket.error());
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    ::close(socket->first);
    return fail(ErrorCode::kIo, std::string("eventfd: ") + std::strerror(errno));
  }
  const std::string version = options.version;
  Site site{std::move(service), std::move(options), socket->second, service::openapi(version), service::page_policy()};
  auto parts = std::make_unique<Parts>();
  parts->http = std::make_unique<Http>(std::move(site), socket->first, wake);
  return Server(std::move(parts));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Server::~Server() = default;
Server::Server(Server&&) noexcept = default;

int Server::port() const { return parts_->http->port(); }

bool Server::run() {
  if (parts_->http->stopping()) return true;
  return parts_->http->listen_after_bind() || parts_->http->stopping();
}

void Server::stop() { parts_->http->begin_stop(); }

bool Server::busy() const { return parts_->http->busy(); }

}  // namespace ddlsim::serve
