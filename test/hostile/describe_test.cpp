// What can be asked of the program about itself: help, completion, colour and progress on terminals, saved jobs.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "files.h"
#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

std::string answer(const Words& words) {
  const Outcome outcome = run_program(words, 60);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return outcome.out;
}

Json all_help() { return Json::parse(answer({"help", "--json"})); }

Words words_of(const Json& command) {
  Words words;
  std::string name = command["name"];
  for (std::size_t at = name.find(' '); at != std::string::npos;) {
    const std::size_t end = std::min(name.find(' ', at + 1), name.size());
    words.push_back(name.substr(at + 1, end - at - 1));
    at = end < name.size() ? end : std::string::npos;
  }
  return words;
}

/// The candidates that `ddlsim complete words...` names.
std::set<std::string> completed(Words words) {
  words.insert(words.begin(), "complete");
  std::set<std::string> found;
  const std::string text = answer(words);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    found.insert(text.substr(at, std::min(text.find('\t', at), end) - at));
    at = end + 1;
  }
  return found;
}

const Words kJob{"--model", "resnet50", "--node", "dgx1-v100", "--nodes", "2"};

}  // namespace

TEST_CASE("describe: every option of every command says what it is", "[hostile][describe]") {
  const Json help = all_help();
  CHECK(help["commands"].size() > 25);
  for (const Json& command : help["commands"]) {
    INFO(command["name"]);
    CHECK_FALSE(command["what"].get<std::string>().empty());
    for (const Json& option : command["options"]) {
      INFO(option.dump());
      CHECK_FALSE(option["what"].get<std::string>().empty());
      CHECK_FALSE(option["group"].get<std::string>().empty());
      // A word for its value says how it is written: by choices, a unit, or as a file (a name with a dot).
      if (option["value"].is_null()) continue;
      const std::string value = option["value"];
      CHECK((!option["written"].is_null() || !option["choices"].empty() || value.find('.') != std::string::npos));
    }
  }
}

TEST_CASE("describe: --help has every option, in groups, with its default", "[hostile][describe]") {
  const Json help = all_help();
  for (const Json& command : help["commands"]) {
    const Words words = words_of(command);
    const std::string text = answer(plus(words, {"--help"}));
    INFO(command["name"]);
    for (const Json& option : command["options"]) {
      for (const Json& name : option["names"]) CHECK_THAT(text, Contains(name.get<std::string>()));
      CHECK_THAT(text, words.empty() ? Contains("ddlsim") : Contains(option["group"].get<std::string>() + ":"));
    }
    if (!words.empty()) CHECK(answer(plus({"help"}, words)) == text);
  }
  const std::string what_if = answer({"what-if", "--help"});
  CHECK_THAT(what_if, Contains("--vs") && Contains("--name TEXT") && Contains("Alternatives, after the job:"));
  CHECK_THAT(answer({"plan", "--help"}), Contains("[60 s]") && Contains("a time with its unit: '180 ms', '24h'"));
}

TEST_CASE("describe: help that is not there", "[hostile][describe]") {
  refused(kWrongUsage, {"help", "predcit"}, {"unknown command 'predcit'", "predict"});
  refused(kWrongUsage, {"help", "import", "onxn"}, {"unknown format 'onxn'"});
  refused(kWrongUsage, {"help", "predict", "--format", "pdf"}, {"unknown format 'pdf'", "text, json, man"});
  refused(kWrongUsage, {"schema", "predcit"}, {"no schema 'predcit'", "predict"});
  refused(kWrongUsage, plus({"what-if", "--name", "x"}, kJob), {"--name before --vs"});
}

