// The processes of one MPI run, as messages; ranks_mpi.cpp with MPI, ranks_none.cpp without (option DDLSIM_WITH_MPI).
//
// MPI is started only in a process that mpirun (or srun with PMIx) started, or that was asked to: a program with MPI in
// it works like one without everywhere else. One thread talks; nothing here waits but the two collective steps before
// work begins. What Open MPI 4.1 does when a rank dies: mpirun ends all of them (status 137 after SIGKILL), and the
// same command goes on with its file. Told `--enable-recovery`, it lets the others live: they notice by silence
// (work_over.h), do the lost rank's work, and mpirun's status is 0. Where rank 0 is the one, the others end ten seconds
// later, and mpirun's status is 0 all the same: with that option, look whether the file is finished.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/support/choices.h"

namespace ddlsim::cli {

enum class UseMpi { kAuto, kAlways, kNever };
inline constexpr Choices<UseMpi, 3> kUseMpi{{
    {"auto", UseMpi::kAuto},
    {"always", UseMpi::kAlways},
    {"never", UseMpi::kNever},
}};

struct Message {
  int from = 0;
  std::string bytes;
};

class Ranks {
 public:
  /// Joins the run. Nothing: this process is alone. Throws UsageError where MPI is asked for, or several ranks were
  /// started, and the program was built without it.
  [[nodiscard]] static std::unique_ptr<Ranks> join(UseMpi use);
  /// How many processes were started together, as the environment has it; 0: none says so.
  [[nodiscard]] static int started();

  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int count() const { return count_; }

  /// Every rank's text, in order, on rank 0; nothing elsewhere. All must call it.
  [[nodiscard]] std::vector<std::string> gather(const std::string& text);
  /// Rank 0's text on every rank. All must call it.
  [[nodiscard]] std::string share(const std::string& text);

  /// Sends without waiting.
  void send(int to, std::string bytes);
  /// The next message that is there.
  [[nodiscard]] std::optional<Message> next();

  /// Some rank is gone: MPI's own end would wait for it. Ends this process with `status` once its messages are sent.
  [[noreturn]] void leave_without_the_lost(int status);

 private:
  Ranks(int number, int count);

  struct Outbox;
  int number_ = 0;
  int count_ = 1;
  std::unique_ptr<Outbox> outbox_;
};

}  // namespace ddlsim::cli
