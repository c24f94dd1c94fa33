// The Python module `ddlsim._ddlsim`: a binding over whatif/*.h and report/*.h, never a second implementation.
//
// The package's Python files (sim/python/ddlsim) give it its public face; what they call is here. A question is taken
// from Python, answered without the interpreter's lock, and given back as a value that shows itself as the command
// does. Errors become `ddlsim.Error`. Nothing in lib/ or sim/whatif knows of this.
#pragma once

#include <pybind11/pybind11.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/report/format.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/grid.h"
#include "ddlsim/whatif/predictor.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::python {

namespace py = pybind11;

/// Throws `ddlsim.Error`. Needs the interpreter's lock.
[[noreturn]] void raise(const Error& error);

template <typename T>
T value_or_raise(Expected<T> value) {
  if (!value) raise(value.error());
  if constexpr (!std::is_void_v<T>) return std::move(*value);
}

/// While it lives, other Python threads run. Counts calls that run at once, for the test that they do.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* thread_ = PyEval_SaveThread();  // what pybind11 keeps beside it takes as long again
};

/// Of a catalogue's files: every JSON says which data it is of. Looked at when the first one is asked for.
class Fingerprint {
 public:
  explicit Fingerprint(std::filesystem::path root) : root_(std::move(root)) {}
  [[nodiscard]] const std::optional<std::string>& get() const;

 private:
  std::filesystem::path root_;
  mutable std::once_flag looked_;
  mutable std::optional<std::string> hash_;
};

/// A view of an answer from this data.
[[nodiscard]] std::string with_data(std::string view, report::Format format, const Fingerprint& data);

/// An opened catalogue, and Predictors with what they have priced: a call takes one that nobody uses.
class Catalog {
 public:
  /// Throws `ddlsim.Error`.
  explicit Catalog(const std::string& root);

  [[nodiscard]] const io::Catalog& data() const { return data_; }
  [[nodiscard]] const std::shared_ptr<const Fingerprint>& fingerprint() const { return fingerprint_; }
  [[nodiscard]] std::unique_ptr<whatif::Predictor> take();
  void give_back(std::unique_ptr<whatif::Predictor> predictor);

 private:
  io::Catalog data_;
  std::shared_ptr<const Fingerprint> fingerprint_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<whatif::Predictor>> idle_;
};

/// Python's objects that must live as long as a call.
using Kept = std::vector<py::object>;

/// What Python said of a job.
struct Stated {
  std::vector<whatif::Override> settings;
  std::shared_ptr<const workload::Model> model;  // of a ddlsim.Model; its file is among the settings, too
  Kept kept;                                     // what files of settings belong to
};

/// Maps of settings, the later ones win, then keyword arguments: nested maps join with dots, as in a scenario file.
/// Throws `ddlsim.Error` for what is no setting's value.
[[nodiscard]] Stated stated_of(const py::tuple& jobs, const py::dict& settings);

/// The same one by one.
void add_job(py::handle job, Stated& stated);
void add_setting(py::handle name, py::handle value, Stated& stated);

/// The parts of a grid: a sequence or an array of one dimension is an axis, a text is read as a flag. Throws
/// `ddlsim.Error`.
void add_to_grid(const py::dict& settings, whatif::GridParts& parts, Kept& kept);
/// A value of a setting as text; nothing: a map or a sequence. Throws `ddlsim.Error`.
[[nodiscard]] std::optional<std::string> text_of(const std::string& path, py::handle value, Kept& kept);
/// Axes whose settings change together: a map of sequences that are as long.
[[nodiscard]] whatif::Axis zipped_axis(const py::dict& columns, Kept& kept);

/// A prediction as Python holds it; what it is of, for its title.
struct Predicted {
  answer::Prediction prediction;
  std::optional<whatif::Scenario> scenario;
  std::string title;  // without a scenario
  std::shared_ptr<const Fingerprint> data;

  [[nodiscard]] std::string words() const { return scenario ? whatif::describe(*scenario) : title; }
};

/// Any other answer: how it looks in every format, and the predictions that stand in it, in the order of its JSON.
struct Answer {
  std::function<std::string(report::Format)> render;
  bool drawn = false;  // whether it has a picture
  std::vector<std::shared_ptr<Predicted>> predictions{};
};

/// Throws `ddlsim.Error` for an unknown format.
[[nodiscard]] report::Format format_of(const std::string& name);

void bind_prediction(py::module_& module);
void bind_questions(py::module_& module);
void bind_sweep(py::module_& module);
void bind_parts(py::module_& module);

}  // namespace ddlsim::python
