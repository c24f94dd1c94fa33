// The blocks of the guide's "More than one machine" do what they say. A block follows `<!-- run NAME -->`.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
namespace fs = std::filesystem;

std::string block(const std::string& name) {
  std::ifstream readme(std::string(DDLSIM_SOURCE_DATA) + "/sim/README.md");
  std::string text;
  bool marked = false;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (inside && line == "```") return text;
    if (inside) text += line + "\n";
    if (marked && !inside && line.starts_with("```")) inside = true;
    marked = marked || line == "<!-- run " + name + " -->";
  }
  FAIL("sim/README.md has no block '" << name << "'");
  return "";
}

/// A folder with the program as `ddlsim` and a stand-in for sbatch, which runs an array's tasks, last first.
class Machine {
 public:
  Machine() {
    fs::create_directory(folder_.path() / "bin");
    fs::create_symlink(DDLSIM_PROGRAM, folder_.path() / "bin" / "ddlsim");
    const std::string sbatch = folder_.file("bin/sbatch", R"(#!/bin/sh
[ "$1" = --wait ] || exit 9
grep -q '^#SBATCH .*--array=1-4 ' "$2" || exit 9
export SLURM_ARRAY_TASK_COUNT=4 SLURM_CPUS_PER_TASK=2
for SLURM_ARRAY_TASK_ID in 4 3 2 1; do export SLURM_ARRAY_TASK_ID; sh "$2" || exit; done
)");
    fs::permissions(sbatch, fs::perms::owner_all);
  }
  void run(const std::string& script) const {
    const Outcome outcome = run_shell("set -e; PATH=\"$PWD/bin:$PATH\"\n" + script, folder_.path(), 120);
    CAPTURE(script, outcome.out, outcome.err);
    REQUIRE(outcome.status == 0);
  }
  [[nodiscard]] std::string rows(const std::string& database) const {
    return run_shell("\"$DDLSIM\" sweep --report " + database + " --format csv", folder_.path()).out;
  }

 private:
  TempFolder folder_;
};

void same_rows(const std::string& name) {
  const Machine machine;
  machine.run(block("grid"));
  const std::string straight = machine.rows("results.db");
  REQUIRE(std::count(straight.begin(), straight.end(), '\n') > 100);
  machine.run(block(name));
  CHECK(machine.rows("all.db") == straight);
}

}  // namespace

TEST_CASE("readme: a sweep in parts by xargs", "[hostile][sweep]") { same_rows("xargs"); }

TEST_CASE("readme: a sweep in parts by GNU parallel", "[hostile][sweep]") {
  if (run_shell("parallel --version 2>/dev/null | grep -q 'GNU parallel'", ".").status == 0) {
    same_rows("parallel");
  } else {
    WARN("GNU parallel is not installed: its block was not run");
  }
}

TEST_CASE("readme: a sweep as an array of Slurm", "[hostile][sweep]") { same_rows("slurm"); }

TEST_CASE("readme: a fleet in parts", "[hostile][fleet]") {
  const Machine machine;
  machine.run("{\n" + block("fleet") + "} > merged\nddlsim fleet --jobs 1000000 > one\ncmp merged one");
}

TEST_CASE("readme: a sweep as an indexed job of Kubernetes", "[hostile][sweep]") {
  const Machine machine;
  machine.run(block("grid"));
  const std::string job = block("kubernetes");
  const std::string head = "command: [sh, -c, '";
  const std::size_t start = job.find(head);
  REQUIRE(start != std::string::npos);
  const std::size_t first = start + head.size();
  const std::string command = job.substr(first, job.find("']", first) - first);
  for (const char* index : {"0", "1", "2", "3"}) {
    machine.run("export JOB_COMPLETION_INDEX=" + std::string(index) + "\n" + command);
  }
  machine.run("ddlsim sweep --merge part*.db -o all.db");
  CHECK(machine.rows("all.db") == machine.rows("results.db"));
}
