// The part of a fit that GEMMs and convolutions share: parameters of a GEMM's curve, and which tiles it has.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/support/error.h"
#include "least_squares.h"

namespace ddlsim::calib {

using Tile = hardware::GemmCurve::Tile;

[[nodiscard]] double ln(double x);
[[nodiscard]] double e_to(double x);

/// The same parameter, to be fitted in its logarithm.
[[nodiscard]] Parameter in_logarithm(const Parameter& p);

/// Of a GEMM's curve, tiles apart; `least_time` in seconds is that of the rows.
[[nodiscard]] std::vector<Parameter> gemm_parameters(double least_time);

/// Puts the logarithms x into the curve: what gemm_parameters names, and its tiles from x[tiles_at] on.
void put_parameters(const std::vector<double>& x, std::size_t tiles_at, const std::vector<Tile>& tiles,
                    hardware::GemmCurve& curve);

/// The tiles that libraries have for this precision.
[[nodiscard]] std::vector<Tile> candidate_tiles(Precision precision);

/// A robust fit of the shared parameters and of tiles yet to be chosen.
struct TileProblem {
  std::vector<Parameter> shared;
  std::size_t rows = 0;
  double scale = 0.05;  // of residuals that are not outliers
  /// Residuals of the first out.size() rows at x: the shared parameters, then efficiency and tiles_to_fill of every
  /// tile.
  std::function<void(const std::vector<double>& x, const std::vector<Tile>& tiles, std::vector<double>& out)> residuals;
};

struct TileFit {
  std::vector<Tile> tiles;
  SearchResult result;
};

[[nodiscard]] TileFit best_tiles(const TileProblem& problem, const std::vector<Tile>& candidates);

/// With the tiles of another fit and from where it ended.
[[nodiscard]] TileFit refitted(const TileProblem& problem, const TileFit& from);

/// Whether the datasheet has what a fit needs.
[[nodiscard]] Expected<void> check_spec(const hardware::DeviceSpec& spec);

[[nodiscard]] Expected<void> check_count(std::size_t rows, const std::string& of);

}  // namespace ddlsim::calib
