#include "metrics.h"

#include <fmt/core.h>

#include <algorithm>

namespace ddlsim::serve {

void Metrics::count(std::string_view what, int status, Time took) {
  const double time = took.in(seconds);
  const auto bucket =
      static_cast<std::size_t>(std::lower_bound(kBounds.begin(), kBounds.end(), time) - kBounds.begin());
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(what), status}];
  Histogram& histogram = times_[std::string(what)];
  ++histogram.buckets[bucket];
  ++histogram.count;
  histogram.sum += time;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text =
      "# HELP ddlsim_requests_total Requests by command and status.\n# TYPE ddlsim_requests_total counter\n";
  for (const auto& [key, count] : requests_) {
    text += fmt::format("ddlsim_requests_total{{command=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  }
  text +=
      "# HELP ddlsim_request_seconds From a request's last byte to its answer.\n# TYPE ddlsim_request_seconds "
      "histogram\n";
  for (const auto& [what, histogram] : times_) {
    std::uint64_t below = 0;
    for (std::size_t i = 0; i <= kBounds.size(); ++i) {
      below += histogram.buckets[i];
      const std::string bound = i == kBounds.size() ? "+Inf" : fmt::format("{}", kBounds[i]);
      text += fmt::format("ddlsim_request_seconds_bucket{{command=\"{}\",le=\"{}\"}} {}\n", what, bound, below);
    }
    text += fmt::format("ddlsim_request_seconds_sum{{command=\"{}\"}} {}\n", what, histogram.sum);
    text += fmt::format("ddlsim_request_seconds_count{{command=\"{}\"}} {}\n", what, histogram.count);
  }
  text += fmt::format(
      "# HELP ddlsim_connections Open connections.\n# TYPE ddlsim_connections gauge\nddlsim_connections {}\n"
      "# HELP ddlsim_connections_refused_total Connections over the limit.\n"
      "# TYPE ddlsim_connections_refused_total counter\nddlsim_connections_refused_total {}\n",
      connections_.load(), refused_.load());
  return text;
}

}  // namespace ddlsim::serve
