// The factor that a framework takes on top of kernels, worked by hand; and which jobs have none.
#include "ddlsim/plan/software.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

using namespace ddlsim;
using namespace ddlsim::plan;
using hardware::SoftwareFactor;
using hardware::SoftwareFeature;

namespace {

std::shared_ptr<workload::Model> one_linear(std::int64_t width) {
  auto model = std::make_shared<workload::Model>();
  auto layer = workload::layer_of(workload::Linear{.out = width, .bias = false}, {width}, "fc").value().layer;
  layer.forward_kernels = 1;
  layer.backward_kernels = 1;
  model->layers.push_back(layer);
  model->totals = workload::total(model->layers).value();
  return model;
}

Job job_of(std::int64_t width) {
  Job job;
  job.model = one_linear(width);
  job.cluster.node.gpu.nccl_tuning = hardware::GpuGeneration::kVolta;
  return job;
}

Job convolutional_job(Precision precision) {
  Job job = job_of(1024);
  auto model = std::make_shared<workload::Model>(*job.model);
  model->totals.convolutional = true;
  job.model = model;
  job.precision = precision;
  return job;
}

double feature(const Job& job, SoftwareFeature which) {
  return software_features(job)[static_cast<std::size_t>(which)];
}

std::shared_ptr<const hardware::SoftwareProfile> learnt(std::vector<hardware::SoftwareEffect> effects) {
  auto profile = std::make_shared<hardware::SoftwareProfile>();
  profile->newest = 2026;
  profile->effects = std::move(effects);
  return profile;
}

}  // namespace

TEST_CASE("software: the factor is the exponential of the effects", "[unit][plan]") {
  Job job = job_of(1024);
  CHECK(software_factor(job) == SoftwareFactor{});
  job.software = learnt(
      {{.feature = SoftwareFeature::kAlways, .effect = 0.10}, {.feature = SoftwareFeature::kMemory32, .effect = 0.05}});
  CHECK(software_factor(job).compute == Approx(std::exp(0.10)));
  CHECK(software_factor(job).memory == Approx(std::exp(0.10)));
  job.precision = Precision::kTf32;
  job.cluster.node.gpu.nccl_tuning = hardware::GpuGeneration::kAmpere;
  // Of memory: on kernels bound by it alone.
  CHECK(software_factor(job).compute == Approx(std::exp(0.10)));
  CHECK(software_factor(job).memory == Approx(std::exp(0.15)));
  job.gpu_time_factor = 2.0;
  CHECK(gpu_time_factor_of(job).compute == Approx(2 * std::exp(0.10)));
  CHECK(gpu_time_factor_of(job).memory == Approx(2 * std::exp(0.15)));
  // A part of a model has the whole one's factors, whatever its own features.
  job.software_of_whole = SoftwareFactor{.compute = 3, .memory = 5};
  CHECK(software_factor(job) == SoftwareFactor{.compute = 3, .memory = 5});
}

TEST_CASE("software: small kernels take more by a ramp of their time, layers' alone", "[unit][plan]") {
  Job job = job_of(1);
  job.software = learnt({{.feature = SoftwareFeature::kSmallKernels, .effect = 0.5},
                         {.feature = SoftwareFeature::kYears, .effect = 0.3}});
  job.software_year = std::optional<double>(2023);
  CHECK(software_factor(job).small == 0.5);
  CHECK(software_factor(job).memory == Approx(std::exp(0.3)));
  CHECK(software_factor(job).update == Approx(std::exp(0.3)));
  job.gpu_time_factor = 2.0;
  CHECK(gpu_time_factor_of(job).update == Approx(2 * std::exp(0.3)));
  CHECK(gpu_time_factor_of(job).small == 0.5);
  // The header's example: 4 kernels of 100 us, two of three halvings below 400 us.
  CHECK(hardware::small_kernels_time(0.3, microseconds(400), 4).in(microseconds) == Approx(80));
  CHECK(hardware::small_kernels_time(0.3, microseconds(1600), 4) == Time::zero());
  CHECK(hardware::small_kernels_time(0.3, microseconds(4), 4).in(microseconds) == Approx(1.2));
  // More work never takes less time, up to the largest effect.
  Time before = Time::zero();
  for (double time = 1; time < 1000; time *= 1.01) {
    const Time whole =
        microseconds(time) + hardware::small_kernels_time(hardware::kMostOfSmallKernels, microseconds(time), 1);
    CHECK(whole > before);
    before = whole;
  }
}

