#include "onnx_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace ddlsim::importers::onnx {
namespace {

/// Closed whatever happens.
struct Descriptor {
  int number = -1;
  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

Expected<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const SourceLocation where{path.string(), 0, 0};
  // Non-blocking, so that a pipe nobody writes to is refused instead of waited for.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) return fail(ErrorCode::kIo, "could not be opened: " + reason(), where);
  struct stat status {};
  if (::fstat(file.number, &status) != 0) return fail(ErrorCode::kIo, "could not be read: " + reason(), where);
  if (S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::kIo, "is a folder, not an ONNX file", where, {"name the .onnx file in it"});
  }
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kIo, "is not a regular file", where);
  if (status.st_size == 0) return fail(ErrorCode::kParse, "the file is empty", where);
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (data == MAP_FAILED) return fail(ErrorCode::kIo, "could not be mapped: " + reason(), where);
  return MappedFile(static_cast<const char*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  // munmap takes a pointer to what it may not change, yet not const.
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace ddlsim::importers::onnx
