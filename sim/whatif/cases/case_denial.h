// RDMA that a case says there was none of. Private to the room.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace ddlsim::whatif {

/// Some of a text.
struct TextPart {
  std::string_view text;  // the word that is denied
  std::size_t begin = 0;  // with what denies it
  std::size_t end = 0;
};

/// The first denial of a text in lower case: "no infiniband", "without rdma", "infiniband (is) off", "ib not used",
/// "nccl_ib_disable=1".
[[nodiscard]] std::optional<TextPart> denied_rdma_in(std::string_view text);

}  // namespace ddlsim::whatif
