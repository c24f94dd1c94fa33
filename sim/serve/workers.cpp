#include "workers.h"

#include <exception>
#include <utility>

namespace ddlsim::serve {
namespace {

Expected<std::string> guarded(const Workers::Work& work) {
  try {
    return work();
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kUnsupported, std::string(problem.what()) + " (a fault of ddlsim itself)");
  }
}

}  // namespace

Workers::Workers(std::size_t threads) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting_.clear();
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::optional<Expected<std::string>> Workers::run(Work work, std::chrono::steady_clock::duration most) {
  const auto task = std::make_shared<Task>();
  task->work = std::move(work);
  std::unique_lock lock(mutex_);
  waiting_.push_back(task);
  more_.notify_one();
  if (task->done.wait_for(lock, most, [&] { return task->result.has_value(); })) return std::move(task->result);
  task->abandoned = true;
  std::erase(waiting_, task);
  return std::nullopt;
}

bool Workers::busy() const {
  const std::lock_guard lock(mutex_);
  return running_ > 0;
}

void Workers::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const std::shared_ptr<Task> task = std::move(waiting_.front());
    waiting_.pop_front();
    ++running_;
    lock.unlock();
    auto result = guarded(task->work);
    lock.lock();
    --running_;
    if (task->abandoned) continue;
    task->result = std::move(result);
    task->done.notify_one();
  }
}

}  // namespace ddlsim::serve
