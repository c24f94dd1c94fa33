#include "module.h"

#include <atomic>

#include "ddlsim/io/content_hash.h"
#include "ddlsim/report/program.h"
#include "ddlsim/support/names.h"

namespace ddlsim::python {
namespace {

std::atomic<int> running{0};
std::atomic<int> most_at_once{0};

}  // namespace

Unlocked::Unlocked() {
  const int now = ++running;
  if (now > most_at_once.load(std::memory_order_relaxed)) most_at_once = now;
}

Unlocked::~Unlocked() {
  --running;
  PyEval_RestoreThread(thread_);
}

const std::optional<std::string>& Fingerprint::get() const {
  std::call_once(looked_, [this] {
    if (auto hash = io::fingerprint_of(root_)) hash_ = std::move(*hash);
  });
  return hash_;
}

std::string with_data(std::string view, report::Format format, const Fingerprint& data) {
  return format == report::Format::kJson ? report::with_program(view, data.get()) : view;
}

Catalog::Catalog(const std::string& root)
    : data_(value_or_raise(io::Catalog::open(root))), fingerprint_(std::make_shared<const Fingerprint>(root)) {}

std::unique_ptr<whatif::Predictor> Catalog::take() {
  const std::scoped_lock lock(mutex_);
  if (idle_.empty()) return std::make_unique<whatif::Predictor>();
  auto predictor = std::move(idle_.back());
  idle_.pop_back();
  return predictor;
}

void Catalog::give_back(std::unique_ptr<whatif::Predictor> predictor) {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(predictor));
}

report::Format format_of(const std::string& name) {
  return value_or_raise(parse_choice(report::kFormats, name, "format"));
}

namespace {

void bind(py::module_& module) {
  module.doc() = "What the package ddlsim calls.";
  module.attr("version") = DDLSIM_VERSION;
  module.attr("source_data") = DDLSIM_SOURCE_DATA;
  py::class_<Catalog>(module, "Catalog")
      .def(py::init<const std::string&>(), py::arg("root"))
      .def_property_readonly("root", [](const Catalog& self) { return self.data().root().string(); })
      .def("ids", [](const Catalog& self, const std::string& kind) {
        const auto which = value_or_raise(parse_choice(io::kKinds, kind, "kind"));
        py::list ids;
        for (const std::string& id : self.data().ids(which)) ids.append(id);
        return ids;
      });
  module.def("settings", [] {
    py::list all;
    for (const auto& setting : whatif::settings()) {
      all.append(py::make_tuple(setting.path, setting.meaning, setting.example));
    }
    return all;
  });
  // Since it was last asked.
  module.def("most_at_once", [] { return most_at_once.exchange(0); });
  bind_prediction(module);
  bind_questions(module);
  bind_sweep(module);
  bind_parts(module);
}

}  // namespace
}  // namespace ddlsim::python

PYBIND11_MODULE(_ddlsim, module) { ddlsim::python::bind(module); }
