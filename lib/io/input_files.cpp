#include "ddlsim/io/input_files.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/hardware/node.h"

namespace ddlsim::io {
namespace {

constexpr Dimension kPerTime{.time = -1};
constexpr Dimension kBytesPerTime = dimension::kData - dimension::kTime;
constexpr std::int64_t kMostSamples = std::int64_t{1} << 48;
constexpr Choices<bool, 2> kSharedOrNot{{{"yes", true}, {"no", false}}};

/// A plain number of a file, from `least` to `most`.
double plain_number(MapReader& reader, std::string_view key, double least, double most) {
  const Node* node = reader.require(key);
  if (node == nullptr || !reader.is_scalar(*node)) return least;
  const auto value = reader.accept(parse_number(node->text), *node);
  if (!value) return least;
  if (*value < least || *value > most) {
    reader.report(*node, ErrorCode::kInvalidArgument,
                  fmt::format("{} is {}, not between {} and {}", key, *value, least, most));
    return least;
  }
  return *value;
}

/// The lines of a file, each value exact to the last bit.
class FileText {
 public:
  void line(std::string_view key, const std::string& value) { text_ += fmt::format("{}: {}\n", key, value); }
  void text(std::string_view key, std::string_view value) { line(key, quoted(value)); }
  void size(std::string_view key, DataSize value) { line(key, fmt::format("{} B", value.in(bytes))); }
  void rate(std::string_view key, Bandwidth value) { line(key, fmt::format("{} B/s", value.in(bytes_per_second))); }
  void time(std::string_view key, Time value) { line(key, fmt::format("{} s", value.in(seconds))); }
  void sources(const Sources& sources, const std::string& notes) {
    text_ += "sources:\n";
    for (const Source& source : sources) text_ += fmt::format("  {}: {}\n", source.key, quoted(source.text));
    if (!notes.empty()) text("notes", notes);
  }
  std::string take() { return std::move(text_); }

 private:
  /// Between double quotes no character means anything to YAML.
  static std::string quoted(std::string_view value) {
    std::string out = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') out += '\\';
      out += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return out + '"';
  }

