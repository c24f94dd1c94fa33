#include "ddlsim/report/chakra.h"

#include <cmath>
#include <utility>
#include <vector>

#include "ddlsim/cost/layer_time.h"

namespace ddlsim::report {
namespace {

/// Appends nodes, numbered in their order.
class Graph {
 public:
  /// The next work of the GPU, after its last and after `others`.
  void compute(std::string name, Time time, Work work, DataSize traffic, std::vector<std::int64_t> others = {}) {
    importers::ChakraNode node;
    node.name = std::move(name);
    if (last_ >= 0) node.data.push_back(last_);
    node.data.insert(node.data.end(), others.begin(), others.end());
    if (time > Time::zero()) {
      node.tensor = bytes(std::round(traffic.in(bytes)));
      node.work = flops(std::fmax(std::round(work.in(flops)), node.tensor > DataSize::zero() ? 1 : 0));
      const double exact = time.in(microseconds) + owed_;
      node.duration = microseconds(std::fmax(1.0, std::round(exact)));
      owed_ = exact - node.duration->in(microseconds);
    }
    last_ = add(std::move(node));
  }
  std::int64_t collective(const answer::Timeline::Sent& message, Time alone) {
    importers::ChakraNode node;
    node.name = message.gathered ? "all_gather" : "all_reduce";
    node.type = importers::ChakraType::kCollective;
    node.collective = message.gathered ? primitives::CollectiveOp::kAllGather : primitives::CollectiveOp::kAllReduce;
    node.sent = bytes(std::round(message.size.in(bytes)));
    node.data = {last_};
    if (alone > Time::zero()) node.duration = microseconds(std::fmax(1.0, std::round(alone.in(microseconds))));
    return add(std::move(node));
  }
  importers::ChakraTrace take() { return std::move(trace_); }

 private:
  std::int64_t add(importers::ChakraNode node) {
    node.id = static_cast<std::int64_t>(trace_.nodes.size());
    trace_.nodes.push_back(std::move(node));
    return trace_.nodes.back().id;
  }
  importers::ChakraTrace trace_{.version = "0.0.4", .nodes = {}};
  std::int64_t last_ = -1;  // of the GPU's work
  double owed_ = 0;         // microseconds that rounding took
};

class Writer {
 public:
  Writer(const plan::Chunk& chunk, const answer::Timeline& record, const ChakraOptions& options)
      : chunk_(chunk), record_(record), options_(options), ends_with_(record.ready.size()) {
    for (const answer::Timeline::Sent& sent : record.sent) ends_with_[sent.last].push_back(&sent);
  }

  importers::ChakraTrace write() {
    for (std::int64_t pass = 1; pass <= options_.passes; ++pass) {
      for (std::size_t i = 0; i < chunk_.count; ++i) layer(i, cost::Pass::kForward);
      for (std::size_t i = chunk_.count; i-- > 0;) {
        layer(i, cost::Pass::kBackward);
        if (pass == options_.passes) send_ready(chunk_.count - i);
      }
    }
    graph_.compute("weight update", record_.update * options_.slowness, Work::zero(), options_.updated,
                   std::move(sent_));
    return graph_.take();
  }

 private:
  void layer(std::size_t i, cost::Pass pass) {
    const bool forward = pass == cost::Pass::kForward;
    const workload::Layer& what = chunk_[i];
    const Time time =
        forward ? record_.forward_kernels[i].duration : record_.backward_kernels[chunk_.count - 1 - i].duration;
    graph_.compute(what.name + (forward ? " forward" : " backward"), time * options_.slowness,
                   cost::layer_work(what, pass, options_.batch),
                   cost::layer_traffic(what, pass, options_.batch, options_.activation));
  }
  /// The messages that `layers` of backward have made.
  void send_ready(std::size_t layers) {
    for (; next_ < record_.ready.size() && record_.ready[next_].layers == layers; ++next_) {
      const Time encoding = record_.ready[next_].encoding;
      if (encoding > Time::zero()) {
        graph_.compute("gradient copies, backward", encoding * options_.slowness, Work::zero(), DataSize::zero());
      }
      for (const answer::Timeline::Sent* sent : ends_with_[next_]) {
        for (double n = 0; n < sent->count; ++n) {
          sent_.push_back(graph_.collective(*sent, sent->alone / sent->count));
        }
      }
    }
  }

  const plan::Chunk& chunk_;
  const answer::Timeline& record_;
  const ChakraOptions& options_;
  std::vector<std::vector<const answer::Timeline::Sent*>> ends_with_;  // by the message that is their last
  Graph graph_;
  std::size_t next_ = 0;
  std::vector<std::int64_t> sent_;
};

}  // namespace

importers::ChakraTrace chakra_of(const plan::Chunk& chunk, const answer::Timeline& record,
                                 const ChakraOptions& options) {
  return Writer(chunk, record, options).write();
}

double chakra_nodes(const answer::Timeline& record, std::int64_t passes) {
  double nodes =
      static_cast<double>(record.forward_kernels.size() + record.backward_kernels.size()) * static_cast<double>(passes);
  for (const answer::Timeline::Ready& ready : record.ready) nodes += ready.encoding > Time::zero() ? 1 : 0;
  for (const answer::Timeline::Sent& sent : record.sent) nodes += sent.count;
  return nodes + 1;
}

}  // namespace ddlsim::report
