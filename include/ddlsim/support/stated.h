// A value and where it came from: the origin travels with the value, so that the same values mean the same however they
// were given.
//
//   Stated<DataSize> bucket = by_default(mebibytes(25));
//   bucket = mebibytes(10);          // somebody said so: bucket.stated()
//   bucket.get() / rate              // reads the value; it also converts to `const T&`
//
// A plain T that becomes a Stated<T> is stated; everything else names its origin.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace ddlsim {

enum class Origin : std::uint8_t {
  kDefault,    // nobody said anything
  kDatasheet,  // of a file of the catalogue, with its source
  kFramework,  // what a named framework does
  kFitted,     // to measurements
  kStated,     // the user said so
};

template <typename T>
class Stated {
 public:
  constexpr Stated() = default;
  constexpr Stated(T value, Origin origin) : value_(std::move(value)), origin_(origin) {}
  // NOLINTBEGIN(google-explicit-constructor): assigning a value is stating it
  template <typename U>
  requires(std::convertible_to<U, T> && !std::same_as<U, Stated>) constexpr Stated(U value)
      : value_(std::move(value)), origin_(Origin::kStated) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] constexpr const T& get() const { return value_; }
  // NOLINTNEXTLINE(google-explicit-constructor): reads as the value
  constexpr operator const T&() const { return value_; }
  constexpr const T* operator->() const { return &value_; }

  [[nodiscard]] constexpr Origin origin() const { return origin_; }
  [[nodiscard]] constexpr bool stated() const { return origin_ == Origin::kStated; }
  /// Another value, from where this one came.
  constexpr void set(T value) { value_ = std::move(value); }
  /// The same value, from somewhere else.
  constexpr void set_origin(Origin origin) { origin_ = origin; }

 private:
  T value_{};
  Origin origin_ = Origin::kDefault;
};

/// The same value, wherever both came from.
template <typename T>
[[nodiscard]] constexpr bool operator==(const Stated<T>& a, const Stated<T>& b) {
  return a.get() == b.get();
}

template <typename T>
[[nodiscard]] constexpr Stated<T> by_default(T value) {
  return {std::move(value), Origin::kDefault};
}
template <typename T>
[[nodiscard]] constexpr Stated<T> from_datasheet(T value) {
  return {std::move(value), Origin::kDatasheet};
}

}  // namespace ddlsim
