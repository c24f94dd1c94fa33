#include "picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <vector>

#include "ddlsim/support/names.h"

namespace ddlsim::report {
namespace {

constexpr double kWidth = 760;
constexpr double kLetter = 6.6;  // a letter of 12 pixels, on average

constexpr std::array<std::string_view, 8> kPalette{"#0072b2", "#d55e00", "#56b4e9", "#e69f00",
                                                   "#009e73", "#cc79a7", "#f0e442", "#8c8c8c"};

std::string_view colour(Ink ink) { return kPalette[static_cast<std::size_t>(ink)]; }

/// How long a byte's UTF-8 sequence is; 0: it begins none.
std::size_t sequence_of(unsigned char byte) {
  if (byte < 0x80) return 1;
  if (byte >= 0xC2 && byte < 0xE0) return 2;
  if (byte >= 0xE0 && byte < 0xF0) return 3;
  return byte >= 0xF0 && byte < 0xF5 ? 4 : 0;
}

bool is_whole(std::string_view text, std::size_t at, std::size_t length) {
  if (length == 0 || at + length > text.size()) return false;
  const auto follows = [](char c) { return (static_cast<unsigned char>(c) >> 6) == 0x2; };
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                     text.begin() + static_cast<std::ptrdiff_t>(at + length), follows);
}

/// The first letters of a text, and that it goes on.
std::string shortened(const std::string& text, std::size_t letters) {
  std::size_t seen = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) >> 6) != 0x2;
    if (begins && seen++ == letters) return text.substr(0, at) + "…";
  }
  return text;
}

std::string head(const std::string& title, double height, bool alone) {
  std::string text = fmt::format(
      "<svg {}viewBox=\"0 0 {} {:.0f}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\"{}>\n"
      "<title>{}</title>\n",
      alone ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", kWidth, height, alone ? " color=\"#1a1a1a\"" : "",
      escaped(title));
  if (alone) text += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  return text;
}

std::string label(double x, double y, std::string_view anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"currentColor\">{}</text>\n", x, y,
                     anchor, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"currentColor\" {}/>\n", x1,
                     y1, x2, y2, style);
}

struct LegendEntry {
  std::string name;
  Ink ink;
  bool dashed = false;
};

/// Squares, or a dash's two, with names, in as many lines as they need; one colour needs none. Returns their height.
double add_legend(const std::vector<LegendEntry>& entries, double top, std::string& svg) {
  if (entries.size() < 2) return 8;
  double x = 8;
  double y = top + 12;
  for (const LegendEntry& one : entries) {
    const double wide = 22 + kLetter * static_cast<double>(one.name.size());
    if (x > 8 && x + wide > kWidth) {
      x = 8;
      y += 18;
    }
    constexpr std::string_view kMark = "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n";
    if (one.dashed) {
      for (const double left : {0.0, 8.0}) svg += fmt::format(kMark, x + left, y - 6, 5, 3, colour(one.ink));
    } else {
      svg += fmt::format(kMark, x, y - 10, 11, 11, colour(one.ink));
    }
    svg += label(x + 16, y, "start", one.name);
    x += wide + 10;
  }
  return y - top + 8;
}

/// 1, 2 or 5 times a power of ten, or just above `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (times * power >= least * (1 - 1e-12)) return times * power;
  }
  return 10 * power;
}

/// An axis that knows its ends.
class Scale {
 public:
  Scale(const Axis& axis, double low, double high) : axis_(axis), low_(low), high_(high) {
    if (!axis.logarithmic) {
      if (!(high_ > low_)) high_ = low_ + 1;
    } else if (!(high_ > low_)) {
      low_ /= 2;
      high_ *= 2;
    }
  }

  /// From 0 to 1.
  [[nodiscard]] double at(double value) const {
    if (axis_.logarithmic) return std::log(value / low_) / std::log(high_ / low_);
    return (value - low_) / (high_ - low_);
  }

