#include "ddlsim/io/hardware_files.h"
#include "ddlsim/io/model_file.h"
#include "ddlsim/io/yaml.h"
#include "module.h"

namespace ddlsim::python {
namespace {

/// Models, GPUs, links and servers that Python builds are documents of the catalogue's own schemas, read by the
/// readers of its files: the same checks, the same messages. `name` stands for the file in them.
io::Node document(const std::string& text, const std::string& name) {
  return value_or_raise(io::parse_yaml(text, name));
}

std::shared_ptr<workload::Model> read_model(const std::string& text, const std::string& name) {
  return std::make_shared<workload::Model>(value_or_raise(io::read_model(document(text, name))));
}

}  // namespace

void bind_parts(py::module_& module) {
  using workload::Model;
  py::class_<Model, std::shared_ptr<Model>>(module, "ModelValue")
      .def_property_readonly("parameters", [](const Model& self) { return self.parameters(); });
  module.def("read_model", &read_model);
  module.def("check_gpu", [](const std::string& text, const std::string& name) {
    value_or_raise(io::read_gpu(document(text, name)));
  });
  module.def("check_link", [](const std::string& text, const std::string& name) {
    value_or_raise(io::read_link(document(text, name)));
  });
  module.def("check_node", [](const std::string& text, const std::string& name) {
    value_or_raise(io::read_node(document(text, name)));
  });
}

}  // namespace ddlsim::python
