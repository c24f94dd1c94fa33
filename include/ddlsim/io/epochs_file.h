// How many epochs a model needs at a global batch: a CSV file with the columns global_batch and epochs, in any order.
// A batch stands once; the rows need no order. What lies between two rows is not guessed.
//
//   global_batch,epochs
//   256,90
//   8192,96
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim::io {

struct EpochsAtBatch {
  std::int64_t global_batch = 1;
  double epochs = 1;
};

/// Sorted by batch. Errors name the line: a column that is missing or unknown, a batch that is no count or stands
/// twice, epochs that are not above zero, no row at all.
[[nodiscard]] Expected<std::vector<EpochsAtBatch>> load_epochs_by_batch(const std::filesystem::path& path);

}  // namespace ddlsim::io
