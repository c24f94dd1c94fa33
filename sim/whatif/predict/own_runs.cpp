#include "ddlsim/whatif/own_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "ddlsim/cost/loader.h"
#include "ddlsim/plan/input.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "predict/correction.h"
#include "predict/interval.h"
#include "predict/prediction.h"

namespace ddlsim::whatif {
namespace {

/// Deviations between a run and what the others make of it.
constexpr double kDoubtful = 6;
/// Below it a difference is none.
constexpr double kNoticed = 0.02;

/// GPUs of one server are not so much slower or faster than modelled; what is further off waits for something else.
constexpr double kMostOfGpus = 1.6;

/// Links are not so much slower or faster than modelled.
constexpr double kLeastShare = 0.2;
constexpr double kMostShare = 5;

/// A step that takes longer by so much is in another unit, or of something else.
constexpr double kMostWait = 100;

/// A step that takes so many times the upper end of what the model expects is likely in another unit.
constexpr double kLikelyUnit = 4;

/// One run, asked.
struct AskedRun {
  const OwnRun* run;
  Question question;
  Laid laid;
};

std::int64_t gpus_of(const OwnRun& run) { return run.scenario.cluster.gpus(); }

/// Whether two runs' steps are of the same work in the same place. Passes are no part of a configuration: what the
/// model says of them has no error of its own.
bool same_place(const Scenario& a, const Scenario& b) {
  return configuration_of(a) == configuration_of(b) && a.strategy.accumulation == b.strategy.accumulation;
}

std::string place(const Scenario& scenario) {
  const hardware::Cluster& cluster = scenario.cluster;
  if (cluster.gpus() == 1) return "one GPU";
  if (cluster.nodes == 1) return fmt::format("{} GPUs of one server", cluster.gpus_per_node);
  return fmt::format("{} servers ({} GPUs)", to_text(cluster.nodes), to_text(cluster.gpus()));
}

/// A link that needs longer than a step for its bytes, at its full rate.
std::optional<answer::LinkTraffic> overtaken_link(const Scenario& scenario, Time step) {
  Scenario full = scenario;
  full.efficiency = plan::Efficiency::uniform(1);
  full.cluster.node.network.transport = hardware::NetworkTransport::kInfiniband;
  const auto question = ask(full);
  if (!question) return std::nullopt;
  const auto laid = lay_out(*question, {}, answer::Detail::kParts);
  if (!laid) return std::nullopt;
  const auto found = std::find_if(laid->traffic.begin(), laid->traffic.end(),
                                  [&](const answer::LinkTraffic& traffic) { return traffic.time > step; });
  return found == laid->traffic.end() ? std::nullopt : std::optional(*found);
}

Expected<void> check_wire(const OwnRun& run) {
  auto link = overtaken_link(run.scenario, run.step);
  if (link && run.scenario.collective.kind == plan::CollectiveLibraryKind::kNccl &&
      !run.scenario.collective.algorithm) {
    // NCCL may have taken another way than the one predicted: hierarchies send the least between servers.
    Scenario other = run.scenario;
    other.collective.algorithm = plan::CollectiveAlgorithm::kHierarchical;
    link = overtaken_link(other, run.step);
  }
  if (!link) return {};
  return fail(
      ErrorCode::kInfeasible,
      fmt::format("a measured step of {} on {} is faster than the wire allows: its {} over {} take {} at the "
                  "full rate",
                  to_text(run.step), place(run.scenario), to_text(link->bytes), link->link, to_text(link->time)),
      run.where, {"look at the unit, and at what the scenario says of the network and of the exchange"});
}

/// What storage needs for a step's samples at the rate that somebody stated.
Expected<void> check_reading(const OwnRun& run) {
  const Scenario& scenario = run.scenario;
  if (!scenario.model->has_layers() || !scenario.input.dataset || !plan::check_input(scenario)) return {};
  const auto passes = static_cast<double>(scenario.strategy.accumulation.get());
  const Time least = cost::least_reading(scenario) * passes;
  if (least <= run.step) return {};
  const std::int64_t samples = plan::replicas_of(scenario) * scenario.batch * scenario.strategy.accumulation.get();
  return fail(
      ErrorCode::kInfeasible,
      fmt::format("a measured step of {} on {} is faster than its storage allows: its {} {} take {} at the stated rate",
                  to_text(run.step), place(scenario), to_text(samples),
                  in_number(samples, scenario.input.dataset->sample), to_text(least)),
      run.where, {"look at the unit, and at what the scenario says of storage, cache and epoch"});
}

/// What GPUs need for a step's work at their full rate, and what no wait explains.
Expected<void> check_work(const OwnRun& run) {
  const auto model = predict(run.scenario);
  if (!model) return {};
  if (run.step > model->step_time * kMostWait) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("a measured step of {} on {} is {:.0f} times what the model says ({})", to_text(run.step),
                            place(run.scenario), run.step / model->step_time, to_text(model->step_time)),
                run.where, {"look at the unit, the batch, and whether it is a step or an epoch"});
  }
  const Time least = least_of_work(*model);
  if (least <= run.step) return {};
  // Four digits, unless they hide the difference.
  const bool close = to_text(least) == to_text(run.step);
  const auto words = [&](Time time) { return close ? to_exact_text(time) : to_text(time); };
  std::vector<std::string> notes{"look at the unit, the batch, and the precision (--precision tf32?)"};
  if (const std::int64_t passes = run.scenario.strategy.accumulation; passes > 1) {
    notes.push_back(fmt::format("read as {} passes of {} on each replica: state passes or global_batch in the table",
                                to_text(passes), to_text(run.scenario.batch)));
  }
  return fail(
      ErrorCode::kInfeasible,
      fmt::format("a measured step of {} on {} is faster than its GPUs can be: its work takes {} at their full "
                  "rate in {}",
                  words(run.step), place(run.scenario), words(least), name_of(kPrecisions, run.scenario.precision)),
      run.where, std::move(notes));
}

