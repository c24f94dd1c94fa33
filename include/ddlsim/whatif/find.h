// Inverse questions: which value of a setting makes a condition hold.
//
//   find x such that m(x) >= target,  m(x) <= target,  or  m(x) = target
//
// x is any numeric setting (`ddlsim list settings`), m a metric of the prediction of the job with x and nothing else
// changed. The answer is the end of the values that hold: the least network, the most samples; where values beyond
// both ends fail, both; where every value that was tried holds, the end that is nearest to failing.
//
//   continuous x  tried at steps of a decade over everything it may be (a rate up to 1e18 B/s, which is called
//                 infinite), then halved between two neighbours of which one holds, to four significant digits (six
//                 for `=`): what is printed is what was predicted.
//   a count       every value where there are at most 40; else powers of two, then halved between neighbours. Where
//                 the tried values are not monotone, or some are no job at all, and of what a whole run takes (its
//                 steps are whole), every value up to `kEveryValue` is tried, beyond that those between neighbours of
//                 which one holds.
//
// A value whose job does not fit its GPU does not hold, unless the condition is on memory, or the job does not fit as
// it is. Of several ends the one nearest to the job's own value counts. `=` holds within 0.1 % (counts: 1 %); where m
// jumps across the target it does not hold. All values that were tried are in the answer.
//
// Where TCP drives the network by its server's file or by assumption, the same is asked of RoCE beside it
// (Inverse::over_rdma): a rate alone keeps what drives it.
//
// What is found holds for the expected step, so nearly as often as not for a real one: the answer says with which
// probability, and FindOptions::sure asks for more.
//
// Limits: between tried values of a metric that is not monotone there may be others that hold.
//
// Worked example: two servers exchange through ports of rate b what takes 1 s at 1 GB/s, beside compute of 1 s, nothing
// overlapped: efficiency = 1 / (1 + 1 GB / b). 80 % needs b = 4 GB/s; at infinite b it is 100 %.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ddlsim/answer/inverse.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

enum class Metric {
  kStepTime,
  kThroughput,
  kScalingEfficiency,
  kMfu,
  kMemory,
  kDeviceMemory,
  kCost,
  kTimeToTrain,
  kExposedCommunication,
  kGoodput,
  kEnergy,
  kCarbon
};

inline constexpr Choices<Metric, 13> kMetrics{{
    {"step_time", Metric::kStepTime},
    {"throughput", Metric::kThroughput},
    {"scaling_efficiency", Metric::kScalingEfficiency},
    {"mfu", Metric::kMfu},
    {"memory", Metric::kMemory},
    {"device_memory", Metric::kDeviceMemory},  // with the context and what the allocator holds
    {"cost", Metric::kCost},
    {"time_to_train", Metric::kTimeToTrain},
    {"goodput", Metric::kGoodput},
    {"energy", Metric::kEnergy},
    {"CO2", Metric::kCarbon},
    {"exposed_communication", Metric::kExposedCommunication},
    {"communication_exposed", Metric::kExposedCommunication},
}};

enum class Relation { kAtLeast, kAtMost, kEqual };

/// "scaling_efficiency >= 90 %".
struct Condition {
  Metric metric = Metric::kStepTime;
  Relation relation = Relation::kAtMost;
  double target = 0;     // in the metric's SI unit: s, samples/s, a share, bytes, dollars, J, grams
  bool tokens = false;   // of a throughput: tokens instead of samples
  bool of_step = false;  // of exposed communication: a share of the step instead of a time
};

/// Errors: no metric, no relation, a value of another unit, and what is always true or never, as a share above 100 %.
[[nodiscard]] Expected<Condition> parse_condition(std::string_view text);

/// As people write it: "scaling efficiency >= 90 %".
[[nodiscard]] std::string words_of(const Condition& condition);

inline constexpr std::int64_t kEveryValue = 1024;

/// Where to look; what nobody says is as the variable's kind has it.
struct FindOptions {
  std::optional<std::string> from{};
  std::optional<std::string> to{};
  /// The condition is to hold with this probability, by the prediction's 90 % interval (ratio.h), instead of for the
  /// expected step. Of step time, throughput, time to train, cost and MFU; not of `=`.
  std::optional<double> sure{};
};

/// What a command line can have wrong before anything is asked. Errors: a variable that is no number, ends of its range
/// that are none of its kind or have nothing between them. `find` refuses them too.
[[nodiscard]] Expected<void> check_variable(std::string_view variable, const FindOptions& options);

/// A share above 0 and below 1, for FindOptions::sure: "90%". Errors: anything else.
[[nodiscard]] Expected<double> parse_sure(std::string_view text);

/// Errors: a variable that is no number; kInfeasible where it makes no difference;
/// those of resolve and predict for the job itself.
[[nodiscard]] Expected<answer::Inverse> find(const io::Catalog& catalog, std::span<const Override> base,
                                             std::string_view variable, const Condition& condition,
                                             const FindOptions& options = {});

}  // namespace ddlsim::whatif
