// Cutting along further axes what tensor ranks have already. Private to the room.
#pragma once

#include <string>
#include <string_view>

#include "ddlsim/workload/shard.h"

namespace ddlsim::workload {

/// The degrees up to a size that divide it.
[[nodiscard]] std::string divisors_of(std::int64_t size);

[[nodiscard]] std::int64_t elements_of(const Shape& shape);

/// The layer of another operator or input, under the same name.
[[nodiscard]] Expected<void> remake(Layer& layer, const Op& op, const Shape& in);

/// A layer's rows over the context group.
[[nodiscard]] Expected<void> cut_context(Shard& shard, const Cut& cut);

/// A layer of experts over the expert group. `rows_apart`: how many ranks of the tensor group have rows of their own.
[[nodiscard]] Expected<void> cut_experts(Shard& shard, const Cut& cut);

}  // namespace ddlsim::workload
