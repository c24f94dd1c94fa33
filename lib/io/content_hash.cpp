#include "ddlsim/io/content_hash.h"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "ddlsim/io/yaml.h"

namespace ddlsim::io {

void ContentHash::add(std::string_view text) {
  constexpr std::uint64_t kPrime = 0x100000001b3U;
  const auto mix = [this](unsigned char byte) { state_ = (state_ ^ byte) * kPrime; };
  for (const char c : text) mix(static_cast<unsigned char>(c));
  for (std::uint64_t size = text.size(), i = 0; i < 8; ++i, size >>= 8U) mix(static_cast<unsigned char>(size & 0xffU));
}

std::string ContentHash::hex() const { return fmt::format("{:016x}", state_); }

Expected<std::string> fingerprint_of(const std::filesystem::path& root) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code problem;
  for (const char* folder : {"models", "hardware"}) {
    for (fs::recursive_directory_iterator at(root / folder, problem), end; !problem && at != end;
         at.increment(problem)) {
      if (at->is_regular_file(problem) && at->path().extension() == ".yaml") files.push_back(at->path());
    }
    if (problem) return fail(ErrorCode::kIo, problem.message(), {(root / folder).string(), 0, 0});
  }
  std::sort(files.begin(), files.end());
  ContentHash hash;
  for (const fs::path& file : files) {
    const auto text = read_file(file);
    if (!text) return tl::unexpected<Error>(text.error());
    hash.add(file.lexically_relative(root).string());
    hash.add(*text);
  }
  return hash.hex();
}

}  // namespace ddlsim::io
