// ONNX files made by hand: the bytes of the messages of onnx.proto, written field by field.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace ddlsim::test {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7FU) | 0x80U);
  return out + static_cast<char>(value);
}
inline std::string field(unsigned number, const std::string& bytes) {
  return varint(number * 8 + 2) + varint(bytes.size()) + bytes;
}
inline std::string field(unsigned number, std::int64_t value) {
  return varint(number * 8) + varint(static_cast<std::uint64_t>(value));
}

using Sizes = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

inline std::string ints(const std::string& name, const Sizes& values) {
  std::string out = field(1, name);
  for (const std::int64_t value : values) out += field(8, value);
  return out;
}
inline std::string integer(const std::string& name, std::int64_t value) { return field(1, name) + field(3, value); }
inline std::string text(const std::string& name, const std::string& value) { return field(1, name) + field(4, value); }

/// A TensorProto without data: a float tensor.
inline std::string weight(const std::string& name, const Sizes& dims) {
  std::string out;
  for (const std::int64_t size : dims) out += field(1, size);
  return out + field(2, std::int64_t{1}) + field(8, name);
}
/// A TensorProto of int64 values, packed into int64_data.
inline std::string numbers(const std::string& name, const Sizes& values) {
  std::string packed;
  for (const std::int64_t value : values) packed += varint(static_cast<std::uint64_t>(value));
  return field(1, static_cast<std::int64_t>(values.size())) + field(2, std::int64_t{7}) + field(7, packed) +
         field(8, name);
}
/// A TensorProto of floats, packed into float_data.
inline std::string fractions(const std::string& name, const std::vector<float>& values) {
  std::string packed;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (unsigned k = 0; k < 4; ++k) packed += static_cast<char>((bits >> (8U * k)) & 0xFFU);
  }
  return field(1, static_cast<std::int64_t>(values.size())) + field(2, std::int64_t{1}) + field(4, packed) +
         field(8, name);
}
/// An attribute that is a tensor.
inline std::string tensor(const std::string& name, const std::string& value) {
  return field(1, name) + field(5, value);
}
/// A NodeProto; its name is its operator's and its first output's, as "Conv_y".
inline std::string node(const std::string& op, const Names& inputs, const Names& outputs,
                        const Names& attributes = {}) {
  std::string out;
  for (const std::string& input : inputs) out += field(1, input);
  for (const std::string& output : outputs) out += field(2, output);
  out += field(3, op + "_" + (outputs.empty() ? "" : outputs.front())) + field(4, op);
  for (const std::string& attribute : attributes) out += field(5, attribute);
  return out;
}
/// A ValueInfoProto; a size below 0 is the open dimension "d0", "d1", ... of its place.
inline std::string value_info(const std::string& name, const Sizes& dims, std::int64_t type = 1) {
  std::string shape;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    shape += field(1, dims[i] < 0 ? field(2, "d" + std::to_string(i)) : field(1, dims[i]));
  }
  return field(1, name) + field(2, field(1, field(1, type) + field(2, shape)));
}

struct OnnxGraph {
  Names nodes;
  Names initializers;
  Names inputs;
  Names known{};  // value_info
};

inline std::string model_of(const OnnxGraph& graph) {
  std::string body;
  for (const std::string& part : graph.nodes) body += field(1, part);
  body += field(2, "g");
  for (const std::string& part : graph.initializers) body += field(5, part);
  for (const std::string& part : graph.inputs) body += field(11, part);
  for (const std::string& part : graph.known) body += field(13, part);
  return field(1, std::int64_t{8}) + field(2, "ddlsim-test") + field(7, body) + field(8, field(2, std::int64_t{17}));
}

/// A file in the folder for temporary ones, gone with the object.
class OnnxFile {
 public:
  explicit OnnxFile(const std::string& bytes, const std::string& name = "made.onnx")
      : folder_(std::filesystem::temp_directory_path() / ("ddlsim-onnx-" + std::to_string(serial()))) {
    std::filesystem::create_directories(folder_);
    path_ = folder_ / name;
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  OnnxFile(const OnnxFile&) = delete;
  OnnxFile& operator=(const OnnxFile&) = delete;
  ~OnnxFile() {
    std::error_code status;
    std::filesystem::remove_all(folder_, status);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  /// Tests run side by side in processes of their own.
  static std::uint64_t serial() {
    static std::uint64_t count = static_cast<std::uint64_t>(::getpid()) << 20U;
    return ++count;
  }
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

}  // namespace ddlsim::test
