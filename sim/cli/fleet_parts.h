// A fleet's sums as a file: what a part of a fleet writes, and what `--merge` reads.
//
//   ddlsim-fleet 1
//   program ddlsim 0.1.0
//   data HASH                           of models/ and hardware/
//   setting NAME
//   jobs population NAME seed S jobs N  or  jobs table HASH of N rows
//   changes yes|no
//   part K/N
//   shares ..., change ...              sim/whatif/fleet/fleet_lines.cpp
//   end HASH                            of all before it: a file that was cut or changed is noticed
//
// Sums are exact, so parts make the same report, to the bit, as one process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/whatif/grid.h"

namespace ddlsim::cli {

struct FleetQuestion {
  std::string program;
  std::string data;
  std::string setting;
  std::string population;  // of a table: empty
  std::string jobs;        // which jobs, in words that are the same for all parts
  bool changes = false;
  whatif::Shard part;

  /// What differs from another part's question; empty: nothing.
  [[nodiscard]] std::string difference(const FleetQuestion& other) const;
};

struct FleetPart {
  std::string file;
  FleetQuestion question;
  std::string sums;
  int first_line = 1;  // of the sums
};

[[nodiscard]] std::string fleet_part_text(const FleetQuestion& question, const std::string& sums);
/// Errors: no file, not one of these, cut or changed.
[[nodiscard]] Expected<FleetPart> read_fleet_part(const std::string& file);
/// All parts of one fleet, each once. Errors: parts of different questions, parts twice or in none of the files.
[[nodiscard]] Expected<std::vector<FleetPart>> read_fleet_parts(const std::vector<std::string>& files);

}  // namespace ddlsim::cli
