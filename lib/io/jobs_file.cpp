#include "ddlsim/io/jobs_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace ddlsim::io {
namespace {

constexpr Dimension kReadRate = dimension::kData - dimension::kTime;
constexpr std::int64_t kMostJobGpus = 1 << 16;
constexpr std::int64_t kMostJobSamples = std::int64_t{1} << 40;
constexpr std::int64_t kMostSharedCores = 1 << 16;
constexpr Choices<bool, 4> kFairOrNot{{{"yes", true}, {"no", false}, {"true", true}, {"false", false}}};

std::optional<TextAt> text_at(MapReader& reader, std::string_view key) {
  const Node* value = reader.find(key);
  if (value == nullptr || !reader.is_scalar(*value)) return std::nullopt;
  return TextAt{value->text, value->where};
}

/// A plain number above `least` (or at it), up to `most`.
std::optional<double> job_number(MapReader& reader, const Node& node, std::string_view key, double most) {
  if (!reader.is_scalar(node)) return std::nullopt;
  const auto value = reader.accept(parse_number(node.text), node);
  if (!value) return std::nullopt;
  if (*value > 0 && *value <= most) return value;
  reader.report(node, ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, not above 0 and up to {}", key, *value, most));
  return std::nullopt;
}

/// A key, where a value is expected.
Node node_of_key(const Entry& entry) {
  Node node;
  node.where = entry.where;
  return node;
}

RatesByWorkers read_rate_points(MapReader& reader, const Node& node) {
  RatesByWorkers rates;
  if (node.kind != NodeKind::kMap || node.entries.empty()) {
    reader.report(node, ErrorCode::kParse, "rates by workers are a map", {"as {1: 256, 2: 563}"});
    return rates;
  }
  for (const Entry& entry : node.entries) {
    const auto workers = parse_count(entry.key, {1, kMostSharedCores});
    if (!workers) {
      reader.report(node_of_key(entry), ErrorCode::kInvalidArgument,
                    fmt::format("'{}' is no count of workers", entry.key.substr(0, 60)), {"from 1 to 65,536"});
      continue;
    }
    if (const auto rate = job_number(reader, entry.value, "samples_per_s", 1e15)) {
      rates.points.emplace_back(*workers, per_second(*rate));
    }
  }
  std::sort(rates.points.begin(), rates.points.end());
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::adjacent_find(rates.points.begin(), rates.points.end(), same) != rates.points.end()) {
    reader.report(node, ErrorCode::kInvalidArgument, "a count of workers stands twice");
  }
  return rates;
}

void read_job_rates(MapReader& reader, JobEntry& job, std::vector<Error>& errors) {
  const Node* node = reader.find("samples_per_s");
  if (node == nullptr) return;
  job.rates_where = node->where;
  if (node->kind == NodeKind::kList) {
    for (const Node& item : node->items) {
      MapReader one(item, "rates at a size of memory", errors);
      const DataSize memory = one.quantity<dimension::kData>("memory");
      if (const Node* workers = one.require("workers")) {
        job.rates.push_back(read_rate_points(one, *workers));
        job.rates.back().memory = memory;
      }
      one.finish();
    }
    if (job.rates.empty()) reader.report(*node, ErrorCode::kParse, "no rates in the list");
    return;
  }
  job.rates.push_back(read_rate_points(reader, *node));
}

void read_job_settings(MapReader& reader, JobEntry& job) {
  const Node* node = reader.find("set");
  if (node == nullptr) return;
  if (node->kind != NodeKind::kMap) {
    reader.report(*node, ErrorCode::kParse, "set is a map of settings", {"as set: {precision: fp16}"});
    return;
  }
  constexpr std::string_view kOwn[] = {"model", "batch", "global_batch", "gpus_per_node", "node", "nodes"};
  for (const Entry& entry : node->entries) {
    if (!reader.is_scalar(entry.value)) continue;
    const bool own = std::find(std::begin(kOwn), std::end(kOwn), entry.key) != std::end(kOwn);
    if (own || entry.key == "input.dataset" || entry.key == "input.workers" || entry.key == "input.threads" ||
        entry.key.starts_with("input.storage") || entry.key.starts_with("training.")) {
      reader.report(entry.value, ErrorCode::kInvalidArgument,
                    fmt::format("'{}' is no setting of one job here", entry.key.substr(0, 60)),
                    {"a job has model, dataset, batch, gpus and a length of its own; server: has the rest"});
      continue;
    }
    job.settings.emplace_back(entry.key, TextAt{entry.value.text, entry.where});
  }
}

void read_job_length(MapReader& reader, const Node& node, JobEntry& job) {
  int lengths = 0;
  if (const Node* value = reader.find("epochs")) {
    job.epochs = job_number(reader, *value, "epochs", 1e6);
    ++lengths;
  }
  if (const Node* value = reader.find("samples"); value != nullptr && reader.is_scalar(*value)) {
    job.samples = reader.accept(parse_large_count(value->text), *value);
    ++lengths;
  }
  if (const Node* value = reader.find("steps"); value != nullptr && reader.is_scalar(*value)) {
    job.steps = reader.accept(parse_count(value->text, {1, kMostJobSamples}), *value);
    ++lengths;
  }
  if (reader.find("time") != nullptr) {
    job.time = reader.optional_quantity<dimension::kTime>("time");
    ++lengths;
  }
  if (lengths == 1) return;
  const std::string name = job.name.substr(0, 60);
  reader.report(node, ErrorCode::kInvalidArgument,
                lengths == 0 ? fmt::format("job '{}' would never end: nobody says how long it is", name)
                             : fmt::format("job '{}' has {} lengths", name, lengths),
                {"one of epochs: 10, samples: 1e6, steps: 5000, time: 2 h (at full speed)"});
}

Time read_arrival(MapReader& reader) {
  const Node* value = reader.find("arrival");
  if (value == nullptr || !reader.is_scalar(*value)) return {};
  if (value->text.starts_with("-")) {
    reader.report(*value, ErrorCode::kInvalidArgument,
                  fmt::format("arrival '{}' is before time zero", value->text.substr(0, 60)), {"from 0 s on"});
    return {};
  }
  return reader.optional_quantity<dimension::kTime>("arrival", Range::kNonNegative).value_or(Time{});
}

JobEntry read_job(const Node& node, bool drawn, std::vector<Error>& errors) {
  MapReader reader(node, drawn ? "a kind of job" : "a job", errors);
  JobEntry job;
  job.where = node.where;
  job.name = reader.text("name");
  job.model = text_at(reader, "model");
  job.dataset = text_at(reader, "dataset");
  read_job_rates(reader, job, errors);
  if (const auto stored = reader.optional_quantity<dimension::kData>("stored")) job.stored = *stored;
  read_job_settings(reader, job);
  if (reader.find("batch") != nullptr) job.batch = reader.count("batch", {1, kMostJobSamples});
  job.workers_where = job.gpus_where = node.where;
  if (const Node* value = reader.find("most_workers")) {
    job.workers_where = value->where;
    job.most_workers = reader.count("most_workers", {1, kMostSharedCores});
  }
  if (drawn) {
    if (const Node* value = reader.find("weight")) job.weight = job_number(reader, *value, "weight", 1e6).value_or(1);
  } else {
    if (const Node* value = reader.find("gpus")) job.gpus_where = value->where;
    job.gpus = reader.count_or("gpus", 1, {1, kMostJobGpus});
    job.arrival = read_arrival(reader);
    read_job_length(reader, node, job);
  }
  reader.finish();
  if (job.model.has_value() == !job.rates.empty()) {
    reader.report(node, ErrorCode::kInvalidArgument,
                  fmt::format("job '{}' has {}", job.name.substr(0, 60),
                              job.model ? "a model and measured rates" : "neither a model nor measured rates"),
                  {"model: and dataset: (predicted), or samples_per_s: (measured)"});
  } else if (job.model && !job.dataset) {
    reader.report(node, ErrorCode::kInvalidArgument,
                  fmt::format("job '{}' has no dataset: nobody says what its loader reads", job.name.substr(0, 60)),
                  {"dataset: imagenet (`ddlsim list datasets`)"});
  } else if (!job.rates.empty() && (job.dataset || !job.settings.empty())) {
    reader.report(node, ErrorCode::kInvalidArgument,
                  fmt::format("job '{}' has measured rates, and settings that change none", job.name.substr(0, 60)),
                  {"leave dataset and set out"});
  } else if (job.model && job.stored > DataSize::zero()) {
    reader.report(node, ErrorCode::kInvalidArgument, "stored: is the data set's", {"leave it out"});
  }
  return job;
}

std::vector<JobEntry> read_jobs_of(MapReader& reader, const Node& list, bool drawn, std::vector<Error>& errors) {
  std::vector<JobEntry> jobs;
  if (list.kind != NodeKind::kList || list.items.empty()) {
    reader.report(list, ErrorCode::kParse, drawn ? "kinds are a list of jobs" : "jobs are a list of at least one");
    return jobs;
  }
  if (std::ssize(list.items) > kMostJobs) {
    reader.report(list, ErrorCode::kInvalidArgument, fmt::format("over {} jobs", to_text(kMostJobs)));
    return jobs;
  }
  std::set<std::string, std::less<>> names;
  for (const Node& item : list.items) {
    jobs.push_back(read_job(item, drawn, errors));
    if (!names.insert(jobs.back().name).second) {
      reader.report(item, ErrorCode::kInvalidArgument,
                    fmt::format("the name '{}' stands twice", jobs.back().name.substr(0, 60)));
    }
  }
  return jobs;
}

JobsServer read_jobs_server(const Node& node, std::vector<Error>& errors) {
  MapReader reader(node, "server", errors);
  JobsServer server;
  server.where = node.where;
  if (const Node* name = reader.require("node"); name != nullptr && reader.is_scalar(*name)) {
    server.node = {name->text, name->where};
  }
  server.nodes = reader.count_or("nodes", 1, {1, kMostServers});
  if (reader.find("cores") != nullptr) server.cores = reader.count("cores", {1, kMostSharedCores});
  server.memory = reader.optional_quantity<dimension::kData>("memory");
  server.storage = text_at(reader, "storage");
  if (reader.optional_quantity<kReadRate>("storage_bandwidth")) {
    server.storage_bandwidth = text_at(reader, "storage_bandwidth");
  }
  reader.finish();
  return server;
}

void read_draw_times(MapReader& reader, JobsDraw& draw) {
  const Node* node = reader.require("time");
  if (node == nullptr) return;
  if (node->kind != NodeKind::kList || node->items.size() != 2) {
    reader.report(*node, ErrorCode::kParse, "time is the shortest and the longest", {"as time: [10 min, 10 h]"});
    return;
  }
  const auto at = [&](std::size_t i) {
    const Node& item = node->items[i];
    return reader.is_scalar(item) ? reader.accept(parse_time(item.text), item).value_or(Time{}) : Time{};
  };
  draw.shortest = at(0);
  draw.longest = at(1);
  if (draw.longest < draw.shortest) {
    reader.report(*node, ErrorCode::kInvalidArgument, "the longest time is shorter than the shortest");
  }
}

JobsDraw read_draw(const Node& node, std::vector<Error>& errors) {
  MapReader reader(node, "draw", errors);
  JobsDraw draw;
  draw.jobs = reader.count("jobs", {1, kMostJobs});
  draw.seed = static_cast<std::uint64_t>(reader.count_or("seed", 1, {0, std::int64_t{1} << 62}));
  if (const Node* value = reader.require("per_hour")) {
    draw.per_hour = job_number(reader, *value, "per_hour", 1e9).value_or(1);
  }
  if (const Node* gpus = reader.find("gpus"); gpus == nullptr) {
    draw.gpus = {{1, 1.0}};
  } else if (gpus->kind != NodeKind::kMap || gpus->entries.empty()) {
    reader.report(*gpus, ErrorCode::kParse, "gpus are weights by number", {"as gpus: {1: 70, 2: 10, 4: 15, 8: 5}"});
  } else {
    for (const Entry& entry : gpus->entries) {
      const auto count = reader.accept(parse_count(entry.key, {1, kMostJobGpus}), node_of_key(entry));
      const auto weight = job_number(reader, entry.value, "a weight", 1e6);
      if (count && weight) draw.gpus.emplace_back(*count, *weight);
    }
  }
  read_draw_times(reader, draw);
  if (const Node* kinds = reader.require("kinds")) draw.kinds = read_jobs_of(reader, *kinds, true, errors);
  reader.finish();
  return draw;
}

}  // namespace

