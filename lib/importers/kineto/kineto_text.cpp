#include "kineto_text.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "onnx/onnx_mapping.h"

namespace ddlsim::importers::kineto {
namespace {

/// Ends a zlib stream whatever happens.
struct Inflater {
  z_stream stream{};
  bool ready = false;
  Inflater() { ready = inflateInit2(&stream, 15 + 16) == Z_OK; }  // 15: the largest window; 16: a gzip header
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
};

tl::unexpected<Error> too_large(const SourceLocation& where) {
  return fail(ErrorCode::kParse, fmt::format("unpacks to more than {} MiB", kMaxTraceSize >> 20U), where,
              {"a trace: profile fewer steps (schedule(active=3)), or leave record_shapes and with_stack out",
               "a log: keep the lines of its steps (zgrep)"});
}

/// What the last four bytes say the text's size is, modulo 2^32.
std::size_t stated_size(std::string_view packed) {
  std::size_t size = 0;
  for (std::size_t i = 4; i > 0; --i) {
    size = size << 8U | static_cast<unsigned char>(packed[packed.size() - 5 + i]);
  }
  return size;
}

Expected<std::string> unpack(std::string_view packed, std::size_t padding, const SourceLocation& where) {
  // gzip's header and trailer take 18 bytes; deflate packs at most 1032 to 1.
  if (packed.size() < 18) return fail(ErrorCode::kParse, "the gzip file is cut short", where);
  const std::size_t hint = std::min(stated_size(packed), packed.size() * 1032);
  if (hint > kMaxTraceSize) return too_large(where);
  Inflater inflater;
  if (!inflater.ready) return fail(ErrorCode::kIo, "zlib has no memory", where);
  z_stream& stream = inflater.stream;
  std::string text;
  text.reserve(hint + padding + 1);
  text.resize(hint + 1);
  // zlib takes a pointer to what it may not change, yet not const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // NOLINT
  std::size_t left = packed.size();
  std::size_t done = 0;
  while (true) {
    if (done == text.size()) text.resize(std::min(text.size() * 2, kMaxTraceSize + 1));
    if (stream.avail_in == 0) {
      stream.avail_in = static_cast<uInt>(std::min<std::size_t>(left, 1U << 30U));
      left -= stream.avail_in;
    }
    const std::size_t room = text.size() - done;
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + done);  // NOLINT
    stream.avail_out = static_cast<uInt>(std::min<std::size_t>(room, 1U << 30U));
    const uInt offered = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    done += offered - stream.avail_out;
    if (done > kMaxTraceSize) return too_large(where);
    if (status == Z_STREAM_END && stream.avail_in + left >= 18) {  // files one after another are one text
      if (inflateReset(&stream) != Z_OK) return fail(ErrorCode::kIo, "zlib failed", where);
      continue;
    }
    if (status == Z_STREAM_END) break;
    if (status == Z_OK && (stream.avail_out == 0 || stream.avail_in > 0 || left > 0)) continue;
    if (status == Z_OK || (status == Z_BUF_ERROR && stream.avail_in == 0 && left == 0)) {
      return fail(ErrorCode::kParse, "the gzip file is cut short", where, {"copy it again"});
    }
    return fail(ErrorCode::kParse,
                fmt::format("the gzip data is damaged at byte {}", packed.size() - left - stream.avail_in), where,
                {"copy it again"});
  }
  text.resize(done);
  text.reserve(done + padding);
  return text;
}

}  // namespace

Expected<std::string> read_text(const std::filesystem::path& path, std::size_t padding) {
  const SourceLocation where{path.string(), 0, 0};
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    return fail(ErrorCode::kIo, "is a folder, not a trace", where, {"name the .json or .json.gz files in it"});
  }
  const auto file = onnx::MappedFile::open(path);
  if (!file) return tl::unexpected<Error>(file.error());
  const std::string_view bytes = file->bytes();
  if (bytes.starts_with("\x1f\x8b")) return unpack(bytes, padding, where);
  if (bytes.size() > kMaxTraceSize) return too_large(where);
  std::string text;
  text.reserve(bytes.size() + padding);
  text = bytes;
  return text;
}

}  // namespace ddlsim::importers::kineto
