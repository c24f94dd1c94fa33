// The streaming CSV reader.
#include "ddlsim/io/csv.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace ddlsim;
using namespace ddlsim::io;
using Lines = std::vector<std::string>;
using Rows = std::vector<std::vector<std::string>>;

const std::vector<std::string> kColumns{"id", "count", "rate"};

std::string line_of(const Error& error) {
  return std::to_string(error.where.line) + ":" + std::to_string(error.where.column) + " " + error.message;
}

/// Rows as {id, count, rate, "line:column of count"}; an error ends them as {"line:column message"}.
Rows rows_of(const std::string& text) {
  std::istringstream stream(text);
  auto reader = CsvReader::open(stream, "f.csv", kColumns);
  Rows rows;
  if (!reader) return {{line_of(reader.error())}};
  while (true) {
    const auto more = reader->next();
    if (!more) {
      CHECK(more.error().where.file == "f.csv");
      rows.push_back({line_of(more.error())});
      return rows;
    }
    if (!*more) return rows;
    std::vector<std::string> row;
    for (std::size_t i = 0; i < kColumns.size(); ++i) row.emplace_back(reader->field(i));
    const SourceLocation where = reader->where(1);
    row.push_back(std::to_string(where.line) + ":" + std::to_string(where.column));
    rows.push_back(std::move(row));
  }
}

/// Every fault of a header.
Lines header_faults(const std::string& text) {
  std::istringstream stream(text);
  const auto reader = CsvReader::open(stream, "f.csv", kColumns);
  if (reader) return {};
  CHECK(reader.error().where.file == "f.csv");
  Lines lines{line_of(reader.error())};
  for (const Error& error : reader.error().also) lines.push_back(line_of(error));
  return lines;
}

}  // namespace

TEST_CASE("csv: the header may name the columns in any order", "[unit][io]") {
  CHECK(rows_of("id,count,rate\na,1,2.5\nb,3,4\n") == Rows{{"a", "1", "2.5", "2:3"}, {"b", "3", "4", "3:3"}});
  // `count` is the third field: 2.5 and a comma, a and a comma, then column 7.
  CHECK(rows_of("rate,id,count\n2.5,a,1\n") == Rows{{"a", "1", "2.5", "2:7"}});
}

TEST_CASE("csv: a missing column is named", "[unit][io]") {
  CHECK(header_faults("id,rate\n") == Lines{"1:8 the column 'count' is missing"});
  CHECK(header_faults("rate\n") == Lines{"1:5 the column 'id' is missing", "1:5 the column 'count' is missing"});
}

TEST_CASE("csv: unknown and duplicate columns are refused where they stand", "[unit][io]") {
  CHECK(header_faults("id,count,rate,extra\n") == Lines{"1:15 unknown column 'extra'"});
  CHECK(header_faults("id,count,id,rate\n") == Lines{"1:10 duplicate column 'id'"});
  CHECK(header_faults("id,Count,rate\n") == Lines{"1:4 unknown column 'Count'", "1:14 the column 'count' is missing"});
  CHECK(header_faults("id,count,rate,\n") == Lines{"1:15 unknown column ''"});
}

TEST_CASE("csv: an unknown column offers the nearest one", "[unit][io]") {
  std::istringstream stream("id,cuont,rate\n");
  const auto reader = CsvReader::open(stream, "f.csv", kColumns);
  REQUIRE_FALSE(reader);
  CHECK(reader.error().notes == Lines{"did you mean 'count'?"});
}

TEST_CASE("csv: what is no text, or has another separator, is said once", "[unit][io]") {
  using namespace std::string_literals;
  CHECK(header_faults("\x7f"
                      "ELF\0\1\n"s) == Lines{"1:0 is no text: it has a zero byte"});
  CHECK(rows_of("id,count,rate\na,\0,1\n"s) == Rows{{"2:0 is no text: it has a zero byte"}});
  CHECK(header_faults("id;count;rate\n") == Lines{"1:1 columns are separated by ';', not by commas"});
  CHECK(header_faults("id\tcount\trate\n") == Lines{"1:1 columns are separated by tabs, not by commas"});
}

TEST_CASE("csv: an empty file has no columns", "[unit][io]") {
  CHECK(header_faults("") == Lines{"1:1 the file is empty"});
  CHECK(header_faults("\n# nothing but a comment\n\n") == Lines{"1:1 the file is empty"});
  CHECK(rows_of("id,count,rate\n").empty());
}

