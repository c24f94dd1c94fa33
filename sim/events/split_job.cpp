#include "split_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ddlsim::events {
namespace {

using plan::Moment;

std::string_view group_name(plan::GroupRole role) {
  switch (role) {
    case plan::GroupRole::kTensor: return "tensor group";
    case plan::GroupRole::kContext: return "context group";
    case plan::GroupRole::kExperts: return "expert group";
    case plan::GroupRole::kGradients: return "data group";
    case plan::GroupRole::kExpertGradients: return "data group of experts";
    case plan::GroupRole::kShards: return "shard group";
    case plan::GroupRole::kCopies: return "copies of shards";
    case plan::GroupRole::kExpertShards: return "shard group of experts";
    case plan::GroupRole::kExpertCopies: return "copies of experts' shards";
    case plan::GroupRole::kStages: return "stages";
    case plan::GroupRole::kStagesAcross: return "stages of two servers";
  }
  return "group";
}

std::string_view op_name(primitives::CollectiveOp op) {
  using primitives::CollectiveOp;
  switch (op) {
    case CollectiveOp::kAllReduce: return "all-reduce";
    case CollectiveOp::kAllGather: return "all-gather";
    case CollectiveOp::kReduceScatter: return "reduce-scatter";
    case CollectiveOp::kAllToAll: return "all-to-all";
    case CollectiveOp::kBroadcast: return "broadcast";
    case CollectiveOp::kReduce: return "reduce";
    case CollectiveOp::kSendRecv: return "send";
  }
  return "collective";
}

answer::Timeline::Kernels kernels_of(const cost::PricedLayer& layer) {
  return {layer.time, Time::zero(), static_cast<int>(layer.kernels)};
}

}  // namespace

Expected<std::vector<plan::Slot>> slots_of(const plan::StepPlan& plan, std::size_t steps) {
  plan::Pipeline pipeline = plan::pipeline_of(plan);
  if (plan::is_asynchronous(pipeline.schedule)) {
    pipeline.micro_batches = pipeline.micro_batches * static_cast<std::int64_t>(steps) + pipeline.stages;
  }
  std::vector<plan::RankOrder> orders;
  for (std::size_t s = 0; s < plan.classes.size(); ++s) orders.emplace_back(pipeline, s);
  return plan::order_of(pipeline, orders);
}

SplitJob::Rows* SplitJob::Around::at(const plan::Point& point) {
  switch (point.at) {
    case Moment::kBegin: return &begin;
    case Moment::kForward: return &forward[point.layer];
    case Moment::kBackward: return &backward[point.layer];
    case Moment::kUpdate: return &update;
    case Moment::kNever: break;
  }
  return nullptr;
}

SplitJob::SplitJob(EventBuilder& builder, const cost::PricedStep& step, const answer::Timeline& record,
                   std::vector<plan::Slot> slots, JobLinks* links, bool named)
    : builder_(builder),
      step_(step),
      plan_(*step.plan),
      pipeline_(plan::pipeline_of(plan_)),
      record_(record),
      slots_(std::move(slots)),
      links_(links),
      named_(named),
      endless_(plan::is_asynchronous(pipeline_.schedule)) {}

void SplitJob::set_up(const std::string& name) {
  for (const plan::RankClass& one : plan_.classes) {
    std::string process = fmt::format("{}, {}", name, one.role);
    GpuWork gpu(builder_, process, step_.launch_interval);
    const std::size_t layers = one.chunk.count;
    actors_.push_back({.process = std::move(process), .gpu = gpu, .ready = Around(layers), .needed = Around(layers)});
  }
  moves_.resize(plan_.rows.size());
  for (std::size_t r = 0; r < plan_.rows.size(); ++r) {
    const plan::Row& row = plan_.rows[r];
    if (Rows* at = actors_[row.rank_class].ready.at(row.ready)) at->push_back(r);
    const bool waited_for = row.lag == 0 && !(row.in_the_way && row.rank_class == row.needed_by);
    Rows* needed = waited_for ? actors_[row.needed_by].needed.at(row.needed) : nullptr;
    if (needed != nullptr) needed->push_back(r);
    if (endless_ && row.lag > 0 && !row.in_the_way) actors_[row.rank_class].lagged.push_back(r);
    set_up_row(r);
  }
  if (!(record_.host_link > Time::zero())) return;
  input_.stream = builder_.stream(actors_.front().process + "/input");
  const auto way = links_ != nullptr ? links_->copies(0, Direction::kIn) : std::nullopt;
  if (!way) return;
  const DataSize size = plan_.input * static_cast<double>(plan_.micro_batches);
  const LinkTable::Part part{*way, size};
  input_route_ = links_->table().flow(builder_, {&part, 1}, size, record_.host_link, "input: its own pace").route;
}

