#include <algorithm>
#include <chrono>

#include "ddlsim/report/views.h"
#include "ddlsim/whatif/predict.h"
#include "module.h"

namespace ddlsim::python {
namespace {

using answer::Prediction;

/// A scenario of what was stated. A ddlsim.Model goes by its value, unless sizes of its are stated beside it.
Expected<whatif::Scenario> resolve(const Catalog& catalog, const Stated& stated) {
  const auto sized = [](const whatif::Override& one) { return one.path.starts_with("model."); };
  if (!stated.model || std::any_of(stated.settings.begin(), stated.settings.end(), sized)) {
    return whatif::resolve(catalog.data(), stated.settings);
  }
  return whatif::resolve(catalog.data(), stated.settings, stated.model);
}

Expected<std::shared_ptr<Predicted>> ask(Catalog& catalog, const Stated& stated) {
  auto scenario = resolve(catalog, stated);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  auto predictor = catalog.take();
  auto prediction = predictor->predict(*scenario);
  catalog.give_back(std::move(predictor));
  if (prediction) whatif::add_notes_of_one_job(*scenario, *prediction);
  if (!prediction) return tl::unexpected<Error>(prediction.error());
  auto predicted = std::make_shared<Predicted>();
  predicted->prediction = std::move(*prediction);
  predicted->scenario = std::move(*scenario);
  predicted->data = catalog.fingerprint();
  return predicted;
}

/// What `predict` was given: maps of settings, then keywords, of which `data` is the catalogue.
struct Given {
  Stated stated;
  py::object data = py::none();
};

Given given_of(PyObject* const* values, Py_ssize_t jobs, PyObject* names) {
  Given given;
  const Py_ssize_t keywords = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  given.stated.settings.reserve(static_cast<std::size_t>(jobs + keywords) + 2);
  for (Py_ssize_t i = 0; i < jobs; ++i) add_job(values[i], given.stated);
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(names, i);
    if (PyUnicode_CompareWithASCIIString(name, "data") == 0) {
      given.data = py::reinterpret_borrow<py::object>(values[jobs + i]);
    } else {
      add_setting(name, values[jobs + i], given.stated);
    }
  }
  return given;
}

/// What opens a catalogue (ddlsim._catalog), and the default one once it is open.
struct Opening {
  py::object open;
  py::object opened;
  Catalog* usual = nullptr;  // the same
};
Opening& opening() {
  static auto* const kept = new Opening;  // NOLINT(cppcoreguidelines-owning-memory): not destroyed after Python
  return *kept;
}

/// The usual catalogue, or what `data` means: that then lives in `data`.
Catalog& catalog_of(py::object& data) {
  Opening& known = opening();
  if (!data.is_none()) {
    data = known.open(data);
    return data.cast<Catalog&>();
  }
  if (known.usual == nullptr) {
    known.opened = known.open(data);
    known.usual = &known.opened.cast<Catalog&>();
  }
  return *known.usual;
}

/// predict(*jobs, data=None, **settings) as CPython calls it: a function of Python would make a frame, a tuple and a
/// dict of what is read here where it lies, and pybind11 looks for an overload; each takes a microsecond.
PyObject* call_predict(PyObject* /*module*/, PyObject* const* values, Py_ssize_t jobs, PyObject* names) {
  try {
    Given given = given_of(values, jobs, names);
    Catalog& catalog = catalog_of(given.data);
    auto predicted = [&] {
      const Unlocked unlocked;
      return ask(catalog, given.stated);
    }();
    return py::cast(value_or_raise(std::move(predicted))).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& fault) {
    PyErr_SetString(PyExc_RuntimeError, fault.what());
  }
  return nullptr;
}

/// A decorator: `predict` as above, with the name, words and module of the Python function it stands for.
py::object calls_predict(py::object open) {
  opening().open = std::move(open);
  return py::cpp_function([](const py::object& described) {
    // A built-in function says its parameters in the first line of its words.
    static const std::string words =
        "predict(*jobs, data=None, **settings)\n--\n\n" + described.attr("__doc__").cast<std::string>();
    static PyMethodDef call{"predict", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_predict)),
                            METH_FASTCALL | METH_KEYWORDS, words.c_str()};
    const py::object module = described.attr("__module__");
    return py::reinterpret_steal<py::object>(PyCFunction_NewEx(&call, nullptr, module.ptr()));
  });
}

