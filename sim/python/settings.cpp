#include <fmt/format.h>

#include <algorithm>

#include "ddlsim/io/yaml.h"
#include "ddlsim/whatif/grid_settings.h"
#include "ddlsim/whatif/scenario_map.h"
#include "module.h"

namespace ddlsim::python {
namespace {

using whatif::Override;

constexpr std::string_view kOtherJobs = "other_jobs";

[[noreturn]] void refuse(const std::string& path, const std::string& what, std::vector<std::string> notes = {}) {
  raise({ErrorCode::kInvalidArgument, fmt::format("'{}' {}", path, what), {}, std::move(notes), {}});
}

std::string type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

/// A Python text as the command would have got it; lives as long as `value`.
std::string_view plain(std::string_view path, py::handle value) {
  py::ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    refuse(std::string(path), "is no text: it has characters that UTF-8 cannot write");
  }
  const std::string_view plain(text, static_cast<std::size_t>(size));
  if (plain.find('\0') != std::string_view::npos) refuse(std::string(path), "has a NUL character in its text");
  return plain;
}

bool is_map(py::handle value) { return PyDict_Check(value.ptr()); }

std::string key_of(py::handle key, const std::string& within, bool is_map = false) {
  if (!PyUnicode_Check(key.ptr())) {
    refuse(within.empty() ? "settings" : within, fmt::format("has a key that is no text but {}", type_name(key)));
  }
  const std::string_view name = plain("settings", key);
  return whatif::path_within(within, std::string(name), is_map);
}

bool is_sequence(py::handle value) {
  return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()) || PyRange_Check(value.ptr());
}

/// The dimensions of a numpy array, by what it says of itself; nothing: something else.
std::optional<std::string> shape_of(py::handle value) {
  if (!py::hasattr(value, "shape") || !py::hasattr(value, "tolist")) return std::nullopt;
  return py::str(value.attr("shape")).cast<std::string>();
}

std::string number_of(const std::string& path, py::handle value) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True ? "yes" : "no";
  if (PyFloat_Check(value.ptr())) return fmt::format("{}", PyFloat_AS_DOUBLE(value.ptr()));
  int overflow = 0;
  const long long whole = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) return fmt::format_int(whole).str();
  const py::object digits = py::reinterpret_steal<py::object>(PyObject_Str(value.ptr()));
  if (!digits) {
    PyErr_Clear();
    refuse(path, "is a number of too many digits");
  }
  return digits.cast<std::string>();
}

/// A part of Python's making, a path, a number of numpy; nothing: none of them.
std::optional<std::string> object_text(const std::string& path, py::handle value, Kept& kept) {
  if (py::hasattr(value, "_ddlsim_file")) {
    kept.push_back(py::reinterpret_borrow<py::object>(value));
    return value.attr("_ddlsim_file")().cast<std::string>();
  }
  if (py::hasattr(value, "__fspath__")) {
    const py::object text = value.attr("__fspath__")();
    return std::string(plain(path, text));
  }
  if (py::hasattr(value, "item") && py::hasattr(value, "ndim") && value.attr("ndim").cast<int>() == 0) {
    const py::object inside = value.attr("item")();
    if (inside.ptr() != value.ptr()) return text_of(path, inside, kept);
  }
  return std::nullopt;
}

void flatten(std::string path, py::handle value, Stated& stated, int depth);

/// A map within itself has no end.
void check_depth(const std::string& path, int depth) {
  if (depth > io::kMaxDepth) refuse(path.substr(0, 60), "is too deep");
}

void flatten_map(const std::string& path, py::handle map, Stated& stated, int depth) {
  check_depth(path, depth);
  for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(map)) {
    flatten(key_of(key, path, is_map(value)), value, stated, depth + 1);
  }
}

void flatten(std::string path, py::handle value, Stated& stated, int depth) {
  if (value.is_none()) return;
  if (is_map(value)) return flatten_map(path, value, stated, depth);
  if (path == kOtherJobs && is_sequence(value)) {
    std::size_t number = 0;
    for (const py::handle one : py::reinterpret_borrow<py::sequence>(value)) {
      if (!is_map(one)) refuse(path, fmt::format("takes maps of settings, not {}", type_name(one)));
      flatten_map(fmt::format("{}.{}", kOtherJobs, number++), one, stated, depth + 1);
    }
    return;
  }
  if (is_sequence(value)) {
    refuse(path, "takes one value, not a list", {"ddlsim.sweep and ddlsim.curve take several"});
  }
  auto text = text_of(path, value, stated.kept);
  if (path == "model") {
    stated.model.reset();
    // Most models are names; to ask a text for an attribute that it lacks takes a microsecond.
    if (!PyUnicode_Check(value.ptr()) && py::hasattr(value, "_ddlsim_model")) {
      stated.model = value.attr("_ddlsim_model").cast<std::shared_ptr<workload::Model>>();
    }
  }
  stated.settings.push_back({std::move(path), std::move(*text), {}});
}

