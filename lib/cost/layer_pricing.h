// Times of lists of layers, by the GPU's profiles (cost/kernel_time.h) or its rates (cost/layer_time.h).
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "ddlsim/cost/kernel_time.h"
#include "ddlsim/cost/price.h"

namespace ddlsim::cost {

/// Of the software that a job runs.
[[nodiscard]] Surcharge surcharge_of(const plan::Job& job);

/// Convolutions run in bf16 where products are of 8 or 4 bits.
[[nodiscard]] DeviceRates rates_for(const workload::Layer& layer, DeviceRates rates, const hardware::Gpu& gpu,
                                    Precision precision);

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