/// Seconds that the same call takes without Python, for the measurement of what Python adds.
double seconds_without_python(Catalog& catalog, const py::tuple& jobs, const py::dict& settings, int calls) {
  const Stated stated = stated_of(jobs, settings);
  const Unlocked unlocked;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    const auto predicted = ask(catalog, stated);
    if (!predicted) return 0;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

template <typename Get>
auto of(Get get) {
  return [get](const Predicted& self) { return get(self.prediction); };
}

py::tuple in_seconds(const std::pair<Time, Time>& ends) {
  return py::make_tuple(ends.first.in(seconds), ends.second.in(seconds));
}

void bind_breakdown(py::module_& module) {
  using answer::Breakdown;
  py::class_<Breakdown> parts(module, "Breakdown", "Where the time of a step goes, in seconds.");
  const auto part = [&](const char* name, Time Breakdown::*time) {
    parts.def_property_readonly(name, [time](const Breakdown& self) { return (self.*time).in(seconds); });
  };
  part("compute", &Breakdown::compute);
  part("memory", &Breakdown::memory);
  part("launch", &Breakdown::launch);
  part("input_exposed", &Breakdown::input_exposed);
  part("communication", &Breakdown::communication);
  part("communication_exposed", &Breakdown::communication_exposed);
  part("bubble", &Breakdown::bubble);
  part("other", &Breakdown::other);
  part("host_update", &Breakdown::host_update);
  part("unexplained", &Breakdown::unexplained);
}

}  // namespace

void bind_prediction(py::module_& module) {
  bind_breakdown(module);
  py::class_<Predicted, std::shared_ptr<Predicted>> type(module, "Prediction");
  const auto field = [&](const char* name, auto get) { type.def_property_readonly(name, of(get)); };
  field("step_time_s", [](const Prediction& p) { return p.step_time.in(seconds); });
  field("throughput_samples_per_s", [](const Prediction& p) { return p.throughput_samples_per_second; });
  field("scaling_efficiency", [](const Prediction& p) { return p.scaling_efficiency; });
  field("bottleneck", [](const Prediction& p) { return p.bottleneck; });
  field("interval_90_s", [](const Prediction& p) { return in_seconds(p.interval_90); });
  field("breakdown_s", [](const Prediction& p) { return p.breakdown; });
  field("memory_bytes_per_gpu", [](const Prediction& p) { return p.memory_per_gpu.in(bytes); });
  field("fits", [](const Prediction& p) { return p.fits ? py::object(py::bool_(*p.fits)) : py::none(); });
  field("mfu", [](const Prediction& p) { return p.mfu; });
  field("hfu", [](const Prediction& p) { return p.hfu; });
  field("gpus", [](const Prediction& p) { return p.gpus; });
  field("batch_per_gpu", [](const Prediction& p) { return p.batch_per_gpu; });
  field("sample", [](const Prediction& p) { return p.sample; });
  field("architecture", [](const Prediction& p) { return p.architecture; });
  field("fidelity", [](const Prediction& p) { return std::string(name_of(answer::kFidelities, p.fidelity)); });
  field("provenance", [](const Prediction& p) { return std::string(to_string(p.provenance)); });
  field("notes", [](const Prediction& p) {
    py::list notes;
    for (const std::string& note : p.notes) notes.append(note);
    return py::tuple(notes);
  });
  type.def_property_readonly("title", &Predicted::words);
  type.def("render", [](const Predicted& self, const std::string& format) {
    const report::Format shape = format_of(format);
    return with_data(report::render(self.prediction, self.words(), shape), shape, *self.data);
  });
  type.attr("drawn") = true;
  module.def("calls_predict", &calls_predict);
  module.def("seconds_without_python", &seconds_without_python);
}

}  // namespace ddlsim::python
