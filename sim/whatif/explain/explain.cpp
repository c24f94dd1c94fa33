#include "ddlsim/whatif/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "ddlsim/cost/straggler.h"
#include "ddlsim/plan/order.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/support/formula.h"
#include "ddlsim/support/names.h"
#include "ddlsim/support/plural.h"
#include "explain/explain_parts.h"
#include "predict/prediction.h"

namespace ddlsim::whatif {

PartBuilder::PartBuilder(std::string_view name, std::string title, std::string symbol) {
  part_.name = name;
  part_.title = std::move(title);
  part_.symbol = std::move(symbol);
}

PartBuilder& PartBuilder::with(std::string symbol, std::string meaning, Explained value, std::string_view provenance,
                               std::string source) {
  part_.values.push_back({std::move(symbol), std::move(meaning), value.value, std::string(value.unit),
                          std::string(provenance), std::move(source)});
  return *this;
}

PartBuilder& PartBuilder::note(std::string text) {
  part_.note = std::move(text);
  return *this;
}

answer::ExplainedPart PartBuilder::is(std::string equation, Explained result) {
  part_.equation = std::move(equation);
  part_.result = result.value;
  part_.unit = result.unit;
  return std::move(part_);
}

std::string_view origin_word(Origin origin) {
  switch (origin) {
    case Origin::kDefault: return "assumed";
    case Origin::kDatasheet: return "datasheet";
    case Origin::kFramework: return "framework";
    case Origin::kFitted: return "fitted";
    case Origin::kStated: return "stated";
  }
  return "assumed";
}

namespace {

constexpr std::size_t kMostLayers = 6;
constexpr double kNoTime = 1e-15;       // seconds that rounding makes
constexpr double kSumRounding = 1e-13;  // of what is added up, in differences

/// Whether one pass stands for all, and its parts are what the header says.
bool is_plain(const Question& question) {
  if (question.fidelity != answer::Fidelity::kAnalytic || !question.plan || question.kinds) return false;
  const plan::Exchange& exchange = question.plan->exchange;
  return question.plan->folds && exchange.sync_every == 1 && exchange.consistency == plan::Consistency::kSync;
}

/// Stages, tensor groups, shards: passes that wait for each other, every replica and step alike.
bool is_split(const Question& question) {
  if (question.fidelity != answer::Fidelity::kAnalytic || !question.plan || question.kinds) return false;
  return !question.plan->folds && plan::ends_together(question.plan->schedule);
}

/// Local SGD by recurrence, of GPUs that are all alike.
bool averages_weights(const Question& question) {
  if (question.fidelity != answer::Fidelity::kAnalytic || !question.plan || question.kinds) return false;
  return question.plan->folds && question.plan->exchange.sync_every > 1 && question.gpus() > 1;
}

class Explainer {
 public:
  Explainer(const Question& question, const Laid& laid, const answer::Prediction& prediction)
      : question_(question), scenario_(question.scenario), laid_(laid), prediction_(prediction) {}

  ExplainedParts run() {
    step();
    rates_of_work();
    software();
    explain_power(question_, to_string(prediction_.provenance), kernels_source(), parts_);
    if (is_plain(question_)) {
      kernels("compute", "K_c", &cost::LayerTime::compute);
      kernels("memory-bound", "K_m", &cost::LayerTime::memory);
      roofline();
      gpu_time();
      launches();
      rest();
      if (laid_.step->groups.front()) explain_messages(question_, laid_, parts_);
      if (laid_.step->servers) explain_servers(question_, laid_, parts_);
    } else {
      if (is_split(question_)) {
        kernels("compute", "K_c", &cost::LayerTime::compute);
        kernels("memory-bound", "K_m", &cost::LayerTime::memory);
        gpu_time();
        explain_split(question_, laid_, parts_);
      }
      collectives();
      if (averages_weights(question_)) explain_local_sgd(question_, laid_, parts_);
    }
    input();
    memory();
    return std::move(parts_);
  }

