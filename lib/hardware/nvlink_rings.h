// The search for rings behind NvlinkMesh and Topology::ring (equation: include/ddlsim/hardware/nvlink_mesh.h).
#pragma once

#include <cstddef>
#include <vector>

namespace ddlsim::hardware {

/// Links of every two GPUs; symmetric, zero on the diagonal. Need not be whole.
using LinkMatrix = std::vector<std::vector<double>>;

struct NvlinkRings {
  double rings = 0;     // in links' worth; zero: the GPUs are not joined by NVLink
  bool direct = false;  // no hop goes through a third GPU
};

[[nodiscard]] NvlinkRings nvlink_rings(const LinkMatrix& links);

}  // namespace ddlsim::hardware
