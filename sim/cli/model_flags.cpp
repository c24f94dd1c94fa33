#include "model_flags.h"

#include <fmt/core.h>

#include <filesystem>

#include "describe.h"
#include "output.h"
#include "program.h"

namespace ddlsim::cli {

void add_model_flags(CLI::App& app, ModelFlags& flags, const ModelFlagWords& words) {
  app.add_option("-o,--out", flags.out, "write the model here")
      ->type_name("OUT.yaml")
      ->group(kOutputGroup)
      ->default_str("standard output");
  app.add_option("--name", flags.name, "the model's id")->type_name("ID")->default_str(words.name_default);
  app.add_option("--batch", flags.batch, words.batch)
      ->default_str(words.batch_default)
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32))
      ->type_name("N");
}

std::string id_of(const ModelFlags& flags, const std::string& otherwise) {
  if (flags.out.empty()) return flags.name.empty() ? otherwise : flags.name;
  const std::filesystem::path out(flags.out);
  if (out.extension() != ".yaml") throw UsageError{"-o '" + flags.out + "' does not end in .yaml", "as -o mine.yaml"};
  std::string stem = out.stem().string();
  if (flags.name.empty() || flags.name == stem) return stem;
  throw UsageError{fmt::format("--name {} and -o {}", flags.name, flags.out),
                   "a model file is named after its id: leave --name out, or make them the same"};
}

int write_model(const ModelFlags& flags, const io::ModelDescription& description) {
  const auto text = io::write_model(description);
  if (!text) return print(text.error());
  if (flags.out.empty()) return print(*text);
  if (auto written = write_file(flags.out, *text); !written) return print(written.error());
  return kDone;
}

}  // namespace ddlsim::cli
