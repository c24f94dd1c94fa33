// Numbers that stand for services: a slot and how often it was used, so that a number is never used again. Private to
// the room.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ddlsim/service/service.h"

namespace ddlsim::c {

class Handles {
 public:
  using Held = std::shared_ptr<const service::Service>;

  [[nodiscard]] std::uint64_t open(Held service) {
    const std::lock_guard lock(mutex_);
    std::size_t at = 0;
    while (at < slots_.size() && slots_[at].held) ++at;
    if (at == slots_.size()) slots_.emplace_back();
    Slot& slot = slots_[at];
    slot.held = std::move(service);
    ++slot.generation;
    return std::uint64_t{slot.generation} << 32U | (at + 1);
  }
  /// Null: nothing is open under that number.
  [[nodiscard]] Held find(std::uint64_t handle) const {
    const std::lock_guard lock(mutex_);
    const Slot* slot = slot_of(handle);
    return slot == nullptr ? nullptr : slot->held;
  }
  /// What was open under that number. The caller destroys it, outside the lock.
  [[nodiscard]] Held close(std::uint64_t handle) {
    const std::lock_guard lock(mutex_);
    const Slot* slot = slot_of(handle);
    if (slot == nullptr) return nullptr;
    return std::exchange(slots_[static_cast<std::size_t>(slot - slots_.data())].held, nullptr);
  }

 private:
  struct Slot {
    Held held;
    std::uint32_t generation = 0;
  };
  [[nodiscard]] const Slot* slot_of(std::uint64_t handle) const {
    const std::uint64_t at = handle & 0xffffffffU;
    if (at == 0 || at > slots_.size()) return nullptr;
    const Slot& slot = slots_[at - 1];
    return slot.held && slot.generation == handle >> 32U ? &slot : nullptr;
  }

  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
};

}  // namespace ddlsim::c
