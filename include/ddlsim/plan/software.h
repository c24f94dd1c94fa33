// A job's software: what its framework takes on top of its kernels (hardware/software.h), as factors on GPU time.
//
// They are of GPU time: the CPU's launches (Job::launch_interval) are those of an eager framework, and take no longer.
// They are 1 where nobody learnt one (`Job::software` null), where the step's kernels were measured as the
// framework ran them (workload::MeasuredOn), and for models known by the features of a whole step.
//   small-kernels  1, half of it where blocks of 16 bits are fused (hardware::small_kernels_time), 0 for attention in
//                  CUDA graphs, where kernels follow one another; convolutional networks stay slow there (RetinaNet)
//   memory-32-bits  1 in FP32 and TF32 from Ampere on, whatever TF32's rate: both move 4 bytes a number by the same
//                  kernels. Learnt from TF32; of FP32 on such GPUs no row is published
//   shared         log2 of the GPUs per server
//   memory-fused, convolution  half of the effect where nobody says: what is planned may run either way
//   wide-convolution  log2(peak of 16 bits / peak of FP32) - 3 within 0 and 2, of convolutional networks in 16 bits
//   years          (newest - software's year) / 3, never below 0; who states no year counts as new
// Attention that a model lists as separate kernels runs as one where nobody says otherwise (runs_flash_attention).
// Worked example: effects always 0.10 and half 0.05, ResNet-50 in fp16 on one GPU: f = exp(0.15) = 1.162.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "ddlsim/hardware/software.h"
#include "ddlsim/plan/job.h"

namespace ddlsim::plan {

using SoftwareFeatures = std::array<double, hardware::kSoftwareFeatureCount>;  // in the order of kSoftwareFeatures

[[nodiscard]] SoftwareFeatures software_features(const Job& job);

[[nodiscard]] hardware::SoftwareFactor software_factor(const Job& job);

/// The factor with fused kernels and without. Nothing where that makes no difference.
[[nodiscard]] std::optional<std::pair<hardware::SoftwareFactor, hardware::SoftwareFactor>> software_factor_range(
    const Job& job);

/// Whether attention is one kernel by default: on GPUs that FlashAttention-2 is for, which are those with bf16 (Ampere,
/// CDNA 2 and later; Dao-AILab/flash-attention README), in software since PyTorch 2.0 of March 2023, whose
/// scaled_dot_product_attention takes it, and in 32 bits its memory-efficient kernel (cost/attention_time.h).
[[nodiscard]] bool runs_flash_attention(const Job& job);

/// Whether element-wise layers join the norm or convolution before them by default (workload/fusion.h): in networks of
/// convolutions in 16 bits whose software fuses (NVIDIA's MXNet and PyTorch in MLPerf, apex: BN-ReLU and BN-Add-ReLU).
[[nodiscard]] bool joins_pointwise(const Job& job);

/// How the job's layers run. What is one kernel where nobody says (`stated` is false): both of these.
[[nodiscard]] workload::Fusion fusion_of(const Job& job, bool stated);
/// The job's, but that attention whose keys go round context ranks stays one kernel: a ring's share is not taken apart
/// (workload/fusion.h), nor is then what it is a share of.
[[nodiscard]] workload::Fusion fusion_as_run(const Job& job);

/// The 16 bits that a GPU trains in: bf16, fp16 where its units of 16 bits know no bf16 (Volta, Turing; Megatron-LM on
/// V100, Shoeybi et al. 2019), fp32 where 16 bits are not multiplied faster.
[[nodiscard]] Precision half_precision(const hardware::Gpu& gpu);

/// What such a model is trained in where nobody states it: one whose attention is causal, a language model, in
/// half_precision (GPT-NeoX, Llama and their successors). Nothing: another model.
[[nodiscard]] std::optional<Precision> usual_precision(const Job& job);

/// Whether images lie channel by channel (cost/image_kernels.h): where nobody says how, in 32 bits and on Volta.
[[nodiscard]] bool channels_first(const Job& job);
/// Whether convolutions take more or less by how images lie: in 16 bits on GPUs with tensor cores.
[[nodiscard]] bool layout_matters(const Job& job);
/// Whether the GPU's convolutions were measured on images that lie channel by channel: those of 16 bits on Volta and
/// Turing. There that is the default.
[[nodiscard]] bool turns_by_profile(const Job& job);
/// Whether convolutions turn images besides what their profile has in it: they lie channel by channel, Ampere and
/// later.
[[nodiscard]] bool transposes_images(const Job& job);
/// Whether they spare turns that their profile has in it (cost/kernel_time.h): images are said to lie pixel by pixel.
[[nodiscard]] bool spares_turning(const Job& job);

/// Whether recurrent layers wait long between their kernels: software of before 2019 (cuDNN 7.1 and older).
[[nodiscard]] bool has_old_recurrences(const Job& job);

/// On GPU time: what somebody stated or fitted, and the software's.
[[nodiscard]] inline hardware::SoftwareFactor gpu_time_factor_of(const Job& job) {
  return software_factor(job) * job.gpu_time_factor;
}

}  // namespace ddlsim::plan
