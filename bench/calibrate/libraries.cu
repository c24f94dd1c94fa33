#include "libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

namespace ddlsim::measure {
namespace {

void split(const std::string& text, std::vector<std::string>& folders) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t colon = std::min(text.find(':', at), text.size());
    if (colon > at) folders.push_back(text.substr(at, colon - at) + '/');
    at = colon + 1;
  }
}

}  // namespace

Library::Library(const std::vector<std::string>& names, const std::string& folders) {
  std::vector<std::string> places;
  split(folders, places);
  places.emplace_back();
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* home = std::getenv(variable);
    if (home != nullptr && *home != '\0') split(std::string(home) + "/lib64:" + home + "/lib", places);
  }
  split(
      "/usr/local/cuda/lib64:/usr/local/cuda/lib:/usr/local/cuda/targets/x86_64-linux/lib:"
      "/usr/local/cuda/targets/sbsa-linux/lib:/usr/local/nvidia/lib64:/usr/local/nvidia/lib:"
      "/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64",
      places);
  for (const std::string& place : places) {
    for (const std::string& name : names) {
      handle_ = dlopen((place + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (handle_ != nullptr) return;
      const char* why = dlerror();
      if (error_.empty() && why != nullptr) error_ = why;
    }
  }
}

void* Library::address(const char* name) const { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

void Library::missing(const char* name) { throw std::runtime_error(std::string("the library has no ") + name); }

}  // namespace ddlsim::measure
