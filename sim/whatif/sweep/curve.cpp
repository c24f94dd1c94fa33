#include "ddlsim/whatif/curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/grid.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/setting_words.h"
#include "scenario/stated_runs.h"

namespace ddlsim::whatif {
namespace {

constexpr std::size_t kMostValues = 1000;

/// "25 Gb/s" as a number that grows with it; nothing: a word.
std::optional<double> size_of(const std::string& value) {
  if (const auto number = parse_number(value)) return *number;
  if (const auto rate = parse_bandwidth(value)) return rate->in(bytes_per_second);
  if (const auto size = parse_data_size(value)) return size->in(bytes);
  if (const auto time = parse_time(value, Range::kNonNegative)) return time->in(seconds);
  if (const auto rate = parse_compute_rate(value)) return rate->in(flops_per_second);
  if (const auto share = parse_fraction(value)) return *share;
  // Behind sizes: "8 B" is eight bytes.
  if (const auto count = parse_large_count(value)) return static_cast<double>(*count);
  if (const auto length = parse_length(value, {1, std::int64_t{1} << 40})) return static_cast<double>(*length);
  return std::nullopt;
}

/// Places by size; in the list where one of them is a word.
void place(answer::Curve& curve) {
  std::vector<double> sizes;
  for (const answer::CurvePoint& point : curve.points) {
    const auto size = size_of(point.value);
    if (!size) break;
    sizes.push_back(*size);
  }
  curve.numbers = sizes.size() == curve.points.size();
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    curve.points[i].x = curve.numbers ? sizes[i] : static_cast<double>(i + 1);
  }
  if (!curve.numbers) return;
  std::stable_sort(curve.points.begin(), curve.points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
}

}  // namespace

Expected<CurveSetting> parse_curve(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("a curve of '{}'", text.substr(0, 60)), {},
                {"a setting and its values: nodes=1,2,4 or nodes=1..64:x2"});
  }
  auto values = values_of(std::string_view(text).substr(equals + 1));
  if (!values) return tl::unexpected<Error>(values.error());
  CurveSetting setting{.path = setting_at(text.substr(0, equals)), .values = std::move(*values)};
  if (setting.values.size() > kMostValues) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} values of {}", setting.values.size(), setting.path.substr(0, 60)), {},
                {fmt::format("a curve has at most {}; ddlsim sweep takes any number", kMostValues)});
  }
  std::vector<std::string> sorted = setting.values;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} = {} stands twice", setting.path, *twice));
  }
  return setting;
}

Expected<answer::Curve> curve(const io::Catalog& catalog, std::span<const Override> base, const CurveSetting& setting) {
  answer::Curve curve{.title = {}, .setting = setting.path, .points = {}, .gaps = {}};
  std::optional<Error> first;
  // Runs are of the job that the curve leaves.
  const auto job = states_runs(base) ? resolve(catalog, base) : Expected<Scenario>(Scenario{});
  if (!job) return tl::unexpected<Error>(job.error());
  for (const std::string& value : setting.values) {
    const std::vector<Override> change{{setting.path, value, {}}};
    const auto scenario = changed(catalog, base, *job, change);
    auto prediction =
        scenario ? predict(*scenario) : Expected<answer::Prediction>(tl::unexpected<Error>(scenario.error()));
    if (!prediction) {
      if (!first) first = prediction.error();
      curve.gaps.push_back({value, prediction.error().message});
      continue;
    }
    if (curve.points.empty()) curve.title = describe(*scenario);
    curve.points.push_back({.value = value, .prediction = std::move(*prediction)});
  }
  if (curve.points.empty()) return tl::unexpected<Error>(*first);
  place(curve);
  return curve;
}

}  // namespace ddlsim::whatif
