// What the two maximising policies of cost/loader_shares.h share. Private to the room.
#pragma once

#include <span>
#include <vector>

#include "ddlsim/cost/loader_shares.h"

namespace ddlsim::cost {

/// Beyond this, sums of shares differ by rounding alone.
inline constexpr double kShareSlack = 1 + 1e-12;

/// The jobs, those whose bytes are worth most first; those that read nothing before all.
[[nodiscard]] std::vector<std::size_t> by_worth_of_bytes(std::span<const LoaderDemand> demands);

/// Whether all jobs at their best read more than there is.
[[nodiscard]] bool storage_binds(const LoaderSupply& supply, std::span<const LoaderDemand> demands);

/// `a-dloader`.
[[nodiscard]] std::vector<LoaderGrant> marginal_shares(const LoaderSupply& supply,
                                                       std::span<const LoaderDemand> demands);

/// `optimal`.
[[nodiscard]] Expected<std::vector<LoaderGrant>> exact_shares(const LoaderSupply& supply,
                                                              std::span<const LoaderDemand> demands);

}  // namespace ddlsim::cost
