// Parts of a fleet: the report of all is that of one process, to the byte; what is no part, or not of the same fleet,
// is refused.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "files.h"
#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
namespace fs = std::filesystem;

const Words kDrawn{"fleet", "--jobs", "30001", "--seed", "3"};

std::string part(const TempFolder& folder, const Words& command, const std::string& shard, const std::string& name) {
  const std::string path = (folder.path() / name).string();
  const Outcome run = run_program(plus(command, {"--shard", shard, "-o", path}), 60);
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  return path;
}

std::string output(const Words& command) {
  const Outcome run = run_program(command, 60);
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  return run.out;
}

}  // namespace

TEST_CASE("fleet: threads and parts change no byte", "[hostile][fleet]") {
  for (const Words& shape : {Words{}, Words{"--what-if"}}) {
    const Words command = plus(kDrawn, shape);
    const std::string one = output(plus(command, {"--threads", "1", "--json"}));
    CHECK(output(plus(command, {"--threads", "2", "--json"})) == one);
    CHECK(output(plus(command, {"--threads", "16", "--json"})) == one);
    const TempFolder folder;
    Words merge{"fleet", "--json", "--merge"};
    for (const char* shard : {"5/7", "1/7", "7/7", "2/7", "6/7", "4/7", "3/7"}) {
      merge.push_back(part(folder, plus(command, {"--threads", "3"}), shard, std::string(1, shard[0])));
    }
    CHECK(output(merge) == one);
    merge.push_back(part(folder, command, "3/7", "again"));
    CHECK(output(merge) == one);
    CHECK(run_program(merge, 60).err.find("note: part 3 is given twice, by ") != std::string::npos);
    Words whole{"fleet", "--json", "--merge"};
    whole.push_back((folder.path() / "whole").string());
    REQUIRE(run_program(plus(command, {"-o", whole.back()}), 60).status == 0);
    CHECK(output(whole) == one);
  }
}

TEST_CASE("fleet: parts of a table of jobs", "[hostile][fleet]") {
  const TempFolder folder;
  const std::string table = (folder.path() / "jobs.csv").string();
  REQUIRE(run_program(plus(kDrawn, {"--generate", table}), 60).status == 0);
  const Words command{"fleet", table, "--what-if"};
  const std::string one = part(folder, command, "1/3", "1");
  const std::string two = part(folder, command, "2/3", "2");
  const std::string three = part(folder, command, "3/3", "3");
  CHECK(output({"fleet", "--json", "--merge", one, two, three}) == output(plus(command, {"--json"})));
  std::ofstream(table, std::ios::app) << "30002,1w1g,1,1e12,0,0,0,0,0\n";
  const std::string other = part(folder, command, "3/3", "other");
  refused(kNoAnswer, {"fleet", "--merge", one, two, other}, {"other", "its jobs are 'table", "parts of one fleet"});
}

TEST_CASE("fleet: parts that do not make a fleet", "[hostile][fleet]") {
  const TempFolder folder;
  const std::string one = part(folder, kDrawn, "1/3", "1");
  const std::string three = part(folder, kDrawn, "3/3", "3");
  refused(kNoAnswer, {"fleet", "--merge", one, three}, {"parts of the fleet are missing", "part 2/3 is in none"});
  const auto differs = [&](const Words& command, const std::string& shard, const std::string& says) {
    refused(kNoAnswer, {"fleet", "--merge", one, part(folder, command, shard, "other")}, {"other", says});
  };
  differs({"fleet", "--jobs", "30001", "--seed", "4"}, "2/3", "seed 4");
  differs({"fleet", "--jobs", "30000", "--seed", "3"}, "2/3", "jobs 30000");
  differs(plus(kDrawn, {"--what-if"}), "2/3", "with --what-if");
  differs(kDrawn, "2/4", "one part of 4");
  const std::string good = contents(one);
  for (const std::size_t cut : {good.size() / 2, good.size() - 1, std::size_t{30}, std::size_t{14}}) {
    refused(kNoAnswer, {"fleet", "--merge", folder.file("cut", good.substr(0, cut))}, {"cut", "error"});
  }
  std::string flipped = good;
  flipped[good.size() / 2] ^= 1;
  refused(kNoAnswer, {"fleet", "--merge", folder.file("flipped", flipped)}, {"it is damaged"});
  refused(kNoAnswer, {"fleet", "--merge", folder.file("none", "job,architecture\n")},
          {"no part of a fleet", "-o FILE"});
  refused(kNoAnswer, {"fleet", "--merge", folder.file("new", "ddlsim-fleet 2\n" + good.substr(15))},
          {"another format"});
  refused(kNoAnswer, {"fleet", "--merge", folder.file("empty", "")}, {"no part of a fleet"});
  refused(kNoAnswer, {"fleet", "--merge", (folder.path() / "absent").string()}, {"absent", "could not be opened"});
  refused(kNoAnswer, plus(kDrawn, {"--shard", "1/3", "-o", "/no/such/folder/part"}), {"/no/such/folder/part"});
}

TEST_CASE("fleet: flags of parts that contradict each other", "[hostile][fleet]") {
  refused(kWrongUsage, plus(kDrawn, {"--shard", "5/4", "-o", "x"}), {"'5/4' is no part"});
  refused(kWrongUsage, plus(kDrawn, {"--shard", "1/4"}), {"--shard without -o"});
  refused(kWrongUsage, plus(kDrawn, {"--merge", "x"}), {"--merge and what the parts say themselves"});
  refused(kWrongUsage, {"fleet", "--merge", "x", "--what-if"}, {"--merge and what"});
  refused(kWrongUsage, {"fleet", "-", "--shard", "1/2", "-o", "x"}, {"leave out '-'"});
  refused(kWrongUsage, plus(kDrawn, {"--threads", "0"}), {"--threads"});
  refused(kWrongUsage, plus(kDrawn, {"--jobs", "0"}), {"--jobs"});
  refused(kWrongUsage, plus(kDrawn, {"--mpi", "perhaps"}), {"--mpi", "perhaps", "auto"});
}

TEST_CASE("mpi: ranks of a program that was built without it are told so", "[hostile][sweep][fleet]") {
  for (const char* command : {"fleet --jobs 9", "sweep --model alexnet --node dgx1-v100"}) {
    const std::string run = "OMPI_COMM_WORLD_SIZE=2 \"$DDLSIM\" " + std::string(command);
    const Outcome outcome = run_shell(run, ".");
    CHECK(outcome.status == kWrongUsage);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find("built without MPI") != std::string::npos);
    CHECK(run_shell(run + " --mpi never", ".").status == 0);
  }
  refused(kWrongUsage, plus(kDrawn, {"--mpi", "always"}), {"built without MPI", "cmake --preset mpi"});
}