/// Geometric mean of the runs of the smallest configuration.
Time smallest_step(std::span<const OwnRun> runs, const OwnRun& smallest) {
  double sum = 0;
  double count = 0;
  for (const OwnRun& run : runs) {
    if (!same_place(run.scenario, smallest.scenario)) continue;
    sum += std::log(run.step.in(seconds));
    ++count;
  }
  return seconds(std::exp(sum / count));
}

const OwnRun& smallest_of(std::span<const OwnRun> runs) {
  return *std::min_element(runs.begin(), runs.end(), [](const OwnRun& a, const OwnRun& b) {
    return calib::smaller(configuration_of(a.scenario), configuration_of(b.scenario));
  });
}

/// Runs of one configuration that are too far apart to speak of one job.
Expected<void> check_spread(std::span<const OwnRun> runs) {
  for (const OwnRun& run : runs) {
    for (const OwnRun& other : runs) {
      if (!same_place(run.scenario, other.scenario) || run.step <= other.step * kMostSpread) continue;
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("runs that contradict each other: {} and {} on {}", to_text(other.step),
                              to_text(run.step), place(run.scenario)),
                  std::max(&run, &other)->where, {"leave out the run that is of another job, or of a start-up"});
    }
  }
  return {};
}

/// The share of their rates that links must have had for the step to take what was measured; none explains it.
std::optional<double> share_of_links(const AskedRun& asked, double cost::Variation::*first,
                                     double cost::Variation::*second) {
  const auto step_at = [&](double share) {
    cost::Variation varied;
    varied.*first = varied.*second = share;
    const auto laid = lay_out(asked.question, varied, answer::Detail::kTime);
    return laid ? laid->line.step : Time::infinity();
  };
  double low = 0.01;
  double high = 100;
  if (step_at(low) < asked.run->step || step_at(high) > asked.run->step) return std::nullopt;
  for (int i = 0; i < 40; ++i) {
    const double middle = std::sqrt(low * high);
    (step_at(middle) > asked.run->step ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

std::string difference(double ratio) {
  if (std::abs(ratio - 1) < kNoticed) return "what the model says";
  return fmt::format("{:.0f} % {} than the model's", 100 * std::abs(ratio - 1), ratio > 1 ? "longer" : "shorter");
}

/// What a run says beside the smallest.
struct Said {
  std::string text;
  bool by_links = false;  // another rate of them explains it
};

/// "your steps on 2 servers (16 GPUs) take 18 % longer than the model's: as if the network gave 61 % of its rate"
Said said_by(const AskedRun& asked) {
  const Scenario& scenario = asked.run->scenario;
  const double ratio = asked.run->step / asked.laid.line.step;
  std::string text = fmt::format("your steps on {} take {}", place(scenario), difference(ratio));
  if (std::abs(ratio - 1) < kNoticed) return {std::move(text)};
  const bool across = scenario.cluster.nodes > 1;
  const auto share = across ? share_of_links(asked, &cost::Variation::network, &cost::Variation::transport)
                            : share_of_links(asked, &cost::Variation::nvlink, &cost::Variation::pcie);
  if (!share || *share < kLeastShare || *share > kMostShare) {
    return {text + fmt::format(", which {} hardly explain{}: look at input, host and clocks",
                               across ? "the network" : "the server's links", across ? "s" : "")};
  }
  return {text + fmt::format(": as if {} {:.0f} % of {}", across ? "the network gave" : "the server's links gave",
                             100 * *share, across ? "its rate" : "theirs"),
          true};
}

/// By the largest configuration of one server, or of several: what was learnt beside the GPU's speed.
std::optional<Said> said_of(const std::vector<AskedRun>& asked, const OwnRun& smallest, bool across) {
  const AskedRun* largest = nullptr;
  for (const AskedRun& one : asked) {
    const bool here = (one.run->scenario.cluster.nodes > 1) == across && gpus_of(*one.run) > gpus_of(smallest);
    if (here && (largest == nullptr || gpus_of(*one.run) > gpus_of(*largest->run))) largest = &one;
  }
  if (largest == nullptr) return std::nullopt;
  return said_by(*largest);
}

/// Measured over modelled, of the smallest configuration.
double of_smallest(const calib::RunPosterior& posterior) {
  const auto& shape = posterior.shape();
  return std::exp(posterior.base()) * (shape ? shape->ratio(posterior.smallest()) : 1);
}

/// "by all runs GPU time is 0.9 times the model's, communication 1 within a server and 4 across, every pass takes 112
/// ms more"
std::optional<std::string> shape_in_words(const calib::RunPosterior& posterior, double gpu_factor) {
  const auto& shape = posterior.shape();
  if (!shape) return std::nullopt;
  std::string text = fmt::format(
      "by all runs GPU time is {:.3g} times the model's, communication {:.3g} within a server "
      "and {:.3g} across",
      shape->gpu * gpu_factor, shape->within, shape->across);
  for (const auto& [wait, what] : {std::pair{shape->host, "every pass"},
                                   {shape->join, "one of several GPUs of a server"},
                                   {shape->join_servers, "one across servers"}}) {
    if (wait > 0) text += fmt::format(", {} takes {} more", what, to_text(seconds(wait)));
  }
  return text;
}

/// "3 runs on 8 GPUs of one server differ by 4 %"
std::vector<std::string> spreads(std::span<const OwnRun> runs) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Time least = runs[i].step;
    Time most = least;
    int count = 0;
    bool first = true;
    for (std::size_t j = 0; j < runs.size(); ++j) {
      if (!same_place(runs[i].scenario, runs[j].scenario)) continue;
      first = first && j >= i;
      ++count;
      least = min(least, runs[j].step);
      most = max(most, runs[j].step);
    }
    if (!first || count < 2) continue;
    texts.push_back(
        fmt::format("{} runs on {} differ by {:.1f} %", count, place(runs[i].scenario), 100 * (most / least - 1)));
  }
  return texts;
}

/// Whether a run took no longer than its loader does, as the model has it: what else there was is hidden behind that.
bool waits_for_input(const AskedRun& asked) {
  if (!asked.laid.step || !asked.laid.step->loader) return false;
  return step_beside_loader(asked.laid, Time::zero()) > asked.run->step * (1 - kNoticed);
}

/// What of a measured step is no wait for the loader, which works beside it. Requires a run that did not wait.
Time busy_in(const AskedRun& asked) {
  Time low;
  Time high = asked.run->step;
  for (int i = 0; i < 50; ++i) {
    const Time middle = (low + high) / 2.0;
    (step_beside_loader(asked.laid, middle) > asked.run->step ? high : low) = middle;
  }
  return high;
}

double scatter_of(std::span<const OwnRun> runs) {
  double most = 0;
  for (const OwnRun& one : runs) {
    double sum = 0;
    double squares = 0;
    double count = 0;
    for (const OwnRun& other : runs) {
      if (!same_place(one.scenario, other.scenario)) continue;
      const double deviation = std::log(other.step / one.step);
      sum += deviation;
      squares += deviation * deviation;
      count += 1;
    }
    if (count > 1) most = std::max(most, (squares - sum * sum / count) / (count - 1));
  }
  return std::sqrt(most);
}

tl::unexpected<Error> of_run(Error error, const OwnRun& run) {
  if (error.where.file.empty()) error.where = run.where;
  error.notes.emplace_back("in a measured run");
  return tl::unexpected<Error>(std::move(error));
}

/// Of all GPU time. 1 where the network, the split, or something else than kernels may have made the difference.
Expected<double> gpu_factor(const OwnRun& smallest, Time measured) {
  const hardware::Cluster& cluster = smallest.scenario.cluster;
  if (cluster.nodes > 1 || plan::splits_model(smallest.scenario.parallel)) return 1.0;
  auto fitted = fit_gpu_time(smallest.scenario, measured);
  if (!fitted) {
    if (fitted.error().code == ErrorCode::kInfeasible) return 1.0;
    return fitted;
  }
  const double factor = *fitted / smallest.scenario.gpu_time_factor;
  const bool likely = cluster.gpus() == 1 || (factor < kMostOfGpus && factor > 1 / kMostOfGpus);
  return likely ? factor : 1.0;
}

/// "your step of 5 s on 2 servers (16 GPUs) (line 3) does not go with the others, which make it 543 ms": of the run
/// that the others expect least, or of two that do not go together.
std::optional<std::string> doubtful(const std::vector<AskedRun>& asked, std::span<const calib::MeasuredRun> points,
                                    const calib::RunPosterior& posterior) {
  if (asked.size() < 2) return std::nullopt;
  double most = kDoubtful;
  std::size_t which = asked.size();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const calib::RunEstimate& others = posterior.by_others()[i];
    const double away = std::abs(points[i].residual - others.residual) / others.deviation;
    if (points[i].point == posterior.smallest() || away <= most) continue;
    most = away;
    which = i;
  }
  if (which == asked.size()) return std::nullopt;
  const OwnRun& run = *asked[which].run;
  if (asked.size() == 2) {  // nobody knows which is right
    const OwnRun& other = *asked[1 - which].run;
    return fmt::format(
        "your steps of {} on {} and of {} on {} do not go together: is one of another job, or the network "
        "another than the scenario says?",
        to_text(other.step), place(other.scenario), to_text(run.step), place(run.scenario));
  }
  const std::string where = run.where.line > 0 ? fmt::format(", line {},", run.where.line) : "";
  const double ratio = std::exp(posterior.by_others()[which].residual - points[which].residual);
  return fmt::format("your step of {} on {}{} does not go with the others, which make it {}: is it of this job?",
                     to_text(run.step), place(run.scenario), where, to_text(run.step * ratio));
}

