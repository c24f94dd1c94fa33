#include "ddlsim/service/service.h"

#include <fmt/core.h>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "ddlsim/hardware/node.h"
#include "ddlsim/io/content_hash.h"
#include "ddlsim/report/program.h"
#include "ddlsim/report/questions.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/curve.h"
#include "ddlsim/whatif/elasticity.h"
#include "ddlsim/whatif/explain.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/own_runs.h"
#include "ddlsim/whatif/plan_search.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"
#include "ddlsim/whatif/recommend.h"
#include "ddlsim/whatif/stalls.h"
#include "request.h"

namespace ddlsim::service {

/// Predictors that wait for a question. One that is asked belongs to its thread; the last one used goes out first,
/// for what it keeps is the likeliest to answer.
struct Service::Kept {
  io::Catalog catalog;
  Limits limits;
  std::optional<std::string> data{};  // a fingerprint of the catalogue's files
  std::mutex mutex{};
  std::vector<whatif::Predictor> idle{};

  whatif::Predictor take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return {};
    whatif::Predictor one = std::move(idle.back());
    idle.pop_back();
    return one;
  }
  void give(whatif::Predictor one) {
    const std::lock_guard lock(mutex);
    if (idle.size() < limits.predictors) idle.push_back(std::move(one));
  }
};

namespace {

constexpr report::Format kJson = report::Format::kJson;

struct Asked {
  const Request& request;
  const io::Catalog& catalog;
  const Limits& limits;
  whatif::Predictor& predictor;
  std::optional<Time> left;
};

using Answer = Expected<std::string>;

/// The view of an answer, or its error.
template <typename T>
Answer shown(const Expected<T>& answer) {
  if (!answer) return tl::unexpected<Error>(answer.error());
  return report::render(*answer, kJson);
}

Answer predict(const Asked& asked) {
  if (const auto text = asked.request.text("curve")) {
    const auto setting = whatif::parse_curve(*text);
    if (!setting) return asked.request.at("curve", setting.error());
    return shown(whatif::curve(asked.catalog, asked.request.job(), *setting));
  }
  const auto scenario = whatif::resolve(asked.catalog, asked.request.job());
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  auto prediction = asked.predictor.predict(*scenario);
  if (!prediction) return tl::unexpected<Error>(prediction.error());
  whatif::add_notes_of_one_job(*scenario, *prediction);
  return report::render(*prediction, whatif::describe(*scenario), kJson);
}

Answer what_if(const Asked& asked) {
  const auto sensitive = asked.request.flag("elasticities");
  if (!sensitive) return tl::unexpected<Error>(sensitive.error());
  const auto& changes = asked.request.changes();
  if (*sensitive && !changes.empty()) {
    return asked.request.at("elasticities", {ErrorCode::kInvalidArgument, "elasticities are of one job", {}, {}, {}});
  }
  if (*sensitive) return shown(whatif::elasticities(asked.catalog, asked.request.job()));
  return shown(changes.empty() ? whatif::what_would_help(asked.catalog, asked.request.job())
                               : whatif::compare(asked.catalog, asked.request.job(), changes));
}

Answer find(const Asked& asked) {
  const auto variable = asked.request.text("variable");
  const auto words = asked.request.text("such_that");
  if (!variable || !words) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is missing", variable ? "such_that" : "variable"), {},
                {R"(as {"job": {...}, "variable": "network", "such_that": "scaling_efficiency >= 90 %"})"});
  }
  const auto condition = whatif::parse_condition(*words);
  if (!condition) return asked.request.at("such_that", condition.error());
  whatif::FindOptions options{.from = asked.request.text("from"), .to = asked.request.text("to"), .sure = {}};
  if (const auto text = asked.request.text("sure")) {
    const auto sure = whatif::parse_sure(*text);
    if (!sure) return asked.request.at("sure", sure.error());
    options.sure = *sure;
  }
  return shown(whatif::find(asked.catalog, asked.request.job(), *variable, *condition, options));
}

/// Of a search for plans, as it is asked or at most.
Expected<Time> search_limit(const Asked& asked) {
  const Time most = asked.left ? min(asked.limits.search, *asked.left) : asked.limits.search;
  const auto text = asked.request.text("limit");
  if (!text) return most;
  const auto limit = parse_time(*text);
  if (!limit) return asked.request.at("limit", limit.error());
  if (*limit > asked.limits.search) {
    return asked.request.at("limit", {ErrorCode::kInvalidArgument,
                                      fmt::format("a search takes {} here at most", to_text(asked.limits.search)),
                                      {},
                                      {"leave it out for that; the command takes as long as it is told"},
                                      {}});
  }
  return min(*limit, most);
}

