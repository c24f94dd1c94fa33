// A population of jobs drawn from published marginals (io/population_file.h).
//
// Job i of seed s is a pure function of (s, i): every feature is drawn on its own from its marginal by inverting its
// distribution at a hash of (s, i, feature), so populations are the same on every machine and any part can be drawn
// alone. Features are independent, with one physical bound: weights and gradients cross the links at most twice a step,
// so weight traffic is at most twice the weights. Weights above 10 GB count as embeddings.
// Limits: real features are correlated (large jobs have large models); the marginals do not say how.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/cost/pai.h"
#include "ddlsim/io/population_file.h"

namespace ddlsim::whatif {

/// Draws many jobs: the logarithms that all of them need are taken once.
class JobDrawer {
 public:
  JobDrawer(const io::PopulationFile& population, std::uint64_t seed);
  /// Jobs `first`, first + 1, ..., as many as there is room for.
  void draw(std::uint64_t first, std::span<cost::PaiJob> jobs) const;

 private:
  static constexpr std::size_t kBlock = 256;

  /// start * 2^(slope * t), t from 0 to 1.
  struct Curve {
    double start = 1;
    double slope = 0;
  };
  struct Knot {
    double from = 0;  // share of jobs
    double to = 0;
    Curve curve;
  };
  using Table = std::vector<Knot>;
  /// Of one feature of a block's jobs.
  struct Draws;

  [[nodiscard]] static double uniform(std::uint64_t hashed, int feature);
  void draw_block(std::uint64_t first, std::span<cost::PaiJob> jobs) const;

  std::uint64_t seed_;  // hashed
  std::vector<std::pair<workload::Architecture, double>> architectures_;
  std::vector<Table> cnodes_;  // by architecture
  Table weights_;
  Curve flops_;
  Curve memory_;
  Curve input_;
  Curve traffic_;
};

/// One job.
[[nodiscard]] cost::PaiJob draw_job(const io::PopulationFile& population, std::uint64_t seed, std::uint64_t index);

}  // namespace ddlsim::whatif
