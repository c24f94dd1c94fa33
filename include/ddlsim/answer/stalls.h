// What `ddlsim stalls` answers with (whatif/stalls.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/units.h"

namespace ddlsim::answer {

/// The jobs whose steps are compared, in the order of Stash's runs.
enum class StallRun {
  kOneGpu,     // RUN0: batches made up in memory
  kSynthetic,  // RUN1: the same on all GPUs
  kCold,       // RUN2: the data set, nothing cached
  kWarm,       // RUN3: the data set, all of it cached
  kOneServer,  // RUN1 of one server with as many GPUs
};

inline constexpr Choices<StallRun, 10> kStallRuns{{
    {"one_gpu", StallRun::kOneGpu},
    {"synthetic", StallRun::kSynthetic},
    {"cold", StallRun::kCold},
    {"warm", StallRun::kWarm},
    {"one_server", StallRun::kOneServer},
    {"run0", StallRun::kOneGpu},
    {"run1", StallRun::kSynthetic},
    {"run2", StallRun::kCold},
    {"run3", StallRun::kWarm},
    {"run1_one_server", StallRun::kOneServer},
}};
inline constexpr std::size_t kStallRunCount = 5;

/// By StallRun: what a step of each takes; nothing: not known.
struct StallTimes {
  std::array<std::optional<Time>, kStallRunCount> steps{};

  [[nodiscard]] const std::optional<Time>& at(StallRun run) const { return steps[static_cast<std::size_t>(run)]; }
  std::optional<Time>& at(StallRun run) { return steps[static_cast<std::size_t>(run)]; }
};

struct Stall {
  Time time{};         // of a step
  double percent = 0;  // of what: whatif/stalls.h
};

struct Stalls {
  std::optional<Stall> interconnect;
  std::optional<Stall> network;
  std::optional<Stall> prep;
  std::optional<Stall> fetch;
};

struct StallReport {
  std::string title;
  std::string one_server;  // the server of that run
  std::string sample;
  StallTimes times;
  std::array<std::optional<double>, kStallRunCount> samples_per_second{};  // by StallRun
  Stalls stalls;
  std::optional<double> steps_of_epoch;
  std::optional<StallTimes> measured;  // somebody's own runs, and what they come to
  std::optional<Stalls> measured_stalls;
  std::vector<std::string> notes;
};

/// One model of a study.
struct StudiedModel {
  std::string model;
  std::int64_t parameters = 0;
  std::int64_t tensors = 0;
  Time one_gpu{};
  Stalls stalls;
};

struct StallStudy {
  std::string title;
  std::vector<StudiedModel> models;
  std::vector<std::string> notes;
};

}  // namespace ddlsim::answer