/// What carries a row. Stages send to each other over ways of their own.
SplitJob::Resource& SplitJob::resource(const plan::Row& row) {
  const std::string& process = actors_[row.rank_class].process;
  const auto named = [&](std::string_view what) -> Resource& {
    const std::string name = fmt::format("{}/{}", process, what);
    const auto [found, fresh] = resources_.try_emplace(name);
    if (fresh) found->second.stream = builder_.stream(name);
    return found->second;
  };
  if (row.rank_class != row.needed_by) {
    return named(fmt::format("sends to {}", plan_.classes[row.needed_by].role));
  }
  switch (row.kind) {
    case plan::RowKind::kCopy: return named("copies to the host");
    case plan::RowKind::kCopyBack: return named("copies from the host");
    case plan::RowKind::kHost: return named("host");
    case plan::RowKind::kKernel:
    case plan::RowKind::kServer:
    case plan::RowKind::kCollective: break;
  }
  return named(group_name(plan_.groups[row.group].role));
}

void SplitJob::set_up_row(std::size_t r) {
  const plan::Row& row = plan_.rows[r];
  Move& move = moves_[r];
  move.by = &resource(row);
  const auto passes = static_cast<std::size_t>(plan_.micro_batches);
  const std::size_t all = endless_ ? slots_.size() / (2 * actors_.size()) : passes;
  move.done.resize(row.every_pass ? all : (all + passes - 1) / passes);
  auto count = static_cast<double>(row.count);
  Time alone = step_.rows[r].once * count;
  if (step_.rows[r].hidden > Time::zero() && alone > Time::zero()) {
    // What runs beside its layer's kernels is not in the way: the rest of it is.
    const double shown = 1.0 - min(step_.rows[r].hidden, alone) / alone;
    alone = alone * shown;
    count *= shown;
  }
  move.in_flight = min(step_.rows[r].in_flight, alone);
  alone = alone - move.in_flight;
  move.latency = alone;
  if (links_ == nullptr) return;
  const std::string pace = actors_[row.rank_class].process + ": its own pace";
  LinkTable::Flow flow;
  if (row.kind == plan::RowKind::kCopy || row.kind == plan::RowKind::kCopyBack) {
    const bool out = row.kind == plan::RowKind::kCopy;
    const auto way = links_->copies(row.rank_class, out ? Direction::kOut : Direction::kIn);
    if (!way) return;
    const LinkTable::Part part{*way, row.size * count};
    flow = links_->table().flow(builder_, {&part, 1}, part.size, alone, pace);
    if (flow.route) move.latency = Time::zero();
  } else if (row.kind == plan::RowKind::kCollective && step_.groups[row.group]) {
    const cost::CollectiveModel& model = *step_.groups[row.group];
    const Time latency = min(model.cost(row.op, DataSize::zero()).time * count - move.in_flight, alone);
    flow = collective_flow(builder_, *links_,
                           {.model = &model,
                            .op = row.op,
                            .buffer = cost::buffer_of(row, model.communicator().gpus),
                            .count = count,
                            .group = row.group,
                            .from = row.rank_class,
                            .to = row.needed_by},
                           alone - latency, pace);
    if (flow.route) move.latency = latency;
  }
  move.route = flow.route;
  move.size = flow.size;
}

std::string SplitJob::numbered(std::string name, std::int64_t micro_batch) const {
  if (plan_.micro_batches > 1) name += fmt::format(", micro-batch {}", micro_batch);
  return name;
}

std::string SplitJob::pass_name(std::string_view pass, const workload::Layer& layer, std::int64_t micro_batch) const {
  if (!named_) return std::string(pass);
  return numbered(fmt::format("{} {}", pass, layer.name), micro_batch);
}

