// Physical quantities that cannot be confused.
//
// A Quantity holds one double in SI base units (second, byte, FLOP, joule, dollar, gram) and has no public value
// constructor: it is entered by naming a unit, `gigabytes(5)`, and read by naming one, `size.in(gigabytes)`. Products
// and quotients have the dimension they should: gigabytes(5) / gigabytes_per_second(2) is a Time. A dimensionless
// result is a double.
//
//   GB = 1e9 bytes, GiB = 2^30 bytes, Gb = 1e9 bits = 0.125e9 bytes. A multiply-add is two FLOPs.
//
//   Time step = gigabytes(1.5) / gigabits_per_second(25);      // 0.48 s
//   step.in(milliseconds)                                       // 480.0
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace ddlsim {

/// Exponents of the base dimensions: time, data, floating-point work, energy, money, mass.
struct Dimension {
  int time = 0;
  int data = 0;
  int work = 0;
  int energy = 0;
  int money = 0;
  int mass = 0;

  friend constexpr bool operator==(const Dimension&, const Dimension&) = default;
  friend constexpr Dimension operator+(Dimension a, Dimension b) {
    return {a.time + b.time, a.data + b.data, a.work + b.work, a.energy + b.energy, a.money + b.money, a.mass + b.mass};
  }
  friend constexpr Dimension operator-(Dimension a, Dimension b) {
    return {a.time - b.time, a.data - b.data, a.work - b.work, a.energy - b.energy, a.money - b.money, a.mass - b.mass};
  }
};

template <Dimension D>
class Unit;

/// A value of dimension D. Same size and cost as a double; finite or +infinity by construction of its makers' inputs.
template <Dimension D>
class Quantity {
 public:
  constexpr Quantity() = default;

  static constexpr Quantity zero() { return Quantity{}; }
  static constexpr Quantity infinity() { return Quantity{std::numeric_limits<double>::infinity()}; }

  /// The number of `unit`s in this quantity.
  [[nodiscard]] constexpr double in(Unit<D> unit) const;

  friend constexpr auto operator<=>(Quantity a, Quantity b) = default;
  friend constexpr bool operator==(Quantity a, Quantity b) = default;
  // Compilers turn these into one comparison; of what <=> gives them they make three and a jump.
  friend constexpr bool operator<(Quantity a, Quantity b) { return a.value_ < b.value_; }
  friend constexpr bool operator>(Quantity a, Quantity b) { return a.value_ > b.value_; }
  friend constexpr bool operator<=(Quantity a, Quantity b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>=(Quantity a, Quantity b) { return a.value_ >= b.value_; }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity{a.value_ + b.value_}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity{a.value_ - b.value_}; }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity{a.value_ * k}; }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity{a.value_ * k}; }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity{a.value_ / k}; }
  constexpr Quantity& operator+=(Quantity b) { return *this = *this + b; }
  constexpr Quantity& operator-=(Quantity b) { return *this = *this - b; }

  template <Dimension E>
  constexpr auto operator*(Quantity<E> b) const {
    return wrap<D + E>(value_ * b.value_);
  }
  template <Dimension E>
  constexpr auto operator/(Quantity<E> b) const {
    return wrap<D - E>(value_ / b.value_);
  }

 private:
  template <Dimension>
  friend class Quantity;
  template <Dimension>
  friend class Unit;

  explicit constexpr Quantity(double value) : value_(value) {}

  template <Dimension R>
  static constexpr auto wrap(double value) {
    if constexpr (R == Dimension{}) {
      return value;
    } else {
      return Quantity<R>{value};
    }
  }

  double value_ = 0.0;
};

/// A named unit: `gigabytes(5)` makes a quantity, `q.in(gigabytes)` reads one.
template <Dimension D>
class Unit {
 public:
  explicit constexpr Unit(double factor) : factor_(factor) {}
  constexpr Quantity<D> operator()(double number) const { return Quantity<D>{number * factor_}; }

 private:
  template <Dimension>
  friend class Quantity;
  double factor_;
};

template <Dimension D>
constexpr double Quantity<D>::in(Unit<D> unit) const {
  return value_ / unit.factor_;
}

template <Dimension D>
constexpr Quantity<D> min(Quantity<D> a, Quantity<D> b) {
  return b < a ? b : a;
}
template <Dimension D>
constexpr Quantity<D> max(Quantity<D> a, Quantity<D> b) {
  return a < b ? b : a;
}