Answer plan(const Asked& asked) {
  whatif::PlanOptions options;
  if (const auto text = asked.request.text("objective")) {
    const auto objective = parse_choice(answer::kPlanObjectives, *text, "objective");
    if (!objective) return asked.request.at("objective", objective.error());
    options.objective = *objective;
  }
  const auto limit = search_limit(asked);
  if (!limit) return tl::unexpected<Error>(limit.error());
  options.limit = *limit;
  std::vector<whatif::Override> job = asked.request.job();
  if (const auto text = asked.request.text("nodes_up_to")) {
    const auto most = parse_count(*text, {1, hardware::kMaxNodes});
    if (!most) return asked.request.at("nodes_up_to", most.error());
    options.nodes_up_to = *most;
    job.push_back({"nodes", *text, {}});
  }
  auto choice = whatif::search_plans(asked.catalog, job, options, whatif::steady_time);
#ifdef __GLIBC__
  malloc_trim(0);  // a search takes as much as all other questions together, and gives it back
#endif
  return shown(choice);
}

Answer explain(const Asked& asked) {
  const auto scenario = whatif::resolve(asked.catalog, asked.request.job());
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  return shown(whatif::explain(*scenario, asked.request.text("part").value_or("")));
}

constexpr Choices<whatif::FetchRule, 2> kFetchRules{
    {{"paper", whatif::FetchRule::kPaper}, {"repository", whatif::FetchRule::kRepository}}};

Answer stalls(const Asked& asked) {
  whatif::StallOptions options;
  options.one_server = asked.request.text("one_server").value_or("");
  if (const auto text = asked.request.text("fetch")) {
    const auto rule = parse_choice(kFetchRules, *text, "fetch");
    if (!rule) return asked.request.at("fetch", rule.error());
    options.fetch = *rule;
  }
  return shown(whatif::stalls(asked.catalog, asked.request.job(), options));
}

Answer recommend(const Asked& asked) {
  whatif::RecommendOptions options;
  if (const auto text = asked.request.text("deadline")) {
    const auto time = parse_time(*text);
    if (!time) return asked.request.at("deadline", time.error());
    options.deadline = *time;
  }
  if (const auto text = asked.request.text("budget")) {
    const auto money = parse_quantity<dimension::kMoney>(*text);
    if (!money) return asked.request.at("budget", money.error());
    options.budget = *money;
  }
  if (const auto text = asked.request.text("max_nodes")) {
    const auto most = parse_count(*text, {1, hardware::kMaxNodes});
    if (!most) return asked.request.at("max_nodes", most.error());
    options.max_nodes = *most;
  }
  options.providers = whatif::providers_named(asked.request.text("catalog").value_or("all"));
  options.predict_all = true;  // as the command does for JSON
  options.clock = whatif::steady_time;
  const auto limit = search_limit(asked);
  if (!limit) return tl::unexpected<Error>(limit.error());
  options.limit = *limit;
  const auto plans = asked.request.flag("plans");
  if (!plans) return tl::unexpected<Error>(plans.error());
  options.plan_all = *plans;
  return shown(whatif::recommend(asked.catalog, asked.request.job(), options));
}

struct Command {
  std::string_view name;
  std::array<std::string_view, 6> keys;  // beside the job
  Answer (*answer)(const Asked&);
};

constexpr auto kCommands = std::to_array<Command>({
    {"predict", {"curve"}, predict},
    {"what-if", {"vs", "elasticities"}, what_if},
    {"find", {"variable", "such_that", "from", "to", "sure"}, find},
    {"plan", {"objective", "limit", "nodes_up_to"}, plan},
    {"explain", {"part"}, explain},
    {"stalls", {"one_server", "fetch"}, stalls},
    {"recommend", {"deadline", "budget", "catalog", "max_nodes", "limit", "plans"}, recommend},
});

constexpr auto kNames = [] {
  std::array<std::string_view, kCommands.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kCommands[i].name;
  return names;
}();

