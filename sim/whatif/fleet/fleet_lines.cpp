// What a fleet has learnt, as lines of text:
//
//   shares GROUP JOBS CNODES MOSTLY_COMMUNICATING SUM x 8            by job, then by cNode (ExactSum::text)
//   change NUMBER GROUP JOBS CNODES FASTER TOO_LARGE LARGEST SUM SUM BIN:COUNT...     the largest as its bits
//
// Groups without a job have no line.
#include <fmt/core.h>

#include <bit>
#include <charconv>
#include <optional>

#include "ddlsim/whatif/fleet.h"
#include "fleet/fleet_sums.h"

namespace ddlsim::whatif {
namespace {

/// The words of a line, one after another; any that is missing or wrong makes the line wrong.
class Words {
 public:
  explicit Words(std::string_view line) : line_(line) {}

  std::string_view next() {
    const std::size_t space = std::min(line_.find(' '), line_.size());
    const std::string_view word = line_.substr(0, space);
    line_.remove_prefix(std::min(space + 1, line_.size()));
    if (word.empty()) good_ = false;
    return word;
  }
  template <typename T>
  T number(std::string_view text, int base = 10) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    good_ = good_ && error == std::errc() && end == text.data() + text.size();
    return value;
  }
  std::int64_t count() { return checked(number<std::int64_t>(next())); }
  std::size_t below(std::size_t most) {
    const auto value = number<std::size_t>(next());
    good_ = good_ && value < most;
    return value < most ? value : 0;
  }
  std::size_t group() {
    const std::string_view name = next();
    for (std::size_t i = 0; i < kFleetGroups; ++i) {
      if (workload::kArchitectures.at(i).first == name) return i;
    }
    good_ = false;
    return 0;
  }
  ExactSum sum() {
    const auto parsed = ExactSum::parse(next());
    good_ = good_ && parsed.has_value();
    return parsed.value_or(ExactSum());
  }
  void bins(Histogram& histogram, std::int64_t jobs) {
    std::int64_t counted = 0;
    while (good_ && !line_.empty()) {
      const std::string_view word = next();
      const std::size_t colon = std::min(word.find(':'), word.size());
      const auto bin = number<std::size_t>(word.substr(0, colon));
      const auto count = checked(number<std::int64_t>(word.substr(std::min(colon + 1, word.size()))));
      good_ = good_ && bin < Histogram::kBins && count <= jobs - counted;
      if (!good_) return;
      histogram.add_to_bin(bin, count);
      counted += count;
    }
    good_ = good_ && counted == jobs;
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool finished() const { return good_ && line_.empty(); }

 private:
  std::int64_t checked(std::int64_t count) {
    good_ = good_ && count >= 0;
    return count;
  }

  std::string_view line_;
  bool good_ = true;
};

bool read_shares(Words& words, std::array<ShareSums, kFleetGroups>& shares) {
  ShareSums sums;
  const std::size_t group = words.group();
  sums.jobs = words.count();
  sums.cnodes = words.count();
  sums.mostly_communicating = words.count();
  for (ExactSum& sum : sums.by_job) sum = words.sum();
  for (ExactSum& sum : sums.by_cnode) sum = words.sum();
  if (words.finished()) shares[group].add(sums);
  return words.finished();
}

bool read_change(Words& words, std::vector<FleetVariant>& variants) {
  SpeedupSums sums;
  const std::size_t variant = words.below(variants.size());
  const std::size_t group = words.group();
  sums.jobs = words.count();
  sums.cnodes = words.count();
  sums.faster = words.count();
  sums.too_large = words.count();
  sums.largest = std::bit_cast<double>(words.number<std::uint64_t>(words.next(), 16));
  sums.sum = words.sum();
  sums.weighted_sum = words.sum();
  words.bins(sums.histogram, sums.jobs);
  if (words.finished() && variant < variants.size()) variants[variant].sums[group].add(sums);
  return words.finished();
}

void write_change(std::string& text, std::size_t variant, std::size_t group, const SpeedupSums& sums) {
  text += fmt::format("change {} {} {} {} {} {} {:x} {} {}", variant, workload::kArchitectures.at(group).first,
                      sums.jobs, sums.cnodes, sums.faster, sums.too_large, std::bit_cast<std::uint64_t>(sums.largest),
                      sums.sum.text(), sums.weighted_sum.text());
  const auto& counts = sums.histogram.counts();
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    if (counts[bin] != 0) text += fmt::format(" {}:{}", bin, counts[bin]);
  }
  text += '\n';
}

}  // namespace

std::string Fleet::sums() const {
  std::string text;
  for (std::size_t group = 0; group < kFleetGroups; ++group) {
    const ShareSums& sums = state_->shares[group];
    if (sums.jobs == 0) continue;
    text += fmt::format("shares {} {} {} {}", workload::kArchitectures.at(group).first, sums.jobs, sums.cnodes,
                        sums.mostly_communicating);
    for (const ExactSum& sum : sums.by_job) text += " " + sum.text();
    for (const ExactSum& sum : sums.by_cnode) text += " " + sum.text();
    text += '\n';
  }
  for (std::size_t variant = 0; variant < state_->variants.size(); ++variant) {
    for (std::size_t group = 0; group < kFleetGroups; ++group) {
      const SpeedupSums& sums = state_->variants[variant].sums[group];
      if (sums.jobs + sums.too_large > 0) write_change(text, variant, group, sums);
    }
  }
  return text;
}

Expected<void> Fleet::add_sums(std::string_view text, const std::string& file, int first_line) {
  for (int number = first_line; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Words words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view kind = words.next();
    const bool good = kind == "shares"   ? read_shares(words, state_->shares)
                      : kind == "change" ? read_change(words, state_->variants)
                                         : false;
    if (!good) return fail(ErrorCode::kParse, "it is damaged: no line of a fleet's sums", {file, number, 1});
  }
  return {};
}

}  // namespace ddlsim::whatif
