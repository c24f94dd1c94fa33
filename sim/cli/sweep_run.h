// A sweep's rows as cells, in the grid's order, whether threads of this process answer them or the ranks of an MPI run.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/io/result_store.h"
#include "ddlsim/whatif/sweep.h"
#include "ranks.h"
#include "work_over.h"

namespace ddlsim::cli {

using CellRows = std::vector<std::vector<io::Cell>>;
using TakeCellRows = std::function<Expected<void>(CellRows&&, const whatif::SweepProgress&)>;

/// Rows as bytes, for a process of the same program on the same kind of machine, and back.
[[nodiscard]] std::string pack(const CellRows& rows);
/// Nothing: not what `pack` made.
[[nodiscard]] std::optional<CellRows> unpack(std::string_view bytes);

/// Answers every point; `take` is called on rank 0 alone. `lost`: as work_over has it.
[[nodiscard]] Expected<void> run_sweep_over(Ranks* ranks, const io::Catalog& catalog, const whatif::Grid& grid,
                                            const whatif::SweepOptions& options, const TakeCellRows& take, bool& lost);

}  // namespace ddlsim::cli