nlohmann::ordered_json json_of(const Error& error, std::string_view code) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema", "ddlsim/error/1"},
            {"code", code},
            {"error", error.message},
            {"file", error.where.file.empty() ? Json(nullptr) : Json(error.where.file)},
            {"line", error.where.line == 0 ? Json(nullptr) : Json(error.where.line)},
            {"column", error.where.column == 0 ? Json(nullptr) : Json(error.where.column)},
            {"notes", error.notes},
            {"also", Json::array()}};
  for (const Error& more : error.also) {
    Json further = json_of(more, word_of(more.code));
    further.erase("schema");
    json["also"].push_back(std::move(further));
  }
  return json;
}

/// The notes without an offer that is not meant for who asks from afar.
Error without_files(Error error) {
  constexpr std::string_view kOffer = "; a path to a file of your own works too";
  for (std::string& note : error.notes) {
    if (note.ends_with(kOffer)) note.resize(note.size() - kOffer.size());
  }
  for (Error& more : error.also) more = without_files(std::move(more));
  return error;
}

}  // namespace

std::span<const std::string_view> commands() { return kNames; }

std::span<const std::string_view> keys_of(std::string_view command) {
  for (const Command& one : kCommands) {
    if (one.name != command) continue;
    std::span<const std::string_view> keys = one.keys;
    while (!keys.empty() && keys.back().empty()) keys = keys.first(keys.size() - 1);
    return keys;
  }
  return {};
}

Service::Service(io::Catalog catalog, Limits limits) : kept_(new Kept{std::move(catalog), limits}) {
  if (auto data = io::fingerprint_of(kept_->catalog.root())) kept_->data = std::move(*data);
}
Service::~Service() = default;
Service::Service(Service&&) noexcept = default;
Service& Service::operator=(Service&&) noexcept = default;

const io::Catalog& Service::catalog() const { return kept_->catalog; }

Expected<std::string> Service::answer(std::string_view command, std::string_view request, Syntax syntax,
                                      std::optional<Time> left) const {
  for (const Command& one : kCommands) {
    if (one.name != command) continue;
    const auto read = Request::read(request, syntax, keys_of(command), kept_->limits, kept_->catalog);
    if (!read) return tl::unexpected<Error>(read.error());
    whatif::Predictor predictor = kept_->take();
    auto answered = one.answer({*read, kept_->catalog, kept_->limits, predictor, left});
    kept_->give(std::move(predictor));
    if (!answered) {
      return tl::unexpected<Error>(kept_->limits.files ? answered.error() : without_files(answered.error()));
    }
    return report::with_program(*answered, kept_->data);
  }
  const std::vector<std::string> names(kNames.begin(), kNames.end());
  return fail(ErrorCode::kNotFound, fmt::format("unknown command '{}'", command.substr(0, 60)), {},
              {suggestion(command, names)});
}

Expected<std::vector<Expected<Time>>> Service::step_times(
    std::string_view job, std::span<const std::vector<whatif::Override>> changes) const {
  const auto read = Request::read(job, Syntax::kYaml, {}, kept_->limits, kept_->catalog);
  if (!read) return tl::unexpected<Error>(read.error());
  const auto of_runs = [](const whatif::Override& setting) { return setting.path.starts_with("measured."); };
  std::vector<whatif::Override> settings = read->job();
  // As in a sweep: runs are of the job as it stands, not of every point.
  std::shared_ptr<const whatif::OwnRuns> ran;
  if (std::erase_if(settings, of_runs) > 0) {
    const auto as_stated = whatif::resolve(kept_->catalog, read->job());
    if (!as_stated) return tl::unexpected<Error>(as_stated.error());
    ran = as_stated->own_runs;
  }
  whatif::Predictor predictor = kept_->take();
  std::vector<Expected<Time>> times;
  times.reserve(changes.size());
  const std::size_t stated = settings.size();
  for (const std::vector<whatif::Override>& row : changes) {
    settings.resize(stated);
    settings.insert(settings.end(), row.begin(), row.end());
    const bool corrects = ran && std::none_of(row.begin(), row.end(), of_runs);
    auto scenario = whatif::resolve(kept_->catalog, settings);
    if (scenario && corrects) scenario = whatif::corrected(std::move(*scenario), ran);
    times.push_back(scenario.and_then([&](const whatif::Scenario& one) { return predictor.step_time(one); }));
  }
  kept_->give(std::move(predictor));
  return times;
}

std::string error_json(const Error& error) { return error_json(error, word_of(error.code)); }

std::string error_json(const Error& error, std::string_view code) {
  return json_of(error, code).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ddlsim::service
