#include "onnx_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "ddlsim/importers/protobuf.h"

namespace ddlsim::importers::onnx {
namespace {

/// Reads messages field by field. A fault stays in the readers' WireFault, which ends every walk.
class GraphReader {
 public:
  void model(WireReader message, Graph& graph) {
    while (message.next()) {
      switch (message.field()) {
        case 2: graph.producer = message.bytes(); break;
        case 3: graph.producer_version = message.bytes(); break;
        case 7:
          has_graph_ = true;
          this->graph(message.message(), graph);
          break;
        case 8: opset(message.message(), graph); break;
        default: break;
      }
    }
  }

  [[nodiscard]] bool has_graph() const { return has_graph_; }

 private:
  static void opset(WireReader message, Graph& graph) {
    std::string_view domain;
    std::int64_t version = 0;
    while (message.next()) {
      if (message.field() == 1) domain = message.bytes();
      if (message.field() == 2) version = message.integer();
    }
    if (domain.empty() || domain == "ai.onnx") graph.opset = version;
  }

  void graph(WireReader message, Graph& graph) {
    while (message.next()) {
      switch (message.field()) {
        case 1:
          if (graph.nodes.size() == kMaxGraphNodes) {
            message.refuse(fmt::format("more than {} nodes", kMaxGraphNodes));
            break;
          }
          graph.nodes.push_back(node(message));
          break;
        case 2: graph.name = message.bytes(); break;
        case 5:
          if (counted(message)) graph.initializers.push_back(tensor(message.message()));
          break;
        case 11:
          if (counted(message)) graph.inputs.push_back(value_info(message.message()));
          break;
        case 12:
        case 13:
          if (counted(message)) graph.known.push_back(value_info(message.message()));
          break;
        default: break;
      }
    }
  }

  bool counted(WireReader& message) {
    if (++tensors_ <= kMaxTensors) return true;
    message.refuse(fmt::format("more than {} tensors", kMaxTensors));
    return false;
  }

  GraphNode node(WireReader& field) {
    GraphNode node;
    node.offset = field.offset();
    WireReader message = field.message();
    while (message.next()) {
      if ((message.field() == 1 || message.field() == 2 || message.field() == 5) && ++names_ > kMaxNames) {
        message.refuse(fmt::format("the nodes have more than {} inputs, outputs and attributes", kMaxNames));
        break;
      }
      switch (message.field()) {
        case 1: node.inputs.push_back(message.bytes()); break;
        case 2: node.outputs.push_back(message.bytes()); break;
        case 3: node.name = message.bytes(); break;
        case 4: node.op = message.bytes(); break;
        case 5: node.attributes.push_back(attribute(message.message())); break;
        case 7: node.domain = message.bytes(); break;
        default: break;
      }
    }
    return node;
  }

  static Attribute attribute(WireReader message) {
    Attribute attribute;
    while (message.next()) {
      switch (message.field()) {
        case 1: attribute.name = message.bytes(); break;
        case 3: attribute.integer = message.integer(); break;
        case 4: attribute.text = message.bytes(); break;
        case 5: attribute.tensor = tensor(message.message()); break;
        case 8:
          attribute.cut =
              attribute.cut || attribute.integers.size() >= kMaxValues || message.size() > kLongestVarint * kMaxValues;
          if (!attribute.cut) message.append_integers(attribute.integers);
          break;
        default: break;
      }
    }
    return attribute;
  }

  static TensorHead tensor(WireReader message) {
    TensorHead tensor;
    std::vector<std::int64_t> stored;
    std::string_view raw;
    std::vector<float> floats;
    bool external = false;
    while (message.next()) {
      switch (message.field()) {
        case 1:
          if (message.size() <= kLongestVarint * kMaxRank) message.append_integers(tensor.dims);
          if (tensor.dims.size() > kMaxRank || message.size() > kLongestVarint * kMaxRank) {
            message.refuse(fmt::format("a tensor of over {} dimensions", kMaxRank));
          }
          break;
        case 2: tensor.data_type = message.integer(); break;
        case 4:  // float_data, packed or one by one
          take_floats(message, floats);
          break;
        case 5:  // int32_data
        case 7:  // int64_data
          // A long list is a weight or a table, and stays where it is.
          if (stored.size() <= kMaxValues && message.size() <= kLongestVarint * kMaxValues) {
            message.append_integers(stored);
          }
          break;
        case 8: tensor.name = message.bytes(); break;
        case 9: raw = message.bytes(); break;
        case 14: external = message.integer() == 1; break;
        default: break;
      }
    }
    if (!external) tensor.values = integers(tensor, std::move(stored), raw);
    if (!external) tensor.fractions = fractions(tensor, std::move(floats), raw);
    return tensor;
  }

