#include "sweep_run.h"

#include <cstring>

#include "ddlsim/report/sweep.h"

namespace ddlsim::cli {
namespace {

template <typename T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);  // NOLINT(*-reinterpret-cast)
}

/// Takes values off the front; nothing where there are too few bytes.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T value() {
    T value{};
    const std::string_view some = text(sizeof value);
    if (some.size() == sizeof value) std::memcpy(&value, some.data(), sizeof value);
    return value;
  }
  std::string_view text(std::size_t size) {
    good_ = good_ && size <= bytes_.size();
    if (!good_) return {};
    const std::string_view some = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return some;
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

CellRows cells_of(std::span<const answer::SweepRow> rows, answer::SweepDetail detail) {
  CellRows cells;
  cells.reserve(rows.size());
  for (const answer::SweepRow& row : rows) cells.push_back(report::sweep_cells(row, detail));
  return cells;
}

}  // namespace

std::string pack(const CellRows& rows) {
  std::string bytes;
  for (const auto& row : rows) {
    put(bytes, static_cast<std::uint32_t>(row.size()));
    for (const io::Cell& cell : row) {
      put(bytes, static_cast<std::uint8_t>(cell.index()));
      if (const auto* number = std::get_if<std::int64_t>(&cell)) put(bytes, *number);
      if (const auto* number = std::get_if<double>(&cell)) put(bytes, *number);
      if (const auto* text = std::get_if<std::string>(&cell)) {
        put(bytes, static_cast<std::uint32_t>(text->size()));
        bytes += *text;
      }
    }
  }
  return bytes;
}

std::optional<CellRows> unpack(std::string_view bytes) {
  Bytes all(bytes);
  CellRows rows;
  while (!all.empty()) {
    const auto size = all.value<std::uint32_t>();
    if (!all.good() || size > bytes.size()) return std::nullopt;
    auto& row = rows.emplace_back();
    row.reserve(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      switch (all.value<std::uint8_t>()) {
        case 0: row.emplace_back(); break;
        case 1: row.emplace_back(all.value<std::int64_t>()); break;
        case 2: row.emplace_back(all.value<double>()); break;
        case 3: row.emplace_back(std::string(all.text(all.value<std::uint32_t>()))); break;
        default: return std::nullopt;
      }
      if (!all.good()) return std::nullopt;
    }
  }
  return rows;
}

Expected<void> run_sweep_over(Ranks* ranks, const io::Catalog& catalog, const whatif::Grid& grid,
                              const whatif::SweepOptions& options, const TakeCellRows& take, bool& lost) {
  if (ranks == nullptr) {
    return whatif::sweep(catalog, grid, options,
                         [&](std::span<const answer::SweepRow> rows, const whatif::SweepProgress& progress) {
                           return take(cells_of(rows, options.detail), progress);
                         });
  }
  const whatif::SweepPieces pieces(catalog, grid, options);
  whatif::SweepProgress progress{.done = 0, .left = pieces.positions()};
  std::int64_t piece = 0;
  RankWork work{.pieces = pieces.count(), .threads = options.threads, .make_worker = {}, .take = {}};
  work.make_worker = [&]() -> PieceWorker {
    return [worker = pieces.worker(), detail = options.detail](std::int64_t number) {
      return pack(cells_of(worker(number), detail));
    };
  };
  work.take = [&](const std::string& bytes) -> Expected<void> {
    auto rows = unpack(bytes);
    if (!rows) return fail(ErrorCode::kIo, "a rank sent what is no rows");
    const std::int64_t done = pieces.positions_in(piece++);
    progress.done += done;
    progress.left -= done;
    return take(std::move(*rows), progress);
  };
  work.wait = [&] { return take({}, progress); };
  return work_over(*ranks, work, lost);
}

}  // namespace ddlsim::cli
