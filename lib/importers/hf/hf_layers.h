// The rules of Hugging Face families: a configuration in, layers out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/io/model_writer.h"
#include "hf_reader.h"

namespace ddlsim::importers::hf {

/// What a rule makes of a configuration.
struct Family {
  std::string task = "language modelling";
  std::string sample = "sequence";
  workload::Shape input_shape{};
  DataSize input_per_sample{};
  std::string input_source;
  std::string rows_name = "sequence";
  std::vector<io::DescribedLayer> layers;
  std::vector<std::string> notes;
};

/// What a rule is asked for.
struct Request {
  std::string model_type;
  std::string head;  // of the class: "ForCausalLM"; empty when the config names none
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> target;
};

/// A language model's input and loss around `stack`.
inline Family family_of_tokens(std::int64_t rows) {
  Family family;
  family.input_shape = {rows};
  family.input_per_sample = bytes(16.0 * static_cast<double>(rows));
  family.input_source = "token ids and labels of 8 B each, as the Trainer of transformers copies them";
  return family;
}

/// Layers in forward order; those on `rows` tokens carry the dimension's name.
class Stack {
 public:
  explicit Stack(std::int64_t rows) : rows_(rows) {}

  /// A layer on what the layer before leaves.
  void add(const char* word, workload::Op op, std::string name) {
    layers_.push_back({word, std::move(op), std::move(name), {}, true});
  }
  /// A layer on [rows, sizes...].
  void add_on(const workload::Shape& sizes, const char* word, workload::Op op, std::string name) {
    workload::Shape in{rows_};
    in.insert(in.end(), sizes.begin(), sizes.end());
    layers_.push_back({word, std::move(op), std::move(name), std::move(in), true});
  }
  /// A layer on a shape that does not grow with the rows.
  void add_apart(workload::Shape in, const char* word, workload::Op op, std::string name) {
    layers_.push_back({word, std::move(op), std::move(name), std::move(in), false});
  }
  void table(std::int64_t size, std::int64_t width, std::string name) {
    add_on({}, "embedding", workload::Embedding{.rows = size, .width = width, .lookups = rows_}, std::move(name));
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::size_t size() const { return layers_.size(); }
  std::vector<io::DescribedLayer> take() { return std::move(layers_); }

 private:
  std::int64_t rows_;
  std::vector<io::DescribedLayer> layers_;
};

/// Tokens of a sample: as asked for, else all positions up to 4096. `learned`: more than the table has is a fault.
std::int64_t sequence_of(ConfigReader& config, const Request& request, const char* positions_key, bool learned);

Family decoder_family(ConfigReader& config, const Request& request);
Family uniform_family(ConfigReader& config, const Request& request);
Family gpt2_family(ConfigReader& config, const Request& request);
Family opt_family(ConfigReader& config, const Request& request);
Family gpt_neox_family(ConfigReader& config, const Request& request);
Family encoder_family(ConfigReader& config, const Request& request);
Family vit_family(ConfigReader& config, const Request& request);
Family bart_family(ConfigReader& config, const Request& request);
Family clip_family(ConfigReader& config, const Request& request);
Family t5_family(ConfigReader& config, const Request& request);
Family whisper_family(ConfigReader& config, const Request& request);
Family wav2vec2_family(ConfigReader& config, const Request& request);
Family convnext_family(ConfigReader& config, const Request& request);
Family swin_family(ConfigReader& config, const Request& request);
Family qwen_hybrid_family(ConfigReader& config, const Request& request);
Family nemotron_h_family(ConfigReader& config, const Request& request);
Family gemma4_family(ConfigReader& config, const Request& request);
Family decilm_family(ConfigReader& config, const Request& request);
/// Families that are known and have a part without an operator: says which.
Family known_but_refused(ConfigReader& config, const Request& request);
Family deepseek_v4_family(ConfigReader& config, const Request& request);

}  // namespace ddlsim::importers::hf
