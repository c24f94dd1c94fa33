#include "ddlsim/calib/run_posterior.h"

#include <fmt/core.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace ddlsim::calib {
namespace {

using Index = Eigen::Index;

constexpr double kWidestPrior = 25;  // times its variances: five times its deviations
constexpr double kFarForOne = 3;     // deviations of one run from what the smallest makes of it
constexpr double kFarForSplits = 3;  // deviations, sqrt(S(smallest, smallest)), of what the smallest took

constexpr double kLoudest = 1024;  // times the variance of a run's noise
constexpr std::size_t kMany = 9;   // configurations that say how much they scatter
constexpr double kOfScales = 2;    // deviation of the logarithm of what variances count
constexpr double kScaleStep = 1.25;
constexpr std::size_t kFolds = 5;
constexpr double kShapeGain = 0.9;

double square(double x) { return x * x; }

double doublings(std::int64_t count) { return std::log2(static_cast<double>(count)); }

/// exp(-(p - q)^2 / 2 l^2).
double alike_batches(const RunPoint& x, const RunPoint& y, const RunPrior& prior) {
  return std::exp(-0.5 * square(std::log2(x.batch / y.batch) / prior.alike_batches));
}

Expected<void> check(const MeasuredRun& run) {
  const RunPoint& point = run.point;
  if (point.gpus_per_server < 1 || point.servers < 1 || !(point.batch >= 1)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("a run on {} x {} GPUs with a batch of {}", point.servers,
                                                         point.gpus_per_server, point.batch));
  }
  for (const auto& [share, what] : {std::pair{point.communication, "communication"}, {point.fixed, "fixed time"}}) {
    if (share >= 0 && share <= 1) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("a share of {} of {}: not between 0 and 1", what, share));
  }
  if (!std::isfinite(run.residual)) return fail(ErrorCode::kInvalidArgument, "a run whose step is no number");
  return {};
}

struct Configurations {
  std::vector<RunPoint> points;
  std::vector<double> means;   // of the residuals of its runs
  std::vector<double> counts;  // of runs
  std::vector<std::size_t> of_run;
};

/// Runs of one configuration are one run of their mean, with less noise. `before`: what comes before the residual.
Configurations configurations_of(std::span<const MeasuredRun> runs, const auto& before) {
  Configurations found;
  for (const MeasuredRun& run : runs) {
    const auto known = std::find(found.points.begin(), found.points.end(), run.point);
    const auto at = static_cast<std::size_t>(known - found.points.begin());
    if (known == found.points.end()) {
      found.points.push_back(run.point);
      found.means.push_back(0);
      found.counts.push_back(0);
    }
    found.means[at] += run.residual - before(run.point);
    ++found.counts[at];
    found.of_run.push_back(at);
  }
  for (std::size_t i = 0; i < found.means.size(); ++i) found.means[i] /= found.counts[i];
  return found;
}

/// What the prior's variances and the noise's count, {q, of noise}, by the likelihood of the residuals; in a basis
/// where both are diagonal a pair of them costs no factorization.
std::pair<double, double> likeliest(const Eigen::MatrixXd& of_prior, const Eigen::VectorXd& noise,
                                    const Eigen::VectorXd& residuals) {
  const Eigen::VectorXd whiten = noise.cwiseSqrt().cwiseInverse();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(whiten.asDiagonal() * of_prior * whiten.asDiagonal());
  const Eigen::ArrayXd squares =
      (solved.eigenvectors().transpose() * (whiten.asDiagonal() * residuals)).array().square();
  const Eigen::ArrayXd spread = solved.eigenvalues().array().max(0);
  std::pair<double, double> best{1, 1};
  double most = -std::numeric_limits<double>::infinity();
  for (double q = 1; q <= kWidestPrior; q *= kScaleStep) {
    for (double louder = 1; louder <= kLoudest; louder *= kScaleStep) {
      const Eigen::ArrayXd variances = q * spread + louder;
      const double log_likelihood = -0.5 * (squares / variances + variances.log()).sum();
      const double value = log_likelihood - 0.5 * (square(std::log(q)) + square(std::log(louder))) / square(kOfScales);
      if (value <= most) continue;
      most = value;
      best = {q, louder};
    }
  }
  return best;
}

}  // namespace

