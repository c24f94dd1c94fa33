#include "ddlsim/whatif/stalls.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <istream>
#include <utility>

#include "ddlsim/io/csv.h"
#include "ddlsim/io/table_file.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/workload/variant.h"
#include "scenario/settings.h"
#include "scenario/stated_runs.h"

namespace ddlsim::whatif {
namespace {

using answer::Stall;
using answer::StallReport;
using answer::StallRun;

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): what differs, then of what it is a share
Stall stall(Time longer, Time shorter, Time whole) {
  const Time time = max(longer - shorter, Time::zero());
  return {time, whole > Time::zero() ? 100 * (time / whole) : 0.0};
}

/// What says on which server a job runs, and how many of its GPUs it takes.
bool of_the_server(std::string_view path) { return is_of_servers(path) || path == "gpus_per_node"; }

/// The catalogue's server with as many GPUs of a kind; of one provider first. Empty: none.
std::string server_with(const io::Catalog& catalog, const hardware::Node& like, std::int64_t gpus) {
  std::string found;
  bool own = false;
  for (const io::Kind kind : {io::Kind::kInstances, io::Kind::kNodes}) {
    for (const std::string& id : catalog.ids(kind)) {
      const auto node = catalog.node(id);
      if (!node || node->gpu.id != like.gpu.id || node->gpus != gpus) continue;
      const bool same = node->tariff.provider == like.tariff.provider;
      if (!found.empty() && (own || !same)) continue;
      found = id;
      own = same;
    }
  }
  return found;
}

class Stash {
 public:
  Stash(const io::Catalog& catalog, std::span<const Override> stated, const StallOptions& options)
      : catalog_(catalog), stated_(stated.begin(), stated.end()), options_(options) {}

  /// With a model of its own instead of a named one.
  void use(std::shared_ptr<const workload::Model> model) { model_ = std::move(model); }

  Expected<StallReport> communication() {
    auto job = resolved(stated_);
    if (!job) return tl::unexpected<Error>(job.error());
    if (plan::splits_model(job->parallel)) {
      return fail(ErrorCode::kUnsupported, "stalls of a model that is split over GPUs: one GPU has nothing to compare",
                  {}, {"leave its splits out"});
    }
    report_.sample = job->model->sample;
    dataset_ = std::exchange(job->input.dataset, nullptr);
    job_ = std::move(*job);
    report_.title = describe(job_);
    if (auto run = add(StallRun::kSynthetic, job_); !run) return tl::unexpected<Error>(run.error());
    Scenario alone = job_;
    alone.cluster.nodes = 1;
    alone.cluster.gpus_per_node = 1;
    if (auto run = add(StallRun::kOneGpu, alone); !run) return tl::unexpected<Error>(run.error());
    if (auto run = add_one_server(); !run) return tl::unexpected<Error>(run.error());
    report_.stalls = stalls_of(report_.times, options_.fetch);
    return report_;
  }

  Expected<StallReport> all() {
    if (auto first = communication(); !first) return first;
    if (!dataset_) {
      report_.notes.emplace_back("prep and fetch stalls: nobody says what is read (--dataset)");
      return report_;
    }
    Scenario reading = job_;
    reading.input.dataset = dataset_;
    note_own_conditions(reading);
    reading.input.cache_size = {};
    reading.input.epoch.set(plan::Epoch::kLater);
    reading.input.cache.set(plan::CachePolicy::kAll);
    if (auto run = add(StallRun::kWarm, reading); !run) return tl::unexpected<Error>(run.error());
    reading.input.cache.set(plan::CachePolicy::kNone);
    if (auto run = add(StallRun::kCold, reading); !run) return tl::unexpected<Error>(run.error());
    report_.stalls = stalls_of(report_.times, options_.fetch);
    report_.steps_of_epoch = epoch_steps();
    return report_;
  }

 private:
  /// What the study chooses itself, whatever is stated of it.
  void note_own_conditions(const Scenario& job) {
    std::string stated;
    for (const std::string_view path : {"input.epoch", "input.cache", "input.cache_size"}) {
      if (origin_of(job, path) == Origin::kStated) stated += (stated.empty() ? "" : ", ") + std::string(path);
    }
    if (stated.empty()) return;
    report_.notes.push_back("stated, but without effect here: " + stated +
                            ": the warm run reads from memory alone, the cold one from storage");
  }

