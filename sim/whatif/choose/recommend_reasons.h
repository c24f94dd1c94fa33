// Why a choice of servers is the answer, and what would change it. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/answer/recommendation.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/scenario.h"
#include "search/best_plan.h"

namespace ddlsim::whatif {

struct Limits {
  std::optional<Time> deadline;
  std::optional<Money> budget;

  [[nodiscard]] bool allow(const answer::ServerChoice& choice) const {
    return (!deadline || choice.time() <= *deadline) && (!budget || choice.cost() <= *budget);
  }
};

/// Why a way gives no choice.
enum class Lack { kNothingSaid, kRefused, kBatch, kGpuMemory, kHostMemory, kTime };

struct Miss {
  Lack lack = Lack::kNothingSaid;
  std::string words;
  DataSize too_much{};            // of memory
  plan::MemoryFootprint whole{};  // what lacks memory: what a GPU holds of it
  bool of_plans = false;          // of every plan of a cluster, not of the job as it stands

  [[nodiscard]] bool of_memory() const { return lack == Lack::kGpuMemory || lack == Lack::kHostMemory; }
};

/// The one to tell of why a type gives no choice: the first, unless another lacks memory and comes nearer.
[[nodiscard]] bool tells_more(const Miss& miss, const Miss& told);

/// What a pass of so many samples lacks that does not fit.
[[nodiscard]] Miss missing_memory(const plan::Needed& needed, std::int64_t batch, const Scenario& scenario);

/// What plans lack of which none was found.
[[nodiscard]] Miss no_plan(const ClusterPlans& plans, const Scenario& scenario);

/// "ResNet-50 v1.5, fp32, 90 epochs of 1,281,167 images"
[[nodiscard]] std::string title_of(const Scenario& scenario, bool one_batch);

/// Which limit keeps the choices of one type out, and by how much at the least. Requires one choice.
[[nodiscard]] std::string outside(const std::vector<answer::ServerChoice>& choices, const Limits& limits);

/// What would make another choice the answer; `all` are those inside the limits and beyond them, the cheapest first;
/// `more`: the fastest on more than `max_nodes`, if that is faster.
[[nodiscard]] std::vector<std::string> would_help(const answer::Recommendation& result,
                                                  const std::vector<answer::ServerChoice>& all, std::int64_t max_nodes,
                                                  const std::optional<answer::ServerChoice>& more);

/// What the answer takes for granted.
[[nodiscard]] std::vector<std::string> notes_of(const Scenario& scenario, bool precision_stated,
                                                const answer::Recommendation& result);

/// What the predictions of the cheapest and the fastest rest on, as far as it says which of them to trust: formats of
/// fp32, storage, network; kernels and software of the cheapest. Requires their predictions.
void add_notes_of_best(answer::Recommendation& result);

/// What nobody says of the host that would read the data set; empty: nothing, or none is read.
[[nodiscard]] std::string unknown_host(const Scenario& scenario);

/// The error of a model whose step nobody gave a number of samples.
[[nodiscard]] tl::unexpected<Error> no_batch(const workload::Model& model);

/// The error of spot servers of which nobody has a price; `listed`: neither has the price list.
[[nodiscard]] tl::unexpected<Error> no_spot(bool listed);

/// The error of a question without an answer; `planned`: plans were searched.
[[nodiscard]] tl::unexpected<Error> no_choice(const std::vector<answer::ServerChoice>& all,
                                              const std::vector<answer::NoChoice>& infeasible, const Limits& limits,
                                              bool planned);

}  // namespace ddlsim::whatif