namespace {

/// The variance between two configurations that comes with GPUs, servers and communication.
double variance_of_scale(const RunPoint& x, const RunPoint& y, const RunPrior& prior) {
  const double per_server = std::abs(doublings(x.gpus_per_server) - doublings(y.gpus_per_server));
  const double servers = std::abs(doublings(x.servers) - doublings(y.servers));
  double sum = square(prior.gpus * per_server) + square(prior.gpus_path) * per_server;
  if ((x.servers > 1) != (y.servers > 1)) sum += square(prior.network_jump);
  sum += square(prior.servers * servers) + square(prior.servers_path) * servers;
  return sum + square(prior.communication * (x.communication - y.communication));
}

}  // namespace

double deviation_between(const RunPoint& x, const RunPoint& y, const RunPrior& prior) {
  double sum = variance_of_scale(x, y, prior);
  sum += square(prior.batch) * std::abs(std::log2(x.batch / y.batch));
  const double filled = alike_batches(x, y, prior);
  sum += 2 * square(prior.split) * (1 - (x.split.ranks == y.split.ranks ? filled : 0));
  sum += 2 * square(prior.series) * (1 - (x.software == y.software ? filled : 0));
  if (x.split.zero != y.split.zero) sum += 2 * square(prior.variant);
  if (x.split.kept != y.split.kept) sum += 2 * square(prior.variant);
  return std::sqrt(sum);
}

namespace {

/// Whether the shape of the runs predicts those of them that it was not given, with what lies between, better than that
/// alone.
bool shape_helps(std::vector<MeasuredRun> runs, const auto& predicted) {
  // No order of a file decides.
  std::sort(runs.begin(), runs.end(), [](const MeasuredRun& a, const MeasuredRun& b) {
    const auto rest = [](const MeasuredRun& run) {
      return std::tuple{run.point.communication, run.point.fixed, run.point.passes_per_second, run.residual};
    };
    if (smaller(a.point, b.point)) return true;
    return !smaller(b.point, a.point) && rest(a) < rest(b);
  });
  std::vector<std::size_t> fold_of;
  std::size_t configuration = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i > 0 && !(runs[i].point == runs[i - 1].point)) ++configuration;
    fold_of.push_back(configuration % kFolds);
  }
  double plain = 0;
  double shaped = 0;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<MeasuredRun> given;
    std::vector<MeasuredRun> left_out;
    for (std::size_t i = 0; i < runs.size(); ++i) (fold_of[i] == fold ? left_out : given).push_back(runs[i]);
    plain += predicted({}, given, left_out);
    shaped += predicted(shape_of(given), given, left_out);
  }
  return shaped < kShapeGain * plain;
}

}  // namespace

Expected<RunPosterior> RunPosterior::learn(std::span<const MeasuredRun> runs, const RunPrior& prior, double on_gpus) {
  if (runs.empty()) return fail(ErrorCode::kInvalidArgument, "no measured run");
  for (const MeasuredRun& run : runs) {
    if (auto checked = check(run); !checked) return tl::unexpected<Error>(checked.error());
  }
  auto plain = beside({}, runs, prior, on_gpus);
  if (!plain || plain->points_.size() < kMany) return plain;
  const bool known =
      std::all_of(runs.begin(), runs.end(), [](const MeasuredRun& run) { return run.point.passes_per_second > 0; });
  const auto missed = [&](const std::optional<RunShape>& shape, const auto& given, const auto& left_out) {
    const auto learnt = beside(shape, given, prior, on_gpus);
    double sum = learnt ? 0 : std::numeric_limits<double>::infinity();
    for (const MeasuredRun& run : left_out) {
      if (learnt) sum += std::abs(learnt->at(run.point).residual - run.residual);
    }
    return sum;
  };
  if (!known || !shape_helps({runs.begin(), runs.end()}, missed)) return plain;
  return beside(shape_of(runs), runs, prior, on_gpus);
}

