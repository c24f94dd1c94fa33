// A whole training run: what stands at the end of a bill. Values only; the arithmetic is in whatif/training.h.
#pragma once

#include <cstdint>
#include <optional>

#include "ddlsim/support/units.h"

namespace ddlsim::answer {

struct Training {
  std::int64_t steps = 0;
  std::optional<double> epochs;  // nothing: the run is stated in steps
  Time stepping{};               // all steps
  Time startup{};
  Time evaluation{};
  Time checkpoints{};
  Time failures{};         // stood, recovered and worked again, where somebody says how often something fails
  double utilisation = 0;  // share of the run's time in which GPUs work
  Energy energy{};         // of the GPUs
  std::optional<Mass> carbon;
  std::optional<Money> cost;  // nothing: nobody says what a server costs

  [[nodiscard]] Time time() const { return stepping + startup + evaluation + checkpoints + failures; }
};

}  // namespace ddlsim::answer
