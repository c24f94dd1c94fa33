// An imported model beside the catalogue's of the same network, and beside what its own file says.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <string>

#include "catalog.h"
#include "ddlsim/importers/hf_config.h"
#include "ddlsim/io/model_file.h"

namespace ddlsim::test {

/// How many layers have that name.
inline std::ptrdiff_t layers_named(const importers::HfImport& import, const std::string& name) {
  const auto& layers = import.model.layers;
  return std::count_if(layers.begin(), layers.end(), [&](const workload::Layer& one) { return one.name == name; });
}

/// The same operators: inputs, parameters, FLOPs and what they move and keep.
inline void check_as_shipped(const std::string& id, const importers::HfImport& import) {
  INFO(id);
  const auto shipped = catalog().model(id);
  REQUIRE(shipped);
  const auto& theirs = (*shipped)->layers;
  const auto& ours = import.model.layers;
  CHECK(import.model.parameters() == (*shipped)->parameters());
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    INFO(i << ": " << ours[i].name << " beside " << theirs[i].name);
    REQUIRE(ours[i].in == theirs[i].in);
    REQUIRE(ours[i].parameters == theirs[i].parameters);
    REQUIRE(ours[i].forward_work == theirs[i].forward_work);
    REQUIRE(ours[i].backward_work == theirs[i].backward_work);
    REQUIRE(ours[i].forward_elements == theirs[i].forward_elements);
    REQUIRE(ours[i].backward_elements == theirs[i].backward_elements);
    REQUIRE(ours[i].saved_elements == theirs[i].saved_elements);
    REQUIRE(ours[i].scores == theirs[i].scores);
    REQUIRE(ours[i].forward_kernels == theirs[i].forward_kernels);
    REQUIRE(ours[i].backward_kernels == theirs[i].backward_kernels);
  }
  REQUIRE(ours.size() == theirs.size());
}

/// Written as a model file and read again.
inline void check_survives_its_file(const importers::HfImport& import) {
  const auto written = io::write_model(import.description);
  REQUIRE(written);
  const auto document = io::parse_yaml(*written, "folder.yaml");
  REQUIRE(document);
  const auto back = io::read_model(*document);
  if (!back) FAIL(to_string(back.error()));
  CHECK(back->parameters() == import.model.parameters());
  CHECK(back->totals.forward_work == import.model.totals.forward_work);
  CHECK(back->totals.saved_elements == import.model.totals.saved_elements);
  CHECK(back->totals.gradient_tensors == import.model.totals.gradient_tensors);
}

}  // namespace ddlsim::test
