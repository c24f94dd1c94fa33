// Servers of the catalogue: a file of a node or an instance, joined with the files that it names.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/quantity_io.h"
#include "file_name.h"
#include "known_names.h"

namespace ddlsim::io {
namespace {

/// What a file names, by a name of the catalogue or by a file's.
std::string found_near(const std::filesystem::path& file, const std::string& name) {
  return is_path(name) ? found_beside(file, name) : name;
}

}  // namespace

Expected<hardware::Node> Catalog::read_server(std::string_view name) const {
  auto path = find(Kind::kNodes, name);
  if (!path) {
    if (auto rented = find(Kind::kInstances, name)) {
      path = rented;
    } else {
      Known all;
      add_known(*this, Kind::kNodes, all);
      add_known(*this, Kind::kInstances, all);
      Error error = path.error();
      std::string near = suggested(name, all);
      // In place of what is near among nodes alone; where the rest is shown stays.
      if (error.notes.size() > 1) error.notes.erase(error.notes.begin());
      if (!near.empty()) error.notes.insert(error.notes.begin(), std::move(near));
      return tl::unexpected<Error>(std::move(error));
    }
  }
  auto file = load_yaml(*path).and_then(read_node);
  file = check_id(std::move(file), *path);
  if (!file) return tl::unexpected<Error>(file.error());
  auto network = link(found_near(*path, file->network_id));
  auto gpu = this->gpu(found_near(*path, file->node.gpu.id));
  const auto at = [](Error error, const SourceLocation& where) {
    return tl::unexpected<Error>(named_at(std::move(error), where));
  };
  if (!network) return at(network.error(), file->network_where);
  if (!gpu) return at(gpu.error(), file->gpu_where);
  hardware::Node node = std::move(file->node);
  node.network = std::move(*network);
  if (file->sustained) {
    if (*file->sustained >= node.network.bandwidth) {
      return at({ErrorCode::kInvalidArgument,
                 fmt::format("network: sustained {} is no less than the {} of {}", to_text_in_bits(*file->sustained),
                             to_text_in_bits(node.network.bandwidth), node.network.id),
                 {},
                 {"sustained is what is left of a link once a burst is over; leave it out, or name another link"},
                 {}},
                file->network_where);
    }
    node.network_sustained = file->sustained;
  }
  if (!file->host_link_id.empty()) {
    auto host = link(found_near(*path, file->host_link_id));
    if (!host) return at(host.error(), file->network_where);
    node.host_link = std::move(*host);
    node.host_link_stated = true;
  }
  if (auto fitted = fit_gpu(node, std::move(*gpu)); !fitted) return at(fitted.error(), file->gpu_where);
  if (file->nvlink && node.nvlink) node.nvlink->bandwidth = *file->nvlink;
  if (auto joined = join_pairs(node, file->nvlink_pairs); !joined) return tl::unexpected<Error>(joined.error());
  if (file->host) {
    if (auto joined = join_host(node, *file->host); !joined) return at(joined.error(), file->host->where);
  }
  return node;
}

Expected<void> Catalog::join_host(hardware::Node& node, const HostFile& file) const {
  auto processor = cpu(file.cpu_id);
  if (!processor) return tl::unexpected<Error>(processor.error());
  const std::int64_t threads = file.sockets * processor->cores * processor->threads_per_core;
  if (file.host.threads > threads) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} threads, but {} x {} have {}", file.host.threads,
                                                         file.sockets, processor->id, threads));
  }
  node.host.threads = file.host.threads;
  node.host.memory = file.host.memory;
  node.host.volume_bandwidth = file.host.volume_bandwidth;
  node.host.cpu = std::move(*processor);
  if (file.storage_id.empty()) return {};
  auto disk = storage(file.storage_id);
  if (!disk) return tl::unexpected<Error>(disk.error());
  if (file.storage_bandwidth) disk->bandwidth = *file.storage_bandwidth;
  if (!disk->shared && !disk->capacity) disk->capacity = node.host.disk_size;
  node.host.storage = node.host.reaching(std::move(*disk));
  return {};
}

Expected<void> Catalog::join_pairs(hardware::Node& node, const std::vector<NvlinkPairText>& pairs) const {
  if (pairs.empty()) return {};
  const auto at = [&](std::string what, std::size_t pair, std::vector<std::string> notes = {}) {
    return fail(ErrorCode::kInvalidArgument, std::move(what), pairs[pair].where, std::move(notes));
  };
  if (!node.nvlink) return at(fmt::format("NVLinks between GPUs that have none: {}", node.gpu.name), 0);
  std::int64_t links = node.gpu.nvlink_links;
  if (links == 0) {
    const auto one = link(node.gpu.nvlink_id);
    if (!one) return tl::unexpected<Error>(one.error());
    const double held = node.nvlink->bandwidth / one->bandwidth;
    links = std::llround(std::min(held, 1e6));
    if (links < 1 || std::abs(held - static_cast<double>(links)) > 1e-6 * held) {
      return at(
          fmt::format("{} of NVLink are not a whole number of {} links", to_text(node.nvlink->bandwidth), one->id), 0,
          {fmt::format("say how many: nvlink: {{links: ...}} in the file of {}", node.gpu.id)});
    }
  }
  hardware::NvlinkMeshParts parts{node.gpus, links, {}};
  for (const NvlinkPairText& text : pairs) parts.pairs.push_back(text.pair);
  if (const auto fault = hardware::first_fault(parts)) return at(fault->message, fault->pair);
  auto mesh = hardware::NvlinkMesh::create(std::move(parts));
  if (!mesh) return at(mesh.error().message, 0);
  node.nvlink_mesh = std::move(*mesh);
  return {};
}

Expected<void> Catalog::fit_gpu(hardware::Node& node, hardware::Gpu gpu) const {
  const bool replaced = !node.gpu.name.empty();
  auto pcie = link(gpu.pcie_id);
  if (!pcie) return tl::unexpected<Error>(pcie.error());
  if (!replaced || pcie->bandwidth < node.pcie.bandwidth) node.pcie = std::move(*pcie);
  if (!replaced && !node.host_link_stated) node.host_link = node.pcie;
  node.nvlink.reset();
  if (gpu.nvlink) {
    auto nvlink = link(gpu.nvlink_id);
    if (!nvlink) return tl::unexpected<Error>(nvlink.error());
    nvlink->bandwidth = *gpu.nvlink;
    node.nvlink = std::move(*nvlink);
  }
  if (!node.nvlink || gpu.form == hardware::Form::kPcie) {
    // The links of a board are no bridges between cards.
    if (node.gpu_interconnect != hardware::Interconnect::kPcie) node.nvlink_mesh.reset();
    node.gpu_interconnect = from_datasheet(hardware::Interconnect::kPcie);
  }
  if (replaced) node.price.reset();
  node.gpu = std::move(gpu);
  return {};
}

}  // namespace ddlsim::io
