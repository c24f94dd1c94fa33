#include "module.h"

namespace ddlsim::python {
namespace {

/// Names come from files, and need not be UTF-8.
py::str text(const std::string& bytes) {
  PyObject* decoded = PyUnicode_DecodeUTF8(bytes.data(), static_cast<py::ssize_t>(bytes.size()), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

py::object object_of(const Error& error, const py::object& type) {
  py::list notes;
  for (const std::string& note : error.notes) notes.append(text(note));
  py::list also;
  for (const Error& one : error.also) also.append(object_of(one, type));
  const auto known = [](int number) { return number > 0 ? py::object(py::int_(number)) : py::object(py::none()); };
  const py::object file = error.where.file.empty() ? py::object(py::none()) : py::object(text(error.where.file));
  return type(text(error.message), text(std::string(word_of(error.code))), file, known(error.where.line),
              known(error.where.column), py::tuple(notes), py::tuple(also));
}

}  // namespace

void raise(const Error& error) {
  const py::object type = py::module_::import("ddlsim._error").attr("Error");
  const py::object value = object_of(error, type);
  PyErr_SetObject(type.ptr(), value.ptr());
  throw py::error_already_set();
}

}  // namespace ddlsim::python
