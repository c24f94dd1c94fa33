#include "ddlsim/whatif/grid.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "ddlsim/support/names.h"
#include "ddlsim/whatif/setting_words.h"
#include "scenario/setting_values.h"
#include "sweep/where_clause.h"

namespace ddlsim::whatif {
namespace {

constexpr std::int64_t kMostPoints = std::int64_t{1} << 62;

/// What no kernel's time depends on: a change of it leaves prices of layers as they were.
bool costs_little(const Axis& axis) {
  constexpr std::array<std::string_view, 8> kRooms{"network", "nvlink",   "pcie",       "jobs",
                                                   "price",   "failures", "checkpoint", "training"};
  return std::all_of(axis.paths.begin(), axis.paths.end(), [&](const std::string& path) {
    if (path == "nodes" || path == "gpus_per_node") return true;
    return std::any_of(kRooms.begin(), kRooms.end(), [&](std::string_view room) {
      return path == room || (path.starts_with(room) && path[room.size()] == '.');
    });
  });
}

tl::unexpected<Error> bad_axis(const Axis& axis, std::string what, std::string note) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), axis.where, {std::move(note)});
}

Expected<void> check_path(const std::string& path, const SourceLocation& where) {
  static constexpr std::array<std::string_view, 2> kOpen{"model.", "other_jobs."};  // resolve() knows them
  std::vector<std::string> known;
  for (const SettingInfo& setting : settings()) {
    if (setting.path == path) return {};
    known.push_back(setting.path);
  }
  if (std::any_of(kOpen.begin(), kOpen.end(), [&](std::string_view head) { return path.starts_with(head); })) return {};
  return fail(ErrorCode::kNotFound, fmt::format("unknown setting '{}'", path.substr(0, 60)), where,
              {suggested_setting(path, known), "`ddlsim list settings` shows them all"});
}

Expected<void> check_steps(const Axis& axis) {
  std::unordered_set<std::string> seen;
  std::unordered_set<std::string_view> seen_alone;  // of an axis of one path, which may be long
  if (axis.paths.size() == 1) seen_alone.reserve(axis.steps.size());
  for (const auto& step : axis.steps) {
    if (step.size() != axis.paths.size()) {
      return bad_axis(axis, "zipped lists are not as long", "as long as each other");
    }
    if (step.size() == 1) {
      if (seen_alone.insert(step.front()).second) continue;
    } else {
      std::string all;
      for (const std::string& value : step) all += value + '\0';
      if (seen.insert(all).second) continue;
    }
    return bad_axis(axis, fmt::format("{}: '{}' stands twice", join(axis.paths), join(step)), "leave one out");
  }
  return {};
}

}  // namespace

Expected<void> Grid::check_axes() {
  std::vector<std::pair<std::string, const Axis*>> stated;
  for (const Axis& axis : parts_.axes) {
    if (axis.paths.empty() || axis.steps.empty()) return bad_axis(axis, "an axis without values", "give it some");
    if (auto sound = check_steps(axis); !sound) return sound;
    for (const std::string& path : axis.paths) {
      if (auto known = check_path(path, axis.where); !known) return known;
      const auto twice = std::find_if(stated.begin(), stated.end(), [&](const auto& one) { return one.first == path; });
      if (twice != stated.end()) return bad_axis(axis, fmt::format("two axes vary {}", path), "state it once");
      const auto fixed =
          std::find_if(parts_.base.begin(), parts_.base.end(), [&](const Override& one) { return one.path == path; });
      if (fixed != parts_.base.end()) {
        return bad_axis(axis, fmt::format("{} is both varied and stated as '{}'", path, fixed->value.substr(0, 60)),
                        "state it once");
      }
      if (path == "node" && price_unnamed(parts_.base)) {
        return bad_axis(axis, "a price of no kind of server, and node is varied",
                        "name them, as --price \"dgx-a100=12 $/h, dgx1-v100=3 $/h\"");
      }
      stated.emplace_back(path, &axis);
    }
    const auto steps = static_cast<std::int64_t>(axis.steps.size());
    if (product_ > kMostPoints / steps) return bad_axis(axis, "the grid has over 2^62 points", "leave axes out");
    product_ *= steps;
  }
  for (const Override& one : parts_.base) {
    if (auto known = check_path(one.path, one.where); !known) return known;
  }
  return {};
}

