#include "ddlsim/whatif/elasticity.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "ddlsim/hardware/link_words.h"
#include "ddlsim/plan/software.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/predictor.h"
#include "predict/interval.h"
#include "predict/notes.h"
#include "predict/question.h"
#include "scenario/number_settings.h"

namespace ddlsim::whatif {
namespace {

constexpr double kSmallChange = 1.01;
constexpr double kOverJumps = 1.1;
constexpr double kConvention = 0.1;
constexpr double kUnchanged = 1e-12;  // of a step, that rounding makes

std::string_view role_word(NumberRole role) {
  switch (role) {
    case NumberRole::kRate: return "rate";
    case NumberRole::kFixedTime: return "fixed time";
    case NumberRole::kSize: return "size";
    case NumberRole::kOther: break;
  }
  return "other";
}

class Sensitive {
 public:
  explicit Sensitive(const Scenario& scenario) : scenario_(scenario) {}

  Expected<answer::Sensitivity> run();

 private:
  using Edit = std::function<void(Scenario&)>;

  Expected<Time> step_with(const Edit& edit);
  Expected<void> add_setting(const NumberSetting& setting);
  Expected<void> add_swing(answer::Swing swing, const Edit& low, const Edit& high);
  Expected<void> add_software();
  Expected<void> add_kernels();
  Expected<void> add_transport();
  Expected<void> add_conventions();
  Expected<void> add_share(std::string_view name, Stated<double> plan::Efficiency::*share);
  /// Which gradients a coordinator's wake just misses changes in jumps, whatever is changed.
  [[nodiscard]] bool wakes_in_cycles() const {
    return plan::grouping_of(scenario_.strategy) == plan::Grouping::kFusion;
  }
  [[nodiscard]] bool differs(Time step) const { return std::abs(step / result_.baseline.step_time - 1) > kUnchanged; }

