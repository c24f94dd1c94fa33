// What a published case means in ddlsim's words.
#pragma once

#include <string>
#include <vector>

#include "ddlsim/hardware/node.h"
#include "ddlsim/io/case_file.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Calls of one collective, one after the other.
struct CollectiveCalls {
  primitives::CollectiveOp op = primitives::CollectiveOp::kAllReduce;
  DataSize size{};  // of one call
  std::int64_t times = 1;
};

/// Collectives that were measured by themselves: one call, or what stands for a way of sharing gradients.
struct CollectiveCase {
  std::vector<Override> settings;  // of the cluster
  std::vector<CollectiveCalls> calls;
  DataSize size{};  // as published

  [[nodiscard]] primitives::CollectiveOp op() const { return calls.front().op; }
};

/// What a case says that may tell its server, in lower case.
struct SaidOfServer {
  std::string links;    // within it and between servers
  std::string besides;  // its notes
};

/// Reads a catalog's servers once; then says for case after case which settings it amounts to.
class CaseReader {
 public:
  /// `stated`: of every case, last.
  explicit CaseReader(const io::Catalog& catalog, std::vector<Override> stated = {});

  /// `widest`: the most GPUs per node in the case's group, so that all of a group are put on one kind of server.
  [[nodiscard]] Expected<std::vector<Override>> settings_of(const io::Case& one, std::int64_t widest) const;
  [[nodiscard]] Expected<CollectiveCase> collective_of(const io::Case& one, std::int64_t widest) const;
  /// The whole question; a language model that the case gives by its sizes is built for it (language_case.h). `stated`
  /// may take the settings that it was made of. Errors that name no place have the case's.
  [[nodiscard]] Expected<Scenario> scenario_of(const io::Case& one, std::int64_t widest,
                                               std::vector<Override>* stated = nullptr) const;

 private:
  [[nodiscard]] Expected<Scenario> resolved(const io::Case& one, std::vector<Override>& settings) const;
  /// As published, or TF32 where that is what fp32 means; where nobody says it, what is usual.
  [[nodiscard]] std::string precision_run(const io::Case& one) const;
  [[nodiscard]] Expected<std::vector<Override>> language_settings_of(const io::Case& one, std::int64_t widest) const;
  [[nodiscard]] std::string model_name(const io::Case& one) const;
  [[nodiscard]] bool builds_model(const io::Case& one) const;
  [[nodiscard]] bool is_known_split(const io::Case& one) const;
  [[nodiscard]] Expected<std::vector<Override>> split_settings_of(const io::Case& one, std::int64_t widest) const;
  [[nodiscard]] Expected<void> add_server(const io::Case& one, std::int64_t widest,
                                          std::vector<Override>& settings) const;
  [[nodiscard]] const hardware::Node* best_server(const hardware::Gpu& gpu, const SaidOfServer& said,
                                                  std::int64_t gpus) const;
  [[nodiscard]] Expected<hardware::Gpu> gpu_of(const io::Case& one) const;
  [[nodiscard]] Expected<void> add_racks(const io::Case& one, const hardware::Gpu& gpu,
                                         std::vector<Override>& settings) const;
  [[nodiscard]] Expected<void> add_model(const io::Case& one, std::vector<Override>& settings) const;
  void add_input(const io::Case& one, const workload::Model& model, std::vector<Override>& settings) const;

  const io::Catalog& catalog_;
  std::vector<Override> stated_;
  std::vector<hardware::Node> servers_;
};

/// The scaling family of a case's architecture: "allreduce(horovod)" is "allreduce".
[[nodiscard]] std::string architecture_family(const io::Case& one);

}  // namespace ddlsim::whatif
