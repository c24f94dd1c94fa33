// Times of lists of layers, by the GPU's profiles (cost/kernel_time.h) or its rates (cost/layer_time.h).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ddlsim/cost/kernel_time.h"
#include "ddlsim/cost/price.h"

namespace ddlsim::cost {

/// Of the software that a job runs.
[[nodiscard]] Surcharge surcharge_of(const plan::Job& job);

/// Convolutions and attention run in bf16 where products are of 8 or 4 bits.
[[nodiscard]] DeviceRates rates_for(const workload::Layer& layer, DeviceRates rates, Precision precision);

/// A layer's time with what software takes on top of its kernels.
[[nodiscard]] LayerTime with_software(const LayerTime& time, int kernels, const hardware::SoftwareFactor& factor);

/// A layer's time by its profile when rates are other than those it was worked out with.
[[nodiscard]] LayerTime varied(const LayerTime& time, const Variation& variation);

/// Has the GPU wait `launch` for every kernel of a class, as it does for the CPU's work on samples.
void block(PricedClass& priced, Time launch);

/// A chunk's layers as a list; `copies` holds those that do not follow each other.
[[nodiscard]] std::span<const workload::Layer> list_of(const plan::Chunk& chunk, std::vector<workload::Layer>& copies);
/// Which of a chunk's layers, if any, is the model's first.
[[nodiscard]] std::optional<std::size_t> input_of(const plan::Chunk& chunk);

struct PassSoftware {
  const hardware::SoftwareFactor& factor;  // on kernels
  double host = 1;                         // on what the GPU waits for the CPU's work on samples
};
/// Of one layer, without software and without what adds gradients to earlier passes'.
using BareTime = std::function<LayerTime(const workload::Layer&, const LayerTimes&, Pass)>;
/// What a pass of all layers draws, whichever rank has them. Nothing: what it draws is not known, or rates are as
/// stated.
[[nodiscard]] std::optional<DrawnByPass> drawn_by_pass(const plan::Job& job, const plan::StepPlan& plan,
                                                       const LayerPrices& layers, const PassSoftware& software,
                                                       const BareTime& time_of);

class LayerPricing {
 public:
  /// It sees nothing else of a job, so that equal inputs have equal prices.
  LayerPricing(const PriceInputs& inputs, std::pair<double, double> assumed_interval);

  [[nodiscard]] bool calibrated() const { return inputs_.by_profiles; }

  /// `updated`: what the optimizer reads and writes. `input`: which of the layers, if any, is the model's first.
  [[nodiscard]] CalibratedTimes times(std::span<const workload::Layer> layers, DataSize updated,
                                      std::optional<std::size_t> input) const;

 private:
  PriceInputs inputs_;
  Calibration calibration_;
};

}  // namespace ddlsim::cost