 private:
  void step();
  void rates_of_work();
  void software();
  void kernels(const std::string& name, const std::string& symbol, Time cost::LayerTime::*bound);
  void roofline();
  void gpu_time();
  void launches();
  void rest();
  void collectives();
  void input();
  void memory();
  /// An equation that does not hold for a split (kernels put off, passes done again) is left out.
  void keep(answer::ExplainedPart part) {
    if (!is_split(question_) || check_equations({part})) parts_.push_back(std::move(part));
  }
  /// Of the ranks whose time the step is.
  [[nodiscard]] std::size_t rank_class() const { return laid_.line.rank_class; }
  [[nodiscard]] double passes() const {
    const plan::StepPlan& plan = *question_.plan;
    return static_cast<double>(plan.folds ? plan.micro_batches : plan::passes_of(plan::pipeline_of(plan)));
  }
  [[nodiscard]] hardware::SoftwareFactor gpu_factor() const { return plan::gpu_time_factor_of(scenario_); }
  [[nodiscard]] std::string kernels_source() const;

  const Question& question_;
  const Scenario& scenario_;
  const Laid& laid_;
  const answer::Prediction& prediction_;
  ExplainedParts parts_;
};

void Explainer::step() {
  const answer::Breakdown& b = prediction_.breakdown;
  PartBuilder part("step", "where the time of a step goes", "T");
  std::string equation;
  const auto add = [&](const char* symbol, const char* meaning, Time time, bool always) {
    if (!always && time == Time::zero()) return;
    part.above(symbol, meaning, time);
    equation += (equation.empty() ? "" : " + ") + std::string(symbol);
  };
  add("T_compute", "kernels bound by arithmetic", b.compute, true);
  add("T_memory", "kernels bound by the GPU's memory, weight update, copies", b.memory, true);
  add("T_launch", "waiting for the CPU", b.launch, false);
  add("T_input", "waiting for input", b.input_exposed, false);
  add("T_exposed", "communication that kernels do not hide", b.communication_exposed, true);
  add("T_bubble", "stages waiting for each other", b.bubble, false);
  add("T_other", "kernels slowed by collectives, waiting for the slowest GPU, weight update on the CPU",
      b.other - b.unexplained, false);
  add("T_unexplained", "what measured runs took beyond what the model says", b.unexplained, false);
  parts_.push_back(part.is(equation, prediction_.step_time));
}

void Explainer::rates_of_work() {
  const answer::Prediction& p = prediction_;
  PartBuilder throughput("step", "throughput", "X");
  throughput.with("d", "replicas", p.split.data, "stated", "")
      .with("B", plural(p.sample) + " of a replica and pass", p.split.micro_batch, "stated", "")
      .with("P", "passes of a step", p.split.passes, "stated", "")
      .above("T", "step", p.step_time);
  parts_.push_back(throughput.is("d * B * P / T", Explained(p.throughput_samples_per_second, "1/s")));
  PartBuilder mfu("step", "MFU", "MFU");
  const hardware::Gpu& gpu = scenario_.cluster.node.gpu;
  mfu.with("W",
           scenario_.parallel.lora_rank > 0
               ? "FLOPs of the model, all GPUs, forward and backward; frozen weights without gradients"
               : "FLOPs of the model, all GPUs, forward and backward",
           p.model_work, "analytic", "workload/op.h")
      .with("n", "GPUs", p.gpus, "stated", "")
      .with("Q", fmt::format("peak rate of the GPU in {}", p.precision), *gpu.peak.at(scenario_.precision), "datasheet",
            fmt::format("hardware/gpus/{}.yaml", gpu.id))
      .above("T", "step", p.step_time);
  parts_.push_back(mfu.is("W / (n * Q * T)", p.mfu));
}

void Explainer::software() {
  PartBuilder part("software", "factor on kernels bound by arithmetic: what the framework takes on top of them", "f_c");
  PartBuilder memory("software", "factor on kernels bound by memory", "f_m");
  part.with("g", "factor that somebody stated or measured", scenario_.gpu_time_factor.get(),
            origin_word(scenario_.gpu_time_factor.origin()), "gpu.time_factor");
  const bool learnt = scenario_.software != nullptr && scenario_.model->has_layers() && !scenario_.model->measured;
  std::string sum;
  std::string of_memory = "f_c";
  if (learnt) {
    const plan::SoftwareFeatures values = plan::software_features(scenario_);
    for (const hardware::SoftwareEffect& one : scenario_.software->effects) {
      const double value = values[static_cast<std::size_t>(one.feature)];
      if (value == 0 || one.feature == hardware::SoftwareFeature::kSmallKernels) continue;
      std::string name(name_of(hardware::kSoftwareFeatures, one.feature));
      std::replace(name.begin(), name.end(), '-', '_');
      const bool memory_alone = is_of_memory(one.feature);
      const bool arithmetic_alone = is_of_arithmetic(one.feature);
      const auto add_to = [&](PartBuilder& to) {
        to.with("e_" + name, fmt::format("effect, 90 %: {} to {}", one.low, one.high), one.effect, "interpolated",
                "hardware/software/steps.yaml")
            .with("x_" + name, "how much of it the job has", value, "analytic", "plan/software.h");
      };
      if (!memory_alone) add_to(part);
      if (memory_alone || arithmetic_alone) {
        add_to(memory);
        of_memory += fmt::format(" * exp({1}e_{0} * x_{0})", name, arithmetic_alone ? "-" : "");
      }
      if (!memory_alone) {
        sum += fmt::format("{0}e_{1} * x_{1}", sum.empty() ? "" : " + ", name);
      }
    }
  }
  parts_.push_back(part.is(sum.empty() ? "g" : fmt::format("g * exp({})", sum), gpu_factor().compute));
  parts_.push_back(memory.above("f_c", "factor on kernels bound by arithmetic", gpu_factor().compute)
                       .is(of_memory, gpu_factor().memory));
}

std::string Explainer::kernels_source() const {
  if (!question_.calibrated()) return "cost/layer_time.h";
  std::string names;
  for (const hardware::MeasuredProfile& one : scenario_.cluster.node.gpu.profiles.get()) {
    names += (names.empty() ? "hardware/calibration/" : ", ") + one.profile->gpu;
  }
  return names;
}

/// How many times as long a layer's kernels take with the gaps between small ones.
double with_gaps(const cost::LayerTime& time, int kernels, const hardware::SoftwareFactor& factor) {
  const Time bare = time.kernels();
  const Time gaps = hardware::small_kernels_time(factor.small, bare, kernels);
  return gaps > Time::zero() ? 1 + gaps / bare : 1.0;
}

/// The sum over layers: the largest of them by name, and the others.
void Explainer::kernels(const std::string& name, const std::string& symbol, Time cost::LayerTime::*bound) {
  const cost::LayerPrices& prices = *question_.layers;
  const plan::RankClass& ranks = question_.plan->classes[rank_class()];
  const plan::Chunk& chunk = ranks.chunk;
  std::vector<std::pair<Time, std::size_t>> layers;
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const cost::LayerTimes& times = prices.layers[prices.first[rank_class()] + i];
    layers.emplace_back(times.forward.*bound * with_gaps(times.forward, chunk[i].forward_kernels, prices.factor) +
                            times.backward.*bound * with_gaps(times.backward, chunk[i].backward_kernels, prices.factor),
                        i);
  }
  std::stable_sort(layers.begin(), layers.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const std::string whose = question_.plan->classes.size() > 1 ? fmt::format(" of {}", ranks.role) : "";
  PartBuilder part(
      name,
      fmt::format("kernels of one pass{}, forward and backward, gaps between small ones included, no other software",
                  whose),
      symbol);
  const std::string_view from = to_string(prediction_.provenance);
  std::string equation;
  Time others;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    if (k >= kMostLayers) {
      others += layers[k].first;
      continue;
    }
    const std::string own = fmt::format("k_{}", k + 1);
    part.with(own, "layer " + chunk[layers[k].second].name, layers[k].first, from, kernels_source());
    equation += (k == 0 ? "" : " + ") + own;
  }
  if (layers.size() > kMostLayers) {
    part.with("k_rest", fmt::format("{} other layers", layers.size() - kMostLayers), others, from, kernels_source());
    equation += " + k_rest";
  }
  const cost::PricedClass& all = prices.classes[rank_class()];
  if (equation.empty()) return;
  const double arithmetic = prices.factor.compute * prices.clocks.slowdown;
  keep(part.is(equation, symbol == "K_c" ? all.compute / arithmetic : all.memory / prices.factor.memory));
}

/// Of the layer that takes longest, forward: arithmetic or memory, whichever is slower (no profile, no measurement).
void Explainer::roofline() {
  if (question_.calibrated() || scenario_.model->measured) return;
  const cost::LayerPrices& prices = *question_.layers;
  const plan::Chunk& chunk = question_.plan->classes.front().chunk;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < chunk.count; ++i) {
    if (prices.layers[i].forward.kernels() > prices.layers[largest].forward.kernels()) largest = i;
  }
  if (chunk.count == 0) return;
  const workload::Layer& layer = chunk[largest];
  const hardware::Gpu& gpu = scenario_.cluster.node.gpu;
  const std::string sheet = fmt::format("hardware/gpus/{}.yaml", gpu.id);
  const double share = cost::compute_share(scenario_);
  const bool sustained = share != scenario_.efficiency.compute.get();
  const auto stated = origin_word(scenario_.efficiency.compute.origin());
  PartBuilder part("compute",
                   fmt::format("layer {}, forward, the longest: the slower of arithmetic and memory", layer.name),
                   "k_forward");
  part.with("B", "samples of a pass", scenario_.batch, "stated", "")
      .with("w", "FLOPs of a sample", layer.forward_work, "analytic", "workload/op.h")
      .with("s_c", "share of the peak rate that is reached", share, sustained ? "datasheet" : stated,
            sustained ? sheet : "Wang et al., IISWC 2019")
      .with("Q", "peak rate of the GPU", *gpu.peak.at(multiplied_in(gpu, scenario_.precision)), "datasheet", sheet)
      .with("a", "bytes of a number", activation_size(scenario_.precision), "analytic", "support/precision.h")
      .with("e", "numbers of a sample that are read and written", layer.forward_elements, "analytic", "workload/op.h")
      .with("q", "weights that are read", layer.forward_weight_elements, "analytic", "workload/op.h")
      .with("s_m", "share of the memory's rate that is reached", scenario_.efficiency.memory.get(),
            origin_word(scenario_.efficiency.memory.origin()), "Wang et al., IISWC 2019")
      .with("M", "bandwidth of the GPU's memory", gpu.memory_bandwidth, "datasheet", sheet);
  const std::string times = "(B * w / (s_c * Q), a * (B * e + q) / (s_m * M))";
  const cost::LayerTime& time = prices.layers[largest].forward;
  const hardware::SoftwareFactor software = plan::software_factor(scenario_);
  const bool by_memory = time.memory > time.compute;
  const double more = by_memory ? 1 - software.memory / software.compute : 1 - software.compute / software.memory;
  if (more > 0) {
    part.with("u", "of the faster one: what software takes more on it", more, "interpolated", "cost/layer_time.h");
  }
  parts_.push_back(part.is("max" + times + (more > 0 ? " + u * min" + times : ""), time.kernels()));
}

