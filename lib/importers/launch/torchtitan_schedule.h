// In which order torchtitan's pipelines work, and in how many parts.
#pragma once

#include <cstdint>

#include "launch.h"

namespace ddlsim::importers::launch {

struct TitanPipeline {
  std::int64_t stages = 1;  // pipeline_parallel_degree
  std::int64_t blocks = 0;  // of the model; 0: not known
};

/// Schedule and chunks of layers per GPU.
void read_titan_schedule(Tree& in, const TitanPipeline& pipeline, Builder& out);

}  // namespace ddlsim::importers::launch
