// The events to come, in strict total order: a 4-ary heap that never allocates once it has grown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ddlsim::events {

/// What `task` waits for happens at `time`. A task waits for one thing at a time, so (time, task) is unique. An event
/// that may move has a `slot`; slot 0 is nobody's.
struct Event {
  std::int64_t time = 0;
  std::uint32_t task = 0;
  std::uint32_t slot = 0;
};

class EventQueue {
 public:
  /// Null when nothing is to come.
  [[nodiscard]] const Event* next() {
    close();
    return heap_.empty() ? nullptr : heap_.data();
  }

  /// Takes the event that next() showed. Its place is kept for the event that most often follows at once.
  Event take() {
    hole_ = true;
    return heap_.front();
  }

  void add(const Event& event) {
    if (event.slot >= place_.size()) place_.resize(event.slot + std::size_t{1});
    if (hole_) {
      hole_ = false;
      sink(0, event);
    } else {
      heap_.push_back(event);
      rise(heap_.size() - 1, event);
    }
  }

  /// Moves the event in `slot`.
  void move(std::uint32_t slot, std::int64_t time) {
    close();
    const std::size_t at = place_[slot];
    Event event = heap_[at];
    const bool sooner = time < event.time;
    event.time = time;
    if (sooner) {
      rise(at, event);
    } else {
      sink(at, event);
    }
  }

 private:
  __extension__ using Key = unsigned __int128;

  /// Time, then task, in one number: two instructions compare it, and no branch.
  static Key key(const Event& event) {
    const std::uint64_t who = (std::uint64_t{event.task} << 32) | event.slot;
    return (static_cast<Key>(static_cast<std::uint64_t>(event.time)) << 64) | who;
  }
  static bool before(const Event& a, const Event& b) { return key(a) < key(b); }

  void close() {
    if (!hole_) return;
    hole_ = false;
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(0, last);
  }

  void put(std::size_t at, const Event& event) {
    heap_[at] = event;
    place_[event.slot] = static_cast<std::uint32_t>(at);
  }

  void rise(std::size_t at, const Event& event) {
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (!before(event, heap_[parent])) break;
      put(at, heap_[parent]);
      at = parent;
    }
    put(at, event);
  }

  void sink(std::size_t at, const Event& event) {
    const std::size_t size = heap_.size();
    for (;;) {
      const std::size_t first = 4 * at + 1;
      if (first >= size) break;
      std::size_t least = first;
      if (first + 4 <= size) {
        // Without branches: which child is least cannot be predicted.
        const std::size_t left = first + before(heap_[first + 1], heap_[first]);
        const std::size_t right = first + 2 + before(heap_[first + 3], heap_[first + 2]);
        least = before(heap_[right], heap_[left]) ? right : left;
      } else {
        for (std::size_t child = first + 1; child < size; ++child) {
          if (before(heap_[child], heap_[least])) least = child;
        }
      }
      if (!before(heap_[least], event)) break;
      put(at, heap_[least]);
      at = least;
    }
    put(at, event);
  }

  std::vector<Event> heap_;
  std::vector<std::uint32_t> place_ = std::vector<std::uint32_t>(1);  // of a slot's event in the heap
  bool hole_ = false;
};

}  // namespace ddlsim::events