void Explainer::gpu_time() {
  const cost::LayerPrices& prices = *question_.layers;
  const cost::PricedClass& all = prices.classes[rank_class()];
  const answer::Timeline& line = laid_.line;
  PartBuilder compute("compute", "kernels bound by arithmetic, all passes", "T_compute");
  compute.with("P", "passes of a step", passes(), "stated", "").above("f_c", "software", gpu_factor().compute);
  const double slowdown = prices.clocks.slowdown;
  compute.above("K_c", "kernels of one pass", all.compute / (prices.factor.compute * slowdown));
  std::string equation = "P * f_c * K_c";
  if (slowdown > 1) {
    compute.above("s", "clocks fall", slowdown);
    equation = "P * s * f_c * K_c";
  }
  if (line.decoding > Time::zero()) {
    compute.with("decode", "decoding on the GPU", line.decoding, "assumed", "input.gpu_decode");
    equation += " + decode";
  }
  keep(compute.is(equation, line.parts.compute));
  PartBuilder memory("memory-bound", "kernels bound by memory, weight update, copying gradients", "T_memory");
  memory.with("P", "passes of a step", passes(), "stated", "")
      .above("f_m", "software", gpu_factor().memory)
      .above("K_m", "kernels of one pass", all.memory / prices.factor.memory)
      .with("U", "weight update, software included", line.update, to_string(prediction_.provenance), kernels_source())
      .with("C", "copying gradients into buckets and back", line.copying, "analytic", "plan/messages.h");
  keep(memory.is("P * f_m * K_m + U + C", line.parts.memory));
}