TEST_CASE("software: what a job's features are", "[unit][plan]") {
  Job job = job_of(1024);
  CHECK(feature(job, SoftwareFeature::kAlways) == 1);
  CHECK(feature(job, SoftwareFeature::kVolta) == 1);
  Job later = job;
  later.cluster.node.gpu.architecture = "Turing";  // which has Volta's rows in NCCL, and products of its own
  CHECK(feature(later, SoftwareFeature::kVolta) == 0);
  CHECK(feature(later, SoftwareFeature::kAda) == 0);
  later.cluster.node.gpu.architecture = "Ada";
  later.cluster.node.gpu.kernels_of = "Ampere";
  CHECK(feature(later, SoftwareFeature::kAda) == 1);
  later.cluster.node.gpu.kernels_of.clear();
  later.cluster.node.gpu.architecture = "Blackwell";
  later.cluster.node.gpu.nccl_tuning = hardware::GpuGeneration::kBlackwell;
  CHECK(feature(later, SoftwareFeature::kAda) == 0);
  CHECK(feature(later, SoftwareFeature::kUltra) == 0);
  later.cluster.node.gpu.architecture = "Blackwell Ultra";
  CHECK(feature(later, SoftwareFeature::kUltra) == 1);
  later.cluster.node.gpu.architecture = "Blackwell";
  later.cluster.node.gpu.kernels_of = "Ampere";  // GeForce
  CHECK(feature(later, SoftwareFeature::kAda) == 1);
  CHECK(feature(job, SoftwareFeature::kMemory32) == 0);
  CHECK(feature(job, SoftwareFeature::kAttention) == 0);
  CHECK(feature(job, SoftwareFeature::kNoProfile) == 1);
  job.cluster.gpus_per_node = 8;
  CHECK(feature(job, SoftwareFeature::kShared) == Approx(3));
  CHECK(feature(job, SoftwareFeature::kSmallKernels) == 1);
  // From Ampere on, in TF32 and FP32, whatever the rates are.
  hardware::Gpu& gpu = job.cluster.node.gpu;
  for (const auto& [now, value] :
       {std::pair(hardware::GpuGeneration::kVolta, 0), {hardware::GpuGeneration::kAmpere, 1}}) {
    gpu.nccl_tuning = now;
    for (const Precision precision : {Precision::kTf32, Precision::kFp32}) {
      job.precision = precision;
      for (const double times : {1.0, 2.0, 8.0}) {
        gpu.peak.tf32 = gpu.peak.fp32 * times;
        CHECK(feature(job, SoftwareFeature::kMemory32) == value);
      }
    }
    job.precision = Precision::kBf16;
    CHECK(feature(job, SoftwareFeature::kMemory32) == 0);
  }
  Job narrow = job;
  narrow.precision = Precision::kFp8;
  CHECK(feature(narrow, SoftwareFeature::kEightBits) == 1);
  narrow.precision = Precision::kBf16;
  CHECK(feature(narrow, SoftwareFeature::kEightBits) == 0);
}

TEST_CASE("software: years count from the newest that was learnt from, and never backwards", "[unit][plan]") {
  Job job = job_of(1024);
  job.software = learnt({{.feature = SoftwareFeature::kYears, .effect = 0.1}});
  CHECK(software_factor(job) == SoftwareFactor{});
  job.software_year = std::optional<double>(2020);
  CHECK(feature(job, SoftwareFeature::kYears) == Approx(2));
  CHECK(software_factor(job).compute == Approx(std::exp(0.2)));
  job.software_year = std::optional<double>(2030);
  CHECK(software_factor(job) == SoftwareFactor{});
}

TEST_CASE("software: fused kernels count for attention in 16 bits, by half where nobody says", "[unit][plan]") {
  Job job = job_of(1024);
  job.software = learnt({{.feature = SoftwareFeature::kAttention, .effect = 0.5},
                         {.feature = SoftwareFeature::kMemoryFused, .effect = -0.4}});
  job.precision = Precision::kFp16;
  CHECK_FALSE(software_factor_range(job));  // no attention
  auto model = std::make_shared<workload::Model>(*job.model);
  model->layers.front().op = workload::Attention{};
  model->totals = workload::total(model->layers).value();
  job.model = model;
  CHECK(software_factor(job).compute == Approx(std::exp(0.5)));
  CHECK(software_factor(job).memory == Approx(std::exp(0.5 - 0.2)));
  REQUIRE(software_factor_range(job));
  CHECK(software_factor_range(job)->first.memory == Approx(std::exp(0.1)));
  CHECK(software_factor_range(job)->second.memory == Approx(std::exp(0.5)));
  job.software_fused = std::optional<bool>(true);
  CHECK(software_factor(job).memory == Approx(std::exp(0.1)));
  CHECK(feature(job, SoftwareFeature::kMemoryFused) == 1);
  CHECK(feature(job, SoftwareFeature::kSmallKernels) == 0.5);
  job.cuda_graphs = true;
  CHECK(feature(job, SoftwareFeature::kSmallKernels) == 0);
  job.software_fused = std::optional<bool>(false);
  CHECK(software_factor(job).memory == Approx(std::exp(0.5)));
  CHECK(software_factor(job).compute == Approx(std::exp(0.5)));
  job.precision = Precision::kFp32;
  job.software_fused = std::optional<bool>(true);
  CHECK(software_factor(job) == SoftwareFactor{});
}

