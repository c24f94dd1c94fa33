#include "ddlsim/io/epochs_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "ddlsim/io/csv.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::io {

Expected<std::vector<EpochsAtBatch>> load_epochs_by_batch(const std::filesystem::path& path) {
  constexpr double kMostEpochs = 1e6;
  const auto text = read_file(path);
  if (!text) return tl::unexpected<Error>(text.error());
  std::istringstream stream(*text);
  auto rows = CsvReader::open(stream, path.string(), {"global_batch", "epochs"});
  if (!rows) return tl::unexpected<Error>(rows.error());
  std::vector<EpochsAtBatch> table;
  const auto at = [&](Error error, std::size_t column) {
    error.where = rows->where(column);
    return tl::unexpected<Error>(std::move(error));
  };
  for (;;) {
    const auto more = rows->next();
    if (!more) return tl::unexpected<Error>(more.error());
    if (!*more) break;
    const auto batch = parse_count(rows->field(0), {1, std::int64_t{1} << 40});
    if (!batch) return at(batch.error(), 0);
    const auto epochs = parse_number(rows->field(1));
    if (!epochs) return at(epochs.error(), 1);
    if (*epochs <= 0 || *epochs > kMostEpochs) {
      return at({ErrorCode::kInvalidArgument,
                 fmt::format("{} epochs are not above 0 and up to {}", *epochs, kMostEpochs),
                 {},
                 {},
                 {}},
                1);
    }
    const auto same = [&](const EpochsAtBatch& one) { return one.global_batch == *batch; };
    if (std::any_of(table.begin(), table.end(), same)) {
      return at({ErrorCode::kInvalidArgument, fmt::format("a global batch of {} stands twice", *batch), {}, {}, {}}, 0);
    }
    table.push_back({*batch, *epochs});
  }
  if (table.empty()) {
    return fail(ErrorCode::kParse, "no global batch in the file", {path.string(), 1, 1},
                {"a row each: global_batch,epochs"});
  }
  std::sort(table.begin(), table.end(), [](const auto& a, const auto& b) { return a.global_batch < b.global_batch; });
  return table;
}

}  // namespace ddlsim::io