  /// The values of a small tensor of whole numbers; nothing for any other.
  static std::optional<std::vector<std::int64_t>> integers(const TensorHead& tensor, std::vector<std::int64_t> stored,
                                                           std::string_view raw) {
    if (tensor.data_type != kInt64 && tensor.data_type != kInt32) return std::nullopt;
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.dims) {
      if (size < 0 || size > static_cast<std::int64_t>(kMaxValues)) return std::nullopt;
      count *= size;
      if (count > static_cast<std::int64_t>(kMaxValues)) return std::nullopt;
    }
    const auto wanted = static_cast<std::size_t>(count);
    const std::size_t width = tensor.data_type == kInt64 ? 8 : 4;
    if (raw.size() == wanted * width && stored.empty()) {
      for (std::size_t i = 0; i < wanted; ++i) {
        std::uint64_t value = 0;
        for (std::size_t k = width; k-- > 0;) value = value << 8U | static_cast<unsigned char>(raw[i * width + k]);
        stored.push_back(width == 8 ? static_cast<std::int64_t>(value)
                                    : static_cast<std::int32_t>(static_cast<std::uint32_t>(value)));
      }
    }
    if (stored.size() != wanted) return std::nullopt;
    return stored;
  }

  static float float_at(std::string_view bytes, std::size_t at) {
    std::uint32_t bits = 0;
    for (std::size_t k = 4; k-- > 0;) bits = bits << 8U | static_cast<unsigned char>(bytes[at + k]);
    return std::bit_cast<float>(bits);
  }

  /// A long list is a weight, and stays where it is.
  static void take_floats(WireReader& message, std::vector<float>& floats) {
    if (message.size() > kMaxValues * 4 || floats.size() > kMaxValues) return;
    if (message.type() == WireType::kFixed32) {
      floats.push_back(message.fixed32());
      return;
    }
    const std::string_view packed = message.bytes();
    for (std::size_t at = 0; at + 4 <= packed.size(); at += 4) floats.push_back(float_at(packed, at));
  }

  /// The values of a small vector of single-precision numbers; nothing for any other tensor.
  static std::optional<std::vector<float>> fractions(const TensorHead& tensor, std::vector<float> stored,
                                                     std::string_view raw) {
    if (tensor.data_type != kFloat || tensor.dims.size() != 1) return std::nullopt;
    const std::int64_t count = tensor.dims.front();
    if (count < 0 || count > static_cast<std::int64_t>(kMaxRank)) return std::nullopt;
    const auto wanted = static_cast<std::size_t>(count);
    if (stored.empty() && raw.size() == wanted * 4) {
      for (std::size_t at = 0; at < raw.size(); at += 4) stored.push_back(float_at(raw, at));
    }
    if (stored.size() != wanted) return std::nullopt;
    return stored;
  }

  static ValueInfo value_info(WireReader message) {
    ValueInfo info;
    while (message.next()) {
      if (message.field() == 1) info.name = message.bytes();
      if (message.field() == 2) type(message.message(), info);
    }
    return info;
  }

  static void type(WireReader message, ValueInfo& info) {
    while (message.next()) {
      if (message.field() != 1) continue;  // a sequence, a map, ...: no tensor
      WireReader tensor = message.message();
      while (tensor.next()) {
        if (tensor.field() == 1) info.data_type = tensor.integer();
        if (tensor.field() == 2) info.dims = shape(tensor.message());
      }
    }
  }

  static std::vector<Dimension> shape(WireReader message) {
    std::vector<Dimension> dims;
    while (message.next()) {
      if (message.field() != 1) continue;
      if (dims.size() == kMaxRank) {
        message.refuse(fmt::format("a tensor of over {} dimensions", kMaxRank));
        break;
      }
      Dimension& dimension = dims.emplace_back();
      WireReader part = message.message();
      while (part.next()) {
        if (part.field() == 1) dimension.size = part.integer();
        if (part.field() == 2) dimension.name = part.bytes();
      }
    }
    return dims;
  }

