#include "hostile/run_program.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace ddlsim::test {
namespace {

constexpr std::size_t kMostKept = std::size_t{4} << 20;
constexpr rlim_t kAddressSpace = rlim_t{4} << 30;

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  return {ends[0], ends[1]};
}

void close_end(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

/// Becomes the program; in the child, after fork.
[[noreturn]] void become(std::vector<char*> arguments, int in, int out, int err) {
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  std::signal(SIGPIPE, SIG_DFL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  const rlimit space{kAddressSpace, kAddressSpace};
  if (!kSanitized) ::setrlimit(RLIMIT_AS, &space);  // a sanitizer reserves terabytes of it
  ::setenv("DDLSIM_DATA", DDLSIM_SOURCE_DATA, 1);
  ::setenv("DDLSIM", DDLSIM_PROGRAM, 1);
  ::execv(arguments.front(), arguments.data());
  ::_exit(126);
}

/// Reads what is there; false at the end.
bool drain(int descriptor, std::string& text) {
  std::array<char, 1 << 16> buffer{};
  const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (text.size() < kMostKept) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

/// Standard input, piece by piece, without waiting for the program to take it.
class Writer {
 public:
  Writer(const Feed& feed, int descriptor) : feed_(feed), descriptor_(descriptor) {
    ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  }

  /// False when there is nothing more to write, or nobody to read it.
  bool step() {
    if (done_ == chunk_.size()) {
      chunk_.clear();
      done_ = 0;
      if (!feed_(chunk_)) return false;
    }
    const ssize_t count = ::write(descriptor_, chunk_.data() + done_, chunk_.size() - done_);
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    done_ += static_cast<std::size_t>(count);
    return true;
  }

 private:
  const Feed& feed_;
  int descriptor_;
  std::string chunk_;
  std::size_t done_ = 0;
};

/// Feeds and reads all pipes at once, so that none fills up while another is waited for.
void converse(Pipe& in, Pipe& out, Pipe& err, const Feed& feed, Outcome& outcome, pid_t child, Clock::time_point end) {
  Writer writer(feed, in.write);
  while (out.read >= 0 || err.read >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) ::kill(child, SIGKILL);
    std::array<pollfd, 3> ends{
        {{out.read, POLLIN, 0}, {err.read, POLLIN, 0}, {in.write, POLLOUT, 0}}};  // poll ignores those that are -1
    if (::poll(ends.data(), ends.size(), static_cast<int>(std::clamp<long>(left, 10, 1000))) < 0) continue;
    if (ends[0].revents != 0 && !drain(out.read, outcome.out)) close_end(out.read);
    if (ends[1].revents != 0 && !drain(err.read, outcome.err)) close_end(err.read);
    if (ends[2].revents != 0 && !writer.step()) close_end(in.write);
  }
}

}  // namespace

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

namespace {

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

/// The first word is the program.
Outcome run_words(Words words, double seconds, const Feed& feed) {
  std::signal(SIGPIPE, SIG_IGN);
  // A child's peak includes that of the process that forked it: begin anew from what is held now.
  std::ofstream("/proc/self/clear_refs") << "5";
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) become(pointers, in.read, out.write, err.write);
  close_end(in.read);
  close_end(out.write);
  close_end(err.write);
  if (!feed) close_end(in.write);

  Outcome outcome;
  const auto limit =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kSanitized ? 5 * seconds : seconds));
  converse(in, out, err, feed, outcome, child, start + limit);
  close_end(in.write);
  int status = 0;
  rusage usage{};
  while (::wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  outcome.cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  outcome.status = exit_status(status);
  outcome.peak_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  return outcome;
}

}  // namespace

Outcome run_program(const Words& arguments, double seconds, const Feed& feed) {
  return run_words(plus({DDLSIM_PROGRAM}, arguments), seconds, feed);
}

Outcome run_shell(const std::string& script, const std::filesystem::path& folder, double seconds) {
  return run_words({"/bin/sh", "-c", "cd \"$0\" || exit 99; " + script, folder.string()}, seconds, {});
}

int interrupt_program(const Words& arguments, int signal, const std::function<bool()>& ready) {
  Words words = plus({DDLSIM_PROGRAM}, arguments);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) become(pointers, nothing, nothing, nothing);
  ::close(nothing);
  const auto end = Clock::now() + std::chrono::seconds(20);
  bool sent = false;
  while (!sent && Clock::now() < end) {
    ::usleep(1000);
    sent = ready() && ::kill(child, signal) == 0;
  }
  if (!sent) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return sent ? exit_status(status) : -1;
}

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "ddlsim-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::file(const std::string& name, std::string_view head, std::string_view part, std::int64_t times,
                             std::string_view tail) const {
  const std::filesystem::path path = path_ / name;
  std::ofstream stream(path, std::ios::binary);
  stream << head;
  for (std::int64_t i = 0; i < times; ++i) stream << part;
  stream << tail;
  return path.string();
}

Words TempFolder::names() const {
  Words names;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void refused(int status, const Words& arguments, const Words& says) {
  const Outcome outcome = run_program(arguments);
  CAPTURE(arguments);
  CHECK(outcome.status == status);
  CHECK(outcome.out.substr(0, 80) == "");
  const std::string err = outcome.err.substr(0, 2000);
  for (const std::string& part : says) CHECK_THAT(err, Catch::Matchers::Contains(part));
  CHECK_THAT(err, !Catch::Matchers::Contains("fault of ddlsim itself"));
  CHECK(outcome.cpu_seconds < kMostSeconds);
  CHECK(outcome.peak_bytes < kMostBytes);
}

std::string refused_import(const std::string& format, const std::string& file, const Words& more, int status) {
  const Outcome outcome = run_program(plus({"import", format, file}, more));
  CAPTURE(file, outcome.err);
  CHECK(outcome.status == status);
  CHECK(outcome.out.empty());
  CHECK(outcome.cpu_seconds < kMostSeconds);
  CHECK(outcome.peak_bytes < kMostBytes);
  CHECK_THAT(outcome.err, Catch::Matchers::Contains("error: "));
  return outcome.err;
}

}  // namespace ddlsim::test
