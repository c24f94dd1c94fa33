// The cluster study of Wang et al. (IISWC 2019) on a table of jobs: where the time goes, and what changes would bring.
//
// A Fleet takes jobs one by one and keeps sums and histograms, so memory does not grow with the number of jobs. Step
// times are those of cost/pai.h without overlap. Speedup of a changed resource is the ratio of step times; speedup of a
// port to AllReduce is the ratio of throughputs (cNodes / step time), because AllReduce-Local may use fewer cNodes.
// A port needs all weights in one GPU's memory: jobs that are too large are counted, not sped up.
// Quantiles come from a histogram with 512 bins per octave (0.2 %); means and shares are exact.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <span>
#include <string>
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

  void add(const cost::PaiJob& job);
  /// Reads a CSV to its end. On errors (at most 20 are collected) the fleet is of no use. `progress` is called now and
  /// then with the number of jobs read.
  [[nodiscard]] Expected<void> add_table(std::istream& stream, const std::string& file,
                                         const std::function<void(std::int64_t)>& progress = {});

  /// What was learnt so far. Headlines are compared when a population is given.
  [[nodiscard]] answer::FleetReport report(const io::PopulationFile* population = nullptr) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddlsim::whatif
