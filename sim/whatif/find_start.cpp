#include "find_start.h"

#include <string>
#include <utility>
#include <vector>

namespace ddlsim::whatif {
namespace {

constexpr std::int64_t kMostTried = 1024;

Expected<SearchStart> started(const io::Catalog& catalog, std::span<const Override> settings, Predictor& predictor) {
  auto scenario = resolve(catalog, settings);
  if (!scenario) return tl::unexpected<Error>(scenario.error());
  auto prediction = predictor.predict(*scenario);
  if (!prediction) return tl::unexpected<Error>(prediction.error());
  return SearchStart{std::move(*scenario), std::move(*prediction), {}};
}

/// Whether other counts may do: what nobody can read or find stays so with any number of servers.
bool may_be_of_count(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kUnsupported ||
         error.code == ErrorCode::kInfeasible;
}

}  // namespace

Expected<SearchStart> start_of_search(const io::Catalog& catalog, std::span<const Override> base,
                                      const NumberSetting& variable, Predictor& predictor) {
  auto as_it_is = started(catalog, base, predictor);
  const bool gpus = variable.path == "nodes" || variable.path == "gpus_per_node";
  if (as_it_is || !gpus || !may_be_of_count(as_it_is.error())) return as_it_is;
  std::vector<Override> settings(base.begin(), base.end());
  settings.push_back({std::string(variable.path), "", {}});
  for (std::int64_t count = 1; count <= kMostTried; ++count) {
    settings.back().value = std::to_string(count);
    auto found = started(catalog, settings, predictor);
    if (!found) continue;
    found->instead = settings.back();
    return found;
  }
  return as_it_is;
}

}  // namespace ddlsim::whatif
