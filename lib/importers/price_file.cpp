#include "ddlsim/importers/price_file.h"

#include <fmt/core.h>

#include <sstream>

#include "ddlsim/io/csv.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::importers {
namespace {

enum Column : std::size_t { kInstance, kPrice, kSpotPrice, kRegion, kAccelerator };

/// A price in dollars an hour; nothing where the field is empty.
Expected<std::optional<PriceRate>> read_price(const io::CsvReader& rows, Column column) {
  const std::string_view text = rows.field(column);
  if (text.empty()) return std::nullopt;
  const auto bad = [&](std::string_view what) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("price '{}' {}", text.substr(0, 60), what), rows.where(column),
                {"dollars an hour, as 3.06; empty where there is none"});
  };
  const auto number = parse_number(text);
  if (!number) return bad("is not a number");
  if (*number < 0) return bad("is negative");
  if (*number == 0) return std::nullopt;
  return dollars_per_hour(*number);
}

}  // namespace

Expected<std::vector<ListedPrice>> parse_prices(std::string_view text, const std::string& file) {
  std::istringstream stream{std::string(text)};
  auto rows = io::CsvReader::open(stream, file, {"InstanceType", "Price", "SpotPrice", "Region"}, {"AcceleratorName"},
                                  io::OtherColumns::kPassedOver);
  if (!rows) return tl::unexpected<Error>(rows.error());
  std::vector<ListedPrice> prices;
  for (;;) {
    const auto more = rows->next();
    if (!more) return tl::unexpected<Error>(more.error());
    if (!*more) break;
    const bool without_gpus = rows->has(kAccelerator) && rows->field(kAccelerator).empty();
    if (rows->field(kInstance).empty() || without_gpus) continue;
    auto on_demand = read_price(*rows, kPrice);
    if (!on_demand) return tl::unexpected<Error>(on_demand.error());
    auto spot = read_price(*rows, kSpotPrice);
    if (!spot) return tl::unexpected<Error>(spot.error());
    if (!*on_demand && !*spot) continue;
    prices.push_back({std::string(rows->field(kInstance)), std::string(rows->field(kRegion)), *on_demand, *spot});
  }
  if (prices.empty()) {
    return fail(ErrorCode::kParse, "no price of a server with GPUs in the file", {file, 1, 1},
                {"a row each: InstanceType, AcceleratorName, Price, SpotPrice, Region"});
  }
  return prices;
}

Expected<std::vector<ListedPrice>> load_prices(const std::filesystem::path& path) {
  const auto text = io::read_file(path);
  if (!text) return tl::unexpected<Error>(text.error());
  return parse_prices(*text, path.string());
}

}  // namespace ddlsim::importers
