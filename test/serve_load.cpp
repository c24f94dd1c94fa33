// Loads a server that runs: serve_load PORT CONNECTIONS RATE SECONDS [PID]. RATE questions a second over all
// connections, each due at its own moment, whatever happened to those before it: what waits in a queue counts. RATE 0:
// every connection asks again as soon as it has its answer. Prints answers, their times, and how the process PID grew.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Asker {
  int socket = -1;
  std::string read;
  Clock::time_point due;
  bool waiting = false;
};

constexpr std::array<const char*, 4> kNetworks{"10 Gb/s", "25 Gb/s", "40 Gb/s", "100 Gb/s"};

/// Another job each time: the networks, servers and batches that somebody drags through.
std::string question(std::uint64_t n, int port) {
  const std::string body = std::string(R"({"model": "resnet50", "node": "dgx1-v100", "nodes": )") +
                           std::to_string(1 + n % 64) + R"(, "network": ")" + kNetworks[n / 64 % kNetworks.size()] +
                           R"(", "batch": )" + std::to_string(16 << (n / 256 % 3)) + "}";
  return "POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

int connect_to(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::exit(1);
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

/// Whether a whole answer stands in `read`; takes it. Anything but 200 ends the program.
bool take(std::string& read) {
  const std::size_t end = read.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const std::size_t length = read.find("Content-Length: ");
  const std::size_t whole = end + 4 + std::strtoul(read.c_str() + length + 16, nullptr, 10);
  if (read.size() < whole) return false;
  if (!read.starts_with("HTTP/1.1 200")) {
    std::fprintf(stderr, "%s\n", read.substr(0, 300).c_str());
    std::exit(1);
  }
  read.erase(0, whole);
  return true;
}

double megabytes_of(const char* pid) {
  std::ifstream status(std::string("/proc/") + pid + "/status");
  double kilobytes = 0;
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> kilobytes;
  }
  return kilobytes / 1024;
}

class Load {
 public:
  Load(int port, std::size_t connections, double rate)
      : port_(port), rate_(rate), askers_(connections), polled_(connections) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < connections; ++i) {
      askers_[i].socket = connect_to(port);
      const double share = rate > 0 ? static_cast<double>(i) / rate : 0;
      askers_[i].due = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(share));
    }
  }

  void run(Clock::time_point until) {
    const auto between = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(rate_ > 0 ? static_cast<double>(askers_.size()) / rate_ : 0));
    while (Clock::now() < until) {
      const auto now = Clock::now();
      auto next = until;
      for (std::size_t i = 0; i < askers_.size(); ++i) {
        Asker& one = askers_[i];
        if (!one.waiting && one.due <= now) ask(one);
        if (!one.waiting) next = std::min(next, one.due);
        polled_[i] = {one.socket, POLLIN, 0};
      }
      const auto wait = std::max(std::chrono::duration_cast<std::chrono::nanoseconds>(next - Clock::now()),
                                 std::chrono::nanoseconds(0));
      const timespec time{wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
      if (::ppoll(polled_.data(), polled_.size(), &time, nullptr) <= 0) continue;
      for (std::size_t i = 0; i < askers_.size(); ++i) {
        if (polled_[i].revents != 0) receive(askers_[i], between);
      }
    }
  }

  std::vector<double> times;  // ms
  std::uint64_t asked = 0;

 private:
  void ask(Asker& one) {
    const std::string text = question(asked++, port_);
    if (rate_ <= 0) one.due = Clock::now();
    if (::send(one.socket, text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) std::exit(1);
    one.waiting = true;
  }
  void receive(Asker& one, Clock::duration between) {
    std::array<char, 65536> buffer{};
    const ssize_t got = ::recv(one.socket, buffer.data(), buffer.size(), 0);
    if (got <= 0) std::exit(1);
    one.read.append(buffer.data(), static_cast<std::size_t>(got));
    if (!take(one.read)) return;
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - one.due).count());
    one.due += between;
    one.waiting = false;
  }

  int port_;
  double rate_;
  std::vector<Asker> askers_;
  std::vector<pollfd> polled_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const double seconds = std::atof(argv[4]);
  Load load(std::atoi(argv[1]), static_cast<std::size_t>(std::atoi(argv[2])), std::atof(argv[3]));
  const auto start = Clock::now();
  load.run(start + std::chrono::seconds(1));  // warm
  load.times.clear();
  const double before = argc > 5 ? megabytes_of(argv[5]) : 0;
  load.run(start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds + 1)));
  std::vector<double>& times = load.times;
  std::sort(times.begin(), times.end());
  if (times.empty()) return 1;
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  std::printf("%zu answers, %.0f a second: p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, worst %.1f ms", times.size(),
              static_cast<double>(times.size()) / seconds, at(0.5), at(0.9), at(0.99), times.back());
  if (argc > 5) std::printf("; memory %.1f MB, then %.1f MB", before, megabytes_of(argv[5]));
  std::printf("\n");
  return 0;
}