/// "a measured step of 91 s on one GPU is 10 times what the model says (9 s): look at the unit, ...": of the first run
/// that takes so long.
std::optional<std::string> unlikely_unit(std::span<const OwnRun> runs) {
  for (const OwnRun& run : runs) {
    const auto question = ask(run.scenario);
    if (!question) continue;
    const auto laid = lay_out(*question, {}, answer::Detail::kParts);
    if (!laid || run.step <= interval_of(*question, laid->line).second * kLikelyUnit) continue;
    return fmt::format(
        "your step of {} on {} is {:.0f} times what the model says ({}): look at the unit, the batch, and whether it "
        "is one step",
        to_text(run.step), place(run.scenario), run.step / laid->line.step, to_text(laid->line.step));
  }
  return std::nullopt;
}

}  // namespace

Expected<void> check_runs(std::span<const OwnRun> runs) {
  if (auto agree = check_spread(runs); !agree) return agree;
  for (const OwnRun& run : runs) {
    if (auto possible = check_wire(run); !possible) return possible;
    if (auto possible = check_reading(run); !possible) return possible;
    if (auto possible = check_work(run); !possible) return possible;
  }
  return {};
}

Expected<std::shared_ptr<const OwnRuns>> OwnRuns::learn(std::span<const OwnRun> runs) {
  if (runs.empty()) return fail(ErrorCode::kInvalidArgument, "no measured run");
  const OwnRun& smallest = smallest_of(runs);
  const auto factor = gpu_factor(smallest, smallest_step(runs, smallest));
  if (!factor) return of_run(factor.error(), smallest);
  std::vector<OwnRun> adjusted(runs.begin(), runs.end());
  for (OwnRun& run : adjusted) {
    run.scenario.gpu_time_factor.set(run.scenario.gpu_time_factor * *factor);
  }
  std::vector<AskedRun> asked;
  for (const OwnRun& run : adjusted) {
    auto question = ask(run.scenario);
    if (!question) return of_run(std::move(question.error()), run);
    auto laid = lay_out(*question, {}, answer::Detail::kParts);
    if (!laid) return of_run(std::move(laid.error()), run);
    asked.push_back({&run, std::move(*question), std::move(*laid)});
  }
  const bool waited = std::any_of(asked.begin(), asked.end(), waits_for_input);
  std::vector<calib::MeasuredRun> points;
  std::vector<Time> modelled;
  for (const AskedRun& one : asked) {
    const bool apart = !waited && one.laid.step && one.laid.step->loader;
    const Time measured = apart ? busy_in(one) : one.run->step;
    points.push_back({point_of(one.question, one.laid, apart), std::log(measured / spoken_of(one.laid, apart))});
    modelled.push_back(one.laid.line.step);
  }
  auto posterior = calib::RunPosterior::learn(points, {}, std::log(*factor));
  if (!posterior) return tl::unexpected<Error>(posterior.error());
  auto learnt = std::shared_ptr<OwnRuns>(new OwnRuns(std::move(*posterior), smallest.scenario));
  learnt->gpu_time_factor_ = *factor;
  learnt->scatter_ = scatter_of(runs);
  learnt->waited_for_input_ = waited;
  for (const calib::MeasuredRun& run : points) {
    learnt->most_per_server_ = std::max(learnt->most_per_server_, run.point.gpus_per_server);
    learnt->most_servers_ = std::max(learnt->most_servers_, run.point.servers);
    learnt->ran_.push_back(run.point);
  }
  learnt->modelled_ = std::move(modelled);
  const std::string count = fmt::format("{} measured run{}", runs.size(), runs.size() == 1 ? "" : "s");
  const bool by_gpu = *factor != 1;
  const bool apart = !waited && smallest.scenario.input.dataset;
  learnt->learnt_.push_back(fmt::format("{}: by the step on {} {} {:.3g} times the model's", count,
                                        place(smallest.scenario),
                                        by_gpu  ? "all GPU time is"
                                        : apart ? "the step beside its loader is"
                                                : "the whole step is",
                                        by_gpu ? *factor : of_smallest(learnt->posterior_)));
  if (auto shape = shape_in_words(learnt->posterior_, *factor)) learnt->learnt_.push_back(std::move(*shape));
  for (const bool across : {false, true}) {
    auto said = said_of(asked, smallest, across);
    if (!said) continue;
    learnt->learnt_.push_back(std::move(said->text));
    (across ? learnt->across_by_links_ : learnt->within_by_links_) = said->by_links;
  }
  for (std::string& text : spreads(runs)) learnt->learnt_.push_back(std::move(text));
  if (auto unit = unlikely_unit(runs)) learnt->learnt_.push_back(std::move(*unit));
  if (const auto doubt = doubtful(asked, points, learnt->posterior_)) learnt->learnt_.push_back(*doubt);
  return learnt;
}

