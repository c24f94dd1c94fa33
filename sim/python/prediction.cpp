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
  if (!prediction) return tl::unexpected<Error>(prediction.error());
  auto predicted = std::make_shared<Predicted>();
  predicted->prediction = std::move(*prediction);
  predicted->scenario = std::move(*scenario);
  return predicted;
}

std::shared_ptr<Predicted> predict(Catalog& catalog, const py::tuple& jobs, const py::dict& settings) {
  const Stated stated = stated_of(jobs, settings);
  auto predicted = [&] {
    const Unlocked unlocked;
    return ask(catalog, stated);
  }();
  return value_or_raise(std::move(predicted));
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
    return report::render(self.prediction, self.words(), format_of(format));
  });
  type.attr("drawn") = true;
  module.def("predict", &predict);
  module.def("seconds_without_python", &seconds_without_python);
}

}  // namespace ddlsim::python
