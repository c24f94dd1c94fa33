// Pictures and pages: what stands in the SVG and HTML of charts worked out by hand.
#include "picture.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "page.h"

using namespace ddlsim;
using namespace ddlsim::report;

namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// The values of an attribute of every <rect that may be focused, in order.
std::vector<double> bars(const std::string& svg, const std::string& attribute) {
  std::vector<double> values;
  for (std::size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1)) {
    const std::string tag = svg.substr(at, svg.find('>', at) - at);
    if (tag.find("tabindex") == std::string::npos) continue;
    const std::size_t value = tag.find(" " + attribute + "=\"") + attribute.size() + 3;
    values.push_back(std::stod(tag.substr(value)));
  }
  return values;
}

std::string number(double value) { return std::to_string(static_cast<int>(value)); }

}  // namespace

TEST_CASE("picture: text that is no markup stays text") {
  CHECK(escaped("<script>alert(\"1\")</script> & 'x'") ==
        "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;");
  CHECK(escaped("a\x01"
                "b\x7f") ==
        "a\xEF\xBF\xBD"
        "b\xEF\xBF\xBD");
  CHECK(escaped("\xC3\xA9\xE2\x80\xA6") == "\xC3\xA9\xE2\x80\xA6");
  CHECK(escaped("\xC3(") == "\xEF\xBF\xBD(");                // begins a sequence that does not follow
  CHECK(escaped("\xF0\x9F") == "\xEF\xBF\xBD\xEF\xBF\xBD");  // ends too soon
}

TEST_CASE("picture: the parts of a bar stand one after the other, as long as they are") {
  const BarChart chart{
      .title = "t",
      .bars = {{"one", {{"a", Ink::kBlue, 1, "1 s"}, {"b", Ink::kSky, 3, "3 s"}, {"none", Ink::kGrey, 0, ""}}, "4 s"},
               {"two", {{"a", Ink::kBlue, 2, "2 s"}}, "2 s"}}};
  const std::string svg = svg_of(chart, false);
  const std::vector<double> x = bars(svg, "x");
  const std::vector<double> width = bars(svg, "width");
  REQUIRE(width.size() == 3);
  CHECK(width[1] == Approx(3 * width[0]).epsilon(1e-3));
  CHECK(width[2] == Approx(2 * width[0]).epsilon(1e-3));
  CHECK(x[1] == Approx(x[0] + width[0]).margin(0.02));
  CHECK(x[2] == x[0]);
  CHECK(count(svg, "<title>one: b, 3 s</title>") == 1);
  CHECK(svg.find("none") == std::string::npos);
  CHECK(svg.find("xmlns") == std::string::npos);
  CHECK(svg_of(chart, true).find("xmlns=\"http://www.w3.org/2000/svg\"") != std::string::npos);
}

TEST_CASE("picture: an interval and a limit are on the bars' scale") {
  BarChart chart{.title = "t", .bars = {{"one", {{"a", Ink::kBlue, 10, ""}}, ""}}};
  chart.bars[0].interval = {5.0, 20.0};
  const std::string svg = svg_of(chart, false);
  const double left = bars(svg, "x")[0];
  const double width = bars(svg, "width")[0];
  // Half of the bar, and twice of it.
  CHECK(svg.find("x1=\"" + number(left + width / 2)) != std::string::npos);
  CHECK(svg.find("x2=\"" + number(left + width * 2)) != std::string::npos);
}

TEST_CASE("picture: points stand where their axes say, and what cannot be shown is left out") {
  const auto text = [](double value) { return number(value); };
  Chart chart{.title = "t", .x = {.name = "x", .text = text}, .y = {.name = "y", .text = text}};
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  chart.series.push_back({.name = "s", .points = {{0, 0}, {5, 50}, {10, 100}, {nothing, 1}, {1, nothing}}});
  const std::string svg = svg_of(chart, false);
  CHECK(count(svg, "<circle") == 3);
  CHECK(svg.find("nan") == std::string::npos);
  // From 90 to 736 pixels: the middle at 413. Upwards from 300 by 284 pixels for 105: 50 at 164.8.
  CHECK(svg.find("cx=\"413.0\" cy=\"164.8\"") != std::string::npos);
  chart.x.logarithmic = true;
  CHECK(count(svg_of(chart, false), "<circle") == 2);
}

