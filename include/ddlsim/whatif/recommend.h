// Which servers to rent: every type x count x batch x strategy, compared by time and money.
//
// A choice is a type of server, how many of them (each number that divides the global batch, 1, 2, 4, ... and
// max_nodes), a global batch, and a way to share the gradients. Its time, cost and energy are those of
// whatif/training.h. Of what nobody states:
//   global batch  the model's published one (workload::Model::global_batch), else what one GPU has by default: a larger
//                 batch needs more epochs to the same accuracy, so that it is never chosen of its own accord. With
//                 `epochs_by_batch` every batch of that table is a choice, with its own number of epochs
//   micro-batch   the largest divisor of a replica's share that fits the GPU's memory: fewest passes
//   strategy      all-reduce, or as stated; of a model with tables also PEARL, which spreads them. Where a GPU does not
//                 hold that, the fastest plan of the cluster (whatif/plan_search.h): every legal split of the model
//                 that has what is stated, with its micro-batch, schedule, ZeRO and recomputation
// A type whose price nobody knows is no choice, nor one over the deadline or the budget.
//
// Searches for plans are independent of each other and shared by `threads`. With a clock they end together after
// `limit`: a cluster's is then the best that was found, or none, and a note says so. Servers whose GPUs cost least for
// their rate come first, so that what is likely the answer is searched whole.
//
//   cheapest = argmin cost, fastest = argmin time, over all choices with time <= deadline and cost <= budget
//   Pareto front: choices that no other one beats in one of time and cost and equals in the other
//
// Sources: argmin of cost under a time budget, Sharma et al. (Stash, ICDCS 2023); cost as whatif/training.h.
// Limits: one type per job; the network between servers is what a type sustains; stops of spot servers, and waiting for
// them, cost nothing here. The step is the analytic one. A model that fits whole is not split unless all plans are
// asked for (`plan_all`); of one that reads tokens a note says where a plan of the cheapest or the fastest is 10 %
// faster.
//
// Worked example: one server of two GPUs at 2 $/h needs 10 h and 20 $; two of them 6 h and 24 $; four 5 h and 40 $.
// Within a deadline of 8 h two are the cheapest; within a budget of 30 $ two are the fastest; all three are on the
// front.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/recommendation.h"
#include "ddlsim/importers/price_file.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/io/epochs_file.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/clock.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

inline constexpr std::int64_t kMostNodes = 16;

struct RecommendOptions {
  std::optional<Time> deadline{};
  std::optional<Money> budget{};
  std::optional<std::vector<std::string>> providers{};          // nothing: all; none: servers with a stated price alone
  std::optional<std::int64_t> max_nodes{};                      // of a choice; nothing: kMostNodes, or those stated
  std::vector<io::EpochsAtBatch> epochs_by_batch{};             // empty: the epochs stated, at one batch
  std::optional<std::vector<importers::ListedPrice>> prices{};  // instead of the catalogue's
  std::string region{};                                         // of those; empty: the cheapest
  bool predict_all = false;                                     // the whole prediction of every choice
  Time limit = seconds(60);                                     // of all searches for plans, where there is a clock
  Clock clock{};                                                // nothing: they end when they are done
  int threads = 1;                                              // that search
  bool plan_all = false;                                        // plans of models that fit whole, too
  std::function<void(std::int64_t done, std::int64_t all)> progress{};  // of the clusters that are searched
};

/// RecommendOptions::providers as people write them: "aws,gcp"; "all" or nothing; "none".
[[nodiscard]] std::optional<std::vector<std::string>> providers_named(const std::string& text);

/// Errors: kNotFound for a cloud that no instance is of, kInvalidArgument for "none" or "all" beside others.
[[nodiscard]] Expected<void> check_providers(const io::Catalog& catalog, const RecommendOptions& options);

/// Errors: kInvalidArgument for a `node` of a cloud that is not asked for, and for more `nodes` than a choice may have.
[[nodiscard]] Expected<void> check_choice(const io::Catalog& catalog, std::span<const Override> stated,
                                          const RecommendOptions& options);

/// `stated` has a model and the length of a run; a `node` among it is the only type tried, `nodes` the only count; of a
/// `gpu` those types that have it (with a node, or a file of one's own: in its place).
/// Errors: as resolve; kInvalidArgument for a run without a length; kInfeasible when no choice is inside the limits: by
/// how much the nearest ones miss them.
[[nodiscard]] Expected<answer::Recommendation> recommend(const io::Catalog& catalog, std::span<const Override> stated,
                                                         const RecommendOptions& options);

}  // namespace ddlsim::whatif