TEST_CASE("software: convolutional networks in 16 bits, by who fuses them", "[unit][plan]") {
  Job job = job_of(1024);
  auto model = std::make_shared<workload::Model>();
  model->layers.push_back(
      workload::layer_of(workload::Convolution{.out = 64, .kernel = {3, 3}, .pad = {1, 1}}, {64, 8, 8}, "c")
          .value()
          .layer);
  model->totals = workload::total(model->layers).value();
  CHECK(model->totals.convolutional);
  CHECK_FALSE(job.model->totals.convolutional);
  job.model = model;
  CHECK(feature(job, SoftwareFeature::kConvolution) == 0);  // fp32
  const double small = feature(job, SoftwareFeature::kSmallKernels);
  CHECK(small == 1);
  job.precision = Precision::kFp16;
  CHECK(feature(job, SoftwareFeature::kConvolution) == 0.5);  // nobody says
  CHECK(feature(job, SoftwareFeature::kSmallKernels) == Approx(0.75 * small));
  job.software_fused = std::optional<bool>(true);
  CHECK(feature(job, SoftwareFeature::kConvolution) == 0);
  CHECK(feature(job, SoftwareFeature::kSmallKernels) == Approx(0.5 * small));
  job.software_fused = std::optional<bool>(false);
  CHECK(feature(job, SoftwareFeature::kConvolution) == 1);
  CHECK(feature(job, SoftwareFeature::kSmallKernels) == small);
  job.software = learnt({{.feature = SoftwareFeature::kConvolution, .effect = 0.3}});
  CHECK(software_factor(job).compute == Approx(std::exp(0.3)));
  REQUIRE(software_factor_range(job));
  CHECK(software_factor_range(job)->first == SoftwareFactor{});
}

TEST_CASE("software: convolutions lag behind tensor cores that are many times FP32", "[unit][plan]") {
  Job job = convolutional_job(Precision::kBf16);
  job.software_fused = std::optional<bool>(false);
  hardware::PeakRates& peak = job.cluster.node.gpu.peak;
  peak.fp32 = teraflops_per_second(10);
  CHECK(feature(job, SoftwareFeature::kWideConvolution) == 0);  // no tensor cores
  for (const auto& [times, value] :
       {std::pair(4.0, 0.0), {8.0, 0.0}, {11.313708, 0.5}, {16.0, 1.0}, {32.0, 2.0}, {64.0, 2.0}}) {
    peak.fp16 = peak.fp32 * times;
    CHECK(feature(job, SoftwareFeature::kWideConvolution) == Approx(value).margin(1e-6));
  }
  // On kernels bound by arithmetic alone: memory is read no slower for it.
  job.software = learnt({{.feature = SoftwareFeature::kWideConvolution, .effect = 0.3}});
  CHECK(software_factor(job).compute == Approx(std::exp(0.6)));
  CHECK(software_factor(job).memory == 1);
  job.precision = Precision::kFp32;
  CHECK(feature(job, SoftwareFeature::kWideConvolution) == 0);
  job.precision = Precision::kBf16;
  job.model = one_linear(1024);
  CHECK(feature(job, SoftwareFeature::kWideConvolution) == 0);
}

TEST_CASE("software: norms take element-wise kernels in where convolutions of 16 bits are fused", "[unit][plan]") {
  Job job = convolutional_job(Precision::kFp16);
  CHECK_FALSE(joins_pointwise(job));  // nobody says
  job.software_fused = std::optional<bool>(false);
  CHECK_FALSE(joins_pointwise(job));
  job.software_fused = std::optional<bool>(true);
  CHECK(joins_pointwise(job));
  job.precision = Precision::kTf32;
  CHECK_FALSE(joins_pointwise(job));
  job.precision = Precision::kBf16;
  job.model = one_linear(1024);
  CHECK_FALSE(joins_pointwise(job));
}

TEST_CASE("software: steps that were measured whole, and features without layers, have none", "[unit][plan]") {
  Job job = job_of(1024);
  job.software = learnt({{.feature = SoftwareFeature::kAlways, .effect = 0.5}});
  auto measured = std::make_shared<workload::Model>(*job.model);
  measured->measured = workload::MeasuredOn{};
  job.model = measured;
  CHECK(software_factor(job) == SoftwareFactor{});
  auto features = std::make_shared<workload::Model>(*job.model);
  features->measured.reset();
  features->layers.clear();
  job.model = features;
  CHECK(software_factor(job) == SoftwareFactor{});
}
