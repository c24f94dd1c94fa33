#include "hostile/serve_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace ddlsim::test {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

bool readable(int descriptor, Clock::time_point until) {
  pollfd one{descriptor, POLLIN, 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  return ::poll(&one, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) > 0;
}

/// The port of "ddlsim: http://127.0.0.1:PORT/".
int port_in(const std::string& line) {
  const std::size_t colon = line.rfind(':');
  return colon == std::string::npos ? 0 : std::atoi(line.c_str() + colon + 1);
}

}  // namespace

Client::Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("no connection to the server");
  }
}

Client::~Client() { ::close(socket_); }

bool Client::send(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool Client::more(Clock::time_point until) {
  if (!readable(socket_, until)) return false;
  std::array<char, 65536> buffer{};
  const ssize_t got = ::recv(socket_, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  read_.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

Reply Client::receive(double seconds, bool head) {
  const auto until = in(seconds);
  std::size_t end = read_.find("\r\n\r\n");
  while (end == std::string::npos && more(until)) end = read_.find("\r\n\r\n");
  Reply reply;
  if (end == std::string::npos) return reply;
  reply.status = std::atoi(read_.substr(read_.find(' ') + 1).c_str());
  for (std::size_t start = read_.find("\r\n") + 2; start < end;) {
    const std::size_t stop = read_.find("\r\n", start);
    const std::string line = read_.substr(start, stop - start);
    const std::size_t colon = line.find(": ");
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    reply.headers[name] = colon == std::string::npos ? "" : line.substr(colon + 2);
    start = stop + 2;
  }
  const std::size_t length = head ? 0 : std::strtoul(reply.headers["content-length"].c_str(), nullptr, 10);
  while (read_.size() < end + 4 + length && more(until)) {
  }
  reply.body = read_.substr(end + 4, length);
  read_.erase(0, end + 4 + length);
  return reply;
}

bool Client::closes(double seconds) {
  const auto until = in(seconds);
  std::array<char, 65536> buffer{};
  while (readable(socket_, until)) {
    if (::recv(socket_, buffer.data(), buffer.size(), 0) <= 0) return true;
  }
  return false;
}

ServeProcess::ServeProcess(std::vector<std::string> more, const std::string& token) {
  std::array<int, 2> err{};
  if (::pipe2(err.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  std::vector<std::string> words{DDLSIM_PROGRAM, "serve", "--port", "0"};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(err[1], STDERR_FILENO);
    ::setenv("DDLSIM_DATA", DDLSIM_SOURCE_DATA, 1);
    if (token.empty())
      ::unsetenv("DDLSIM_TOKEN");
    else
      ::setenv("DDLSIM_TOKEN", token.c_str(), 1);
    ::execv(pointers.front(), pointers.data());
    ::_exit(126);
  }
  ::close(err[1]);
  err_ = err[0];
  std::string line;
  for (const auto until = in(20); line.find('\n') == std::string::npos && readable(err_, until);) {
    char c = 0;
    if (::read(err_, &c, 1) != 1) break;
    line += c;
  }
  port_ = port_in(line);
  if (port_ == 0) throw std::runtime_error("the server did not start: " + line);
}

ServeProcess::~ServeProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(err_);
}

int ServeProcess::end(int signal) {
  ::kill(pid_, signal);
  for (const auto until = in(20); Clock::now() < until;) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return -1;
}

Reply ServeProcess::ask(const std::string& method, const std::string& path, const std::string& body,
                        const std::vector<std::string>& headers) const {
  std::string text = method + " " + path + " HTTP/1.1\r\nConnection: close\r\n";
  const bool named = std::any_of(headers.begin(), headers.end(), [](const auto& h) { return h.starts_with("Host:"); });
  if (!named) text += "Host: " + host() + "\r\n";
  for (const std::string& header : headers) text += header + "\r\n";
  if (method == "POST" || !body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  Client client(port_);
  client.send(text + "\r\n" + body);
  return client.receive(20, method == "HEAD");
}

}  // namespace ddlsim::test
