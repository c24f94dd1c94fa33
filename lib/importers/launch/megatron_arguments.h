// Megatron-LM's arguments, whichever way they are written down.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/importers/launch_file.h"
#include "launch.h"

namespace ddlsim::importers::launch {

/// "tensor_model_parallel_size" as an option has it.
std::string dashed(std::string_view name);
/// Whether an option tells a Megatron command from another one.
bool is_sign(std::string_view option);
/// The words of Python and YAML for nothing.
bool is_none(std::string_view text);

/// An option by its long name with '-': "tensor-model-parallel-size".
struct Argument {
  std::string name;
  std::vector<std::string> values;
  SourceLocation where;
  bool loose = false;    // the values are words behind the name: of a switch they are something else
  bool flagged = false;  // read as a switch
  bool settled = false;  // somebody saw that its value is not known
  bool read = false;

  /// "--num-layers 32"
  [[nodiscard]] std::string words() const;
};

class Arguments {
 public:
  explicit Arguments(Builder& out) : out_(&out) {}

  void add(Argument argument);  // of two with one name the later counts, as in argparse
  void add_unknown(Argument argument) { unknown_.push_back(std::move(argument)); }

  void add_null(std::string name) { nulls_.push_back(std::move(name)); }

  /// The option, marked as read; null when it is missing, or None.
  const Argument* find(std::string_view name);
  const Argument* find_first(std::initializer_list<std::string_view> names);
  [[nodiscard]] bool has(std::string_view name) { return find(name) != nullptr; }
  /// Whether the file names it, be it as null.
  bool states(std::string_view name);
  /// A switch: present without a value, or with one that says yes. Words behind it that are not known are more options;
  /// off where its own value is not known, which report_rest says unless is_unknown told the caller.
  bool flag(std::string_view name);
  /// Of a switch: see flag.
  void loosen(std::string_view name);
  /// The one value of an option as a whole number; a fault is noted. Nothing when it is missing or not known.
  std::optional<std::int64_t> count(std::string_view name, std::int64_t least = 1);
  std::optional<std::int64_t> count(const Argument& argument, std::int64_t least = 1);
  /// The one value in lower case; empty when missing or not known.
  std::string word(std::string_view name);
  /// Whether the option is there but its value is not known.
  bool is_unknown(std::string_view name);

  [[nodiscard]] const std::vector<Argument>& all() const { return arguments_; }
  [[nodiscard]] const std::vector<Argument>& unknown() const { return unknown_; }
  [[nodiscard]] Builder& out() { return *out_; }
  /// What was looked for.
  [[nodiscard]] const std::vector<std::string>& asked() const { return asked_; }

 private:
  Argument* look(std::string_view name);

  Builder* out_;
  std::vector<Argument> arguments_;
  std::vector<std::string> asked_;
  std::vector<std::string> nulls_;
  std::vector<Argument> unknown_;  // words that are not known and may be any option
};

/// Reads a script, a text of arguments, the list Megatron prints, or YAML, whichever it is.
Expected<Arguments> read_arguments(std::string_view text, const std::string& file, const LaunchOptions& options,
                                   Builder& out);

/// Every scalar of a document as the option it stands for: see megatron_yaml.cpp.
void read_yaml(const io::Node& root, const LaunchOptions& options, Arguments& arguments, Builder& out);

/// The variables that Slurm sets for what "#SBATCH --nodes=4" and its like ask for.
std::vector<std::pair<std::string, std::string>> slurm_variables(std::string_view text);

/// Servers and GPUs of "#SBATCH --nodes=4" and its like, which a shell takes for a comment. `launched`: a task starts
/// the processes of a server (torchrun), it is not one of them.
void read_sbatch(std::string_view text, const std::string& file, bool launched, Builder& out);

/// Takes from `arguments` what describes the model; asks for what is missing of it. Sets `out.result().model`.
void read_megatron_model(Arguments& arguments, const LaunchOptions& options, Builder& out);

/// Blocks that Megatron deals to stages: embedding and loss count as one each where the arguments say so. Nothing where
/// the number is not known.
std::optional<std::int64_t> counted_layers(Arguments& arguments);

/// The parts of a pipeline that --pipeline-model-parallel-layout lists, each by its letters ("Ettt", "tt", "m", "L"):
/// E embedding, t block, m multi-token prediction, L loss; "t*3" and "(tt|)*29" repeat (Megatron-LM, docs on custom
/// pipeline layouts). Nothing where it is not said, or is none.
std::optional<std::vector<std::string>> layout_parts(Arguments& arguments);

/// Whether attention is one kernel: FlashAttention's or Transformer Engine's.
bool attends_in_one(Arguments& arguments);

/// Whether head and embedding are one table.
bool ties_embeddings(Arguments& arguments);

/// Where the blocks of a model stand in its list of layers.
struct BlockStarts {
  std::span<const std::size_t> first;  // layer of each block
  std::size_t after = 0;               // the layer behind the last block
  std::size_t layers = 0;              // of the model
};
/// Sets the layers of each part of the pipeline: as many blocks in every stage, or as the arguments say.
void add_megatron_stages(Arguments& arguments, const BlockStarts& blocks, Builder& out);

/// Whether DeepSpeed's engine runs the model (Megatron-DeepSpeed).
bool runs_deepspeed(Arguments& arguments);

/// What replicas share out, as a stage of ZeRO, and whether gradients are reduced beside backward.
int read_megatron_sharding(Arguments& arguments, Builder& out);

/// Formats of products, weights, gradients and states. Whether products are of 8 bits.
bool read_megatron_precision(Arguments& arguments, Builder& out);

/// How many ranks share states where they have several copies of them: after degrees, servers and GPUs are set.
void read_megatron_copies(Arguments& arguments, Builder& out);

/// How tokens reach their experts, and how many of them one takes.
void read_megatron_experts(Arguments& arguments, Builder& out);

/// Which of the model's blocks have experts, by --moe-layer-freq; empty where it is not known.
std::vector<bool> blocks_of_experts(Arguments& arguments, std::int64_t layers, Builder& out);

/// Notes what nobody has looked at: what changes nothing, what is not modelled, what has no rule.
void report_rest(Arguments& arguments, Builder& out);

}  // namespace ddlsim::importers::launch