  Scenario scenario_;
  Predictor predictor_;
  answer::Sensitivity result_;
};

Expected<Time> Sensitive::step_with(const Edit& edit) {
  Scenario changed = scenario_;
  edit(changed);
  return predictor_.step_time(changed);
}

Expected<void> Sensitive::add_setting(const NumberSetting& setting) {
  const auto now = setting.now(scenario_);
  if (!now || *now <= 0) return {};
  const auto times = [&](double factor) { return step_with([&](Scenario& s) { setting.scale(s, factor); }); };
  const double change = setting.role == NumberRole::kSize || wakes_in_cycles() ? kOverJumps : kSmallChange;
  const auto more = times(change);
  const auto less = times(1 / change);
  const auto doubled = times(2);
  const auto halved = times(0.5);
  for (const auto* step : {&more, &less, &doubled, &halved}) {
    if (!*step) return tl::unexpected<Error>(step->error());
  }
  if (!differs(*more) && !differs(*less) && !differs(*doubled) && !differs(*halved)) {
    result_.without_effect.emplace_back(setting.path);
    return {};
  }
  answer::Elasticity one;
  one.setting = setting.path;
  one.role = role_word(setting.role);
  one.now = number_text(setting.kind, *now, 4);
  one.value = *now;
  one.unit = si_unit(setting.kind);
  one.elasticity = std::log(*more / *less) / (2 * std::log(change));
  one.halved = *halved;
  one.doubled = *doubled;
  if (setting.role == NumberRole::kRate) result_.own_constants -= one.elasticity;
  if (setting.role == NumberRole::kFixedTime) result_.own_constants += one.elasticity;
  result_.elasticities.push_back(std::move(one));
  return {};
}

Expected<void> Sensitive::add_swing(answer::Swing swing, const Edit& low, const Edit& high) {
  const auto at_low = step_with(low);
  if (!at_low) return tl::unexpected<Error>(at_low.error());
  const auto at_high = step_with(high);
  if (!at_high) return tl::unexpected<Error>(at_high.error());
  if (!differs(*at_low) && !differs(*at_high)) return {};
  swing.step_low = *at_low;
  swing.step_high = *at_high;
  result_.swings.push_back(std::move(swing));
  return {};
}

/// Effects of features that the job has.
Expected<void> Sensitive::add_software() {
  if (scenario_.software == nullptr) return {};
  const plan::SoftwareFeatures values = plan::software_features(scenario_);
  const auto& effects = scenario_.software->effects;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    const hardware::SoftwareEffect& one = effects[i];
    if (values[static_cast<std::size_t>(one.feature)] == 0) continue;
    const auto with = [&](double effect) {
      return [this, i, effect](Scenario& s) {
        auto changed = std::make_shared<hardware::SoftwareProfile>(*scenario_.software);
        changed->effects[i].effect = effect;
        s.software = std::move(changed);
      };
    };
    answer::Swing swing{.name = fmt::format("software, {}", name_of(hardware::kSoftwareFeatures, one.feature)),
                        .low = significant(one.low),
                        .high = significant(one.high),
                        .low_value = one.low,
                        .high_value = one.high,
                        .measured = true,
                        .spread = "5 % to 95 % of the resampled sources"};
    if (auto added = add_swing(std::move(swing), with(one.low), with(one.high)); !added) return added;
  }
  return {};
}

Expected<void> Sensitive::add_kernels() {
  const auto question = ask(scenario_);
  if (!question) return tl::unexpected<Error>(question.error());
  if (scenario_.gpu_time_measured || scenario_.model->measured) return {};
  double low = kInterval90Low;
  double high = kInterval90High;
  answer::Swing swing{
      .name = "GPU time without a profile", .measured = true, .spread = "measured / predicted time of published steps"};
  if (const cost::CalibratedTimes* times = question->calibrated()) {
    const Time kernels = times->measured + times->extrapolated + times->assumed;
    if (kernels <= Time::zero()) return {};
    // Not every kernel of a step errs as far as one may, and all the same way.
    const auto [least, most] = whole_step_ends(*question);
    low = std::max(times->low / kernels, least);
    high = std::min(times->high / kernels, most);
    swing.name = "curves of the GPU's profile";
    swing.spread = "90 % of what they err by on kernels held out, no farther than published steps do";
  }
  swing.low = "x " + significant(low, 3);
  swing.high = "x " + significant(high, 3);
  swing.low_value = low;
  swing.high_value = high;
  const auto with = [](double factor) {
    return [factor](Scenario& s) { s.gpu_time_factor.set(s.gpu_time_factor.get() * factor); };
  };
  return add_swing(std::move(swing), with(low), with(high));
}

Expected<void> Sensitive::add_transport() {
  const auto question = ask(scenario_);
  if (!question) return tl::unexpected<Error>(question.error());
  if (!assumes_transport(*question)) return {};
  const auto with = [](hardware::NetworkTransport transport) {
    return [transport](Scenario& s) { s.cluster.node.network.transport = std::optional(transport); };
  };
  return add_swing({.name = "the network's transport",
                    .low = "roce",
                    .high = "tcp",
                    .measured = false,
                    .spread = "nobody says what drives the network"},
                   with(hardware::NetworkTransport::kRoce), with(hardware::NetworkTransport::kTcp));
}

Expected<void> Sensitive::add_share(std::string_view name, Stated<double> plan::Efficiency::*share) {
  const Stated<double>& now = scenario_.efficiency.*share;
  if (now.stated()) return {};
  const double high = std::min(now * (1 + kConvention), 1.0);
  const double low = now * (1 - kConvention);
  // A share that somebody states counts where a library's own does: only its value is moved.
  const auto with = [share](double value) { return [share, value](Scenario& s) { (s.efficiency.*share).set(value); }; };
  return add_swing({.name = std::string(name),
                    .low = number_text(NumberKind::kShare, low, 3),
                    .high = number_text(NumberKind::kShare, high, 3),
                    .low_value = low,
                    .high_value = high,
                    .measured = false,
                    .spread = "10 % either way: nobody measured its spread"},
                   with(low), with(high));
}

/// What stands at a default, or at a datasheet's figure.
Expected<void> Sensitive::add_conventions() {
  using plan::Efficiency;
  const auto& joined = scenario_.cluster.node.nvlink;
  const std::string inside = fmt::format("share of {}'s rate", joined ? hardware::gpu_link_word(*joined) : "NVLink");
  for (const auto& [name, share] :
       {std::pair<std::string_view, Stated<double> Efficiency::*>{"share of PCIe's rate", &Efficiency::pcie},
        {inside, &Efficiency::nvlink},
        {"share of the network's rate", &Efficiency::network}}) {
    if (auto added = add_share(name, share); !added) return added;
  }
  for (const NumberSetting& setting : number_settings()) {
    const bool constant = setting.role == NumberRole::kFixedTime || setting.path == "ps.memory_bandwidth";
    const auto now = constant ? setting.now(scenario_) : std::nullopt;
    if (!now || *now <= 0) continue;
    const auto with = [&](double factor) { return [&setting, factor](Scenario& s) { setting.scale(s, factor); }; };
    const bool host = setting.path == "launch_interval" && scenario_.launch_interval.origin() == Origin::kDefault;
    const double low = host ? plan::kShortLaunchInterval.in(seconds) : *now * (1 - kConvention);
    const double high = host ? plan::kLongLaunchInterval.in(seconds) : *now * (1 + kConvention);
    auto added = add_swing(
        {.name = std::string(setting.path),
         .low = number_text(setting.kind, low, 3),
         .high = number_text(setting.kind, high, 3),
         .low_value = low,
         .high_value = high,
         .unit = std::string(si_unit(setting.kind)),
         .measured = false,
         .spread = host ? "what hosts leave; nobody states this one's" : "10 % either way: nobody measured its spread"},
        with(low / *now), with(high / *now));
    if (!added) return added;
  }
  const double jitter = scenario_.jitter;
  if (jitter <= 0 || scenario_.jitter.stated()) return {};
  const auto with = [](double value) { return [value](Scenario& s) { s.jitter.set(value); }; };
  return add_swing({.name = "jitter",
                    .low = number_text(NumberKind::kShare, jitter * (1 - kConvention), 3),
                    .high = number_text(NumberKind::kShare, jitter * (1 + kConvention), 3),
                    .low_value = jitter * (1 - kConvention),
                    .high_value = jitter * (1 + kConvention),
                    .measured = false,
                    .spread = "10 % either way: nobody measured its spread"},
                   with(jitter * (1 - kConvention)), with(jitter * (1 + kConvention)));
}

Expected<answer::Sensitivity> Sensitive::run() {
  auto baseline = predictor_.predict(scenario_);
  if (!baseline) return tl::unexpected<Error>(baseline.error());
  result_.title = describe(scenario_);
  result_.baseline = std::move(*baseline);
  result_.own_constants = -1;
  for (const NumberSetting& setting : number_settings()) {
    if (setting.role == NumberRole::kOther) continue;
    if (auto added = add_setting(setting); !added) return tl::unexpected<Error>(added.error());
  }
  for (const auto add :
       {&Sensitive::add_software, &Sensitive::add_kernels, &Sensitive::add_transport, &Sensitive::add_conventions}) {
    if (auto added = (this->*add)(); !added) return tl::unexpected<Error>(added.error());
  }
  std::stable_sort(result_.elasticities.begin(), result_.elasticities.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.elasticity) > std::abs(b.elasticity); });
  std::stable_sort(result_.swings.begin(), result_.swings.end(),
                   [](const auto& a, const auto& b) { return a.width() > b.width(); });
  return std::move(result_);
}

}  // namespace

Expected<answer::Sensitivity> elasticities(const Scenario& scenario) { return Sensitive(scenario).run(); }

Expected<answer::Sensitivity> elasticities(const io::Catalog& catalog, std::span<const Override> base) {
  return resolve(catalog, base).and_then([](const Scenario& scenario) { return elasticities(scenario); });
}

}  // namespace ddlsim::whatif