void Explainer::launches() {
  const answer::Timeline& line = laid_.line;
  const cost::PricedClass& all = laid_.step->classes.front();
  PartBuilder part("launch", "what the GPU waits for the CPU: launches, and work on samples", "T_launch");
  part.with("P", "passes of a step", passes(), "stated", "")
      .with("F", "forward pass", line.forward, "analytic", "step/schedule.h")
      .with("G", "backward pass", line.backward, "analytic", "step/schedule.h")
      .with("A", "its kernels bound by arithmetic, software included", all.compute, "analytic", "compute")
      .with("M", "its kernels bound by memory, software included", all.memory, "analytic", "memory-bound");
  parts_.push_back(part.is("P * max(F + G - A - M, 0)", line.parts.launch));
}

void Explainer::rest() {
  const answer::Timeline& line = laid_.line;
  PartBuilder waiting("other", "a synchronous step waits for the slowest GPU", "T_wait");
  const std::int64_t gpus = scenario_.cluster.gpus();
  const double jitter = scenario_.jitter;
  waiting.with("F", "forward pass", line.forward, "analytic", "step/schedule.h")
      .with("G", "backward pass", line.backward, "analytic", "step/schedule.h")
      .with("P", "passes of a step", passes(), "stated", "")
      .with("j", "standard deviation of one GPU's step", jitter, origin_word(scenario_.jitter.origin()), "jitter")
      .with("E", fmt::format("largest of {} standard normal values, on average", gpus), cost::expected_largest(gpus),
            "analytic", "cost/straggler.h");
  parts_.push_back(waiting.is("(F + G) * sqrt(P) * j * E", line.waiting));
  PartBuilder other("other", "waiting for others, and kernels slowed by collectives", "T_other");
  other.above("T_wait", "waiting for the slowest", line.waiting);
  other.with("contention", "multiprocessors and memory that running collectives take", line.contention, "analytic",
             "lib/step/channel.cpp");
  parts_.push_back(other.is("T_wait + contention", line.parts.other));
}

