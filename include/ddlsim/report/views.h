// Views of answers: each returns the whole text, ending in a newline. Nothing here prints.
//
// JSON follows the command contract: `ddlsim/predict/1`, `ddlsim/what-if/1`, `ddlsim/fleet/1`, `ddlsim/list/1`. Fields
// may be added, never renamed. A value that is unknown is null: so is the data's fingerprint in "program", which an
// answer does not know (`with_program` of report/program.h puts it there).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/collective.h"
#include "ddlsim/answer/curve.h"
#include "ddlsim/answer/fleet.h"
#include "ddlsim/answer/plan_choice.h"
#include "ddlsim/answer/prediction.h"
#include "ddlsim/answer/recommendation.h"
#include "ddlsim/answer/stage_partition.h"
#include "ddlsim/answer/stalls.h"
#include "ddlsim/answer/validation.h"
#include "ddlsim/calib/check.h"
#include "ddlsim/hardware/gpu_profile.h"
#include "ddlsim/hardware/topology.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/report/format.h"
#include "ddlsim/support/error.h"

namespace ddlsim::report {

/// `title` says in words what was predicted.
[[nodiscard]] std::string render(const answer::Prediction& prediction, const std::string& title, Format format);
[[nodiscard]] std::string render(const answer::Comparison& comparison, Format format);
[[nodiscard]] std::string render(const answer::FleetReport& report, Format format);
/// Throughput over the values of a setting; as text a picture too. JSON: `ddlsim/curve/1`.
[[nodiscard]] std::string render(const answer::Curve& curve, Format format);
/// The best plans and their Pareto front. JSON: `ddlsim/plan/1`; settings of a plan by their paths.
[[nodiscard]] std::string render(const answer::PlanChoice& choice, Format format);

/// The cheapest, the fastest, the Pareto front; CSV and JSON (`ddlsim/recommend/1`): every choice.
[[nodiscard]] std::string render(const answer::Recommendation& result, Format format);

/// One row a prediction, as text, CSV or Markdown. Columns have no place for what a row is called: rows stand in the
/// order of the answer.
[[nodiscard]] std::string render_columns(std::span<const answer::Prediction* const> rows, Columns columns,
                                         Format format);
/// Stages with replicas of their own. JSON: `ddlsim/partition/1`.
[[nodiscard]] std::string render(const answer::PartitionChoice& choice, Format format);
/// JSON: `ddlsim/stalls/1`, and of a study `ddlsim/stalls-study/1`.
[[nodiscard]] std::string render(const answer::StallReport& report, Format format);
[[nodiscard]] std::string render(const answer::StallStudy& study, Format format);
/// JSON: `ddlsim/collective/1`.
[[nodiscard]] std::string render(const answer::CollectiveReport& report, Format format);
/// CSV lists every case, the other formats summarise per set.
[[nodiscard]] std::string render(const answer::Validation& validation, Format format);
/// One case in full. JSON: `ddlsim/validate-row/1`.
[[nodiscard]] std::string render(const answer::CaseReading& reading, Format format);
/// The CDF of every speedup row: change, architecture, percentile, speedup.
[[nodiscard]] std::string speedup_cdf(const answer::FleetReport& report);

/// What was fitted, or checked; `title` says in words from what. JSON: `ddlsim/calibrate-fit/1`, `-check/1`.
[[nodiscard]] std::string render(const hardware::GpuProfile& profile, const std::string& title, Format format);
[[nodiscard]] std::string render(const calib::ProfileCheck& check, const std::string& title, Format format);

/// What a topology was made of, and what was assumed.
struct TopologyTitle {
  std::string text;
  std::vector<std::string> notes;
  /// Of one GPU in a collective, where GPUs over PCIe meet in the host's memory; nothing: they reach each other.
  std::optional<Bandwidth> through_host;
  std::string gpu_links = "NVLink";  // what joins GPUs, in words
};
/// JSON: `ddlsim/topology/1`. Of alike servers the first is shown.
[[nodiscard]] std::string render(const hardware::Topology& topology, const TopologyTitle& title, Format format);

/// A row of a listing: a name and what it is.
struct ListRow {
  std::string name;
  std::string what;
  std::string aliases;
};
[[nodiscard]] std::string render_list(const std::string& kind, const std::vector<ListRow>& rows, Format format);

/// One thing of a catalog with its values and their sources.
struct Detail {
  std::string key;
  std::string value;
  std::string source;
};
[[nodiscard]] std::string render_details(const std::string& kind, const std::string& id,
                                         const std::vector<Detail>& details, Format format);

/// Every id of a kind with its name; nodes and instances are servers both, and stand in one list. A file that cannot be
/// read is an error.
[[nodiscard]] Expected<std::vector<ListRow>> list(const io::Catalog& catalog, io::Kind kind);
/// The values of one thing, with sources.
[[nodiscard]] Expected<std::vector<Detail>> details(const io::Catalog& catalog, io::Kind kind, std::string_view name);

}  // namespace ddlsim::report
