// The things a scenario can be told, each with how it is applied. Private to the room.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

struct Leaf {
  std::string_view path;
  std::string_view meaning;
  std::string_view example;
  Expected<void> (*apply)(Scenario&, const std::string& value, const io::Catalog&);  // null: resolve() does it
};

/// Whether a setting says what servers, GPUs and networks are, and not what a job does with them.
[[nodiscard]] bool is_of_servers(std::string_view path);

/// Where the value of a setting came from; nothing for a setting whose origin makes no difference.
[[nodiscard]] std::optional<Origin> origin_of(const Scenario& scenario, std::string_view path);
void set_origin(Scenario& scenario, std::string_view path, Origin origin);

/// The one that wins of those with a path; null: none.
[[nodiscard]] const Override* last_of(std::span<const Override> overrides, std::string_view path);
/// An error in a setting's value, with its path and place.
[[nodiscard]] tl::unexpected<Error> at(Error error, const Override& setting);

/// In the order in which they are applied: what replaces a whole part comes before its details.
[[nodiscard]] std::span<const Leaf> leaves();
/// The one with that path; null: none.
[[nodiscard]] const Leaf* find_leaf(std::string_view path);

}  // namespace ddlsim::whatif
