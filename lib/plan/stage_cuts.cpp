#include "ddlsim/plan/stage_cuts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ddlsim::plan {
namespace {

Work work_of(const LayerLoads& loads, const workload::Block& block) {
  Work work;
  for (std::size_t i = block.first; i < block.first + block.count; ++i) work += loads.work[i];
  return work;
}

std::vector<std::size_t> everywhere(std::size_t layers) {
  std::vector<std::size_t> starts(layers);
  for (std::size_t i = 0; i < layers; ++i) starts[i] = i;
  return starts;
}

/// Of each piece between two starts. `timed`: by what bounds a layer on the GPU, where it is known.
std::vector<double> weights_of(const LayerLoads& loads, double batch, const std::vector<std::size_t>& starts,
                               bool timed) {
  constexpr double kTie = 1e-6;
  const std::size_t layers = loads.work.size();
  Work work;
  double elements = 0;
  const auto elements_of = [&](std::size_t i) { return loads.elements[i] * batch + loads.weights[i]; };
  const auto work_of = [&](std::size_t i) {
    return timed ? max(loads.work[i], loads.per_element * (elements_of(i) / batch)) : loads.work[i];
  };
  for (std::size_t i = 0; i < layers; ++i) {
    work += work_of(i);
    elements += elements_of(i);
  }
  std::vector<double> weights(starts.size());
  for (std::size_t u = 0; u < starts.size(); ++u) {
    const std::size_t end = u + 1 < starts.size() ? starts[u + 1] : layers;
    for (std::size_t i = starts[u]; i < end; ++i) {
      if (work > Work::zero()) weights[u] += work_of(i) / work;
      if (elements > 0) weights[u] += elements_of(i) / elements * kTie;
      weights[u] += kTie * kTie / static_cast<double>(layers);
    }
  }
  return weights;
}

/// What filling parts from the end up to a weight comes to.
struct Filled {
  bool fits = false;
  double heaviest = 0;                                    // of the parts
  double more = std::numeric_limits<double>::infinity();  // the least weight with which parts would be others
};

/// `starts`: the first piece of each part.
Filled fill(const std::vector<double>& weights, double most, std::vector<std::size_t>& starts) {
  Filled made;
  std::size_t end = weights.size();
  for (std::size_t part = starts.size(); part-- > 0;) {
    double sum = 0;
    std::size_t first = end;
    // Every part before it needs a piece.
    while (first > part && (first == end || sum + weights[first - 1] <= most)) sum += weights[--first];
    if (first > part) made.more = std::min(made.more, sum + weights[first - 1]);
    if (sum > most) {
      made.more = std::min(made.more, sum);
      return made;
    }
    made.heaviest = std::max(made.heaviest, sum);
    starts[part] = end = first;
  }
  made.fits = end == 0;
  return made;
}

std::vector<std::size_t> balanced(const std::vector<double>& weights, std::size_t parts) {
  double low = 0;  // nothing below it fits
  double all = 0;
  for (const double one : weights) {
    all += one;
    low = std::max(low, one);
  }
  low = std::max(low, all / static_cast<double>(parts) * (1 - 1e-9));
  std::vector<std::size_t> best(parts);
  std::vector<std::size_t> tried(parts);
  double heaviest = fill(weights, all * (1 + 1e-9), best).heaviest;
  while (low < heaviest) {
    // In the end it is `low` itself that is tried.
    const double middle = std::max(low, std::min(0.5 * (low + heaviest), std::nextafter(heaviest, 0)));
    const Filled made = fill(weights, middle, tried);
    if (made.fits) {
      heaviest = made.heaviest;
      best.swap(tried);
    } else {
      low = made.more;
    }
  }
  return best;
}

}  // namespace

LayerLoads loads_of(std::span<const workload::Layer> layers) {
  LayerLoads loads;
  for (const workload::Layer& layer : layers) {
    loads.work.push_back(layer.forward_work + layer.backward_work);
    loads.elements.push_back(static_cast<double>(layer.forward_elements + layer.backward_elements));
    loads.weights.push_back(static_cast<double>(layer.forward_weight_elements + layer.backward_weight_elements));
  }
  return loads;
}

LayerLoads loads_with_blocks_again(std::span<const workload::Layer> layers, std::span<const workload::Block> blocks) {
  LayerLoads loads = loads_of(layers);
  for (const workload::Block& one : blocks) {
    for (std::size_t i = one.first; one.body && i < one.first + one.count; ++i) loads.work[i] += layers[i].forward_work;
  }
  return loads;
}