TEST_CASE("csv: quoted fields", "[unit][io]") {
  CHECK(rows_of("id,count,rate\n\"a, b\",1,2\n") == Rows{{"a, b", "1", "2", "2:8"}});
  CHECK(rows_of("id,count,rate\n\"say \"\"a\"\"\",1,2\n") == Rows{{"say \"a\"", "1", "2", "2:13"}});
  CHECK(rows_of("\"id\",\"count\",\"rate\"\na,\"1\",\"\"\n") == Rows{{"a", "1", "", "2:3"}});
}

TEST_CASE("csv: broken quotes are refused where they open or end", "[unit][io]") {
  CHECK(rows_of("id,count,rate\na,\"1,2\n") == Rows{{"2:3 a quote is not closed"}});
  CHECK(rows_of("id,count,rate\n\"a\"x,1,2\n") == Rows{{"2:4 text after a closing quote"}});
  CHECK(header_faults("id,\"count,rate\n") == Lines{"1:4 a quote is not closed"});
}

TEST_CASE("csv: rows must be as long as the header", "[unit][io]") {
  CHECK(rows_of("id,count,rate\na,1,2\nb,3\n") ==
        Rows{{"a", "1", "2", "2:3"}, {"3:1 2 fields, but the header names 3 columns"}});
  CHECK(rows_of("id,count,rate\na,1,2,3\n") == Rows{{"2:1 4 fields, but the header names 3 columns"}});
}

TEST_CASE("csv: reading may go on after a row of the wrong length", "[unit][io]") {
  std::istringstream stream("id,count,rate\nshort\na,1,2\n");
  auto reader = CsvReader::open(stream, "f.csv", kColumns);
  REQUIRE(reader);
  CHECK_FALSE(reader->next().has_value());
  REQUIRE(reader->next().value());
  CHECK(reader->field(1) == "1");
  CHECK_FALSE(reader->next().value());
}

TEST_CASE("csv: line ends of every kind, a byte-order mark, no line end at all", "[unit][io]") {
  CHECK(rows_of("id,count,rate\r\na,1,2\r\n") == Rows{{"a", "1", "2", "2:3"}});
  CHECK(rows_of("\xEF\xBB\xBFid,count,rate\na,1,2\n") == Rows{{"a", "1", "2", "2:3"}});
  CHECK(rows_of("id,count,rate\na,1,2") == Rows{{"a", "1", "2", "2:3"}});
}

TEST_CASE("csv: blank lines and comments are passed over but counted", "[unit][io]") {
  CHECK(rows_of("# jobs\n\nid,count,rate\n\n# a,b\na,1,2\n\n") == Rows{{"a", "1", "2", "6:3"}});
}

TEST_CASE("csv: spaces around fields are not part of them", "[unit][io]") {
  CHECK(rows_of("id , count,rate\n a ,\t1 , 2\n") == Rows{{"a", "1", "2", "2:5"}});
}

TEST_CASE("csv: what follows a NUL byte is not dropped in silence", "[unit][io]") {
  const Rows rows = rows_of(std::string("id,count,rate\na,1,2\0x\n", 22));
  REQUIRE(rows.size() == 1);
  const bool refused = rows.front().size() == 1;
  CHECK((refused || rows.front()[2] == std::string("2\0x", 3)));
}

TEST_CASE("csv: many quoted columns", "[unit][io]") {
  std::istringstream stream("\"id\",\"count\",\"rate\"\n\"a\",\"b\",\"c\"\n");
  auto reader = CsvReader::open(stream, "f.csv", kColumns);
  REQUIRE(reader);
  REQUIRE(reader->next().value());
  CHECK(reader->field(0) == "a");
  CHECK(reader->field(1) == "b");
  CHECK(reader->field(2) == "c");
}

TEST_CASE("csv: empty fields are fields", "[unit][io]") {
  CHECK(rows_of("id,count,rate\n,,\n") == Rows{{"", "", "", "2:2"}});
}

TEST_CASE("csv: a line over 1 MiB is refused", "[unit][io]") {
  const std::string fits(1 << 20, 'x');  // with ",1,2" it no longer does
  const Rows refused = rows_of("id,count,rate\n" + fits + ",1,2\n");
  REQUIRE(refused.size() == 1);
  CHECK_THAT(refused.front().front(), Catch::Matchers::StartsWith("2:1 a line of "));
  CHECK(rows_of("id,count,rate\n" + fits.substr(4) + ",1,2\n").front().size() == 4);
}

TEST_CASE("csv: the value of a field is good until the next row", "[unit][io]") {
  std::istringstream stream("id,count,rate\n\"first\",1,2\n\"second one\",3,4\n");
  auto reader = CsvReader::open(stream, "f.csv", kColumns);
  REQUIRE(reader);
  CsvReader moved = std::move(*reader);
  REQUIRE(moved.next().value());
  CHECK(moved.field(0) == "first");
  REQUIRE(moved.next().value());
  CHECK(moved.field(0) == "second one");
}
