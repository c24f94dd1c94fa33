#include "work_over.h"

#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "piece_dispatch.h"

namespace ddlsim::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenLooks{1};  // between looks at the messages, while no result comes
constexpr std::chrono::milliseconds kBeat{500};        // between signs of life
constexpr std::chrono::milliseconds kPatience{200};    // between calls of `wait`
constexpr std::chrono::seconds kSilence{10};           // of a rank that is lost

// What a message is, its first byte.
constexpr char kPiece = 'P';     // a number: do it
constexpr char kResult = 'R';    // a number and what came of it
constexpr char kAlive = 'A';     // nothing but that
constexpr char kStop = 'S';      // no more work
constexpr char kStopLost = 'L';  // the same, and some rank is gone
constexpr char kEnded = 'E';     // the last of a rank's messages

std::string with_number(char kind, std::int64_t number) {
  std::string bytes(1 + sizeof number, kind);
  std::memcpy(bytes.data() + 1, &number, sizeof number);
  return bytes;
}
std::int64_t number_in(const std::string& bytes) {
  std::int64_t number = 0;
  std::memcpy(&number, bytes.data() + 1, sizeof number);
  return number;
}

struct Done {
  std::int64_t piece = 0;
  std::string result;
};

/// This rank's threads.
class Crew {
 public:
  Crew(int threads, const std::function<PieceWorker()>& make_worker) {
    for (int i = 0; i < threads; ++i) crew_.emplace_back([this, make_worker] { work(make_worker()); });
  }
  ~Crew() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    given_.notify_all();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void give(std::int64_t piece) {
    {
      const std::scoped_lock lock(mutex_);
      todo_.push_back(piece);
    }
    given_.notify_one();
  }
  /// What was done; waits a turn for it.
  std::vector<Done> collect() {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, kBetweenLooks, [&] { return !done_.empty(); });
    return std::exchange(done_, {});
  }

 private:
  void work(const PieceWorker& worker) {
    std::unique_lock lock(mutex_);
    for (;;) {
      given_.wait(lock, [&] { return ended_ || !todo_.empty(); });
      if (ended_) return;
      Done done{.piece = todo_.front(), .result = {}};
      todo_.pop_front();
      lock.unlock();
      done.result = worker(done.piece);
      lock.lock();
      done_.push_back(std::move(done));
      ready_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable given_;
  std::condition_variable ready_;
  std::deque<std::int64_t> todo_;
  std::vector<Done> done_;
  bool ended_ = false;
  std::vector<std::jthread> crew_;  // the last: it ends first
};

/// Rank 0.
class Leader {
 public:
  Leader(Ranks& ranks, const RankWork& work)
      : ranks_(ranks),
        work_(work),
        dispatch_(work.pieces, {.ranks = ranks.count(), .threads = work.threads}),
        crew_(work.threads, work.make_worker),
        heard_(static_cast<std::size_t>(ranks.count()), Clock::now()) {}

  Expected<void> run(bool& lost) {
    Expected<void> outcome;
    while (outcome && !dispatch_.finished()) {
      hand_out();
      for (Done& done : crew_.collect()) dispatch_.done(0, done.piece, std::move(done.result));
      listen();
      watch();
      outcome = take();
    }
    lost = any_lost_;
    for (int rank = 1; rank < ranks_.count(); ++rank) {
      if (!dispatch_.lost(rank)) ranks_.send(rank, std::string(1, lost ? kStopLost : kStop));
    }
    hear_out();
    return outcome;
  }

 private:
  void hand_out() {
    for (int rank = 0; rank < ranks_.count(); ++rank) {
      while (const auto piece = dispatch_.next(rank)) {
        if (rank == 0) {
          crew_.give(*piece);
        } else {
          ranks_.send(rank, with_number(kPiece, *piece));
        }
      }
    }
  }
  /// Whatever is still on its way must arrive: MPI ends when nothing is.
  void hear_out() {
    const auto until = Clock::now() + kSilence;
    int left = 0;
    for (int rank = 1; rank < ranks_.count(); ++rank) left += dispatch_.lost(rank) ? 0 : 1;
    while (left > ended_ && Clock::now() < until) {
      listen();
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
  void listen() {
    while (auto message = ranks_.next()) {
      heard_[static_cast<std::size_t>(message->from)] = Clock::now();
      if (!message->bytes.empty() && message->bytes[0] == kEnded) ++ended_;
      if (message->bytes.empty() || message->bytes[0] != kResult) continue;
      dispatch_.done(message->from, number_in(message->bytes), message->bytes.substr(1 + sizeof(std::int64_t)));
    }
  }
  /// Tells the others that this rank is there, and looks who is not.
  void watch() {
    const auto now = Clock::now();
    if (now - beat_ < kBeat) return;
    // Where this process was stopped for a while, silence says nothing about the others.
    const bool slept = now - beat_ > kSilence / 2;
    beat_ = now;
    for (int rank = 1; rank < ranks_.count(); ++rank) {
      if (dispatch_.lost(rank)) continue;
      Clock::time_point& heard = heard_[static_cast<std::size_t>(rank)];
      if (slept) heard = now;
      if (now - heard > kSilence) {
        std::fputs(fmt::format("note: rank {} is lost; others do its work\n", rank).c_str(), stderr);
        dispatch_.lose(rank);
        any_lost_ = true;
      } else {
        ranks_.send(rank, std::string(1, kAlive));
      }
    }
  }
  Expected<void> take() {
    Expected<void> outcome;
    while (outcome) {
      const auto result = dispatch_.take();
      if (!result) break;
      outcome = work_.take(*result);
    }
    if (outcome && Clock::now() - waited_ >= kPatience) {
      waited_ = Clock::now();
      outcome = work_.wait();
    }
    return outcome;
  }

  Ranks& ranks_;
  const RankWork& work_;
  PieceDispatch dispatch_;
  Crew crew_;
  std::vector<Clock::time_point> heard_;
  Clock::time_point beat_ = Clock::now();
  Clock::time_point waited_ = Clock::now();
  int ended_ = 0;
  bool any_lost_ = false;
};

Expected<void> follow(Ranks& ranks, const RankWork& work, bool& lost) {
  Crew crew(work.threads, work.make_worker);
  auto heard = Clock::now();
  auto beat = heard;
  for (;;) {
    for (Done& done : crew.collect()) ranks.send(0, with_number(kResult, done.piece) + done.result);
    while (const auto message = ranks.next()) {
      heard = Clock::now();
      const char kind = message->bytes.empty() ? kAlive : message->bytes[0];
      if (kind == kPiece) crew.give(number_in(message->bytes));
      lost = kind == kStopLost;
      if (kind != kStop && kind != kStopLost) continue;
      ranks.send(0, std::string(1, kEnded));
      return {};
    }
    const auto now = Clock::now();
    if (now - beat > kSilence / 2) heard = now;  // this process was stopped for a while
    if (now - heard > kSilence) {
      lost = true;
      return fail(ErrorCode::kIo, fmt::format("rank {} no longer hears from rank 0, and ends", ranks.number()));
    }
    if (now - beat < kBeat) continue;
    beat = now;
    ranks.send(0, std::string(1, kAlive));
  }
}

/// What is the first thing that a rank has else than rank 0.
std::string difference(const std::string& first, const std::string& other, const Facts& facts, int rank) {
  std::size_t a = 0;
  std::size_t b = 0;
  for (const auto& [name, value] : facts) {
    const std::size_t a_end = first.find('\n', a);
    const std::size_t b_end = std::min(other.find('\n', b), other.size());
    const std::string one = first.substr(a, a_end - a);
    const std::string two = other.substr(b, b_end - b);
    if (one != two) return fmt::format("rank {} has {} {}, and rank 0 has {}", rank, name, two, one);
    a = a_end + 1;
    b = std::min(b_end + 1, other.size());
  }
  return fmt::format("rank {} asks something else than rank 0", rank);
}

}  // namespace

Expected<void> agree(Ranks& ranks, const Facts& facts) {
  std::string mine;
  for (const auto& [name, value] : facts) mine += value + "\n";
  const auto all = ranks.gather(mine);
  std::string differs;
  for (std::size_t rank = 1; rank < all.size() && differs.empty(); ++rank) {
    if (all[rank] != all[0]) differs = difference(all[0], all[rank], facts, static_cast<int>(rank));
  }
  differs = ranks.share(differs);
  if (differs.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "the ranks do not answer the same question: " + differs, {},
              {"start the same program with the same data on every machine"});
}

Expected<void> work_over(Ranks& ranks, const RankWork& work, bool& lost) {
  return ranks.number() == 0 ? Leader(ranks, work).run(lost) : follow(ranks, work, lost);
}

}  // namespace ddlsim::cli
