// A network that TCP drives though nobody said so: what RDMA would make of the same question. Private to the room.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ddlsim/answer/inverse.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// The same question of a job with other settings.
using AskAgain = std::function<Expected<answer::Inverse>(std::span<const Override>)>;

/// Adds `over_rdma` and a note to an answer about `network` where TCP drives it by the instance's file or by assumption
/// alone: the same question over RoCE. Nothing where somebody says the transport, or servers have one of their own.
void add_over_rdma(const io::Catalog& catalog, std::span<const Override> base, const AskAgain& ask,
                   answer::Inverse& result);

}  // namespace ddlsim::whatif
