// How the run behind a case made its batches. Private to the room.
#pragma once

#include <vector>

#include "ddlsim/hardware/node.h"
#include "ddlsim/io/case_file.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// Settings of the loader of a row that read images. Nothing where it read none, where nobody says that it did, or
/// where the server's processor is not known: the loader keeps up.
///
/// `extra.data` and `extra.dali` say what was read and by which library, `extra.workers_per_server` how many workers
/// the processes of a server share; who reads from memory is not asked for a disk. What Oneflow-Inc/DLPerf's scripts
/// say stands in a table of its own, with the host of its four servers (two Xeon Gold 5118, 48 threads:
/// reports/dlperf_benchmark_test_report_v1.md): all frameworks there read ImageNet, but for rows that are called
/// synthetic. Other workers and cores are the loader's defaults.
[[nodiscard]] std::vector<Override> input_of(const io::Case& one, const hardware::Node& server);

}  // namespace ddlsim::whatif
