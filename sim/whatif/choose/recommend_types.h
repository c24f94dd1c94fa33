// What is asked, which types of server are to choose from, and what a price list says of them. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/whatif/recommend.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// The settings that every candidate shares, taken apart.
struct Asked {
  std::vector<Override> settings;  // without node, nodes, batch and global_batch
  std::vector<Override> chosen;    // of those, what a choice may have otherwise than the job as stated, and its runs
  std::optional<std::string> node;
  std::optional<std::string> gpu;
  std::optional<std::int64_t> nodes;
  std::optional<std::int64_t> micro_batch;
  std::optional<std::int64_t> global_batch;
  bool strategy = false;   // somebody states how gradients or the model are shared
  bool precision = false;  // and in which formats
};

/// Errors: kInvalidArgument for counts that are none.
[[nodiscard]] Expected<Asked> take_apart(std::span<const Override> stated);

/// Whether a cloud is among those asked for: "aws", "alibaba".
[[nodiscard]] bool is_among(const std::vector<std::string>& providers, const std::string& provider);

/// Of servers to choose from, those that have this GPU, with their prices: by any of its names; a file of one's own
/// goes into every server. Errors: kNotFound for no GPU, kInfeasible where none has it.
[[nodiscard]] Expected<void> keep_with_gpu(const io::Catalog& catalog, const std::string& gpu,
                                           std::vector<std::string>& servers);

/// Errors: kInvalidArgument for a length of the run beside a table of epochs by batch, and for a global batch that the
/// table does not have.
[[nodiscard]] Expected<void> check_epochs(const Asked& asked, std::span<const Override> stated,
                                          const RecommendOptions& options);

/// Errors: kNotFound for a region that the price list does not have.
[[nodiscard]] Expected<void> check_region(const RecommendOptions& options);

/// The servers that a setting `price` names: "dgx-a100=12 $/h, mine.yaml=3 $/h"; files of the user's by their paths.
/// Errors: of a name that is no server's.
[[nodiscard]] Expected<std::vector<std::string>> servers_priced(const io::Catalog& catalog, const std::string& prices);

/// The server's price by the cheapest row of the price list for it; none without one. Requires a list.
void take_listed(const RecommendOptions& options, const io::Catalog& catalog, Scenario& scenario);

}  // namespace ddlsim::whatif
