// The jobs of a fleet, drawn or read, by threads, parts and ranks: the same sums however they are shared out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ddlsim/io/hardware_files.h"
#include "ddlsim/io/population_file.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/fleet.h"
#include "ddlsim/whatif/grid.h"
#include "ranks.h"

namespace ddlsim::cli {

struct FleetDraw {
  const io::PopulationFile& population;
  const io::StudySetting& setting;
  std::uint64_t seed = 1;
  std::int64_t jobs = 0;
  bool what_if = false;
  whatif::Shard part;
  int threads = 1;
};

/// Draws a part's jobs into `fleet`, which is of the same setting. Over ranks, all of them must call it, and rank 0
/// gets the sum. `progress` is told how many were drawn, on this thread.
[[nodiscard]] Expected<void> draw_fleet(const FleetDraw& draw, Ranks* ranks, whatif::Fleet& fleet,
                                        const std::function<void(std::int64_t)>& progress, bool& lost);

/// Whether a row of a table, counted from 0, is of a part: rows go to parts in turns, some thousands at once.
[[nodiscard]] bool row_is_of(std::int64_t row, whatif::Shard part);

}  // namespace ddlsim::cli
