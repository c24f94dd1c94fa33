#include "log_ramp.h"

#include <fmt/core.h>

#include <utility>

#include "log_text.h"

namespace ddlsim::importers {

void BatchRamp::read_arguments(std::string_view line) {
  if (const auto said = after(line, " rampup_batch_size ..")) stated_ = !said->starts_with("None");
  if (line.find("will use batch size rampup") != std::string_view::npos) stated_ = true;
}

BatchRamp::Point BatchRamp::point_of(std::string_view line) {
  Point point;
  if (const auto text = after(line, " iteration ")) point.iteration = whole(*text);
  if (const auto text = after(line, "consumed samples")) point.samples = number(*text);
  return point;
}

bool BatchRamp::grows(std::string_view line, const Change& change, std::size_t steps) {
  if (change.to <= change.from) return false;
  const Point now = point_of(line);
  if (!now.iteration || !last_.iteration) return false;
  const std::int64_t interval = *now.iteration - *last_.iteration;
  const auto iterations = static_cast<double>(interval);
  const bool counted = now.samples && last_.samples;
  const double samples = counted ? *now.samples - *last_.samples : 0;
  const double least = iterations * static_cast<double>(change.from);
  const double most = iterations * static_cast<double>(change.to);
  const bool follows = counted && (interval_ == 0 || interval == interval_) && samples >= least && samples <= most;
  if (!stated_.value_or(follows)) return false;
  uneven_ = counted ? samples != most : interval != 1;
  left_out_ += steps;
  all_ = {all_.from > 0 ? all_.from : change.from, change.to};
  return true;
}

bool BatchRamp::is_even(std::string_view line) {
  const Point now = point_of(line);
  interval_ = now.iteration && last_.iteration ? *now.iteration - *last_.iteration : 0;
  last_ = now;
  if (uneven_) ++left_out_;
  return !std::exchange(uneven_, false);
}

std::string BatchRamp::note() const {
  if (all_.to == 0) return {};
  return fmt::format("the global batch grows from {} to {}: {} steps of its ramp-up are left out", all_.from, all_.to,
                     left_out_);
}

}  // namespace ddlsim::importers