  [[nodiscard]] std::vector<double> ticks() const {
    constexpr double kMost = 6;
    std::vector<double> all;
    if (!axis_.ticks.empty()) {
      std::copy_if(axis_.ticks.begin(), axis_.ticks.end(), std::back_inserter(all),
                   [&](double tick) { return tick >= low_ && tick <= high_; });
      return all;
    }
    if (!axis_.logarithmic) {
      const double step = round_step((high_ - low_) / kMost);
      for (double tick = std::ceil(low_ / step) * step; tick <= high_ * (1 + 1e-9); tick += step) all.push_back(tick);
      return all;
    }
    const double decades = std::log10(high_ / low_);
    const std::vector<double> times = decades <= 2.5 ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
    const double every = std::max(1.0, std::ceil(decades / kMost));
    for (double power = std::floor(std::log10(low_)); power <= std::log10(high_); power += every) {
      for (const double one : times) {
        const double tick = one * std::pow(10.0, power);
        if (tick >= low_ * (1 - 1e-9) && tick <= high_ * (1 + 1e-9)) all.push_back(tick);
      }
    }
    return all;
  }

 private:
  const Axis& axis_;
  double low_;
  double high_;
};

bool shows(const Axis& axis, double value) { return std::isfinite(value) && (!axis.logarithmic || value > 0); }

/// A chart with the ends of its axes.
struct Plotted {
  const Chart& chart;
  Scale x;
  Scale y;
};

Plotted plotted(const Chart& chart) {
  constexpr double kNothing = 1e300;
  double left = kNothing;
  double right = -kNothing;
  double bottom = kNothing;
  double top = -kNothing;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (!shows(chart.x, point.x) || !shows(chart.y, point.y)) continue;
      left = std::min(left, point.x);
      right = std::max(right, point.x);
      bottom = std::min(bottom, point.y);
      top = std::max(top, series.band && std::isfinite(point.high) ? point.high : point.y);
    }
  }
  if (right < left) left = right = bottom = top = 1;
  const double floor = chart.y.logarithmic ? bottom / 1.1 : 0;
  return {chart, Scale(chart.x, left, right), Scale(chart.y, floor, chart.y.logarithmic ? top * 1.1 : top * 1.05)};
}

struct Frame {
  double left = 90;
  double right = kWidth - 24;
  double top = 16;
  double bottom = 300;

  [[nodiscard]] double x(double share) const { return left + share * (right - left); }
  [[nodiscard]] double y(double share) const { return bottom - share * (bottom - top); }
};

void add_axes(const Plotted& plot, const Frame& frame, std::string& svg) {
  for (const double tick : plot.y.ticks()) {
    const double y = frame.y(plot.y.at(tick));
    svg += line(frame.left, y, frame.right, y, "stroke-opacity=\"0.15\"");
    svg += label(frame.left - 6, y + 4, "end", plot.chart.y.text(tick));
  }
  double free = 0;
  for (const double tick : plot.x.ticks()) {
    const double x = frame.x(plot.x.at(tick));
    const std::string text = plot.chart.x.text(tick);
    const double half = kLetter * static_cast<double>(text.size()) / 2;
    svg += line(x, frame.bottom, x, frame.bottom + 4, "stroke-opacity=\"0.5\"");
    if (x - half < free) continue;
    free = x + half + 6;
    svg += label(x, frame.bottom + 18, "middle", text);
  }
  svg += line(frame.left, frame.bottom, frame.right, frame.bottom, "stroke-opacity=\"0.6\"");
  svg += label((frame.left + frame.right) / 2, frame.bottom + 36, "middle", plot.chart.x.name);
  svg += fmt::format(
      "<text transform=\"rotate(-90)\" x=\"{:.1f}\" y=\"14\" text-anchor=\"middle\" fill=\"currentColor\">{}</text>\n",
      -(frame.top + frame.bottom) / 2, escaped(plot.chart.y.name));
}

std::string where(const Plotted& plot, const Frame& frame, double x, double y) {
  return fmt::format("{:.1f},{:.1f}", frame.x(plot.x.at(x)), frame.y(std::clamp(plot.y.at(y), 0.0, 1.0)));
}

