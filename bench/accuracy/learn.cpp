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

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/io/software_file.h"
#include "learn_fit.h"
#include "learn_rows.h"
#include "statistics.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::learn;

constexpr int kResamples = 200;

struct Errors {
  std::vector<double> absolute;
  std::vector<double> signed_log;
  double inside = 0;
};

/// predicted / measured - 1 in the row's own metric, of a log of measured over predicted time.
double error_of(const Row& row, double residual) { return std::abs(std::expm1(row.rate ? residual : -residual)); }

/// Whether rows of a kind say what another may be off by: where nobody says what drives the network, no less is open
/// than where somebody does.
bool speaks_for(hardware::QuestionKind row, hardware::QuestionKind asked) {
  using hardware::QuestionKind;
  return row == asked || (asked == QuestionKind::kAssumedNetwork && row == QuestionKind::kServers);
}

struct Learner {
  std::vector<Row> rows;
  std::vector<std::string> sources;
  std::vector<double> residuals = {};  // of sources that were left out

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
  Rows read = read_rows(*catalog, {argv + 2, argv + argc});
  Learner learner{.rows = std::move(read.rows), .sources = std::move(read.sources)};
  if (learner.rows.empty()) {
    fmt::print(stderr, "accuracy_learn: no row is predicted: is {} one that this program reads?\n", argv[1]);
    return 1;
  }
  learner.leave_out();
  hardware::SoftwareProfile profile{
      .id = "steps",
      .rows = static_cast<std::int64_t>(learner.rows.size()),
      .sources = static_cast<std::int64_t>(learner.sources.size()),
      .newest = read.newest,
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
