// The cluster study of Wang et al. (IISWC 2019) on a table of jobs: where the time goes, and what changes would bring.
//
// A Fleet takes jobs and keeps sums and histograms, so memory does not grow with their number. Fleets of the same
// setting can be added, and the sums are exact (support/exact_sum.h): however jobs are shared out over threads,
// processes and machines, the report is the same to the bit. `sums` and `add_sums` carry a fleet from one process to
// another. Step times are those of cost/pai.h without overlap. Speedup of a changed resource is the ratio of step
// times; speedup of a port to AllReduce is the ratio of throughputs (cNodes / step time), because AllReduce-Local may
// use fewer cNodes. A port needs all weights in one GPU's memory: jobs that are too large are counted, not sped up.
// Quantiles come from a histogram with 512 bins per octave (0.2 %); means and shares are exact.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/answer/fleet.h"
#include "ddlsim/cost/pai.h"
#include "ddlsim/io/hardware_files.h"
#include "ddlsim/io/population_file.h"
#include "ddlsim/support/error.h"

namespace ddlsim::whatif {

/// The columns of a table of jobs, in SI units (models/README.md).
[[nodiscard]] const std::vector<std::string>& job_columns();
/// One job as a row of such a table, without the line's end.
[[nodiscard]] std::string job_row(std::uint64_t index, const cost::PaiJob& job);

class Fleet {
 public:
  /// `what_if` also evaluates every change of the paper's sweeps on every job.
  Fleet(const io::StudySetting& setting, bool what_if);
  ~Fleet();
  Fleet(Fleet&&) noexcept;
  Fleet& operator=(Fleet&&) noexcept;
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  void add(std::span<const cost::PaiJob> jobs);
  void add(const cost::PaiJob& job) { add(std::span(&job, 1)); }
  /// All that another fleet of the same setting and changes has learnt.
  void add(const Fleet& other);
  [[nodiscard]] std::int64_t jobs() const;
  /// Reads a CSV to its end. On errors (at most 20 are collected) the fleet is of no use. `progress` is called now and
  /// then with the number of jobs read. All rows are checked; those that `takes` says, counted from 0, are added.
  [[nodiscard]] Expected<void> add_table(std::istream& stream, const std::string& file,
                                         const std::function<void(std::int64_t)>& progress = {},
                                         const std::function<bool(std::int64_t)>& takes = {});

  /// What was learnt so far, a line each: the same text for the same jobs.
  [[nodiscard]] std::string sums() const;
  /// Adds what `sums` of a fleet of the same setting and changes wrote. Errors: kParse, with the line; the fleet is of
  /// no use then. `first_line` is the number of the text's first line in its file.
  [[nodiscard]] Expected<void> add_sums(std::string_view text, const std::string& file, int first_line = 1);

  /// What was learnt so far. Headlines are compared when a population is given.
  [[nodiscard]] answer::FleetReport report(const io::PopulationFile* population = nullptr) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddlsim::whatif
