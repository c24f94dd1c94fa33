#include "fleet_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string_view>

#include "ddlsim/io/content_hash.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kFirstLine = "ddlsim-fleet 1\n";

std::string hash_of(std::string_view text) {
  io::ContentHash hash;
  hash.add(text);
  return hash.hex();
}

tl::unexpected<Error> fault(const std::string& file, int line, std::string what) {
  return fail(ErrorCode::kParse, std::move(what), {file, line, 1}, {"write the part again: --shard K/N -o FILE"});
}

/// The value of the next line, which is "KEY VALUE".
Expected<std::string> value_of(std::string_view& text, std::string_view key, const std::string& file, int line) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view whole = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (whole.size() <= key.size() || whole.substr(0, key.size()) != key || whole[key.size()] != ' ') {
    return fault(file, line, fmt::format("'{}' is missing", key));
  }
  return std::string(whole.substr(key.size() + 1));
}

}  // namespace

std::string FleetQuestion::difference(const FleetQuestion& other) const {
  if (program != other.program) return fmt::format("it was written by {}, and the other by {}", program, other.program);
  if (data != other.data) return "it was written with other files of models or hardware";
  if (setting != other.setting) return fmt::format("its setting is {}, and the other's {}", setting, other.setting);
  if (population != other.population || jobs != other.jobs) {
    return fmt::format("its jobs are '{}', and the other's '{}'", jobs, other.jobs);
  }
  if (changes != other.changes) return fmt::format("it was made {} --what-if", changes ? "with" : "without");
  if (part.of != other.part.of) {
    return fmt::format("it is one part of {}, and the other one of {}", part.of, other.part.of);
  }
  return "";
}

std::string fleet_part_text(const FleetQuestion& question, const std::string& sums) {
  std::string text =
      std::string(kFirstLine) +
      fmt::format("program {}\ndata {}\nsetting {}\npopulation {}\njobs {}\nchanges {}\npart {}/{}\n", question.program,
                  question.data, question.setting, question.population.empty() ? "-" : question.population,
                  question.jobs, question.changes ? "yes" : "no", question.part.number, question.part.of) +
      sums;
  return text + "end " + hash_of(text) + "\n";
}

Expected<FleetPart> read_fleet_part(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return fail(ErrorCode::kIo, "could not be opened", {file, 0, 0});
  const std::string all{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) return fail(ErrorCode::kIo, "could not be read", {file, 0, 0});
  if (!std::string_view(all).starts_with("ddlsim-fleet ")) {
    return fail(ErrorCode::kParse, "it is no part of a fleet", {file, 1, 1},
                {"ddlsim fleet --shard K/N -o FILE writes one"});
  }
  if (!std::string_view(all).starts_with(kFirstLine)) {
    return fault(file, 1, "it has another format than this program's, 1");
  }
  constexpr std::size_t kEnd = 4 + 16 + 1;  // "end ", the hash, the line's end
  const std::string_view body = std::string_view(all).substr(0, all.size() - std::min(kEnd, all.size()));
  if (all.substr(body.size()) != "end " + hash_of(body) + "\n") {
    return fault(file, 0, "it is damaged: it was cut short or changed");
  }
  FleetPart part{.file = file, .question = {}, .sums = {}, .first_line = 9};
  std::string_view left = body.substr(kFirstLine.size());
  std::string changes;
  std::string shard;
  FleetQuestion& asked = part.question;
  int line = 1;
  for (const auto& [key, into] :
       {std::pair("program", &asked.program), std::pair("data", &asked.data), std::pair("setting", &asked.setting),
        std::pair("population", &asked.population), std::pair("jobs", &asked.jobs), std::pair("changes", &changes),
        std::pair("part", &shard)}) {
    auto value = value_of(left, key, file, ++line);
    if (!value) return tl::unexpected<Error>(value.error());
    *into = std::move(*value);
  }
  if (asked.population == "-") asked.population.clear();
  asked.changes = changes == "yes";
  const auto read = whatif::parse_shard(shard);
  if (!read) return fault(file, line, fmt::format("'{}' is no part", shard));
  asked.part = *read;
  part.sums = std::string(left);
  return part;
}

Expected<std::vector<FleetPart>> read_fleet_parts(const std::vector<std::string>& files) {
  std::vector<FleetPart> parts;
  std::vector<std::string> faults;
  for (const std::string& file : files) {
    auto part = read_fleet_part(file);
    if (!part) return tl::unexpected<Error>(part.error());
    if (!parts.empty()) {
      const std::string differs = part->question.difference(parts.front().question);
      if (!differs.empty()) {
        return fail(ErrorCode::kInvalidArgument, fmt::format("{} ({})", differs, parts.front().file), {file, 0, 0},
                    {"merge parts of one fleet"});
      }
    }
    const std::int64_t number = part->question.part.number;
    const auto twice = std::find_if(parts.begin(), parts.end(),
                                    [&](const FleetPart& one) { return one.question.part.number == number; });
    if (twice == parts.end()) {
      parts.push_back(std::move(*part));
    } else if (twice->sums != part->sums) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("part {} is another one in {}", number, twice->file),
                  {file, 0, 0});
    } else {
      std::fputs(fmt::format("note: part {} is given twice, by {} and {}: it counts once\n", number, twice->file, file)
                     .c_str(),
                 stderr);
    }
  }
  constexpr std::size_t kMostNamed = 10;
  for (std::int64_t number = 1; number <= parts.front().question.part.of && faults.size() <= kMostNamed; ++number) {
    const bool there = std::any_of(parts.begin(), parts.end(),
                                   [&](const FleetPart& one) { return one.question.part.number == number; });
    if (there) continue;
    faults.push_back(faults.size() == kMostNamed
                         ? "and more"
                         : fmt::format("part {}/{} is in none of the files", number, parts.front().question.part.of));
  }
  if (!faults.empty()) return fail(ErrorCode::kInfeasible, "parts of the fleet are missing", {}, std::move(faults));
  return parts;
}

}  // namespace ddlsim::cli
