// The project's own data, opened once for all tests of a program.
#pragma once

#include "ddlsim/io/catalog.h"

namespace ddlsim::test {

inline const io::Catalog& catalog() {
  static const io::Catalog all = io::Catalog::open(DDLSIM_SOURCE_DATA).value();
  return all;
}

}  // namespace ddlsim::test
