#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "ddlsim/importers/collective_file.h"
#include "ddlsim/support/quantity_io.h"
#include "nccl_tests.h"

namespace ddlsim::importers {
namespace {

struct PlacedWord {
  std::string_view text;
  int column = 0;  // from 1
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::vector<PlacedWord> split(std::string_view line) {
  std::vector<PlacedWord> tokens;
  for (std::size_t i = 0; i < line.size();) {
    if (is_space(line[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < line.size() && !is_space(line[end])) ++end;
    tokens.push_back({line.substr(i, end - i), static_cast<int>(i) + 1});
    i = end;
  }
  return tokens;
}

/// Colour codes and launchers' labels become blanks, so that columns stay what an editor shows.
void blank_decorations(std::string& line) {
  for (std::size_t i = line.find('\x1b'); i != std::string::npos; i = line.find('\x1b', i)) {
    std::size_t end = i + 1;
    if (end < line.size() && line[end] == '[') {
      do {
        ++end;
      } while (end < line.size() && !(line[end] >= '@' && line[end] <= '~'));
      end = std::min(end + 1, line.size());
    }
    std::fill(line.begin() + static_cast<std::ptrdiff_t>(i), line.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  }
  std::size_t end = 0;
  if (!line.empty() && line.front() == '[') {  // mpirun --tag-output
    end = 1;
    while (end < line.size() && (is_digit(line[end]) || line[end] == ',')) ++end;
    end = end < line.size() && line[end] == ']' ? end + 1 : 0;
    constexpr std::string_view kStream = "<stdout>:";
    if (end > 0 && std::string_view(line).substr(end).starts_with(kStream)) end += kStream.size();
  } else {  // srun --label
    while (end < line.size() && is_digit(line[end])) ++end;
    const bool label =
        end > 0 && end < line.size() && line[end] == ':' && (end + 1 == line.size() || line[end + 1] == ' ');
    end = label ? end + 1 : 0;
  }
  std::fill_n(line.begin(), end, ' ');
}

/// One run of a test within the file.
struct Run {
  std::optional<primitives::CollectiveOp> op;
  std::int64_t ranks = 0;
  std::set<std::string, std::less<>> hosts;
  std::size_t tail = 0;      // columns from the first time on
  std::size_t in_place = 0;  // of the tail
  bool timestamps = false;
  bool summary = false;
  CollectiveMeasurements rows;
  std::vector<RowBandwidths> bandwidths;
};

class TextReader {
 public:
  TextReader(std::string file, const CollectiveFileDefaults& defaults) : file_(std::move(file)), defaults_(defaults) {}

  Expected<CollectiveMeasurements> read(std::istream& stream) {
    std::string line;
    while (std::getline(stream, line)) {
      ++number_;
      blank_decorations(line);
      if (auto done = take(line); !done) return tl::unexpected<Error>(done.error());
    }
    if (auto closed = close(); !closed) return tl::unexpected<Error>(closed.error());
    if (rows_.empty()) {
      return fail(ErrorCode::kParse, "no nccl-tests output: no row of sizes and times", at(0),
                  {"also read: nccl-tests -J JSON, CSV with the columns op,gpus,nodes,size_bytes,time_us"});
    }
    return std::move(rows_);
  }

 private:
  [[nodiscard]] SourceLocation at(int column) const { return {file_, std::max(number_, 1), column}; }

  Expected<void> take(std::string_view line) {
    const std::vector<PlacedWord> tokens = split(line);
    if (tokens.empty()) return {};
    if (tokens.front().text.starts_with('#')) return take_comment(line, tokens);
    if (line.find("NCCL ") != std::string_view::npos) return {};  // its own log
    if (line.find("_perf") != std::string_view::npos) return take_program(line);
    return is_digit(tokens.front().text.front()) && run_.tail > 0 ? take_row(tokens) : Expected<void>{};
  }

  /// A program named after a run's summary, or as starting, opens the next run; within a run it is only talk.
  Expected<void> take_program(std::string_view line) {
    const bool starts = line.find("Collective test starting") != std::string_view::npos;
    if (run_.tail > 0 && !run_.summary && !starts) return {};
    if (auto closed = close(); !closed) return closed;
    auto op = op_of_program(line, at(1));
    if (!op) return tl::unexpected<Error>(op.error());
    if (*op) named_ = *op;
    return {};
  }

  Expected<void> take_comment(std::string_view line, const std::vector<PlacedWord>& tokens) {
    const auto has = [&](std::string_view text) { return line.find(text) != std::string_view::npos; };
    if (has("nThread") && has("nGpus")) return start();
    if (has("Collective test concluded")) return {};
    if (has("_perf")) return take_program(line);
    if (tokens.size() > 2 && tokens[1].text == "Rank") return take_rank(tokens);
    if (has("Out of bounds values")) return take_errors(tokens);
    if (has("Avg bus bandwidth")) {
      run_.summary = true;
      return {};
    }
    return has("size") && has("algbw") && has("busbw") ? take_header(tokens) : Expected<void>{};
  }

  Expected<void> start() {
    if (auto closed = close(); !closed) return closed;
    run_ = Run{};
    return {};
  }

  Expected<void> take_rank(const std::vector<PlacedWord>& tokens) {
    std::string_view host;
    for (std::size_t i = 2; i + 1 < tokens.size(); ++i) {
      // Groups other than the first run beside it.
      if (tokens[i].text == "Group" && tokens[i + 1].text != "0") return {};
      if (tokens[i].text == "on") host = tokens[i + 1].text;
      if (tokens[i].text == "device") break;
    }
    if (host.empty()) {
      return fail(ErrorCode::kParse, "a '# Rank' line that names no host", at(tokens.front().column));
    }
    ++run_.ranks;
    run_.hosts.emplace(host);
    return {};
  }

  Expected<void> take_errors(const std::vector<PlacedWord>& tokens) {
    const auto colon = std::find_if(tokens.begin(), tokens.end(), [](const PlacedWord& t) { return t.text == ":"; });
    if (colon == tokens.end() || std::next(colon) == tokens.end()) return {};
    const PlacedWord& count = *std::next(colon);
    if (count.text == "0") return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("nccl-tests found wrong values ('{}'): its times mean nothing", count.text.substr(0, 20)),
                at(count.column));
  }

  Expected<void> take_header(const std::vector<PlacedWord>& tokens) {
    std::vector<std::size_t> times;
    std::size_t end = tokens.size();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].text == "cputime") {
        return fail(ErrorCode::kUnsupported, "these are CPU times (-C 1), not those of the collective",
                    at(tokens[i].column));
      }
      if (tokens[i].text == "time") times.push_back(i);
      if (tokens[i].text == "timestamp") end = i;
    }
    if (times.size() != 2) {
      return fail(ErrorCode::kParse, "a header without the two columns 'time'", at(tokens.front().column));
    }
    run_.tail = end - times[0];
    run_.in_place = times[1] - times[0];
    run_.timestamps = end != tokens.size();
    return {};
  }