TEST_CASE("describe: the last word of a line is completed", "[hostile][describe]") {
  CHECK(completed({"pred"}) == std::set<std::string>{"predict"});
  CHECK(completed({"import", "t"}) == std::set<std::string>{"torchtitan"});
  CHECK(completed({"help", "import", "hf"}) == std::set<std::string>{"hf"});
  CHECK(completed({"predict", "--gpus-"}) == std::set<std::string>{"--gpus-per-node"});
  CHECK(completed({"what-if", "--v"}) == std::set<std::string>{"--vs"});
  // Names, of flags and of settings; files as well.
  CHECK(completed({"predict", "--model", "vgg11"}) == std::set<std::string>{"vgg11", "vgg11_bn", ":files"});
  CHECK(completed({"predict", "--node", "p3.16"}) == std::set<std::string>{"p3.16xlarge", ":files"});
  CHECK(completed({"predict", "--set", "model=vgg11_"}) == std::set<std::string>{"model=vgg11_bn", ":files"});
  CHECK(completed({"predict", "--set", "parallel.zer"}) == std::set<std::string>{"parallel.zero=", ":open"});
  CHECK(completed({"predict", "--set", "cuda_graphs="}) == std::set<std::string>{"cuda_graphs=yes", "cuda_graphs=no"});
  CHECK(completed({"predict", "--set", "network.latency="}) == std::set<std::string>{"network.latency=14 us"});
  CHECK(completed({"predict", "--precision=b"}) == std::set<std::string>{"--precision=bf16"});
  CHECK(completed({"recommend", "--catalog", "aws,g"}) == std::set<std::string>{"aws,gcp"});
  CHECK(completed({"list", "gpus", "v100s"}) == std::set<std::string>{"v100s-pcie-32gb"});
  CHECK(completed({"list", "settings", "parallel.recompute_e"}) == std::set<std::string>{"parallel.recompute_every"});
  CHECK(completed({"find", "network.la"}) == std::set<std::string>{"network.latency"});
  CHECK(completed({"find", "energy.c"}).empty());  // a number that no metric of a job depends on
  CHECK(completed({"loader", "one"}) == std::set<std::string>{"one_server", ":files"});
  // Nothing helps, and nothing goes wrong.
  CHECK(completed({"nonsense", "--x"}).empty());
  CHECK(completed({"predict", "--nodes", "1"}).empty());
  CHECK(completed({"predict", "--data", "/nowhere", "--model", "vgg11_"}) == std::set<std::string>{":files"});
}

TEST_CASE("describe: what completes the settings of words, they take", "[hostile][describe]") {
  const Json listed = Json::parse(answer({"list", "settings", "--json"}));
  int tried = 0;
  for (const Json& row : listed["rows"]) {
    const std::string path = row["name"];
    for (const std::string& candidate : completed({"predict", "--set", path + "="})) {
      const bool word = candidate.find_first_of(" .:/") == std::string::npos || candidate.ends_with("=yes");
      if (!word || path == "model" || path == "node" || path == "gpu" || path.starts_with("input.")) continue;
      const Outcome outcome = run_program(plus(plus({"predict"}, kJob), {"--set", candidate}));
      INFO(candidate << "\n" << outcome.err);
      CHECK_THAT(outcome.err, !Contains("unknown") && !Contains("no such"));
      CHECK(outcome.status != kWrongUsage);
      ++tried;
    }
  }
  CHECK(tried > 60);
}

TEST_CASE("describe: users' own data completes", "[hostile][describe]") {
  const TempFolder folder;
  std::filesystem::create_directories(folder.path() / "models");
  std::filesystem::create_directories(folder.path() / "hardware");
  std::filesystem::copy_file(std::string(DDLSIM_SOURCE_DATA) + "/models/alexnet.yaml",
                             folder.path() / "models" / "mine_alone.yaml");
  CHECK(completed({"predict", "--data", folder.path().string(), "--model", "mine"}) ==
        std::set<std::string>{"mine_alone", ":files"});
}

TEST_CASE("describe: colour is for terminals, and NO_COLOR is respected", "[hostile][describe]") {
  const TempFolder folder;
  const std::string predict = "$DDLSIM predict --model resnet50 --node dgx1-v100";
  const auto on_terminal = [&](const std::string& command) {
    return run_shell("TERM=xterm; export TERM; script -qec '" + command + "' /dev/null", folder.path(), 60).out;
  };
  if (run_shell("command -v script", folder.path()).status != 0) {
    WARN("skipped: no script(1) here");
    return;
  }
  const std::string bold = "\033[1m";
  CHECK_THAT(on_terminal(predict), Contains(bold) && Contains("\033[0m") && !Contains(bold + "step"));
  CHECK_THAT(on_terminal("$DDLSIM predict --help"), Contains(bold + "Usage:") && Contains(bold + "The job:"));
  CHECK_THAT(on_terminal("$DDLSIM predict --model nonsense --node dgx1-v100"), Contains("\033[1;31merror:"));
  CHECK_THAT(on_terminal("$DDLSIM nonsense"), Contains("\033[1;31merror:"));
  for (const char* none : {"NO_COLOR=1 ", "TERM=dumb "}) {
    CHECK_THAT(on_terminal(none + predict), !Contains("\033["));
    CHECK_THAT(on_terminal(std::string(none) + "$DDLSIM nonsense"), !Contains("\033["));
  }
  // An empty NO_COLOR is none (no-color.org); files, pipes and other formats have no colour.
  CHECK_THAT(on_terminal("NO_COLOR= " + predict), Contains(bold));
  CHECK_THAT(on_terminal(predict + " --json"), !Contains("\033["));
  CHECK_THAT(on_terminal(predict + " --format csv"), !Contains("\033["));
  CHECK_THAT(on_terminal(predict + " > file; cat file"), !Contains("\033["));
  CHECK_THAT(run_shell(predict, folder.path()).out, !Contains("\033["));
  // Colour adds, and changes nothing.
  std::string plain = on_terminal(predict);
  for (const std::string& code : {bold, std::string("\033[0m"), std::string("\r")}) {
    for (std::size_t at = plain.find(code); at != std::string::npos; at = plain.find(code))
      plain.erase(at, code.size());
  }
  CHECK(plain == run_shell(predict, folder.path()).out);
}