Expected<RunPosterior> RunPosterior::beside(const std::optional<RunShape>& shape, std::span<const MeasuredRun> runs,
                                            const RunPrior& prior, double on_gpus) {
  RunPosterior posterior;
  posterior.shape_ = shape;
  const auto before = [&](const RunPoint& x) { return shape ? std::log(shape->ratio(x)) : 0; };
  posterior.prior_ = prior;
  posterior.on_gpus_ = on_gpus;
  auto [points, means, counts, of_run] = configurations_of(runs, before);
  posterior.points_ = std::move(points);
  posterior.smallest_ = *std::min_element(posterior.points_.begin(), posterior.points_.end(), smaller);
  const auto n = static_cast<Index>(posterior.points_.size());
  Eigen::MatrixXd of_prior(n, n);
  Eigen::MatrixXd noise = Eigen::MatrixXd::Zero(n, n);
  Eigen::VectorXd residuals(n);
  for (std::size_t i = 0; i < means.size(); ++i) {
    if (posterior.points_[i] == posterior.smallest_) posterior.base_ = means[i];
  }
  for (Index i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const RunPoint& x = posterior.points_[at];
    residuals(i) = means[at] - posterior.mean(x);
    noise(i, i) = square(prior.noise) / counts[at];
    for (Index j = 0; j < n; ++j) {
      of_prior(i, j) = posterior.covariance(x, posterior.points_[static_cast<std::size_t>(j)]);
    }
  }
  Eigen::LLT<Eigen::MatrixXd> factor(of_prior + noise);
  if (factor.info() != Eigen::Success) {
    return fail(ErrorCode::kInvalidArgument, "runs of one configuration need a noise above zero");
  }
  const auto others = static_cast<double>(n - 1);
  const Eigen::VectorXd explained = factor.solve(residuals);
  const Eigen::MatrixXd precision = factor.solve(Eigen::MatrixXd::Identity(n, n));
  std::vector<RunEstimate> by_others;
  for (Index i = 0; i < n; ++i) {
    const double missed = explained(i) / precision(i, i);
    const auto at = static_cast<std::size_t>(i);
    by_others.push_back({.residual = means[at] - missed + before(posterior.points_[at]),
                         .kept = posterior.mean(posterior.points_[at]),
                         .deviation = 1 / std::sqrt(precision(i, i))});
  }
  for (const std::size_t point : of_run) posterior.others_.push_back(by_others[point]);
  const double apart = residuals.dot(explained);
  if (others > 1) posterior.scale_ = std::clamp(apart / others, 1.0, kWidestPrior);
  if (others == 1) posterior.scale_ = std::clamp(apart / square(kFarForOne), 1.0, kWidestPrior);
  if (posterior.points_.size() >= kMany && prior.noise > 0) {
    const auto [of_prior_times, of_noise_times] = likeliest(of_prior, noise.diagonal(), residuals);
    posterior.scale_ = of_prior_times;
    noise *= of_noise_times;
    posterior.prior_.noise *= std::sqrt(of_noise_times);
  }
  factor.compute(posterior.scale_ * of_prior + noise);
  const Eigen::VectorXd weights = factor.solve(residuals);
  const Eigen::MatrixXd inverse = factor.solve(Eigen::MatrixXd::Identity(n, n));
  posterior.weights_.assign(weights.data(), weights.data() + n);
  posterior.inverse_.assign(inverse.data(), inverse.data() + n * n);
  return posterior;
}

