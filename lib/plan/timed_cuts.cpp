#include "ddlsim/plan/timed_cuts.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace ddlsim::plan {
namespace {

using Cuts = std::vector<std::size_t>;

/// A model in pieces that nobody cuts; sums over those before each, in seconds.
struct TimedPieces {
  std::vector<double> forward{0};
  std::vector<double> all{0};
  std::vector<double> sent;  // bytes before each, and behind the last

  [[nodiscard]] std::size_t count() const { return all.size() - 1; }
  [[nodiscard]] double between(std::size_t first, std::size_t end) const { return all[end] - all[first]; }
};

TimedPieces timed_pieces(std::span<const TimedLayer> layers, const SentBetween& sent,
                         std::span<const std::size_t> starts) {
  TimedPieces made;
  for (std::size_t u = 0; u < starts.size(); ++u) {
    const std::size_t end = u + 1 < starts.size() ? starts[u + 1] : layers.size();
    made.sent.push_back(u == 0 || sent.before.empty() ? 0.0 : sent.before[starts[u]].in(bytes));
    made.forward.push_back(made.forward.back());
    made.all.push_back(made.all.back());
    for (std::size_t i = starts[u]; i < end; ++i) {
      made.forward.back() += layers[i].forward.in(seconds);
      made.all.back() += (layers[i].forward + layers[i].backward).in(seconds);
    }
  }
  made.sent.push_back(0);
  return made;
}

/// Of each part: seconds that a byte takes to where it begins from the part before; the last one's are those behind it.
std::vector<double> seconds_per_byte(const SentBetween& sent, const Pipeline& pipeline) {
  const auto inverse = [](Bandwidth rate) { return rate > Bandwidth{} ? 1 / rate.in(bytes_per_second) : 0.0; };
  const auto each = static_cast<std::size_t>(std::max<std::int64_t>(sent.stages_of_server, 1));
  std::vector<double> made{0};
  for (std::size_t q = 1; q < positions_of(pipeline); ++q) {
    const std::size_t from = place_of(pipeline, q - 1).stage;
    const std::size_t to = place_of(pipeline, q).stage;
    made.push_back(from == to ? 0.0 : inverse(from / each == to / each ? sent.inside : sent.between));
  }
  made.push_back(0);
  return made;
}

/// How the first parts of a pipeline end best at a piece.
struct BestEnd {
  double slowest = std::numeric_limits<double>::infinity();
  double uneven = std::numeric_limits<double>::infinity();  // sum of squares
  std::size_t first = 0;                                    // piece of the last of these parts
};

class CutProgramme {
 public:
  /// `longest`: of a part's own layers.
  CutProgramme(const TimedPieces& pieces, const std::vector<double>& per_byte, const Pipeline& pipeline, bool fills,
               double longest)
      : pieces_(pieces),
        per_byte_(per_byte),
        parts_(positions_of(pipeline)),
        fills_(fills),
        longest_(longest),
        passes_(static_cast<double>(std::max<std::int64_t>(pipeline.micro_batches, 1))) {}

  /// The first piece of each part, and what the slowest takes.
  [[nodiscard]] std::pair<Cuts, double> run() const {
    const std::size_t all = pieces_.count();
    std::vector<std::vector<BestEnd>> known(parts_ + 1, std::vector<BestEnd>(all + 1));
    known[0][0] = {0, 0, 0};
    for (std::size_t part = 0; part < parts_; ++part) {
      const std::size_t behind = parts_ - 1 - part;  // each with a piece
      const std::size_t from = behind == 0 ? all : part + 1;
      for (std::size_t end = from; end <= all - behind; ++end) {
        known[part + 1][end] = best_end(known[part], part, end);
      }
    }
    Cuts starts(parts_);
    std::size_t end = all;
    for (std::size_t part = parts_; part-- > 0;) starts[part] = end = known[part + 1][end].first;
    return {std::move(starts), known[parts_][all].slowest};
  }

