// Words for a setting: the commands' flags, which files, requests and Python take as well, and what frameworks and
// people have for it: hints where a name is not known, never read as settings.
//
// Example: "tp" is parallel.tensor; "--tensor-parallel-size" and "tensor_model_parallel_size" mean it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ddlsim::whatif {

/// The path of a flag that is called otherwise than its setting, by its name with underscores: parallel.tensor of "tp",
/// measured.runs of "measured". Nothing: there is none.
[[nodiscard]] std::optional<std::string_view> setting_of_flag(std::string_view name);

/// The path of a setting in `parallel` by its flag's name: parallel.pipeline of "parallel.pp", and of what is stated
/// beside the degrees "batch" of "parallel.micro_batch", "global_batch" of "parallel.global_batch"; in other_jobs
/// likewise. Any other path as it is.
[[nodiscard]] std::string setting_at(std::string path);

/// What a setting is called in `parallel` besides (setting_at): "parallel.tp" of parallel.tensor,
/// "parallel.micro_batch" of batch; empty: nothing else.
[[nodiscard]] std::string also_in_parallel(std::string_view path);

/// The path that a word means, whatever its case, dashes and underscores, leading ones too; nothing: no word for one.
[[nodiscard]] std::optional<std::string_view> setting_of_word(std::string_view word);

/// "did you mean 'parallel.tensor'?": by its words, else the nearest of `paths`.
[[nodiscard]] std::string suggested_setting(std::string_view name, std::span<const std::string> paths);

}  // namespace ddlsim::whatif
