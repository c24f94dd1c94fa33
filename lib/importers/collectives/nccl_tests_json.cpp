#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "ddlsim/importers/collective_file.h"
#include "json.h"
#include "nccl_tests.h"

namespace ddlsim::importers {
namespace {

using Json = nlohmann::json;

/// A member, or nothing for one that is missing or null.
const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::int64_t count_of(const Json& object, const char* key, std::int64_t otherwise) {
  const Json* value = member(object, key);
  if (value == nullptr || !value->is_number_integer()) return otherwise;
  const auto count = value->get<std::int64_t>();
  return count >= 1 && count <= kMaxRanks ? count : otherwise;
}

class JsonReader {
 public:
  JsonReader(const Json& document, std::string file, const CollectiveFileDefaults& defaults)
      : document_(document), file_(std::move(file)), defaults_(defaults) {}

  Expected<CollectiveMeasurements> read() {
    if (auto named = read_op(); !named) return tl::unexpected<Error>(named.error());
    if (auto ranks = read_ranks(); !ranks) return tl::unexpected<Error>(ranks.error());
    const Json* results = member(document_, "results");
    if (results == nullptr || !results->is_array() || results->empty()) return bad("'results' is missing or empty");
    if (auto sound = check_end(); !sound) return tl::unexpected<Error>(sound.error());
    for (std::size_t i = 0; i < results->size(); ++i) {
      if (auto row = read_row((*results)[i], fmt::format("results[{}]", i)); !row) {
        return tl::unexpected<Error>(row.error());
      }
    }
    if (rows_.empty()) return bad("no row has a size above 0");
    return std::move(rows_);
  }

 private:
  [[nodiscard]] tl::unexpected<Error> bad(std::string message) const {
    return fail(ErrorCode::kParse, std::move(message), {file_, 0, 0});
  }

  Expected<void> read_op() {
    std::optional<primitives::CollectiveOp> op;
    const Json* arguments = member(document_, "args");
    if (arguments != nullptr && arguments->is_array() && !arguments->empty() && arguments->front().is_string()) {
      auto named = op_of_program(arguments->front().get_ref<const std::string&>(), {file_, 0, 0});
      if (!named) return tl::unexpected<Error>(named.error());
      op = *named;
    }
    if (!op) op = defaults_.op;
    if (!op) return bad("'args' does not name the operation that was measured");
    op_ = *op;
    return {};
  }

  Expected<void> read_ranks() {
    const Json* config = member(document_, "config");
    const Json* devices = config == nullptr ? nullptr : member(*config, "devices");
    gpus_ = defaults_.gpus.value_or(0);
    nodes_ = defaults_.nodes.value_or(1);
    if (devices != nullptr && devices->is_array() && !devices->empty()) {
      const std::int64_t each = count_of(*config, "nthreads", 1) * count_of(*config, "ngpus", 1);
      std::set<std::string> hosts;
      std::int64_t last = 0;
      for (const Json& device : *devices) {
        const Json* group = member(device, "group");
        if (group != nullptr && group->is_number_integer() && group->get<std::int64_t>() != 0) continue;
        const Json* rank = member(device, "rank");
        const Json* host = member(device, "hostname");
        if (rank == nullptr || !rank->is_number_unsigned() || host == nullptr || !host->is_string()) {
          return bad("'config.devices' has an entry without rank and hostname");
        }
        last = std::max(last, std::min(rank->get<std::int64_t>(), kMaxRanks));
        hosts.insert(host->get<std::string>());
      }
      // Only the first GPU of a process is listed; ranks count them all.
      gpus_ = each <= kMaxRanks ? (last / each + 1) * each : 0;
      nodes_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(hosts.size()));
    }
    if (gpus_ < 1 || gpus_ > kMaxRanks) return bad("'config.devices' does not say how many GPUs took part");
    return {};
  }

  /// A run that was cut short has no average.
  Expected<void> check_end() const {
    if (member(document_, "average_bus_bandwidth") == nullptr) {
      return bad("'average_bus_bandwidth' is missing: the output was cut short, or the test did not finish");
    }
    const Json* wrong = member(document_, "out_of_bounds");
    const Json* count = wrong == nullptr ? nullptr : member(*wrong, "count");
    if (count != nullptr && count->is_number() && *count != 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "nccl-tests found wrong values ('out_of_bounds'): its times mean nothing", {file_, 0, 0});
    }
    return {};
  }

  Expected<double> number(const Json& object, const char* key, const std::string& path) const {
    const Json* value = member(object, key);
    if (value == nullptr || !value->is_number()) return bad(fmt::format("{}.{} is not a number", path, key));
    return value->get<double>();
  }

  Expected<void> read_row(const Json& row, const std::string& path) {
    const Json* size = member(row, "size");
    if (size == nullptr || !size->is_number_unsigned()) return bad(path + ".size is not a whole number");
    const char* place = defaults_.in_place || member(row, "out_of_place") == nullptr ? "in_place" : "out_of_place";
    const Json* body = member(row, place);
    if (body == nullptr) return bad(fmt::format("{}.{} is missing", path, place));
    const std::string inside = path + "." + place;
    if (member(*body, "cpu_time") != nullptr) {
      return fail(ErrorCode::kUnsupported, inside + ".cpu_time: a CPU time (-C 1), not that of the collective",
                  {file_, 0, 0});
    }
    const auto time = number(*body, "time", inside);
    if (!time) return tl::unexpected<Error>(time.error());
    const auto algorithm = number(*body, "alg_bw", inside);
    if (!algorithm) return tl::unexpected<Error>(algorithm.error());
    const auto bus = number(*body, "bus_bw", inside);
    if (!bus) return tl::unexpected<Error>(bus.error());
    const auto total = size->get<std::uint64_t>();
    if (total == 0) return {};
    primitives::CollectiveMeasurement measured{
        op_, gpus_, nodes_, bytes(static_cast<double>(total)), microseconds(*time), {file_, 0, 0}};
    if (auto sound = check_bandwidths(measured, {*algorithm, *bus}); !sound) return sound;
    rows_.push_back(std::move(measured));
    return {};
  }

  const Json& document_;
  std::string file_;
  const CollectiveFileDefaults& defaults_;
  primitives::CollectiveOp op_ = primitives::CollectiveOp::kAllReduce;
  std::int64_t gpus_ = 0;
  std::int64_t nodes_ = 1;
  CollectiveMeasurements rows_;
};

}  // namespace

Expected<CollectiveMeasurements> read_nccl_tests_json(std::string_view text, const std::string& file,
                                                      const CollectiveFileDefaults& defaults) {
  const auto document = parse_json_object(text, file);
  if (!document) return tl::unexpected<Error>(document.error());
  return JsonReader(*document, file, defaults).read();
}

}  // namespace ddlsim::importers
