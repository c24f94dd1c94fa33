// Where GPUs wait, by differencing predictions: Stash (Sharma et al., Analysis of Distributed Deep Learning in the
// Cloud, ICDCS 2023) and DS-Analyzer (Mohan et al., VLDB 2021). A stall is what a step takes longer than in a run that
// lacks one thing; t(run) is a step's time, and every run has the same batch per GPU.
//
//   run         GPUs                       data
//   one_gpu     one                        made up in memory, copied each step
//   synthetic   all                        likewise
//   warm        all                        the data set, all of it in memory
//   cold        all                        the data set, nothing in memory yet
//   one_server  as many, in one server     made up in memory
//
//   interconnect  t(one_server) - t(one_gpu)    percent of t(one_server), at most 100
//   network       t(synthetic) - t(one_server)  percent of t(one_server): a slowdown, which may pass 100
//   prep          t(warm) - t(synthetic)        percent of t(warm)
//   fetch         t(cold) - t(warm)             percent of t(cold)
// A job on one server is its own one_server, and has no network stall. Where none is below zero, interconnect, network,
// prep and fetch add up to t(cold) - t(one_gpu). Stash pairs instances (two p3.8xlarge against a p3.16xlarge): here it
// is the server of the catalogue with as many GPUs of the kind, of the same provider if there is one; else one of the
// job's own servers, with fewer GPUs, and a note says so. A one_server that takes longer than all servers (slower
// links, or one parameter server where the job has one a machine) is not the job without its network, and no network
// stall is told from it: one of the catalogue gives way to one of the job's own, and if that is no faster, t(synthetic)
// stands for it. Below zero stalls are zero, as Stash prints them. Stash's repository (aakash-sharma/Stash at 5fb06a1,
// analyze.py) computes fetch as t(cold) - (t(warm) - t(synthetic)): prep is taken off where the whole warm run was
// meant, so that a job that never waits for storage still shows a stall of the whole step. It is there as
// FetchRule::kRepository to read such tables, and nowhere else.
//
// With a data set, or a run of stated length, every run has the rate of the network that lasts, as predict has it there
// (Node::network_sustained): epochs outlast what a network reaches on credits for minutes alone.
//
// Limits: those of predict. Stash's own runs exchange each gradient tensor by itself (apex, message_size 1): state
// strategy apex-ddp and strategy.grouping per-tensor for that.
// Worked example (test/unit/whatif/stalls_test.cpp): steps of 100, 150, 200 and 260 ms on one GPU, all, warm and cold:
// interconnect 50 ms (33.3 %), prep 50 ms (25 %), fetch 60 ms (23.1 %); by the repository's rule fetch is 210 ms.
#pragma once

#include <filesystem>
#include <istream>
#include <optional>
#include <span>
#include <string>

#include "ddlsim/answer/stalls.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/predictor.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

enum class FetchRule { kPaper, kRepository };

struct StallOptions {
  FetchRule fetch = FetchRule::kPaper;
  std::string one_server;  // a node or instance; empty: the catalogue's
};

[[nodiscard]] answer::Stalls stalls_of(const answer::StallTimes& times, FetchRule fetch = FetchRule::kPaper);

/// Errors: of resolve and predict; kUnsupported for a model that is split over GPUs; kInvalidArgument for a server that
/// has other GPUs, or not as many.
[[nodiscard]] Expected<answer::StallReport> stalls(const io::Catalog& catalog, std::span<const Override> stated,
                                                   const StallOptions& options = {});

/// Of a job that is resolved, one of its own servers being its one_server; by steps alone, at kept prices. Prep and
/// fetch where it reads a data set. Of a run of whose steps the share `first_epoch` is its first epoch's, cold is the
/// mean step of the run: that share of t(cold), the others as they are with what memory keeps. Nothing for a model that
/// is split, or whose states are.
[[nodiscard]] std::optional<answer::Stalls> stalls_of(const Scenario& job, Predictor& predictor,
                                                      std::optional<double> first_epoch = std::nullopt);

/// Interconnect and network stalls against depth and gradients: ResNet-10 to -152 and VGG-11 to -19, with and without
/// batch norm and residual sums, 32 images a GPU unless stated. Errors: as stalls; `model` must not be stated.
[[nodiscard]] Expected<answer::StallStudy> study_layers(const io::Catalog& catalog, std::span<const Override> stated,
                                                        const StallOptions& options = {});

/// Somebody's own runs: `run,train_s,batches`, one row a run, its names those of answer::kStallRuns.
[[nodiscard]] Expected<answer::StallTimes> read_stall_runs(std::istream& stream, const std::string& file);
[[nodiscard]] Expected<answer::StallTimes> load_stall_runs(const std::filesystem::path& path);

}  // namespace ddlsim::whatif
