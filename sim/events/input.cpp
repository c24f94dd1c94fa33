#include "ddlsim/events/input.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ddlsim/events/engine.h"
#include "event_builder.h"

namespace ddlsim::events {
namespace {

class LoaderProgram {
 public:
  LoaderProgram(const cost::BatchPipeline& pipeline, Time consumer, std::uint64_t seed)
      : pipeline_(pipeline),
        consumer_(consumer),
        seed_(seed),
        storage_(builder_.stream("storage")),
        network_(builder_.stream("network")),
        cpu_(builder_.stream("processors")),
        receive_(builder_.stream("receive")),
        gpu_(builder_.stream("gpu")) {}

  void add_batch(std::size_t i) {
    const double share = cost::varied_share(pipeline_.variation, seed_, i);
    const TaskId made = pipeline_.workers == 0 ? on_demand(share)
                        : pipeline_.pipelined  ? staged(i, share)
                                               : by_worker(i, share);
    made_.push_back(made);
    std::vector<TaskId> ready{made};
    if (pipeline_.receive > Time::zero()) {
      if (received_) ready.push_back(*received_);
      received_ = hold(receive_, pipeline_.receive, ready);
      ready = {*received_};
    }
    if (consumed_) ready.push_back(*consumed_);
    const TaskId take = builder_.compute({.name = "take"}, ready);
    taken_.push_back(take);
    consumed_ = hold(gpu_, consumer_, {take});
  }

  [[nodiscard]] Expected<Time> wait(std::size_t from) {
    const auto program = builder_.take();
    if (!program) return tl::unexpected<Error>(program.error());
    const auto done = run(*program);
    if (!done) return tl::unexpected<Error>(done.error());
    const auto moment = [&](std::size_t i) { return to_time((*done)[taken_[i]].end); };
    const std::size_t last = taken_.size() - 1;
    const Time step = (moment(last) - moment(from)) / static_cast<double>(last - from);
    return max(step - consumer_, Time::zero());
  }

 private:
  TaskId hold(StreamId stream, Time duration, const std::vector<TaskId>& after) {
    return builder_.compute({.stream = stream, .duration = duration}, after);
  }
  [[nodiscard]] std::vector<TaskId> room(std::size_t i, std::size_t ahead) const {
    if (i < ahead) return {};
    return {taken_[i - ahead]};
  }

  TaskId stages(std::vector<TaskId> after, double share) {
    const auto pass = [&](StreamId stream, Time duration) {
      if (duration > Time::zero()) after = {hold(stream, duration, after)};
    };
    pass(storage_, pipeline_.storage);
    pass(network_, pipeline_.network);
    pass(cpu_, pipeline_.cpu * share);
    const Time held = pipeline_.storage + pipeline_.network + pipeline_.cpu * share;
    const Time rest = max(pipeline_.worker * share - held, Time::zero());
    return builder_.compute({.name = "worker", .duration = rest}, after);
  }

  TaskId on_demand(double share) {
    std::vector<TaskId> after;
    if (consumed_) after.push_back(*consumed_);
    return stages(std::move(after), share);
  }

  TaskId by_worker(std::size_t i, double share) {
    const auto workers = static_cast<std::size_t>(pipeline_.workers);
    std::vector<TaskId> after = room(i, workers * static_cast<std::size_t>(pipeline_.prefetch));
    if (i >= workers) after.push_back(made_[i - workers]);
    return stages(std::move(after), share);
  }

  TaskId staged(std::size_t i, double share) {
    std::vector<TaskId> before;
    if (i >= 2) before.push_back(made_[i - 2]);
    std::vector<TaskId> after = before;
    for (const auto& [stream, duration] : {std::pair(storage_, pipeline_.storage), {network_, pipeline_.network}}) {
      if (duration > Time::zero()) after = {hold(stream, duration, after)};
    }
    for (const TaskId task : room(i, static_cast<std::size_t>(pipeline_.prefetch))) after.push_back(task);
    return hold(cpu_, pipeline_.cpu * share, after);
  }

  const cost::BatchPipeline& pipeline_;
  Time consumer_;
  std::uint64_t seed_;
  EventBuilder builder_;
  StreamId storage_;
  StreamId network_;
  StreamId cpu_;
  StreamId receive_;
  StreamId gpu_;
  std::vector<TaskId> made_;
  std::vector<TaskId> taken_;
  std::optional<TaskId> received_;
  std::optional<TaskId> consumed_;
};

}  // namespace

Expected<Time> simulate_input(const cost::BatchPipeline& pipeline, Time consumer, std::int64_t batches,
                              std::uint64_t seed) {
  if (batches < 1 || batches > 100'000 || pipeline.workers > 1000 || pipeline.workers < 0 || pipeline.prefetch < 1) {
    return fail(ErrorCode::kInvalidArgument, "batches, workers or prefetch that cannot be simulated", {},
                {"1 to 100,000 batches, 0 to 1,000 workers, at least one batch ahead"});
  }
  // The second half: whole rounds of the workers.
  const auto round = static_cast<std::size_t>(std::max<std::int64_t>(pipeline.workers, 1));
  const std::size_t half = (static_cast<std::size_t>(batches) / (2 * round) + 2) * round;
  LoaderProgram program(pipeline, consumer, seed);
  for (std::size_t i = 0; i <= 2 * half; ++i) program.add_batch(i);
  return program.wait(half);
}

}  // namespace ddlsim::events
