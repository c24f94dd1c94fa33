// The strict YAML reader: what is refused, exactly where, and how a map is taken apart.
#include "ddlsim/io/yaml.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace ddlsim;
using namespace ddlsim::io;
using Catch::Matchers::Contains;
using Lines = std::vector<std::string>;

constexpr Dimension kRate = dimension::kData - dimension::kTime;

/// "line:column: message" of an error, or what was read when there is none.
std::string refusal(std::string_view text) {
  const auto document = parse_yaml(text, "f.yaml");
  if (!document) {
    const Error& error = document.error();
    CHECK(error.code == ErrorCode::kParse);
    CHECK(error.where.file == "f.yaml");
    return std::to_string(error.where.line) + ":" + std::to_string(error.where.column) + ": " + error.message;
  }
  return "accepted: " + document->text;
}

Node read(std::string_view text) {
  const auto document = parse_yaml(text, "f.yaml");
  if (!document) FAIL(to_string(document.error()));
  return *document;
}

std::string times(std::string_view part, std::size_t count) {
  std::string text;
  text.reserve(part.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

/// "line:column message" of every error in a list.
Lines lines_of(const std::vector<Error>& errors) {
  Lines lines;
  for (const Error& error : errors) {
    lines.push_back(std::to_string(error.where.line) + ":" + std::to_string(error.where.column) + " " + error.message);
  }
  return lines;
}

}  // namespace

TEST_CASE("yaml: a document becomes a tree that knows where it stood", "[unit][io]") {
  const Node root = read("name: \"a: b\"\nsizes: [1, '2']\n\ninner:\n  key: µ\n  empty:\n");
  REQUIRE(root.kind == NodeKind::kMap);
  REQUIRE(root.entries.size() == 3);
  CHECK(root.entries[0].key == "name");
  CHECK(root.entries[0].where == SourceLocation{"f.yaml", 1, 1});
  CHECK(root.entries[0].value.text == "a: b");
  CHECK(root.entries[0].value.where == SourceLocation{"f.yaml", 1, 7});
  const Node& sizes = root.entries[1].value;
  REQUIRE(sizes.kind == NodeKind::kList);
  REQUIRE(sizes.items.size() == 2);
  CHECK(sizes.items[1].text == "2");
  CHECK(sizes.items[1].where == SourceLocation{"f.yaml", 2, 12});
  const Node& inner = root.entries[2].value;
  REQUIRE(inner.entries.size() == 2);
  CHECK(inner.entries[0].where == SourceLocation{"f.yaml", 5, 3});
  CHECK(inner.entries[0].value.text == "µ");
  CHECK(inner.entries[1].value.text.empty());
}

TEST_CASE("yaml: anchors, aliases, merge keys and tags are refused", "[unit][io]") {
  CHECK_THAT(refusal("a: 1\nb: &x 2\n"), Contains("2:4: anchors"));
  CHECK_THAT(refusal("a: &x [1]\nb: *x\n"), Contains("1:4: anchors"));
  CHECK_THAT(refusal("a: *x\n"), Contains("1:4: "));
  CHECK_THAT(refusal("a: 1\n<<: {b: 2}\n"), Contains("2:1: merge keys"));
  CHECK_THAT(refusal("a: !!int 1\n"), Contains("1:4: tags (tag:yaml.org,2002:int)"));
  CHECK_THAT(refusal("a:\n  - !mine {}\n"), Contains("2:5: tags (!mine)"));
}

TEST_CASE("yaml: duplicate keys are refused at the second one", "[unit][io]") {
  CHECK(refusal("a: 1\nb: 2\na: 3\n") == "3:1: duplicate key 'a'");
  CHECK(refusal("m: {k: 1, k: 2}\n") == "1:11: duplicate key 'k'");
  CHECK(read("a: {k: 1}\nb: {k: 2}\n").entries.size() == 2);
}

TEST_CASE("yaml: a key must be plain text", "[unit][io]") {
  CHECK(refusal("a: 1\n? [b]\n: 2\n") == "2:3: a key must be plain text");
}

TEST_CASE("yaml: a second document is refused where it starts", "[unit][io]") {
  CHECK_THAT(refusal("a: 1\n---\nb: 2\n"), Contains("2:1: more than one document"));
  CHECK(read("---\na: 1\n").entries.size() == 1);
}

TEST_CASE("yaml: a file without a value is refused", "[unit][io]") {
  for (const char* text : {"", "\n\n", "# only a comment\n", "   ", "\xEF\xBB\xBF"}) {
    CAPTURE(text);
    CHECK(refusal(text) == "1:1: the file is empty");
  }
}

TEST_CASE("yaml: 64 levels are accepted and the 65th is refused", "[unit][io]") {
  CHECK(read(times("[", 64) + times("]", 64)).kind == NodeKind::kList);
  CHECK(refusal(times("[", 65) + times("]", 65)) == "1:65: nested deeper than 64 levels");
  // 64 dashes of 2 characters each open 64 lists; the 65th starts in column 129.
  CHECK(read(times("- ", 64) + "a").kind == NodeKind::kList);
  CHECK(refusal(times("- ", 65) + "a") == "1:129: nested deeper than 64 levels");
  // A map in a list counts as any other level: 64 dashes, then `a: 1`.
  CHECK(refusal(times("- ", 64) + "a: 1") == "1:129: nested deeper than 64 levels");
}

TEST_CASE("yaml: brackets that never close are named as what they are", "[unit][io]") {
  CHECK(refusal(times("[", 1000)) == "1:65: nested deeper than 64 levels");
  CHECK(refusal(times("{", 1000)) == "1:65: nested deeper than 64 levels");
}

TEST_CASE("yaml: text over the limit is refused", "[unit][io]") {
  STATIC_REQUIRE(kMaxFileSize <= std::size_t{16} << 20);
  const std::string text = "a: 1\n#" + std::string(kMaxFileSize - 6, 'x');  // exactly the limit
  CHECK(read(text).entries.size() == 1);
  CHECK(refusal(text + "x") == "0:0: larger than " + std::to_string(kMaxFileSize >> 20) + " MiB");
}

TEST_CASE("yaml: the first value over the limit is refused", "[unit][io]") {
  STATIC_REQUIRE(kMaxNodes <= 1'000'000);
  // A line that says anything holds a value, so lines are counted before the text is read.
  const std::string limit = std::to_string(kMaxNodes);
  CHECK(refusal(times("- a\n", kMaxNodes + 1)) == std::to_string(kMaxNodes + 1) + ":4: more than " + limit + " lines");
}

TEST_CASE("yaml: text that is not UTF-8 is refused at its first bad byte", "[unit][io]") {
  CHECK_THAT(refusal("a: b\nc: \xFF\n"), Contains("2:4: not UTF-8"));
  CHECK_THAT(refusal("a: \x80"), Contains("1:4: not UTF-8"));    // a continuation byte alone
  CHECK_THAT(refusal("a: \xC3"), Contains("1:4: not UTF-8"));    // the end of the text cuts it
  CHECK_THAT(refusal("a: \xC3(x"), Contains("1:4: not UTF-8"));  // not followed by a continuation byte
  CHECK_THAT(refusal("\xFF\xFE"
                     "a\n"),
             Contains("1:1: not UTF-8"));                // a UTF-16 byte-order mark
  CHECK(read("a: µ€\U0001F600\n").entries.size() == 1);  // 2, 3 and 4 bytes
}

TEST_CASE("yaml: byte sequences that only look like UTF-8 are refused", "[unit][io]") {
  CHECK_THAT(refusal("a: \xC0\x80"), Contains("1:4: not UTF-8"));          // NUL in two bytes
  CHECK_THAT(refusal("a: \xE0\x80\xAF"), Contains("1:4: not UTF-8"));      // '/' in three bytes
  CHECK_THAT(refusal("a: \xED\xA0\x80"), Contains("1:4: not UTF-8"));      // half of a surrogate pair
  CHECK_THAT(refusal("a: \xF4\x90\x80\x80"), Contains("1:4: not UTF-8"));  // above U+10FFFF
}

TEST_CASE("yaml: NUL and other control characters are refused", "[unit][io]") {
  CHECK_THAT(refusal(std::string("a: b\0c\n", 7)), Contains("1:5: not UTF-8"));
  CHECK_THAT(refusal("a: 1\nb: \x01\n"), Contains("2:4: not UTF-8"));
  CHECK_THAT(refusal("a: \x7F\n"), Contains("1:4: not UTF-8"));
  CHECK(read("a: 1\r\nb:\t2\r\n").entries.size() == 2);
}

TEST_CASE("yaml: broken syntax is refused with its place", "[unit][io]") {
  CHECK_THAT(refusal("a: b: c\n"), Contains("1:5: "));
  CHECK_THAT(refusal("a: 1\n  b: 2\n"), Contains("2:4: "));
  CHECK_THAT(refusal("a: [1, 2\n"), !Contains("accepted") && !Contains("0:0"));
  CHECK_THAT(refusal("a: \"open"), !Contains("accepted") && !Contains("0:0"));
}

TEST_CASE("yaml: a quote that never closes does not swallow the rest of the file", "[unit][io]") {
  CHECK_THAT(refusal("a: \"open\n"), !Contains("accepted") && !Contains("0:0"));
  CHECK_THAT(refusal("a: 'open\nb: 2\n"), !Contains("accepted") && !Contains("0:0"));
}

TEST_CASE("yaml: a key without a value stands on its own line", "[unit][io]") {
  const Node root = read("a:\n\n\nb: 1\n");
  REQUIRE(root.entries.size() == 2);
  CHECK(root.entries[0].value.text.empty());
  CHECK(root.entries[0].value.where.line == 1);
}

TEST_CASE("yaml: files that are missing, folders and too large are refused", "[unit][io]") {
  const auto folder = std::filesystem::temp_directory_path();
  const auto missing = load_yaml(folder / "ddlsim-no-such-file.yaml");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kIo);
  CHECK_THAT(to_string(missing.error()), Contains("ddlsim-no-such-file.yaml: error: no such file"));
  const auto directory = load_yaml(folder);
  REQUIRE_FALSE(directory);
  CHECK_THAT(to_string(directory.error()), Contains("not a regular file"));
  const auto large = folder / "ddlsim-yaml-test-large.yaml";
  std::ofstream(large).close();
  std::filesystem::resize_file(large, kMaxFileSize + 1);
  const auto refused = load_yaml(large);
  std::filesystem::remove(large);
  REQUIRE_FALSE(refused);
  CHECK_THAT(to_string(refused.error()), Contains(std::to_string(kMaxFileSize + 1) + " bytes, larger than"));
}

