#include "ddlsim/whatif/population.h"

#include <algorithm>
#include <array>

#include "ddlsim/support/portable_math.h"

namespace ddlsim::whatif {
namespace {

/// What a job's hash is hashed with once more; the order is part of what a seed draws.
enum Feature : int { kArchitecture, kCnodes, kFlops, kMemory, kInput, kTraffic, kWeights };

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

constexpr double kEmbeddingFrom = 10e9;  // bytes; Wang et al. 2019: the largest weights are embeddings

double slope_between(double from, double to) { return portable_log2(to / from); }

}  // namespace

/// Of a feature: value = start * 2^exponent.
struct JobDrawer::Draws {
  std::array<double, kBlock> start;
  std::array<double, kBlock> value;  // the exponent first

  void set(std::size_t job, const Curve& curve, double t) {
    start[job] = curve.start;
    value[job] = t * curve.slope;
  }
  void look_up(std::size_t job, const Table& table, double share);
  void finish(std::size_t jobs) {
    portable_exp2(std::span(value).first(jobs));
    for (std::size_t i = 0; i < jobs; ++i) value[i] = start[i] * value[i];
  }
};

JobDrawer::JobDrawer(const io::PopulationFile& population, std::uint64_t seed)
    : seed_(mix(seed)), architectures_(population.architectures), cnodes_(workload::kArchitectures.size()) {
  const auto curve = [](const io::LogRange& range) { return Curve{range.from, slope_between(range.from, range.to)}; };
  const auto table = [](const io::QuantileTable& rows) {
    Table made;
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const auto& [low_share, low] = rows[i - 1];
      const auto& [high_share, high] = rows[i];
      made.push_back({low_share, high_share, {low, slope_between(low, high)}});
    }
    return made;
  };
  std::size_t longest = 1;
  for (const auto& [architecture, rows] : population.cnodes) {
    Table& made = cnodes_[static_cast<std::size_t>(architecture)] = table(rows);
    longest = std::max(longest, made.size());
  }
  // As long as each other, so that looking one up has no branch that depends on the job.
  for (Table& made : cnodes_) {
    if (made.empty()) made.push_back({0, 1, {}});
    made.resize(longest, Knot{1, 2, {}});
  }
  weights_ = table(population.weights);
  flops_ = curve(population.flops);
  memory_ = curve(population.memory_access);
  input_ = curve(population.input);
  traffic_ = curve(population.weight_traffic);
}

/// Uniform in [0, 1).
double JobDrawer::uniform(std::uint64_t hashed, int feature) {
  return static_cast<double>(mix(hashed ^ static_cast<std::uint64_t>(feature)) >> 11) * 0x1p-53;
}

void JobDrawer::Draws::look_up(std::size_t job, const Table& table, double share) {
  std::size_t at = 0;
  for (std::size_t i = 0; i + 1 < table.size(); ++i) at += share >= table[i].to ? 1U : 0U;
  const Knot& knot = table[at];
  set(job, knot.curve, (share - knot.from) / (knot.to - knot.from));
}

void JobDrawer::draw_block(std::uint64_t first, std::span<cost::PaiJob> jobs) const {
  Draws cnodes;
  Draws work;
  Draws memory;
  Draws input;
  Draws traffic;
  Draws weights;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::uint64_t hashed = mix(seed_ ^ (first + i));
    double share = uniform(hashed, kArchitecture);
    std::size_t drawn = 0;
    for (const auto& [architecture, part] : architectures_) {  // below 0 once it was found
      drawn += share >= part ? 1U : 0U;
      share -= part;
    }
    jobs[i].architecture = architectures_[std::min(drawn, architectures_.size() - 1)].first;
    cnodes.look_up(i, cnodes_[static_cast<std::size_t>(jobs[i].architecture)], uniform(hashed, kCnodes));
    weights.look_up(i, weights_, uniform(hashed, kWeights));
    work.set(i, flops_, uniform(hashed, kFlops));
    memory.set(i, memory_, uniform(hashed, kMemory));
    input.set(i, input_, uniform(hashed, kInput));
    traffic.set(i, traffic_, uniform(hashed, kTraffic));
  }
  for (Draws* draws : {&cnodes, &work, &memory, &input, &traffic, &weights}) draws->finish(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    // Positive and far below 2^53: this is std::floor without the call.
    jobs[i].cnodes = static_cast<std::int64_t>(cnodes.value[i] + 0.5);  // NOLINT(bugprone-incorrect-roundings)
    const DataSize size = bytes(weights.value[i]);
    const bool shared = jobs[i].architecture != workload::Architecture::k1w1g;
    const bool embedded = size > bytes(kEmbeddingFrom);
    jobs[i].features = {.flops = flops(work.value[i]),
                        .memory_access = bytes(memory.value[i]),
                        .input = bytes(input.value[i]),
                        .weight_traffic = min(bytes(traffic.value[i]), size * (shared ? 2.0 : 0.0)),
                        .dense_weights = embedded ? DataSize::zero() : size,
                        .embedding_weights = embedded ? size : DataSize::zero()};
  }
}

void JobDrawer::draw(std::uint64_t first, std::span<cost::PaiJob> jobs) const {
  for (std::size_t at = 0; at < jobs.size(); at += kBlock) {
    draw_block(first + at, jobs.subspan(at, std::min(kBlock, jobs.size() - at)));
  }
}

cost::PaiJob draw_job(const io::PopulationFile& population, std::uint64_t seed, std::uint64_t index) {
  cost::PaiJob job;
  JobDrawer(population, seed).draw(index, std::span(&job, 1));
  return job;
}

}  // namespace ddlsim::whatif
