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

struct Gpu {
  std::string id;
  std::string name;
  std::string architecture;
  Form form = Form::kPcie;
  std::int64_t sm_count = 0;
  PeakRates peak;
  DataSize memory_size{};
  Bandwidth memory_bandwidth{};
  std::optional<DataSize> l2;       // the cache between multiprocessors and memory
  std::optional<Bandwidth> nvlink;  // per direction, all links of the GPU together
  std::string nvlink_id;            // the link's file
  std::int64_t nvlink_links = 0;    // 0: as many as `nvlink` holds of that link
  std::string pcie_id;
  Power tdp{};
  Sources sources;
  std::string notes;
};

}  // namespace ddlsim::hardware
