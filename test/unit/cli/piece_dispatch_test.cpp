// Which rank does which piece, with ranks that are slow, silent, lost, and back again.
#include "piece_dispatch.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

using ddlsim::cli::PieceDispatch;

namespace {

std::vector<std::int64_t> all_of(PieceDispatch& dispatch, int rank) {
  std::vector<std::int64_t> pieces;
  while (const auto piece = dispatch.next(rank)) pieces.push_back(*piece);
  return pieces;
}

}  // namespace

TEST_CASE("pieces: handed out in order, so many to each", "[unit][cli]") {
  PieceDispatch dispatch(20, {.ranks = 2, .threads = 1});
  CHECK(all_of(dispatch, 0) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(all_of(dispatch, 1) == std::vector<std::int64_t>{8, 9, 10, 11, 12, 13, 14, 15});
  dispatch.done(1, 8, "8");
  CHECK_FALSE(dispatch.take());  // 0 comes first
  dispatch.done(0, 0, "0");
  CHECK(dispatch.take() == "0");
  CHECK_FALSE(dispatch.take());
  CHECK(all_of(dispatch, 1) == std::vector<std::int64_t>{16});
}

TEST_CASE("pieces: none begins far ahead of the last one taken", "[unit][cli]") {
  PieceDispatch dispatch(1000, {.ranks = 2, .threads = 1});
  REQUIRE(dispatch.next(0) == 0);  // rank 0 never finishes it
  std::int64_t given = 1;
  for (int round = 0; round < 200; ++round) {
    for (const std::int64_t piece : all_of(dispatch, 1)) {
      dispatch.done(1, piece, "");
      ++given;
    }
  }
  CHECK(given == 2 * PieceDispatch::kAhead);
  CHECK_FALSE(dispatch.finished());
}

TEST_CASE("pieces: a lost rank's are done by others, once", "[unit][cli]") {
  PieceDispatch dispatch(10, {.ranks = 2, .threads = 1});
  CHECK(all_of(dispatch, 1).size() == 8);
  dispatch.done(1, 0, "0");
  dispatch.lose(1);
  CHECK(dispatch.lost(1));
  CHECK_FALSE(dispatch.next(1));
  CHECK(all_of(dispatch, 0) == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  dispatch.done(1, 1, "late, and alike");  // it was only silent
  dispatch.done(0, 1, "again");
  CHECK(dispatch.take() == "0");
  CHECK(dispatch.take() == "late, and alike");
  CHECK_FALSE(dispatch.take());
}

TEST_CASE("pieces: whatever ranks do, every piece comes once and in order", "[unit][cli]") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    constexpr std::int64_t kPieces = 300;
    constexpr int kRanks = 4;
    PieceDispatch dispatch(kPieces, {.ranks = kRanks, .threads = 1 + static_cast<int>(random() % 3)});
    std::vector<std::vector<std::int64_t>> doing(kRanks);
    std::int64_t taken = 0;
    for (int step = 0; step < 100'000 && !dispatch.finished(); ++step) {
      const int rank = static_cast<int>(random() % kRanks);
      auto& mine = doing[static_cast<std::size_t>(rank)];
      if (random() % 400 == 0 && rank > 0) dispatch.lose(rank);
      if (const auto piece = dispatch.next(rank)) mine.push_back(*piece);
      if (!mine.empty() && random() % 2 == 0) {
        const std::size_t at = random() % mine.size();
        dispatch.done(rank, mine[at], std::to_string(mine[at]));
        mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(at));
      }
      while (const auto result = dispatch.take()) {
        CHECK(*result == std::to_string(taken));
        ++taken;
      }
    }
    REQUIRE(dispatch.finished());
    CHECK(taken == kPieces);
  }
}
