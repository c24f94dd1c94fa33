// The GEMMs to time in one precision: about 600, so that a fit by tiles and waves sees every regime. Host
// only.
//
//   grid     m, n, k log-uniform in 16..16384, by steps of 8
//   layers   linear layers of transformers and classifiers: forward (nt), input's (nn) and weights' gradient (tn)
//   batched  attention's two GEMMs and their gradients' shapes
//   ragged   sizes just off multiples of 8
//   edges    1, 2, 4, 8 full waves of 128 x 128 or 256 x 128 tiles, one tile more and one less
//   cold     some of the grid again with operands that left the L2
// GEMMs over a work limit (0.9e12 FLOP in fp32, 4.5e12 on tensor cores) are left out: they are many full waves, of
// which smaller ones tell as much.
#pragma once

#include <cmath>
#include <set>

#include "point.h"

namespace ddlsim::measure {

/// splitmix64 (Vigna): the same plan on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

class GemmPlan {
 public:
  GemmPlan(std::string precision, const Device& device, bool quick)
      : precision_(std::move(precision)), device_(device), quick_(quick) {
    const double slow = static_cast<double>(device.multiprocessors) * device.clock / (132 * 1.98e9);
    // 4096 FLOP a clock and multiprocessor on Hopper's tensor cores, 1024 to 2048 before.
    const double tensor = device.capability >= 90 ? 1 : device.capability == 80 ? 0.5 : 0.25;
    most_flops_ = slow * (precision_ == "fp32" ? 0.9e12 : 4.5e12 * tensor) * (quick ? 0.25 : 1);
  }

  bool add(std::int64_t batch_count, std::int64_t m, std::int64_t n, std::int64_t k, const char* layout,
           bool cold = false) {
    Point point;
    point.bench = "gemms";
    point.what = "gemm";
    point.op = "gemm";
    point.precision = precision_;
    point.batch_count = batch_count;
    point.m = m;
    point.n = n;
    point.k = k;
    point.layout = layout;
    point.cold = cold;
    const bool fits = point.flops() <= most_flops_ && point.traffic() <= 0.25 * static_cast<double>(device_.memory);
    if (!fits || !seen_.insert(point.keys()).second) return false;
    points.push_back(point);
    return true;
  }

  void grid(int wanted, std::uint64_t seed) {
    Random random(seed);
    const char* layouts[] = {"nt", "nn", "tn"};
    for (int tries = 0, found = 0; found < wanted && tries < 20 * wanted; ++tries) {
      std::int64_t size[3];
      for (std::int64_t& s : size) {
        s = std::llround(16 * std::pow(1024.0, random.uniform()));
        s = std::clamp<std::int64_t>((s + 4) / 8 * 8, 16, 16384);
      }
      const char* layout = layouts[random.below(3)];
      if (!add(1, size[0], size[1], size[2], layout)) continue;
      if (++found % 8 == 0) add(1, size[0], size[1], size[2], layout, true);
    }
  }

  void layers() {
    const std::vector<std::int64_t> rows =
        quick_ ? std::vector<std::int64_t>{1024, 8192} : std::vector<std::int64_t>{32, 512, 1024, 4096, 8192, 16384};
    // in, out: BERT-base and large, GPT-2 medium, ViT-L (768, 1024 with 3x and 4x), classifiers of VGG and ResNet.
    const std::vector<std::vector<std::int64_t>> linear = {{768, 768},   {768, 2304},  {768, 3072},  {3072, 768},
                                                           {1024, 1024}, {1024, 3072}, {1024, 4096}, {4096, 1024},
                                                           {4096, 4096}, {2048, 1000}};
    for (const std::int64_t r : rows) {
      for (const auto& l : linear) {
        add(1, r, l[1], l[0], "nt");
        add(1, r, l[0], l[1], "nn");
        add(1, l[1], l[0], r, "tn");
      }
    }
    for (const std::int64_t r : {32, 64}) add(1, r, 4096, 25088, "nt");  // VGG's fc6
    add(1, 1024, 50257, 1024, "nt");                                     // GPT-2's vocabulary, as odd as it is
    add(1, 1024, 30528, 1024, "nt");
  }

  void batched() {
    for (const std::int64_t heads : {16, 128, 512}) {
      for (const std::int64_t sequence : {128, 197, 512, 1024, 2048}) {
        for (const std::int64_t head : {64, 128}) {
          if (quick_ && (head == 128 || heads == 128)) continue;
          add(heads, sequence, sequence, head, "nt");
          add(heads, sequence, head, sequence, "nn");
          if (heads == 128) add(heads, sequence, head, sequence, "tn");
        }
      }
    }
  }

  void ragged() {
    for (const std::int64_t base : {256, 1024, 4096}) {
      for (const std::int64_t off : {-1, 1, 2, 4}) {
        if (quick_ && off != 1) continue;
        add(1, base + off, base, base, "nt");
        add(1, base, base + off, base, "nt");
        add(1, base, base, base + off, "nt");
        add(1, base + off, base + off, base + off, "nn");
      }
    }
  }

  void edges() {
    for (const std::int64_t waves : {1, 2, 4, 8}) {
      for (const std::int64_t more : {-1, 0, 1}) {
        if (quick_ && waves > 2) continue;
        for (const std::int64_t k : {1024, 4096}) {
          const std::int64_t tiles = waves * device_.multiprocessors + more;
          auto across = static_cast<std::int64_t>(std::sqrt(static_cast<double>(tiles)));
          while (tiles % across != 0) --across;
          add(1, tiles / across * 128, across * 128, k, "nt");
          if (k == 4096) add(1, tiles / across * 256, across * 128, k, "nn");
        }
      }
    }
  }

  std::vector<Point> points;

 private:
  std::string precision_;
  Device device_;
  bool quick_;
  double most_flops_ = 0;
  std::set<std::string> seen_;
};

inline Block plan_gemms(const std::string& precision, const Device& device, bool quick, std::uint64_t seed) {
  GemmPlan plan(precision, device, quick);
  plan.layers();
  plan.batched();
  plan.ragged();
  plan.edges();
  plan.grid(quick ? 60 : 280, seed);
  return {"gemms " + precision, "gemms", precision, 12, plan.points};
}

}  // namespace ddlsim::measure
