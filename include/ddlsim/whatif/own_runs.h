// A job's own measured runs decide what a prediction leaves open.
//
// Measured steps of the job on some of its GPUs correct the prediction for others, in two steps:
//   1. The smallest configuration. Of a whole model within one server it sets the GPUs' speed: the factor g on all GPU
//      time with which the model takes what was measured (Scenario::gpu_time_factor, fit_gpu_time); on several GPUs up
//      to 1.6 times. Beyond, over several servers, and of a model that is split, nobody knows which part of the step
//      made the difference, and all of it keeps it, but for a network that the smallest configuration did not use.
//   2. What then is left of every run, ln(measured / predicted with g), is a Gaussian process along GPUs per server,
//      servers, batch, share of communication and split of the model (calib/run_posterior.h). Of a split what ranks
//      share and keep (ZeRO, recomputation, offload) leaves the middle where it is; other ranks and other batches keep
//      a part. At the configuration asked for it gives a factor on the whole step, and how sure that is.
// Where a loader makes a step's batches beside it, runs speak of the rest of the step: it takes that times the factor,
// or what the loader takes if that is longer (step/input_wait.h). Where a run took no longer than its loader does by
// the model, that hides the rest: nobody knows which part made the difference, and the loader's keeps it as well.
// In the breakdown all parts are longer by what the smallest configuration's residual says of the step (r0, which is 0
// where the GPUs' speed took it up). What the other runs add is no kernel's: it is exposed communication where links of
// another rate, from a fifth to five times the model's, make the largest run's step, of one server or of several, what
// was measured; else it is `unexplained`. Where runs took less, exposed communication is less if links explain it, and
// all parts are for the rest. The bottleneck is that excess where a tenth less of it gains more than any resource that
// is 10 % faster.
//
// So one run corrects the step, two tell computation from communication, more narrow the interval. The interval is the
// factor times exp(q s): s the posterior's deviation, q the quantiles below; of a configuration that ran, as it ran, q
// is +-1.645: what runs of one configuration scatter by has no late tail, and nothing is extrapolated. For another GPU,
// model, precision or strategy than ran it is wider, by what such changes leave open (whatif/ratio.h): squares are
// added. Beside runs of the same split it is, in proportion, no wider than without any.
//
// Worked example: README.md, "Your own runs decide".
//
// Limits: the same model and GPU. Of a split model other software's runs say less; what ran is told by the framework's
// name up to its release (Scenario::framework), which published cases have. In a comparison the baseline's runs speak
// for the alternatives too: what the software adds is the same on both sides.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/calib/run_posterior.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/io/run_file.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// 5th and 95th percentile of (ln measured - ln predicted) / s: inside one server, and over several. Of the steps of
/// bench/accuracy/cases, every anchor but `none`, in which a source counts by the root of its rows (202 sources and
/// 133). Steps are late more often than early, and so far the more.
struct RunQuantiles {
  double low;
  double high;
};
inline constexpr RunQuantiles kWithinServer{-1.45, 3.2};
inline constexpr RunQuantiles kAcrossServers{-0.8, 3.3};
/// Likewise where the model is split as in no run, or run by other software: of the sets of split models there, every
/// anchor but `none`.
inline constexpr RunQuantiles kOtherSplit{-1.85, 2.5};
/// Of a configuration that ran: a Gaussian's.
inline constexpr RunQuantiles kRanItself{-1.645, 1.645};

/// Runs of one configuration may differ by so much; more, and they contradict each other.
inline constexpr double kMostSpread = 1.5;

struct OwnRun {
  Scenario scenario;  // what ran
  Time step{};
  SourceLocation where{};  // its row, in errors
};

/// Whether runs can be what they are said to be. Errors, at the run's row: kInfeasible for a step that is shorter than
/// its bytes take on a link, or its work on the GPUs, at their full rates, or a hundred times the model's;
/// kInvalidArgument for runs of one configuration further apart than kMostSpread.
[[nodiscard]] Expected<void> check_runs(std::span<const OwnRun> runs);

class OwnRuns {
 public:
  /// Errors, at the run's row: of predict for what ran; kInvalidArgument for no run.
  [[nodiscard]] static Expected<std::shared_ptr<const OwnRuns>> learn(std::span<const OwnRun> runs);

  [[nodiscard]] double gpu_time_factor() const { return gpu_time_factor_; }
  [[nodiscard]] const calib::RunPosterior& posterior() const { return posterior_; }
  /// Whether a configuration lies within what was measured.
  [[nodiscard]] bool covers(const calib::RunPoint& point) const;
  /// Whether a run split the model as this configuration does, by the same software, and a split one by the same batch.
  [[nodiscard]] bool ran_split_as(const calib::RunPoint& point) const;
  /// Whether this is what ran: the same configuration, of which the model says the same step.
  [[nodiscard]] bool ran_itself(const calib::RunPoint& point, Time model) const;
  /// Whether links of another rate explain what runs of one server, or of several, took beside the smallest.
  [[nodiscard]] bool by_links(bool across_servers) const {
    return across_servers && across_by_links_ ? *across_by_links_ : within_by_links_.value_or(false);
  }
  /// Where the runs stand.
  [[nodiscard]] const std::vector<calib::RunPoint>& ran() const { return ran_; }
  /// Whether a run took no longer than its loader does by the model.
  [[nodiscard]] bool waited_for_input() const { return waited_for_input_; }
  /// What ran on the fewest GPUs.
  [[nodiscard]] const Scenario& smallest() const { return smallest_; }
  /// Runs of one configuration: the standard deviation of their log step, the largest of all configurations; 0: none
  /// was run twice. No prediction is known better than that.
  [[nodiscard]] double scatter() const { return scatter_; }
  /// In words: "1 run on one GPU: all GPU time is 1.31 times the model's".
  [[nodiscard]] const std::vector<std::string>& learnt() const { return learnt_; }

 private:
  OwnRuns(calib::RunPosterior posterior, Scenario smallest)
      : posterior_(std::move(posterior)), smallest_(std::move(smallest)) {}

  double gpu_time_factor_ = 1;
  double scatter_ = 0;
  calib::RunPosterior posterior_;
  Scenario smallest_;
  std::int64_t most_per_server_ = 1;
  std::int64_t most_servers_ = 1;
  bool waited_for_input_ = false;
  std::vector<calib::RunPoint> ran_;
  std::vector<Time> modelled_;           // the model's steps of `ran_`
  std::optional<bool> within_by_links_;  // nothing: no larger run of one server
  std::optional<bool> across_by_links_;  // likewise of several
  std::vector<std::string> learnt_;
};

/// Runs of a job as the setting `measured.steps` reads them back: "1x8@64 (passes 4) = 809 ms; ...". Batch and passes
/// are those that ran, whatever the job is changed to. Errors: of a configuration that the job cannot have.
[[nodiscard]] Expected<std::string> in_words(const io::Catalog& catalog, std::span<const io::RunRow> runs,
                                             std::span<const Override> job);

/// The scenario as its runs correct it. Its predictions carry what was learnt in their notes.
[[nodiscard]] Scenario corrected(Scenario scenario, std::shared_ptr<const OwnRuns> runs);

}  // namespace ddlsim::whatif