std::string SplitJob::row_name(const plan::Row& row, std::int64_t micro_batch) const {
  const auto base = [&]() -> std::string {
    switch (row.kind) {
      case plan::RowKind::kCopy: return "copy to the host";
      case plan::RowKind::kCopyBack: return "copy from the host";
      case plan::RowKind::kHost: return "host";
      case plan::RowKind::kKernel: return "kernel";
      case plan::RowKind::kServer: return "push and pull";
      case plan::RowKind::kCollective: break;
    }
    return std::string(op_name(row.op));
  };
  if (!named_) return base();
  std::string name = base();
  const bool gathered_ahead = row.needed.at == Moment::kForward || row.needed.at == Moment::kBackward;
  const plan::Point& point = gathered_ahead && row.rank_class == row.needed_by ? row.needed : row.ready;
  if (point.at == Moment::kForward || point.at == Moment::kBackward) {
    name += fmt::format(" {}", plan_.layer(row.rank_class, point.layer).name);
  }
  return row.every_pass ? numbered(std::move(name), micro_batch) : name;
}

/// Of the pass that has it, or of the step.
std::optional<TaskId>& SplitJob::done(std::size_t r, std::int64_t micro_batch) {
  const std::int64_t turn = plan_.rows[r].every_pass ? micro_batch : micro_batch / plan_.micro_batches;
  return moves_[r].done[static_cast<std::size_t>(turn)];
}

/// Rows that are ready after a layer's pass.
bool SplitJob::start(Actor& actor, const Rows& rows, const plan::Slot& slot, bool held) {
  const std::int64_t in_step = endless_ ? slot.micro_batch % plan_.micro_batches : slot.micro_batch;
  const bool first = in_step == plan::first_micro_batch(pipeline_, slot.part);
  const bool last = in_step == plan::last_micro_batch(pipeline_, slot.part);
  bool exchanged = false;
  for (const std::size_t r : rows) {
    const plan::Row& row = plan_.rows[r];
    if (!row.every_pass && !(row.with_first() ? first : last)) continue;
    if (row.ready.at == Moment::kBackward && !plan::starts_in(row, slot.kind)) continue;
    if (held && row.rank_class != row.needed_by) {
      held_.emplace_back(r, slot.micro_batch);
    } else {
      start(actor, r, slot.micro_batch);
      exchanged = exchanged || (row.in_the_way && row.op == primitives::CollectiveOp::kAllToAll);
    }
  }
  return exchanged;
}

void SplitJob::start(Actor& actor, std::size_t r, std::int64_t micro_batch) {
  const plan::Row& row = plan_.rows[r];
  if (step_.rows[r].encoding > Time::zero()) actor.gpu.run("encoding", step_.rows[r].encoding);
  Move& move = moves_[r];
  std::vector<TaskId> after{actor.gpu.at()};
  if (move.by->free) after.push_back(*move.by->free);
  if (row.after != plan::kNoRow) {
    const std::vector<TaskId> before = waits({row.after}, micro_batch);
    after.insert(after.end(), before.begin(), before.end());
  }
  std::string name = row_name(row, micro_batch);
  const TaskId sent =
      move.route
          ? builder_.transfer({.name = name,
                               .stream = move.by->stream,
                               .route = move.route,
                               .size = move.size,
                               .latency = move.latency},
                              after)
          : builder_.compute({.name = name, .stream = move.by->stream, .duration = move.by->rounder.next(move.latency)},
                             after);
  move.by->free = sent;
  TaskId there = sent;
  if (move.in_flight > Time::zero()) {
    there = builder_.compute({.name = std::move(name), .duration = Rounder{}.next(move.in_flight)}, {&sent, 1});
  }
  done(r, micro_batch) = there;
  if (row.in_the_way) actor.gpu.go_on_after(sent);
}

/// What was started of them; what was not is not waited for.
std::vector<TaskId> SplitJob::waits(const Rows& rows, std::int64_t micro_batch) {
  std::vector<TaskId> tasks;
  for (const std::size_t r : rows) {
    if (const auto& sent = done(r, micro_batch)) tasks.push_back(*sent);
  }
  return tasks;
}

SplitJob::Pass SplitJob::begin(const plan::Slot& slot, bool held) {
  Actor& actor = actors_[slot.stage];
  const plan::RankClass& one = plan_.classes[slot.stage];
  const std::size_t first = one.parts.empty() ? 0 : one.parts[slot.part].first;
  const std::size_t count = one.parts.empty() ? step_.classes[slot.stage].forward.size() : one.parts[slot.part].count;
  if (slot.kind == plan::SlotKind::kForward) {
    Rows begun;
    for (const std::size_t r : actor.ready.begin) {
      if (plan_.rows[r].ready.layer == first) begun.push_back(r);
    }
    start(actor, begun, slot, held);
  }
  return {.slot = slot, .held = held, .first = first, .count = count};
}

