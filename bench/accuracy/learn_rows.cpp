#include "learn_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <stdexcept>

#include "cases/case_metric.h"
#include "cases/case_scenario.h"
#include "cases/language_case.h"
#include "ddlsim/io/case_file.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"
#include "predict/interval.h"

namespace ddlsim::learn {
namespace {

std::string page_of(const std::string& source) { return source.substr(0, source.find_first_of("#@")); }

std::string repository_of(const std::string& source) {
  const std::size_t first = source.find(':');
  return first == std::string::npos ? source : source.substr(0, source.find(':', first + 1));
}

void describe(const io::Case& one, const whatif::Scenario& scenario, Row& row) {
  using hardware::ChangeKind;
  const plan::Parallel& parallel = scenario.parallel;
  row.job = fmt::format("{}, {} x {}, {}, {} {} {} {} {}", one.model, one.nodes, one.gpus_per_node, one.framework,
                        parallel.tensor, parallel.context, parallel.expert, parallel.pipeline, parallel.zero);
  for (const char* condition : {"data", "dali", "xla", "phase", "seq_len", "variant", "unit", "loss_scale", "optimizer",
                                "implementation", "asp"}) {
    row.job += ", " + one.said(condition).value_or("-");
  }
  row.has[ChangeKind::kGpu] = scenario.cluster.node.gpu.id;
  row.has[ChangeKind::kPrecision] = std::string(name_of(kPrecisions, scenario.precision));
  row.has[ChangeKind::kStrategy] = std::string(name_of(plan::kStrategies, scenario.strategy.kind));
}

std::optional<Row> row_of(const io::Case& one, const whatif::CaseReader& reader, std::int64_t widest) {
  // What is assumed teaches nothing, and passes timed alone have no software on top.
  if (whatif::leaves_open(one) || whatif::is_pass(one.metric)) return std::nullopt;
  auto scenario = reader.scenario_of(one, widest);
  if (!scenario) return std::nullopt;
  scenario->software = nullptr;
  const plan::SoftwareFeatures features = plan::software_features(*scenario);
  const auto question = whatif::ask(*scenario);
  const auto prediction = whatif::predict(*scenario);
  if (!question || !prediction || scenario->model->measured || !scenario->model->has_layers()) return std::nullopt;
  const auto value = whatif::metric_of(one, *scenario, *prediction, prediction->step_time);
  if (!value) return std::nullopt;
  Row row;
  row.id = one.id;
  row.group = one.where.file + one.group;
  row.one_server = one.nodes == 1;
  row.rate = whatif::is_rate(one.metric);
  row.kind = whatif::kind_of(*question);
  row.year = scenario->software_year.get();
  const double ratio = row.rate ? *value / one.value : one.value / *value;  // measured over predicted time
  row.measured = std::log(prediction->step_time.in(seconds)*ratio);
  for (std::size_t k = 0; k < kFeatures; ++k) row.features[static_cast<int>(k)] = features[k];
  describe(one, *scenario, row);
  whatif::Predictor predictor;
  const auto log_time = [&](const hardware::SoftwareFactor& factor) -> std::optional<double> {
    scenario->software_of_whole = factor;
    const auto step = predictor.step_time(*scenario);
    return step ? std::optional(std::log(step->in(seconds))) : std::nullopt;
  };
  for (std::size_t i = 0; i < kGrid.size(); ++i) {
    const double times = std::exp(kGrid[i]);
    const auto time = log_time({times, times, times});
    if (!time) return std::nullopt;
    row.times[i] = *time;
  }
  constexpr double kMore = 1.1;
  const auto more = log_time({kMore, kMore, kMore});
  const auto more_memory = log_time({1, kMore, kMore});
  const auto more_arithmetic = log_time({kMore, 1, 1});
  const auto more_small = log_time({.small = kMore - 1});
  if (!more || !more_memory || !more_arithmetic || !more_small) return std::nullopt;
  const double now = predicted(row, 0).first;
  const double felt = *more - now;
  if (felt > 1e-9) {
    row.of_memory = std::clamp((*more_memory - now) / felt, 0.0, 1.0);
    row.of_memory_cheaper = std::clamp(1 - (*more_arithmetic - now) / felt, 0.0, 1.0);
    row.of_small = std::clamp((*more_small - now) / felt, 0.0, 1.0);
  }
  return row;
}

/// Age counts up to the mean year of the rows that state one; who states none counts as new, as in a prediction.
double add_years(std::vector<Row>& rows) {
  double sum = 0;
  double stated = 0;
  for (const Row& row : rows) {
    sum += row.year.value_or(0);
    stated += row.year ? 1 : 0;
  }
  const double newest = std::round(10 * sum / std::max(stated, 1.0)) / 10;
  for (Row& row : rows) {
    const double years = std::max(newest - row.year.value_or(newest), 0.0);
    row.features[static_cast<int>(hardware::SoftwareFeature::kYears)] = years / 3;
  }
  return newest;
}

}  // namespace

/// log P and its slope at a log f; straight lines between the grid's points and beyond.
std::pair<double, double> predicted(const Row& row, double factor) {
  std::size_t i = 1;
  while (i + 1 < kGrid.size() && kGrid[i] < factor) ++i;
  const double slope = (row.times[i] - row.times[i - 1]) / (kGrid[i] - kGrid[i - 1]);
  return {row.times[i - 1] + slope * (factor - kGrid[i - 1]), slope};
}

Rows read_rows(const io::Catalog& catalog, const std::vector<std::string>& files) {
  Rows learnt;
  auto& [rows, sources, newest] = learnt;
  const whatif::CaseReader reader(catalog);
  std::map<std::string, std::set<std::string>> pages;
  std::map<std::string, std::size_t> count_of;
  std::vector<std::string> published;
  for (const std::string& file : files) {
    const auto cases = io::load_cases(file);
    if (!cases) throw std::runtime_error(cases.error().message);
    std::map<std::string, std::int64_t> widest;
    for (const io::Case& one : *cases) widest[one.group] = std::max(widest[one.group], one.gpus_per_node);
    const std::size_t slash = file.find_last_of('/');
    for (const io::Case& one : *cases) {
      if (whatif::architecture_family(one) == "collective") continue;
      auto row = row_of(one, reader, widest[one.group]);
      if (!row) continue;
      row->set = file.substr(slash + 1, file.rfind('.') - slash - 1);
      pages[repository_of(one.source)].insert(page_of(one.source));
      ++count_of[repository_of(one.source)];
      published.push_back(one.source);
      rows.push_back(std::move(*row));
    }
  }
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string repository = repository_of(published[i]);
    const bool few = count_of[repository] < 4 * pages[repository].size();
    const std::string name = few ? repository : page_of(published[i]);
    rows[i].source = known.try_emplace(name, known.size()).first->second;
  }
  sources.resize(known.size());
  for (const auto& [name, number] : known) sources[number] = name;
  newest = add_years(rows);
  std::vector<double> count(sources.size());
  for (const Row& row : rows) count[row.source] += 1;
  for (Row& row : rows) row.weight = 1 / std::sqrt(count[row.source]);
  return learnt;
}

}  // namespace ddlsim::learn
