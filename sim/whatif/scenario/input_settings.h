// How settings of what a loader reads, and of the processor it runs on, are stored. Private to the room.
#pragma once

#include <string>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif::input {

using Setter = Expected<void>(Scenario& scenario, const std::string& value, const io::Catalog& catalog);

Setter set_storage, set_storage_bandwidth, set_storage_iops, set_storage_latency, set_storage_capacity, set_cpu;

}  // namespace ddlsim::whatif::input
