#include "ddlsim/workload/dataset.h"

#include <algorithm>
#include <cmath>

namespace ddlsim::workload {

Dataset in_sequences_of(Dataset dataset, std::int64_t tokens) {
  if (dataset.tokens < 1 || tokens < 1 || tokens == dataset.tokens) return dataset;
  const double longer = static_cast<double>(tokens) / static_cast<double>(dataset.tokens);
  const auto as_many = [&](std::int64_t count) {
    return std::max<std::int64_t>(1, std::llround(static_cast<double>(count) / longer));
  };
  dataset.samples = as_many(dataset.samples);
  if (dataset.samples_per_file > 1) dataset.samples_per_file = as_many(dataset.samples_per_file);
  dataset.stored = dataset.stored * longer;
  dataset.decoded = dataset.decoded * longer;
  dataset.decode = dataset.decode * longer;
  dataset.augment = dataset.augment * longer;
  if (dataset.cut_from == 0) dataset.cut_from = dataset.tokens;
  dataset.tokens = tokens;
  return dataset;
}

}  // namespace ddlsim::workload
