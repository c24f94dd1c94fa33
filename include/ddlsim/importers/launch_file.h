// Turns what training frameworks are started with into a scenario file (`path: value`, as `ddlsim list settings`).
//
//   megatron    Megatron-LM: a shell script or a text of arguments; the `name ..... value` list it prints at its start;
//               YAML with its names or Megatron-Core's (--yaml-cfg, Megatron-Bridge, NeMo)
//   deepspeed   DeepSpeed's JSON
//   torchtitan  torchtitan's TOML
//   accelerate  Hugging Face accelerate's YAML: FSDP 1 and 2, DeepSpeed
//
// Every key has one of four fates, and none is passed over in silence:
//   taken       a setting, with the file's own words beside it as a comment
//   asked for   the file says that it matters but not what it is ("auto", a variable nobody sets, no node): written
//               as `?`, which no command accepts until somebody states it (--set here or there)
//   left out    it changes a step's time and has no setting: named, with its place and the reason
//   passed by   paths, logging, learning rates and their like: counted
// Framework defaults that differ from ours are written out (Megatron overlaps no gradients unless told to), and what
// its code runs as is taken from its published runs (importers/training_way.h): fused kernels, attention's, formats.
//
// A shell script is read, never run: assignments, arrays, `+=`, $NAME, ${NAME:-default}, $((arithmetic)), `if` and
// `case` on what can be decided, text for a further shell (bash -c '... $NAME ...'), comments and continued lines are
// understood, and $SLURM_NNODES and its like where "#SBATCH" lines say them; what a command would print, loops and
// undecided conditions leave their variables unknown, and an unknown value is asked for (--define NAME=VALUE). Words
// behind a switch that are not known are more options, and left out with their place. ${...} of YAML is followed to
// keys of the same file and to --define; a class that a model is made of (_target_) has defaults that are not read.
// Megatron's arguments describe the model as well: it is written in models/ form, with its blocks counted as
// Megatron-Core builds them (fused QKV and gate, padded vocabulary).
//
// Sources: megatron/training/arguments.py of github.com/NVIDIA/Megatron-LM (names and defaults); deepspeed.ai/docs/
// config-json; torchtitan/config/job_config.py; huggingface.co/docs/accelerate (fsdp, deepspeed) and accelerate/
// parallelism_config.py; megatron/core/transformer/transformer_config.py; megatron/bridge/training/mixed_precision.py
// and models/gpt_provider.py of github.com/NVIDIA-NeMo/Megatron-Bridge.
// Limits: no hybrid (Mamba) or encoder-decoder Megatron models; FSDP wrapping is taken per block.
// Example: `--tensor-model-parallel-size 8 --micro-batch-size 2` becomes {parallel.tensor, 8}, {batch, 2}.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddlsim/io/model_writer.h"
#include "ddlsim/support/choices.h"
#include "ddlsim/support/error.h"

namespace ddlsim::importers {

enum class LaunchFormat { kMegatron, kDeepSpeed, kTorchtitan, kAccelerate };

inline constexpr Choices<LaunchFormat, 4> kLaunchFormats{{
    {"megatron", LaunchFormat::kMegatron},
    {"deepspeed", LaunchFormat::kDeepSpeed},
    {"torchtitan", LaunchFormat::kTorchtitan},
    {"accelerate", LaunchFormat::kAccelerate},
}};

struct LaunchOptions {
  std::string model_id{};         // of the model that the arguments describe
  std::int64_t gpus_of_node = 0;  // of the server that is stated; 0: none is, or nobody looked
  std::int64_t vocabulary = 0;    // of a tokenizer that Megatron's arguments only name; 0: not stated
  std::vector<std::pair<std::string, std::string>> stated{};     // settings (--set), which win over the file's
  std::vector<std::pair<std::string, std::string>> variables{};  // of a shell script (--define)
};

struct LaunchSetting {
  std::string path;
  std::string value;   // "?": asked for
  std::string reason;  // the file's words, with their line; or why it is asked for
};

struct LaunchImport {
  std::vector<LaunchSetting> settings;  // sorted by path, no path twice
  std::vector<std::string> left_out;    // "train.sh:12:3: --foo 3: why"
  std::int64_t passed_by = 0;
  std::optional<io::ModelDescription> model;  // of Megatron's arguments, when they describe one whole
};

/// Errors: kIo, kParse and kInvalidArgument with file:line:column, all faults at once; kUnsupported for what cannot be
/// expressed and would change the model.
[[nodiscard]] Expected<LaunchImport> import_launch(LaunchFormat format, const std::filesystem::path& path,
                                                   const LaunchOptions& options);

/// As import_launch, of a text; `file` is the name used in errors.
[[nodiscard]] Expected<LaunchImport> parse_launch(LaunchFormat format, std::string_view text, const std::string& file,
                                                  const LaunchOptions& options);

/// The scenario file: settings as nested YAML, each with its reason as a comment. `model`: the file its model is in,
/// when it has one.
[[nodiscard]] std::string write_scenario(const LaunchImport& launch, const std::string& title,
                                         const std::string& model);

}  // namespace ddlsim::importers