Expected<void> Grid::read_conditions() {
  if (parts_.where.empty()) return {};
  std::vector<NamedValues> names;
  const auto of_one_kind = [](NamedValues& name, const std::vector<std::string>& texts) {
    const bool alike = std::all_of(name.values.begin(), name.values.end(),
                                   [&](const Operand& one) { return one.kind == name.values.front().kind; });
    for (std::size_t i = 0; !alike && i < texts.size(); ++i) {
      name.values[i] = {.kind = Operand::kText, .number = 0, .text = fold_name(texts[i])};
    }
  };
  for (const Override& one : parts_.base) {
    // Of two with one path the later wins.
    std::erase_if(names, [&](const NamedValues& name) { return name.path == one.path; });
    names.push_back({.path = one.path, .axis = 0, .values = {operand_of(one.value)}});
  }
  for (std::size_t axis = 0; axis < parts_.axes.size(); ++axis) {
    const Axis& of = parts_.axes[axis];
    for (std::size_t i = 0; i < of.paths.size(); ++i) {
      NamedValues name{.path = of.paths[i], .axis = axis, .values = {}};
      std::vector<std::string> texts;
      for (const auto& step : of.steps) {
        texts.push_back(step[i]);
        name.values.push_back(operand_of(step[i]));
      }
      of_one_kind(name, texts);
      names.push_back(std::move(name));
    }
  }
  for (const WhereText& where : parts_.where) {
    auto condition = WhereClause::parse(where.text, names);
    if (!condition) {
      Error error = condition.error();
      error.message = fmt::format("where '{}': {}", where.text.substr(0, 80), error.message);
      error.where = where.where;
      return tl::unexpected<Error>(std::move(error));
    }
    conditions_.push_back(std::make_shared<const WhereClause>(std::move(*condition)));
  }
  return {};
}

Expected<Grid> Grid::create(GridParts parts) {
  Grid grid;
  grid.parts_ = std::move(parts);
  std::stable_partition(grid.parts_.axes.begin(), grid.parts_.axes.end(),
                        [](const Axis& axis) { return !costs_little(axis); });
  if (auto sound = grid.check_axes(); !sound) return tl::unexpected<Error>(sound.error());
  for (const Axis& axis : grid.parts_.axes) grid.paths_.insert(grid.paths_.end(), axis.paths.begin(), axis.paths.end());
  if (auto read = grid.read_conditions(); !read) return tl::unexpected<Error>(read.error());
  if (auto drawn = grid.draw(); !drawn) return tl::unexpected<Error>(drawn.error());
  return grid;
}

std::int64_t Grid::size() const { return parts_.sample ? static_cast<std::int64_t>(drawn_.size()) : product_; }

std::int64_t Grid::number_at(std::int64_t position) const {
  return parts_.sample ? drawn_[static_cast<std::size_t>(position)] : position;
}

std::int64_t Grid::position_after(std::int64_t number) const {
  if (!parts_.sample) return std::min(number + 1, product_);
  return std::upper_bound(drawn_.begin(), drawn_.end(), number) - drawn_.begin();
}

void Grid::split(std::int64_t number, std::vector<std::size_t>& digits) const {
  digits.resize(parts_.axes.size());
  for (std::size_t i = parts_.axes.size(); i-- > 0;) {
    const auto steps = static_cast<std::int64_t>(parts_.axes[i].steps.size());
    digits[i] = static_cast<std::size_t>(number % steps);
    number /= steps;
  }
}

bool Grid::holds(const std::vector<std::size_t>& digits) const {
  return std::all_of(conditions_.begin(), conditions_.end(),
                     [&](const auto& condition) { return condition->holds(digits); });
}

