#include <fmt/core.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "onnx_graph.h"

namespace ddlsim::importers::onnx {
namespace {

constexpr std::size_t kGiven = static_cast<std::size_t>(-1);  // made before the first node: an input or initializer

using Makers = std::unordered_map<std::string_view, std::size_t>;

Expected<Makers> find_makers(const Graph& graph, const std::string& file) {
  Makers makers;
  makers.reserve(graph.initializers.size() + 2 * graph.nodes.size());
  for (const ValueInfo& input : graph.inputs) makers.emplace(input.name, kGiven);
  for (const TensorHead& tensor : graph.initializers) makers.emplace(tensor.name, kGiven);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string_view output : graph.nodes[i].outputs) {
      if (output.empty()) continue;
      if (const auto [place, fresh] = makers.emplace(output, i); !fresh) {
        const std::string other = place->second == kGiven ? "an input or initializer of the graph"
                                                          : "also made by " + describe(graph.nodes[place->second]);
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("{} makes '{}', which is {}", describe(graph.nodes[i]), printable(output), other),
                    {file, 0, 0});
      }
    }
  }
  return makers;
}

/// A node of a cycle among those that never became ready: follow unready makers until one comes twice.
std::size_t node_of_cycle(const Graph& graph, const Makers& makers, const std::vector<std::size_t>& waiting) {
  const auto stuck = [&](std::size_t i) { return waiting[i] > 0; };
  std::size_t at = 0;
  while (!stuck(at)) ++at;
  std::vector<bool> seen(graph.nodes.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    for (const std::string_view input : graph.nodes[at].inputs) {
      const auto maker = makers.find(input);
      if (maker == makers.end() || maker->second == kGiven || !stuck(maker->second)) continue;
      at = maker->second;
      break;
    }
  }
  return at;
}

}  // namespace

Expected<void> sort_nodes(Graph& graph, const std::string& file) {
  const auto makers = find_makers(graph, file);
  if (!makers) return tl::unexpected<Error>(makers.error());
  const std::size_t count = graph.nodes.size();
  std::vector<std::size_t> waiting(count, 0);  // inputs not made yet
  std::vector<std::vector<std::size_t>> readers(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::string_view input : graph.nodes[i].inputs) {
      if (input.empty()) continue;
      const auto maker = makers->find(input);
      if (maker == makers->end()) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("{} reads '{}', which no node, input or initializer makes", describe(graph.nodes[i]),
                                printable(input)),
                    {file, 0, 0});
      }
      if (maker->second == kGiven) continue;
      ++waiting[i];
      readers[maker->second].push_back(i);
    }
  }
  // The earliest ready node of the file goes first, so that a sorted file keeps its order.
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<GraphNode> sorted;
  sorted.reserve(count);
  std::vector<std::size_t> order;
  order.reserve(count);
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const std::size_t reader : readers[next]) {
      if (--waiting[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() < count) {
    const GraphNode& node = graph.nodes[node_of_cycle(graph, *makers, waiting)];
    return fail(ErrorCode::kInvalidArgument, fmt::format("the graph has a cycle through {}", describe(node)),
                {file, 0, 0}, {"an ONNX graph is acyclic; a recurrent network uses LSTM, Loop or Scan"});
  }
  for (const std::size_t i : order) sorted.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(sorted);
  return {};
}

}  // namespace ddlsim::importers::onnx
