// Which settings a prediction has a use for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "predict/question.h"

namespace ddlsim::whatif {

/// Whether gradients pass through parameter servers.
[[nodiscard]] bool by_servers(const Question& question);

/// Whether gradients pass through collectives.
[[nodiscard]] bool by_collectives(const Question& question);

/// Whether servers are reached at a rate that depends on what drives the network: nobody states a share of it, or that
/// sockets carry their messages.
[[nodiscard]] bool by_driven_servers(const Question& question);

/// Whether a setting has an effect on the answer, as far as is known of it.
[[nodiscard]] bool has_use(const Question& question, std::string_view path);

/// Attention that a model file has as one operator, and that `fusion` leaves so.
[[nodiscard]] bool stays_one_kernel(const workload::Model& model, const workload::Fusion& fusion);

/// Settings that somebody stated and that this prediction had no use for. The aggregate fidelity has for none above.
[[nodiscard]] std::string unused_settings(const Question& question);

/// Shares of peak rates that this prediction used and nobody stated.
[[nodiscard]] std::vector<std::string> assumed_shares(const Question& question);

}  // namespace ddlsim::whatif