bool SplitJob::go_on(Pass& pass) {
  const plan::Slot& slot = pass.slot;
  const std::size_t c = slot.stage;
  Actor& actor = actors_[c];
  const cost::PricedClass& priced = step_.classes[c];
  const bool forward = slot.kind == plan::SlotKind::kForward;
  const bool weights = slot.kind == plan::SlotKind::kBackwardWeights;
  const cost::PricedLayers& layers = forward                                  ? priced.forward
                                     : weights                                ? priced.backward_weights
                                     : slot.kind == plan::SlotKind::kBackward ? priced.backward
                                                                              : priced.backward_input;
  while (pass.done < pass.count) {
    const std::size_t n = pass.done++;
    const std::size_t i = pass.first + (forward ? n : pass.count - 1 - n);
    const Rows& needed = forward ? actor.needed.forward[i] : actor.needed.backward[i];
    const cost::PricedLayer& layer = layers[forward ? i : layers.size() - 1 - i];
    actor.gpu.kernels(actor.issue, kernels_of(layer), 1,
                      pass_name(forward   ? "forward"
                                : weights ? "weights of"
                                          : "backward",
                                plan_.layer(c, i), slot.micro_batch),
                      weights ? std::vector<TaskId>{} : waits(needed, slot.micro_batch));
    pass.kernels_end = actor.gpu.at();
    if (start(actor, forward ? actor.ready.forward[i] : actor.ready.backward[i], slot, pass.held)) return true;
  }
  return false;
}

void SplitJob::pass(const plan::Slot& slot) {
  Pass one = begin(slot, false);
  while (go_on(one)) continue;
}

/// What a pass needs from other stages.
std::vector<TaskId> SplitJob::inputs_of(const plan::Slot& slot) {
  const plan::RankClass& one = plan_.classes[slot.stage];
  const Actor& actor = actors_[slot.stage];
  const std::size_t first = one.parts.empty() ? 0 : one.parts[slot.part].first;
  const std::size_t count = one.parts.empty() ? one.chunk.count : one.parts[slot.part].count;
  const bool forward = slot.kind == plan::SlotKind::kForward;
  Rows from_others;
  for (const std::size_t r : forward ? actor.needed.forward[first] : actor.needed.backward[first + count - 1]) {
    if (plan_.rows[r].rank_class != slot.stage) from_others.push_back(r);
  }
  return waits(from_others, slot.micro_batch);
}

/// Both inputs come before a pair starts, both outputs leave when both are done.
void SplitJob::pair(const plan::Slot& forward, const plan::Slot& backward) {
  Actor& actor = actors_[forward.stage];
  actor.gpu.wait_for(inputs_of(forward));
  actor.gpu.wait_for(inputs_of(backward));
  Pass passes[2] = {begin(forward, true), begin(backward, true)};
  bool more[2] = {true, true};
  TaskId at[2] = {actor.gpu.at(), actor.gpu.at()};
  for (std::size_t turn = 0; more[0] || more[1]; ++turn) {
    const std::size_t which = turn % 2;
    if (!more[which]) continue;
    // The second pass's first kernels come behind the first's, or all of it where nothing of it is left, and all others
    // behind those of their own pass.
    actor.gpu.go_on_after(turn != 1 ? at[which] : more[0] ? passes[0].kernels_end : at[0]);
    more[which] = go_on(passes[which]);
    at[which] = actor.gpu.at();
  }
  actor.gpu.go_on_after(at[0]);
  actor.gpu.wait_for({&at[1], 1});
  for (const auto& [r, micro_batch] : held_) start(actor, r, micro_batch);
  held_.clear();
}

TaskId SplitJob::update(std::size_t c, std::int64_t micro_batch) {
  Actor& actor = actors_[c];
  for (const std::size_t r : actor.needed.update) {
    // Of the last pass of the part that it belongs to.
    const std::vector<plan::Part>& parts = plan_.classes[c].parts;
    std::size_t part = 0;
    while (part + 1 < parts.size() && plan_.rows[r].ready.layer >= parts[part + 1].first) ++part;
    const std::int64_t last = endless_ ? micro_batch : plan::last_micro_batch(pipeline_, part);
    actor.gpu.wait_for(waits({r}, last));
  }
  for (const std::size_t r : actor.lagged) {
    const plan::Row& row = plan_.rows[r];
    const std::int64_t before = micro_batch - row.lag * (row.every_pass ? 1 : plan_.micro_batches);
    if (before >= 0) actor.gpu.wait_for(waits({r}, before));
  }
  if (step_.classes[c].update > Time::zero()) actor.gpu.run("weight update", step_.classes[c].update);
  for (const std::size_t r : actor.ready.update) start(actor, r, micro_batch);
  return actor.gpu.at();
}

