#include "connection_threads.h"

#include <system_error>
#include <utility>

namespace ddlsim::serve {
namespace {

thread_local bool one_too_many = false;

}  // namespace

bool ConnectionThreads::refusing() { return one_too_many; }

void ConnectionThreads::enqueue(std::function<void()> serve) {
  bool taken = true;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= idle_) {
      try {
        if (threads_.size() < most_) {
          threads_.emplace_back([this] { work(); });
        } else {
          taken = false;
        }
      } catch (const std::system_error&) {
        taken = false;  // the system gives no more threads
      }
    }
    if (taken) waiting_.push_back(serve);
  }
  if (taken) return more_.notify_one();
  one_too_many = true;
  serve();
  one_too_many = false;
}

void ConnectionThreads::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ConnectionThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    more_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    const std::function<void()> serve = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    serve();
    lock.lock();
  }
}

}  // namespace ddlsim::serve