/// Every collective of a plan that is not plain, once for its size.
void Explainer::collectives() {
  if (!laid_.step || !question_.plan) return;
  std::set<std::tuple<std::size_t, int, double>> seen;
  ExplainedLines lines;
  std::size_t number = 0;
  for (std::size_t i = 0; i < question_.plan->rows.size(); ++i) {
    const plan::Row& row = question_.plan->rows[i];
    const auto& group = laid_.step->groups[row.group];
    if (row.kind != plan::RowKind::kCollective || !group) continue;
    const DataSize buffer = cost::buffer_of(row, group->communicator().gpus);
    if (buffer <= DataSize::zero()) continue;
    if (!seen.insert({row.group, static_cast<int>(row.op), buffer.in(bytes)}).second) continue;
    if (++number > 3 * kMostLayers) break;
    explain_collective(*group, row.op, buffer, std::to_string(number), lines, parts_);
  }
}

void Explainer::input() {
  const answer::Timeline& line = laid_.line;
  if (!is_plain(question_)) return;
  PartBuilder part("input", "waiting for input: copies and loading run beside the step", "T_input");
  part.with("busy", "the step without it", line.step - line.parts.input_exposed, "analytic", "step/schedule.h")
      .with("H", "copying input and pulled weights over the host link", line.host_link, "analytic", "cost/price.h")
      .with("D", "the loader makes the batches", line.loading, "analytic", "cost/loader.h")
      .with("S", "what nothing runs beside", line.starved, "analytic", "cost/loader.h");
  parts_.push_back(part.is("max(max(H, D) - busy, 0) + S", line.parts.input_exposed));
}

