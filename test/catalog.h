// The project's own data, opened once for all tests of a program.
#pragma once

#include "ddlsim/io/catalog.h"

namespace ddlsim::test {

/// With what frameworks take on top of kernels.
inline const io::Catalog& learnt_catalog() {
  static const io::Catalog all = io::Catalog::open(DDLSIM_SOURCE_DATA).value();
  return all;
}

/// Kernels alone: what most tests work out by hand.
inline const io::Catalog& catalog() {
  static const io::Catalog all = learnt_catalog().kernels_alone();
  return all;
}

}  // namespace ddlsim::test
