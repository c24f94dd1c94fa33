// The commands over HTTP: routes, limits and manners of `ddlsim serve`. service/service.h says what requests hold.
//
// ```
// POST /v1/COMMAND    a request as application/json or application/yaml -> the command's JSON; 400: ddlsim/error/1
// GET  /              the page
// GET  /v1/catalog    models, servers, strategies, settings        GET /openapi.json   how to ask
// GET  /healthz       "ok"                                         GET /metrics        for Prometheus
// ```
//
// What it does not do is answer anybody else's page: a request that names another host (DNS rebinding) or comes from
// another origin is refused, nothing is shared across origins, and no value may name a file. With a token, everything
// but the page and /healthz needs it (Authorization: Bearer).
//
// Every resource has a bound: bytes of a request's head and body, the time to send them, the time an answer is waited
// for, connections at once, questions that are computed at once, what a search of plans keeps (service/service.h). A
// question that takes longer than `answer_time` is refused (503) and its thread finishes it: only a search of plans can
// be stopped, so `threads` long questions make the server refuse further ones of their kind until they are done.
// Predict and explain have threads of their own.
//
// One thread serves one connection (cpp-httplib parses); questions are computed by `threads` others.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ddlsim/service/service.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";  // a numeric address, or localhost: 127.0.0.1
  int port = 8080;                 // 0: any that is free
  std::string token;               // empty: none, and loopback addresses alone
  std::string version;             // of the program
  std::size_t body = 1'000'000;    // bytes, at most
  std::size_t head = 32'768;       // likewise, of request line and headers
  std::size_t connections = 256;   // at once; further ones get 503
  std::size_t threads = 2;         // that compute, of each of two kinds
  Time read_time = seconds(10);    // from a request's first byte to its last
  Time answer_time = seconds(15);  // then, to the answer
  Time idle_time = seconds(30);    // between two requests of a connection
};

class Server {
 public:
  /// Binds the port. Errors: kIo with what the system says; kInvalidArgument where a token is missing or too short.
  [[nodiscard]] static Expected<Server> listen(std::shared_ptr<const service::Service> service, ServerOptions options);
  ~Server();
  Server(Server&&) noexcept;
  Server& operator=(Server&&) = delete;

  [[nodiscard]] int port() const;
  /// Serves until `stop`, then until every request that had begun has its answer. False: the socket failed.
  [[nodiscard]] bool run();
  /// Takes no more connections and ends `run`. Any thread may call it.
  void stop();
  /// Whether a thread still computes what nobody waits for; leave the process by _Exit then.
  [[nodiscard]] bool busy() const;

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ddlsim::serve
