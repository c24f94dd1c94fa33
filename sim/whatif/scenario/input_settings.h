// How settings of the loader and of what it reads are stored. Private to the room.
#pragma once

#include <string>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif::input {

using Setter = Expected<void>(Scenario& scenario, const std::string& value, const io::Catalog& catalog);

Setter set_dataset, set_loader, set_workers, set_prefetch, set_cache, set_cache_size, set_epoch, set_decode,
    set_gpu_decode, set_contention, set_variation, set_pinned, set_storage, set_storage_bandwidth, set_storage_iops,
    set_storage_latency, set_storage_capacity, set_cpu, set_threads;

}  // namespace ddlsim::whatif::input