  bool has_graph_ = false;
  std::size_t tensors_ = 0;
  std::size_t names_ = 0;
};

struct OtherFormat {
  std::string_view start;
  std::string_view what;
  std::string_view remedy;
};

constexpr auto kOtherFormats = std::to_array<OtherFormat>({
    {"version https://git-lfs.github.com/spec/", "this is a Git LFS pointer, not the ONNX file it stands for",
     "run `git lfs pull` in its repository"},
    {"PK\x03\x04", "this is a zip archive (a PyTorch checkpoint?), not ONNX",
     "export the model with torch.onnx.export"},
    {"\x89HDF", "this is an HDF5 file (a Keras model?), not ONNX", "convert the model with tf2onnx"},
    {"\x1f\x8b", "this is gzip-compressed", "decompress it first"},
    {"<!DOCTYPE", "this is a web page, not ONNX", "download the raw file"},
    {"<html", "this is a web page, not ONNX", "download the raw file"},
});

/// What a file that is plainly something else is; nothing where it may be ONNX.
std::optional<Error> other_format(std::string_view bytes, const std::string& file) {
  for (const OtherFormat& format : kOtherFormats) {
    if (!bytes.starts_with(format.start)) continue;
    return Error{ErrorCode::kParse, std::string(format.what), {file, 0, 0}, {std::string(format.remedy)}, {}};
  }
  const std::size_t first = bytes.substr(0, 4096).find_first_not_of(" \t\r\n");
  // A model never starts so: '{' and '[' are tags of groups, which protobuf gave up before ONNX was born.
  if (first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[')) {
    return Error{ErrorCode::kParse,
                 "this is JSON text, not ONNX",
                 {file, 0, 0},
                 {"an ONNX file is binary protobuf, as torch.onnx.export or onnx.save write it"},
                 {}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> element_bytes(std::int64_t data_type) {
  // TensorProto.DataType: 1 float, 2 uint8, 3 int8, 4 uint16, 5 int16, 6 int32, 7 int64, 8 string, 9 bool, 10 float16,
  // 11 double, 12 uint32, 13 uint64, 14 complex64, 15 complex128, 16 bfloat16, 17-20 float8.
  constexpr std::array<std::int64_t, 21> kBytes{0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2, 1, 1, 1, 1};
  if (data_type < 0 || data_type >= static_cast<std::int64_t>(kBytes.size())) return std::nullopt;
  const std::int64_t size = kBytes[static_cast<std::size_t>(data_type)];
  return size == 0 ? std::nullopt : std::optional(size);
}

bool is_floating(std::int64_t data_type) {
  return data_type == kFloat || data_type == 10 || data_type == 11 || (data_type >= 16 && data_type <= 20);
}

const Attribute* GraphNode::find(std::string_view attribute) const {
  const auto found =
      std::find_if(attributes.begin(), attributes.end(), [&](const Attribute& a) { return a.name == attribute; });
  return found == attributes.end() ? nullptr : &*found;
}

Expected<Graph> read_graph(std::string_view bytes, const std::string& file) {
  if (auto other = other_format(bytes, file)) return tl::unexpected<Error>(std::move(*other));
  Graph graph;
  WireFault fault;
  GraphReader reader;
  reader.model(WireReader(bytes, fault), graph);
  if (fault.found()) {
    return fail(ErrorCode::kParse, fmt::format("at byte {}: {}", fault.offset, fault.message), {file, 0, 0},
                {"the file is cut short, damaged, too large or not ONNX"});
  }
  if (!reader.has_graph()) {
    return fail(ErrorCode::kParse, "no graph in the file", {file, 0, 0}, {"is it an ONNX model (a ModelProto)?"});
  }
  if (graph.nodes.empty()) return fail(ErrorCode::kParse, "the graph has no nodes", {file, 0, 0});
  return graph;
}

std::string printable(std::string_view name) {
  std::string text(name.substr(0, 100));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7E) c = '_';
  }
  return text;
}

std::string shown_file(const std::filesystem::path& path) {
  return path.parent_path() == "/proc/self/fd" ? "standard input" : printable(path.filename().string());
}

std::string describe(const GraphNode& node) {
  const bool by_output = node.name.empty() && !node.outputs.empty();
  return fmt::format("node '{}' ({})", printable(by_output ? node.outputs.front() : node.name), printable(node.op));
}

}  // namespace ddlsim::importers::onnx
