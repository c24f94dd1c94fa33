// Chakra execution traces, in and out: a step as a graph of compute, memory and communication nodes (mlcommons/chakra,
// which ASTRA-sim and SimAI replay).
//
// A file is messages of Protocol Buffers, each behind its length: GlobalMetadata, then Nodes; or JSON,
// {"workload_graph": [{Id, Name, NodeType, ctrlDeps, data_deps, runtime, ...}]}. Either may be packed with gzip.
//   GlobalMetadata {version = 1, attr = 2}
//   Node {id = 1, name = 2, type = 3, ctrl_deps = 4, data_deps = 5, start_time_micros = 6, duration_micros = 7,
//         attr = 10}, its attributes is_cpu_op, comm_type, comm_size (bytes), comm_src, comm_dst, num_ops, tensor_size
//   AttributeProto {name = 1, one of int32 7, int64 9, uint32 11, uint64 13, bool 27, string 29, ...}
// Source: schema/protobuf/et_def.proto of github.com/mlcommons/chakra. Any integer arm of an attribute is read: writers
// differ. Durations are whole microseconds, the format's unit.
// The graph is put in an order in which dependencies come first, of those ready the lowest id (Kahn, no recursion).
// Where control dependencies and data dependencies together are a circle (PyTorch's converter writes callers as the
// former), data alone decides. Dependencies on nodes that the file leaves out are dropped and counted, as converters
// cut traces.
//
// Limits: 2 million nodes, 20 million dependencies; tensors and storages are not read.
// Example: the node {id: 1, name: "all_reduce", type: 7, comm_type: 0, comm_size: 1048576} is a 1 MiB all-reduce.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/hardware/gpu.h"
#include "ddlsim/importers/kineto_file.h"
#include "ddlsim/io/model_writer.h"
#include "ddlsim/primitives/collective_op.h"
#include "ddlsim/support/error.h"
#include "ddlsim/support/units.h"

namespace ddlsim::importers {

/// The numbers are the format's.
enum class ChakraType : std::uint8_t {
  kMetadata = 1,
  kMemoryLoad = 2,
  kMemoryStore = 3,
  kCompute = 4,
  kSend = 5,
  kReceive = 6,
  kCollective = 7
};

inline constexpr Choices<ChakraType, 7> kChakraTypes{{
    {"METADATA_NODE", ChakraType::kMetadata},
    {"MEM_LOAD_NODE", ChakraType::kMemoryLoad},
    {"MEM_STORE_NODE", ChakraType::kMemoryStore},
    {"COMP_NODE", ChakraType::kCompute},
    {"COMM_SEND_NODE", ChakraType::kSend},
    {"COMM_RECV_NODE", ChakraType::kReceive},
    {"COMM_COLL_NODE", ChakraType::kCollective},
}};

struct ChakraNode {
  std::int64_t id = 0;
  std::string name;
  ChakraType type = ChakraType::kCompute;
  std::vector<std::int64_t> control;  // ids of nodes that come before it; in PyTorch's traces, its caller
  std::vector<std::int64_t> data;     // ids of nodes whose output it reads
  std::optional<Time> duration;
  bool on_cpu = false;
  std::optional<primitives::CollectiveOp> collective;
  DataSize sent{};    // comm_size
  Work work{};        // num_ops, where there is no duration
  DataSize tensor{};  // tensor_size, likewise

  friend bool operator==(const ChakraNode&, const ChakraNode&) = default;
};

struct ChakraTrace {
  std::string version;  // of the schema
  std::vector<ChakraNode> nodes;
  std::int64_t dangling = 0;  // dependencies on nodes that are not there

  friend bool operator==(const ChakraTrace&, const ChakraTrace&) = default;
};

/// Errors: kIo, kParse (with the byte), kInvalidArgument for two nodes of one id or a cycle of dependencies.
/// The nodes are in the order described above.
[[nodiscard]] Expected<ChakraTrace> read_chakra(const std::filesystem::path& path);

/// The bytes of a file that `read_chakra` reads back.
[[nodiscard]] std::string write_chakra(const ChakraTrace& trace);

/// The model file of a trace, its GPU nodes as operators `measured`. Nodes called from autograd's, or from
/// an operator with "backward" in its name, are backward. An all-reduce after backward began, or of a trace without
/// durations, is a gradient message; other collectives keep their time.
/// A compute node without a duration takes what `gpu` needs at its peak.
/// Errors: kUnsupported for communication that has neither duration nor model, naming the node.
[[nodiscard]] Expected<io::ModelDescription> describe(const ChakraTrace& trace, const hardware::Gpu& gpu,
                                                      const MeasuredModelOptions& options);

}  // namespace ddlsim::importers
