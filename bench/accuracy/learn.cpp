// Learns hardware/software/steps.yaml (hardware/software.h) from the tables of bench/accuracy/cases.
//
//   accuracy_learn OUT.yaml CASES.csv... [--rows ROWS.csv]
//
// --rows writes what each row was learnt from: its features, log P on the grid, what is left of it with its source out.
//
// Every step that ddlsim can predict is a row: its features z (plan/software.h), its measured time m, the time P(f)
// that is predicted when all GPU time is f times as long, read off a grid of f, and the share s of GPU time that
// kernels bound by memory take, as the step feels it. Sought are effects a, and b of memory, that minimise
//   sum of w |log m - log P(f)| + ridge * (sum of a_k^2 + sum of b_k^2),   f = exp(a z) (1 - s + s exp(b z)) (1 + c u)
// with w = 1 / square root of the rows of its source, so that a source with a hundred rows counts as ten; c >= 0 is the
// effect on small kernels, u what an effect of 1 on them adds, as the step feels it. P is linearised where the fit
// stands (Gauss-Newton), absolute values by iteratively reweighted least squares, the system solved by Eigen's LDLT;
// sharing is learnt within series and held.
//
// A source is a page, or a repository whose pages have fewer than four rows each (MLPerf's submitters run the same
// code). What is printed and written of errors leaves one source out at a time: effects fitted to all others predict
// it. The ends of intervals are percentiles of those residuals by the kind of question, weighted as the rows; the
// range of an effect is that of 200 fits to sources drawn with replacement.
#include <fmt/core.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cases/case_metric.h"
#include "cases/case_scenario.h"
#include "cases/language_case.h"
#include "ddlsim/io/case_file.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/io/software_file.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"
#include "predict/interval.h"
#include "statistics.h"

