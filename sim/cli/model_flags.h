// What every import that makes a model file takes and does: -o, --name, --batch, the model's id, the file.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "ddlsim/io/model_writer.h"

namespace ddlsim::cli {

struct ModelFlags {
  std::string out;
  std::string name;
  std::int64_t batch = 1;
};

/// What help says where imports differ.
struct ModelFlagWords {
  std::string name_default = "the file's name";
  std::string batch = "samples per GPU and pass";
  std::string batch_default = "1";
};

void add_model_flags(CLI::App& app, ModelFlags& flags, const ModelFlagWords& words = {});

/// The model's id: -o's, else --name, else `otherwise`. Throws where a model file would have another name than its id,
/// which look-up by path refuses.
[[nodiscard]] std::string id_of(const ModelFlags& flags, const std::string& otherwise);

/// Writes the model to -o, or prints it. The status of the program, which is kDone if it may go on.
[[nodiscard]] int write_model(const ModelFlags& flags, const io::ModelDescription& description);

}  // namespace ddlsim::cli