TEST_CASE("picture: a band goes forth above and back below") {
  const auto text = [](double value) { return number(value); };
  Chart chart{.title = "t", .x = {.name = "x", .text = text}, .y = {.name = "y", .text = text}};
  chart.series.push_back({.name = "s", .points = {{0, 10, 5, 20}, {5, 50, 25, 100}, {10, 50, 25, 100}}, .band = true});
  const std::string svg = svg_of(chart, false);
  // x of its corners, in order: 90, 413, 736 above, then 736, 413, 90 below.
  const std::size_t from = svg.find("<polygon points=\"") + 17;
  const std::string corners = svg.substr(from, svg.find('"', from) - from);
  std::vector<double> x;
  for (std::size_t at = 0; at < corners.size(); at = corners.find(' ', at) + 1) {
    x.push_back(std::stod(corners.substr(at)));
    if (corners.find(' ', at) == std::string::npos) break;
  }
  CHECK(x == std::vector<double>{90, 413, 736, 736, 413, 90});
}

TEST_CASE("picture: lines of one colour differ") {
  const auto text = [](double value) { return number(value); };
  Chart chart{.title = "t", .x = {.name = "x", .text = text}, .y = {.name = "y", .text = text}};
  chart.series.push_back({.name = "a", .points = {{0, 10}, {5, 50}}});
  chart.series.push_back({.name = "b", .mark = Mark::kDashes, .points = {{0, 20}, {5, 60}}});
  const std::string svg = svg_of(chart, false);
  CHECK(count(svg, "stroke-dasharray") == 1);
  CHECK(count(svg, "width=\"11\"") == 1);  // in the legend: a square, and two dashes
  CHECK(count(svg, "height=\"3\"") == 2);
}

TEST_CASE("picture: a chart without points, of one point, of equal values") {
  const auto text = [](double value) { return number(value); };
  Chart chart{.title = "t", .x = {.name = "x", .logarithmic = true, .text = text}, .y = {.name = "y", .text = text}};
  CHECK(svg_of(chart, false).find("nan") == std::string::npos);
  chart.series.push_back({.name = "s", .points = {{4, 0}}});
  CHECK(count(svg_of(chart, false), "<circle") == 1);
  CHECK(svg_of(chart, false).find("nan") == std::string::npos);
  CHECK(text_of(chart, 20, 5).find('*') != std::string::npos);
}

TEST_CASE("picture: on a terminal a rising line rises") {
  const auto text = [](double value) { return number(value); };
  Chart chart{
      .title = "t", .x = {.name = "nodes", .text = text, .ticks = {1, 2, 3}}, .y = {.name = "rate", .text = text}};
  chart.series.push_back({.name = "model", .points = {{1, 10}, {2, 20}, {3, 30}}});
  chart.series.push_back({.name = "ideal", .mark = Mark::kDashes, .points = {{1, 10}, {3, 31}}});
  CHECK(text_of(chart, 24, 4) ==
        "rate\n"
        "30 |                   *\n"
        "20 |          *\n"
        "10 |*\n"
        " 0 |\n"
        "   +--------------------\n"
        "    1         2        3\n"
        "    nodes\n"
        "* model  o ideal\n");
  // A narrow terminal still has a picture.
  CHECK(count(text_of(chart, 1, 1), "|") == 4);
}

TEST_CASE("page: tables, notes and the answer of a text, and nothing from outside") {
  const std::string markdown =
      "step 1 s; bound by <b>\n\nResNet\n| name | value |\n|---|---:|\n|   part | 3 |\n| a\\|b | 4 |\n\nnote: x & y\n";
  const BarChart chart{.title = "t", .bars = {{"one", {{"a", Ink::kBlue, 1, ""}}, ""}}};
  const std::string html = drawn(Format::kHtml, {{"Head", chart}}, markdown);
  CHECK(html.find("<title>step 1 s; bound by &lt;b&gt;</title>") != std::string::npos);
  CHECK(html.find("<h1>step 1 s; bound by &lt;b&gt;</h1>") != std::string::npos);
  CHECK(html.find("<td>&emsp;  part</td><td class=\"n\">3</td>") != std::string::npos);
  CHECK(html.find("<td>a|b</td>") != std::string::npos);
  CHECK(html.find("<li>x &amp; y</li>") != std::string::npos);
  CHECK(html.find("<p>ResNet</p>") != std::string::npos);
  CHECK(count(html, "<svg") == 1);
  for (const char* outside : {"http", "<script", "url(", "src=", "@import"})
    CHECK(html.find(outside) == std::string::npos);
  CHECK(drawn(Format::kSvg, {{"Head", chart}}, markdown) == svg_of(chart, true));
}
