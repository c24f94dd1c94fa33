// One connection, with a bound on everything: what cpp-httplib reads and writes goes through here. Private to the room.
#pragma once

#include <httplib.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "ddlsim/serve/server.h"

namespace ddlsim::serve {

using Clock = std::chrono::steady_clock;

[[nodiscard]] inline Clock::duration duration_of(Time time) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time.in(seconds)));
}

class Connection final : public httplib::Stream {
 public:
  /// `wake` becomes readable when the server stops.
  Connection(int socket, int wake, const ServerOptions& options);

  /// Waits for a request's first byte; false when none comes in time, the other side is gone or the server stops.
  [[nodiscard]] bool wait_for_request();
  /// Another `bytes` of this request may be read.
  void allow(std::size_t bytes) { left_ += bytes; }
  /// Sends what was written.
  [[nodiscard]] bool flush();
  /// Ends the other side's reading and takes what is still on its way, for a while, so that it sees the last answer.
  void linger();

  [[nodiscard]] bool late() const { return late_; }      // the request took too long
  [[nodiscard]] bool too_long() const { return over_; }  // or its head was too long
  void close_after() { close_after_ = true; }
  [[nodiscard]] bool closes() const { return close_after_ || late_ || over_; }

  // What is counted of this request.
  std::string_view what;
  int status = 0;
  Clock::time_point whole;  // its last byte was read

  [[nodiscard]] bool is_readable() const override { return at_ < end_ || ready(POLLIN, Clock::duration::zero()); }
  [[nodiscard]] bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  [[nodiscard]] socket_t socket() const override { return socket_; }

 private:
  [[nodiscard]] bool ready(short events, Clock::duration most) const;
  [[nodiscard]] bool fill();

  const ServerOptions& options_;
  int socket_;
  int wake_;
  std::array<char, 16384> in_{};
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::string out_;
  std::size_t left_ = 0;        // bytes that this request may still take
  Clock::time_point deadline_;  // of its last byte
  bool late_ = false;
  bool over_ = false;
  bool close_after_ = false;
};

}  // namespace ddlsim::serve