void Explainer::memory() {
  const answer::MemoryLedger& m = prediction_.memory;
  PartBuilder part("memory", fmt::format("tensors of the fullest GPU ({})", m.rank), "N");
  std::string equation;
  const auto add = [&](const char* symbol, const char* meaning, DataSize size) {
    if (size <= DataSize::zero()) return;
    part.with(symbol, meaning, size, "analytic", "plan/memory.h");
    equation += (equation.empty() ? "" : " + ") + std::string(symbol);
  };
  add("weights", "of the model", m.weights);
  const bool adapters = scenario_.parallel.lora_rank > 0;
  add("gradients", adapters ? "of the weights that are trained" : "of all weights", m.gradients);
  add("master", "fp32 copies of weights in fewer bits", m.master);
  add("optimizer", "its states", m.optimizer_state);
  add("casts", "copies of fp32 weights in 16 bits", m.weight_casts);
  add("activations", "kept for backward", m.activations);
  add("loss", "logits and their softmax", m.loss);
  add("working", "gradients of activations and of one weight", m.working);
  add("buffers", "of communication", m.buffers);
  if (!equation.empty()) parts_.push_back(part.is(equation, prediction_.memory_per_gpu));
}

}  // namespace

Expected<void> check_equations(const std::vector<answer::ExplainedPart>& parts) {
  for (const answer::ExplainedPart& part : parts) {
    std::vector<FormulaValue> values;
    for (const answer::ExplainedValue& one : part.values) values.emplace_back(one.symbol, one.value);
    const auto result = evaluate(part.equation, values);
    if (!result) return tl::unexpected<Error>(result.error());
    double largest = 0;
    double passes = 1;  // what one pass rounds by, all do
    for (const answer::ExplainedValue& one : part.values) {
      if (one.unit == part.unit) largest = std::max(largest, std::abs(one.value));
      if (one.symbol == "P") passes = std::max(passes, one.value);
    }
    const double nothing = part.unit == "s" ? std::max(kNoTime, kSumRounding * largest) * passes : 0.0;
    if (std::abs(*result - part.result) <= kExplainedWithin * std::abs(part.result) + nothing) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("the equation of {} ({}) gives {}, the model {}: a fault of ddlsim itself", part.symbol,
                            part.title, *result, part.result));
  }
  return {};
}

Expected<answer::Explanation> explain(const Scenario& scenario, std::string_view part) {
  if (scenario.own_runs) {
    return fail(ErrorCode::kUnsupported, "measured runs correct the prediction, and no equation explains them", {},
                {"leave measured.* out to see what the model says"});
  }
  const auto question = ask(scenario);
  if (!question) return tl::unexpected<Error>(question.error());
  const auto laid = lay_out(*question, {}, is_plain(*question) ? answer::Detail::kWork : answer::Detail::kParts);
  if (!laid) return tl::unexpected<Error>(laid.error());
  auto prediction = prediction_of(*question);
  if (!prediction) return tl::unexpected<Error>(prediction.error());
  answer::Explanation explanation;
  explanation.title = describe(scenario);
  explanation.parts = Explainer(*question, *laid, *prediction).run();
  explanation.prediction = std::move(*prediction);
  if (auto sound = check_equations(explanation.parts); !sound) return tl::unexpected<Error>(sound.error());
  if (part.empty()) return explanation;
  std::vector<std::string> names;
  for (const answer::ExplainedPart& one : explanation.parts) {
    if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
  }
  const std::string wanted = fold_name(part);
  std::erase_if(explanation.parts, [&](const auto& one) { return fold_name(one.name) != wanted; });
  if (!explanation.parts.empty()) return explanation;
  return fail(ErrorCode::kNotFound, fmt::format("the job has no part '{}'", part.substr(0, 60)), {},
              {suggestion(part, names)});
}

}  // namespace ddlsim::whatif
