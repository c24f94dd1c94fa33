// What failures and checkpoints leave of a long run: its goodput, the share of the wall time in which steps are made
// that count.
//
// A run works for an interval tau, then takes a checkpoint that blocks it for delta. Something of it fails at the rate
// lambda = 1/M (exponential: no memory; the rates of GPUs, servers and switches add up). Then it stands for D (seen,
// restarted; nothing can fail), reads the last checkpoint and warms up for R (failures strike, and D and R begin anew)
// and repeats what it lost. Expected wall time of one interval, exactly (renewal; Daly 2006 where D = W = 0):
//
//   E = e^(lambda (R + W)) (e^(lambda (tau + delta)) - 1) (1/lambda + D),      goodput = tau / E
//
//   blocking      delta = the write, W = 0
//   asynchronous  delta = the snapshot to host memory; the write W goes on beside the next interval, and a failure
//                 before its end falls back to the checkpoint before. By first steps, with Q = D + (1/lambda + D)
//                 (e^(lambda R) - 1) the mean time to be back: A = (e^(lambda P) - 1)(1/lambda + Q) of an interval P =
//                 tau + delta whose checkpoint is safe, B = (1 - e^(-lambda P))(1/lambda + Q + A) + (1 - e^(-lambda
//                 W)) B of one whose is not; so B = e^(lambda W) A, the line above. One write at a time: P >= W
//   in memory     delta = the snapshot; a copy lies in another server's memory, each n-th goes to storage. A failure of
//                 class a (GPUs, servers) reads the copy for R_a; of class b (a switch, which takes servers and their
//                 partners) it reads the storage for R_b and repeats up to n intervals. With p = e^(-lambda P),
//                 q_i = lambda_i / lambda, y_b = D + (1/lambda + D)(e^(lambda R_b) - 1) + x_0 and x_n = 0:
//                   x_j = (1 - p)(1/lambda + q_a y_a,j + q_b y_b) + p x_j+1
//                   y_a,j = D + (1 - r)/lambda + r x_j + (1 - r)(q_a y_a,j + q_b y_b),  r = e^(-lambda R_a)
//                 linear in x_j and x_0, solved from j = n - 1 down; goodput = n tau / x_0
//
// Failures per interval: lambda E / (1 + lambda D), since they come at lambda whenever the run does not stand.
//
// Intervals, of a mean time between failures M and a blocking time delta:
//   Young 1974   tau = sqrt(2 delta M)
//   Daly 2006    tau = sqrt(2 delta M) (1 + sqrt(delta / 2M) / 3 + (delta / 2M) / 9) - delta,   M where delta >= 2M
//   exact        tau = M (1 + w), w e^w = -e^(-1 - delta/M), w >= -1: where d(E/tau)/dtau = 0, whatever D, R, W
//
// Spares: each failure of a GPU or a server takes that server to repair for T on average; one of S spares takes its
// place, or the run waits until one is back. Failures come while at most S are away, so the number away is M/M/c/c
// (Erlang 1917) with c = S + 1, and a failure finds no spare with probability B(S, rho), rho = lambda_s T / (1 +
// lambda D), whatever the distribution of repairs; it then waits T / (S + 1) where repairs are exponential.
//   B(0, rho) = 1,  B(s, rho) = rho B(s-1) / (s + rho B(s-1)),  mean wait per failure = B(S, rho) T / (S + 1)
//
// Limits: no failures in bursts, no wear; the mean of a long run, whose pool of spares is in balance (it starts full,
// so a short run waits less); of copies in memory the transfer to the partner and the lag of the storage's write are
// taken to be short against M. Silent corruption, which sends a run back beyond its last checkpoint, is not modelled.
//
// Sources: J. W. Young, CACM 17(9), 1974; J. T. Daly, FGCS 22(3), 2006 (tau of M 24 h, 6 h, 15 min and delta 5 min in
// its figures 3 to 5: 117, 57, 9.1 min); copies in memory as Gemini has them (Wang et al., SOSP 2023).
//
// Worked example: M = 6 h, delta = 5 min, R = 10 min, D = 0. Young: sqrt(2 x 5 x 360) = 60 min; Daly: 60 (1 + 0.0278 +
// 0.0008) - 5 = 56.7 min. With 57 min: e^(10/360) (e^(62/360) - 1) 360 = 1.02817 x 0.18795 x 360 = 69.57 min; goodput
// 57 / 69.57 = 81.9 %.
#pragma once

#include <cstdint>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/units.h"

namespace ddlsim::cost {

enum class CheckpointMode {
  kBlocking,  // training waits for the write
  kAsync,     // for a snapshot in the hosts' memory; the write goes on beside it
  kMemory,    // the same, and the snapshot itself is what most failures go back to
};

inline constexpr Choices<CheckpointMode, 6> kCheckpointModes{{
    {"blocking", CheckpointMode::kBlocking},
    {"async", CheckpointMode::kAsync},
    {"memory", CheckpointMode::kMemory},
    {"sync", CheckpointMode::kBlocking},
    {"asynchronous", CheckpointMode::kAsync},
    {"in-memory", CheckpointMode::kMemory},
}};

/// A run that fails now and then. Rates above zero, times of zero or more.
struct FailingRun {
  CheckpointMode mode = CheckpointMode::kBlocking;
  Rate failures{};                // of everything it needs
  double beyond_memory = 0;       // share of them that takes copies in memory along
  Time blocked{};                 // by one checkpoint
  Time write{};                   // beside training, until it counts; blocking: no part
  std::int64_t remote_every = 1;  // in memory: each n-th goes to storage
  Time down{};                    // D
  Time recovery{};                // R, from storage
  Time memory_recovery{};         // R_a, from memory
};

/// Of the wall time; they add up to 1.
struct GoodputShares {
  double useful = 0;       // steps that count: the goodput
  double checkpoints = 0;  // training stands still for them
  double recomputed = 0;   // worked, lost and worked again
  double recovery = 0;     // reading checkpoints and warming up
  double down = 0;         // from a failure to its restart, waiting for spares among it
  Rate failures{};         // per wall time
};

[[nodiscard]] Time young_interval(Time blocked, Time mtbf);
[[nodiscard]] Time daly_interval(Time blocked, Time mtbf);
/// Of blocking and asynchronous checkpoints; of copies in memory where storage is far from all failures.
[[nodiscard]] Time best_interval(Time blocked, Time mtbf);

/// `interval` is what is worked between two checkpoints. All zero but for a run that makes no headway: beyond e^500.
[[nodiscard]] GoodputShares goodput(const FailingRun& run, Time interval);

/// Servers that stand by.
struct SparePool {
  Rate lost{};    // servers that fail, while the run does not stand
  Time repair{};  // mean time until one is back
  std::int64_t spares = 0;
};

struct SpareWait {
  double short_of = 0;  // probability that a failed server finds no spare
  Time mean{};          // of every failed server
};

/// `down`: what every failure stands anyhow.
[[nodiscard]] SpareWait spare_wait(const SparePool& pool, Rate failures, Time down);

}  // namespace ddlsim::cost
