// Parts that encoders, decoders and towers of more than one length share: each is a run of rows of one width.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "hf_layers.h"

namespace ddlsim::importers::hf {

/// Of heads, windows and lengths that are multiplied before an operator checks them.
inline constexpr Bounds kModest{1, std::int64_t{1} << 16};

/// Layers on [rows, width]; shapes are stated, as two lengths alternate.
class Tower {
 public:
  Tower(Stack& stack, std::int64_t rows, std::int64_t width) : stack_(&stack), rows_(rows), width_(width) {}

  /// A layer on [rows, width].
  void add(const char* word, workload::Op op, std::string name) { on(width_, word, std::move(op), std::move(name)); }
  /// A layer on [rows, in].
  void on(std::int64_t in, const char* word, workload::Op op, std::string name) {
    stack_->add_apart({rows_, in}, word, std::move(op), std::move(name));
  }
  void linear(std::int64_t in, std::int64_t out, std::string name, bool bias = true) {
    on(in, "linear", workload::Linear{.out = out, .bias = bias}, std::move(name));
  }
  void table(std::int64_t size, std::string name) {
    stack_->add_apart({rows_}, "embedding", workload::Embedding{.rows = size, .width = width_, .lookups = rows_},
                      std::move(name));
  }
  /// The residual sum.
  void sum(std::string name) { add("add", workload::Combine{}, std::move(name)); }
  /// Two products with an activation between.
  void mlp(std::int64_t inner, const char* activation) {
    linear(width_, inner, "fc1");
    on(inner, activation, workload::pointwise(activation), "activation");
    linear(inner, width_, "fc2");
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t width() const { return width_; }
  [[nodiscard]] Stack& stack() const { return *stack_; }

 private:
  Stack* stack_;
  std::int64_t rows_;
  std::int64_t width_;
};

/// A parameter that no product reads: `rows` vectors of `width`, looked up once.
inline void add_parameter(Stack& stack, std::int64_t rows, std::int64_t width, std::string name) {
  stack.add_apart({1}, "embedding", workload::Embedding{.rows = rows, .width = width, .lookups = 1}, std::move(name));
}

/// The key of a table of learned positions, and how many it has when the configuration does not say.
struct Positions {
  const char* key;
  std::int64_t usual;
};

/// Tokens of a sample: as asked for, else all of the table's positions; more than it has is a fault.
std::int64_t tokens_of(ConfigReader& config, const Request& request, const Positions& table);

/// relu, gelu, gelu_new, quick_gelu, silu or tanh by the config's name of it; gelu for its other variants. Any other is
/// reported.
const char* activation_of(ConfigReader& config, const char* key, const char* otherwise);

/// Of two stacks, of so many source and target tokens, as yet without layers.
Family family_of_text_pairs(std::int64_t source, std::int64_t target);

/// The size under `hidden_key`; heads that do not divide it are a fault.
std::int64_t divided(ConfigReader& config, const char* hidden_key, const char* heads_key);

}  // namespace ddlsim::importers::hf
