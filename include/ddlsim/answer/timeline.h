// One step laid out in time: what a schedule or a simulation answers with. Made by cost/totals.h, step/schedule.h and
// events/step.h; read by whatif/predict.h, and in its details by events/step.h and report/chakra.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/support/units.h"

namespace ddlsim::answer {

/// How much of a step is wanted: each costs more than the one before.
enum class Detail {
  kTime,   // `step` alone
  kParts,  // where the time goes
  kWork,   // every layer and message as well
};

/// Where the time of a step goes. Everything but `communication` adds up to the step.
struct Breakdown {
  Time compute{};
  Time memory{};
  Time launch{};
  Time input_exposed{};
  Time communication{};  // by itself; only the exposed part counts
  Time communication_exposed{};
  Time bubble{};
  Time other{};
  Time host_update{};  // of `other`: the CPU updates weights, over its server's memory
  Time unexplained{};  // of `other`: what measured runs took beyond what the model says, and no link explains

  [[nodiscard]] Time step() const {
    return compute + memory + launch + input_exposed + communication_exposed + bubble + other;
  }
};

/// What one step sends over the busiest instance of a link, one direction, and how long that occupies it.
struct LinkTraffic {
  std::string link;  // "network", "nvlink", "pcie"
  DataSize bytes{};
  Time time{};
};

/// The parts of a step that follow each other, from first to last; they add up to the step.
struct Segment {
  std::string name;
  Time time{};
};

struct Timeline {
  Time step{};
  Breakdown parts;                              // kParts
  std::vector<Segment> critical_path;           // kParts
  std::optional<std::pair<Time, Time>> bounds;  // of totals: ideal overlap, no overlap

  // The sections of a step whose passes are alike (plan::StepPlan::folds); of others `forward` and `backward` are all
  // passes of `rank_class`, the slowest, and `kept_waiting` is what of the exposed communication was a wait for
  // messages sent beside kernels.
  std::size_t rank_class = 0;
  Time kept_waiting{};
  Time forward{};         // of the last pass, waiting for weights apart
  Time backward{};        // of the last pass, copying and contention apart
  Time earlier_passes{};  // accumulation
  Time copying{};         // gradients into buckets and back, encoding and decoding
  Time contention{};      // what collectives took from kernels
  Time waiting{};         // for the slowest GPU
  Time update{};

  // kWork: what the step is made of, in the units that a simulation makes tasks of.
  /// A layer's kernels, all GPU and launch time factors included.
  struct Kernels {
    Time duration{};
    Time slowed{};  // beyond `duration`, by collectives beside it
    int count = 0;
  };
  /// A gradient's row is ready when its GPU has done `layers` of backward and then encoded it.
  struct Ready {
    std::size_t layers = 0;
    Time encoding{};
  };
  /// What was sent, in its order. It was ready with row `last`, and started `wait` later if nothing was in its way.
  struct Sent {
    std::size_t last = 0;
    Time wait{};    // for a coordinator's cycle
    Time alone{};   // collectives: how long it took, `copies` included
    Time copies{};  // into the fusion buffer and out of it
    double count = 1;
    DataSize size{};        // of one piece
    bool gathered = false;  // every rank's share goes to all, instead of being summed
    std::size_t layer = 0;  // whose gradients end it
    std::int64_t server = -1;
    Time chosen{};  // to a server by priority: when it began, from the end of forward on
  };
  Time launch_interval{};
  std::vector<Kernels> forward_kernels;   // first layer first
  std::vector<Kernels> backward_kernels;  // last layer first
  std::vector<Ready> ready;               // by row
  std::vector<Sent> sent;
  Time host_link{};  // copying input and pulled weights
  /// Where layers of the next forward pass wait for their weights: the last that does may begin `back` after the pass
  /// could have, and what it and those behind it take is `rest`. kWork.
  struct NextForward {
    std::size_t layer = 0;
    Time back{};
    Time rest{};
  };
  std::optional<NextForward> next_forward;
  Time all_summed{};  // servers have every gradient, from the step's begin on; kWork, where weights are pulled at start

  // Of the whole step, whatever the detail.
  Time loading{};   // of its batches by the loader, beside everything else
  Time starved{};   // of the wait for input, what nothing runs beside
  Time decoding{};  // on the GPU
};

}  // namespace ddlsim::answer
