// Tests run side by side, each case in a process of its own: every process has a temporary folder of its own, so that
// no two write the same file.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <cstdlib>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <system_error>

namespace {

class OwnFolder : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testRunStarting(const Catch::TestRunInfo& info) override {
    TestEventListenerBase::testRunStarting(info);
    std::string name = (std::filesystem::temp_directory_path() / "ddlsim-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    folder_ = name;
    ::setenv("TMPDIR", name.c_str(), 1);  // what the tested programs see, too
  }

  void testRunEnded(const Catch::TestRunStats& stats) override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    TestEventListenerBase::testRunEnded(stats);
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace

CATCH_REGISTER_LISTENER(OwnFolder)
