#include "serve_flags.h"

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

}  // namespace

void ServeFlags::read(CLI::App& app, const std::vector<std::string>& arguments) {
  app.description("Answer over HTTP, with a page that answers while you drag.");
  app.name("ddlsim serve");
  app.footer(std::string(kServeExamples));
  app.add_option("--port", port_text, "to listen on (8080); 0: any that is free, as stderr says")->type_name("N");
  app.add_option("--host", host, "address to listen on (127.0.0.1); others than this machine's need a token")
      ->type_name("ADDRESS");
  app.add_option("--token", token, "what who asks must show ($DDLSIM_TOKEN)")->type_name("TEXT");
  app.add_option("--data", data, "folder that holds models/ and hardware/")->type_name("DIR");
  parse(app, arguments);
  static_cast<void>(port());
}

int ServeFlags::port() const {
  const auto port = parse_count(port_text, {0, 65535});
  if (!port) throw UsageError{"--port: " + port.error().message, "as --port 8080"};
  return static_cast<int>(*port);
}

}  // namespace ddlsim::cli
