#include "search/short_model.h"

#include <algorithm>
#include <utility>

namespace ddlsim::whatif {
namespace {

bool alike(const workload::Layer& a, const workload::Layer& b) {
  const bool op = a.op.has_value() == b.op.has_value() && (!a.op || a.op->index() == b.op->index());
  return op && !a.measured && !b.measured && a.in == b.in && a.parameters == b.parameters &&
         a.forward_work == b.forward_work && a.backward_work == b.backward_work &&
         a.forward_elements == b.forward_elements && a.backward_elements == b.backward_elements &&
         a.output_elements == b.output_elements && a.saved_elements == b.saved_elements &&
         a.forward_kernels == b.forward_kernels && a.backward_kernels == b.backward_kernels;
}

/// How layers are cut depends on their neighbours: of a run the first blocks and the last one stay.
constexpr std::size_t kBlocksKept = 3;

/// Blocks of a model that stand one after the other and are alike.
struct Run {
  std::size_t first = 0;   // layer
  std::size_t length = 0;  // of a block
  std::size_t times = 1;
};

/// How often the `length` layers at `first` stand there one after the other.
std::size_t times_at(const std::vector<workload::Layer>& layers, std::size_t first, std::size_t length) {
  std::size_t same = 0;
  while (first + length + same < layers.size() && alike(layers[first + same], layers[first + length + same])) ++same;
  return 1 + same / length;
}

/// Every layer is in one; of several ways to repeat what follows, the one over the most layers, then the shortest.
std::vector<Run> runs_of(const std::vector<workload::Layer>& layers) {
  constexpr std::size_t kLongestBlock = 64;  // layers of a block; DeepSeek-V3's has 21
  std::vector<Run> runs;
  for (std::size_t first = 0; first < layers.size();) {
    Run best{first, 1, 1};
    for (std::size_t length = 1; length <= std::min(kLongestBlock, (layers.size() - first) / 2); ++length) {
      const std::size_t times = times_at(layers, first, length);
      if (times > kBlocksKept && times * length > best.times * best.length) best = {first, length, times};
    }
    runs.push_back(best);
    first += best.times * best.length;
  }
  return runs;
}

ShortModel with_blocks(const workload::Model& model, const std::vector<Run>& runs) {
  ShortModel made;
  std::vector<workload::Layer> layers;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const Run& run = runs[r];
    const std::size_t kept = std::min(run.times, kBlocksKept);
    const std::size_t start = layers.size();
    // Blocks 0, 1, ... and the last one; those between are like the second.
    const std::size_t middle = kept < kBlocksKept ? 0 : kept - 2;
    for (std::size_t block = 0; block < run.times; ++block) {
      const bool last = block + 1 == run.times;
      const std::size_t like = last ? kept - 1 : std::min(block, middle);
      const bool stands = last || block + 1 < kept;
      for (std::size_t i = 0; i < run.length; ++i) {
        if (stands) layers.push_back(model.layers[run.first + block * run.length + i]);
        made.source.push_back(start + like * run.length + i);
        made.places.push_back({made.source.back(), r, static_cast<double>(block - like)});
        const bool again = !last && block + 2 < run.times && block >= middle;
        made.next.push_back(again ? made.next.size() + run.length : model.layers.size());
      }
    }
    const std::size_t first = start + middle * run.length;
    made.runs.push_back({first, first + run.length, static_cast<double>(run.times - kept)});
  }
  made.places.push_back({layers.size(), runs.size() - 1, made.runs.back().times});
  std::vector<double> stands_for(layers.size(), 0);
  for (const std::size_t like : made.source) ++stands_for[like];
  made.stands_for = std::make_shared<const std::vector<double>>(std::move(stands_for));
  auto shorter = std::make_shared<workload::Model>(model);
  shorter->layers = std::move(layers);
  auto totals = workload::total(shorter->layers);
  if (!totals) return {};
  shorter->totals = std::move(*totals);
  made.model = std::move(shorter);
  return made;
}

}  // namespace

std::optional<ShortModel> short_model_of(const Scenario& base) {
  const workload::Model& model = *base.model;
  const bool every_nth = base.parallel.recompute_every > 1;
  if (model.measured || base.fusion.pointwise || every_nth) return std::nullopt;
  if (model.layers.empty()) return std::nullopt;
  ShortModel made = with_blocks(model, runs_of(model.layers));
  if (made.model == nullptr || made.model->layers.size() == model.layers.size()) return std::nullopt;
  return made;
}

}  // namespace ddlsim::whatif