namespace {

using namespace ddlsim;

constexpr std::size_t kFeatures = hardware::kSoftwareFeatureCount;
constexpr double kRidge = 3;  // in rows of weight 1 with a residual of 1
constexpr std::array<double, 9> kGrid{-0.8, -0.4, -0.2, 0, 0.2, 0.4, 0.7, 1.0, 1.5};  // log f
constexpr int kResamples = 200;

struct Row {
  std::string set;
  std::string id;
  std::string group;
  std::size_t source = 0;
  bool one_server = false;
  bool rate = true;
  hardware::QuestionKind kind = hardware::QuestionKind::kOneGpu;
  double measured = 0;           // log time
  double of_memory = 0;          // share of GPU time; where memory is dearer with its surcharge (cost/layer_time.h)
  double of_memory_cheaper = 0;  // where arithmetic is
  double of_small = 0;           // of it, what an effect of 1 on small kernels adds
  std::array<double, kGrid.size()> times{};  // log P(f) on the grid
  Eigen::Matrix<double, kFeatures, 1> features;
  double weight = 1;
  std::optional<double> year;  // of the software
  // What a pair of rows may differ in.
  std::string job;  // the model, the counts, its split, the framework and the conditions of the run
  std::map<hardware::ChangeKind, std::string> has;
};

using Effects = Eigen::Matrix<double, kFeatures, 1>;

/// log P and its slope at a log f; straight lines between the grid's points and beyond.
std::pair<double, double> predicted(const Row& row, double factor) {
  std::size_t i = 1;
  while (i + 1 < kGrid.size() && kGrid[i] < factor) ++i;
  const double slope = (row.times[i] - row.times[i - 1]) / (kGrid[i] - kGrid[i - 1]);
  return {row.times[i - 1] + slope * (factor - kGrid[i - 1]), slope};
}

/// log f of a row's GPU time.
struct LogFactor {
  double value = 0;
  Effects slope;  // by each effect
};

LogFactor factor_of(const Row& row, const Effects& a) {
  using hardware::SoftwareFeature;
  double all = 0;
  double arithmetic = 0;
  double memory = 0;
  double small = 0;
  for (std::size_t k = 0; k < kFeatures; ++k) {
    const SoftwareFeature feature = hardware::kSoftwareFeatures[k].second;
    double& sum = feature == SoftwareFeature::kSmallKernels ? small
                  : is_of_arithmetic(feature)               ? arithmetic
                  : is_of_memory(feature)                   ? memory
                                                            : all;
    sum += a[static_cast<int>(k)] * row.features[static_cast<int>(k)];
  }
  const double share = memory > arithmetic ? row.of_memory : row.of_memory_cheaper;
  const double bound = share * std::exp(memory);
  const double computed = (1 - share) * std::exp(arithmetic);
  const double scaled = computed + bound;
  const double more = 1 + row.of_small * std::max(small, 0.0);
  LogFactor factor{.value = all + std::log(scaled * more), .slope = row.features};
  for (std::size_t k = 0; k < kFeatures; ++k) {
    const SoftwareFeature feature = hardware::kSoftwareFeatures[k].second;
    if (feature == SoftwareFeature::kSmallKernels) factor.slope[static_cast<int>(k)] *= row.of_small / more;
    if (is_of_arithmetic(feature)) factor.slope[static_cast<int>(k)] *= computed / scaled;
    if (is_of_memory(feature)) factor.slope[static_cast<int>(k)] *= bound / scaled;
  }
  return factor;
}

double residual_of(const Row& row, const Effects& a) {
  return row.measured - predicted(row, factor_of(row, a).value).first;
}

/// Keeps the effect of sharing a server where series have it.
void hold(Eigen::Matrix<double, kFeatures, kFeatures>& normal, Effects& right, double shared) {
  constexpr double kStiff = 1e9;
  constexpr int kDoublings = static_cast<int>(hardware::SoftwareFeature::kShared);
  normal(kDoublings, kDoublings) += kStiff;
  right[kDoublings] += kStiff * shared;
}

/// What a doubling of the GPUs that share a server takes: in every series of one server, from its smallest row to each
/// other; their median, a source weighing as the square root of its rows. Between series other things differ as well.
double sharing(const std::vector<Row>& rows, const std::vector<int>& counts) {
  constexpr int kDoublings = static_cast<int>(hardware::SoftwareFeature::kShared);
  std::map<std::string, const Row*> smallest;
  const auto within = [](const Row& row) { return row.one_server; };
  for (const Row& row : rows) {
    if (!within(row)) continue;
    const Row*& least = smallest[row.group];
    if (least == nullptr || row.features[kDoublings] < least->features[kDoublings]) least = &row;
  }
  std::vector<std::pair<double, double>> slopes;
  for (const Row& row : rows) {
    if (!within(row) || counts[row.source] == 0) continue;
    const Row& least = *smallest.at(row.group);
    const double doublings = row.features[kDoublings] - least.features[kDoublings];
    if (doublings <= 0) continue;
    const double more = (row.measured - predicted(row, 0).first) - (least.measured - predicted(least, 0).first);
    slopes.emplace_back(more / doublings, row.weight * counts[row.source]);
  }
  return slopes.empty() ? 0 : weighted_quantile(std::move(slopes), 0.5);
}

/// `counts`: how often each source is in the sample.
Effects fit(const std::vector<Row>& rows, const std::vector<int>& counts) {
  const double held = sharing(rows, counts);
  constexpr double kSmallest = 0.02;  // residuals below count alike
  Effects a = Effects::Zero();
  for (int round = 0; round < 40; ++round) {
    Eigen::Matrix<double, kFeatures, kFeatures> normal = Eigen::Matrix<double, kFeatures, kFeatures>::Zero();
    Effects right = Effects::Zero();
    for (const Row& row : rows) {
      if (counts[row.source] == 0) continue;
      const LogFactor factor = factor_of(row, a);
      const auto [time, slope] = predicted(row, factor.value);
      const double residual = row.measured - time;
      const double weight = row.weight * counts[row.source] / std::max(std::abs(residual), kSmallest);
      const Effects z = factor.slope * slope;
      normal += weight * z * z.transpose();
      right += weight * z * (residual + z.dot(a));
    }
    for (std::size_t k = 0; k < kFeatures; ++k) normal(static_cast<int>(k), static_cast<int>(k)) += kRidge;
    hold(normal, right, held);
    const Effects next = normal.ldlt().solve(right);
    const double moved = (next - a).cwiseAbs().maxCoeff();
    a += 0.7 * (next - a);
    if (moved < 1e-4) break;
  }
  return a;
}

struct Errors {
  std::vector<double> absolute;
  std::vector<double> signed_log;
  double inside = 0;
};

/// predicted / measured - 1 in the row's own metric, of a log of measured over predicted time.
double error_of(const Row& row, double residual) { return std::abs(std::expm1(row.rate ? residual : -residual)); }

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

/// Whether rows of a kind say what another may be off by: where nobody says what drives the network, no less is open
/// than where somebody does.
bool speaks_for(hardware::QuestionKind row, hardware::QuestionKind asked) {
  using hardware::QuestionKind;
  return row == asked || (asked == QuestionKind::kAssumedNetwork && row == QuestionKind::kServers);
}

struct Learner {
  std::vector<Row> rows;
  std::vector<std::string> sources;
  std::vector<double> residuals;  // of sources that were left out
  double newest = 0;

