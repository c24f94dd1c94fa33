// GPUs and their networks, for tests of collectives that are worked by hand.
#pragma once

#include "ddlsim/cost/collective.h"

namespace ddlsim::test {

/// Eight GPUs at a switch in each node, and no memory, so that no local pass is priced; rates in GB/s.
inline cost::Communicator nodes_of_eight(std::int64_t nodes, cost::GpuGeneration generation, double intra, double inter,
                                         double pcie) {
  cost::Communicator c;
  c.nodes = nodes;
  c.gpus = 8 * nodes;
  c.generation = generation;
  c.fabric = cost::GpuFabric::kNvswitch;
  c.network_ports = 8;
  c.intra = gigabytes_per_second(intra);
  c.inter = gigabytes_per_second(inter);
  c.pcie = gigabytes_per_second(pcie);
  c.intra_latency = microseconds(3.4);
  c.inter_latency = microseconds(14);
  return c;
}

/// 12 NVLinks of 25 GB/s each, eight InfiniBand ports of 200 Gb/s.
inline cost::Communicator ampere(std::int64_t nodes = 1) {
  return nodes_of_eight(nodes, cost::GpuGeneration::kAmpere, 300, 200, 31.508);
}

/// 18 NVLinks of 25 GB/s each, eight InfiniBand ports of 400 Gb/s.
inline cost::Communicator hopper(std::int64_t nodes) {
  return nodes_of_eight(nodes, cost::GpuGeneration::kHopper, 450, 400, 63);
}

/// EDR InfiniBand and PCIe 3.0, 12 GB/s each; memory of 720 GB/s.
inline cost::Communicator pascal(std::int64_t nodes, int gpus_of_each = 1) {
  cost::Communicator c;
  c.gpus = nodes * gpus_of_each;
  c.nodes = nodes;
  c.generation = cost::GpuGeneration::kPascal;
  c.fabric = cost::GpuFabric::kPcie;
  c.intra = gigabytes_per_second(15.754);
  c.pcie = gigabytes_per_second(15.754);
  c.inter = gigabytes_per_second(12.5);
  c.memory = gigabytes_per_second(720);
  c.intra_latency = microseconds(5.7);
  c.inter_latency = microseconds(14);
  return c;
}

}  // namespace ddlsim::test
