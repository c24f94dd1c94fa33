// Threads that compute while a connection waits, no longer than it may. Private to the room.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ddlsim/support/error.h"

namespace ddlsim::serve {

class Workers {
 public:
  using Work = std::function<Expected<std::string>()>;

  explicit Workers(std::size_t threads);
  /// Waits for what is being computed; what waits is dropped.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// What `work` returns, or nothing when it was not done in time; what had not begun by then never does.
  [[nodiscard]] std::optional<Expected<std::string>> run(Work work, std::chrono::steady_clock::duration most);
  /// Whether a thread computes.
  [[nodiscard]] bool busy() const;

 private:
  struct Task {
    Work work;
    std::optional<Expected<std::string>> result;
    bool abandoned = false;
    std::condition_variable done;
  };
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::shared_ptr<Task>> waiting_;
  std::size_t running_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ddlsim::serve