void add_series(const Plotted& plot, const Frame& frame, const Series& series, std::string& svg) {
  std::string path;
  std::string above;
  std::vector<std::string> below;
  std::string dots;
  const double radius = series.points.size() > 200 ? 2 : 3.5;
  for (const Point& point : series.points) {
    if (!shows(plot.chart.x, point.x) || !shows(plot.chart.y, point.y)) continue;
    path += (path.empty() ? "M" : " L") + where(plot, frame, point.x, point.y);
    if (series.band) {
      above += where(plot, frame, point.x, point.high) + " ";
      below.push_back(where(plot, frame, point.x, point.low));
    }
    if (series.mark == Mark::kDashes) continue;
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"{}><title>{}</title></circle>\n",
                        frame.x(plot.x.at(point.x)), frame.y(plot.y.at(point.y)), radius, colour(series.ink),
                        series.mark == Mark::kDots ? " fill-opacity=\"0.6\"" : "", escaped(point.text));
  }
  if (!above.empty()) {
    std::reverse(below.begin(), below.end());  // forth above, back below
    svg += fmt::format("<polygon points=\"{}{}\" fill=\"{}\" fill-opacity=\"0.18\"/>\n", above, join(below, " "),
                       colour(series.ink));
  }
  if (series.mark != Mark::kDots && !path.empty()) {
    svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", path, colour(series.ink),
                       series.mark == Mark::kDashes ? " stroke-dasharray=\"6 5\"" : "");
  }
  svg += dots;
}

/// Where bars begin, and how much of a pixel their unit is.
struct BarScale {
  double left = 0;
  double unit = 0;
};

void add_bar(const Bar& bar, const BarScale& scale, double top, std::string& svg) {
  constexpr double kHigh = 20;
  double x = scale.left;
  svg += "<g>";
  svg += label(scale.left - 8, top + 14, "end", shortened(bar.name, 34));
  for (const BarPart& part : bar.parts) {
    const double width = part.size * scale.unit;
    if (!(width > 0)) continue;
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" tabindex=\"0\">"
        "<title>{}: {}, {}</title></rect>\n",
        x, top, width, kHigh, colour(part.ink), escaped(bar.name), escaped(part.name), escaped(part.text));
    x += width;
  }
  if (bar.interval) {
    const double low = scale.left + bar.interval->first * scale.unit;
    const double high = scale.left + bar.interval->second * scale.unit;
    const double middle = top + kHigh / 2;
    svg += line(low, middle, high, middle, "stroke-width=\"1.5\"");
    svg += line(low, middle - 4, low, middle + 4, "stroke-width=\"1.5\"");
    svg += line(high, middle - 4, high, middle + 4, "stroke-width=\"1.5\"");
    x = std::max(x, high);
  }
  svg += label(x + 6, top + 14, "start", bar.text);
  svg += "</g>\n";
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = sequence_of(byte);
    const bool control = byte < 0x20 && byte != '\n' && byte != '\t';
    if (!is_whole(text, at, length) || control || byte == 0x7F) {
      out += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    switch (text[at]) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += text.substr(at, length);
    }
    at += length;
  }
  return out;
}

std::string svg_of(const BarChart& chart, bool alone) {
  double longest = 0;
  std::size_t names = 0;
  std::size_t texts = 0;
  std::vector<LegendEntry> legend;
  for (const Bar& bar : chart.bars) {
    double all = 0;
    for (const BarPart& part : bar.parts) {
      if (!(part.size > 0)) continue;
      all += part.size;
      const bool known =
          std::any_of(legend.begin(), legend.end(), [&](const auto& one) { return one.name == part.name; });
      if (!known) legend.push_back({part.name, part.ink});
    }
    longest = std::max({longest, all, bar.interval && std::isfinite(bar.interval->second) ? bar.interval->second : 0});
    names = std::max(names, std::min<std::size_t>(bar.name.size(), 35));
    texts = std::max(texts, bar.text.size());
  }
  if (chart.limit) longest = std::max(longest, chart.limit->first);
  const double left = 16 + kLetter * static_cast<double>(names);
  const double right = kWidth - 14 - kLetter * static_cast<double>(texts);
  const BarScale scale{left, longest > 0 ? std::max(right - left, 40.0) / longest : 0};
  constexpr double kApart = 28;
  const double bottom = 8 + kApart * static_cast<double>(chart.bars.size());
  std::string body;
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    add_bar(chart.bars[i], scale, 8 + kApart * static_cast<double>(i), body);
  }
  double height = bottom;
  if (chart.limit) {
    const double x = scale.left + chart.limit->first * scale.unit;
    body += line(x, 2, x, bottom, "stroke-dasharray=\"4 3\"");
    body += label(x, bottom + 12, "end", chart.limit->second);
    height += 18;
  }
  height += add_legend(legend, height, body);
  return head(chart.title, height, alone) + body + "</svg>\n";
}