 private:
  [[nodiscard]] double cost(std::size_t part, std::size_t first, std::size_t end) const {
    const double own = pieces_.between(first, end);
    const double sends = pieces_.sent[first] * per_byte_[part] + pieces_.sent[end] * per_byte_[part + 1];
    if (!fills_) return own + sends;
    const double ahead = std::min(static_cast<double>(parts_ - 1 - part), passes_ - 1);
    const double behind = pieces_.between(end, pieces_.count());
    const double forward = ahead * (pieces_.forward[end] - pieces_.forward[first]);
    const double waits = std::max(behind - forward, 0.0) + std::max(behind - (ahead * own - forward), 0.0);
    return passes_ * (own + sends) + pieces_.between(0, first) + waits;
  }

  [[nodiscard]] BestEnd best_end(const std::vector<BestEnd>& before, std::size_t part, std::size_t end) const {
    BestEnd best;
    for (std::size_t first = end; first-- > part;) {
      const double own = pieces_.between(first, end);
      // More pieces take no less.
      if (own * (fills_ ? passes_ : 1.0) > best.slowest || own > longest_) break;
      const BestEnd made{.slowest = std::max(before[first].slowest, cost(part, first, end)),
                         .uneven = before[first].uneven + own * own,
                         .first = first};
      const bool less = made.slowest < best.slowest || (made.slowest == best.slowest && made.uneven < best.uneven);
      if (less) best = made;
    }
    return best;
  }

  const TimedPieces& pieces_;
  const std::vector<double>& per_byte_;
  std::size_t parts_;
  bool fills_;
  double longest_;
  double passes_;
};

/// Parts of which ranks have several: where they begin moves, one at a time, and of few pieces two, while that evens
/// out the ranks.
class EvenRanks {
 public:
  EvenRanks(const TimedPieces& pieces, const std::vector<double>& per_byte, const Pipeline& pipeline, double longest)
      : pieces_(pieces), per_byte_(per_byte), loads_(static_cast<std::size_t>(pipeline.stages)), longest_(longest) {
    for (std::size_t q = 0; q < positions_of(pipeline); ++q) {
      auto& of = ranks_.emplace_back();
      for (std::int64_t way = 0; way < directions_of(pipeline.schedule); ++way) {
        of.push_back(place_of(pipeline, q, way).stage);
      }
    }
  }

  /// What the slowest takes then.
  double run(Cuts& starts) {
    constexpr int kMostRounds = 64;
    constexpr std::size_t kFew = 128;
    bool moved = true;
    for (int round = 0; moved && round < kMostRounds; ++round) {
      moved = false;
      for (std::size_t q = 1; q < starts.size(); ++q) moved = move(starts, q, q) || moved;
      if (moved || pieces_.count() > kFew) continue;
      for (std::size_t q = 1; q < starts.size(); ++q) {
        for (std::size_t other = q + 1; other < starts.size(); ++other) moved = move(starts, q, other) || moved;
      }
    }
    return measure(starts).first;
  }

 private:
  using Measure = std::pair<double, double>;

  /// The slowest rank, then the sum of squares; infinite where a part is too long.
  [[nodiscard]] Measure measure(const Cuts& starts) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    std::fill(loads_.begin(), loads_.end(), 0.0);
    for (std::size_t q = 0; q < starts.size(); ++q) {
      const std::size_t end = end_of(starts, q);
      const double takes = pieces_.between(starts[q], end) + pieces_.sent[starts[q]] * per_byte_[q] +
                           pieces_.sent[end] * per_byte_[q + 1];
      if (takes > longest_) return {kNone, kNone};
      for (const std::size_t rank : ranks_[q]) loads_[rank] += takes;
    }
    double squares = 0;
    for (const double one : loads_) squares += one * one;
    const double slowest = *std::max_element(loads_.begin(), loads_.end());
    return {slowest, squares};
  }

