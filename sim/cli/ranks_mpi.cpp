#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>

#include "program.h"
#include "ranks.h"

namespace ddlsim::cli {
namespace {

constexpr int kTag = 1;

int size_of(const std::string& text) { return static_cast<int>(text.size()); }

}  // namespace

/// Messages on their way, whose bytes stay until they have gone.
struct Ranks::Outbox {
  struct Sent {
    std::string bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::deque<Sent> sent;

  void tidy() {
    while (!sent.empty()) {
      int done = 0;
      MPI_Test(&sent.front().request, &done, MPI_STATUS_IGNORE);
      if (done == 0) return;
      sent.pop_front();
    }
  }
};

std::unique_ptr<Ranks> Ranks::join(UseMpi use) {
  if (use == UseMpi::kNever || (use == UseMpi::kAuto && started() == 0)) return nullptr;
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    throw UsageError{"MPI could not be started", "--mpi never goes on without it"};
  }
  int number = 0;
  int count = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  // A peer that is gone is noticed by its silence; messages to it must not end this process.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return std::unique_ptr<Ranks>(new Ranks(number, count));
}

Ranks::Ranks(int number, int count) : number_(number), count_(count), outbox_(std::make_unique<Outbox>()) {}

Ranks::~Ranks() {
  for (Outbox::Sent& one : outbox_->sent) MPI_Wait(&one.request, MPI_STATUS_IGNORE);
  MPI_Finalize();
}

// It changes what others see.
// NOLINTNEXTLINE(readability-make-member-function-const)
std::vector<std::string> Ranks::gather(const std::string& text) {
  const int mine = size_of(text);
  std::vector<int> sizes(static_cast<std::size_t>(count_));
  MPI_Gather(&mine, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> starts(sizes.size());
  for (std::size_t i = 1; i < sizes.size(); ++i) starts[i] = starts[i - 1] + sizes[i - 1];
  std::string all(number_ == 0 ? static_cast<std::size_t>(starts.back() + sizes.back()) : 0, '\0');
  MPI_Gatherv(text.data(), mine, MPI_CHAR, all.data(), sizes.data(), starts.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
  std::vector<std::string> texts;
  for (std::size_t i = 0; number_ == 0 && i < sizes.size(); ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(sizes[i])));
  }
  return texts;
}

// NOLINTNEXTLINE(readability-*)
std::string Ranks::share(const std::string& text) {
  std::string shared = text;
  int size = size_of(text);
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  shared.resize(static_cast<std::size_t>(size));
  MPI_Bcast(shared.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
  return shared;
}

void Ranks::send(int to, std::string bytes) {
  outbox_->tidy();
  Outbox::Sent& one = outbox_->sent.emplace_back();
  one.bytes = std::move(bytes);
  MPI_Isend(one.bytes.data(), size_of(one.bytes), MPI_CHAR, to, kTag, MPI_COMM_WORLD, &one.request);
}

std::optional<Message> Ranks::next() {
  outbox_->tidy();
  int there = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &there, &status) != MPI_SUCCESS || there == 0) {
    return std::nullopt;
  }
  int size = 0;
  MPI_Get_count(&status, MPI_CHAR, &size);
  Message message{.from = status.MPI_SOURCE, .bytes = std::string(static_cast<std::size_t>(size), '\0')};
  MPI_Recv(message.bytes.data(), size, MPI_CHAR, message.from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return message;
}

void Ranks::leave_without_the_lost(int status) {
  constexpr std::chrono::milliseconds kLastWords{300};  // for messages to go
  std::fflush(nullptr);
  const auto until = std::chrono::steady_clock::now() + kLastWords;
  while (std::chrono::steady_clock::now() < until) {
    (void)next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::_Exit(status);
}

}  // namespace ddlsim::cli