  [[nodiscard]] double epoch_steps() const {
    const double in_step =
        static_cast<double>(job_.batch * plan::replicas_of(job_)) * static_cast<double>(job_.strategy.accumulation);
    return static_cast<double>(job_.training.samples.value_or(dataset_->samples)) / in_step;
  }

  [[nodiscard]] Expected<Scenario> resolved(const std::vector<Override>& settings) const {
    return model_ ? resolve(catalog_, settings, model_) : resolve(catalog_, settings);
  }

  Expected<void> add(StallRun run, const Scenario& scenario) {
    const auto prediction = predict(scenario);
    if (!prediction) return tl::unexpected<Error>(prediction.error());
    report_.times.at(run) = prediction->step_time;
    report_.samples_per_second[static_cast<std::size_t>(run)] = prediction->throughput_samples_per_second;
    for (const std::string& note : prediction->notes) {
      const bool loader_unknown = note == prediction->input.note;
      const bool known = std::find(report_.notes.begin(), report_.notes.end(), note) != report_.notes.end();
      const bool of_the_job = run == (dataset_ ? StallRun::kCold : StallRun::kSynthetic);
      if (of_the_job && !known && !loader_unknown) report_.notes.push_back(note);
    }
    return {};
  }

  Expected<void> add_one_server() {
    const std::int64_t gpus = job_.cluster.gpus();
    if (job_.cluster.nodes == 1 && options_.one_server.empty()) {
      report_.one_server = job_.cluster.node.name;
      return add(StallRun::kOneServer, job_);
    }
    const std::string id =
        options_.one_server.empty() ? server_with(catalog_, job_.cluster.node, gpus) : options_.one_server;
    if (id.empty()) {
      return add_own_server(
          fmt::format("no server of the catalogue has {} x {}", to_text(gpus), job_.cluster.node.gpu.name));
    }
    std::vector<Override> settings;
    for (const Override& setting : stated_) {
      if (!of_the_server(setting.path)) settings.push_back(setting);
    }
    settings.push_back({"node", id, {}});
    settings.push_back({"nodes", "1", {}});
    // Runs are of the job's own servers, and no measurement of the other: they correct it as they do an alternative.
    auto whole = resolved(without_runs(settings));
    if (!whole) return tl::unexpected<Error>(whole.error());
    if (job_.own_runs) whole = corrected(std::move(*whole), job_.own_runs);
    whole->input.dataset = nullptr;
    const hardware::Cluster& cluster = whole->cluster;
    if (cluster.node.gpu.id != job_.cluster.node.gpu.id || cluster.gpus() != gpus) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} has {} x {}, the job {} x {}", cluster.node.name, cluster.gpus(),
                              cluster.node.gpu.name, to_text(gpus), job_.cluster.node.gpu.name),
                  {}, {"name a server with as many GPUs of the kind, or leave it out"});
    }
    report_.one_server = cluster.node.name;
    if (auto run = add(StallRun::kOneServer, *whole); !run) return run;
    if (!slower_than_all()) return {};
    // Another machine, with slower links or one parameter server for all: not this job without its network.
    const std::string slower = fmt::format("{} takes {} for a step, longer than the job", report_.one_server,
                                           to_text(*report_.times.at(StallRun::kOneServer)));
    if (options_.one_server.empty()) return add_own_server(slower);
    report_.notes.push_back(slower + ": no network stall is told from it");
    return {};
  }

  /// Whether the one server is slower than all of the job's.
  [[nodiscard]] bool slower_than_all() const {
    return *report_.times.at(StallRun::kOneServer) > *report_.times.at(StallRun::kSynthetic);
  }

  /// One of the job's own servers, with fewer GPUs, as `why` no other will do.
  Expected<void> add_own_server(const std::string& why) {
    Scenario smaller = job_;
    smaller.cluster.nodes = 1;
    report_.one_server = fmt::format("1 x {} ({} GPUs)", job_.cluster.node.name, smaller.cluster.gpus());
    if (auto run = add(StallRun::kOneServer, smaller); !run) return run;
    report_.notes.push_back(
        fmt::format("{}: the network stall is against {} (--one-server NODE){}", why, report_.one_server,
                    slower_than_all() ? ", which takes longer than all: none is told from it" : ""));
    return {};
  }

  const io::Catalog& catalog_;
  std::vector<Override> stated_;
  const StallOptions& options_;
  std::shared_ptr<const workload::Model> model_;
  std::shared_ptr<const workload::Dataset> dataset_;
  Scenario job_;
  StallReport report_;
};

