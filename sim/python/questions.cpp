#include <pybind11/stl.h>

#include <filesystem>
#include <fstream>

#include "ddlsim/importers/price_file.h"
#include "ddlsim/io/epochs_file.h"
#include "ddlsim/report/questions.h"
#include "ddlsim/report/views.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/collective.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/curve.h"
#include "ddlsim/whatif/explain.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/fleet.h"
#include "ddlsim/whatif/plan_search.h"
#include "ddlsim/whatif/population.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/recommend.h"
#include "ddlsim/whatif/stalls.h"
#include "ddlsim/whatif/validate.h"
#include "module.h"

namespace ddlsim::python {
namespace {

using Text = std::optional<std::string>;
using Predictions = std::vector<std::shared_ptr<Predicted>>;

void add(Predictions& all, const answer::Prediction& prediction, const std::string& title) {
  all.push_back(std::make_shared<Predicted>(Predicted{prediction, {}, title, {}}));
}

/// The predictions that stand in an answer, in the order of its JSON.
Predictions predictions_of(const answer::Comparison& comparison) {
  Predictions all;
  add(all, comparison.baseline, comparison.title);
  for (const answer::Alternative& one : comparison.alternatives) add(all, one.prediction, one.name);
  return all;
}
Predictions predictions_of(const answer::Inverse& inverse) {
  Predictions all;
  add(all, inverse.prediction, inverse.title);
  add(all, inverse.limit, inverse.title);
  if (inverse.baseline) add(all, *inverse.baseline, inverse.title);
  return all;
}
Predictions predictions_of(const answer::PlanChoice& choice) {
  Predictions all;
  add(all, choice.best.prediction, choice.title);
  for (const answer::PlannedJob& one : choice.next) add(all, one.prediction, choice.title);
  return all;
}
Predictions predictions_of(const answer::Explanation& explanation) {
  Predictions all;
  add(all, explanation.prediction, explanation.title);
  return all;
}
Predictions predictions_of(const answer::Recommendation& result) {
  Predictions all;
  for (const answer::ServerChoice& one : result.choices) {
    if (one.prediction) add(all, *one.prediction, result.title);
  }
  return all;
}
Predictions predictions_of(const answer::Curve& curve) {
  Predictions all;
  for (const answer::CurvePoint& one : curve.points) {
    add(all, one.prediction, curve.title + "; " + curve.setting + " = " + one.value);
  }
  return all;
}
template <typename T>
Predictions predictions_of(const T&) {
  return {};
}

/// Asks without the interpreter's lock. An answer that is drawn has a picture.
template <typename Ask>
Answer answered(const Catalog& catalog, bool drawn, const Ask& ask) {
  auto result = [&] {
    const Unlocked unlocked;
    return ask();
  }();
  using T = typename decltype(result)::value_type;
  const auto kept = std::make_shared<const T>(value_or_raise(std::move(result)));
  const auto data = catalog.fingerprint();
  Predictions predictions = predictions_of(*kept);
  for (const auto& one : predictions) one->data = data;
  return {
      .render = [kept, data](report::Format format) { return with_data(report::render(*kept, format), format, *data); },
      .drawn = drawn,
      .predictions = std::move(predictions)};
}

/// A value that has an option of its own rather than a setting: the error says which.
template <typename T>
T option(std::string_view name, Expected<T> value) {
  if (!value) value.error().message = std::string(name) + ": " + value.error().message;
  return value_or_raise(std::move(value));
}

Answer what_if(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const py::list& vs) {
  const Stated stated = stated_of(jobs, settings);
  std::vector<Stated> alternatives;
  std::vector<whatif::Change> changes;
  for (const py::handle one : vs) {
    if (!py::isinstance<py::dict>(one)) {
      raise({ErrorCode::kInvalidArgument, "vs takes maps of settings, one for each alternative", {}, {}, {}});
    }
    py::dict change = py::module_::import("copy").attr("copy")(one);
    whatif::Change made;
    if (change.contains("name")) {
      Kept kept;
      made.name = text_of("name", change.attr("pop")("name"), kept).value_or("");
    }
    alternatives.push_back(stated_of(py::tuple(), change));
    made.overrides = alternatives.back().settings;
    if (made.overrides.empty()) {
      raise({ErrorCode::kInvalidArgument,
             "an alternative of vs without a change",
             {},
             {"as {\"network\": \"100 Gb/s\"}"},
             {}});
    }
    changes.push_back(std::move(made));
  }
  return answered(catalog, true, [&] {
    return changes.empty() ? whatif::what_would_help(catalog.data(), stated.settings)
                           : whatif::compare(catalog.data(), stated.settings, changes);
  });
}

Answer find(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const std::string& variable,
            const std::string& such_that, const Text& from, const Text& to, const Text& sure) {
  const Stated stated = stated_of(jobs, settings);
  const auto condition = value_or_raise(whatif::parse_condition(such_that));
  whatif::FindOptions options{.from = from, .to = to};
  if (sure) options.sure = option("sure", whatif::parse_sure(*sure));
  return answered(catalog, false,
                  [&] { return whatif::find(catalog.data(), stated.settings, variable, condition, options); });
}

Answer plan(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const std::string& objective,
            const Text& limit, const std::optional<std::int64_t>& nodes_up_to) {
  Stated stated = stated_of(jobs, settings);
  whatif::PlanOptions options;
  options.objective = option("objective", parse_choice(answer::kPlanObjectives, objective, "objective"));
  if (limit) options.limit = option("limit", parse_time(*limit));
  if (nodes_up_to) {
    const std::string most = std::to_string(*nodes_up_to);
    options.nodes_up_to = option("nodes_up_to", parse_count(most, {1, hardware::kMaxNodes}));
    stated.settings.push_back({"nodes", most, {}});
  }
  return answered(catalog, true,
                  [&] { return whatif::search_plans(catalog.data(), stated.settings, options, whatif::steady_time); });
}

Answer explain(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const std::string& part) {
  const Stated stated = stated_of(jobs, settings);
  return answered(catalog, false, [&]() -> Expected<answer::Explanation> {
    const auto scenario = whatif::resolve(catalog.data(), stated.settings);
    if (!scenario) return tl::unexpected<Error>(scenario.error());
    return whatif::explain(*scenario, part);
  });
}

Answer stalls(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const std::string& one_server,
              bool fetch_as_repository, const Text& measured) {
  const Stated stated = stated_of(jobs, settings);
  whatif::StallOptions options{
      .fetch = fetch_as_repository ? whatif::FetchRule::kRepository : whatif::FetchRule::kPaper,
      .one_server = one_server};
  return answered(catalog, true, [&]() -> Expected<answer::StallReport> {
    auto report = whatif::stalls(catalog.data(), stated.settings, options);
    if (!report || !measured) return report;
    const auto runs = whatif::load_stall_runs(*measured);
    if (!runs) return tl::unexpected<Error>(runs.error());
    report->measured = *runs;
    report->measured_stalls = whatif::stalls_of(*runs, options.fetch);
    return report;
  });
}

Answer stall_study(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings) {
  const Stated stated = stated_of(jobs, settings);
  return answered(catalog, true, [&] { return whatif::study_layers(catalog.data(), stated.settings); });
}

/// What a recommendation is asked beside the job; nothing: not asked.
struct Wishes {
  Text deadline;
  Text budget;
  std::optional<std::vector<std::string>> clouds;
  std::optional<std::int64_t> max_nodes;
  Text epochs_by_batch;
  Text prices;
  Text region;
  Text limit;
  Text plans;
};

Wishes wishes_of(const py::dict& given) {
  Kept kept;
  const auto text = [&](const char* name) -> Text {
    if (!given.contains(name)) return std::nullopt;
    return text_of(name, given[name], kept);
  };
  Wishes wishes{.deadline = text("deadline"),
                .budget = text("budget"),
                .clouds = {},
                .max_nodes = {},
                .epochs_by_batch = text("epochs_by_batch"),
                .prices = text("prices"),
                .region = text("region"),
                .limit = text("limit"),
                .plans = text("plans")};
  if (given.contains("clouds")) {
    wishes.clouds.emplace();
    for (const py::handle one : given["clouds"]) wishes.clouds->push_back(text_of("catalog", one, kept).value_or(""));
  }
  if (const Text most = text("max_nodes")) {
    wishes.max_nodes = option("max_nodes", parse_count(*most, {1, hardware::kMaxNodes}));
  }
  return wishes;
}

Answer recommend(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const py::dict& given) {
  const Stated stated = stated_of(jobs, settings);
  const Wishes wishes = wishes_of(given);
  whatif::RecommendOptions options;
  options.predict_all = true;
  options.clock = whatif::steady_time;
  options.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.providers = wishes.clouds;
  options.region = wishes.region.value_or("");
  if (wishes.deadline) options.deadline = option("deadline", parse_time(*wishes.deadline));
  if (wishes.budget) options.budget = option("budget", parse_quantity<dimension::kMoney>(*wishes.budget));
  options.plan_all = wishes.plans.has_value();
  if (wishes.limit) options.limit = option("limit", parse_time(*wishes.limit));
  if (wishes.max_nodes) options.max_nodes = *wishes.max_nodes;
  if (wishes.epochs_by_batch) {
    options.epochs_by_batch = value_or_raise(io::load_epochs_by_batch(*wishes.epochs_by_batch));
  }
  if (wishes.prices) options.prices = value_or_raise(importers::load_prices(*wishes.prices));
  if (wishes.region && !wishes.prices) {
    raise({ErrorCode::kInvalidArgument,
           "region without prices",
           {},
           {"the catalogue has one region of each server"},
           {}});
  }
  return answered(catalog, true, [&] { return whatif::recommend(catalog.data(), stated.settings, options); });
}

whatif::ComparedLibrary library_of(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  whatif::ComparedLibrary library;
  library.kind = option("compare", parse_choice(cost::kCollectiveLibraries, text.substr(0, colon), "library"));
  if (colon < text.size()) {
    library.algorithm =
        option("compare", parse_choice(cost::kCollectiveAlgorithms, text.substr(colon + 1), "algorithm"));
  }
  return library;
}

/// The operation and sizes of a collective.
struct Sizes {
  std::string op;
  std::string smallest;
  std::string largest;
  std::int64_t factor = 2;
  Text step;
};

Answer collective(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const Sizes& sizes,
                  const std::vector<std::string>& compare, const Text& table) {
  const Stated stated = stated_of(jobs, settings);
  whatif::CollectiveQuestion question;
  question.op = option("op", parse_choice(primitives::kCollectiveOps, sizes.op, "operation"));
  question.smallest = option("smallest", parse_data_size(sizes.smallest));
  question.largest = option("largest", parse_data_size(sizes.largest));
  question.factor = sizes.factor;
  if (sizes.factor < 2) {
    raise({ErrorCode::kInvalidArgument, "factor: between sizes it is 2 or more", {}, {}, {}});
  }
  if (sizes.step) question.step = option("step", parse_data_size(*sizes.step));
  for (const std::string& one : compare) question.libraries.push_back(library_of(one));
  return answered(catalog, true, [&]() -> Expected<answer::CollectiveReport> {
    auto scenario = whatif::resolve_cluster(catalog.data(), stated.settings);
    if (!scenario) return tl::unexpected<Error>(scenario.error());
    if (table) {
      auto read = whatif::load_collective_table(
          *table, {.op = question.op, .gpus = scenario->cluster.gpus(), .nodes = scenario->cluster.nodes});
      if (!read) return tl::unexpected<Error>(read.error());
      scenario->collective_table = std::move(*read);
    }
    return whatif::sweep_collective(*scenario, question);
  });
}

Answer validate(const Catalog& catalog, const std::vector<std::string>& files, const std::string& anchor,
                const py::dict& settings) {
  const auto way = value_or_raise(parse_choice(whatif::kAnchors, anchor, "anchor"));
  const Stated stated = stated_of(py::tuple(), settings);
  return answered(catalog, true, [&]() -> Expected<answer::Validation> {
    std::vector<whatif::CaseSet> sets;
    for (const std::string& file : files) {
      auto cases = io::load_cases(file);
      if (!cases) return tl::unexpected<Error>(cases.error());
      sets.push_back({std::filesystem::path(file).stem().string(), std::move(*cases)});
    }
    return whatif::validate(catalog.data(), sets, {way, stated.settings});
  });
}

constexpr std::int64_t kMostJobs = 1'000'000'000;

Answer drawn_fleet(const Catalog& catalog, const std::string& population, std::int64_t jobs, std::uint64_t seed,
                   const Text& setting, bool what_if) {
  if (jobs < 1 || jobs > kMostJobs) {
    raise({ErrorCode::kInvalidArgument, "jobs: 1 to 1,000,000,000 are drawn", {}, {}, {}});
  }
  return answered(catalog, true, [&]() -> Expected<answer::FleetReport> {
    const auto drawn = catalog.data().population(population);
    if (!drawn) return tl::unexpected<Error>(drawn.error());
    const auto base = catalog.data().setting(setting.value_or(drawn->setting));
    if (!base) return tl::unexpected<Error>(base.error());
    whatif::Fleet fleet(*base, what_if);
    for (std::int64_t i = 0; i < jobs; ++i) fleet.add(whatif::draw_job(*drawn, seed, static_cast<std::uint64_t>(i)));
    return fleet.report(&*drawn);
  });
}

Answer listed_fleet(const Catalog& catalog, const std::string& table, const std::string& setting, bool what_if) {
  return answered(catalog, true, [&]() -> Expected<answer::FleetReport> {
    const auto base = catalog.data().setting(setting);
    if (!base) return tl::unexpected<Error>(base.error());
    whatif::Fleet fleet(*base, what_if);
    std::ifstream stream(table);
    if (!stream) return fail(ErrorCode::kIo, "could not be opened", {table, 0, 0});
    if (auto read = fleet.add_table(stream, table); !read) return tl::unexpected<Error>(read.error());
    return fleet.report();
  });
}

Answer curve(const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const std::string& text) {
  const Stated stated = stated_of(jobs, settings);
  const auto setting = value_or_raise(whatif::parse_curve(text));
  return answered(catalog, true, [&] { return whatif::curve(catalog.data(), stated.settings, setting); });
}

}  // namespace

void bind_questions(py::module_& module) {
  py::class_<Answer>(module, "Answer")
      .def("render", [](const Answer& self, const std::string& format) { return self.render(format_of(format)); })
      .def_property_readonly("predictions",
                             [](const Answer& self) {
                               py::list all;
                               for (const auto& one : self.predictions) all.append(one);
                               return all;
                             })
      .def_readonly("drawn", &Answer::drawn);
  module.def("what_if", &what_if);
  module.def("find", &find);
  module.def("plan", &plan);
  module.def("explain", &explain);
  module.def("stalls", &stalls);
  module.def("stall_study", &stall_study);
  module.def("recommend", &recommend);
  module.def("collective",
             [](const Catalog& catalog, const py::tuple& jobs, const py::dict& settings, const std::string& op,
                const std::string& smallest, const std::string& largest, std::int64_t factor, const Text& step,
                const std::vector<std::string>& compare, const Text& table) {
               return collective(catalog, jobs, settings, {op, smallest, largest, factor, step}, compare, table);
             });
  module.def("validate", &validate);
  module.def("drawn_fleet", &drawn_fleet);
  module.def("listed_fleet", &listed_fleet);
  module.def("curve", &curve);
}

}  // namespace ddlsim::python
