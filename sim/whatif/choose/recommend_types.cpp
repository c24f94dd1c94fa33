#include "choose/recommend_types.h"

#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/support/names.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::whatif {

namespace {

Expected<std::optional<std::int64_t>> count_said(const Override& setting) {
  auto value = parse_count(setting.value, {1, std::int64_t{1} << 40});
  if (value) return *value;
  value.error().message = fmt::format("{}: {}", setting.path, value.error().message);
  value.error().where = setting.where;
  return tl::unexpected<Error>(value.error());
}

/// Between commas, without blanks.
std::vector<std::string> between_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const std::size_t first = std::min(text.find_first_not_of(' ', start), comma);
    const std::size_t last = text.find_last_not_of(' ', comma - 1);
    parts.push_back(first == comma ? std::string() : text.substr(first, last + 1 - first));
    start = comma + 1;
  }
  return parts;
}

}  // namespace

Expected<Asked> take_apart(std::span<const Override> stated) {
  Asked asked;
  for (const Override& setting : stated) {
    std::optional<std::int64_t>* count = setting.path == "nodes"          ? &asked.nodes
                                         : setting.path == "batch"        ? &asked.micro_batch
                                         : setting.path == "global_batch" ? &asked.global_batch
                                                                          : nullptr;
    if (count != nullptr) {
      auto value = count_said(setting);
      if (!value) return tl::unexpected<Error>(value.error());
      *count = *value;
      asked.chosen.push_back(setting);
    } else if (setting.path == "node") {
      asked.node = setting.value;
    } else {
      if (setting.path == "gpu") asked.gpu = setting.value;
      // Several keep servers; one is another GPU of the server that is named as well.
      const bool several = setting.path == "gpu" && setting.value.find(',') != std::string::npos;
      if (!several) asked.settings.push_back(setting);
      asked.precision = asked.precision || setting.path == "precision";
      asked.strategy = asked.strategy || setting.path.starts_with("strategy") || setting.path.starts_with("parallel.");
    }
  }
  if (asked.node && asked.gpu && asked.gpu->find(',') != std::string::npos) {
    return fail(ErrorCode::kInvalidArgument, "gpu: several, and one server is named", {},
                {"leave --gpu or --node out"});
  }
  return asked;
}

std::optional<std::vector<std::string>> providers_named(const std::string& text) {
  if (text.empty() || fold_name(text) == "all") return std::nullopt;
  if (fold_name(text) == "none") return std::vector<std::string>();
  return between_commas(text);
}

bool is_among(const std::vector<std::string>& providers, const std::string& provider) {
  return std::any_of(providers.begin(), providers.end(),
                     [&](const std::string& name) { return fold_name(name) == fold_name(provider); });
}

namespace {

/// Null without one.
const importers::ListedPrice* listed(const RecommendOptions& options, const io::Catalog& catalog,
                                     const std::string& node, bool spot) {
  const importers::ListedPrice* best = nullptr;
  const std::vector<std::string> aliases = catalog.aliases_of(io::Kind::kInstances, node);
  for (const importers::ListedPrice& row : *options.prices) {
    const std::string name = fold_name(row.instance);
    const bool same = name == fold_name(node) || std::any_of(aliases.begin(), aliases.end(), [&](const auto& alias) {
                        return fold_name(alias) == name;
                      });
    if (!same || (!options.region.empty() && row.region != options.region)) continue;
    const auto& price = spot ? row.spot : row.on_demand;
    if (price && (best == nullptr || *price < *(spot ? best->spot : best->on_demand))) best = &row;
  }
  return best;
}

}  // namespace

void take_listed(const RecommendOptions& options, const io::Catalog& catalog, Scenario& scenario) {
  hardware::Node& node = scenario.cluster.node;
  const importers::ListedPrice* row = listed(options, catalog, node.id, scenario.training.spot);
  node.price = row == nullptr ? std::nullopt : row->on_demand;
  node.tariff.spot = row == nullptr ? std::nullopt : row->spot;
  node.tariff.region = row == nullptr ? "" : row->region;
  node.tariff.date.clear();  // a list has none
}

Expected<void> keep_with_gpu(const io::Catalog& catalog, const std::string& gpus, std::vector<std::string>& servers) {
  if (io::is_path(gpus)) return {};
  std::vector<std::string> asked;
  std::string names;
  for (const std::string& name : between_commas(gpus)) {
    const auto gpu = catalog.gpu(name);
    if (!gpu) return tl::unexpected<Error>(gpu.error());
    asked.push_back(gpu->id);
    names += fmt::format("{}{} ({})", names.empty() ? "" : " or ", gpu->name, gpu->id);
  }
  std::vector<std::string> there;
  std::vector<std::string> kept;
  for (const std::string& name : servers) {
    const auto node = catalog.node(name);
    if (!node) return tl::unexpected<Error>(node.error());
    if (std::find(asked.begin(), asked.end(), node->gpu.id) != asked.end()) kept.push_back(name);
    if (std::find(there.begin(), there.end(), node->gpu.id) == there.end()) there.push_back(node->gpu.id);
  }
  if (kept.empty()) {
    std::sort(there.begin(), there.end());
    return fail(ErrorCode::kInfeasible, fmt::format("gpu: no server to choose from has {}", names), {},
                {"they have " + join(there), "--node names a server whose GPU is to be another"});
  }
  servers = std::move(kept);
  return {};
}