TaskId SplitJob::input(TaskId begin) {
  if (input_route_) {
    const DataSize size = plan_.input * static_cast<double>(plan_.micro_batches);
    return builder_.transfer({.name = "input", .stream = input_.stream, .route = input_route_, .size = size},
                             {&begin, 1});
  }
  Rounder whole;
  return builder_.compute({.name = "input", .stream = input_.stream, .duration = whole.next(record_.host_link)},
                          {&begin, 1});
}

void SplitJob::lay_slots() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].paired) {
      pair(slots_[i], slots_[i + 1]);
      ++i;
    } else {
      pass(slots_[i]);
    }
  }
}

void SplitJob::lay_endless() {
  const bool every_pass = pipeline_.schedule == plan::PipelineSchedule::kPipeDream;
  const auto ended = [&](const Actor& actor) { return actor.ends.size() >= static_cast<std::size_t>(steps_); };
  while (!std::all_of(actors_.begin(), actors_.end(), ended)) {
    const plan::Slot& slot = slots_[next_slot_++];
    pass(slot);
    if (slot.kind == plan::SlotKind::kForward) continue;
    const bool last = (slot.micro_batch + 1) % plan_.micro_batches == 0;
    if (!every_pass && !last) continue;
    const TaskId end = update(slot.stage, slot.micro_batch);
    if (!last) continue;
    Actor& actor = actors_[slot.stage];
    actor.ends.push_back(by_itself(end));
    actor.gpu.go_on_after(actor.ends.back());
  }
}

TaskId SplitJob::step(TaskId begin) {
  const bool together = plan::ends_together(pipeline_.schedule);
  if (!endless_) {
    for (Move& move : moves_) std::fill(move.done.begin(), move.done.end(), std::nullopt);
  }
  if (together || steps_ == 0) {
    for (auto& [name, one] : resources_) one.free.reset();
    for (Actor& actor : actors_) {
      actor.gpu.go_on_after(begin);
      actor.issue = {.at = begin};
    }
  }
  ++steps_;
  std::vector<TaskId> all{begin};
  if (record_.host_link > Time::zero()) all.push_back(input(begin));
  if (record_.loading > Time::zero()) all.push_back(alone("loader", record_.loading, begin));
  std::vector<TaskId> ends;
  if (endless_) {
    lay_endless();
    for (const Actor& actor : actors_) ends.push_back(actor.ends[static_cast<std::size_t>(steps_) - 1]);
  } else {
    lay_slots();
    for (std::size_t c = 0; c < actors_.size(); ++c) {
      ends.push_back(update(c, plan_.micro_batches - 1));
      if (together) continue;
      actors_[c].gpu.go_on_after(ends.back() = by_itself(ends.back()));
    }
  }
  all.front() = builder_.join("all back", ends);
  if (together) all.front() = alone("decoding", record_.decoding, waiting(all.front()));
  const TaskId done = builder_.join("step", all);
  return together ? alone("waiting for batches", record_.starved, done) : done;
}

/// What ends the step of a rank that goes on by itself.
TaskId SplitJob::by_itself(TaskId updated) {
  return alone("waiting for batches", record_.starved, alone("decoding", record_.decoding, waiting(updated)));
}

TaskId SplitJob::alone(std::string_view name, Time duration, TaskId after) {
  if (!(duration > Time::zero())) return after;
  Rounder whole;
  return builder_.compute({.name = name, .duration = whole.next(duration)}, {&after, 1});
}

/// For the slowest of alike GPUs, and what collectives took from kernels.
TaskId SplitJob::waiting(TaskId after) {
  after = alone("kernels slowed by collectives", record_.contention, after);
  if (!(record_.waiting > Time::zero())) return after;
  Rounder whole;
  return builder_.compute({.name = "waiting for the slowest GPU", .duration = whole.next(record_.waiting)},
                          {&after, 1});
}

}  // namespace ddlsim::events
