// What a server has beside its GPUs to feed them: processors, memory, and the storage that data sets lie on.
//
// A node's file may say so (`host:`); what it leaves out, a question about input states (plan/input.h). Rates of
// storage are those of large reads; a read of less pays a request (`iops`) and its `latency`. Equations:
// cost/loader.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ddlsim/support/choices.h"
#include "ddlsim/support/source.h"
#include "ddlsim/support/stated.h"
#include "ddlsim/support/units.h"

namespace ddlsim::hardware {

/// What lies between a server and its storage, and bounds it too.
enum class Attachment : std::uint8_t {
  kServer,   // nothing: a disk in the server
  kVolume,   // the provider's path to volumes (EBS), beside the network ports: Host::volume_bandwidth
  kNetwork,  // the server's network ports
};
inline constexpr Choices<Attachment, 3> kAttachments{{
    {"server", Attachment::kServer},
    {"volume", Attachment::kVolume},
    {"network", Attachment::kNetwork},
}};

/// A disk, a volume or a service that samples are read from.
struct Storage {
  std::string id;
  std::string name;
  Bandwidth bandwidth{};  // of all who read it together; of one server, or where it is `shared` of the cluster
  std::optional<Bandwidth> stream{};  // of one reader by himself; nothing: all of it
  std::optional<Rate> iops{};         // requests; nothing: bandwidth alone bounds
  DataSize request{};                 // the largest request: longer reads are several
  Time latency{};                     // from a request to its first byte
  /// Where the two rates came from: what somebody stated is a bound of his own, what a file says is typical.
  Origin bandwidth_origin = Origin::kDatasheet;
  Origin iops_origin = Origin::kDatasheet;
  std::optional<DataSize> capacity{};
  bool shared = false;  // all servers read the same one
  Attachment attached = Attachment::kServer;
  Sources sources;
  std::string notes;
};

/// A processor, by its socket.
struct Cpu {
  std::string id;
  std::string name;
  std::int64_t cores = 1;
  std::int64_t threads_per_core = 1;
  Rate clock{};              // nominal
  double decode_speed = 1;   // of one core: JPEGs that it decodes over those of a Xeon Platinum 8581C's
  double second_thread = 0;  // what a core does more when its other threads work too, as a share of one
  /// What PyTorch's workers copy into shared memory, and what the process that trains takes from it (decoded bytes).
  std::optional<Bandwidth> hand_over{};
  std::optional<Bandwidth> receive{};
  std::optional<Bandwidth> memory_bandwidth{};  // of one socket, by its datasheet
  Sources sources;
  std::string notes;
};

/// Beside the GPUs of a server. What nobody says is nothing.
struct Host {
  std::optional<Cpu> cpu{};
  std::int64_t threads = 0;  // hardware threads that a job may use, of all sockets; 0: nobody says
  DataSize memory{};
  std::optional<Storage> storage{};
  std::string processor{};  // in a cloud's words, likewise
  std::string disk{};
  std::optional<DataSize> disk_size{};          // of what those words say
  std::optional<Bandwidth> volume_bandwidth{};  // of all the server's volumes; nothing: nobody says

  /// Cores that `threads` belong to; at least one.
  [[nodiscard]] double cores() const {
    const std::int64_t per_core = cpu ? cpu->threads_per_core : 1;
    const std::int64_t whole = (threads + per_core - 1) / per_core;
    return static_cast<double>(whole);
  }
  /// Of all sockets whose threads these are, by the datasheet; nothing: nobody says.
  [[nodiscard]] std::optional<Bandwidth> memory_bandwidth() const {
    if (!cpu || !cpu->memory_bandwidth || threads == 0) return std::nullopt;
    return *cpu->memory_bandwidth * (cores() / static_cast<double>(cpu->cores));
  }
  /// A storage at what this server reaches of it: a volume no faster than the path to all volumes.
  [[nodiscard]] Storage reaching(Storage one) const {
    if (one.attached == Attachment::kVolume && volume_bandwidth) one.bandwidth = min(one.bandwidth, *volume_bandwidth);
    return one;
  }
};

}  // namespace ddlsim::hardware
