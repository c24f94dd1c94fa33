// An accelerator, as its datasheet describes it; its memory as programs find it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/source.h"
#include "ddlsim/support/stated.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

/// Peak dense rates by precision; a multiply-add is two FLOPs. A missing rate is one the device does not have.
struct PeakRates {
  ComputeRate fp32{};
  std::optional<ComputeRate> tf32;
  std::optional<ComputeRate> fp16;
  std::optional<ComputeRate> bf16;
  std::optional<ComputeRate> fp8;
  std::optional<ComputeRate> fp4;

  [[nodiscard]] std::optional<ComputeRate> at(Precision precision) const;
  void set(Precision precision, ComputeRate rate);

  friend bool operator==(const PeakRates&, const PeakRates&) = default;
};

/// What products of matrices of 8192 and wider were seen to reach of a peak, as clocks fall under lasting load: of a
/// GPU that has no profile of its own. Nothing where nobody measured it.
class SustainedShares {
 public:
  [[nodiscard]] std::optional<double> at(Precision precision) const;
  /// Above 1 where boost clocks are above the datasheet's.
  void set(Precision precision, double share);

  friend bool operator==(const SustainedShares&, const SustainedShares&) = default;

 private:
  std::vector<std::pair<Precision, double>> shares_;
};

/// What a GPU's work draws at the clocks of short bursts (bench/calibrate/power.py; cost/power.h).
struct PowerDraw {
  Power idle{};  // with a program on it and no kernel running
  EnergyPerByte memory{};
  std::vector<std::pair<Precision, EnergyPerFlop>> arithmetic;

  /// fp16 and bf16 are one unit, fp4 draws what fp8 does where nobody measured it. Nothing: nobody measured.
  [[nodiscard]] std::optional<EnergyPerFlop> at(Precision precision) const;

  friend bool operator==(const PowerDraw&, const PowerDraw&) = default;
};

/// What a GPU plugs into. NVLink of a PCIe card is a bridge between two cards; of the others it joins all of a board.
enum class Form { kPcie, kSxm, kOam, kSuperchip };

inline constexpr Choices<Form, 4> kForms{{
    {"pcie", Form::kPcie},
    {"sxm", Form::kSxm},
    {"oam", Form::kOam},
    {"superchip", Form::kSuperchip},
}};

/// The generations that NCCL's tuning tells apart. Turing is tuned as Volta, Ada as Ampere, what is older than Pascal
/// as Pascal.
enum class GpuGeneration : std::uint8_t { kPascal, kVolta, kAmpere, kHopper, kBlackwell };

inline constexpr Choices<GpuGeneration, 5> kGpuGenerations{{
    {"pascal", GpuGeneration::kPascal},
    {"volta", GpuGeneration::kVolta},
    {"ampere", GpuGeneration::kAmpere},
    {"hopper", GpuGeneration::kHopper},
    {"blackwell", GpuGeneration::kBlackwell},
}};

struct GpuProfile;

/// Curves fitted to a GPU (hardware/gpu_profile.h), and what the curves are shares of: that GPU's datasheet.
struct MeasuredProfile {
  std::shared_ptr<const GpuProfile> profile;
  PeakRates peak;
  Bandwidth memory_bandwidth{};
  std::int64_t sm_count = 0;
  bool own = false;  // of the GPU that has it, or of another with its chip, whatever its memory; as both are shipped
};

struct Gpu {
  std::string id;
  std::string name;
  std::string architecture;  // its maker's name for it: profiles are lent within one
  std::string kernels_of;    // another whose binaries it runs as well: whose profiles answer where its own has none
  Form form = Form::kPcie;
  std::int64_t sm_count = 0;
  PeakRates peak;
  SustainedShares sustained;
  DataSize memory_size{};  // what the driver leaves to programs, their contexts included
  Bandwidth memory_bandwidth{};
  std::optional<DataSize> l2;       // the cache between multiprocessors and memory
  std::optional<Bandwidth> nvlink;  // per direction, all links together: what a server is made with (Node::nvlink)
  std::string nvlink_id;            // the link's file
  std::int64_t nvlink_links = 0;    // 0: as many as `nvlink` holds of that link
  std::string pcie_id;
  std::optional<bool> half_units{};          // fp16 has units of its own, whatever peaks are stated; nothing: by them
  std::optional<GpuGeneration> nccl_tuning;  // nothing: nobody says, or NCCL does not run on it
  bool peer_to_peer = true;                  // over PCIe; without it GPUs meet in the host's memory
  Power tdp{};                               // what it may draw: its power limit
  std::optional<PowerDraw> draw;
  /// What may answer for its kernels: its own first, then those of GPUs of its architecture, the nearest first. They
  /// come with the GPU from the catalogue; stated: somebody named one, or none.
  Stated<std::vector<MeasuredProfile>> profiles{};
  Sources sources;
  std::string notes;
};

/// Whether products of a precision run in fp32's arithmetic, so that 16 bits are what is read and written alone: fp32
/// itself, and fp16 without tensor cores, as frameworks ask for sums in fp32 (PyTorch aten/src/ATen/cuda/CUDABlas.cpp:
/// compute type CUDA_R_32F). Without tensor cores: before Volta, and Turing's cards whose fp16 is twice fp32 and no
/// more (GTX 16; with tensor cores it is four times and more). A GPU of the catalogue has them or not by its own peaks.
[[nodiscard]] bool multiplies_as_fp32(const Gpu& gpu, Precision precision);

/// Whether what was measured on one is of a GPU's chip, whatever its memory. `gpu`: its datasheet.
[[nodiscard]] inline bool is_of_chip(const MeasuredProfile& one, const Gpu& gpu) {
  return one.peak == gpu.peak && one.sm_count == gpu.sm_count;
}

/// The precision whose rate its products run at.
[[nodiscard]] inline Precision multiplied_in(const Gpu& gpu, Precision precision) {
  return multiplies_as_fp32(gpu, precision) ? Precision::kFp32 : precision;
}

/// fp16 and bf16 on tensor cores.
[[nodiscard]] inline bool runs_on_half_units(const Gpu& gpu, Precision precision) {
  return (precision == Precision::kFp16 || precision == Precision::kBf16) && !multiplies_as_fp32(gpu, precision);
}

/// What its products were seen to reach of a peak. fp16 and bf16 are one unit, where their peaks are equal: the better
/// of the two. TF32 is the same unit at half the rate: where nobody measured it, as they (of eleven GPUs of which both
/// are stated TF32's share is 0.90 to 1.07 of theirs, median 1.00).
[[nodiscard]] std::optional<double> sustained_share(const Gpu& gpu, Precision precision);

}  // namespace ddlsim::hardware