namespace dimension {
inline constexpr Dimension kTime{.time = 1};
inline constexpr Dimension kData{.data = 1};
inline constexpr Dimension kWork{.work = 1};
inline constexpr Dimension kEnergy{.energy = 1};
inline constexpr Dimension kMoney{.money = 1};
inline constexpr Dimension kMass{.mass = 1};
}  // namespace dimension

using Time = Quantity<dimension::kTime>;
using DataSize = Quantity<dimension::kData>;
using Work = Quantity<dimension::kWork>;
using Energy = Quantity<dimension::kEnergy>;
using Money = Quantity<dimension::kMoney>;
using Mass = Quantity<dimension::kMass>;
using Bandwidth = Quantity<dimension::kData - dimension::kTime>;
using ComputeRate = Quantity<dimension::kWork - dimension::kTime>;
using Intensity = Quantity<dimension::kWork - dimension::kData>;
using Power = Quantity<dimension::kEnergy - dimension::kTime>;
using EnergyPerFlop = Quantity<dimension::kEnergy - dimension::kWork>;
using EnergyPerByte = Quantity<dimension::kEnergy - dimension::kData>;
using PriceRate = Quantity<dimension::kMoney - dimension::kTime>;
/// Of things that happen: requests, samples, clock cycles.
using Rate = Quantity<Dimension{.time = -1}>;
using CarbonIntensity = Quantity<dimension::kMass - dimension::kEnergy>;  // CO2 for electricity

inline constexpr Unit<dimension::kTime> seconds{1.0};
inline constexpr Unit<dimension::kTime> milliseconds{1e-3};
inline constexpr Unit<dimension::kTime> microseconds{1e-6};
inline constexpr Unit<dimension::kTime> nanoseconds{1e-9};
inline constexpr Unit<dimension::kTime> hours{3600.0};

inline constexpr Unit<dimension::kData> bytes{1.0};
inline constexpr Unit<dimension::kData> kilobytes{1e3};
inline constexpr Unit<dimension::kData> megabytes{1e6};
inline constexpr Unit<dimension::kData> gigabytes{1e9};
inline constexpr Unit<dimension::kData> terabytes{1e12};
inline constexpr Unit<dimension::kData> kibibytes{1024.0};
inline constexpr Unit<dimension::kData> mebibytes{1024.0 * 1024.0};
inline constexpr Unit<dimension::kData> gibibytes{1024.0 * 1024.0 * 1024.0};

inline constexpr Unit<dimension::kWork> flops{1.0};
inline constexpr Unit<dimension::kWork> gigaflops{1e9};
inline constexpr Unit<dimension::kWork> teraflops{1e12};

inline constexpr Unit<dimension::kData - dimension::kTime> bytes_per_second{1.0};
inline constexpr Unit<dimension::kData - dimension::kTime> gigabytes_per_second{1e9};
inline constexpr Unit<dimension::kData - dimension::kTime> terabytes_per_second{1e12};
inline constexpr Unit<dimension::kData - dimension::kTime> gigabits_per_second{1e9 / 8.0};

inline constexpr Unit<dimension::kWork - dimension::kTime> flops_per_second{1.0};
inline constexpr Unit<dimension::kWork - dimension::kTime> teraflops_per_second{1e12};

inline constexpr Unit<dimension::kWork - dimension::kData> flops_per_byte{1.0};

inline constexpr Unit<dimension::kEnergy> joules{1.0};
inline constexpr Unit<dimension::kEnergy> kilowatt_hours{3.6e6};
inline constexpr Unit<dimension::kMass> grams{1.0};
inline constexpr Unit<dimension::kMass> kilograms{1e3};
inline constexpr Unit<dimension::kMass - dimension::kEnergy> grams_per_kilowatt_hour{1.0 / 3.6e6};
inline constexpr Unit<dimension::kEnergy - dimension::kTime> watts{1.0};
inline constexpr Unit<dimension::kEnergy - dimension::kWork> picojoules_per_flop{1e-12};
inline constexpr Unit<dimension::kEnergy - dimension::kData> picojoules_per_byte{1e-12};
inline constexpr Unit<dimension::kMoney> dollars{1.0};
inline constexpr Unit<dimension::kMoney - dimension::kTime> dollars_per_hour{1.0 / 3600.0};

inline constexpr Unit<Dimension{.time = -1}> per_second{1.0};

static_assert(sizeof(Time) == sizeof(double));

}  // namespace ddlsim
