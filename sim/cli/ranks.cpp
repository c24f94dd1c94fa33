#include "ranks.h"

#include <cstdlib>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::cli {

int Ranks::started() {
  // Open MPI's mpirun, then anything that speaks PMIx (srun --mpi=pmix), which does not say how many.
  if (const char* size = std::getenv("OMPI_COMM_WORLD_SIZE"); size != nullptr) {
    return static_cast<int>(parse_count(size, {1, 1'000'000'000}).value_or(1));
  }
  return std::getenv("PMIX_NAMESPACE") != nullptr ? 1 : 0;
}

}  // namespace ddlsim::cli
