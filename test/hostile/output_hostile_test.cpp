// What the program writes does no harm: a file is whole or untouched, what is no file stays what it is, and whoever
// cannot write says so.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "files.h"
#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

/// Each writes a file to $1, as every way of writing one does.
const Words kWriters{
    R"("$DDLSIM" fleet --jobs 50 --what-if --cdf "$1")",
    R"("$DDLSIM" fleet --jobs 5000 --generate "$1")",
    R"("$DDLSIM" predict --model resnet50 --node dgx1-v100 --nodes 2 --trace "$1")",
};

/// Runs `script` with $1 set to `target`; the script says what it finds wrong on stdout.
Outcome write_to(const fs::path& folder, const std::string& target, const std::string& script) {
  return run_shell("set -- '" + target + "'; " + script, folder);
}

void cannot_write(const fs::path& folder, const std::string& target, const std::string& why) {
  for (const std::string& writer : kWriters) {
    const Outcome outcome = write_to(folder, target, writer);
    CAPTURE(writer, target, outcome.err);
    CHECK(outcome.status == 1);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, Contains(target + ": error: could not be written: " + why));
  }
}

}  // namespace

TEST_CASE("hostile: a full disk, a folder and a folder that is not there are errors", "[hostile]") {
  const TempFolder folder;
  fs::create_directory(folder.path() / "taken");
  cannot_write(folder.path(), "/dev/full", "No space left on device");
  cannot_write(folder.path(), "taken", "Is a directory");
  cannot_write(folder.path(), "none/out", "No such file or directory");
  cannot_write(folder.path(), "taken/../none/out", "No such file or directory");
  CHECK(folder.names() == Words{"taken"});
  CHECK(fs::is_character_file("/dev/full"));
  const Outcome model = run_shell(
      "ln -s /dev/full m.yaml; echo "
      "'{\"model_type\":\"gpt2\",\"n_positions\":64,\"n_embd\":64,\"n_head\":4,\"n_layer\":2,\"vocab_size\":99}' > "
      "c.json; "
      "\"$DDLSIM\" import hf c.json -o m.yaml",
      folder.path());
  CHECK(model.status == 1);
  CHECK_THAT(model.err, Contains("m.yaml: error: could not be written: No space left on device"));
}

TEST_CASE("hostile: an existing file survives a write that fails, and keeps its permissions else", "[hostile]") {
  const TempFolder folder;
  const std::string before = "what stood here\n";
  for (const std::string& writer : kWriters) {
    CAPTURE(writer);
    const std::string kept = folder.file("kept", before);
    // The shell's limit on the size of a file stands for a disk that fills up in the midst.
    const Outcome full = write_to(folder.path(), "kept", "trap '' XFSZ; ulimit -f 1; " + writer);
    CAPTURE(full.err);
    CHECK(full.status == 1);
    CHECK_THAT(full.err, Contains("kept: error: could not be written: File too large"));
    CHECK(contents(kept) == before);
    CHECK(folder.names() == Words{"kept"});

    fs::permissions(kept, fs::perms{0640});
    CHECK(write_to(folder.path(), "kept", writer).status == 0);
    CHECK(contents(kept).size() > before.size());
    CHECK(fs::status(kept).permissions() == fs::perms{0640});
    CHECK(folder.names() == Words{"kept"});
  }
}

TEST_CASE("hostile: a symbolic link stays one, and its target is replaced", "[hostile]") {
  const TempFolder folder;
  fs::create_directory(folder.path() / "far");
  fs::create_symlink("far/file", folder.path() / "second");
  fs::create_symlink("second", folder.path() / "first");
  for (const std::string& writer : kWriters) {
    for (const char* what : {"a target that is not there yet", "a target that is"}) {
      CAPTURE(writer, what);
      const Outcome outcome = write_to(folder.path(), "first", writer);
      CHECK(outcome.status == 0);
      CHECK(fs::is_symlink(folder.path() / "first"));
      CHECK(fs::is_symlink(folder.path() / "second"));
      CHECK(fs::symlink_status(folder.path() / "far/file").type() == fs::file_type::regular);
      CHECK(fs::file_size(folder.path() / "far/file") > 0);
      CHECK(std::distance(fs::directory_iterator(folder.path() / "far"), {}) == 1);
    }
    fs::remove(folder.path() / "far/file");
  }
  fs::create_symlink("loop", folder.path() / "loop");
  cannot_write(folder.path(), "loop", "Too many levels of symbolic links");
}

TEST_CASE("hostile: devices and FIFOs get the bytes and stay what they are", "[hostile]") {
  const TempFolder folder;
  for (const std::string& writer : kWriters) {
    CAPTURE(writer);
    const Outcome file = write_to(folder.path(), "plain", writer);
    REQUIRE(file.status == 0);
    const Outcome fifo =
        write_to(folder.path(), "fifo",
                 "rm -f fifo; mkfifo fifo; cat fifo > got & " + writer + " || exit; wait; test -p fifo || exit 98");
    CAPTURE(fifo.err);
    CHECK(fifo.status == 0);
    CHECK(contents(folder.path() / "got") == contents(folder.path() / "plain"));
    CHECK(write_to(folder.path(), "/dev/null", writer).status == 0);
    CHECK(fs::is_character_file("/dev/null"));
  }
  CHECK(folder.names() == Words{"fifo", "got", "plain"});
}

