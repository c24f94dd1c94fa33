#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "ddlsim/importers/topology_file.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/quantity_io.h"

namespace ddlsim::importers {
namespace {

using hardware::EdgeKind;
using hardware::Ends;
using hardware::PathClass;
using hardware::VertexKind;

constexpr std::string_view kTokens = "valid: X (itself), NV# (# NVLinks), PIX, PXB, PHB, NODE, SYS";
constexpr std::int64_t kMostLinks = 1024;
constexpr char kEscape = '\x1b';

struct SmiToken {
  std::string text;
  int column = 0;
};

struct Line {
  int number = 0;
  std::vector<SmiToken> tokens;
};

struct Cell {
  PathClass path = PathClass::kSelf;
  std::int64_t nvlinks = 0;
  int column = 0;
};

struct Device {
  std::string name;
  int line = 0;
  std::vector<Cell> cells;
  std::string affinity;  // a GPU's columns after the matrix

  [[nodiscard]] bool is_gpu() const { return name.starts_with("GPU"); }
};

struct Matrix {
  std::vector<Device> devices;
};

/// Lines of tokens, without styling. Fails for any other control character.
Expected<std::vector<Line>> tokens_of(std::string_view text, const std::string& file) {
  std::vector<Line> lines{{1, {}}};
  int column = 1;
  bool open = false;
  for (std::size_t i = 0; i < text.size(); ++i, ++column) {
    const char c = text[i];
    if (c == kEscape) {
      // ESC [ digits and semicolons m: underlining and colour.
      std::size_t end = i + 1;
      if (end < text.size() && text[end] == '[') ++end;
      while (end > i + 1 && end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == ';')) ++end;
      if (end == i + 1 || end >= text.size() || text[end] != 'm') {
        return fail(ErrorCode::kParse, "a terminal control sequence (ANSI code) that is not underlining or colour",
                    {file, lines.back().number, column}, {"write the file with `nvidia-smi topo -m > FILE`"});
      }
      column += static_cast<int>(end - i);
      i = end;
      continue;
    }
    if (c == '\n') {
      lines.push_back({lines.back().number + 1, {}});
      column = 0;
      open = false;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      open = false;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return fail(ErrorCode::kParse, fmt::format("a control character (0x{:02x})", static_cast<unsigned char>(c)),
                  {file, lines.back().number, column});
    } else {
      if (!open) lines.back().tokens.push_back({{}, column});
      lines.back().tokens.back().text += c;
      open = true;
    }
  }
  std::erase_if(lines, [](const Line& line) { return line.tokens.empty(); });
  return lines;
}

class MatrixReader {
 public:
  MatrixReader(const std::vector<Line>& lines, const std::string& file) : lines_(lines), file_(file) {}

  Expected<Matrix> read() {
    std::size_t row = 0;
    // A prompt may stand above the matrix.
    while (row < lines_.size() && lines_[row].tokens[0].text != "GPU0") ++row;
    if (row == lines_.size()) {
      return fail(ErrorCode::kParse, "no matrix that starts with GPU0", {file_, 1, 1},
                  {"`nvidia-smi topo -m` prints one"});
    }
    if (auto header = read_header(lines_[row]); !header) return tl::unexpected<Error>(header.error());
    for (Device& device : matrix_.devices) {
      if (++row == lines_.size() || lines_[row].tokens[0].text == "Legend:") {
        return fail(ErrorCode::kParse, fmt::format("the row of {} is missing", device.name), end_at(row),
                    {"one row for every column of the header"});
      }
      if (auto read = read_row(lines_[row], device); !read) return tl::unexpected<Error>(read.error());
    }
    if (auto whole = check_rest(row + 1); !whole) return tl::unexpected<Error>(whole.error());
    if (auto same = check_symmetry(); !same) return tl::unexpected<Error>(same.error());
    return std::move(matrix_);
  }

 private:
  [[nodiscard]] SourceLocation end_at(std::size_t row) const {
    return {file_, row < lines_.size() ? lines_[row].number : lines_.back().number + 1, 1};
  }

  Expected<void> read_header(const Line& line) {
    std::map<std::string_view, int> seen;
    for (const SmiToken& token : line.tokens) {
      if (token.text == "CPU") break;  // CPU Affinity, and what follows it
      if (!seen.emplace(token.text, token.column).second) {
        return fail(ErrorCode::kParse, fmt::format("the column {} stands twice", token.text.substr(0, 60)),
                    {file_, line.number, token.column});
      }
      if (matrix_.devices.size() == kMaxTopologyDevices) {
        return fail(ErrorCode::kParse, fmt::format("more than {} devices", kMaxTopologyDevices),
                    {file_, line.number, token.column});
      }
      matrix_.devices.push_back({token.text, 0, {}, {}});
    }
    return {};
  }

