#include <algorithm>

#include "ddlsim/report/views.h"
#include "ddlsim/support/names.h"
#include "ddlsim/whatif/framework.h"
#include "ddlsim/whatif/scenario.h"
#include "ddlsim/whatif/setting_words.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

/// The ids of a kind; of servers those that are sold and those that are rented.
std::string servers_or(const io::Catalog& catalog, io::Kind kind) {
  std::vector<std::string> ids = catalog.ids(kind);
  if (kind == io::Kind::kNodes) {
    const auto& rented = catalog.ids(io::Kind::kInstances);
    ids.insert(ids.end(), rented.begin(), rented.end());
    std::sort(ids.begin(), ids.end());
  }
  return join(ids);
}

/// All that `list` takes.
std::vector<std::string> list_kinds() {
  std::vector<std::string> kinds;
  for (const auto& [word, kind] : io::kKinds) kinds.emplace_back(word);
  kinds.insert(kinds.end(), {"settings", "frameworks"});
  return kinds;
}

std::vector<report::ListRow> kinds_in(const io::Catalog& catalog) {
  std::vector<report::ListRow> rows;
  for (const auto& [word, what] : io::kKinds) {
    const bool rented = what == io::Kind::kInstances;
    rows.push_back({std::string(word), rented ? "in one list with nodes" : servers_or(catalog, what), ""});
  }
  rows.push_back({"settings", "what --set can change", ""});
  rows.push_back({"frameworks", "what --strategy can be beside ps and allreduce", ""});
  return rows;
}

/// Those with `part` in their path; all for none.
std::vector<report::ListRow> settings_with(const std::string& part) {
  std::vector<report::ListRow> rows;
  std::vector<std::string> paths;
  for (const whatif::SettingInfo& setting : whatif::settings()) {
    paths.emplace_back(setting.path);
    if (setting.path.find(part) != std::string::npos) {
      const std::string also = whatif::also_in_parallel(setting.path);
      rows.push_back({setting.path, setting.meaning + (also.empty() ? "" : "; also " + also), setting.example});
    }
  }
  if (rows.empty()) {
    throw UsageError{"no setting has '" + part + "' in its path", whatif::suggested_setting(part, paths)};
  }
  return rows;
}

std::vector<report::ListRow> frameworks_named(const std::string& name) {
  std::vector<report::ListRow> rows;
  for (const whatif::Framework& framework : whatif::frameworks()) {
    if (name.empty() || &framework == whatif::find_framework(name)) {
      rows.push_back({std::string(framework.name), std::string(framework.what), std::string(framework.settings)});
    }
  }
  if (rows.empty()) throw UsageError{"unknown framework '" + name + "'", "`ddlsim list frameworks` shows them all"};
  return rows;
}

}  // namespace

int run_list(const std::vector<std::string>& arguments) {
  CLI::App app("Show what the program knows: models, hardware, settings.", "ddlsim list");
  app.footer(
      "\nExamples:\n  ddlsim list\n  ddlsim list gpus\n  ddlsim list gpus v100\n  ddlsim list settings\n"
      "  ddlsim list settings parallel");
  FormatFlags format;
  std::string data;
  std::string kind;
  std::string name;
  format.add_to(app);
  app.add_option("kind", kind,
                 "models, gpus, links, nodes, instances, clusters, populations, calibrations, storage, cpus, datasets, "
                 "failures, settings, frameworks")
      ->type_name("KIND");
  app.add_option("name", name, "one of them, with its sources; of settings a part of their path")->type_name("NAME");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  const report::Format shape = format.get();
  if (kind == "settings") return print_answer(report::render_list(kind, settings_with(name), shape), shape);
  if (kind == "frameworks") return print_answer(report::render_list(kind, frameworks_named(name), shape), shape);
  const auto catalog = open_catalog(data);
  if (!catalog) return print(catalog.error());
  if (kind.empty()) return print_answer(report::render_list("kind", kinds_in(*catalog), shape), shape, &*catalog);
  const auto which = parse_choice(io::kKinds, kind, "kind");
  if (!which) throw UsageError{which.error().message, suggestion(kind, list_kinds())};
  if (name.empty()) {
    const auto rows = report::list(*catalog, *which);
    return rows ? print_answer(report::render_list(kind, *rows, shape), shape, &*catalog) : print(rows.error());
  }
  const auto details = report::details(*catalog, *which, name);
  return details ? print_answer(report::render_details(kind, details->front().value, *details, shape), shape, &*catalog)
                 : print(details.error());
}

}  // namespace ddlsim::cli
