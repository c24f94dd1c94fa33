// An accelerator, as its datasheet describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/precision.h"
#include "ddlsim/support/source.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

/// Peak dense rates by precision; a multiply-add is two FLOPs. A missing rate is one the device does not have.
struct PeakRates {
  ComputeRate fp32{};
  std::optional<ComputeRate> tf32;
  std::optional<ComputeRate> fp16;
  std::optional<ComputeRate> bf16;
  std::optional<ComputeRate> fp8;

  [[nodiscard]] std::optional<ComputeRate> at(Precision precision) const;
  void set(Precision precision, ComputeRate rate);
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

struct Gpu {
  std::string id;
  std::string name;
  std::string architecture;  // its maker's name for it: profiles are lent within one, no cost depends on it
  Form form = Form::kPcie;
  std::int64_t sm_count = 0;
  PeakRates peak;
  DataSize memory_size{};
  Bandwidth memory_bandwidth{};
  std::optional<DataSize> l2;       // the cache between multiprocessors and memory
  std::optional<Bandwidth> nvlink;  // per direction, all links of the GPU together
  std::string nvlink_id;            // the link's file
  std::string pcie_id;
  std::optional<GpuGeneration> nccl_tuning;  // nothing: nobody says, or NCCL does not run on it
  bool peer_to_peer = true;                  // over PCIe; without it GPUs meet in the host's memory
  Power tdp{};
  Sources sources;
  std::string notes;
};

}  // namespace ddlsim::hardware