Expected<JobsFile> read_jobs(const Node& document, const std::string& file) {
  std::vector<Error> errors;
  MapReader reader(document, "a file of jobs", errors);
  JobsFile jobs;
  jobs.file = file;
  if (const Node* server = reader.require("server")) jobs.server = read_jobs_server(*server, errors);
  if (const Node* policies = reader.find("policies")) {
    if (policies->kind != NodeKind::kList || policies->items.empty()) {
      reader.report(*policies, ErrorCode::kParse, "policies are a list", {"as policies: [even, a-dloader]"});
    }
    for (const Node& item : policies->items) {
      if (reader.is_scalar(item)) jobs.policies.push_back({item.text, item.where});
    }
  }
  jobs.objective = reader.optional_choice("objective", kShareObjectives).value_or(jobs.objective);
  jobs.fair = reader.optional_choice("fair", kFairOrNot).value_or(true);
  jobs.restart = reader.optional_quantity<dimension::kTime>("restart", Range::kNonNegative);
  if (const Node* value = reader.find("hysteresis"); value != nullptr && reader.is_scalar(*value)) {
    const std::string number = value->text.substr(0, value->text.find_first_of(" %"));
    const auto plain = parse_number(number);
    const bool none = plain && *plain == 0;
    jobs.hysteresis = none ? std::optional<double>(0.0) : reader.accept(parse_fraction(value->text), *value);
  }
  const Node* list = reader.find("jobs");
  const Node* draw = reader.find("draw");
  if ((list == nullptr) == (draw == nullptr)) {
    reader.report(document, ErrorCode::kInvalidArgument,
                  list == nullptr ? "no jobs: nobody says which" : "jobs and draw: one of them",
                  {"jobs: a list, or draw: how to make them up"});
  } else if (list != nullptr) {
    jobs.jobs = read_jobs_of(reader, *list, false, errors);
  } else {
    jobs.draw = read_draw(*draw, errors);
  }
  if (const Node* sources = reader.find("notes"); sources != nullptr && sources->kind == NodeKind::kList) {
    for (const Node& item : sources->items) {
      if (reader.is_scalar(item)) jobs.notes.push_back(item.text);
    }
  } else if (sources != nullptr) {
    reader.report(*sources, ErrorCode::kParse, "notes are a list of texts");
  }
  return reader.whole(std::move(jobs));
}

Expected<JobsFile> load_jobs(const std::filesystem::path& path) {
  const auto document = load_yaml(path);
  if (!document) return tl::unexpected<Error>(document.error());
  return read_jobs(*document, path.string());
}

}  // namespace ddlsim::io
