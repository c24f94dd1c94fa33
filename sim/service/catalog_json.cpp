#include <array>
#include <nlohmann/json.hpp>

#include "ddlsim/report/views.h"
#include "ddlsim/service/service.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/framework.h"

namespace ddlsim::service {
namespace {

using Json = nlohmann::ordered_json;

Json rows_of(const std::vector<report::ListRow>& rows) {
  Json json = Json::array();
  for (const report::ListRow& row : rows) json.push_back({{"name", row.name}, {"what", row.what}});
  return json;
}

/// "Gb/s" of "25 Gb/s"; null where the example is no quantity.
Json unit_of(const std::string& example) {
  const std::size_t space = example.find(' ');
  if (space == std::string::npos || space + 1 >= example.size()) return nullptr;
  if (!parse_number(example.substr(0, space))) return nullptr;
  const std::string unit = example.substr(space + 1);
  return unit.find(' ') == std::string::npos ? Json(unit) : Json(nullptr);
}

}  // namespace

Expected<std::string> Service::catalog_json() const {
  Json json{{"schema", "ddlsim/catalog/1"}};
  constexpr auto kLists = std::to_array<std::pair<const char*, io::Kind>>({{"models", io::Kind::kModels},
                                                                           {"nodes", io::Kind::kNodes},
                                                                           {"gpus", io::Kind::kGpus},
                                                                           {"links", io::Kind::kLinks},
                                                                           {"datasets", io::Kind::kDatasets}});
  for (const auto& [word, kind] : kLists) {
    const auto rows = report::list(catalog(), kind);
    if (!rows) return tl::unexpected<Error>(rows.error());
    json[word] = rows_of(*rows);
  }
  json["strategies"] = Json::array({{{"name", "allreduce"}, {"what", "all-reduce"}},
                                    {{"name", "ps"}, {"what", "parameter servers"}},
                                    {{"name", "pearl"}, {"what", "PEARL: partitioned embeddings"}}});
  for (const whatif::Framework& framework : whatif::frameworks()) {
    json["strategies"].push_back({{"name", framework.name}, {"what", framework.what}});
  }
  json["commands"] = commands();
  json["settings"] = Json::array();
  for (const whatif::SettingInfo& setting : whatif::settings()) {
    json["settings"].push_back({{"path", setting.path},
                                {"meaning", setting.meaning},
                                {"example", setting.example},
                                {"unit", unit_of(setting.example)}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddlsim::service
