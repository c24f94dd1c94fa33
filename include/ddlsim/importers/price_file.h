// Prices of cloud servers from SkyPilot's catalogue (github skypilot-org/skypilot-catalog, catalogs/v*/CLOUD/vms.csv).
//
// A CSV file whose header names the columns; their order is free, and columns that say nothing of a price are passed
// over. Read: InstanceType, Price, SpotPrice, Region (required), AcceleratorName (optional), AvailabilityZone
// (optional). Prices are dollars an hour of the whole server. An empty Price or SpotPrice is none.
// Limits: rows without an instance price an accelerator alone (Google Cloud's N1), rows without an accelerator a server
// without its GPUs where the clouds sell them apart; both are left out. The file carries no date: its user does.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::importers {

struct ListedPrice {
  std::string instance;
  std::string region;
  std::optional<PriceRate> on_demand;
  std::optional<PriceRate> spot;
};

/// Errors name the line: a column that is missing or stands twice, a price that is no number or is negative, no server
/// with GPUs at all.
[[nodiscard]] Expected<std::vector<ListedPrice>> parse_prices(std::string_view text, const std::string& file);
[[nodiscard]] Expected<std::vector<ListedPrice>> load_prices(const std::filesystem::path& path);

}  // namespace ddlsim::importers
