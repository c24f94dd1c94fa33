// A grid as a file.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "ddlsim/io/yaml.h"
#include "ddlsim/whatif/grid.h"
#include "ddlsim/whatif/scenario_map.h"
#include "scenario/beside.h"

namespace ddlsim::whatif {
namespace {

using io::NodeKind;

void report(std::vector<Error>& errors, const io::Node& node, std::string what, std::string note = "") {
  std::vector<std::string> notes;
  if (!note.empty()) notes.push_back(std::move(note));
  if (errors.size() < io::kMaxErrors) {
    errors.push_back({ErrorCode::kParse, std::move(what), node.where, std::move(notes), {}});
  }
}

/// The values of a list or a scalar, ranges spelt out.
std::vector<std::string> values_in(const io::Node& node, std::vector<Error>& errors) {
  std::vector<std::string> values;
  if (node.kind == NodeKind::kMap) {
    report(errors, node, "a value is expected here, not a map");
  } else if (node.kind == NodeKind::kList) {
    for (const io::Node& item : node.items) {
      if (item.kind == NodeKind::kList) {
        report(errors, item, "a list within a list");
        continue;
      }
      auto more = values_in(item, errors);
      std::move(more.begin(), more.end(), std::back_inserter(values));
    }
    if (node.items.empty()) report(errors, node, "the list is empty", "leave the setting out, or give it values");
  } else if (node.text.empty()) {
    report(errors, node, "a value is missing", "leave the key out for its default, or give it a value");
  } else if (auto range = range_of(node.text)) {
    values = std::move(*range);
  } else {
    range.error().where = node.where;
    errors.push_back(std::move(range.error()));
  }
  return values;
}

class GridReader {
 public:
  GridReader(GridParts& parts, std::vector<Error>& errors) : parts_(parts), errors_(errors) {}

  void read(const io::Node& document) {
    if (document.kind != NodeKind::kMap) return report(errors_, document, "a grid file must be a map of settings");
    for (const io::Entry& entry : document.entries) {
      if (entry.key == "zip") {
        read_zips(entry.value);
      } else if (entry.key == "where") {
        read_where(entry.value);
      } else if (entry.key == "sample") {
        read_sample(entry.value);
      } else {
        read_setting(path_within("", entry.key, entry.value.kind == NodeKind::kMap), entry.value);
      }
    }
  }

 private:
  void read_setting(const std::string& path, const io::Node& node) {
    if (node.kind == NodeKind::kMap) {
      for (const io::Entry& entry : node.entries) {
        read_setting(path_within(path, entry.key, entry.value.kind == NodeKind::kMap), entry.value);
      }
      return;
    }
    if (path == "other_jobs" && node.kind == NodeKind::kList) {
      for (std::size_t i = 0; i < node.items.size(); ++i) read_setting(fmt::format("other_jobs.{}", i), node.items[i]);
      return;
    }
    const std::vector<std::string> values = values_in(node, errors_);
    if (values.size() == 1) parts_.base.push_back({path, values.front(), node.where});
    if (values.size() < 2) return;
    Axis axis{.paths = {path}, .steps = {}, .where = node.where};
    for (const std::string& value : values) axis.steps.push_back({value});
    parts_.axes.push_back(std::move(axis));
  }

  void read_zips(const io::Node& node) {
    if (node.kind == NodeKind::kMap) return read_zip(node);
    if (node.kind != NodeKind::kList) {
      return report(errors_, node, "zip is a map of lists that are as long, or a list of such maps");
    }
    for (const io::Node& item : node.items) read_zip(item);
  }

  static void flatten(const io::Node& node, const std::string& path,
                      std::vector<std::pair<std::string, const io::Node*>>& flat) {
    if (node.kind != NodeKind::kMap) {
      flat.emplace_back(path, &node);
      return;
    }
    for (const io::Entry& entry : node.entries) {
      flatten(entry.value, path_within(path, entry.key, entry.value.kind == NodeKind::kMap), flat);
    }
  }

  void read_zip(const io::Node& node) {
    if (node.kind != NodeKind::kMap) return report(errors_, node, "zip is a map of lists that are as long");
    std::vector<std::pair<std::string, const io::Node*>> flat;
    flatten(node, "", flat);
    Axis axis{.paths = {}, .steps = {}, .where = node.where};
    for (const auto& [path, value] : flat) {
      const std::vector<std::string> values = values_in(*value, errors_);
      if (values.empty()) return;
      if (axis.paths.empty()) axis.steps.resize(values.size());
      if (values.size() != axis.steps.size()) {
        return report(
            errors_, *value,
            fmt::format("{} has {} values, {} has {}", path, values.size(), axis.paths.front(), axis.steps.size()),
            "what is zipped has as many values");
      }
      axis.paths.push_back(path);
      for (std::size_t i = 0; i < values.size(); ++i) axis.steps[i].push_back(values[i]);
    }
    if (axis.paths.size() < 2) return report(errors_, node, "zip of fewer than two settings", "leave zip out");
    parts_.axes.push_back(std::move(axis));
  }

  void read_where(const io::Node& node) {
    if (node.kind == NodeKind::kScalar) {
      parts_.where.push_back({node.text, node.where});
    } else if (node.kind == NodeKind::kList) {
      for (const io::Node& item : node.items) {
        if (item.kind == NodeKind::kScalar) {
          parts_.where.push_back({item.text, item.where});
        } else {
          report(errors_, item, "a condition is text, as nodes * batch <= 4096");
        }
      }
    } else {
      report(errors_, node, "where is a condition, or a list of them", "quote what YAML takes for a map");
    }
  }

  void read_sample(const io::Node& node) {
    io::MapReader map(node, "a sample", errors_);
    Sample sample;
    sample.points = map.count("points", {1, kMaxSample});
    sample.by = map.optional_choice("by", kSampleBy).value_or(SampleBy::kRandom);
    sample.seed = static_cast<std::uint64_t>(map.count_or("seed", 1, {0, std::int64_t{1} << 62}));
    map.finish();
    parts_.sample = sample;
  }

  GridParts& parts_;
  std::vector<Error>& errors_;
};

}  // namespace

Expected<GridParts> load_grid(const std::filesystem::path& path) {
  const auto document = io::load_yaml(path);
  if (!document) return tl::unexpected<Error>(document.error());
  GridParts parts;
  std::vector<Error> errors;
  GridReader(parts, errors).read(*document);
  if (!errors.empty()) return fail_with_all(std::move(errors));
  for (Override& one : parts.base) one.value = found_beside(path, one.path, one.value);
  for (Axis& axis : parts.axes) {
    for (std::size_t i = 0; i < axis.paths.size(); ++i) {
      for (auto& step : axis.steps) step[i] = found_beside(path, axis.paths[i], step[i]);
    }
  }
  return parts;
}

}  // namespace ddlsim::whatif