struct Studied {
  const char* model;
  workload::LeftOut without{};
  const char* words = "";
};

constexpr workload::LeftOut kNorms{.norms = true};
constexpr workload::LeftOut kResiduals{.residuals = true};

constexpr auto kStudied = std::to_array<Studied>({
    {"resnet10"},
    {"resnet12"},
    {"resnet16"},
    {"resnet18"},
    {"resnet34"},
    {"resnet50"},
    {"resnet101"},
    {"resnet152"},
    {"resnet18", kNorms, ", no norms"},
    {"resnet50", kNorms, ", no norms"},
    {"resnet152", kNorms, ", no norms"},
    {"resnet18", kResiduals, ", no residual sums"},
    {"resnet50", kResiduals, ", no residual sums"},
    {"resnet152", kResiduals, ", no residual sums"},
    {"vgg11"},
    {"vgg13"},
    {"vgg16"},
    {"vgg19"},
    {"vgg11_bn"},
    {"vgg13_bn"},
    {"vgg16_bn"},
    {"vgg19_bn"},
});

bool states(std::span<const Override> stated, std::string_view path) {
  return std::any_of(stated.begin(), stated.end(), [&](const Override& s) { return s.path == path; });
}

}  // namespace

std::optional<answer::Stalls> stalls_of(const Scenario& job, Predictor& predictor, std::optional<double> first_epoch) {
  if (plan::splits_model(job.parallel) || job.parallel.zero > 0) return std::nullopt;
  answer::StallTimes times;
  const auto add = [&](StallRun run, const Scenario& scenario) {
    const auto step = predictor.step_time(scenario);
    if (step) times.at(run) = *step;
    return step.has_value();
  };
  Scenario made_up = job;
  const auto dataset = std::exchange(made_up.input.dataset, nullptr);
  if (!add(StallRun::kSynthetic, made_up)) return std::nullopt;
  Scenario one = made_up;
  one.cluster.nodes = 1;
  if (job.cluster.nodes > 1 && !add(StallRun::kOneServer, one)) return std::nullopt;
  one.cluster.gpus_per_node = 1;
  if (!add(StallRun::kOneGpu, one)) return std::nullopt;
  if (dataset) {
    Scenario reading = job;
    reading.input.cache = plan::CachePolicy::kAll;
    if (!add(StallRun::kWarm, reading)) return std::nullopt;
    reading.input.cache = plan::CachePolicy::kNone;
    if (!add(StallRun::kCold, reading)) return std::nullopt;
    if (first_epoch) {
      const auto later = predictor.step_time(job);
      if (!later) return std::nullopt;
      const Time first = *times.at(StallRun::kCold);
      times.at(StallRun::kCold) = first * *first_epoch + *later * (1 - *first_epoch);
    }
  }
  return stalls_of(times);
}

answer::Stalls stalls_of(const answer::StallTimes& times, FetchRule fetch) {
  answer::Stalls stalls;
  const auto& one_gpu = times.at(StallRun::kOneGpu);
  const auto& synthetic = times.at(StallRun::kSynthetic);
  const auto& warm = times.at(StallRun::kWarm);
  const auto& cold = times.at(StallRun::kCold);
  const bool slower = synthetic && times.at(StallRun::kOneServer) > synthetic;
  const auto& one_server = times.at(StallRun::kOneServer) && !slower ? times.at(StallRun::kOneServer) : synthetic;
  if (one_server && one_gpu) stalls.interconnect = stall(*one_server, *one_gpu, *one_server);
  if (synthetic && times.at(StallRun::kOneServer)) stalls.network = stall(*synthetic, *one_server, *one_server);
  if (warm && synthetic) stalls.prep = stall(*warm, *synthetic, *warm);
  if (cold && warm) stalls.fetch = stall(*cold, *warm, *cold);
  if (fetch == FetchRule::kRepository && stalls.fetch && stalls.prep) {
    stalls.fetch = stall(*cold, stalls.prep->time, *cold);
  }
  return stalls;
}

