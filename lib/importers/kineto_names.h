// Names of kernels, for people.
#pragma once

#include <string>
#include <string_view>

namespace ddlsim::importers::kineto {

/// "ampere_sgemm_128x64_nn", without arguments, template arguments and namespaces.
[[nodiscard]] std::string short_name(std::string_view name);

}  // namespace ddlsim::importers::kineto
