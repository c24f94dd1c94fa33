#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "ddlsim/calib/check.h"
#include "ddlsim/calib/fit.h"
#include "ddlsim/io/kernel_file.h"
#include "ddlsim/io/profile_file.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "describe.h"
#include "output.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kFitExamples = R"(
ROWS are measured kernels, CSV or JSON lines (bench/calibrate/README.md). One shape in five is kept from the fit and
judges it. A profile is named after its file: -o hardware/calibration/t4.yaml makes the profile 't4'.

Examples:
  ddlsim calibrate fit t4.csv --gpu t4 -o hardware/calibration/t4.yaml --measured "our T4, 2025-01, 1590 MHz"
  ddlsim calibrate fit h200.jsonl --gpu h200-sxm5-141gb --json)";

constexpr std::string_view kCheckExamples = R"(
The exit status is 1 where more than a fifth of a curve's rows (and more than one) lie outside its 90 % interval.

Examples:
  ddlsim calibrate check t4 today.csv
  ddlsim calibrate check hardware/calibration/t4.yaml today.csv --anchor 20)";

constexpr std::string_view kSteps = "steps: measure, fit, check, job";

struct CalibrateFlags {
  std::string data;
  std::vector<std::string> files;
  FormatFlags format;
};

void add_common(CLI::App& app, CalibrateFlags& flags) {
  app.add_option("--data", flags.data, "the folder with models/ and hardware/")->type_name("DIR");
  flags.format.add_to(app);
}

std::string today() {
  const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now())};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                     static_cast<unsigned>(day.day()));
}

struct Rows {
  std::vector<primitives::KernelMeasurement> rows;
  std::string origin;  // files and what they say of themselves
};

Expected<Rows> read_rows(const std::vector<std::string>& files, const io::Catalog& catalog, const hardware::Gpu& gpu) {
  const auto is_gpu = [&](std::string_view name) {
    const auto path = catalog.find(io::Kind::kGpus, name);
    return path && path->stem() == gpu.id;
  };
  Rows all;
  for (const std::string& file : files) {
    auto read = io::load_kernels(file, {gpu.id, is_gpu});
    if (!read) return tl::unexpected<Error>(read.error());
    const std::string name = std::filesystem::path(file).filename().string();
    all.origin += fmt::format("{}{}{}", all.origin.empty() ? "" : ", ", name,
                              read->context.empty() ? "" : " (" + read->context + ")");
    all.rows.insert(all.rows.end(), std::make_move_iterator(read->rows.begin()),
                    std::make_move_iterator(read->rows.end()));
  }
  return all;
}

int calibrate_fit(const std::vector<std::string>& arguments) {
  CLI::App app("Fit a GPU's curves to measured kernels.", "ddlsim calibrate fit");
  app.footer(std::string(kFitExamples));
  CalibrateFlags flags;
  std::string gpu_name;
  std::string out;
  std::string measured;
  std::string date;
  app.add_option("rows", flags.files, "files of measured kernels")->required()->type_name("ROWS");
  app.add_option("--gpu", gpu_name, "the GPU they were measured on")->required()->type_name("GPU");
  app.add_option("-o,--out", out, "write the profile here")->type_name("OUT.yaml")->group(kOutputGroup);
  app.add_option("--measured", measured, "where the rows come from")
      ->type_name("TEXT")
      ->default_str("the files' names");
  app.add_option("--date", date, "of the fit")->type_name("DATE")->default_str("today");
  add_common(app, flags);
  parse(app, arguments);
  const report::Format format = flags.format.get();
  const std::filesystem::path path(out);
  if (!out.empty() && path.extension() != ".yaml") {
    throw UsageError{"-o '" + out + "' does not end in .yaml", "as -o hardware/calibration/t4.yaml"};
  }
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  const auto gpu = catalog->gpu(gpu_name);
  if (!gpu) return print(gpu.error());
  const auto rows = read_rows(flags.files, *catalog, *gpu);
  if (!rows) return print(rows.error());
  const auto profile = calib::fit_profile(
      rows->rows, *gpu,
      {path.stem().string(), date.empty() ? today() : date, measured.empty() ? rows->origin : measured});
  if (!profile) return print(profile.error());
  if (!out.empty()) {
    if (auto written = write_file(out, io::write_profile(*profile)); !written) return print(written.error());
  }
  const auto left_out = std::count_if(rows->rows.begin(), rows->rows.end(),
                                      [](const primitives::KernelMeasurement& row) { return row.left_out; });
  const std::string title = fmt::format("{}: {} rows, {} of them left out; from {}", gpu->name,
                                        to_text(static_cast<std::int64_t>(rows->rows.size())), left_out, rows->origin);
  return print_answer(report::render(*profile, title, format), format, &*catalog);
}

int calibrate_check(const std::vector<std::string>& arguments) {
  CLI::App app("How far a profile is from measured kernels.", "ddlsim calibrate check");
  app.footer(std::string(kCheckExamples));
  CalibrateFlags flags;
  std::string profile_name;
  std::int64_t anchor = 0;
  app.add_option("profile", profile_name, "what is checked")->required()->type_name("PROFILE");
  app.add_option("rows", flags.files, "files of measured kernels")->required()->type_name("ROWS");
  app.add_option("--anchor", anchor, "the first N rows of a curve set one factor for the others")
      ->default_str("0")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32))
      ->type_name("N");
  add_common(app, flags);
  parse(app, arguments);
  const report::Format format = flags.format.get();
  const auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  const auto profile = catalog->profile(profile_name);
  if (!profile) return print(profile.error());
  const auto gpu = catalog->gpu((*profile)->gpu);
  if (!gpu) return print(gpu.error());
  const auto rows = read_rows(flags.files, *catalog, *gpu);
  if (!rows) return print(rows.error());
  const calib::ProfileCheck check = calib::check_profile(**profile, *gpu, rows->rows, anchor);
  if (check.curves.empty()) {
    return print(Error{ErrorCode::kInfeasible, "the profile has no curve for any of these rows", {}, {}, {}});
  }
  const std::string title = fmt::format("{} beside {} rows from {}", check.profile,
                                        to_text(static_cast<std::int64_t>(rows->rows.size())), rows->origin);
  if (const int status = print_answer(report::render(check, title, format), format, &*catalog); status != kDone) {
    return status;
  }
  const bool off = std::any_of(check.curves.begin(), check.curves.end(),
                               [](const calib::CheckedCurve& curve) { return calib::too_often_outside(curve); });
  if (off) std::fputs("the profile's intervals do not hold for these rows\n", stderr);
  return off ? kNoAnswer : kDone;
}

}  // namespace

int run_calibrate(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw UsageError{"which step of calibration is missing", std::string(kSteps)};
  describe_parts(arguments, {.name = "ddlsim calibrate",
                             .what = "Curves of a GPU's kernels, from measurements; a job with its own runs.",
                             .more = {},
                             .examples = {},
                             .options = {},
                             .parts = {{"measure", "time this machine's GPU"},
                                       {"fit", "a GPU's curves from measured kernels"},
                                       {"check", "how far a profile is from measured kernels"},
                                       {"job", "a job and its measured runs, as a scenario"}}});
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (arguments.front() == "fit") return calibrate_fit(rest);
  if (arguments.front() == "check") return calibrate_check(rest);
  if (arguments.front() == "measure") return run_measure(rest);
  if (arguments.front() == "job") return calibrate_job(rest);
  throw UsageError{fmt::format("unknown step '{}'", arguments.front().substr(0, 60)), std::string(kSteps)};
}

}  // namespace ddlsim::cli
