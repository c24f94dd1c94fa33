// Layers as torch.autocast runs them (workload/fusion.h, "autocast").
#pragma once

#include "ddlsim/workload/op.h"

namespace ddlsim::workload {

/// Goes through a model's layers in order, and knows which tensors are in fp32.
class Autocast {
 public:
  void apply(Layer& layer);

 private:
  [[nodiscard]] bool beside_the_last(const Layer& layer) const;

  bool wide_ = false;         // what the layer before made is in fp32
  bool input_wide_ = false;   // and what it read
  bool stream_wide_ = false;  // some tensor that sums may read is
  bool after_product_ = false;
  Shape product_in_;  // of the product before
};

}  // namespace ddlsim::workload
