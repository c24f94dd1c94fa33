#include "ddlsim/whatif/predict.h"

#include <fmt/core.h>

#include <utility>

#include "ddlsim/step/schedule.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/fitting.h"
#include "ddlsim/whatif/predictor.h"
#include "predict/prediction.h"
#include "predict/question.h"

namespace ddlsim::whatif {

Expected<answer::Prediction> predict(const Scenario& scenario) {
  const auto question = ask(scenario);
  if (!question) return tl::unexpected<Error>(question.error());
  auto prediction = prediction_of(*question);
  if (prediction) add_notes_of_one_job(scenario, *prediction);
  return prediction;
}

void add_notes_of_one_job(const Scenario& scenario, answer::Prediction& prediction) {
  add_ways_to_fit(scenario, prediction);
  if (auto note = other_prices_note(scenario)) prediction.notes.push_back(std::move(*note));
}

Expected<double> fit_gpu_time(const Scenario& scenario, Time measured) {
  Predictor predictor;
  if (const auto can = predictor.step_time(scenario); !can) return tl::unexpected<Error>(can.error());
  Scenario varied = scenario;
  const auto step_at = [&](double factor) {
    varied.gpu_time_factor.set(factor);
    return predictor.step_time(varied).value_or(Time::infinity());  // it would take over 106 days
  };
  double low = 1e-6;
  double high = 1;
  while (step_at(high) < measured && high < 1e6) high *= 4;
  if (step_at(low) > measured) {
    return fail(ErrorCode::kInfeasible, fmt::format("no GPU speed gives a step of {}: what is no GPU time takes {}",
                                                    to_text(measured), to_text(step_at(low))));
  }
  if (step_at(high) < measured) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("a step of {} is over a million times what is predicted", to_text(measured)));
  }
  while (high - low > 1e-10 * high) {
    const double middle = 0.5 * (low + high);
    (step_at(middle) < measured ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

Expected<events::EventStep> simulate(const Scenario& scenario) {
  const auto question = ask(scenario);
  if (!question) return tl::unexpected<Error>(question.error());
  if (question->fidelity != answer::Fidelity::kEvent) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the {} fidelity simulates nothing", name_of(answer::kFidelities, question->fidelity)), {},
                {"use fidelity event"});
  }
  return simulate(*question);
}

Expected<RecordedStep> record(const Scenario& scenario) {
  const auto question = ask(scenario);
  if (!question) return tl::unexpected<Error>(question.error());
  const auto unsupported = [](std::string what, std::string note) {
    return fail(ErrorCode::kUnsupported, std::move(what), {}, {std::move(note)});
  };
  if (!question->plan) {
    return unsupported("the aggregate fidelity has no layers to make a graph of", "use fidelity analytic");
  }
  if (question->plan->servers) {
    return unsupported("parameter servers have no node in a graph of kernels and collectives",
                       "use strategy allreduce");
  }
  if (scenario.overlap == plan::Overlap::kIdeal) {
    return unsupported("ideal overlap is a bound, and no schedule", "use overlap backward");
  }
  if (scenario.strategy.sync_every > 1) {
    return unsupported("local SGD has steps of two kinds, and a graph is of one", "use strategy.sync_every 1");
  }
  if (scenario.jobs > 1) {
    return unsupported(fmt::format("one graph for {} jobs", to_text(scenario.jobs)), "leave jobs out");
  }
  if (!question->plan->folds) return unsupported("a split model has no graph yet", "leave its splits out");
  const auto priced = cost::price(scenario, question->plan, *question->layers);
  if (!priced) return tl::unexpected<Error>(priced.error());
  auto line = step::schedule(*priced, answer::Detail::kWork);
  if (!line) return tl::unexpected<Error>(line.error());
  RecordedStep step{.plan = question->plan, .line = std::move(*line)};
  if (step.line.update > Time::zero()) step.updated = question->plan->classes.front().updated;
  return step;
}

}  // namespace ddlsim::whatif
