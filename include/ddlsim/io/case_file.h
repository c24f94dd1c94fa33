// Reads tables of published measurements: one row, one case (`ddlsim validate`).
//
// Columns (header required, any order, unknown ones are errors; bench/accuracy/README.md says what each means):
//   id, group, source, model, framework, precision, gpu, gpus_per_node, nodes, total_gpus, intra_interconnect,
//   inter_network, batch_per_gpu, architecture, extra, metric, value, notes
// `extra` is a JSON object of plain values, or empty; a value's text is kept as it is. `id` is unique in a file.
// Names of models, GPUs, networks and frameworks stay as published: what they mean is whatif/validate.h's business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"

namespace ddlsim::io {

enum class CaseMetric {
  kImagesPerSecond,  // over all GPUs, as the next two
  kSamplesPerSecond,
  kTokensPerSecond,
  kStepMilliseconds,
  kForwardMilliseconds,   // the forward pass alone, as of inference
  kGradientMilliseconds,  // forward and backward, without the weights' update
  kTflopsPerGpu,
  kBusBandwidth,         // GB/s, nccl-tests definition
  kLatencyMicroseconds,  // of a collective, out of place
};

inline constexpr Choices<CaseMetric, 9> kCaseMetrics{{
    {"images_per_s", CaseMetric::kImagesPerSecond},
    {"samples_per_s", CaseMetric::kSamplesPerSecond},
    {"tokens_per_s", CaseMetric::kTokensPerSecond},
    {"step_ms", CaseMetric::kStepMilliseconds},
    {"forward_ms", CaseMetric::kForwardMilliseconds},
    {"forward_backward_ms", CaseMetric::kGradientMilliseconds},
    {"tflops_per_gpu", CaseMetric::kTflopsPerGpu},
    {"busbw_gbps", CaseMetric::kBusBandwidth},
    {"latency_us", CaseMetric::kLatencyMicroseconds},
}};

struct Case {
  std::string id;
  std::string group;
  std::string source;
  std::string model;
  std::string framework;
  std::string precision;
  std::string gpu;
  std::int64_t gpus_per_node = 1;
  std::int64_t nodes = 1;
  std::int64_t total_gpus = 1;
  std::string intra_interconnect;
  std::string inter_network;
  std::optional<std::int64_t> batch_per_gpu;
  std::string architecture;
  std::map<std::string, std::string, std::less<>> extra;
  CaseMetric metric = CaseMetric::kStepMilliseconds;
  double value = 0;  // in the metric's unit
  std::string notes;
  SourceLocation where;

  /// A value of `extra`, or nothing.
  [[nodiscard]] std::optional<std::string> said(std::string_view key) const;
};

/// Names of keys of `extra` that are read as others: "gradient_accumulation" is grad_accum.
[[nodiscard]] std::span<const std::string_view> other_extra_keys();

[[nodiscard]] Expected<std::vector<Case>> read_cases(std::istream& stream, const std::string& file);
[[nodiscard]] Expected<std::vector<Case>> load_cases(const std::filesystem::path& path);

}  // namespace ddlsim::io
