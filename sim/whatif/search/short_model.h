// A model with fewer of its blocks, for what follows from a layer and its neighbours alone. Private to the room.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "ddlsim/whatif/scenario.h"
#include "ddlsim/workload/model.h"

namespace ddlsim::whatif {

/// A model that stands for one with more of the same blocks: prices of a layer depend on its shape and neighbours
/// alone.
struct ShortModel {
  /// The layers before one of the whole model: those before `layer` here, and the middle block of every run up to `run`
  /// so many times more.
  struct Place {
    std::size_t layer = 0;
    std::size_t run = 0;
    double repeats = 0;
  };
  /// A block that stands for several: `times` more than here.
  struct Repeated {
    std::size_t first = 0;  // layer
    std::size_t end = 0;
    double times = 0;
  };

  std::shared_ptr<const workload::Model> model;
  std::shared_ptr<const std::vector<double>> stands_for;  // of each layer here: how many of the whole model
  std::vector<std::size_t> source;                        // of each layer of the whole model: its like here
  std::vector<Place> places;                              // from none to all
  std::vector<Repeated> runs;
  std::vector<std::size_t> next;  // the next layer of the whole model with the same like; at least all: there is none

  /// What is known by layer of the short model, by layer of the whole one.
  template <typename T>
  [[nodiscard]] std::vector<T> whole(const std::vector<T>& by_layer) const {
    std::vector<T> all;
    all.reserve(source.size());
    for (const std::size_t layer : source) all.push_back(by_layer[layer]);
    return all;
  }
};

/// Nothing where a model is no shorter for it, or its layers do not stay what they are.
[[nodiscard]] std::optional<ShortModel> short_model_of(const Scenario& base);

}  // namespace ddlsim::whatif