  Expected<double> number(const PlacedWord& token, std::string_view what) const {
    auto value = parse_number(token.text);
    if (value) return value;
    return fail(ErrorCode::kParse, fmt::format("the {} '{}' is not a number", what, token.text.substr(0, 40)),
                at(token.column));
  }

  Expected<void> take_row(const std::vector<PlacedWord>& tokens) {
    const std::size_t after = run_.tail + (run_.timestamps ? 2 : 0);
    // size, count, type, and as the version has them redop and root
    if (tokens.size() < after + 3 || tokens.size() > after + 5) {
      return fail(ErrorCode::kParse,
                  fmt::format("a row of {} cells, but the header names {} to {}: was the output cut short?",
                              tokens.size(), after + 3, after + 5),
                  at(tokens.front().column));
    }
    const auto size = parse_count(tokens[0].text, {0, std::int64_t{1} << 62});
    if (!size) {
      return fail(ErrorCode::kParse, fmt::format("the size '{}' is not a whole number", tokens[0].text.substr(0, 40)),
                  at(tokens[0].column));
    }
    const std::size_t first = tokens.size() - after + (defaults_.in_place ? run_.in_place : 0);
    const auto time = number(tokens[first], "time");
    if (!time) return tl::unexpected<Error>(time.error());
    const auto algorithm = number(tokens[first + 1], "algbw");
    if (!algorithm) return tl::unexpected<Error>(algorithm.error());
    const auto bus = number(tokens[first + 2], "busbw");
    if (!bus) return tl::unexpected<Error>(bus.error());
    if (*size == 0) return {};
    run_.rows.push_back({primitives::CollectiveOp::kAllReduce, 1, 1, bytes(static_cast<double>(*size)),
                         microseconds(*time), at(tokens[first].column)});
    run_.bandwidths.push_back({*algorithm, *bus});
    return {};
  }

  /// Ends a run: the operation and the ranks are known now, or never.
  Expected<void> close() {
    if (run_.rows.empty() && run_.tail == 0) return {};
    if (!run_.summary) {
      return fail(ErrorCode::kParse,
                  "the output ends without '# Avg bus bandwidth': it was cut short, or the test did not finish", at(1));
    }
    const auto op = named_ ? named_ : defaults_.op;
    if (!op) {
      return fail(ErrorCode::kParse, "the output does not say which operation it measured", at(1),
                  {"name it: " + std::string("all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, "
                                             "sendrecv")});
    }
    const std::int64_t gpus = run_.ranks > 0 ? run_.ranks : defaults_.gpus.value_or(0);
    const auto hosts = static_cast<std::int64_t>(run_.hosts.size());
    const std::int64_t nodes = hosts > 0 ? hosts : defaults_.nodes.value_or(1);
    if (gpus == 0) {
      return fail(ErrorCode::kParse, "no '# Rank' line says how many GPUs took part", at(1),
                  {"say how many GPUs and nodes it were"});
    }
    for (std::size_t i = 0; i < run_.rows.size(); ++i) {
      primitives::CollectiveMeasurement& row = run_.rows[i];
      row.op = *op;
      row.gpus = gpus;
      row.nodes = nodes;
      if (auto sound = check_bandwidths(row, run_.bandwidths[i]); !sound) return sound;
      rows_.push_back(std::move(row));
    }
    named_.reset();
    run_ = Run{};
    return {};
  }

  std::string file_;
  const CollectiveFileDefaults& defaults_;
  int number_ = 0;
  std::optional<primitives::CollectiveOp> named_;  // printed before a run's other lines
  Run run_;
  CollectiveMeasurements rows_;
};

}  // namespace

Expected<CollectiveMeasurements> read_nccl_tests_text(std::istream& stream, const std::string& file,
                                                      const CollectiveFileDefaults& defaults) {
  return TextReader(file, defaults).read(stream);
}

}  // namespace ddlsim::importers
