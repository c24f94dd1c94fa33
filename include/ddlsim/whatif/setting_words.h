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

/// The path that a word means, whatever its case, dashes and underscores, leading ones too; nothing: no word for one.
[[nodiscard]] std::optional<std::string_view> setting_of_word(std::string_view word);

/// "did you mean 'parallel.tensor'?": by its words, else the nearest of `paths`.
[[nodiscard]] std::string suggested_setting(std::string_view name, std::span<const std::string> paths);

}  // namespace ddlsim::whatif
