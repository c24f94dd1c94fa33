#include "ddlsim/report/chakra.h"

#include <cmath>
#include <optional>
#include <utility>

namespace ddlsim::report {
namespace {

/// Appends nodes, numbered in their order.
class Graph {
 public:
  std::int64_t compute(std::string name, Time time, std::vector<std::int64_t> after) {
    io::ChakraNode node;
    node.name = std::move(name);
    node.data = std::move(after);
    if (time > Time::zero()) node.duration = microseconds(std::fmax(1.0, std::round(time.in(microseconds))));
    return add(std::move(node));
  }
  std::int64_t collective(const plan::Message& message, std::vector<std::int64_t> after) {
    io::ChakraNode node;
    node.name = message.gathered ? "all_gather" : "all_reduce";
    node.type = io::ChakraType::kCollective;
    node.collective = message.gathered ? CollectiveOp::kAllGather : CollectiveOp::kAllReduce;
    node.sent = bytes(std::round(message.size.in(bytes)));
    node.data = std::move(after);
    return add(std::move(node));
  }
  io::ChakraTrace take() { return std::move(trace_); }

 private:
  std::int64_t add(io::ChakraNode node) {
    node.id = static_cast<std::int64_t>(trace_.nodes.size());
    trace_.nodes.push_back(std::move(node));
    return trace_.nodes.back().id;
  }
  io::ChakraTrace trace_{.version = "0.0.4", .nodes = {}};
};

}  // namespace

io::ChakraTrace chakra_of(const workload::Model& model, std::span<const plan::Message> messages,
                          const sim::StepRecord& record) {
  Graph graph;
  std::optional<std::int64_t> last;
  const auto after_last = [&] { return last ? std::vector{*last} : std::vector<std::int64_t>{}; };
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    last = graph.compute(model.layers[i].name + " forward", record.forward[i].duration, after_last());
  }
  std::vector<std::int64_t> sent;
  auto next = messages.begin();
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const Time duration = record.backward[model.layers.size() - 1 - i].duration;
    last = graph.compute(model.layers[i].name + " backward", duration, after_last());
    for (; next != messages.end() && next->after == i; ++next) {
      for (std::int64_t n = 0; n < next->count; ++n) sent.push_back(graph.collective(*next, {*last}));
    }
  }
  if (last) sent.insert(sent.begin(), *last);
  graph.compute("weight update", record.update, std::move(sent));
  return graph.take();
}

}  // namespace ddlsim::report
