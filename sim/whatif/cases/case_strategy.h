// How the job of a case shares gradients: by its architecture, its framework and what else it says. Private to the
// room.
//
// A row may say it in so many words: `strategy`, a name of `ddlsim list frameworks`. Else its framework's way counts,
// of frameworks that have none of those names the nearest one on purpose (case_strategy.cpp: kNearest, with its code).
// Of any other framework nobody knows it: PyTorch's DistributedDataParallel is assumed, and the interval reaches over
// other ways (case_open.h).
//
// What else of `extra` counts: backend, variable_update, allreduce, setup, nccl, all_reduce_spec; compression,
// gradient_compression, comm_hook (fp16, bf16, PowerSGD, top-k, signs), fp16_allreduce, powersgd_rank, bucket_cap_mb,
// local_sgd (steps between two averages).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/case_file.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// The framework's way, as far as a case says: a value of the setting `strategy`. `family`: its architecture in a word
/// (architecture_family).
[[nodiscard]] std::string strategy_of(const io::Case& one, std::string_view family);

/// Whether several GPUs share gradients in a way that neither the case nor its framework says.
[[nodiscard]] bool assumes_strategy(const io::Case& one);

/// How gradients travel where a case says more than its framework's way, as settings: their format, compression,
/// buckets, library, steps between two averages, and tf_cnn_benchmarks' servers.
[[nodiscard]] std::vector<Override> exchange_settings_of(const io::Case& one);

/// What a case says of the exchange and no setting has, in a sentence each.
[[nodiscard]] std::vector<std::string> unread_exchange_words(const io::Case& one);

}  // namespace ddlsim::whatif