bool OwnRuns::covers(const calib::RunPoint& point) const {
  return point.gpus_per_server <= most_per_server_ && point.servers <= most_servers_ && ran_split_as(point);
}

bool OwnRuns::ran_itself(const calib::RunPoint& point, Time model) const {
  constexpr double kSame = 1e-9;
  const auto same = [](double a, double b) { return std::abs(a - b) <= kSame; };
  for (std::size_t i = 0; i < ran_.size(); ++i) {
    calib::RunPoint one = ran_[i];
    const bool alike = same(one.communication, point.communication) && same(one.fixed, point.fixed);
    one.communication = point.communication;
    one.fixed = point.fixed;
    one.passes_per_second = point.passes_per_second;
    if (alike && one == point && same(modelled_[i] / model, 1)) return true;
  }
  return false;
}

bool OwnRuns::ran_split_as(const calib::RunPoint& point) const {
  const bool whole = point.split == calib::RunSplit{};
  return std::any_of(ran_.begin(), ran_.end(), [&](const calib::RunPoint& run) {
    return run.split == point.split && run.software == point.software && (whole || run.batch == point.batch);
  });
}

Scenario corrected(Scenario scenario, std::shared_ptr<const OwnRuns> runs) {
  scenario.gpu_time_factor.set(scenario.gpu_time_factor * runs->gpu_time_factor());
  scenario.gpu_time_measured = true;
  scenario.own_runs = std::move(runs);
  return scenario;
}

}  // namespace ddlsim::whatif
