#include "ddlsim/support/plural.h"

#include <catch2/catch.hpp>

using namespace ddlsim;

TEST_CASE("plural: the noun takes it, and what is counted by the second", "[unit][support]") {
  CHECK(plural("image") == "images");
  CHECK(plural("image", "/s") == "images/s");
  CHECK(plural("utterance of 12.25 s") == "utterances of 12.25 s");
  CHECK(plural("utterance of 12.25 s", "/s") == "utterances/s of 12.25 s");
  CHECK(in_number(1, "utterance of 12.25 s") == "utterance of 12.25 s");
  CHECK(in_number(16, "sequence pair") == "sequence pairs");
}
