#include "output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

namespace ddlsim::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = std::size_t{1} << 16;
constexpr int kMostLinks = 40;  // as Linux follows
constexpr int kMostAttempts = 1000;
constexpr int kFirstOtherDescriptor = 10;  // shells hand down those below
constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

/// What the signal handler removes. Changed only while the signals are blocked, so that the handler sees it whole.
/// Never destroyed: a signal may come while the program ends.
std::vector<std::string>& partial_files() {
  static auto& paths = *new std::vector<std::string>;
  return paths;
}

/// Unlinks and dies of the same signal. Only calls that are async-signal-safe.
extern "C" void remove_partial_files(int number) {
  for (const std::string& path : partial_files()) ::unlink(path.c_str());
  ::signal(number, SIG_DFL);
  ::raise(number);  // delivered when the handler returns
}

/// Holds the signals back while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : kSignals) sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// A signal that is ignored, as by nohup, stays so.
void handle_signals() {
  struct sigaction action {};
  action.sa_handler = remove_partial_files;
  sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) sigaddset(&action.sa_mask, signal);
  for (const int signal : kSignals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) ::sigaction(signal, &action, nullptr);
  }
}

tl::unexpected<Error> not_written(const std::string& path, std::string_view why) {
  return fail(ErrorCode::kIo, fmt::format("could not be written: {}", why), {path, 0, 0});
}

tl::unexpected<Error> not_written(const std::string& path, int problem) {
  return not_written(path, std::strerror(problem));
}

bool same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

/// A copy of the descriptor by which the program was handed this file: /dev/stdout is what the shell opened, with its
/// place in it. -1: none.
int handed_down(const struct stat& file) {
  for (int descriptor = STDOUT_FILENO; descriptor < kFirstOtherDescriptor; ++descriptor) {
    struct stat open {};
    if (::fstat(descriptor, &open) != 0 || !same_file(open, file)) continue;
    const int mode = ::fcntl(descriptor, F_GETFL);
    if (mode >= 0 && (mode & O_ACCMODE) != O_RDONLY) return ::fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstOtherDescriptor);
  }
  return -1;
}

/// Where symbolic links lead, though nothing be there.
Expected<std::string> follow_links(const std::string& path) {
  fs::path target(path);
  std::error_code status;
  for (int i = 0; i < kMostLinks; ++i) {
    const fs::path next = fs::read_symlink(target, status);
    if (status) return target.string();  // no link
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return not_written(path, ELOOP);
}

}  // namespace

Expected<PartialFile> PartialFile::beside(const std::string& target) {
  const fs::path folder = fs::path(target).parent_path();
  const SignalsBlocked guard;
  static int number = 0;  // past files that a process of the same id left when it was killed, or writes on another host
  for (int i = 0; i < kMostAttempts; ++i) {
    // Not the target's name and more, which might be too long for a name.
    const std::string path = (folder / fmt::format("ddlsim-{}-{}.partial", ::getpid(), number++)).string();
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) return not_written(target, errno);
    partial_files().push_back(path);
    handle_signals();
    return PartialFile(path, descriptor);
  }
  return not_written(target, EEXIST);
}

PartialFile::PartialFile(PartialFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), descriptor_(std::exchange(other.descriptor_, -1)) {}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (path_.empty()) return;
  const SignalsBlocked guard;
  ::unlink(path_.c_str());
  std::erase(partial_files(), path_);
}

int PartialFile::take_descriptor() { return std::exchange(descriptor_, -1); }

Expected<void> PartialFile::rename_to(const std::string& target) {
  const SignalsBlocked guard;
  if (::rename(path_.c_str(), target.c_str()) != 0) return not_written(target, errno);
  std::erase(partial_files(), std::exchange(path_, {}));
  return {};
}

Expected<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile file(path);
  struct stat found {};
  const bool exists = ::stat(path.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) return not_written(path, errno);
  if (exists && S_ISDIR(found.st_mode)) return not_written(path, EISDIR);
  if (exists && S_ISBLK(found.st_mode)) return not_written(path, "it is a block device");
  if (exists) file.descriptor_ = handed_down(found);
  if (file.descriptor_ >= 0) return file;
  if (!exists || S_ISREG(found.st_mode)) {
    const auto target = follow_links(path);
    if (!target) return tl::unexpected<Error>(target.error());
    struct stat end {};
    // A link of /proc is not what it reads: that file has lost its name.
    const bool nameless = exists && (::lstat(target->c_str(), &end) != 0 || !same_file(end, found));
    if (!nameless) {
      if (auto opened = file.open_partial(*target, exists); !opened) return tl::unexpected<Error>(opened.error());
      return file;
    }
  }
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (file.descriptor_ < 0) return not_written(path, errno);
  return file;
}

Expected<void> OutputFile::open_partial(const std::string& target, bool exists) {
  if (exists && ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0) return not_written(path_, errno);
  auto partial = PartialFile::beside(target);
  if (!partial) return as_typed(std::move(partial.error()));
  target_ = target;
  partial_.emplace(std::move(*partial));
  descriptor_ = partial_->take_descriptor();
  struct stat before {};
  if (!exists || ::stat(target.c_str(), &before) != 0) return {};
  // Its owner only where that is allowed; then without bits that lend the owner's rights.
  const bool owned = ::fchown(descriptor_, before.st_uid, before.st_gid) == 0;
  if (::fchmod(descriptor_, before.st_mode & (owned ? 07777U : 0777U)) != 0) return not_written(path_, errno);
  return {};
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      partial_(std::move(other.partial_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

tl::unexpected<Error> OutputFile::as_typed(Error error) const {
  error.where.file = path_;
  return tl::unexpected<Error>(std::move(error));
}

Expected<void> OutputFile::write(std::string_view text) {
  if (buffer_.size() + text.size() < kBuffer) {
    buffer_ += text;
    return {};
  }
  auto flushed = send(std::exchange(buffer_, {}));
  return flushed ? send(text) : flushed;
}

Expected<void> OutputFile::send(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count < 0 && errno != EINTR) return not_written(path_, errno);
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Expected<void> OutputFile::close() {
  if (descriptor_ < 0) return {};
  if (auto sent = send(std::exchange(buffer_, {})); !sent) return sent;
  // What has no disk behind it says EINVAL; so do file systems that cannot.
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) {
    return not_written(path_, errno);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) return not_written(path_, errno);
  return {};
}

Expected<void> OutputFile::commit() {
  if (auto closed = close(); !closed) return closed;
  if (!partial_) return {};
  auto renamed = partial_->rename_to(target_);
  partial_.reset();
  return renamed ? renamed : as_typed(std::move(renamed.error()));
}

Expected<void> write_file(const std::string& path, std::string_view text) {
  auto file = OutputFile::open(path);
  if (!file) return tl::unexpected<Error>(file.error());
  if (auto written = file->write(text); !written) return written;
  return file->commit();
}

void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest number is free, and it is this one. Open the wrong way round, as the C library does for setuid
    // programs.
    if (::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

}  // namespace ddlsim::cli
