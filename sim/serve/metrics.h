// What a server counts, as Prometheus reads it. Private to the room.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "ddlsim/support/units.h"

namespace ddlsim::serve {

class Metrics {
 public:
  /// `what`: a command, or the kind of page; never a word that somebody sent.
  void count(std::string_view what, int status, Time took);
  void refused_connection() { ++refused_; }
  void connections(int change) { connections_ += change; }

  [[nodiscard]] std::string text() const;

 private:
  static constexpr std::array<double, 13> kBounds{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                                  0.1,    0.2,   0.5,   1,     5,    15};  // s
  struct Histogram {
    std::array<std::uint64_t, kBounds.size() + 1> buckets{};
    double sum = 0;
    std::uint64_t count = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::uint64_t> requests_;
  std::map<std::string, Histogram, std::less<>> times_;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<std::int64_t> connections_ = 0;
};

}  // namespace ddlsim::serve
