// One question and its answer, both as text: what the C interface and `ddlsim serve` are made of.
//
// A request is one JSON object, or the same as YAML (numbers, places in messages and limits are those of scenario
// files; of JSON, 4.0 is 4). The job is a map of settings, as in a scenario file, where flags' names (tp, epochs,
// dataset) are those of their settings; other keys are the command's own flags:
//
// ```
// predict     {"model": "resnet50", "node": "dgx-a100", "nodes": 4, "network": "100 Gb/s"}
//             {"job": {...}, "curve": "nodes=1..64:x2"}
// what-if     {"job": {...}, "vs": [{"name": "buy A100", "node": "dgx-a100"}, {...}]}   no "vs": every upgrade
//             {"job": {...}, "elasticities": true}
// find        {"job": {...}, "variable": "network", "such_that": "scaling_efficiency >= 90 %", "from": X, "to": Y,
//              "sure": "90%"}
// plan        {"job": {...}, "objective": "time", "limit": "10 s", "nodes_up_to": 8}
// explain     {"job": {...}, "part": "all-reduce"}
// stalls      {"job": {...}, "one_server": "p3.16xlarge", "fetch": "paper"}
// recommend   {"job": {...}, "deadline": "24 h", "budget": "500 $", "catalog": "aws,gcp", "max_nodes": 8}
// ```
//
// A job that stands alone needs no "job" around it; a job with other keys than settings does. The answer is what the
// command prints with --json, byte for byte (what measures a clock, as the seconds of a plan's search, apart); an error
// is that of the command: its message and its notes, with its place in the request.
//
// Limits: flags that name files (--measured-stalls, --prices, --epochs-by-batch, --partition, --study) are the
// command's alone. A search of plans takes at most `Limits::search` (a longer "limit" is refused; one that ends without
// a plan is "out-of-time") and keeps at most PlanOptions::kept_layers of what it has worked out: 1 to 2 GB. What it
// took goes back to the system with its answer. Nothing else can be stopped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::service {

/// The commands that can be asked: predict, what-if, find, plan, explain, stalls, recommend.
[[nodiscard]] std::span<const std::string_view> commands();

/// What an asker may do.
struct Limits {
  std::size_t request = 1'000'000;  // bytes
  bool files = true;                // whether values may name files of this machine
  Time search = seconds(60);        // of plans, at most
  std::size_t predictors = 16;      // kept between questions, each with its prices (whatif/predictor.h)
};

/// How a request is written.
enum class Syntax : std::uint8_t {
  kJson,  // and nothing else
  kYaml,  // or JSON
};

/// Answers from one catalogue. Threads may ask at once; prices of layers are kept between questions, so that a job
/// whose network, servers or split changed costs microseconds.
class Service {
 public:
  explicit Service(io::Catalog catalog, Limits limits = {});
  ~Service();
  Service(Service&&) noexcept;
  Service& operator=(Service&&) noexcept;

  [[nodiscard]] const io::Catalog& catalog() const;

  /// The answer as the command's JSON. An unknown command or key is an error that lists the valid ones. A search of
  /// plans ends when nothing is `left`, whatever limit is stated.
  [[nodiscard]] Expected<std::string> answer(std::string_view command, std::string_view request,
                                             Syntax syntax = Syntax::kYaml,
                                             std::optional<Time> left = std::nullopt) const;

  /// The step of `job` with every row of `changes` put on top, in their order; an error is that of its row alone. Own
  /// runs (measured.*) are of `job` as it stands and correct every row that states none, as in a sweep.
  [[nodiscard]] Expected<std::vector<Expected<Time>>> step_times(
      std::string_view job, std::span<const std::vector<whatif::Override>> changes) const;

  /// What a page offers: {"schema": "ddlsim/catalog/1", "models": [{"name", "what"}], "nodes", "gpus", "links",
  /// "datasets", "strategies", "commands", "settings": [{"path", "meaning", "example", "unit"}]}. "unit" is that of the
  /// example; any of its dimension is read; null: a word or a count. Reads every file of the catalogue.
  [[nodiscard]] Expected<std::string> catalog_json() const;

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

/// An error as JSON: {"schema": "ddlsim/error/1", "code": word_of(its code), "error": MESSAGE, "file", "line",
/// "column", "notes": [...], "also": [the same of further faults]}. A place that is not known is null.
[[nodiscard]] std::string error_json(const Error& error);

/// The same with a code of the interface's own: "closed" (a handle), "fault" (of ddlsim itself).
[[nodiscard]] std::string error_json(const Error& error, std::string_view code);

/// How to ask, as OpenAPI 3.1 (JSON), with the schemas of the answers.
[[nodiscard]] std::string openapi(std::string_view version);

/// The page: one HTML document, which loads nothing.
[[nodiscard]] std::string_view page();

/// What a Content-Security-Policy says of it: its own style and script by their hashes, and nothing else.
[[nodiscard]] std::string page_policy();

}  // namespace ddlsim::service