  std::string text_;
};

}  // namespace

Expected<hardware::Storage> read_storage(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a storage file", errors);
  hardware::Storage storage;
  storage.id = reader.text("storage");
  storage.name = reader.text("name");
  storage.bandwidth = reader.quantity<kBytesPerTime>("bandwidth");
  storage.stream = reader.optional_quantity<kBytesPerTime>("stream");
  storage.iops = reader.optional_quantity<kPerTime>("iops");
  storage.request = reader.quantity<dimension::kData>("request");
  storage.latency = reader.quantity<dimension::kTime>("latency", Range::kNonNegative);
  storage.capacity = reader.optional_quantity<dimension::kData>("capacity");
  storage.shared = reader.choice("shared", kSharedOrNot);
  // Files of before there was the key: what servers share, they reach over their ports.
  storage.attached = storage.shared ? hardware::Attachment::kNetwork : hardware::Attachment::kServer;
  if (const Node* attached = reader.find("attached")) {
    storage.attached = reader.choice("attached", hardware::kAttachments);
    if (storage.shared && storage.attached == hardware::Attachment::kServer) {
      reader.report(*attached, ErrorCode::kInvalidArgument, "a disk in each server, which all servers share",
                    {"attached: network, or shared: no"});
    }
  }
  storage.sources =
      reader.sources({"bandwidth", "stream", "iops", "request", "latency", "capacity", "shared", "attached"});
  storage.notes = reader.text_or("notes", {});
  return reader.whole(std::move(storage));
}

Expected<hardware::Cpu> read_cpu(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a cpu file", errors);
  hardware::Cpu cpu;
  cpu.id = reader.text("cpu");
  cpu.name = reader.text("name");
  cpu.cores = reader.count("cores", {1, 4096});
  cpu.threads_per_core = reader.count("threads_per_core", {1, 8});
  cpu.clock = reader.quantity<kPerTime>("clock");
  cpu.decode_speed = plain_number(reader, "decode_speed", 0.001, 1000);
  cpu.second_thread = plain_number(reader, "second_thread", 0, 1);
  cpu.hand_over = reader.optional_quantity<kBytesPerTime>("hand_over");
  cpu.receive = reader.optional_quantity<kBytesPerTime>("receive");
  cpu.memory_bandwidth = reader.optional_quantity<kBytesPerTime>("memory_bandwidth");
  cpu.sources = reader.sources({"cores", "threads_per_core", "clock", "decode_speed", "second_thread", "hand_over",
                                "receive", "memory_bandwidth"});
  cpu.notes = reader.text_or("notes", {});
  return reader.whole(std::move(cpu));
}

Expected<hardware::FailureRates> read_failures(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a file of failure rates", errors);
  hardware::FailureRates rates;
  rates.id = reader.text("failures");
  rates.name = reader.text("name");
  rates.gpu = reader.optional_quantity<dimension::kTime>("mtbf_gpu");
  rates.node = reader.optional_quantity<dimension::kTime>("mtbf_node");
  rates.network = reader.optional_quantity<dimension::kTime>("mtbf_switch");
  rates.nodes_per_switch = reader.count_or("nodes_per_switch", 1, {1, hardware::kMaxNodes});
  rates.sources = reader.sources({"mtbf_gpu", "mtbf_node", "mtbf_switch", "nodes_per_switch"});
  rates.notes = reader.text_or("notes", {});
  if (!rates.gpu && !rates.node && !rates.network && errors.empty()) {
    reader.report(document, ErrorCode::kInvalidArgument, "a file of failure rates without a rate",
                  {"state mtbf_gpu, mtbf_node or mtbf_switch: 80000 h"});
  }
  return reader.whole(std::move(rates));
}

Expected<workload::Dataset> read_dataset(const Node& document) {
  std::vector<Error> errors;
  MapReader reader(document, "a dataset file", errors);
  workload::Dataset dataset;
  dataset.id = reader.text("dataset");
  dataset.name = reader.text("name");
  dataset.sample = reader.text("sample");
  dataset.samples = reader.count("samples", {1, kMostSamples});
  dataset.samples_per_file = reader.count_or("samples_per_file", 1, {1, kMostSamples});
  dataset.tokens = reader.count_or("tokens", 0, {1, kMostSamples});
  dataset.stored = reader.quantity<dimension::kData>("stored");
  dataset.decoded = reader.quantity<dimension::kData>("decoded");
  dataset.decode = reader.quantity<dimension::kTime>("decode", Range::kNonNegative);
  dataset.augment = reader.quantity<dimension::kTime>("augment", Range::kNonNegative);
  dataset.variation = plain_number(reader, "variation", 0, 100);
  dataset.sources =
      reader.sources({"samples", "samples_per_file", "tokens", "stored", "decoded", "decode", "augment", "variation"});
  dataset.notes = reader.text_or("notes", {});
  return reader.whole(std::move(dataset));
}

HostFile read_host(const Node& map, std::vector<Error>& errors) {
  MapReader reader(map, "host", errors);
  HostFile file;
  file.where = map.where;
  file.cpu_id = reader.text("cpu");
  file.sockets = reader.count("sockets", {1, 64});
  file.host.threads = reader.count("threads", {1, 1 << 16});
  file.host.memory = reader.quantity<dimension::kData>("memory");
  file.storage_id = reader.text_or("storage", {});
  file.storage_bandwidth = reader.optional_quantity<kBytesPerTime>("storage_bandwidth");
  file.host.volume_bandwidth = reader.optional_quantity<kBytesPerTime>("volume_bandwidth");
  if (file.storage_bandwidth && file.storage_id.empty()) {
    reader.report(map, ErrorCode::kInvalidArgument, "storage_bandwidth without storage",
                  {"name what is read: storage: ebs-gp2"});
  }
  reader.finish();
  return file;
}

std::string to_yaml(const hardware::Storage& storage) {
  FileText file;
  file.text("storage", storage.id);
  file.text("name", storage.name);
  file.rate("bandwidth", storage.bandwidth);
  if (storage.stream) file.rate("stream", *storage.stream);
  if (storage.iops) file.line("iops", fmt::format("{} IOPS", storage.iops->in(per_second)));
  file.size("request", storage.request);
  file.time("latency", storage.latency);
  if (storage.capacity) file.size("capacity", *storage.capacity);
  file.line("shared", storage.shared ? "yes" : "no");
  file.line("attached", std::string(name_of(hardware::kAttachments, storage.attached)));
  file.sources(storage.sources, storage.notes);
  return file.take();
}

std::string to_yaml(const hardware::Cpu& cpu) {
  FileText file;
  file.text("cpu", cpu.id);
  file.text("name", cpu.name);
  file.line("cores", fmt::format("{}", cpu.cores));
  file.line("threads_per_core", fmt::format("{}", cpu.threads_per_core));
  file.line("clock", fmt::format("{} 1/s", cpu.clock.in(per_second)));
  file.line("decode_speed", fmt::format("{}", cpu.decode_speed));
  file.line("second_thread", fmt::format("{}", cpu.second_thread));
  if (cpu.hand_over) file.rate("hand_over", *cpu.hand_over);
  if (cpu.receive) file.rate("receive", *cpu.receive);
  if (cpu.memory_bandwidth) file.rate("memory_bandwidth", *cpu.memory_bandwidth);
  file.sources(cpu.sources, cpu.notes);
  return file.take();
}

std::string to_yaml(const workload::Dataset& dataset) {
  FileText file;
  file.text("dataset", dataset.id);
  file.text("name", dataset.name);
  file.text("sample", dataset.sample);
  file.line("samples", fmt::format("{}", dataset.samples));
  if (dataset.samples_per_file > 1) file.line("samples_per_file", fmt::format("{}", dataset.samples_per_file));
  if (dataset.tokens > 0) file.line("tokens", fmt::format("{}", dataset.tokens));
  file.size("stored", dataset.stored);
  file.size("decoded", dataset.decoded);
  file.time("decode", dataset.decode);
  file.time("augment", dataset.augment);
  file.line("variation", fmt::format("{}", dataset.variation));
  file.sources(dataset.sources, dataset.notes);
  return file.take();
}

}  // namespace ddlsim::io