  Expected<void> read_row(const Line& line, Device& device) {
    const std::size_t columns = matrix_.devices.size();
    const SmiToken& first = line.tokens[0];
    device.line = line.number;
    if (first.text != device.name) {
      return fail(ErrorCode::kParse,
                  fmt::format("the row of {} where that of {} belongs", first.text.substr(0, 60), device.name),
                  {file_, line.number, first.column}, {"rows stand in the order of the columns"});
    }
    for (std::size_t i = 0; i < columns; ++i) {
      if (i + 1 >= line.tokens.size()) {
        return fail(ErrorCode::kParse, fmt::format("{} entries, but the header names {} devices", i, columns),
                    {file_, line.number, line.tokens.back().column});
      }
      const SmiToken& token = line.tokens[i + 1];
      const auto cell = read_cell(token);
      if (!cell) {
        return fail(ErrorCode::kParse, fmt::format("unknown entry '{}'", token.text.substr(0, 60)),
                    {file_, line.number, token.column}, {std::string(kTokens)});
      }
      device.cells.push_back(*cell);
    }
    for (std::size_t i = columns + 1; i < line.tokens.size(); ++i) {
      if (!device.is_gpu() || read_cell(line.tokens[i])) {
        return fail(ErrorCode::kParse, fmt::format("more than {} entries, as the header names devices", columns),
                    {file_, line.number, line.tokens[i].column});
      }
      device.affinity += line.tokens[i].text + " ";
    }
    return {};
  }

  static std::optional<Cell> read_cell(const SmiToken& token) {
    Cell cell{.path = PathClass::kSelf, .nvlinks = 0, .column = token.column};
    if (token.text.starts_with("NV") && token.text.size() > 2) {
      const auto links = parse_count(std::string_view(token.text).substr(2), {1, kMostLinks});
      if (!links) return std::nullopt;
      cell.path = PathClass::kNvl;
      cell.nvlinks = *links;
      return cell;
    }
    for (const auto& [name, path] : hardware::kPathClasses) {
      if (name != token.text) continue;
      if (path == PathClass::kNvl || path == PathClass::kNvb || path == PathClass::kNet) return std::nullopt;
      cell.path = path;
      return cell;
    }
    return std::nullopt;
  }

  Expected<void> check_rest(std::size_t row) const {
    if (row < lines_.size() && lines_[row].tokens[0].text != "Legend:") {
      const SmiToken& first = lines_[row].tokens[0];
      return fail(
          ErrorCode::kParse,
          fmt::format("'{}' after the rows of all {} devices", first.text.substr(0, 60), matrix_.devices.size()),
          {file_, lines_[row].number, first.column}, {"the legend stands there"});
    }
    const bool legend = std::any_of(lines_.begin() + static_cast<std::ptrdiff_t>(row), lines_.end(),
                                    [](const Line& line) { return line.tokens[0].text == "SYS"; });
    if (legend) return {};
    return fail(ErrorCode::kParse, "the legend is missing: the text is cut short", end_at(lines_.size()),
                {"keep all that `nvidia-smi topo -m` prints, from the header to the legend's last line"});
  }

  Expected<void> check_symmetry() const {
    const auto& devices = matrix_.devices;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      for (std::size_t k = 0; k < devices.size(); ++k) {
        const Cell& cell = devices[i].cells[k];
        const SourceLocation where{file_, devices[i].line, cell.column};
        if ((cell.path == PathClass::kSelf) != (i == k)) {
          return fail(ErrorCode::kParse,
                      fmt::format("{} and {}: X stands for a device and itself", devices[i].name, devices[k].name),
                      where);
        }
        if (cell.nvlinks > 0 && !(devices[i].is_gpu() && devices[k].is_gpu())) {
          return fail(ErrorCode::kParse, fmt::format("NVLink between {} and {}", devices[i].name, devices[k].name),
                      where, {"NV# joins two GPUs"});
        }
        const Cell& other = devices[k].cells[i];
        if (cell.path == other.path && cell.nvlinks == other.nvlinks) continue;
        // The later of the two, where a reader notices it.
        const Cell& late = i > k ? cell : other;
        return fail(
            ErrorCode::kParse,
            fmt::format("not symmetric: {} to {} is not as {} to {}", devices[std::max(i, k)].name,
                        devices[std::min(i, k)].name, devices[std::min(i, k)].name, devices[std::max(i, k)].name),
            {file_, devices[std::max(i, k)].line, late.column});
      }
    }
    return {};
  }

  const std::vector<Line>& lines_;
  const std::string& file_;
  Matrix matrix_;
};

/// The levels of the PCIe tree, nearest first.
constexpr std::array kLevels{PathClass::kPix, PathClass::kPxb, PathClass::kPhb, PathClass::kNode};

