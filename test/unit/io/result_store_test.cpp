// Rows in a file: what comes back, what is refused, what merges.
#include "ddlsim/io/result_store.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "ddlsim/io/content_hash.h"
#include "files.h"

namespace {

using namespace ddlsim;
using namespace ddlsim::io;
using Catch::Matchers::Contains;
using ddlsim::test::contents;
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("ddlsim_store_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator()(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

ResultRun run_of(std::int64_t shard = 1, std::int64_t shards = 1) {
  return {.program = "ddlsim test",
          .grid = "nodes: [1] [2]\n",
          .grid_hash = "aa",
          .data_hash = "bb",
          .detail = "time",
          .points = 4,
          .shard = shard,
          .shards = shards,
          .settings = {{"model", "resnet50"}},
          .columns = {{"point", CellType::kInteger, false},
                      {"nodes", CellType::kText, true},
                      {"step_time_s", CellType::kReal, false},
                      {"why", CellType::kText, false}},
          .extras = {"CREATE VIEW fast AS SELECT point FROM point WHERE step_time_s < 1"}};
}

using Row = std::vector<Cell>;
Row row(std::int64_t point, double step) { return {point, std::to_string(point + 1), step, std::monostate{}}; }

std::vector<Row> all_of(const std::string& path) {
  std::vector<Row> rows;
  const auto store = ResultStore::read(path);
  REQUIRE(store);
  REQUIRE(store->each([&](std::span<const Cell> one) -> Expected<void> {
    rows.emplace_back(one.begin(), one.end());
    return {};
  }));
  return rows;
}

void write_part(const std::string& path, const ResultRun& run, const std::vector<Row>& rows, bool finish = true) {
  auto store = ResultStore::open(path, run);
  REQUIRE(store);
  for (const Row& one : rows) REQUIRE(store->add(one));
  if (finish) {
    REQUIRE(store->finish());
  } else {
    REQUIRE(store->commit());
  }
}

std::string open_fault(const std::string& path, const ResultRun& run) {
  const auto store = ResultStore::open(path, run);
  REQUIRE_FALSE(store);
  return to_string(store.error());
}

}  // namespace

TEST_CASE("result store: rows come back as they were", "[store]") {
  const Folder in;
  const Row whole{std::int64_t{0}, std::string("1"), 0.1 + 0.2, std::monostate{}};
  const Row failed{std::int64_t{3}, std::string("it's \"2\""), std::monostate{}, std::string("no answer")};
  write_part(in("a.db"), run_of(), {whole, failed});
  CHECK(all_of(in("a.db")) == std::vector<Row>{whole, failed});
  const auto store = ResultStore::read(in("a.db"));
  CHECK(store->run().rows == 2);
  CHECK(store->run().finished);
  CHECK(store->last_point() == 3);
  CHECK(store->run().settings == run_of().settings);
  CHECK(store->run().columns[1].axis);
  CHECK(store->query("SELECT * FROM fast")->size() == 1);
  CHECK(store->query("SELECT strict FROM pragma_table_list WHERE name = 'point'")->front().front() ==
        Cell(std::int64_t{1}));
}

TEST_CASE("result store: what was committed is there when the file is opened again", "[store]") {
  const Folder in;
  {
    auto store = ResultStore::open(in("a.db"), run_of());
    REQUIRE(store->add(row(0, 0.5)));
    REQUIRE(store->commit());
    REQUIRE(store->add(row(1, 0.5)));  // never committed
  }
  auto again = ResultStore::open(in("a.db"), run_of());
  REQUIRE(again);
  CHECK(again->run().rows == 1);
  CHECK(again->last_point() == 0);
  CHECK_FALSE(again->run().finished);
  CHECK_THAT(open_fault(in("a.db"), run_of()), Contains("locked"));
  CHECK_FALSE(ResultStore::read(in("a.db")));
}

TEST_CASE("result store: another question's file is left as it is", "[store]") {
  const Folder in;
  write_part(in("a.db"), run_of(), {row(0, 0.5)}, false);
  const std::string before = contents(in("a.db"));
  ResultRun other = run_of();
  other.grid = "another";
  other.grid_hash = "cc";
  CHECK_THAT(open_fault(in("a.db"), other), Contains("another grid"));
  other = run_of();
  other.grid_hash = "cc";
  CHECK_THAT(open_fault(in("a.db"), other), Contains("other contents of files that its settings name"));
  other = run_of();
  other.program = "ddlsim next";
  CHECK_THAT(open_fault(in("a.db"), other), Contains("written by ddlsim test, and this is ddlsim next"));
  other = run_of();
  other.data_hash = "dd";
  CHECK_THAT(open_fault(in("a.db"), other), Contains("other files of models or hardware"));
  other = run_of();
  other.detail = "full";
  CHECK_THAT(open_fault(in("a.db"), other), Contains("detail 'time'"));
  CHECK_THAT(open_fault(in("a.db"), run_of(2, 3)), Contains("one part of 1"));
  CHECK(contents(in("a.db")) == before);
}

TEST_CASE("result store: what is no database of ours is left as it is", "[store]") {
  const Folder in;
  std::ofstream(in("text.db")) << "a shopping list";
  CHECK_THAT(open_fault(in("text.db"), run_of()), Contains("no SQLite database"));
  CHECK(contents(in("text.db")) == "a shopping list");
  std::ofstream(in("empty.db")).close();
  CHECK(ResultStore::open(in("empty.db"), run_of()));  // as mktemp leaves one
  CHECK_THAT(open_fault(in("no/such/folder.db"), run_of()), Contains("unable to open"));
  CHECK_THAT(to_string(ResultStore::read(in("none.db")).error()), Contains("no such file"));
  CHECK_FALSE(fs::exists(in("none.db")));
  CHECK_THAT(open_fault(in("."), run_of()), Contains("no regular file"));
}

TEST_CASE("result store: a file that is cut short or of another schema", "[store]") {
  const Folder in;
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < 5000; ++i) rows.push_back(row(i, 1.0 / static_cast<double>(i + 1)));
  write_part(in("a.db"), run_of(), rows);
  const auto size = fs::file_size(in("a.db"));
  for (const std::uintmax_t kept : {size / 2, size - 4096, std::uintmax_t{100}, std::uintmax_t{10}}) {
    fs::copy_file(in("a.db"), in("cut.db"), fs::copy_options::overwrite_existing);
    fs::resize_file(in("cut.db"), kept);
    const std::string before = contents(in("cut.db"));
    CHECK_THAT(open_fault(in("cut.db"), run_of()), Contains("damaged or cut short") || Contains("no SQLite database"));
    CHECK_FALSE(ResultStore::read(in("cut.db")));
    CHECK(contents(in("cut.db")) == before);
  }
  std::string bytes = contents(in("a.db"));
  bytes[63] = 2;  // user_version, big-endian at 60
  std::ofstream(in("next.db"), std::ios::binary) << bytes;
  CHECK_THAT(open_fault(in("next.db"), run_of()), Contains("schema 2"));
  bytes[71] = 'x';  // application_id, at 68
  std::ofstream(in("other.db"), std::ios::binary) << bytes;
  CHECK_THAT(open_fault(in("other.db"), run_of()), Contains("another program's"));
}