std::vector<std::string> values_in(const std::string& path, const py::object& all, Kept& kept) {
  std::vector<std::string> values;
  for (const py::handle one : all) {
    if (one.is_none()) refuse(path, "has None among its values");
    const std::string text = text_of(path, one, kept).value_or("");
    const auto range = value_or_raise(whatif::range_of(text));
    values.insert(values.end(), range.begin(), range.end());
  }
  return values;
}

/// The elements of a sequence or an array of one dimension; nothing: one value.
std::optional<py::object> elements_of(const std::string& path, py::handle value) {
  if (is_sequence(value)) return py::reinterpret_borrow<py::object>(value);
  const auto shape = shape_of(value);
  if (!shape || value.attr("ndim").cast<int>() == 0) return std::nullopt;
  if (value.attr("ndim").cast<int>() != 1) {
    refuse(path, fmt::format("varies over one dimension, not an array of shape {}", *shape));
  }
  return value.attr("tolist")();
}

/// What was said of a path before: the later counts. Axes of several paths (zip) stay, and are an error of the grid.
void forget(const std::string& path, whatif::GridParts& parts) {
  std::erase_if(parts.base, [&](const Override& one) { return one.path == path; });
  std::erase_if(parts.axes,
                [&](const whatif::Axis& one) { return one.paths.size() == 1 && one.paths.front() == path; });
}

void grid_value(const std::string& path, py::handle value, whatif::GridParts& parts, Kept& kept, int depth) {
  check_depth(path, depth);
  if (value.is_none()) return;
  if (is_map(value)) {
    for (const auto& [key, inside] : py::reinterpret_borrow<py::dict>(value)) {
      grid_value(key_of(key, path, is_map(inside)), inside, parts, kept, depth + 1);
    }
    return;
  }
  const auto elements = elements_of(path, value);
  forget(path, parts);
  if (!elements) {
    value_or_raise(whatif::add_setting({path, text_of(path, value, kept).value_or(""), {}}, parts));
    return;
  }
  std::vector<std::string> values = values_in(path, *elements, kept);
  if (values.empty()) refuse(path, "has no value");
  if (values.size() == 1) {
    parts.base.push_back({path, values.front(), {}});
    return;
  }
  whatif::Axis axis{.paths = {path}, .steps = {}, .where = {}};
  for (std::string& one : values) axis.steps.push_back({std::move(one)});
  parts.axes.push_back(std::move(axis));
}

}  // namespace

std::optional<std::string> text_of(const std::string& path, py::handle value, Kept& kept) {
  if (PyUnicode_Check(value.ptr())) return std::string(plain(path, value));
  if (PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr())) return number_of(path, value);
  if (auto text = object_text(path, value, kept)) return text;
  const auto shape = shape_of(value);
  if (shape) refuse(path, fmt::format("takes one value, not an array of shape {}", *shape));
  refuse(path, fmt::format("takes a text or a number, not {}", type_name(value)),
         {"quantities carry their unit: network=\"100 Gb/s\""});
}

void add_job(py::handle job, Stated& stated) {
  if (!is_map(job)) refuse("settings", fmt::format("are a map of paths and values, not {}", type_name(job)));
  flatten_map("", job, stated, 0);
}

void add_setting(py::handle name, py::handle value, Stated& stated) {
  flatten(key_of(name, "", is_map(value)), value, stated, 1);
}

Stated stated_of(const py::tuple& jobs, const py::dict& settings) {
  Stated stated;
  stated.settings.reserve(settings.size() + 2);
  for (const py::handle job : jobs) add_job(job, stated);
  for (const auto& [name, value] : settings) add_setting(name, value, stated);
  return stated;
}

void add_to_grid(const py::dict& settings, whatif::GridParts& parts, Kept& kept) {
  for (const auto& [key, value] : settings) grid_value(key_of(key, "", is_map(value)), value, parts, kept, 0);
}

whatif::Axis zipped_axis(const py::dict& columns, Kept& kept) {
  whatif::Axis axis;
  for (const auto& [key, value] : columns) {
    const std::string path = key_of(key, "");
    const auto elements = elements_of(path, value);
    if (!elements) refuse(path, "of zip takes a list of values");
    const std::vector<std::string> values = values_in(path, *elements, kept);
    if (!axis.paths.empty() && values.size() != axis.steps.size()) {
      refuse(path, fmt::format("has {} values, but '{}' beside it in zip has {}", values.size(), axis.paths.front(),
                               axis.steps.size()));
    }
    axis.steps.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) axis.steps[i].push_back(values[i]);
    axis.paths.push_back(path);
  }
  if (axis.paths.empty()) refuse("zip", "names no setting");
  return axis;
}

}  // namespace ddlsim::python
