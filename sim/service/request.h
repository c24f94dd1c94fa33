// A request, taken apart. Private to the room.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/yaml.h"
#include "ddlsim/service/service.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::service {

/// The job, and what stands beside it.
class Request {
 public:
  /// `keys`: what the command takes beside the job.
  [[nodiscard]] static Expected<Request> read(std::string_view text, Syntax syntax,
                                              std::span<const std::string_view> keys, const Limits& limits,
                                              const io::Catalog& catalog);

  [[nodiscard]] const std::vector<whatif::Override>& job() const { return job_; }
  /// The text of a key; nothing where it is not there. An empty text, a list and a map are errors of `read`.
  [[nodiscard]] const io::Node* find(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] Expected<bool> flag(std::string_view key) const;
  [[nodiscard]] const std::vector<whatif::Change>& changes() const { return changes_; }

  /// The place of a key, put into an error of its value; the key goes before the message.
  [[nodiscard]] tl::unexpected<Error> at(std::string_view key, Error error) const;

 private:
  Expected<void> take(const io::Node& document, std::span<const std::string_view> keys);
  Expected<void> take_changes(const io::Node& list);
  Expected<void> check_files(const Limits& limits, const io::Catalog& catalog) const;

  io::Node document_;
  std::vector<whatif::Override> job_;
  std::vector<whatif::Change> changes_;
};

/// What a command takes beside the job; empty: no such command.
[[nodiscard]] std::span<const std::string_view> keys_of(std::string_view command);

/// Whether a value names a file, and no quantity ("25 Gb/s") or name that the catalogue knows.
[[nodiscard]] bool names_file(const whatif::Override& setting, const io::Catalog& catalog);

}  // namespace ddlsim::service