  [[nodiscard]] std::size_t end_of(const Cuts& starts, std::size_t q) const {
    return q + 1 < starts.size() ? starts[q + 1] : pieces_.count();
  }

  /// Where two parts begin, or one that is named twice.
  bool move(Cuts& starts, std::size_t q, std::size_t other) {
    constexpr double kLess = 1 - 1e-9;
    const std::pair was{starts[q], starts[other]};
    std::pair best = was;
    Measure least = measure(starts);
    const std::size_t behind = end_of(starts, other);
    const std::size_t before = starts[other - 1];
    const std::size_t end = other == q + 1 ? behind - 1 : end_of(starts, q);
    for (std::size_t first = starts[q - 1] + 1; first < end; ++first) {
      const std::size_t from = other == q ? first : other == q + 1 ? first + 1 : before + 1;
      const std::size_t to = other == q ? first + 1 : behind;
      for (std::size_t second = from; second < to; ++second) {
        starts[q] = first;
        starts[other] = second;
        const Measure made = measure(starts);
        const bool faster = made.first < least.first * kLess;
        const bool evener = made.first <= least.first && made.second < least.second * kLess;
        if (!faster && !evener) continue;
        least = made;
        best = {first, second};
      }
    }
    std::tie(starts[q], starts[other]) = best;
    return best != was;
  }

  const TimedPieces& pieces_;
  const std::vector<double>& per_byte_;
  std::vector<std::vector<std::size_t>> ranks_;  // of each part
  std::vector<double> loads_;
  double longest_;  // of a part
};

struct MadeCuts {
  Cuts cuts;
  double slowest = std::numeric_limits<double>::infinity();
};

/// A part that is longer than any needs to be keeps those beside it waiting.
constexpr double kLonger = 1.1;
/// However slow a network is, a stage's layers take no more than so many times as long as the most even stages' do:
/// else one GPU would hold the model.
constexpr double kUneven = 1.25;

MadeCuts cuts_of_pieces(std::span<const TimedLayer> layers, const SentBetween& sent,
                        std::span<const std::size_t> starts, const Pipeline& pipeline) {
  MadeCuts made;
  if (starts.size() < positions_of(pipeline)) return made;
  const TimedPieces pieces = timed_pieces(layers, sent, starts);
  const std::vector<double> per_byte = seconds_per_byte(sent, pipeline);
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const std::vector<double> free(per_byte.size());
  const double most = CutProgramme(pieces, free, pipeline, false, kNone).run().second * kUneven;
  auto [parts, slowest] = CutProgramme(pieces, per_byte, pipeline, fills_alone(pipeline.schedule), most).run();
  made.slowest = slowest;
  if (parts_of(pipeline) > 1) {
    // Parts of both directions go beside each other.
    const double longest = directions_of(pipeline.schedule) > 1 ? kNone : slowest * kLonger;
    made.slowest = EvenRanks(pieces, per_byte, pipeline, longest).run(parts);
  }
  for (std::size_t part = 1; part < parts.size(); ++part) made.cuts.push_back(starts[parts[part]]);
  return made;
}

}  // namespace

std::vector<std::size_t> timed_cuts(const CutPoints& points, std::span<const TimedLayer> layers,
                                    const SentBetween& sent, const Pipeline& pipeline,
                                    std::span<const std::size_t> within_blocks) {
  constexpr double kFaster = 0.98;
  std::vector<std::size_t> everywhere(within_blocks.begin(), within_blocks.end());
  if (everywhere.size() < positions_of(pipeline)) {
    everywhere.resize(layers.size());
    std::iota(everywhere.begin(), everywhere.end(), std::size_t{0});
  }
  MadeCuts between = cuts_of_pieces(layers, sent, points.starts, pipeline);
  MadeCuts within = cuts_of_pieces(layers, sent, everywhere, pipeline);
  return within.slowest < between.slowest * kFaster ? std::move(within.cuts) : std::move(between.cuts);
}

}  // namespace ddlsim::plan