std::size_t most_parts(std::span<const workload::Layer> layers) {
  constexpr std::ptrdiff_t kSumsOfBlock = 3;
  // Hybrids count each of their mixers as a layer, whatever repeats.
  const bool hybrid = std::any_of(layers.begin(), layers.end(), [](const workload::Layer& layer) {
    return layer.op && std::holds_alternative<workload::LinearAttention>(*layer.op);
  });
  if (hybrid) return layers.size();
  std::size_t bodies = 0;
  bool repeated = false;
  for (const workload::Block& one : workload::blocks_of(layers)) {
    repeated = repeated || !one.body;
    if (!one.body) continue;
    ++bodies;
    const auto block = layers.subspan(one.first, one.count);
    if (std::count_if(block.begin(), block.end(), workload::is_residual) > kSumsOfBlock) return layers.size();
  }
  return repeated ? bodies : layers.size();
}

CutPoints cut_points_of(std::span<const workload::Block> blocks, const LayerLoads& loads) {
  CutPoints points;
  points.repeated = std::any_of(blocks.begin(), blocks.end(), [](const workload::Block& one) { return !one.body; });
  points.even = points.repeated;
  const workload::Block* before = nullptr;
  for (const workload::Block& one : blocks) {
    if (points.repeated && !one.body) continue;
    points.starts.push_back(one.first);
    points.even = points.even && (before == nullptr || (before->first + before->count == one.first &&
                                                        work_of(loads, *before) == work_of(loads, one)));
    before = &one;
  }
  if (before == nullptr) return points;
  points.first_body = points.starts.front();
  points.after_bodies = before->first + before->count;
  points.starts.front() = 0;
  return points;
}

bool counts_ends(const CutPoints& points, std::size_t layers, std::size_t parts) {
  const std::size_t bodies = points.starts.size();
  const bool ends = points.first_body > 0 && points.after_bodies < layers;
  return points.even && ends && bodies % parts != 0 && (bodies + 2) % parts == 0;
}

StageStarts balanced_starts(const CutPoints& points, const LayerLoads& loads, double batch, std::size_t parts) {
  PieceWeights weights;
  return balanced_starts(points, loads, batch, parts, weights);
}

StageStarts balanced_starts(const CutPoints& points, const LayerLoads& loads, double batch, std::size_t parts,
                            PieceWeights& weights) {
  const std::size_t layers = loads.work.size();
  const std::size_t count = points.starts.size();
  StageStarts made;
  if (points.even && count % parts == 0) {
    for (std::size_t part = 0; part < parts; ++part) made.first.push_back(points.starts[part * (count / parts)]);
    made.anyhow = true;
  } else if (counts_ends(points, layers, parts)) {
    const std::size_t each = (count + 2) / parts;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t first = part * each;  // 0: before the bodies; count + 1: behind them
      made.first.push_back(first == 0           ? 0
                           : first == 1         ? points.first_body
                           : first == count + 1 ? points.after_bodies
                                                : points.starts[first - 1]);
    }
    made.anyhow = true;
  } else {
    // Pieces that are few are cut themselves.
    const bool enough = count >= (points.repeated ? parts : 2 * parts);
    std::vector<double>& known = enough ? weights.blocks : weights.layers;
    if (known.empty()) known = weights_of(loads, batch, enough ? points.starts : everywhere(layers), !points.repeated);
    for (const std::size_t piece : balanced(known, parts)) made.first.push_back(enough ? points.starts[piece] : piece);
  }
  made.first.push_back(layers);
  return made;
}

std::vector<std::size_t> lighter_cuts(const CutPoints& points, const LayerLoads& loads, std::size_t parts) {
  constexpr double kLighter = 0.95;
  constexpr double kBatch = 1;  // it decides between cuts of equal work alone
  if (parts < 2 || points.starts.size() < parts) return {};
  StageStarts equal = balanced_starts(points, loads, kBatch, parts);
  if (!equal.anyhow) return {};
  equal.first.pop_back();
  std::vector<std::size_t> starts;
  for (const std::size_t piece : balanced(weights_of(loads, kBatch, points.starts, false), parts)) {
    starts.push_back(points.starts[piece]);
  }
  const auto heaviest = [&](const std::vector<std::size_t>& first) {
    const std::vector<double> weights = weights_of(loads, kBatch, first, false);
    return *std::max_element(weights.begin(), weights.end());
  };
  if (heaviest(starts) > heaviest(equal.first) * kLighter) return {};
  starts.erase(starts.begin());
  return starts;
}

}  // namespace ddlsim::plan
