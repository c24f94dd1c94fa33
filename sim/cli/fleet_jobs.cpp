#include "fleet_jobs.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "ddlsim/whatif/population.h"
#include "work_over.h"

namespace ddlsim::cli {
namespace {

/// Jobs from `first` up to `last`.
struct Stretch {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Of n parts of `jobs` the k-th: as many each, to one. Jobs times parts fit: 10^12 x 10^5.
Stretch part_of(std::int64_t jobs, whatif::Shard part) {
  const std::int64_t each = jobs / part.of;
  const std::int64_t more = jobs % part.of;  // parts that have one more, the first ones
  const auto start = [&](std::int64_t k) { return k * each + std::min(k, more); };
  return {start(part.number - 1), start(part.number)};
}

/// A part's jobs, cut so that all threads have something to do for long enough.
class Pieces {
 public:
  Pieces(const FleetDraw& draw, int threads) : all_(part_of(draw.jobs, draw.part)) {
    constexpr std::int64_t kFewest = 1 << 14;
    constexpr std::int64_t kMost = 1 << 22;
    length_ = std::clamp<std::int64_t>((all_.last - all_.first) / (std::int64_t{8} * threads), kFewest, kMost);
  }
  [[nodiscard]] std::int64_t count() const { return (all_.last - all_.first + length_ - 1) / length_; }
  [[nodiscard]] Stretch operator[](std::int64_t piece) const {
    const std::int64_t first = all_.first + piece * length_;
    return {first, std::min(first + length_, all_.last)};
  }

 private:
  Stretch all_;
  std::int64_t length_ = 1;
};

constexpr std::int64_t kAtOnce = 1024;

void draw_into(whatif::Fleet& fleet, const whatif::JobDrawer& drawer, Stretch stretch,
               std::atomic<std::int64_t>& drawn) {
  std::array<cost::PaiJob, kAtOnce> jobs{};
  for (std::int64_t at = stretch.first; at < stretch.last; at += kAtOnce) {
    const auto some = std::span(jobs).first(static_cast<std::size_t>(std::min(kAtOnce, stretch.last - at)));
    drawer.draw(static_cast<std::uint64_t>(at), some);
    fleet.add(some);
    drawn.fetch_add(static_cast<std::int64_t>(some.size()), std::memory_order_relaxed);
  }
}

void draw_by_threads(const FleetDraw& draw, const Pieces& pieces, whatif::Fleet& fleet,
                     const std::function<void(std::int64_t)>& progress) {
  const whatif::JobDrawer drawer(draw.population, draw.seed);
  std::atomic<std::int64_t> next = 0;
  std::atomic<std::int64_t> drawn = 0;
  std::atomic<int> working = draw.threads;
  std::mutex mutex;
  const auto work = [&] {
    whatif::Fleet mine(draw.setting, draw.what_if);
    for (std::int64_t piece = 0; (piece = next.fetch_add(1)) < pieces.count();) {
      draw_into(mine, drawer, pieces[piece], drawn);
    }
    {
      const std::scoped_lock lock(mutex);
      fleet.add(mine);
    }
    --working;
    working.notify_all();
  };
  std::vector<std::jthread> crew;
  for (int i = 0; i < draw.threads; ++i) crew.emplace_back(work);
  constexpr std::chrono::milliseconds kTurn{100};
  // Short work is waited for without a turn's delay.
  for (auto turn = std::chrono::milliseconds(1); working.load() > 0; turn = std::min(turn * 2, kTurn)) {
    std::this_thread::sleep_for(turn);
    progress(drawn.load());
  }
}

}  // namespace

bool row_is_of(std::int64_t row, whatif::Shard part) {
  constexpr std::int64_t kTurn = 4096;
  return row / kTurn % part.of == part.number - 1;
}

Expected<void> draw_fleet(const FleetDraw& draw, Ranks* ranks, whatif::Fleet& fleet,
                          const std::function<void(std::int64_t)>& progress, bool& lost) {
  const Pieces pieces(draw, draw.threads * (ranks == nullptr ? 1 : ranks->count()));
  if (ranks == nullptr) {
    draw_by_threads(draw, pieces, fleet, progress);
    return {};
  }
  const whatif::JobDrawer drawer(draw.population, draw.seed);
  std::atomic<std::int64_t> drawn = 0;  // by this rank
  std::int64_t taken = 0;
  RankWork work{.pieces = pieces.count(), .threads = draw.threads, .make_worker = {}, .take = {}};
  work.make_worker = [&]() -> PieceWorker {
    return [&](std::int64_t piece) {
      whatif::Fleet some(draw.setting, draw.what_if);
      draw_into(some, drawer, pieces[piece], drawn);
      return some.sums();
    };
  };
  work.take = [&](const std::string& sums) -> Expected<void> {
    progress(pieces[taken].last - pieces[0].first);
    return fleet.add_sums(sums, "piece " + std::to_string(taken++));
  };
  return work_over(*ranks, work, lost);
}

}  // namespace ddlsim::cli
