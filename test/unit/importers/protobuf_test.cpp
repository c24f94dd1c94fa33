// The wire format: every kind of value, and every way in which bytes can be wrong.
#include "ddlsim/importers/protobuf.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ddlsim::importers;
using namespace std::string_view_literals;
using Catch::Matchers::Contains;

/// "offset: message" of what ends a walk over all fields.
std::string fault_of(std::string_view bytes) {
  WireFault fault;
  WireReader reader(bytes, fault);
  while (reader.next()) {
  }
  return fault.found() ? std::to_string(fault.offset) + ": " + fault.message : std::string();
}

}  // namespace

TEST_CASE("a varint, text, and numbers of fixed width are read where they lie") {
  // 08 96 01: field 1, varint 0x16 + (1 << 7) = 150. 12 02 68 69: field 2, "hi". 1D 00 00 80 3F: field 3, 4 bytes,
  // little-endian 0x3F800000 = 1.0f. 21 and 8 bytes: field 4, passed over.
  constexpr std::string_view kBytes =
      "\x08\x96\x01\x12\x02hi\x1D\x00\x00\x80\x3F\x21\x01\x02\x03\x04\x05\x06\x07\x08"sv;
  WireFault fault;
  WireReader reader(kBytes, fault);
  REQUIRE(reader.next());
  CHECK(reader.field() == 1);
  CHECK(reader.integer() == 150);
  REQUIRE(reader.next());
  CHECK(reader.field() == 2);
  CHECK(reader.offset() == 5);
  CHECK(reader.size() == 2);
  CHECK(reader.bytes() == "hi");
  REQUIRE(reader.next());
  CHECK(reader.fixed32() == 1.0F);
  REQUIRE(reader.next());
  CHECK(reader.type() == WireType::kFixed64);
  CHECK_FALSE(reader.next());
  CHECK_FALSE(fault.found());
}

TEST_CASE("a negative number takes ten bytes") {
  // -1 is 64 bits of 1: nine bytes of 7 and one of the last.
  WireFault fault;
  WireReader reader("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"sv, fault);
  REQUIRE(reader.next());
  CHECK(reader.integer() == -1);
}

TEST_CASE("a list of integers is the same packed and one by one") {
  // Field 1: 3, then 150 and 7 packed into three bytes.
  WireFault fault;
  WireReader reader("\x08\x03\x0A\x03\x96\x01\x07"sv, fault);
  std::vector<std::int64_t> list;
  while (reader.next()) reader.append_integers(list);
  CHECK(list == std::vector<std::int64_t>{3, 150, 7});
  CHECK_FALSE(fault.found());
}

TEST_CASE("faults name the byte of the outermost message") {
  CHECK(fault_of("\x08\x96"sv) == "1: the data ends in the middle of a number");
  CHECK(fault_of("\x12\x05hi"sv) == "2: a value of 5 bytes, but 2 are left");
  CHECK(fault_of("\x1D\x00"sv) == "1: a value of 4 bytes, but 1 are left");
  CHECK(fault_of("\x08\x01\x0B"sv) == "2: wire type 3 is not accepted");
  CHECK(fault_of("\x00\x01"sv) == "0: 0 is no field number");
  CHECK(fault_of("\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"sv) == "1: a number of over 10 bytes");
  // A length of 2^64 - 1 must not wrap around.
  CHECK_THAT(fault_of("\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"sv), Contains("but 0 are left"));
}

TEST_CASE("a fault in a nested message ends the outer walk, at its own byte") {
  // Field 1 (5 bytes from 2 on): field 2 of 9 bytes, of which 3 are left.
  WireFault fault;
  WireReader outer("\x0A\x05\x12\x09zzz\x08\x01"sv, fault);
  REQUIRE(outer.next());
  WireReader inner = outer.message();
  CHECK_FALSE(inner.next());
  CHECK(fault.offset == 4);
  CHECK_FALSE(outer.next());
}

TEST_CASE("another wire type than the one asked for is a fault, not a zero") {
  WireFault fault;
  WireReader reader("\x08\x01"sv, fault);
  REQUIRE(reader.next());
  CHECK(reader.bytes().empty());
  CHECK(fault.message == "field 1 has wire type 0, not 2");
}

TEST_CASE("nesting ends at the limit") {
  // Each level is a tag, a length and the level below: 63 of them take 126 bytes, so one byte holds every length.
  std::string bytes;
  for (int i = 0; i < 63; ++i) bytes = std::string("\x0A") + static_cast<char>(bytes.size()) + bytes;
  WireFault fault;
  std::vector<WireReader> readers{WireReader(bytes, fault)};
  while (readers.back().next()) readers.push_back(readers.back().message());
  CHECK(readers.size() == 64);  // 63 nested ones and the outermost
  CHECK_FALSE(fault.found());
  // One more level, 126 bytes, is refused.
  const std::string deeper = std::string("\x0A") + static_cast<char>(bytes.size()) + bytes;
  readers.assign(1, WireReader(deeper, fault));
  while (readers.back().next()) readers.push_back(readers.back().message());
  CHECK(fault.message == "nested deeper than 64 messages");
}
