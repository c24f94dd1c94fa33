// What the readers of launch files share: a list of settings that remembers where each came from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/importers/launch_file.h"
#include "ddlsim/io/yaml.h"
#include "ddlsim/support/error.h"

namespace ddlsim::importers::launch {

/// What changes a step's time and has no setting.
struct Unmodelled {
  std::string_view name;
  std::string_view why;
};

inline constexpr std::string_view kAsked = "?";
/// Largest degree, batch or size a launch file may state.
inline constexpr std::int64_t kLargest = std::int64_t{1} << 32;

/// Printable ASCII of at most 80 characters.
std::string shown(std::string_view text);

class Builder {
 public:
  explicit Builder(const LaunchOptions& options);

  /// A setting; `words` are the file's.
  void set(std::string path, std::string value, const std::string& words, const SourceLocation& where);
  void set(std::string path, std::int64_t value, const std::string& words, const SourceLocation& where) {
    set(std::move(path), std::to_string(value), words, where);
  }
  /// A setting that the framework has without being told.
  void assume(std::string path, std::string value, const std::string& why);
  /// A setting that somebody has to state. `why` begins with what the file says, if anything.
  void ask(std::string path, const std::string& why, const SourceLocation& where = {});
  void leave_out(const std::string& words, const std::string& why, const SourceLocation& where);
  void pass_by() { ++result_.passed_by; }
  void fault(std::string message, const SourceLocation& where, std::vector<std::string> notes = {},
             ErrorCode code = ErrorCode::kInvalidArgument);

  [[nodiscard]] bool has(std::string_view path) const;
  /// Empty when it has none.
  [[nodiscard]] std::string value_of(std::string_view path) const;
  /// The value of a setting, 0 when it has none or it is asked for.
  [[nodiscard]] std::int64_t count_of(std::string_view path) const;
  /// Of one gradient, by the formats that are set.
  [[nodiscard]] std::int64_t bytes_of_gradients() const;
  /// GPUs of a server, of all servers; 0: not known.
  [[nodiscard]] std::int64_t gpus_per_node() const;
  [[nodiscard]] std::int64_t gpus() const { return count_of("nodes") * gpus_per_node(); }
  [[nodiscard]] bool failed() const { return !errors_.empty(); }
  [[nodiscard]] LaunchImport& result() { return result_; }
  /// Asks for what a prediction needs and no launch file says, and puts the settings in order.
  Expected<LaunchImport> finish();

 private:
  LaunchSetting* find(std::string_view path);
  [[nodiscard]] const LaunchSetting* find(std::string_view path) const;

  LaunchImport result_;
  std::vector<Error> errors_;
  std::vector<std::string> stated_;
  std::int64_t gpus_of_node_ = 0;
};

/// "no rule here", with the name among those asked for that `name` may be a slip of.
[[nodiscard]] std::string no_rule(const std::string& name, std::span<const std::string> asked);

/// Values of a document by path ("zero_optimization.stage"), each looked at once; the rest is for `rest`.
class Tree {
 public:
  Tree(const io::Node& root, Builder& out) : root_(root), out_(out) {}

  struct Found {
    const io::Node* node = nullptr;
    std::string words;  // "zero_optimization.stage = 3"
    explicit operator bool() const { return node != nullptr; }
    [[nodiscard]] const SourceLocation& where() const { return node->where; }
  };
  /// Nothing when it is missing or null. Marks it as read.
  Found find(std::string_view path);
  /// Whether the document has this key on its first level; not marked as read.
  [[nodiscard]] bool has(std::string_view key) const;
  /// The first of several names for one thing.
  Found find_first(const std::vector<std::string>& paths);

  /// A whole number from `least`; "auto" and other words for not saying are no number: see is_auto.
  std::optional<std::int64_t> count(const Found& found, std::int64_t least = 1);
  std::optional<bool> flag(const Found& found);
  /// A scalar's text in lower case; empty when missing.
  std::string word(const Found& found);
  [[nodiscard]] static bool is_auto(const Found& found);

  /// Calls `visit(path, node)` for every scalar and list that nobody looked at.
  template <typename Visit>
  void rest(Visit visit) const {
    walk(root_, "", visit);
  }
  /// Everything under `path` has been dealt with.
  void close(std::string path) { closed_.push_back(std::move(path)); }
  /// Why a path that nobody asked for is left out: a slip of one that somebody did, or nothing known.
  [[nodiscard]] std::string no_rule(const std::string& path) const { return launch::no_rule(path, asked_); }

 private:
  template <typename Visit>
  void walk(const io::Node& node, const std::string& path, Visit& visit) const {
    for (const std::string& closed : closed_) {
      if (path == closed || (path.size() > closed.size() && path.starts_with(closed) && path[closed.size()] == '.')) {
        return;
      }
    }
    if (node.kind == io::NodeKind::kMap) {
      for (const io::Entry& entry : node.entries) {
        walk(entry.value, path.empty() ? entry.key : path + "." + entry.key, visit);
      }
    } else {
      visit(path, node);
    }
  }

  const io::Node& root_;
  Builder& out_;
  std::vector<std::string> closed_;
  std::vector<std::string> asked_;
};

Expected<LaunchImport> megatron(std::string_view text, const std::string& file, const LaunchOptions& options);
Expected<LaunchImport> deepspeed(std::string_view text, const std::string& file, const LaunchOptions& options);
Expected<LaunchImport> torchtitan(std::string_view text, const std::string& file, const LaunchOptions& options);
Expected<LaunchImport> accelerate(std::string_view text, const std::string& file, const LaunchOptions& options);

/// What a framework's code runs as where no launch file says it (importers/training_way.h): fused kernels, attention's.
/// `framework`: its name in lower case.
void assume_software(std::string_view framework, Builder& out);

/// What DeepSpeed's engine is told.
struct DeepSpeedEngine {
  std::optional<std::int64_t> stage = 0;  // of ZeRO; nothing: not known
  std::optional<bool> overlapped = {};    // overlap_comm
  bool wide = false;                      // data_types.grad_accum_dtype = fp32
  bool piped = false;                     // its PipelineEngine runs the model
};
/// Formats of states and when gradients are reduced, by the format that is set and the stage.
void assume_deepspeed(const DeepSpeedEngine& engine, Builder& out);

/// DeepSpeed's offload_param, which stage 3 has alone: `device` is cpu or nvme. After stage and optimizer are set.
void offload_weights(const std::string& device, const std::string& words, const SourceLocation& where, Builder& out);

/// DeepSpeed's keys of `root`, which may be a part of another file (`deepspeed_config`).
void read_deepspeed(const io::Node& root, Builder& out);

}  // namespace ddlsim::importers::launch
