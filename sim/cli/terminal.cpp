#include "terminal.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "ddlsim/support/quantity_io.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kBold = "\033[1m";
constexpr std::string_view kBoldRed = "\033[1;31m";
constexpr std::string_view kPlain = "\033[0m";

std::string styled(std::string_view style, std::string_view text) {
  return std::string(style) + std::string(text) + std::string(kPlain);
}

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.'; }

/// How long a number that starts here is, "1,281,167" and "2.61x" with it; 0: none starts here.
std::size_t number_at(std::string_view text, std::size_t at) {
  if (!digit(text[at]) || (at > 0 && in_word(text[at - 1]))) return 0;
  std::size_t end = at;
  while (end < text.size() && (digit(text[end]) || ((text[end] == '.' || text[end] == ',') && end + 1 < text.size() &&
                                                    digit(text[end + 1])))) {
    ++end;
  }
  if (end < text.size() && text[end] == 'x') ++end;
  return end < text.size() && in_word(text[end]) && text[end] != '.' ? 0 : end - at;
}

}  // namespace

bool has_colour(int descriptor) {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  return ::isatty(descriptor) != 0 && set("NO_COLOR").empty() && set("TERM") != "dumb";
}

std::string with_headings(std::string_view help) {
  std::string out;
  for (std::size_t at = 0; at < help.size();) {
    const std::size_t end = std::min(help.find('\n', at), help.size());
    const std::string_view line = help.substr(at, end - at);
    constexpr std::string_view kUsage = "Usage:";
    if (line.starts_with(kUsage)) {
      out += styled(kBold, kUsage) + std::string(line.substr(kUsage.size()));
    } else {
      out += !line.empty() && line.front() != ' ' && line.back() == ':' ? styled(kBold, line) : std::string(line);
    }
    if (end < help.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

std::string with_numbers(std::string_view answer) {
  const std::size_t lead = std::min(answer.find("\n\n"), answer.size());
  std::string out;
  for (std::size_t at = 0; at < lead;) {
    const std::size_t length = number_at(answer, at);
    out += length > 0 ? styled(kBold, answer.substr(at, length)) : std::string(1, answer[at]);
    at += length > 0 ? length : 1;
  }
  return out + std::string(answer.substr(lead));
}

std::string with_errors(std::string_view text) {
  constexpr std::string_view kWord = "error:";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const std::size_t place = line.find(": error:");
    const std::size_t word = line.starts_with(kWord) ? 0 : place == std::string_view::npos ? place : place + 2;
    if (word == std::string_view::npos) {
      out += line;
    } else {
      out +=
          std::string(line.substr(0, word)) + styled(kBoldRed, kWord) + std::string(line.substr(word + kWord.size()));
    }
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

ProgressLine::ProgressLine(std::string_view what) : what_(what), terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

bool ProgressLine::due() {
  if (!terminal_) return false;
  const auto now = Clock::now();
  if (now - last_ < std::chrono::seconds(1)) return false;
  last_ = now;
  shown_ = true;
  return true;
}

void ProgressLine::operator()(std::int64_t done, std::optional<std::int64_t> left) {
  if (!due()) return;
  const double rate = static_cast<double>(done) / std::chrono::duration<double>(last_ - start_).count();
  std::string text = fmt::format("\r\033[K{}", to_text(done));
  if (left) text += " of " + to_text(done + *left);
  text += fmt::format(" {}, {}/s", what_, to_text(static_cast<std::int64_t>(rate)));
  if (left && rate > 0) text += fmt::format(", {} left", to_text(seconds(static_cast<double>(*left) / rate)));
  std::fputs(text.c_str(), stderr);
}

void ProgressLine::at_most(Time left) {
  if (!due()) return;
  const Time since = seconds(std::chrono::duration<double>(last_ - start_).count());
  std::fputs(fmt::format("\r\033[K{} since {}, at most {} left", what_, to_text(since), to_text(left)).c_str(), stderr);
}

}  // namespace ddlsim::cli