TEST_CASE("hostile: /dev/stdout is what the shell opened, a file, a pipe or a descriptor", "[hostile]") {
  const TempFolder folder;
  const std::string rows = R"("$DDLSIM" fleet --jobs 20 --generate )";
  const Outcome piped = run_shell(rows + "/dev/stdout", folder.path());
  CHECK(piped.status == 0);
  CHECK_THAT(piped.out, StartsWith("job,architecture"));
  CHECK(run_shell("{ echo before; " + rows + "/dev/stdout; echo after; } > file", folder.path()).status == 0);
  CHECK(contents(folder.path() / "file") == "before\n" + piped.out + "after\n");
  CHECK(run_shell("{ echo before >&3; " + rows + "/dev/fd/3; } 3> third", folder.path()).status == 0);
  CHECK(contents(folder.path() / "third") == "before\n" + piped.out);
  CHECK(folder.names() == Words{"file", "third"});
}

TEST_CASE("hostile: an answer that nobody can take is an error", "[hostile]") {
  const TempFolder folder;
  for (const char* command : {"predict --model resnet50 --node dgx1-v100", "list gpus", "--help", "predict --help",
                              "--version", "fleet --jobs 10 --generate -", "topology --node dgx1-v100"}) {
    for (const char* out : {"> /dev/full", ">&-", "< /dev/null 1<&0"}) {
      const Outcome outcome = run_shell(std::string(R"("$DDLSIM" )") + command + " " + out, folder.path());
      CAPTURE(command, out, outcome.err);
      CHECK(outcome.status == 1);
      CHECK_THAT(outcome.err, Contains("error: the answer could not be written to standard output"));
    }
  }
  // Nothing of the trace goes where the closed descriptors were, and nothing of the answer into the trace.
  const Outcome closed = run_shell(
      R"("$DDLSIM" predict --model resnet50 --node dgx1-v100 --trace trace.json <&- >&- 2>&-)", folder.path());
  CHECK(closed.status == 1);
  CHECK_THAT(contents(folder.path() / "trace.json"), StartsWith("{") && !Contains("error"));
}

TEST_CASE("hostile: a signal in the midst leaves nothing behind and what stood there", "[hostile]") {
  const TempFolder folder;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string kept = folder.file("kept", "what stood here\n");
    const auto writing = [&] { return folder.names().size() > 1; };
    CAPTURE(signal);
    std::signal(signal, SIG_DFL);  // the suite itself may have been started by nohup
    CHECK(interrupt_program({"fleet", "--jobs", "1000000000", "--generate", kept}, signal, writing) == 128 + signal);
    CHECK(folder.names() == Words{"kept"});
    CHECK(contents(kept) == "what stood here\n");
  }
  // Whoever ignores a signal, as nohup does, goes on ignoring it.
  const Outcome ignored = run_shell(
      "trap '' HUP; \"$DDLSIM\" fleet --jobs 300000 --generate out & sleep 0.1; kill -HUP $!; wait $!", folder.path());
  CHECK(ignored.status == 0);
  CHECK(folder.names() == Words{"kept", "out"});
}

TEST_CASE("hostile: two at once on one file leave one whole file", "[hostile]") {
  const TempFolder folder;
  const Outcome both = run_shell(
      "\"$DDLSIM\" fleet --jobs 20000 --seed 1 --generate one; \"$DDLSIM\" fleet --jobs 20000 --seed 2 --generate two; "
      "\"$DDLSIM\" fleet --jobs 20000 --seed 1 --generate out & \"$DDLSIM\" fleet --jobs 20000 --seed 2 --generate "
      "out; "
      "s=$?; wait $! && test $s = 0 && { cmp -s out one || cmp out two; }",
      folder.path());
  CAPTURE(both.out, both.err);
  CHECK(both.status == 0);
  CHECK(folder.names() == Words{"one", "out", "two"});
}

TEST_CASE("hostile: ranks of a job are written all or none", "[hostile]") {
  const TempFolder folder;
  const std::string job = R"("$DDLSIM" predict --model alexnet --node dgx1-v100 --gpus-per-node 4 --chakra t)";
  const std::string before = folder.file("t.0.et", "what stood here\n");
  fs::create_directory(folder.path() / "t.2.et");
  const Outcome blocked = run_shell(job, folder.path());
  CHECK(blocked.status == 1);
  CHECK_THAT(blocked.err, Contains("t.2.et: error: could not be written: Is a directory"));
  CHECK(contents(before) == "what stood here\n");
  CHECK(folder.names() == Words{"t.0.et", "t.2.et"});
  fs::remove(folder.path() / "t.2.et");
  CHECK(run_shell(job, folder.path()).status == 0);
  CHECK(folder.names() == Words{"t.0.et", "t.1.et", "t.2.et", "t.3.et"});
}