TEST_CASE("map_reader: values of every kind", "[unit][io]") {
  const Node root = read("name: x\nrate: 25 Gb/s\ncount: 3\non: true\nwhich: b\nsources: {rate: somewhere}\n");
  std::vector<Error> errors;
  MapReader reader(root, "a file", errors);
  CHECK(reader.text("name") == "x");
  CHECK(reader.quantity<kRate>("rate") == gigabits_per_second(25));
  CHECK(reader.count("count", {1, 10}) == 3);
  CHECK(reader.count_or("other", 7, {1, 10}) == 7);
  CHECK(reader.flag_or("on", false));
  CHECK_FALSE(reader.optional_quantity<kRate>("absent").has_value());
  constexpr Choices<int, 2> kChoices{{{"a", 1}, {"b", 2}}};
  CHECK(reader.choice("which", kChoices) == 2);
  const Sources sources = reader.sources({"rate", "absent"});
  REQUIRE(sources.size() == 1);
  CHECK(sources[0].text == "somewhere");
  reader.finish();
  CHECK(lines_of(errors) == Lines{});
}

TEST_CASE("map_reader: all errors of a map at once", "[unit][io]") {
  const Node root = read(
      "name: ''\nrate: 25\nlatency: 5 GB\ncount: 1.5\nbatch: 0\non: yes\nwhich: c\nlist: [1]\nsources: {}\nratte: 1\n");
  std::vector<Error> errors;
  MapReader reader(root, "a file", errors);
  constexpr Choices<int, 2> kChoices{{{"a", 1}, {"b", 2}}};
  CHECK(reader.text("name").empty());
  CHECK(reader.quantity<kRate>("rate") == Bandwidth::zero());
  CHECK(reader.quantity<dimension::kTime>("latency") == Time::zero());
  CHECK(reader.count("count", {1, 10}) == 1);
  CHECK(reader.count("batch", {1, 10}) == 1);
  CHECK(reader.flag_or("on", true));
  CHECK(reader.choice("which", kChoices) == 1);
  CHECK(reader.text("list").empty());
  CHECK(reader.sources({"rate"}).size() == 1);
  CHECK(reader.text("kind").empty());
  reader.finish();
  CHECK(lines_of(errors) == Lines{"1:7 'name' has no value", "2:7 '25' is not a bandwidth: the unit is missing",
                                  "3:10 '5 GB' is not a time but a data size", "4:8 '1.5' is not a whole number",
                                  "5:8 '0' is out of range", "6:5 'yes' is neither true nor false",
                                  "7:8 unknown which 'c'", "8:7 a single value is wanted here, not a list",
                                  "9:10 sources needs the key 'rate'", "1:1 a file needs the key 'kind'",
                                  "10:1 unknown key 'ratte' in a file"});
  REQUIRE_FALSE(errors.empty());
  CHECK(errors.back().notes == Lines{"did you mean 'rate'?"});
}

TEST_CASE("map_reader: with nothing near, each known key is offered once", "[unit][io]") {
  const Node root = read("name: x\nnote: y\nzzzzzzzz: 1\n");
  std::vector<Error> errors;
  MapReader reader(root, "a file", errors);
  CHECK(reader.text_or("name", "") == "x");
  CHECK(reader.text_or("note", "") == "y");
  reader.finish();
  REQUIRE(errors.size() == 1);
  CHECK(errors.front().notes == Lines{"valid: name, note"});
}

TEST_CASE("map_reader: a value that is no map is one error, not one per key", "[unit][io]") {
  const Node root = read("[1, 2]");
  std::vector<Error> errors;
  MapReader reader(root, "a file", errors);
  CHECK(reader.text("name").empty());
  CHECK(reader.count("count", {2, 10}) == 2);
  reader.finish();
  CHECK(lines_of(errors) == Lines{"1:1 a file must be a map of keys and values"});
}
