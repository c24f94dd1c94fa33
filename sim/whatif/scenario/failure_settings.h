// How settings of failures and checkpoints are stored. Private to the room.
#pragma once

#include <string>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif::failing {

using Setter = Expected<void>(Scenario& scenario, const std::string& value, const io::Catalog& catalog);

Setter set_rates, set_mtbf_gpu, set_mtbf_node, set_mtbf_switch, set_nodes_per_switch, set_restart, set_warmup,
    set_spares, set_repair, set_runs, set_seed;
Setter set_mode, set_interval, set_storage, set_bandwidth, set_node_bandwidth, set_size, set_writers, set_write,
    set_snapshot, set_remote_every;

}  // namespace ddlsim::whatif::failing
