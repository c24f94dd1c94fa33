// The rows that hardware/software/steps.yaml is learnt from (learn.cpp says how): published steps that ddlsim can
// predict.
#pragma once

#include <Eigen/Dense>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/hardware/software.h"
#include "ddlsim/io/catalog.h"

namespace ddlsim::learn {

inline constexpr std::size_t kFeatures = hardware::kSoftwareFeatureCount;
inline constexpr std::array<double, 9> kGrid{-0.8, -0.4, -0.2, 0, 0.2, 0.4, 0.7, 1.0, 1.5};  // log f

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

struct Rows {
  std::vector<Row> rows;             // weighted
  std::vector<std::string> sources;  // by Row::source
  double newest = 0;                 // year from which software counts as new
};

/// Of tables of cases what can be predicted. Throws where a table cannot be read.
[[nodiscard]] Rows read_rows(const io::Catalog& catalog, const std::vector<std::string>& files);

/// log P and its slope at a log f; straight lines between the grid's points and beyond.
[[nodiscard]] std::pair<double, double> predicted(const Row& row, double factor);

}  // namespace ddlsim::learn