  void read(const io::Catalog& catalog, const std::vector<std::string>& files) {
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
    add_years();
    std::vector<double> count(sources.size());
    for (const Row& row : rows) count[row.source] += 1;
    for (Row& row : rows) row.weight = 1 / std::sqrt(count[row.source]);
  }

  /// Age counts up to the mean year of the rows that state one; who states none counts as new, as in a prediction.
  void add_years() {
    double sum = 0;
    double stated = 0;
    for (const Row& row : rows) {
      sum += row.year.value_or(0);
      stated += row.year ? 1 : 0;
    }
    newest = std::round(10 * sum / std::max(stated, 1.0)) / 10;
    for (Row& row : rows) {
      const double years = std::max(newest - row.year.value_or(newest), 0.0);
      row.features[static_cast<int>(hardware::SoftwareFeature::kYears)] = years / 3;
    }
  }

  void leave_out() {
    residuals.resize(rows.size());
    for (std::size_t left = 0; left < sources.size(); ++left) {
      std::vector<int> counts(sources.size(), 1);
      counts[left] = 0;
      const Effects a = fit(rows, counts);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].source == left) residuals[i] = residual_of(rows[i], a);
      }
    }
  }

  [[nodiscard]] std::vector<hardware::SoftwareEffect> effects() const {
    const Effects all = fit(rows, std::vector<int>(sources.size(), 1));
    std::mt19937_64 random(1);
    std::vector<Effects> resampled;
    for (int i = 0; i < kResamples; ++i) {
      std::vector<int> counts(sources.size());
      for (std::size_t s = 0; s < sources.size(); ++s) ++counts[random() % sources.size()];
      resampled.push_back(fit(rows, counts));
    }
    std::vector<hardware::SoftwareEffect> list;
    for (std::size_t k = 0; k < kFeatures; ++k) {
      const hardware::SoftwareFeature feature = hardware::kSoftwareFeatures[k].second;
      std::vector<double> values;
      for (const Effects& one : resampled) values.push_back(one[static_cast<int>(k)]);
      std::sort(values.begin(), values.end());
      list.push_back({.feature = feature,
                      .effect = all[static_cast<int>(k)],
                      .low = values[values.size() / 20],
                      .high = values[values.size() - 1 - values.size() / 20]});
    }
    return list;
  }

  [[nodiscard]] std::vector<hardware::SoftwareEnds> ends() const {
    std::vector<hardware::SoftwareEnds> list;
    for (const auto& [name, kind] : hardware::kQuestionKinds) {
      std::vector<std::pair<double, double>> values;
      std::set<std::size_t> from;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!speaks_for(rows[i].kind, kind)) continue;
        values.emplace_back(std::exp(residuals[i]), rows[i].weight);
        from.insert(rows[i].source);
      }
      if (values.empty()) continue;
      const double low = std::min(weighted_quantile(values, 0.05), 1.0);
      const double high = std::max(weighted_quantile(values, 0.95), 1.0);
      const bool one = from.size() == 1;  // the next source may err the other way
      list.push_back({.kind = kind,
                      .low = one ? std::min(low, 1 / high) : low,
                      .high = one ? std::max(high, 1 / low) : high,
                      .rows = static_cast<std::int64_t>(values.size()),
                      .sources = static_cast<std::int64_t>(from.size())});
    }
    return list;
  }

  /// Of every kind of change, from pairs of rows of one source and one job that differ in nothing else but the batch,
  /// which often goes with it. A source weighs as the root of its pairs.
  [[nodiscard]] std::vector<hardware::ChangeSpread> changes() const {
    using hardware::ChangeKind;
    std::map<ChangeKind, std::map<std::size_t, std::vector<double>>> found;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = i + 1; j < rows.size(); ++j) {
        const Row& a = rows[i];
        const Row& b = rows[j];
        if (a.source != b.source || a.job != b.job) continue;
        std::vector<ChangeKind> changed;
        for (const auto& [kind, value] : a.has) {
          if (value != b.has.at(kind)) changed.push_back(kind);
        }
        if (changed.size() == 1) found[changed.front()][a.source].push_back(std::abs(residuals[i] - residuals[j]));
      }
    }
    std::vector<hardware::ChangeSpread> list;
    for (const auto& [kind, of_sources] : found) {
      std::vector<std::pair<double, double>> values;
      for (const auto& [source, differences] : of_sources) {
        for (const double one : differences) {
          values.emplace_back(one, 1 / std::sqrt(static_cast<double>(differences.size())));
        }
      }
      const auto pairs = static_cast<std::int64_t>(values.size());
      constexpr double kTwoSided = 1.645;  // 90 % of a normal distribution
      list.push_back({.change = kind,
                      .deviation = weighted_quantile(std::move(values), 0.9) / kTwoSided,
                      .pairs = pairs,
                      .sources = static_cast<std::int64_t>(of_sources.size())});
    }
    return list;
  }

  void print(const hardware::SoftwareProfile& profile) const {
    std::map<std::string, Errors> sets;
    std::map<std::string, std::vector<double>> kernels;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const hardware::SoftwareEnds& ends = *profile.ends_of(rows[i].kind);
      for (const std::string& name : {rows[i].set, std::string("~ all")}) {
        Errors& errors = sets[name];
        errors.absolute.push_back(error_of(rows[i], residuals[i]));
        errors.signed_log.push_back(-residuals[i]);
        const double ratio = std::exp(residuals[i]);
        if (ends.low <= ratio && ratio <= ends.high) errors.inside += 1;
        kernels[name].push_back(error_of(rows[i], rows[i].measured - predicted(rows[i], 0).first));
      }
    }
    fmt::print("{:28} {:>5} {:>14} {:>16} {:>9} {:>8}\n", "set", "rows", "kernels alone", "source left out", "bias",
               "in 90");
    for (const auto& [name, errors] : sets) {
      const auto n = static_cast<double>(errors.absolute.size());
      fmt::print("{:28} {:5} {:6.1f} /{:6.1f} {:8.1f} /{:6.1f} {:8.1f} % {:6.0f} %\n", name, errors.absolute.size(),
                 100 * mean(kernels.at(name)), 100 * median(kernels.at(name)), 100 * mean(errors.absolute),
                 100 * median(errors.absolute), 100 * std::expm1(median(errors.signed_log)), 100 * errors.inside / n);
    }
  }

  void write_rows(const std::string& path) const {
    std::ofstream file(path);
    file << "set,id,group,source,kind,measured,left,of_memory";
    for (const auto& [name, feature] : hardware::kSoftwareFeatures) file << ',' << name;
    for (const double factor : kGrid) file << fmt::format(",p{}", factor);
    file << '\n';
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      file << fmt::format("{},{},\"{}\",\"{}\",{},{:.6f},{:.6f},{:.4f}", row.set, row.id, row.group,
                          sources[row.source], hardware::kQuestionKinds[static_cast<std::size_t>(row.kind)].first,
                          row.measured, residuals[i], row.of_memory);
      for (const double value : row.features) file << fmt::format(",{:.6g}", value);
      for (const double time : row.times) file << fmt::format(",{:.6f}", time);
      file << '\n';
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  std::string rows_file;
  if (argc > 4 && std::string_view(argv[argc - 2]) == "--rows") {
    rows_file = argv[argc - 1];
    argc -= 2;
  }
  if (argc < 3) {
    fmt::print(stderr, "accuracy_learn OUT.yaml CASES.csv... [--rows ROWS.csv]\n");
    return 2;
  }
  const auto catalog = io::Catalog::open(DDLSIM_SOURCE_DATA);
  if (!catalog) return 1;
  Learner learner;
  learner.read(*catalog, {argv + 2, argv + argc});
  if (learner.rows.empty()) {
    fmt::print(stderr, "accuracy_learn: no row is predicted: is {} one that this program reads?\n", argv[1]);
    return 1;
  }
  learner.leave_out();
  hardware::SoftwareProfile profile{
      .id = "steps",
      .rows = static_cast<std::int64_t>(learner.rows.size()),
      .sources = static_cast<std::int64_t>(learner.sources.size()),
      .newest = learner.newest,
      .effects = {},
      .ends = {},
      .changes = {},
      .made_by = "bench/accuracy/learn.cpp, from the tables of steps in bench/accuracy/cases"};
  profile.effects = learner.effects();
  profile.ends = learner.ends();
  profile.changes = learner.changes();
  std::vector<double> errors;
  for (std::size_t i = 0; i < learner.rows.size(); ++i) {
    errors.push_back(error_of(learner.rows[i], learner.residuals[i]));
  }
  profile.mean_error = mean(errors);
  profile.median_error = median(errors);
  learner.print(profile);
  if (!rows_file.empty()) learner.write_rows(rows_file);
  std::ofstream(argv[1]) << io::software_text(profile);
  return 0;
}
