// Which rank works on which piece, and whose results are next. No messages here: work_over.cpp has them.
//
// Pieces 0, 1, ... are handed out in order, so many at a time to each rank that none waits for the next message, and no
// more than a window ahead of the last result taken, so that what waits for its turn has a limit. A rank that is lost
// gives back what it had not done, which others do first. The same piece may so be done twice; the first result counts
// (they are alike).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddlsim::cli {

class PieceDispatch {
 public:
  static constexpr std::int64_t kEach = 8;    // pieces a rank has to do, for each of its threads
  static constexpr std::int64_t kAhead = 16;  // pieces past the last one taken, for each thread of all ranks

  struct Team {
    int ranks = 1;
    int threads = 1;  // of each
  };

  PieceDispatch(std::int64_t pieces, Team team)
      : pieces_(pieces),
        each_(kEach * team.threads),
        ahead_(kAhead * team.threads * team.ranks),
        doing_(static_cast<std::size_t>(team.ranks)) {
    alive_.assign(doing_.size(), true);
  }

  /// A piece for a rank; nothing: it has enough, or nothing is left to hand out for now.
  std::optional<std::int64_t> next(int rank) {
    auto& doing = doing_[index(rank)];
    if (!alive_[index(rank)] || static_cast<std::int64_t>(doing.size()) >= each_) return std::nullopt;
    std::int64_t piece = next_;
    if (!again_.empty()) {
      piece = again_.extract(again_.begin()).value();
    } else if (next_ < pieces_ && next_ < taken_ + ahead_) {
      ++next_;
    } else {
      return std::nullopt;
    }
    doing.insert(piece);
    return piece;
  }
  void done(int rank, std::int64_t piece, std::string&& result) {
    doing_[index(rank)].erase(piece);
    again_.erase(piece);  // of a rank that was thought lost
    if (piece >= taken_ && piece < next_) results_.try_emplace(piece, std::move(result));
  }
  /// What a rank had not done goes to others. Rank 0 is not lost.
  void lose(int rank) {
    alive_[index(rank)] = false;
    for (const std::int64_t piece : std::exchange(doing_[index(rank)], {})) {
      if (results_.count(piece) == 0 && piece >= taken_) again_.insert(piece);
    }
  }
  [[nodiscard]] bool lost(int rank) const { return !alive_[index(rank)]; }
  /// The next result in order.
  std::optional<std::string> take() {
    const auto first = results_.begin();
    if (first == results_.end() || first->first != taken_) return std::nullopt;
    std::string result = std::move(first->second);
    results_.erase(first);
    ++taken_;
    return result;
  }
  [[nodiscard]] bool finished() const { return taken_ == pieces_; }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  std::int64_t pieces_;
  std::int64_t each_;
  std::int64_t ahead_;
  std::int64_t next_ = 0;   // to hand out
  std::int64_t taken_ = 0;  // the results of all before it
  std::vector<std::set<std::int64_t>> doing_;
  std::vector<bool> alive_;
  std::set<std::int64_t> again_;  // of lost ranks
  std::map<std::int64_t, std::string> results_;
};

}  // namespace ddlsim::cli
