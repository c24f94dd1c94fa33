// The measuring program of `ddlsim calibrate measure`; MEASURING.md says how to build and use it.
#include <ctime>
#include <map>
#include <thread>

#include "benches.h"
#include "plan.h"
#include "progress.h"
#include "record.h"

namespace ddlsim::measure {
namespace {

constexpr double kDrift = 0.02;

std::string extra_file(const std::string& out) {
  const std::string end = ".jsonl";
  const bool ends = out.size() > end.size() && out.compare(out.size() - end.size(), end.size(), end) == 0;
  return (ends ? out.substr(0, out.size() - end.size()) : out) + ".extra.jsonl";
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "unknown";
}

std::string today() {
  char text[16] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (gmtime_r(&now, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

std::int64_t cores() { return std::max(1U, std::thread::hardware_concurrency()); }

std::string driver_of(Gpu& gpu) {
  std::string driver = gpu.monitor.driver();
  int version = 0;
  if (driver.empty() && cudaDriverGetVersion(&version) == cudaSuccess) driver = "CUDA " + version_text(version);
  return driver;
}

std::string context(Gpu& gpu, const Options& options, const std::string& schema, const std::string& cublas) {
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const State state = gpu.monitor.read();
  Line facts;
  facts.add("gpu", gpu.facts.name)
      .add("driver", driver_of(gpu))
      .add("cuda", version_text(runtime))
      .add("date", today());
  facts.raw("clocks_mhz", Line().add("sm", state.sm_mhz).add("memory", state.memory_mhz).text());
  facts.add("cublas", cublas).add("compute_capability", gpu.facts.capability).add("gpus", gpu.facts.gpus);
  facts.add("multiprocessors", gpu.facts.multiprocessors).add("l2_bytes", gpu.facts.l2);
  facts.add("memory_bytes", gpu.facts.memory).add("memory_bandwidth", gpu.facts.bandwidth);
  facts.raw("nvml", gpu.monitor.facts()).add("cpu", cpu_name()).add("cores", cores());
  facts.add("seed", options.seed).add("quick", options.quick).add("budget_s", options.seconds());
  return Line().add("schema", schema).raw("context", facts.text()).text();
}

/// The row of a point. What was measured follows "time_s", which `keys_of_row` relies on.
std::string row_of(const Point& point, const Measured& measured) {
  Line line(point.keys());
  line.add("time_s", measured.time.median).add("mad_s", measured.time.mad).add("min_s", measured.time.min);
  line.add("samples", measured.time.samples);
  if (point.op == "overlap") line.add("slowdown", point.extra ? measured.slowdown : std::max(1.0, measured.slowdown));
  if (measured.state.known) {
    line.add("sm_clock_mhz", measured.state.sm_mhz).add("memory_clock_mhz", measured.state.memory_mhz);
    line.add("temperature_c", measured.state.temperature).add("power_w", measured.state.power);
    line.add("throttled", measured.throttled);
  }
  std::string note;
  const auto remark = [&note](bool when, const std::string& text) {
    if (when) note += (note.empty() ? "" : ", ") + text;
  };
  remark(measured.time.two_modes, "two modes");
  remark(!measured.gated && point.op != "launch" && point.op != "copy" && point.op != "host", "CPU time in it");
  remark(!measured.stable, "median not within 0.5 %");
  remark((measured.state.reasons & ~std::uint64_t{1}) != 0, "clocks held by: " + measured.state.reason_names());
  if (!note.empty()) line.add("note", note);
  return line.text();
}

std::string state_line(const std::string& block, const char* when, Gpu& gpu) {
  const State state = gpu.monitor.read();
  Line line;
  line.add("op", "state").add("block", block).add("when", when).add("known", state.known);
  line.add("sm_clock_mhz", state.sm_mhz).add("memory_clock_mhz", state.memory_mhz);
  line.add("temperature_c", state.temperature).add("power_w", state.power).add("reasons", state.reason_names());
  return line.raw("nvml", gpu.monitor.facts()).text();
}

class Session {
 public:
  Session(const Options& options, Gpu& gpu) : options_(options), gpu_(gpu), start_(seconds_now()) {}

  int run() {
    std::string why;
    cublas_ = open_cublas(gpu_, why);
    gpu_.fill("fp32");
    gpu_.warm(options_.quick ? 0.5 : 2);
    const std::string version = cublas_ == nullptr ? "" : cublas_version(*cublas_);
    for (const bool extra : {false, true}) {
      const std::string schema = extra ? "ddlsim/measurement-extra/1" : "ddlsim/measurement/1";
      const std::string path = extra ? extra_file(options_.out) : options_.out;
      const std::string problem =
          (extra ? extra_ : rows_)
              .open(path, context(gpu_, options_, schema, version), options_.resume, options_.force);
      if (problem.empty()) continue;
      std::fprintf(stderr, "error: %s\n", problem.c_str());
      return 2;
    }
    if (cublas_ == nullptr) std::fprintf(stderr, "no GEMMs: cuBLAS was not found (--libraries DIR): %s\n", why.c_str());
    plan_ = make_plan(options_, gpu_.facts, cores());
    for (const Block& block : plan_) points_ += block.points.size();
    Progress progress(points_);
    progress_ = &progress;
    const bool done = measure_all();
    finish(done);
    return done && !failed_ ? 0 : 1;
  }

 private:
  /// False: stopped from outside, or by the GPU.
  bool measure_all() {
    try {
      std::vector<Block> left = plan_;
      for (int pass = 0; pass < 3 && !left.empty() && time_left() > 0; ++pass) left = measure_pass(left);
      return true;
    } catch (const Stopped&) {
      progress_->say("stopped");
    } catch (const GpuError& problem) {
      progress_->say(std::string("error: ") + problem.what() + " (at " + at_ + ")");
    }
    return false;
  }

  /// Every block gets its share of the time that is left; returns what there was no time for.
  std::vector<Block> measure_pass(const std::vector<Block>& blocks) {
    double shares = 0;
    for (const Block& block : blocks) shares += block.share;
    std::vector<Block> left;
    for (const Block& block : blocks) {
      const double until = seconds_now() + std::max(time_left(), 0.0) * block.share / shares;
      shares -= block.share;
      Block rest = block;
      rest.points = measure_block(block, until);
      if (!rest.points.empty()) left.push_back(rest);
    }
    return left;
  }

  std::vector<Point> measure_block(const Block& block, double until) {
    const Bench bench = open(block.bench);
    if (bench == nullptr) {
      done_ += block.points.size();
      return {};
    }
    if (!block.precision.empty()) gpu_.fill(block.precision);
    if (block.bench != "host") gpu_.warm(0.15);
    extra_.write(state_line(block.name, "before", gpu_));
    double first = 0;
    const Point* repeat = nullptr;
    std::size_t i = 0;
    for (; i < block.points.size() && seconds_now() < until; ++i) {
      const Point& point = block.points[i];
      if (stopped()) throw Stopped();
      const double time = measure_point(block, point, bench);
      if (time > 0 && repeat == nullptr) {
        repeat = &point;
        first = time;
      }
    }
    if (repeat != nullptr && i > 3) drift(block, *repeat, first, bench);
    extra_.write(state_line(block.name, "after", gpu_));
    return {block.points.begin() + static_cast<std::ptrdiff_t>(i), block.points.end()};
  }

  /// Its time, or 0 if it was there already or cannot be had.
  double measure_point(const Block& block, const Point& point, const Bench& bench) {
    Record& record = point.extra ? extra_ : rows_;
    ++done_;
    const std::string keys = point.keys();
    if (record.has(keys)) return 0;
    at_ = keys;
    try {
      const Measured measured = bench(point);
      if (!record.write(row_of(point, measured))) throw GpuError("a row could not be written; is the disk full?");
      ++measured_;
      const double elapsed = seconds_now() - start_;
      const double pace =
          elapsed / static_cast<double>(measured_) * static_cast<double>(points_ - std::min(points_, done_));
      progress_->show(block.name, std::min(done_, points_), elapsed, std::min(pace, time_left()));
      return measured.time.median;
    } catch (const Unavailable& problem) {
      extra_.write(Line(keys).add("unavailable", problem.what()).text());
      ++unavailable_;
      return 0;
    }
  }

  void drift(const Block& block, const Point& point, double first, const Bench& bench) {
    try {
      const double last = bench(point).time.median;
      const double change = last / first - 1;
      extra_.write(Line()
                       .add("op", "drift")
                       .add("block", block.name)
                       .add("first_s", first)
                       .add("last_s", last)
                       .add("drift", change)
                       .add("marked", std::abs(change) > kDrift)
                       .text());
      if (std::abs(change) > kDrift) {
        progress_->say(block.name + ": its first point took " + number(100 * change) + " % longer at its end");
      }
    } catch (const Unavailable&) {
    }
  }

  /// Checked against the CPU before it is first used. Null where it cannot be had.
  Bench open(const std::string& name) {
    const auto known = benches_.find(name);
    if (known != benches_.end()) return known->second;
    Bench bench;
    try {
      std::string version;
      std::string wrong;
      bench = make(name, version, wrong);
      if (!wrong.empty()) {
        progress_->say("no " + name + ": " + wrong);
        extra_.write(Line().add("op", "check").add("bench", name).add("wrong", wrong).text());
        failed_ = true;
        bench = nullptr;
      }
      if (!version.empty()) extra_.write(Line().add("op", "library").add("bench", name).add("version", version).text());
    } catch (const GpuError&) {
      throw;
    } catch (const std::runtime_error& problem) {
      progress_->say("no " + name + ": " + problem.what());
      extra_.write(Line().add("op", "check").add("bench", name).add("unavailable", problem.what()).text());
    }
    return benches_[name] = bench;
  }

  Bench make(const std::string& name, std::string& version, std::string& wrong) {
    if (name == "launches") return make_launches(gpu_, cublas_);
    if (name == "streams") wrong = check_streams(gpu_);
    if (name == "streams") return make_streams(gpu_);
    if (name == "rows") wrong = check_rows(gpu_);
    if (name == "rows") return make_rows(gpu_);
    if (name == "gemms" && cublas_ != nullptr) wrong = check_gemms(gpu_, cublas_);
    if (name == "gemms") return make_gemms(gpu_, cublas_);
    if (name == "convolutions") return make_convolutions(gpu_, version);
    if (name == "copies") return make_copies(gpu_);
    if (name == "collectives") return make_collectives(gpu_, version);
    if (name == "overlap") return make_overlap(gpu_, cublas_);
    return make_host();
  }

  [[nodiscard]] double time_left() const { return start_ + options_.seconds() - seconds_now(); }

  void finish(bool done) {
    std::string text = std::to_string(measured_) + " points in " + minutes(seconds_now() - start_) + ", " +
                       std::to_string(unavailable_) + " cannot be had here; rows are in " + options_.out + " and " +
                       extra_file(options_.out);
    const std::size_t missing = points_ - std::min(points_, done_);
    if (missing > 0)
      text += "; " + std::to_string(missing) + " were not reached: --resume " + options_.out + " goes on";
    progress_->say(text);
    if (done) progress_->say("next: ddlsim calibrate fit " + options_.out + " --gpu ID -o ID.yaml");
  }

  Options options_;
  Gpu& gpu_;
  std::shared_ptr<Cublas> cublas_;
  std::map<std::string, Bench> benches_;
  std::vector<Block> plan_;
  Record rows_;
  Record extra_;
  Progress* progress_ = nullptr;
  double start_ = 0;
  std::string at_;
  std::size_t points_ = 0;
  std::size_t done_ = 0;
  std::size_t measured_ = 0;
  std::size_t unavailable_ = 0;
  bool failed_ = false;
};

int list_plan(const Options& options) {
  const Device device;
  std::size_t points = 0;
  for (const Block& block : make_plan(options, device, cores())) {
    std::fprintf(stderr, "%-20s %5zu points\n", block.name.c_str(), block.points.size());
    points += block.points.size();
    for (const Point& point : block.points) {
      std::printf("%s\n", Line(point.keys()).add("expected_s", expected_seconds(point, device)).text().c_str());
    }
  }
  std::fprintf(stderr, "%-20s %5zu points, at most %s (for %s)\n", "all", points, minutes(options.seconds()).c_str(),
               device.name.c_str());
  return 0;
}

int run(const Options& options) {
  if (options.help) return std::fputs(kUsage, stdout) >= 0 ? 0 : 1;
  if (options.list) return list_plan(options);
  stop_on_signals();
  try {
    Gpu gpu(options.device);
    gpu.open(options.libraries);
    return Session(options, gpu).run();
  } catch (const Stopped&) {
    return 1;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "error: %s\n", problem.what());
    return 1;
  }
}

}  // namespace
}  // namespace ddlsim::measure

int main(int argc, char** argv) {
  const ddlsim::measure::Options options = ddlsim::measure::parse_options({argv + 1, argv + argc});
  if (!options.error.empty()) {
    std::fprintf(stderr, "error: %s\n  measure --help\n", options.error.c_str());
    return 2;
  }
  return ddlsim::measure::run(options);
}
