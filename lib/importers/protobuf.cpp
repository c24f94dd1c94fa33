#include "ddlsim/importers/protobuf.h"

#include <fmt/core.h>

#include <bit>

namespace ddlsim::importers {

bool WireReader::next() {
  if (fault_->found() || at_ == message_.size()) return false;
  const std::uint64_t tag_at = at_;
  const auto tag = read_varint();
  if (!tag) return false;
  field_ = *tag >> 3U;
  // Field numbers have 29 bits; more is not protobuf.
  if (field_ == 0 || field_ >> 29U != 0) {
    fail(fmt::format("{} is no field number", field_), tag_at);
    return false;
  }
  value_at_ = at_;
  const std::uint64_t wire_type = *tag & 7U;
  switch (wire_type) {
    case 0: {
      type_ = WireType::kVarint;
      const auto value = read_varint();
      varint_ = value.value_or(0);
      return value.has_value();
    }
    case 1: type_ = WireType::kFixed64; return take(8);
    case 5: type_ = WireType::kFixed32; return take(4);
    case 2: {
      type_ = WireType::kBytes;
      const auto length = read_varint();
      return length && take(*length);
    }
    default: fail(fmt::format("wire type {} is not accepted", wire_type), tag_at); return false;
  }
}

std::optional<std::uint64_t> WireReader::read_varint() {
  const std::uint64_t start = at_;
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (at_ == message_.size()) {
      fail("the data ends in the middle of a number", start);
      return std::nullopt;
    }
    const auto byte = static_cast<unsigned char>(message_[at_++]);
    if (shift < 64) value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of over 10 bytes", start);
  return std::nullopt;
}

bool WireReader::take(std::uint64_t count) {
  value_at_ = at_;
  if (count > message_.size() - at_) {
    fail(fmt::format("a value of {} bytes, but {} are left", count, message_.size() - at_), at_);
    return false;
  }
  bytes_ = message_.substr(at_, count);
  at_ += count;
  return true;
}

bool WireReader::is(WireType wanted) {
  if (type_ == wanted) return !fault_->found();
  fail(fmt::format("field {} has wire type {}, not {}", field_, static_cast<int>(type_), static_cast<int>(wanted)),
       value_at_);
  return false;
}

std::int64_t WireReader::integer() {
  return is(WireType::kVarint) ? std::bit_cast<std::int64_t>(varint_) : std::int64_t{0};
}

std::string_view WireReader::bytes() { return is(WireType::kBytes) ? bytes_ : std::string_view{}; }

float WireReader::fixed32() {
  if (!is(WireType::kFixed32)) return 0.0F;
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes_[i]);  // little-endian
  return std::bit_cast<float>(value);
}

WireReader WireReader::message() {
  const std::string_view nested = bytes();
  if (depth_ == kMaxWireDepth) fail(fmt::format("nested deeper than {} messages", kMaxWireDepth), value_at_);
  return WireReader(nested, base_ + value_at_, depth_ + 1, *fault_);
}

void WireReader::append_integers(std::vector<std::int64_t>& list) {
  if (type_ == WireType::kVarint) {
    list.push_back(integer());
    return;
  }
  WireReader packed(bytes(), base_ + value_at_, depth_, *fault_);
  while (!fault_->found() && packed.at_ < packed.message_.size()) {
    if (const auto value = packed.read_varint()) list.push_back(std::bit_cast<std::int64_t>(*value));
  }
}

void WireReader::fail(std::string message, std::uint64_t at) {
  if (!fault_->found()) *fault_ = {std::move(message), base_ + at};
}

}  // namespace ddlsim::importers
