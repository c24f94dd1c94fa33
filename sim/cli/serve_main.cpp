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
#include "ddlsim/support/quantity_io.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

constexpr std::string_view kServeExamples = R"(
POST /v1/predict, /v1/what-if, /v1/find, /v1/plan, /v1/explain, /v1/stalls, /v1/recommend take a job as JSON or YAML and
give what the command prints with --json; / is a page that answers while you drag. GET /openapi.json says how to ask,
/v1/catalog what is known, /healthz and /metrics (Prometheus) how it goes. SIGTERM and Ctrl-C end it when every request
that had begun has its answer.

Only this machine can ask. --host opens it to others, and then needs a token, which is better given as DDLSIM_TOKEN in the
environment than on a command line that everybody sees. There is no TLS: put a proxy that has it in front.

Examples:
  ddlsim serve
  ddlsim serve --port 0
  DDLSIM_TOKEN=$(openssl rand -hex 16) ddlsim serve --host 0.0.0.0
  curl -d '{"model": "resnet50", "node": "dgx-a100"}' -H 'Content-Type: application/json' 127.0.0.1:8080/v1/predict)";

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

int read_port(const std::string& text) {
  const auto port = parse_count(text, {0, 65535});
  if (!port) throw UsageError{"--port: " + port.error().message, "as --port 8080"};
  return static_cast<int>(*port);
}

int serve_until_told(const std::vector<std::string>& arguments) {
  CLI::App app("Answer over HTTP, with a page that answers while you drag.", "ddlsim serve");
  app.footer(std::string(kServeExamples));
  serve::ServerOptions options;
  options.version = DDLSIM_VERSION;
  std::string port = std::to_string(options.port);
  std::string data;
  app.add_option("--port", port, "to listen on (8080); 0: any that is free, as stderr says")->type_name("N");
  app.add_option("--host", options.host, "address to listen on (127.0.0.1); others than this machine's need a token")
      ->type_name("ADDRESS");
  app.add_option("--token", options.token, "what who asks must show ($DDLSIM_TOKEN)")->type_name("TEXT");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  options.port = read_port(port);
  if (app.count("--token") > 0 && options.token.empty()) throw UsageError{"--token has an empty value", "leave it out"};
  const char* secret = std::getenv("DDLSIM_TOKEN");
  if (options.token.empty() && secret != nullptr) options.token = secret;
  options.threads = std::max<std::size_t>(std::thread::hardware_concurrency(), 2);

  auto catalog = open_catalog(data);
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
