// The fastest plan of each of many clusters, searched by several threads in one limit of time. Private to the room.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/recommend.h"
#include "ddlsim/whatif/scenario.h"
#include "search/best_plan.h"

namespace ddlsim::whatif {

struct ClusterQuestion {
  std::vector<Override> stated;  // the job on the cluster
  double dollars_of_rate = 0;    // what its GPUs cost for their rate: the least is searched first
};

/// `take(i, plans of questions[i])`, in the order of search, on the caller's thread. Of RecommendOptions limit, clock,
/// threads and progress.
void search_clusters(const io::Catalog& catalog, std::span<const ClusterQuestion> questions,
                     const RecommendOptions& options,
                     const std::function<void(std::size_t, Expected<ClusterPlans>)>& take);

}  // namespace ddlsim::whatif