class TreeBuilder {
 public:
  TreeBuilder(const Matrix& matrix, const std::string& file, const NvidiaSmiOptions& options)
      : devices_(matrix.devices), file_(file), options_(options) {}

  Expected<TopologyFile> build() {
    group();
    if (auto agreed = check_groups(); !agreed) return tl::unexpected<Error>(agreed.error());
    for (const Device& device : devices_) {
      add(device.name, device.is_gpu() ? VertexKind::kGpu : VertexKind::kNic);
    }
    add_tree();
    if (auto joined = add_nvlinks(); !joined) return tl::unexpected<Error>(joined.error());
    add_network();
    auto topology = hardware::Topology::create(std::move(parts_));
    if (topology) return TopologyFile{std::move(*topology), std::move(notes_)};
    Error error = topology.error();
    error.where.file = file_;
    return tl::unexpected<Error>(std::move(error));
  }

 private:
  std::size_t add(std::string id, VertexKind kind) {
    parts_.vertices.push_back({std::move(id), kind, kind == VertexKind::kLeafSwitch ? hardware::kNoServer : 0});
    return parts_.vertices.size() - 1;
  }
  void link(Ends ends, EdgeKind kind, Bandwidth bandwidth, Time latency) {
    parts_.links.push_back({ends, kind, bandwidth, latency});
  }

