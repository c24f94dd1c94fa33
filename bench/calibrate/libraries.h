// Libraries that are looked for at run time, so that one compiler command builds the program whatever is installed.
#pragma once

#include <string>
#include <vector>

namespace ddlsim::measure {

class Library {
 public:
  Library() = default;
  /// Tries each name in the folders of --libraries, then as the loader does, then in CUDA's usual folders.
  Library(const std::vector<std::string>& names, const std::string& folders);

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& error() const { return error_; }
  /// Null where the library has no such function.
  template <typename Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(address(name));
  }
  /// Throws std::runtime_error where the library has no such function.
  template <typename Function>
  void need(Function& function, const char* name) {
    function = find<Function>(name);
    if (function == nullptr) missing(name);
  }

 private:
  [[nodiscard]] void* address(const char* name) const;
  [[noreturn]] static void missing(const char* name);
  void* handle_ = nullptr;
  std::string error_;
};

}  // namespace ddlsim::measure
