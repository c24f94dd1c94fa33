// hardware/software/*.yaml: read as written, refused where a figure cannot be.
#include "ddlsim/io/software_file.h"

#include <catch2/catch.hpp>
#include <string>

#include "catalog.h"

using namespace ddlsim;
using namespace ddlsim::io;

namespace {

Expected<hardware::SoftwareProfile> read(const std::string& text) {
  return parse_yaml(text, "steps.yaml").and_then(read_software);
}

const std::string kFile =
    "software: steps\nmade_by: \"a test\"\nrows: 12\nsources: 3\nnewest: 2026.5\nleft_out: {mean: 0.2, median: 0.1}\n"
    "effects:\n  always: {effect: 0.1, low: 0.05, high: 0.2}\n  memory-32-bits: {effect: -0.02, low: -0.1, high: 0.1}\n"
    "ends:\n  one-gpu: {low: 0.8, high: 1.5, rows: 9, sources: 2}\n";

std::string with(std::string from, const std::string& to) {
  std::string text = kFile;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("software file: what is written is read", "[unit][io]") {
  const auto profile = read(kFile);
  REQUIRE(profile);
  CHECK(profile->rows == 12);
  CHECK(profile->newest == 2026.5);
  REQUIRE(profile->effects.size() == 2);
  CHECK(profile->effects[1].feature == hardware::SoftwareFeature::kMemory32);
  CHECK(profile->effects[1].effect == -0.02);
  REQUIRE(profile->ends_of(hardware::QuestionKind::kOneGpu) != nullptr);
  CHECK(profile->ends_of(hardware::QuestionKind::kOneGpu)->high == 1.5);
  CHECK(profile->ends_of(hardware::QuestionKind::kServers) == nullptr);
  const auto again = read(software_text(*profile));
  REQUIRE(again);
  CHECK(software_text(*again) == software_text(*profile));
}

TEST_CASE("software file: mistakes have a place", "[unit][io]") {
  const auto refused = [](const std::string& text, const std::string& part) {
    const auto profile = read(text);
    REQUIRE_FALSE(profile);
    CHECK(to_string(profile.error()).find(part) != std::string::npos);
  };
  refused(with("memory-32-bits:", "memory-33-bits:"), "memory-33-bits");
  refused(with("effect: 0.1", "effect: 9"), "'9' is not from -3 to 3");
  refused(with("low: 0.8", "low: 1.8"), "'1.8' is not from 0.01 to 1");
  refused(with("rows: 12\n", ""), "rows");
  refused(with("one-gpu", "one-cpu"), "one-cpu");
}

TEST_CASE("software file: the shipped one rests on sources that are not few", "[unit][io]") {
  const auto shipped = test::learnt_catalog().software();
  REQUIRE(shipped);
  REQUIRE(*shipped != nullptr);
  CHECK((*shipped)->sources >= 20);
  for (const hardware::SoftwareEffect& one : (*shipped)->effects) {
    CHECK(one.low <= one.high);
  }
  for (const hardware::SoftwareEnds& ends : (*shipped)->ends) {
    CHECK(ends.low < 1);
    CHECK(ends.high > 1);
  }
  CHECK(*test::catalog().software() == nullptr);
}
