#include "short_model.h"

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
  constexpr std::size_t kLongest = 64;  // layers of a block; DeepSeek-V3's has 21
  std::vector<Run> runs;
  for (std::size_t first = 0; first < layers.size();) {
    Run best{first, 1, 1};
    for (std::size_t length = 1; length <= std::min(kLongest, (layers.size() - first) / 2); ++length) {
      const std::size_t times = times_at(layers, first, length);
      if (times > kBlocksKept && times * length > best.times * best.length) best = {first, length, times};
    }
    runs.push_back(best);
    first += best.times * best.length;
  }
  return runs;
}

std::shared_ptr<const workload::Model> with_blocks(const workload::Model& model, const std::vector<Run>& runs,
                                                   std::vector<std::size_t>& source) {
  auto made = std::make_shared<workload::Model>(model);
  made->layers.clear();
  for (const Run& run : runs) {
    const std::size_t kept = std::min(run.times, kBlocksKept);
    const std::size_t start = made->layers.size();
    for (std::size_t block = 0; block < run.times; ++block) {
      // Blocks 0, 1, ... and the last one; those between are like the second.
      const bool last = block + 1 == run.times;
      const std::size_t like = last ? kept - 1 : std::min(block, kept < 3 ? 0 : kept - 2);
      const bool stands = last || block + 1 < kept;
      for (std::size_t i = 0; i < run.length; ++i) {
        if (stands) made->layers.push_back(model.layers[run.first + block * run.length + i]);
        source.push_back(start + like * run.length + i);
      }
    }
  }
  auto totals = workload::total(made->layers);
  if (!totals) return nullptr;
  made->totals = std::move(*totals);
  return made;
}

}  // namespace

std::optional<ShortModel> short_model_of(const Scenario& base) {
  const workload::Model& model = *base.model;
  const bool every_nth = base.parallel.recompute_every > 1;
  if (model.measured || base.fusion.pointwise || every_nth) return std::nullopt;
  const std::vector<Run> runs = runs_of(model.layers);
  ShortModel made;
  made.model = with_blocks(model, runs, made.source);
  if (made.model == nullptr || made.model->layers.size() == model.layers.size()) return std::nullopt;
  return made;
}

}  // namespace ddlsim::whatif