TEST_CASE("result store: parts of one grid become one file", "[store]") {
  const Folder in;
  write_part(in("1.db"), run_of(1, 2), {row(0, 0.5), row(3, 0.25)});
  write_part(in("2.db"), run_of(2, 2), {row(1, 2.5), row(2, 0.125)});
  const auto merged = merge_results({in("2.db"), in("1.db"), in("1.db")}, in("all.db"), run_of().extras);
  REQUIRE(merged);
  CHECK(merged->rows == 4);
  CHECK(merged->twice == 2);
  CHECK(all_of(in("all.db")) == std::vector<Row>{row(0, 0.5), row(1, 2.5), row(2, 0.125), row(3, 0.25)});
  CHECK(ResultStore::read(in("all.db"))->query("SELECT * FROM fast")->size() == 3);
  CHECK(ResultStore::open(in("all.db"), run_of()));  // it is the whole grid's
}

TEST_CASE("result store: conflicts and gaps are named", "[store]") {
  const Folder in;
  write_part(in("1.db"), run_of(1, 3), {row(0, 0.5)});
  write_part(in("2.db"), run_of(2, 3), {row(1, 2.5)}, false);
  const auto gap = merge_results({in("1.db"), in("2.db")}, in("all.db"), {});
  REQUIRE_FALSE(gap);
  CHECK_THAT(to_string(gap.error()), Contains("part 3/3 is in none") && Contains("part 2/3 is not finished (1 rows"));
  CHECK_FALSE(fs::exists(in("all.db")));
  write_part(in("a.db"), run_of(), {row(0, 0.5), row(1, 1.5)});
  write_part(in("b.db"), run_of(), {row(0, 0.5), row(1, 9.5)});
  const auto conflict = merge_results({in("a.db"), in("b.db")}, in("all.db"), {});
  REQUIRE_FALSE(conflict);
  CHECK_THAT(to_string(conflict.error()), Contains("point 1 (nodes 2): step_time_s is 1.5, and 9.5 in"));
  ResultRun other = run_of();
  other.grid = "another";
  other.grid_hash = "cc";
  write_part(in("c.db"), other, {row(0, 0.5)});
  const auto mixed = merge_results({in("a.db"), in("c.db")}, in("all.db"), {});
  REQUIRE_FALSE(mixed);
  CHECK_THAT(to_string(mixed.error()), Contains("c.db") && Contains("another grid") && Contains("a.db"));
}

TEST_CASE("content hash: the published vector, and where texts end", "[store]") {
  ContentHash empty;
  CHECK(empty.hex() == "cbf29ce484222325");  // FNV-1a's offset
  ContentHash one;
  one.add("ab");
  ContentHash two;
  two.add("a");
  two.add("b");
  CHECK(one.hex() != two.hex());
}
