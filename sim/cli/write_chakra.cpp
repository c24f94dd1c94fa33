#include <fmt/core.h>

#include <cstdio>
#include <vector>

#include "ddlsim/report/chakra.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "output.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::int64_t kMostRanks = 4096;  // each is a file
constexpr double kMostNodes = 1e6;         // of one rank
constexpr double kMostBytes = 4e9;         // of all files

std::string path_of(const std::string& prefix, std::int64_t rank) { return fmt::format("{}.{}.et", prefix, rank); }

std::string summary(const importers::ChakraTrace& trace, const std::string& prefix, std::int64_t ranks) {
  Time compute;
  DataSize sent;
  std::int64_t collectives = 0;
  for (const importers::ChakraNode& node : trace.nodes) {
    if (node.type == importers::ChakraType::kCollective) {
      ++collectives;
      sent += node.sent;
    } else {
      compute += node.duration.value_or(Time::zero());
    }
  }
  const std::string files = ranks == 1 ? path_of(prefix, 0) : path_of(prefix, 0) + " to " + path_of(prefix, ranks - 1);
  return fmt::format("{}: {} nodes each; compute {}, {} collectives of {} in all\n", files, trace.nodes.size(),
                     to_text(compute), collectives, to_text(sent));
}

}  // namespace

Expected<void> write_chakra(const whatif::Scenario& scenario, const std::string& prefix) {
  const std::int64_t ranks = scenario.cluster.gpus();
  if (ranks > kMostRanks) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("--chakra: {} ranks, but at most {} files are written", to_text(ranks), kMostRanks), {},
                {"ask for fewer --nodes or --gpus-per-node"});
  }
  const auto step = whatif::record(scenario);
  if (!step) return tl::unexpected<Error>(step.error());
  report::ChakraOptions options{.batch = static_cast<double>(scenario.batch),
                                .activation = activation_size(scenario.precision),
                                .updated = step->updated,
                                .passes = scenario.strategy.accumulation};
  if (const double nodes = report::chakra_nodes(step->line, options.passes); nodes > kMostNodes) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("--chakra: {:.3g} nodes a rank, more than {:.0e}", nodes, kMostNodes), {},
                {"a larger strategy.partition or a smaller strategy.accumulation makes fewer"});
  }
  const importers::ChakraTrace trace = report::chakra_of(step->plan->classes.front().chunk, step->line, options);
  const std::string nominal = importers::write_chakra(trace);
  options.slowness = scenario.straggler;
  const std::string slow =
      scenario.straggler > 1
          ? importers::write_chakra(report::chakra_of(step->plan->classes.front().chunk, step->line, options))
          : nominal;
  if (const double all = static_cast<double>(nominal.size()) * static_cast<double>(ranks); all > kMostBytes) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("--chakra: {} of files, more than {}", to_text(bytes(all)), to_text(bytes(kMostBytes))), {},
                {"ask for fewer --nodes or --gpus-per-node"});
  }
  // Some of a job's ranks are no use: all are on the disk before the first gets its name.
  std::vector<OutputFile> files;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    auto file = OutputFile::open(path_of(prefix, rank));
    if (!file) return tl::unexpected<Error>(file.error());
    auto written = file->write(rank >= ranks - scenario.stragglers ? slow : nominal);
    if (written) written = file->close();
    if (!written) return written;
    files.push_back(std::move(*file));
  }
  for (OutputFile& file : files) {
    if (auto placed = file.commit(); !placed) return placed;
  }
  std::fputs(summary(trace, prefix, ranks).c_str(), stderr);
  return {};
}

}  // namespace ddlsim::cli
