// The points of a sweep: every combination of what is varied, numbered.
//
// An axis is a setting with several values, or several settings that change together (zipped). A grid is the product of
// its axes; a point is one combination, and its number is a mixed-radix one, the last axis the fastest:
//
//   number = (..(i_1 n_2 + i_2) n_3 + ..) n_k + i_k       i_j: the value of axis j, of n_j
//
// What prices of layers do not depend on (nodes, network, NVLink, PCIe) stands last, whatever order it was stated in,
// so that neighbours share prices. Conditions (`where`) leave points out; their numbers stay free. A sample takes some
// points instead of all: at random, without replacement, or as a Latin hypercube (McKay, Beckman, Conover 1979: of N
// points, each of the N equal parts of every axis has one). The same seed draws the same points everywhere.
//
// A part of a grid, k of n, is for another machine: runs of points go in order to the part that has least to do by
// `estimated_cost`; every point is in one part, and nobody needs to know what the others do.
//
// Values as people write them: "1, 2, 8"; ranges, both ends meant: "1..64:x2" is 1, 2, 4, ..., 64, "32..512:+32 MB" is
// 32 MB, 64 MB, ..., 512 MB. A last step past the end is left out.
//
// Worked example: nodes 1..8:x2 (4 values) and model resnet50, bert_large: 8 points. Models cost more to change, so
// nodes are the fastest: point 5 = 1 x 4 + 1 is bert_large on 2 nodes. `where: nodes > 1` leaves 6, without 0 and 4.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Settings that change together.
struct Axis {
  std::vector<std::string> paths;
  std::vector<std::vector<std::string>> steps;  // of each: a value for every path
  SourceLocation where;                         // of a file; empty for a flag
};

/// What a point must be like.
struct WhereText {
  std::string text;
  SourceLocation where;
};

enum class SampleBy { kRandom, kLatinHypercube };
inline constexpr Choices<SampleBy, 3> kSampleBy{{
    {"random", SampleBy::kRandom},
    {"latin-hypercube", SampleBy::kLatinHypercube},
    {"lhs", SampleBy::kLatinHypercube},
}};

struct Sample {
  std::int64_t points = 1000;
  SampleBy by = SampleBy::kRandom;
  std::uint64_t seed = 1;
};
inline constexpr std::int64_t kMaxSample = 10'000'000;

struct GridParts {
  std::vector<Override> base;  // the same for every point
  std::vector<Axis> axes;
  std::vector<WhereText> where;
  std::optional<Sample> sample;
};

/// "1, 2..8:x2" as its values; of a flag, where commas part. Errors: an empty value, a range that makes no sense.
[[nodiscard]] Expected<std::vector<std::string>> values_of(std::string_view text);
/// A range, or the one value that a text is.
[[nodiscard]] Expected<std::vector<std::string>> range_of(std::string_view text);

/// A grid as a file: a scenario file whose values may be lists and ranges, and beside its settings `zip` (a list of
/// maps of lists that are as long), `where` (a condition, or a list of them) and `sample` (points, by, seed).
[[nodiscard]] Expected<GridParts> load_grid(const std::filesystem::path& path);

class WhereClause;

/// A point, settled: what it says of every setting.
struct GridPoint {
  std::int64_t number = -1;
  std::vector<Override> settings;   // the base, then every path that varies in the order of Grid::paths()
  std::vector<std::size_t> digits;  // of each axis
};

class Grid {
 public:
  /// Errors: a path nobody knows or two axes state, a value twice on an axis, zipped lists of unlike length, conditions
  /// that make no sense, over 2^62 points, a sample that cannot be drawn.
  [[nodiscard]] static Expected<Grid> create(GridParts parts);

  /// What varies, in the order of the axes.
  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }
  [[nodiscard]] const std::vector<Override>& base() const { return parts_.base; }
  [[nodiscard]] const std::vector<Axis>& axes() const { return parts_.axes; }
  /// Of the product of all axes.
  [[nodiscard]] std::int64_t product() const { return product_; }
  /// Points that are asked for: of the sample or the product. Conditions leave out some of the product's.
  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] bool conditional() const { return !conditions_.empty(); }
  [[nodiscard]] bool sampled() const { return parts_.sample.has_value(); }

  /// The number of the point at a position from 0 to size(); ascending.
  [[nodiscard]] std::int64_t number_at(std::int64_t position) const;
  /// The first position whose point's number is greater than `number`.
  [[nodiscard]] std::int64_t position_after(std::int64_t number) const;
  /// Settles a point; cheap where `point` held a neighbour. False: a condition leaves it out.
  bool settle(std::int64_t number, GridPoint& point) const;

  /// Everything that makes the points what they are, a line each. Two grids with the same text are the same.
  [[nodiscard]] std::string text() const;

 private:
  void split(std::int64_t number, std::vector<std::size_t>& digits) const;
  [[nodiscard]] bool holds(const std::vector<std::size_t>& digits) const;
  Expected<void> check_axes();
  Expected<void> read_conditions();
  Expected<void> draw();
  Expected<void> draw_at_random();
  Expected<void> draw_hypercube();

  GridParts parts_;
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<const WhereClause>> conditions_;
  std::vector<std::int64_t> drawn_;  // of a sample, ascending
  std::int64_t product_ = 1;
};

/// What a point takes, in predictions of the analytic fidelity: simulating events takes some 80.
[[nodiscard]] double estimated_cost(const GridPoint& point);

/// Positions of a grid, from `first` up to `last`, which is not among them.
struct Stretch {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Part k of n, counted from 1.
struct Shard {
  std::int64_t number = 1;
  std::int64_t of = 1;
};
inline constexpr std::int64_t kMaxShards = 100'000;
/// "3/16". Errors: no such part.
[[nodiscard]] Expected<Shard> parse_shard(std::string_view text);
/// The stretches of a part, ascending.
[[nodiscard]] std::vector<Stretch> stretches_of(const Grid& grid, Shard shard);

}  // namespace ddlsim::whatif
