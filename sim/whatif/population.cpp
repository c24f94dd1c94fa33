#include "ddlsim/whatif/population.h"

#include <algorithm>
#include <cmath>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::whatif {
namespace {

enum class Feature : std::uint64_t { kArchitecture, kCnodes, kFlops, kMemory, kInput, kTraffic, kWeights };

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// Uniform in [0, 1).
double uniform(std::uint64_t seed, std::uint64_t index, Feature feature) {
  const std::uint64_t bits = mix(mix(mix(seed) ^ index) ^ static_cast<std::uint64_t>(feature));
  return std::ldexp(static_cast<double>(bits >> 11), -53);
}

/// The range's start at t = 0, its end at t = 1, straight in the logarithm.
double log_between(const io::LogRange& range, double t) {
  return range.from * portable_exp2(t * portable_log2(range.to / range.from));
}

double draw(const io::QuantileTable& table, double share) {
  for (std::size_t i = 1; i < table.size(); ++i) {
    const auto& [low_share, low] = table[i - 1];
    const auto& [high_share, high] = table[i];
    if (share < high_share) {
      return log_between({low, high}, (share - low_share) / (high_share - low_share));
    }
  }
  return table.back().second;
}

constexpr double kEmbeddingFrom = 10e9;  // bytes; Wang et al. 2019: the largest weights are embeddings

}  // namespace

cost::PaiJob draw_job(const io::PopulationFile& population, std::uint64_t seed, std::uint64_t index) {
  const auto at = [&](Feature feature) { return uniform(seed, index, feature); };
  const auto in = [&](const io::LogRange& range, Feature feature) { return log_between(range, at(feature)); };
  cost::PaiJob job;
  double share = at(Feature::kArchitecture);
  job.architecture = population.architectures.back().first;
  for (const auto& [architecture, part] : population.architectures) {
    if (share < part) {
      job.architecture = architecture;
      break;
    }
    share -= part;
  }
  const auto cnodes = std::find_if(population.cnodes.begin(), population.cnodes.end(),
                                   [&](const auto& row) { return row.first == job.architecture; });
  if (cnodes != population.cnodes.end()) {
    job.cnodes = static_cast<std::int64_t>(std::floor(draw(cnodes->second, at(Feature::kCnodes)) + 0.5));
  }
  const DataSize weights = bytes(draw(population.weights, at(Feature::kWeights)));
  workload::StepFeatures& features = job.features;
  features.flops = flops(in(population.flops, Feature::kFlops));
  features.memory_access = bytes(in(population.memory_access, Feature::kMemory));
  features.input = bytes(in(population.input, Feature::kInput));
  if (job.architecture != workload::Architecture::k1w1g) {
    features.weight_traffic = min(bytes(in(population.weight_traffic, Feature::kTraffic)), weights * 2.0);
  }
  (weights > bytes(kEmbeddingFrom) ? features.embedding_weights : features.dense_weights) = weights;
  return job;
}

}  // namespace ddlsim::whatif