bool Grid::settle(std::int64_t number, GridPoint& point) const {
  const bool fresh = point.settings.size() != parts_.base.size() + paths_.size();
  if (fresh) {
    point.settings = parts_.base;
    for (const std::string& path : paths_) point.settings.push_back({path, {}, {}});
  }
  std::vector<std::size_t> before = fresh ? std::vector<std::size_t>() : std::move(point.digits);
  point.digits.clear();
  point.number = number;
  split(number, point.digits);
  std::size_t setting = parts_.base.size();
  for (std::size_t i = 0; i < parts_.axes.size(); ++i) {
    const Axis& axis = parts_.axes[i];
    const bool same = i < before.size() && before[i] == point.digits[i];
    for (std::size_t k = 0; k < axis.paths.size(); ++k, ++setting) {
      if (!same) point.settings[setting].value = axis.steps[point.digits[i]][k];
    }
  }
  return holds(point.digits);
}

std::string Grid::text() const {
  std::string text;
  for (const Override& one : parts_.base) text += fmt::format("{} = {}\n", one.path, one.value);
  for (const Axis& axis : parts_.axes) {
    text += join(axis.paths) + ":";
    for (const auto& step : axis.steps) text += " [" + join(step) + "]";
    text += "\n";
  }
  for (const WhereText& where : parts_.where) text += fmt::format("where {}\n", where.text);
  if (const auto& sample = parts_.sample) {
    text += fmt::format("sample {} {} seed {}\n", sample->points, name_of(kSampleBy, sample->by), sample->seed);
  }
  return text;
}

double estimated_cost(const GridPoint& point) {
  constexpr double kEvents = 80;  // README, "How fast it is"
  const auto simulates = [](const Override& one) {
    const bool asked = one.path == "fidelity" && one.value == "event";
    const bool beside = one.path == "jobs" && one.value != "1";
    return asked || beside || one.path.starts_with("straggler") || one.path.starts_with("other_jobs.");
  };
  const bool events = std::any_of(point.settings.begin(), point.settings.end(), simulates);
  return events ? kEvents : 1;
}

std::vector<Stretch> stretches_of(const Grid& grid, Shard shard) {
  constexpr std::int64_t kStretchesEach = 64;
  constexpr std::int64_t kAsked = 16;  // points of a stretch whose cost is looked at
  const std::int64_t size = grid.size();
  if (shard.of == 1) return {{0, size}};
  const std::int64_t length = std::max<std::int64_t>(1, size / (shard.of * kStretchesEach));
  std::vector<std::pair<double, std::size_t>> heap;  // the least load on top, then the lowest number
  for (std::size_t i = 0; i < static_cast<std::size_t>(shard.of); ++i) heap.emplace_back(0.0, i);
  const auto later = [](const auto& a, const auto& b) { return b < a; };
  std::vector<Stretch> own;
  GridPoint point;
  for (std::int64_t first = 0; first < size; first += length) {
    const Stretch stretch{first, std::min(first + length, size)};
    const std::int64_t count = stretch.last - stretch.first;
    const std::int64_t stride = std::max<std::int64_t>(1, count / kAsked);
    double cost = 0;
    for (std::int64_t at = stretch.first; at < stretch.last; at += stride) {
      if (grid.settle(grid.number_at(at), point)) cost += estimated_cost(point) * static_cast<double>(stride);
    }
    std::pop_heap(heap.begin(), heap.end(), later);
    auto& [load, part] = heap.back();
    const bool mine = part + 1 == static_cast<std::size_t>(shard.number);
    const bool joined = mine && !own.empty() && own.back().last == stretch.first;
    if (joined) own.back().last = stretch.last;
    if (mine && !joined) own.push_back(stretch);
    load += cost;
    std::push_heap(heap.begin(), heap.end(), later);
  }
  return own;
}

}  // namespace ddlsim::whatif
