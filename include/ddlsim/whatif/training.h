// From a step to a run: time to train, cost, energy.
//
//   steps  = epochs x ceil(samples / global batch)          a part of a step takes as long as a whole one
//          | epochs x ceil(tokens / (global batch x tokens of a sample))
//          | as stated
//   time   = start-up + steps x step time + floor(epochs / evaluate_every) x evaluation
//            + floor(steps x step time / checkpoint_every) x checkpoint
//            epochs of stated steps: steps / ceil(samples of the data set / global batch); without one no evaluation
//   cost   = (servers + spares) x price of a server x time      by the second; start-up is paid like the rest
//   working = (steps x (compute + memory) + evaluations) x (1 + worked again / counted), where something fails
//   energy = GPUs x (working power x working + idle power x (time - working))    powers where they are known
//            (cost/power.h); else GPUs x TDP x working, and none while waiting, in the first epoch too
//   utilisation = working / time
//   CO2    = energy x carbon intensity
//
// Servers whose network reaches its rate for minutes alone give a run what they sustain (hardware::Node).
// What nobody states of start-up, evaluation and checkpoints takes no time. Units: seconds, dollars, joules, grams.
// Sources: cost as Stash does it (Sharma et al., ICDCS 2023: TRAIN x price per hour / 3600); energy as TDP x
// utilisation, the estimate of Strubell et al. (ACL 2019) without hosts and cooling.
//
// Where somebody says how often something fails, time = start-up + (steps and evaluations) / goodput instead, of which
// checkpoints and failures have their shares, and spares are paid for too (whatif/goodput.h).
//
// Limits: hosts, switches and cooling are not counted: the energy is a lower bound of the bill's. By TDP a GPU that
// waits draws nothing, and kernels bound by memory draw as much as products do. Queues are not counted.
//
// Worked example: 1,281,167 images, 90 epochs, a global batch of 256 on one server of 8 GPUs of 300 W at 24.48 $/h, a
// step of 100 ms of which kernels run 80: 90 x 5005 = 450,450 steps, 45,045 s = 12.51 h, 306.31 $; 8 x 300 W x 36,036 s
// = 86.49 MJ = 24.02 kWh, at 400 g/kWh 9.61 kg.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddlsim/answer/prediction.h"
#include "ddlsim/answer/training.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::whatif {

struct Scenario;

/// What is said of a run. Its length: `steps`, or `samples` or `tokens` of an epoch, so many `epochs` (one).
struct TrainingRun {
  std::optional<double> epochs;
  std::optional<std::int64_t> samples;
  std::optional<std::int64_t> tokens;
  std::optional<std::int64_t> steps;
  Time startup{};                    // before the first step
  std::optional<Time> evaluation;    // one pass over the held-out samples
  double evaluate_every = 1;         // epochs
  std::optional<Time> checkpoint;    // that training stands still for one
  Time checkpoint_every = hours(1);  // of training
  bool spot = false;                 // servers at the spot price
  std::optional<CarbonIntensity> carbon;
};

/// The samples of an epoch; nothing: nobody says.
[[nodiscard]] std::optional<std::int64_t> samples_of_epoch(const Scenario& scenario);

/// Whether a scenario says how long its run is.
[[nodiscard]] bool asks_for_training(const Scenario& scenario);

/// What is said of a run whose length nobody states, or of how often something is done that takes no time: settings,
/// with commas between them. Empty: nothing, or it counts.
[[nodiscard]] std::string unused_of_run(const Scenario& scenario);

/// That a run has no evaluation though somebody says how long one takes, and why; nothing: it has.
[[nodiscard]] std::optional<std::string> no_evaluation_note(const Scenario& scenario, const answer::Training& training);

/// Whether what is said of a run makes sense together. Errors: kInvalidArgument, naming the settings.
[[nodiscard]] Expected<void> check_training(const Scenario& scenario);

/// What a step is worth knowing for: its length, and how long kernels run in it.
struct StepShape {
  Time step{};
  Time kernels{};
  std::int64_t global_batch = 1;
  std::optional<std::int64_t> tokens_per_sample;
  std::optional<answer::Goodput> goodput{};  // nothing: nothing fails
  std::optional<answer::PowerPart> power{};  // nothing: nobody measured what its work draws
  std::optional<Time> first_epoch_step{};    // of the epoch that reads from storage; nothing: as the others
};

/// The scenario in its first epoch, where a data set is read and nobody says which epoch is meant: nothing is in memory
/// yet. Nothing: every epoch of the run is alike.
[[nodiscard]] std::optional<Scenario> in_first_epoch(const Scenario& scenario);

/// Whether servers fill their memory over several epochs: each reads another part of every new order.
[[nodiscard]] bool fills_over_epochs(const Scenario& scenario);

/// Steps of the first epoch: at most those of the run.
[[nodiscard]] std::int64_t first_epoch_steps(const Scenario& scenario, const StepShape& shape);

/// The run of a scenario whose steps are known. Requires asks_for_training(scenario).
[[nodiscard]] answer::Training train(const Scenario& scenario, const StepShape& shape);

/// What an hour of a server costs the scenario: the spot price where it asks for that. Nothing: nobody knows.
[[nodiscard]] std::optional<PriceRate> price_of(const Scenario& scenario);
/// That prices were stated of other servers alone; nothing: of none, or of this job's too, as lists of prices are.
[[nodiscard]] std::optional<std::string> other_prices_note(const Scenario& scenario);
/// What one of all its servers costs, spares among them where something fails. Nothing: nobody knows.
[[nodiscard]] std::optional<PriceRate> price_of_cluster(const Scenario& scenario,
                                                        const std::optional<answer::Goodput>& goodput);

}  // namespace ddlsim::whatif