Expected<answer::StallReport> stalls(const io::Catalog& catalog, std::span<const Override> stated,
                                     const StallOptions& options) {
  return Stash(catalog, stated, options).all();
}

Expected<answer::StallStudy> study_layers(const io::Catalog& catalog, std::span<const Override> stated,
                                          const StallOptions& options) {
  if (states(stated, "model")) {
    return fail(ErrorCode::kInvalidArgument, "the study of layers has models of its own", {}, {"leave model out"});
  }
  std::vector<Override> settings(stated.begin(), stated.end());
  if (!states(stated, "batch")) settings.push_back({"batch", "32", {}});
  answer::StallStudy study;
  for (const Studied& one : kStudied) {
    const auto named = catalog.model(one.model);
    if (!named) return tl::unexpected<Error>(named.error());
    auto model = workload::without(**named, one.without);
    if (!model) return tl::unexpected<Error>(model.error());
    model->name += one.words;
    const auto shared = std::make_shared<const workload::Model>(std::move(*model));
    Stash stash(catalog, settings, options);
    stash.use(shared);
    const auto report = stash.communication();
    if (!report) return tl::unexpected<Error>(report.error());
    study.models.push_back({.model = shared->name,
                            .parameters = shared->parameters(),
                            .tensors = shared->totals.gradient_tensors,
                            .one_gpu = *report->times.at(StallRun::kOneGpu),
                            .stalls = report->stalls});
    if (study.title.empty()) {
      study.title = report->title.substr(report->title.find(", ") + 2);
      study.notes.push_back("one server of as many GPUs: " + report->one_server);
    }
  }
  if (states(stated, "input.dataset")) {
    study.notes.emplace_back(
        "stated, but without effect here: input.dataset: the study is of communication (leave --study "
        "out for prep and fetch)");
  }
  return study;
}

Expected<answer::StallTimes> read_stall_runs(std::istream& stream, const std::string& file) {
  enum Column : std::size_t { kRun, kSeconds, kBatches };
  auto csv = io::CsvReader::open(stream, file, {"run", "train_s", "batches"});
  if (!csv) return tl::unexpected<Error>(csv.error());
  answer::StallTimes times;
  std::vector<Error> errors;
  const auto report = [&](Error error, Column column) {
    error.where = csv->where(column);
    errors.push_back(std::move(error));
  };
  while (errors.size() < io::kMaxErrors) {
    const auto more = csv->next();
    if (!more) return tl::unexpected<Error>(more.error());
    if (!*more) break;
    const auto run = parse_choice(answer::kStallRuns, csv->field(kRun), "run");
    const auto train = parse_number(csv->field(kSeconds));
    const auto batches = parse_count(csv->field(kBatches), {1, std::int64_t{1} << 40});
    if (!run) report(run.error(), kRun);
    if (!train) report(train.error(), kSeconds);
    if (train && *train <= 0) {
      report({ErrorCode::kInvalidArgument, "a run takes time: train_s is above zero", {}, {}, {}}, kSeconds);
    }
    if (!batches) report(batches.error(), kBatches);
    if (run && times.at(*run)) {
      report({ErrorCode::kInvalidArgument, fmt::format("the run {} stands twice", csv->field(kRun)), {}, {}, {}}, kRun);
    }
    if (run && train && batches) times.at(*run) = seconds(*train / static_cast<double>(*batches));
  }
  if (!errors.empty()) return fail_with_all(std::move(errors));
  const bool any =
      std::any_of(times.steps.begin(), times.steps.end(), [](const auto& step) { return step.has_value(); });
  if (!any) return fail(ErrorCode::kParse, "the table has no runs", {file, 2, 1});
  return times;
}

Expected<answer::StallTimes> load_stall_runs(const std::filesystem::path& path) {
  auto stream = io::open_table(path);
  if (!stream) return tl::unexpected<Error>(stream.error());
  return read_stall_runs(*stream, path.string());
}

}  // namespace ddlsim::whatif