std::string svg_of(const Chart& chart, bool alone) {
  const Plotted plot = plotted(chart);
  const Frame frame;
  std::string body;
  add_axes(plot, frame, body);
  std::vector<LegendEntry> legend;
  for (const Series& series : chart.series) {
    add_series(plot, frame, series, body);
    if (!series.name.empty()) legend.push_back({series.name, series.ink, series.mark == Mark::kDashes});
  }
  const double height = frame.bottom + 46 + add_legend(legend, frame.bottom + 46, body);
  return head(chart.title, height, alone) + body + "</svg>\n";
}

std::string text_of(const Chart& chart, std::size_t columns, std::size_t rows) {
  const Plotted plot = plotted(chart);
  std::vector<std::string> names;
  std::vector<double> ticks = plot.y.ticks();
  std::size_t margin = 0;
  for (const double tick : ticks) margin = std::max(margin, chart.y.text(tick).size());
  const std::size_t wide = std::max<std::size_t>(columns > margin + 2 ? columns - margin - 2 : 0, 10);
  const std::size_t high = std::max<std::size_t>(rows, 4);
  std::vector<std::string> screen(high, std::string(wide, ' '));
  const auto cell = [](double share, std::size_t cells) {
    const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(cells - 1);
    return static_cast<std::size_t>(std::lround(at));
  };
  // The first series stands before the others.
  static constexpr std::string_view kMarks = "*o+x#@%&";
  std::string legend;
  for (std::size_t s = chart.series.size(); s-- > 0;) {
    const char mark = kMarks[s % kMarks.size()];
    for (const Point& point : chart.series[s].points) {
      if (!shows(chart.x, point.x) || !shows(chart.y, point.y)) continue;
      screen[high - 1 - cell(plot.y.at(point.y), high)][cell(plot.x.at(point.x), wide)] = mark;
    }
    if (!chart.series[s].name.empty()) legend = fmt::format("{} {}  {}", mark, chart.series[s].name, legend);
  }
  std::vector<std::string> margins(high, std::string(margin, ' '));
  for (const double tick : ticks) {
    const std::string text = chart.y.text(tick);
    margins[high - 1 - cell(plot.y.at(tick), high)] = std::string(margin - text.size(), ' ') + text;
  }
  std::string out = chart.y.name + "\n";
  for (std::size_t r = 0; r < high; ++r) {
    std::string row = margins[r] + " |" + screen[r];
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  out += std::string(margin, ' ') + " +" + std::string(wide, '-') + "\n";
  std::string below(margin + 2 + wide, ' ');
  std::size_t free = 0;
  for (const double tick : plot.x.ticks()) {
    const std::string text = chart.x.text(tick);
    const std::size_t at = margin + 2 + cell(plot.x.at(tick), wide);
    const std::size_t from =
        std::min(at >= text.size() / 2 ? at - text.size() / 2 : 0, below.size() - std::min(below.size(), text.size()));
    if (from < free || from + text.size() > below.size()) continue;
    below.replace(from, text.size(), text);
    free = from + text.size() + 1;
  }
  below.erase(below.find_last_not_of(' ') + 1);
  out += below + "\n" + std::string(margin + 2, ' ') + chart.x.name + "\n";
  if (!legend.empty()) out += legend.substr(0, legend.find_last_not_of(' ') + 1) + "\n";
  return out;
}

}  // namespace ddlsim::report
