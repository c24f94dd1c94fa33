// The CPU's side of a step: copying, adding up gradients, Adam, on one thread and on many.
#include <cmath>
#include <cstring>
#include <thread>

#include "benches.h"

namespace ddlsim::measure {
namespace {

struct Work {
  std::vector<float> a, b, c, d;

  void run(const std::string& kind, std::size_t from, std::size_t to) {
    if (kind == "memcpy") {
      std::memcpy(b.data() + from, a.data() + from, (to - from) * sizeof(float));
    } else if (kind == "sum") {
      for (std::size_t i = from; i < to; ++i) b[i] += a[i];
    } else {
      for (std::size_t i = from; i < to; ++i) {
        c[i] = 0.9F * c[i] + 0.1F * a[i];
        d[i] = 0.999F * d[i] + 0.001F * a[i] * a[i];
        b[i] -= 1e-3F * c[i] / (std::sqrt(d[i]) + 1e-8F);
      }
    }
  }
};

/// `bytes` is the size of one array.
Measured measure_host(const Point& point) {
  const std::size_t count = static_cast<std::size_t>(point.bytes) / sizeof(float);
  Work work;
  work.a.assign(count, 0.5F);
  work.b.assign(count, 0.25F);
  if (point.kind == "adam") {
    work.c.assign(count, 0.1F);
    work.d.assign(count, 0.1F);
  }
  const auto threads = static_cast<std::size_t>(point.threads);
  StopRule rule;
  rule.seconds = 0.3;
  return sample_host(
      [&] {
        const double start = seconds_now();
        std::vector<std::thread> others;
        for (std::size_t t = 1; t < threads; ++t) {
          others.emplace_back([&, t] { work.run(point.kind, count * t / threads, count * (t + 1) / threads); });
        }
        work.run(point.kind, 0, count / threads);
        for (std::thread& other : others) other.join();
        return seconds_now() - start;
      },
      rule);
}

}  // namespace

Bench make_host() { return measure_host; }

}  // namespace ddlsim::measure
