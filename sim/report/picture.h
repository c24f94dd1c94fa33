// Pictures as SVG: bars of parts that add up, and points, lines and bands over two axes. They hold no script, load
// nothing, and say in a <title> what they show; every mark has its own, which a pointer or a screen reader finds.
//
// Colours are those of Okabe and Ito (2008), told apart by people who see few; text takes the colour of what is around
// it, so that a page may be light or dark. Sizes are pixels of a picture 760 wide that scales.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddlsim::report {

/// `<`, `>`, `&` and quotes as entities; control characters and bytes that are no UTF-8 as U+FFFD.
[[nodiscard]] std::string escaped(std::string_view text);

/// Of Okabe and Ito: blue, vermilion, sky, orange, green, purple, yellow, grey.
enum class Ink { kBlue, kVermilion, kSky, kOrange, kGreen, kPurple, kYellow, kGrey };

/// A part of a bar.
struct BarPart {
  std::string name;
  Ink ink = Ink::kBlue;
  double size = 0;   // as a share of nothing: bars share one scale
  std::string text;  // its size in words
};

struct Bar {
  std::string name;
  std::vector<BarPart> parts{};  // those of no size are left out
  std::string text{};            // at its end
  std::optional<std::pair<double, double>> interval{};
};

struct BarChart {
  std::string title;
  std::vector<Bar> bars{};
  std::optional<std::pair<double, std::string>> limit{};  // a line that bars should not cross, and its name
};

struct Axis {
  std::string name;
  bool logarithmic = false;
  std::function<std::string(double)> text{};  // of a tick
  std::vector<double> ticks{};                // empty: round numbers; those outside are left out
};

enum class Mark { kLine, kDashes, kDots };

struct Point {
  double x = 0;
  double y = 0;
  double low = 0;  // of a band, where the series has one
  double high = 0;
  std::string text{};
};

struct Series {
  std::string name;
  Ink ink = Ink::kBlue;
  Mark mark = Mark::kLine;
  std::vector<Point> points{};  // lines: by x. What is not finite, or not above zero on a logarithmic axis, is left out
  bool band = false;
};

struct Chart {
  std::string title;
  Axis x;
  Axis y;  // from zero on, unless logarithmic
  std::vector<Series> series{};
};

/// `alone`: a file of its own, on white.
[[nodiscard]] std::string svg_of(const BarChart& chart, bool alone);
[[nodiscard]] std::string svg_of(const Chart& chart, bool alone);

/// The lines and dots of a chart on a terminal, `columns` wide and `rows` high at most.
[[nodiscard]] std::string text_of(const Chart& chart, std::size_t columns, std::size_t rows);

}  // namespace ddlsim::report