Expected<void> check_epochs(const Asked& asked, std::span<const Override> stated, const RecommendOptions& options) {
  const auto length = std::find_if(stated.begin(), stated.end(), [](const Override& s) {
    return s.path == "training.steps" || s.path == "training.epochs";
  });
  if (length != stated.end() && !options.epochs_by_batch.empty()) {
    return fail(ErrorCode::kInvalidArgument, length->path + " beside a table of epochs by global batch", length->where,
                {"state one of them"});
  }
  if (asked.global_batch && !options.epochs_by_batch.empty()) {
    const bool known = std::any_of(options.epochs_by_batch.begin(), options.epochs_by_batch.end(),
                                   [&](const auto& row) { return row.global_batch == *asked.global_batch; });
    if (!known) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("no epochs for a global batch of {}", to_text(*asked.global_batch)), {},
                  {"add a row to the file, or leave the global batch out"});
    }
  }
  return {};
}

Expected<void> check_region(const RecommendOptions& options) {
  if (!options.prices || options.region.empty()) return {};
  std::vector<std::string> regions;
  for (const importers::ListedPrice& row : *options.prices) regions.push_back(row.region);
  std::sort(regions.begin(), regions.end());
  regions.erase(std::unique(regions.begin(), regions.end()), regions.end());
  if (std::binary_search(regions.begin(), regions.end(), options.region)) return {};
  return fail(ErrorCode::kNotFound, fmt::format("the price list has no region '{}'", options.region.substr(0, 60)), {},
              {suggestion(options.region, regions), "leave --region out for the cheapest of all"});
}

Expected<std::vector<std::string>> servers_priced(const io::Catalog& catalog, const std::string& prices) {
  std::vector<std::string> names;
  for (std::size_t start = 0; start <= prices.size();) {
    const std::size_t comma = std::min(prices.find(',', start), prices.size());
    std::string part = prices.substr(start, comma - start);
    start = comma + 1;
    const std::size_t equals = part.rfind('=');
    if (equals == std::string::npos) continue;
    part = part.substr(std::min(part.find_first_not_of(' '), equals), equals);
    const std::string name = part.substr(0, part.rfind('='));
    const auto node = catalog.node(name);
    if (!node) return tl::unexpected<Error>(node.error());
    names.push_back(io::is_path(name) ? name : node->id);
  }
  return names;
}

Expected<void> check_providers(const io::Catalog& catalog, const RecommendOptions& options) {
  if (!options.providers) return {};
  std::vector<std::string> known;
  for (const std::string& id : catalog.ids(io::Kind::kInstances)) {
    const auto node = catalog.node(id);
    if (!node) return tl::unexpected<Error>(node.error());
    if (!is_among(known, node->tariff.provider)) known.push_back(node->tariff.provider);
  }
  known.insert(known.end(), {"none", "all"});
  for (const std::string& name : *options.providers) {
    const bool alone = fold_name(name) == "none" || fold_name(name) == "all";
    if (alone) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' stands alone, not beside a cloud", name), {},
                  {"several clouds are written aws,gcp; none is servers with a stated price alone, all every cloud"});
    }
    if (!is_among(known, name)) {
      return fail(ErrorCode::kNotFound, fmt::format("unknown catalog '{}'", name.substr(0, 60)), {},
                  {suggestion(name, known), "or several, as aws,gcp; none is servers with a stated price alone"});
    }
  }
  return {};
}

Expected<void> check_choice(const io::Catalog& catalog, std::span<const Override> stated,
                            const RecommendOptions& options) {
  const auto said = [&](std::string_view path) -> const Override* {
    const auto last = std::find_if(stated.rbegin(), stated.rend(), [&](const Override& s) { return s.path == path; });
    return last == stated.rend() ? nullptr : &*last;
  };
  if (const Override* nodes = said("nodes"); nodes != nullptr && options.max_nodes) {
    const auto count = parse_number(nodes->value);
    if (count && *count > static_cast<double>(*options.max_nodes)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} nodes, and at most {} {} of a choice", nodes->value, *options.max_nodes,
                              in_number(*options.max_nodes, "server")),
                  nodes->where, {"leave one of them out: nodes is the only count that is tried"});
    }
  }
  const Override* named = said("node");
  if (named == nullptr || !options.providers) return {};
  const auto node = catalog.node(named->value);
  if (!node) return {};  // said where it is read
  const std::string& provider = node->tariff.provider;
  const bool priced = options.providers->empty() && said("price") != nullptr;
  if (provider.empty() || priced || is_among(*options.providers, provider)) return {};
  return fail(ErrorCode::kInvalidArgument,
              options.providers->empty()
                  ? fmt::format("{} is a server of {}, and no cloud is asked for", node->id, provider)
                  : fmt::format("{} is a server of {}, which is none of the clouds asked for ({})", node->id, provider,
                                join(*options.providers)),
              named->where, {"leave the node or the catalog out"});
}

}  // namespace ddlsim::whatif