TEST_CASE("describe: what lasts says how long it still takes, on terminals alone", "[hostile][describe]") {
  const TempFolder folder;
  if (run_shell("command -v script", folder.path()).status != 0) {
    WARN("skipped: no script(1) here");
    return;
  }
  // More than any machine answers in the time it is given.
  const std::string fleet = "timeout 4 $DDLSIM fleet --population pai_2019 --jobs 1000000000 --what-if --headlines";
  const Outcome shown = run_shell("script -qec '" + fleet + " > answer' /dev/null", folder.path(), 240);
  CHECK_THAT(shown.out, Contains("of 1,000,000,000 jobs") && Contains("left"));
  CHECK_THAT(contents(folder.path() / "answer"), !Contains("left"));
  CHECK(run_shell(fleet + " 2>&1 >/dev/null", folder.path(), 240).out.empty());
}

TEST_CASE("save: a job is read back, and says where its values come from", "[hostile][describe]") {
  const TempFolder folder;
  const std::string job = (folder.path() / "job.yaml").string();
  for (const Words& more : {Words{}, Words{"--strategy", "ps", "--network", "25 Gb/s"}, Words{"--strategy", "horovod"},
                            Words{"--set", "efficiency.network=30 %", "--samples", "1e6", "--price", "3 $/h"}}) {
    const Words command = plus(plus({"predict"}, kJob), more);
    const std::string first = answer(plus(command, {"--save", job, "--json"}));
    CHECK(answer({"predict", "-f", job, "--json"}) == first);
    CHECK_THAT(contents(job), Contains("nodes: \"2\"  # stated"));
    CHECK_THAT(contents(job), Contains("# batch: 64") && Contains("the model's") && Contains("data "));
  }
  answer(plus(plus({"what-if"}, kJob), {"--vs", "--set", "network=100 Gb/s", "--save", job}));
  CHECK_THAT(contents(job), !Contains("100 Gb/s\""));
  CHECK(answer({"what-if", "-f", job, "--json"}) == answer(plus(plus({"what-if"}, kJob), {"--json"})));
}

TEST_CASE("save: nothing is harmed", "[hostile][describe]") {
  const TempFolder folder;
  refused(kWrongUsage, plus(plus({"predict"}, kJob), {"--save", ""}), {"--save has an empty value"});
  refused(kNoAnswer, plus(plus({"predict"}, kJob), {"--save", folder.path().string()}), {"could not be written"});
  refused(kWrongUsage, plus(plus({"predict"}, kJob), {"--save", "x.yaml", "--curve", "nodes=1,2"}), {"--save"});
  const std::string kept = folder.file("kept.yaml", "mine");
  refused(kNoAnswer, {"predict", "--model", "nonsense", "--node", "dgx1-v100", "--save", kept}, {"nonsense"});
  CHECK(contents(kept) == "mine");
  // A model file of one's own is found from everywhere.
  std::filesystem::copy_file(std::string(DDLSIM_SOURCE_DATA) + "/models/alexnet.yaml", folder.path() / "alexnet.yaml");
  const Outcome saved = run_shell(
      "$DDLSIM predict --model ./alexnet.yaml --node dgx1-v100 --save job.yaml >here; cd /; "
      "$DDLSIM predict -f \"$OLDPWD/job.yaml\"",
      folder.path());
  CHECK(saved.out == contents(folder.path() / "here"));
}

TEST_CASE("help: no command has two empty lines together", "[hostile]") {
  const Json all = all_help();
  for (const Json& command : all.at("commands")) {
    const std::string text = answer(plus(words_of(command), {"--help"}));
    INFO(command["name"]);
    CHECK(text.find("\n\n\n") == std::string::npos);
  }
}
