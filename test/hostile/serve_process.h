// `ddlsim serve` in the background, and a client that says what it likes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddlsim::test {

struct Reply {
  int status = 0;                              // 0: no answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

/// A connection of one's own.
class Client {
 public:
  explicit Client(int port);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// False: the other side takes no more.
  bool send(std::string_view text) const;
  /// One answer; of HEAD, without a body.
  [[nodiscard]] Reply receive(double seconds = 20, bool head = false);
  /// Whether the other side closes within so long.
  [[nodiscard]] bool closes(double seconds);

 private:
  [[nodiscard]] bool more(std::chrono::steady_clock::time_point until);

  int socket_;
  std::string read_;
};

class ServeProcess {
 public:
  /// Starts on a port that is free, and waits until it listens.
  explicit ServeProcess(std::vector<std::string> more = {}, const std::string& token = "");
  /// Ends it, if `end` did not.
  ~ServeProcess();
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// The exit status as Outcome has it; -1 when it does not end in 20 s.
  [[nodiscard]] int end(int signal);

  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  /// Host and length are added; the connection is closed after it.
  [[nodiscard]] Reply ask(const std::string& method, const std::string& path, const std::string& body = "",
                          const std::vector<std::string>& headers = {}) const;
  /// A question as JSON.
  [[nodiscard]] Reply post(const std::string& command, const std::string& body) const {
    return ask("POST", "/v1/" + command, body, {"Content-Type: application/json"});
  }

 private:
  pid_t pid_ = -1;
  int port_ = 0;
  int err_ = -1;
};

}  // namespace ddlsim::test
