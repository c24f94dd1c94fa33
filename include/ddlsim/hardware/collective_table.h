// Measured collectives: a curve of time over size per operation and number of ranks.
//
//   between two measured sizes   log time is a straight line in log size      interpolated (a measured size: measured)
//   below the first              its time: a latency does not shrink          extrapolated
//   above the last               its time plus the rest at the bandwidth of the last two sizes, or of the last alone
//                                where those two do not tell                  extrapolated
// Other ranks than those measured are not guessed: the formulas answer. Where time falls with size (protocol switches,
// noise) the curve falls too. Limits: the table knows nothing of the links it was measured on.
// Worked example: 1 MB in 100 us and 4 MB in 400 us: 2 MB take 200 us, 8 MB take 400 us + 4 MB / (3 MB / 300 us) =
// 800 us.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/provenance.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

class CollectiveTable {
 public:
  struct Answer {
    Time time{};
    Provenance provenance = Provenance::kInterpolated;
  };

  /// Points of one (op, gpus, nodes) belong together, in the order of their sizes. Fails for a series with sizes that
  /// do not increase, fewer than two sizes, a time or size that is not positive and finite, ranks below one, more
  /// nodes than GPUs.
  [[nodiscard]] static Expected<CollectiveTable> create(std::span<const primitives::CollectiveMeasurement> points);

  /// Nothing where the table has no such series.
  [[nodiscard]] std::optional<Answer> time(primitives::CollectiveOp op, std::int64_t gpus, std::int64_t nodes,
                                           DataSize size) const;

 private:
  struct Knot {
    double size = 0;  // bytes
    double time = 0;  // seconds
    double log_time = 0;
    double slope = 0;  // of log time over log size, to the next knot
    double log_size = 0;
  };
  struct Series {
    primitives::CollectiveOp op = primitives::CollectiveOp::kAllReduce;
    std::int64_t gpus = 1;
    std::int64_t nodes = 1;
    std::vector<Knot> knots;
    double last_per_byte = 0;
  };
  static Answer ask(const Series& series, double size);

  std::vector<Series> series_;
};

}  // namespace ddlsim::hardware
