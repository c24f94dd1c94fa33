// What there is of MPI in a program without it: a word to who expects it.
#include "program.h"
#include "ranks.h"

// NOLINTBEGIN(performance-unnecessary-value-param, readability-*): the functions are those of ranks_mpi.cpp.
namespace ddlsim::cli {

struct Ranks::Outbox {};

std::unique_ptr<Ranks> Ranks::join(UseMpi use) {
  if (use == UseMpi::kAlways || (use == UseMpi::kAuto && started() > 1)) {
    throw UsageError{"this program was built without MPI",
                     "cmake --preset mpi && cmake --build --preset mpi; or parts by --shard K/N, or --mpi never"};
  }
  return nullptr;
}

Ranks::Ranks(int number, int count) : number_(number), count_(count) {}
Ranks::~Ranks() = default;
std::vector<std::string> Ranks::gather(const std::string& text) { return {text}; }
std::string Ranks::share(const std::string& text) { return text; }
void Ranks::send(int /*to*/, std::string /*bytes*/) {}
std::optional<Message> Ranks::next() { return std::nullopt; }
void Ranks::leave_without_the_lost(int status) { std::_Exit(status); }

}  // namespace ddlsim::cli
// NOLINTEND(performance-unnecessary-value-param, readability-*)
