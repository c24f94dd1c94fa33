#include "choose/recommend_plans.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <utility>

#include "sweep/ordered_work.h"

namespace ddlsim::whatif {

void search_clusters(const io::Catalog& catalog, std::span<const ClusterQuestion> questions,
                     const RecommendOptions& options,
                     const std::function<void(std::size_t, Expected<ClusterPlans>)>& take) {
  // A search may take so many times its share of what is left: most need less than theirs.
  constexpr double kShares = 4;
  if (questions.empty()) return;
  std::vector<std::size_t> order(questions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return questions[a].dollars_of_rate < questions[b].dollars_of_rate;
  });
  const auto all = static_cast<std::int64_t>(questions.size());
  const int threads = static_cast<int>(std::clamp<std::int64_t>(options.threads, 1, all));
  const Clock clock = options.clock ? options.clock : [] { return Time::zero(); };
  const Time end = options.clock ? clock() + options.limit : Time::infinity();
  const std::size_t kept_layers = PlanOptions{}.kept_layers / static_cast<std::size_t>(threads);
  std::atomic<std::int64_t> begun{0};
  const auto make_worker = [&] {
    return [&](std::int64_t piece) {
      const double left = static_cast<double>(all - begun++);
      const Time now = clock();
      const Time deadline = now + (end - now) * std::min(1.0, kShares * threads / left);
      const std::size_t number = order[static_cast<std::size_t>(piece)];
      return fastest_plan(catalog, questions[number].stated, clock, deadline, kept_layers);
    };
  };
  std::int64_t done = 0;
  const auto tell = [&] {
    if (options.progress) options.progress(done, all);
    return true;
  };
  OrderedWork<Expected<ClusterPlans>> work(all, threads);
  work.run(
      make_worker,
      [&](Expected<ClusterPlans> plans) {
        take(order[static_cast<std::size_t>(done++)], std::move(plans));
        return tell();
      },
      tell);
}

}  // namespace ddlsim::whatif