double RunPosterior::covariance(const RunPoint& x, const RunPoint& y) const {
  const double a = doublings(x.gpus_per_server);
  const double b = doublings(y.gpus_per_server);
  const double u = doublings(x.servers);
  const double v = doublings(y.servers);
  const double p = std::log2(x.batch / smallest_.batch);
  const double q = std::log2(y.batch / smallest_.batch);
  double sum = square(prior_.gpus) * a * b + square(prior_.gpus_path) * std::min(a, b);
  if (x.servers > 1 && y.servers > 1) sum += square(prior_.network_jump);
  sum += square(prior_.servers) * u * v + square(prior_.servers_path) * std::min(u, v);
  sum += square(prior_.communication) * x.communication * y.communication;
  if (p * q > 0) sum += square(prior_.batch) * std::min(std::abs(p), std::abs(q));
  sum += square(prior_.variant) * (varies(x, y, &RunSplit::zero) + varies(x, y, &RunSplit::kept));
  const double known = kept(x) * kept(y) * alike(smallest_, smallest_);
  return scale_ * (sum + alike(x, y) - known);
}

double RunPosterior::varies(const RunPoint& x, const RunPoint& y, auto part) const {
  const auto same = [&](const RunPoint& a, const RunPoint& b) { return a.split.*part == b.split.*part ? 1 : 0; };
  return 1 + same(x, y) - same(x, smallest_) - same(y, smallest_);
}

double RunPosterior::alike(const RunPoint& x, const RunPoint& y) const {
  const double same = (x.split.ranks == y.split.ranks ? square(prior_.split) : 0) +
                      (x.software == y.software ? square(prior_.series) : 0);
  return same * alike_batches(x, y, prior_) + square(prior_.fixed) * x.fixed * y.fixed;
}

double RunPosterior::kept(const RunPoint& x) const {
  const double all = alike(smallest_, smallest_);
  return all > 0 ? alike(x, smallest_) / all : 1;
}

double RunPosterior::mean(const RunPoint& x) const {
  // What is further from the model than any split or filling takes a job is the job's.
  const double most = kFarForSplits * std::sqrt(alike(smallest_, smallest_));
  const double lost = 1 - kept(x);
  const double of_smallest = (base_ - lost * std::clamp(base_, -most, most)) * known_of_smaller(x);
  const double on_gpus = lost * std::clamp(on_gpus_, -most, most) * (1 - x.communication);
  // A network that the smallest configuration did not use takes no longer for what made that late.
  const bool new_network = x.servers > 1 && smallest_.servers == 1 && x.communication > smallest_.communication;
  if (!new_network) return of_smallest - on_gpus;
  const double sent = (x.communication - smallest_.communication) / (1 - smallest_.communication);
  return std::log(sent + (1 - sent) * std::exp(of_smallest)) - on_gpus;
}

double RunPosterior::known_of_smaller(const RunPoint& x) const {
  const bool less = x.servers < smallest_.servers ||
                    (x.servers == smallest_.servers && x.gpus_per_server < smallest_.gpus_per_server);
  if (!less) return 1;
  const double of_model = square(prior_.model);
  return of_model / (of_model + variance_of_scale(x, smallest_, prior_));
}

double RunPosterior::residual_at(const RunPoint& point) const {
  double residual = mean(point) + (shape_ ? std::log(shape_->ratio(point)) : 0);
  for (std::size_t i = 0; i < points_.size(); ++i) residual += covariance(point, points_[i]) * weights_[i];
  return residual;
}

RunEstimate RunPosterior::at(const RunPoint& point) const {
  const std::size_t n = points_.size();
  std::vector<double> to_runs(n);
  for (std::size_t i = 0; i < n; ++i) to_runs[i] = covariance(point, points_[i]);
  double variance =
      covariance(point, point) + square(prior_.noise) + scale_ * square(prior_.model) * (1 - known_of_smaller(point));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) variance -= to_runs[i] * inverse_[i * n + j] * to_runs[j];
  }
  return {.residual = residual_at(point),
          .kept = mean(point),
          .deviation = std::sqrt(std::max(variance, square(prior_.noise)))};
}

}  // namespace ddlsim::calib
