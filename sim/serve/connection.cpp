#include "connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ddlsim::serve {
namespace {

int milliseconds(Clock::duration time) {
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return static_cast<int>(std::clamp<std::int64_t>(whole, 0, 1'000'000));
}

}  // namespace

Connection::Connection(int socket, int wake, const ServerOptions& options)
    : options_(options), socket_(socket), wake_(wake) {}

bool Connection::wait_for_request() {
  if (at_ == end_) {
    std::array<pollfd, 2> both{{{socket_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    const auto until = Clock::now() + duration_of(options_.idle_time);
    int changed = 0;
    do {
      changed = ::poll(both.data(), both.size(), milliseconds(until - Clock::now()));
    } while (changed < 0 && errno == EINTR);
    if (changed <= 0 || (both[0].revents & POLLIN) == 0) return false;
  }
  left_ = options_.head;
  deadline_ = Clock::now() + duration_of(options_.read_time);
  what = "other";
  status = 0;
  whole = Clock::now();
  if (at_ == end_ && !fill()) return false;
  return true;
}

bool Connection::ready(short events, Clock::duration most) const {
  pollfd one{socket_, events, 0};
  int changed = 0;
  const auto until = Clock::now() + most;
  do {
    changed = ::poll(&one, 1, milliseconds(until - Clock::now()));
  } while (changed < 0 && errno == EINTR);
  return changed > 0;
}

bool Connection::fill() {
  if (!out_.empty() && !flush()) return false;  // "100 Continue"
  const auto now = Clock::now();
  if (now >= deadline_ || !ready(POLLIN, deadline_ - now)) {
    late_ = true;
    return false;
  }
  ssize_t got = 0;
  do {
    got = ::recv(socket_, in_.data(), in_.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  at_ = 0;
  end_ = static_cast<std::size_t>(got);
  return true;
}

ssize_t Connection::read(char* to, size_t size) {
  if (left_ == 0) {
    over_ = true;
    return -1;
  }
  if (at_ == end_ && !fill()) return -1;
  const std::size_t taken = std::min({size, end_ - at_, left_});
  std::memcpy(to, in_.data() + at_, taken);
  at_ += taken;
  left_ -= taken;
  return static_cast<ssize_t>(taken);
}

ssize_t Connection::write(const char* from, size_t size) {
  out_.append(from, size);
  return static_cast<ssize_t>(size);
}

bool Connection::flush() {
  const auto until = Clock::now() + duration_of(options_.read_time);
  std::size_t sent = 0;
  while (sent < out_.size()) {
    const ssize_t more = ::send(socket_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (more > 0) {
      sent += static_cast<std::size_t>(more);
      continue;
    }
    const auto now = Clock::now();
    const bool full = more < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (!full || now >= until || !ready(POLLOUT, until - now)) return false;
  }
  out_.clear();
  return true;
}

void Connection::linger() {
  ::shutdown(socket_, SHUT_WR);
  const auto until = Clock::now() + std::chrono::milliseconds(500);
  for (std::size_t taken = 0; taken < (std::size_t{4} << 20);) {
    const auto now = Clock::now();
    if (now >= until || !ready(POLLIN, until - now)) return;
    const ssize_t got = ::recv(socket_, in_.data(), in_.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    taken += static_cast<std::size_t>(got);
  }
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const { get_remote_ip_and_port(ip, port); }

}  // namespace ddlsim::serve
