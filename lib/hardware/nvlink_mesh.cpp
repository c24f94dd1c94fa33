#include "ddlsim/hardware/nvlink_mesh.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "nvlink_rings.h"

namespace ddlsim::hardware {
namespace {

std::size_t index(std::int64_t place) { return static_cast<std::size_t>(place); }

/// Servers of at most this many GPUs keep what every part of them has: 2 ms for eight GPUs that are all linked.
constexpr std::size_t kMostKept = 8;

using Counts = std::vector<std::vector<std::int64_t>>;

}  // namespace

struct NvlinkMesh::Links {
  NvlinkMeshParts parts;
  Counts counts;
  std::vector<double> rings;       // over the first k GPUs
  std::vector<double> over_parts;  // over any GPUs, by the set of their bits; of small servers

  [[nodiscard]] double rings_over(std::span<const std::int64_t> gpus) const {
    LinkMatrix matrix(gpus.size(), std::vector<double>(gpus.size(), 0.0));
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      for (std::size_t k = 0; k < gpus.size(); ++k) {
        matrix[i][k] = static_cast<double>(counts[index(gpus[i])][index(gpus[k])]);
      }
    }
    return nvlink_rings(matrix).rings;
  }
};

std::optional<NvlinkFault> first_fault(const NvlinkMeshParts& parts) {
  const auto places = index(parts.gpus);
  Counts counts(places, std::vector<std::int64_t>(places, 0));
  std::vector<std::int64_t> of_gpu(places, 0);
  for (std::size_t i = 0; i < parts.pairs.size(); ++i) {
    const auto& [from, to, links] = parts.pairs[i];
    const auto bad = [&](std::string message) { return NvlinkFault{i, std::move(message)}; };
    for (const std::int64_t gpu : {from, to}) {
      if (gpu >= 0 && gpu < parts.gpus) continue;
      return bad(fmt::format("no GPU {}: the server has {}, numbered from 0", gpu, parts.gpus));
    }
    if (from == to) return bad(fmt::format("GPU {} is paired with itself", from));
    if (links < 1) return bad(fmt::format("{}-{}: {} NVLinks", from, to, links));
    if (counts[index(from)][index(to)] > 0) return bad(fmt::format("the pair {}-{} stands twice", from, to));
    counts[index(from)][index(to)] = counts[index(to)][index(from)] = links;
    for (const std::int64_t gpu : {from, to}) {
      if (links <= parts.links_per_gpu - of_gpu[index(gpu)]) {
        of_gpu[index(gpu)] += links;
        continue;
      }
      return bad(fmt::format("{}-{} x{}: GPU {} has {} NVLinks, {} of them in other pairs", from, to, links, gpu,
                             parts.links_per_gpu, of_gpu[index(gpu)]));
    }
  }
  return std::nullopt;
}

Expected<NvlinkMesh> NvlinkMesh::create(NvlinkMeshParts parts) {
  if (parts.gpus < 1 || parts.gpus > kMaxMeshGpus) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("NVLinks between the GPUs of a server of {}", parts.gpus), {},
                {fmt::format("valid: 1 to {}", kMaxMeshGpus)});
  }
  if (const auto fault = first_fault(parts)) return fail(ErrorCode::kInvalidArgument, fault->message);
  auto links = std::make_shared<Links>();
  links->counts.assign(index(parts.gpus), std::vector<std::int64_t>(index(parts.gpus), 0));
  for (const auto& [from, to, count] : parts.pairs) {
    links->counts[index(from)][index(to)] = links->counts[index(to)][index(from)] = count;
  }
  links->parts = std::move(parts);
  std::vector<std::int64_t> first(index(links->parts.gpus));
  std::iota(first.begin(), first.end(), std::int64_t{0});
  links->rings.assign(first.size() + 1, 0.0);
  for (std::size_t used = 2; used <= first.size(); ++used) {
    links->rings[used] = links->rings_over(std::span(first).first(used));
  }
  if (first.size() <= kMostKept) {
    links->over_parts.assign(std::size_t{1} << first.size(), 0.0);
    for (std::size_t part = 1; part < links->over_parts.size(); ++part) {
      std::vector<std::int64_t> gpus;
      std::copy_if(first.begin(), first.end(), std::back_inserter(gpus),
                   [&](std::int64_t gpu) { return (part >> index(gpu) & 1U) != 0; });
      links->over_parts[part] = links->rings_over(gpus);
    }
  }
  return NvlinkMesh(std::move(links));
}

std::int64_t NvlinkMesh::gpus() const { return links_->parts.gpus; }
std::int64_t NvlinkMesh::links_per_gpu() const { return links_->parts.links_per_gpu; }
std::span<const NvlinkPair> NvlinkMesh::pairs() const { return links_->parts.pairs; }

std::int64_t NvlinkMesh::links(std::int64_t from, std::int64_t to) const {
  return links_->counts[index(from)][index(to)];
}

double NvlinkMesh::rings(std::int64_t used) const {
  return used < 0 || used > gpus() ? 0.0 : links_->rings[index(used)];
}

double NvlinkMesh::rings(std::span<const std::int64_t> gpus) const {
  if (links_->over_parts.empty()) return links_->rings_over(gpus);
  std::size_t part = 0;
  for (const std::int64_t gpu : gpus) part |= std::size_t{1} << index(gpu);
  return links_->over_parts[part];
}

}  // namespace ddlsim::hardware
