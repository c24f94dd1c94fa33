// What a sweep of a collective over message sizes answers with: the columns of nccl-tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/provenance.h"
#include "ddlsim/support/units.h"

namespace ddlsim::answer {

struct CollectiveRow {
  DataSize size{};
  Time time{};
  Bandwidth algorithm_bandwidth{};  // size / time
  Bandwidth bus_bandwidth{};        // nccl-tests' definition
  std::string algorithm;
  std::string protocol;
  Provenance provenance = Provenance::kAssumed;
};

/// One library's rows, smallest size first. Reports with several have the same sizes in each.
struct CollectiveSweep {
  std::string library;
  std::vector<CollectiveRow> rows;
};

struct CollectiveReport {
  std::string title;
  primitives::CollectiveOp op = primitives::CollectiveOp::kAllReduce;
  std::int64_t gpus = 1;
  std::int64_t nodes = 1;
  std::vector<CollectiveSweep> sweeps;
  std::vector<std::string> notes;
};

}  // namespace ddlsim::answer