  /// groups_[level][device]: the first device of its group.
  void group() {
    std::vector<std::size_t> of(devices_.size());
    std::iota(of.begin(), of.end(), std::size_t{0});
    const auto join = [&](std::size_t i, std::size_t k) {
      const std::size_t a = std::min(of[i], of[k]);
      const std::size_t b = std::max(of[i], of[k]);
      if (a != b) std::replace(of.begin(), of.end(), b, a);
    };
    for (const PathClass level : kLevels) {
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        for (std::size_t k = 0; k < i; ++k) {
          const PathClass path = devices_[i].cells[k].path;
          if (path != PathClass::kNvl && path <= level) join(i, k);
          // What NV# hides, the NUMA node tells.
          const bool near = path == PathClass::kNvl && devices_[i].affinity == devices_[k].affinity;
          if (level == PathClass::kNode && near) join(i, k);
        }
      }
      groups_.push_back(of);
    }
  }

  [[nodiscard]] PathClass derived(std::size_t i, std::size_t k) const {
    for (std::size_t level = 0; level < kLevels.size(); ++level) {
      if (groups_[level][i] == groups_[level][k]) return kLevels[level];
    }
    return PathClass::kSys;
  }

  Expected<void> check_groups() const {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        const Cell& cell = devices_[i].cells[k];
        if (cell.path == PathClass::kNvl || cell.path == derived(i, k)) continue;
        const auto name = [](PathClass path) { return name_of(hardware::kPathClasses, path); };
        return fail(ErrorCode::kParse,
                    fmt::format("{} to {} is {}, but what they have in common with the others makes it {}",
                                devices_[i].name, devices_[k].name, name(cell.path), name(derived(i, k))),
                    {file_, devices_[i].line, cell.column},
                    {"PCI is a tree: two devices near a third are near each other"});
      }
    }
    return {};
  }

  /// The rate of a device's slot: a NIC's is no narrower than its port.
  [[nodiscard]] Bandwidth slot(std::size_t device) const {
    if (devices_[device].is_gpu() || !options_.network) return options_.pcie.bandwidth;
    return max(options_.pcie.bandwidth, options_.network->bandwidth);
  }

  /// Groups of one level inside a group of the level above, as device lists, in the order of devices.
  [[nodiscard]] std::vector<std::vector<std::size_t>> parts_of(const std::vector<std::size_t>& members,
                                                               std::size_t level) const {
    std::map<std::size_t, std::vector<std::size_t>> parts;
    for (const std::size_t device : members) parts[groups_[level][device]].push_back(device);
    std::vector<std::vector<std::size_t>> lists;
    for (auto& [first, list] : parts) lists.push_back(std::move(list));
    return lists;
  }

  void add_tree() {
    std::vector<std::size_t> all(devices_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::vector<std::size_t> sockets;
    std::size_t roots = 0;
    for (const auto& in_socket : parts_of(all, 3)) {
      const std::size_t socket = add(fmt::format("socket{}", sockets.size()), VertexKind::kSocket);
      sockets.push_back(socket);
      for (const auto& in_root : parts_of(in_socket, 2)) {
        const std::size_t root = add(fmt::format("root{}", roots++), VertexKind::kRootComplex);
        const auto below = parts_of(in_root, 1);
        for (const auto& in_switch : below) add_switches(in_switch, root);
        // A root complex carries all its PCIe links.
        link({root, socket}, EdgeKind::kHostBridge, options_.pcie.bandwidth * static_cast<double>(below.size()),
             options_.pcie.latency);
      }
    }
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      for (std::size_t k = i + 1; k < sockets.size(); ++k) {
        link({sockets[i], sockets[k]}, EdgeKind::kSocketLink, options_.socket_link, options_.pcie.latency);
      }
    }
  }

  /// One switch, or an upper one with a switch for every PIX group; a device alone needs none.
  void add_switches(const std::vector<std::size_t>& members, std::size_t root) {
    const auto plug = [&](std::size_t device, std::size_t into) {
      link({device, into}, EdgeKind::kPcie, slot(device), options_.pcie.latency);
    };
    const auto new_switch = [&](std::size_t parent) {
      const std::size_t vertex = add(fmt::format("PCIe{}", switches_++), VertexKind::kPcieSwitch);
      link({vertex, parent}, EdgeKind::kPcie, options_.pcie.bandwidth, options_.pcie.latency);
      return vertex;
    };
    if (members.size() == 1) return plug(members[0], root);
    const auto groups = parts_of(members, 0);
    const std::size_t upper = new_switch(root);
    if (groups.size() == 1) {
      for (const std::size_t device : members) plug(device, upper);
      return;
    }
    for (const auto& near : groups) {
      const std::size_t lower = new_switch(upper);
      for (const std::size_t device : near) plug(device, lower);
    }
  }

  /// GPUs that all have one count to each other are joined by NVSwitch, or by a mesh that looks the same: a GPU has
  /// `count` links in all in the first case, `count` to every other in the second. The GPU's own links decide.
  Expected<void> add_nvlinks() {
    std::vector<std::size_t> gpus;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i].is_gpu()) gpus.push_back(i);
    }
    bool alike = gpus.size() > 2;
    const std::int64_t count = gpus.size() > 1 ? devices_[gpus[1]].cells[gpus[0]].nvlinks : 0;
    for (const std::size_t i : gpus) {
      for (const std::size_t k : gpus) {
        const Cell& cell = devices_[i].cells[k];
        if (i != k && cell.nvlinks != count) alike = false;
        if (cell.nvlinks == 0 || options_.nvlink) continue;
        return fail(ErrorCode::kInvalidArgument, "the matrix has NVLinks, but the GPU that was named has none",
                    {file_, devices_[i].line, cell.column}, {"name the GPU of this machine"});
      }
    }
    if (alike && count >= kLeastSwitched) {
      const std::size_t hub = add("NVSwitch", VertexKind::kNvswitch);
      for (const std::size_t i : gpus) {
        link({i, hub}, EdgeKind::kNvlink, options_.nvlink->bandwidth * static_cast<double>(count),
             options_.nvlink->latency);
      }
      return {};
    }
    for (const std::size_t i : gpus) {
      for (const std::size_t k : gpus) {
        const std::int64_t links = devices_[i].cells[k].nvlinks;
        if (k >= i || links == 0) continue;
        link({i, k}, EdgeKind::kNvlink, options_.nvlink->bandwidth * static_cast<double>(links),
             options_.nvlink->latency);
      }
    }
    return {};
  }

  void add_network() {
    if (!options_.network) return;
    std::optional<std::size_t> leaf;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i].is_gpu()) continue;
      if (!leaf) leaf = add("network", VertexKind::kLeafSwitch);
      link({i, *leaf}, EdgeKind::kNetwork, options_.network->bandwidth, options_.network->latency);
    }
  }

  /// Boards without NVSwitch have up to 4 links between two GPUs (DGX A100 Station, 4 x A100: NV4); boards with it show
  /// all links of a GPU, 6 or more (V100 NV6, A100 NV12, H100 NV18; H800 NV8).
  static constexpr std::int64_t kLeastSwitched = 6;

  const std::vector<Device>& devices_;
  const std::string& file_;
  const NvidiaSmiOptions& options_;
  std::vector<std::vector<std::size_t>> groups_;
  hardware::TopologyParts parts_;
  std::vector<std::string> notes_;
  std::size_t switches_ = 0;
};

}  // namespace

Expected<TopologyFile> parse_nvidia_smi_topology(std::string_view text, const std::string& file,
                                                 const NvidiaSmiOptions& options) {
  const auto lines = tokens_of(text, file);
  if (!lines) return tl::unexpected<Error>(lines.error());
  const auto matrix = MatrixReader(*lines, file).read();
  if (!matrix) return tl::unexpected<Error>(matrix.error());
  return TreeBuilder(*matrix, file, options).build();
}

Expected<TopologyFile> load_nvidia_smi_topology(const std::filesystem::path& path, const NvidiaSmiOptions& options) {
  return io::read_file(path).and_then(
      [&](const std::string& text) { return parse_nvidia_smi_topology(text, path.string(), options); });
}

}  // namespace ddlsim::importers
