// The settings that are numbers: their kinds, what they may be, and where a job has them. Private to the room.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

inline constexpr double kInfiniteRate = 1e18;  // B/s: the end of what is searched, as good as infinite

enum class NumberKind {
  kCount,
  kFactor,  // a plain number
  kShare,   // of 1; shown in percent
  kTime,
  kDataSize,
  kBandwidth,
  kNetworkRate,  // a bandwidth in bits
  kComputeRate,
  kWork,
  kEventRate,
  kPower,
  kPriceRate,
};

/// What scaling it does to the step, for the doubling law of whatif/elasticity.h.
enum class NumberRole { kRate, kFixedTime, kSize, kOther };

struct NumberSetting {
  std::string_view path;
  NumberKind kind = NumberKind::kCount;
  double lowest = 0;  // that is searched, SI
  double highest = 0;
  NumberRole role = NumberRole::kOther;
  /// What a job has, SI; nothing: it has none. Null: nobody asks.
  std::optional<double> (*now)(const Scenario&) = nullptr;
  /// Makes it so many times as large, everything else alike. Rates, times and sizes alone.
  void (*scale)(Scenario&, double) = nullptr;
};

/// In the order of `ddlsim list settings`.
[[nodiscard]] std::span<const NumberSetting> number_settings();

/// The setting that a word means: its path, `micro_batch`, or a dimension of a model, whose path is the word. Errors:
/// kNotFound for no setting, kInvalidArgument for one that is no number.
[[nodiscard]] Expected<NumberSetting> number_setting(std::string_view word);

/// SI unit of a kind; empty: it has none.
[[nodiscard]] std::string_view si_unit(NumberKind kind);
/// So many significant digits in the kind's unit, as --set takes them.
[[nodiscard]] std::string number_text(NumberKind kind, double value, int digits);
/// As people read it, which --set takes too: times in the largest unit that they have one of.
[[nodiscard]] std::string shown_number(NumberKind kind, double value, int digits);
/// The same number, rounded as `shown_number` rounds.
[[nodiscard]] double rounded_number(NumberKind kind, double value, int digits);
/// Errors: of another kind.
[[nodiscard]] Expected<double> parse_number_of(NumberKind kind, std::string_view text);

}  // namespace ddlsim::whatif
