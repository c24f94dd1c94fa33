// Pieces of work for several threads, whose results come back in order. Private to the room.
//
// Piece i is `worker(i)`, by whichever thread is free; its result waits until all before it were taken. No thread
// begins a piece that is more than `kAhead` pieces a thread past the last one taken, so that what waits has a limit.
// With one thread everything happens on the caller's.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ddlsim::whatif {

template <typename Result>
class OrderedWork {
 public:
  static constexpr std::int64_t kAhead = 8;
  static constexpr std::chrono::milliseconds kPatience{200};

  OrderedWork(std::int64_t pieces, int threads) : pieces_(pieces), threads_(threads) {}

  /// `make_worker()` is called once on each thread; `take(result)` and, while nothing comes, `wait()` on the caller's.
  /// Either returns false to end the work; so does this function then.
  template <typename MakeWorker, typename Take, typename Wait>
  bool run(const MakeWorker& make_worker, const Take& take, const Wait& wait) {
    if (threads_ <= 1) {
      auto worker = make_worker();
      for (std::int64_t i = 0; i < pieces_; ++i) {
        if (!take(worker(i))) return false;
      }
      return true;
    }
    std::vector<std::jthread> crew;
    const Ending ending{*this};  // before the crew joins, however this ends
    for (int i = 0; i < threads_; ++i) crew.emplace_back([&] { work(make_worker); });
    return hand_over(take, wait);
  }

 private:
  struct Ending {
    OrderedWork& work;
    ~Ending() {
      {
        const std::scoped_lock lock(work.mutex_);
        work.ended_ = true;
      }
      work.room_.notify_all();
    }
  };

  template <typename MakeWorker>
  void work(const MakeWorker& make_worker) {
    auto worker = make_worker();
    for (;;) {
      std::int64_t piece = 0;
      {
        std::unique_lock lock(mutex_);
        room_.wait(lock, [&] { return ended_ || next_ == pieces_ || next_ < taken_ + kAhead * threads_; });
        if (ended_ || next_ == pieces_) return;
        piece = next_++;
      }
      Result result = worker(piece);
      bool awaited = false;
      {
        const std::scoped_lock lock(mutex_);
        awaited = piece == taken_;
        done_.emplace(piece, std::move(result));
      }
      if (awaited) ready_.notify_one();
    }
  }

  template <typename Take, typename Wait>
  bool hand_over(const Take& take, const Wait& wait) {
    for (std::int64_t piece = 0; piece < pieces_;) {
      std::unique_lock lock(mutex_);
      const bool there = ready_.wait_for(lock, kPatience, [&] { return done_.count(piece) > 0; });
      if (!there) {
        lock.unlock();
        if (!wait()) return false;
        continue;
      }
      auto node = done_.extract(piece);
      taken_ = ++piece;
      lock.unlock();
      room_.notify_all();
      if (!take(std::move(node.mapped()))) return false;
    }
    return true;
  }

  const std::int64_t pieces_;
  const int threads_;
  std::mutex mutex_;
  std::condition_variable room_;   // for a piece to begin
  std::condition_variable ready_;  // the next result to take
  std::map<std::int64_t, Result> done_;
  std::int64_t next_ = 0;
  std::int64_t taken_ = 0;
  bool ended_ = false;
};

}  // namespace ddlsim::whatif
