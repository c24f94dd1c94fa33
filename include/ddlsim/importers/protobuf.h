// The wire format of Protocol Buffers, read where it lies: no schema compiler, no copy, no allocation.
//
// A message is a run of fields; a field is a tag (a varint, number * 8 + wire type) and a value: a varint, 8 bytes, 4
// bytes, or a length and that many bytes (text, a nested message, packed numbers).
// Source: https://protobuf.dev/programming-guides/encoding/.
// A WireReader walks one message. `next` reads a whole field, value and all, so a field nobody asks for is passed over
// without touching its bytes: a gigabyte of weights costs one addition. Faults go to the WireFault of the whole walk,
// the first one stays, and every reader that shares it then ends: loops need no error checks, only their caller does.
// Refused, with the byte's offset: a value that runs past its message, a varint of over ten bytes, field number 0,
// groups (wire types 3 and 4, deprecated; no format read here has them), nesting over kMaxWireDepth.
// Limits: zigzag numbers are not decoded; an integer's sign is that of its 64 bits, as int64 and enums are written.
// Example: the bytes 08 96 01 are field 1, a varint, 150; 12 02 68 69 are field 2, the text "hi".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddlsim::importers {

inline constexpr int kMaxWireDepth = 64;
/// Bytes of the longest varint: 64 bits, 7 in a byte.
inline constexpr std::size_t kLongestVarint = 10;

enum class WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// What ended a walk: empty while all is well. `offset` counts bytes from the start of the outermost message.
struct WireFault {
  std::string message;
  std::uint64_t offset = 0;

  [[nodiscard]] bool found() const { return !message.empty(); }
};

/// Walks the fields of one message. The message's bytes and the WireFault must outlive it.
class WireReader {
 public:
  WireReader(std::string_view message, WireFault& fault) : WireReader(message, 0, 1, fault) {}

  /// Moves to the next field; false at the end of the message or at a fault.
  bool next();
  [[nodiscard]] std::uint64_t field() const { return field_; }
  [[nodiscard]] WireType type() const { return type_; }
  /// Where the current field's value begins.
  [[nodiscard]] std::uint64_t offset() const { return base_ + value_at_; }

  /// How many bytes the current field's value is.
  [[nodiscard]] std::uint64_t size() const { return at_ - value_at_; }

  /// The current field's value. Another wire type than the one asked for is a fault, and gives zero or nothing.
  std::int64_t integer();
  std::string_view bytes();
  float fixed32();
  /// A reader of the current field as a nested message.
  WireReader message();
  /// Appends the current field to a list of integers: one varint, or many packed into bytes.
  void append_integers(std::vector<std::int64_t>& list);

  /// Makes the current field the fault, in the caller's words.
  void refuse(std::string message) { fail(std::move(message), value_at_); }

 private:
  WireReader(std::string_view message, std::uint64_t base, int depth, WireFault& fault)
      : message_(message), base_(base), depth_(depth), fault_(&fault) {}

  std::optional<std::uint64_t> read_varint();
  bool take(std::uint64_t count);
  bool is(WireType wanted);
  void fail(std::string message, std::uint64_t at);

  std::string_view message_;
  std::uint64_t base_ = 0;      // of message_ in the outermost one
  std::uint64_t at_ = 0;        // of the next byte to be read, in message_
  std::uint64_t value_at_ = 0;  // of the current field's value
  std::uint64_t field_ = 0;
  WireType type_ = WireType::kVarint;
  std::uint64_t varint_ = 0;
  std::string_view bytes_;
  int depth_ = 1;
  WireFault* fault_;
};

}  // namespace ddlsim::importers
