// The program ddlsim-serve, which `ddlsim serve` becomes.
#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "ddlsim/serve/server.h"
#include "ddlsim/service/service.h"
#include "program.h"
#include "serve_flags.h"

namespace ddlsim::cli {
namespace {

/// The signals that end the program; its threads never see them.
sigset_t ending() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

/// Ends `server` on the first signal, the program on the second.
class Ending {
 public:
  explicit Ending(serve::Server& server) : thread_([this, &server] { wait(server); }) {}
  ~Ending() {
    done_ = true;
    // Blocked everywhere: it ends the thread's sigwait, nothing else.
    // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  void wait(serve::Server& server) {
    const sigset_t set = ending();
    for (bool again = false; !done_; again = true) {
      int signal = 0;
      if (sigwait(&set, &signal) != 0 || done_) return;
      if (again) std::_Exit(128 + signal);
      std::fputs("ddlsim: no more requests; those that had begun are answered\n", stderr);
      server.stop();
    }
  }

  std::atomic<bool> done_ = false;
  std::thread thread_;
};

int serve_until_told(const std::vector<std::string>& arguments) {
  CLI::App app;
  ServeFlags flags;
  flags.read(app, arguments);
  serve::ServerOptions options;
  options.version = DDLSIM_VERSION;
  options.port = flags.port();
  options.host = flags.host;
  options.token = flags.token;
  const char* secret = std::getenv("DDLSIM_TOKEN");
  if (options.token.empty() && secret != nullptr) options.token = secret;
  options.threads = std::max<std::size_t>(std::thread::hardware_concurrency(), 2);

  auto catalog = open_catalog(flags.data);
  if (!catalog) return print(catalog.error());
  const service::Limits limits{.request = options.body, .files = false, .search = options.answer_time * 0.8};
  const std::string host = options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
  const sigset_t set = ending();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // every thread from now on
  auto server = serve::Server::listen(std::make_shared<service::Service>(std::move(*catalog), limits), options);
  if (!server) return print(server.error());
  std::fputs(fmt::format("ddlsim: http://{}:{}/\n", host, server->port()).c_str(), stderr);
  bool served = false;
  {
    const Ending signals(*server);
    served = server->run();
  }
  if (server->busy()) std::_Exit(served ? kDone : kNoAnswer);  // nobody waits for what is still computed
  return served ? kDone : kNoAnswer;
}

int answer(const std::vector<std::string>& arguments) {
  try {
    return serve_until_told(arguments);
  } catch (const UsageError& problem) {
    std::fputs(fmt::format("error: {}\n  {}\n", problem.message, problem.hint).c_str(), stderr);
    return kWrongUsage;
  } catch (const HelpRequest& help) {
    return print(help.text);
  } catch (const std::exception& problem) {
    std::fputs(fmt::format("error: {} (a fault of ddlsim itself)\n", problem.what()).c_str(), stderr);
    return kNoAnswer;
  }
}

}  // namespace
}  // namespace ddlsim::cli

int main(int argc, char** argv) { return ddlsim::cli::answer({argv + 1, argv + argc}); }
