// `ddlsim serve` under people who mean no good, and those who mean well: the command's bytes, or its words.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "hostile/run_program.h"
#include "hostile/serve_process.h"
#include "random_jobs.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using nlohmann::json;

const std::string kJob = R"({"model": "resnet50", "node": "dgx1-v100", "nodes": 4, "network": "25 Gb/s"})";
const std::string kJsonType = "Content-Type: application/json";
constexpr const char* kSecret = "0123456789abcdef0123";

/// One for all tests that leave it as it was.
const ServeProcess& server() {
  static const ServeProcess one;
  return one;
}

void check_refused(const Reply& reply, int status, const std::string& says) {
  CHECK(reply.status == status);
  const json error = json::parse(reply.body, nullptr, false);
  REQUIRE_FALSE(error.is_discarded());
  CHECK(error["schema"] == "ddlsim/error/1");
  CHECK_THAT(error.dump(), Contains(says));
}

void check_alive(const ServeProcess& one) { CHECK(one.post("predict", kJob).status == 200); }

/// Of /proc/PID/status, in bytes.
std::int64_t resident(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

/// Of the C program to requests, one a line.
std::vector<std::string> answers_in_c(const std::string& requests) {
  const TempFolder folder;
  const std::string file = folder.file("requests", requests);
  const Outcome asked = run_shell("'" DDLSIM_TEST_C "' predict <'" + file + "'", folder.path(), 60);
  CAPTURE(asked.err);
  REQUIRE(asked.status == 0);
  std::vector<std::string> answers;
  std::istringstream text(asked.out);
  for (std::string one; std::getline(text, one, '\f');) answers.push_back(one);
  return answers;
}

/// Who links the library has files to name; who asks over HTTP is not offered them.
std::string without_files(std::string answer) {
  constexpr std::string_view kOffer = "; a path to a file of your own works too";
  if (const auto at = answer.find(kOffer); at != std::string::npos) answer.erase(at, kOffer.size());
  return answer;
}

}  // namespace

TEST_CASE("200 random jobs over HTTP and in C have the command's bytes, or its words", "[hostile][serve][c]") {
  RandomJobs random(7);
  std::vector<JobSettings> jobs;
  std::string requests;
  for (int i = 0; i < 200; ++i) requests += request_of(jobs.emplace_back(random.next())) + "\n";
  const std::vector<std::string> in_c = answers_in_c(requests);
  REQUIRE(in_c.size() == jobs.size());
  int answered = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Words words{"predict", "--json"};
    for (const auto& [path, value] : jobs[i]) words = plus(words, {"--set", path + "=" + value});
    const Outcome command = run_program(words);
    const Reply reply = server().post("predict", request_of(jobs[i]));
    CAPTURE(request_of(jobs[i]), command.err, reply.body);
    REQUIRE(without_files(in_c[i]) == reply.body);
    if (command.status == 0) {
      ++answered;
      REQUIRE(reply.status == 200);
      REQUIRE(reply.body == command.out);
    } else {
      REQUIRE(reply.status == 400);
      const json error = json::parse(reply.body);
      REQUIRE_THAT(command.err, Contains("error: " + error["error"].get<std::string>()));
      for (const json& note : error["notes"]) CHECK_THAT(command.err, Contains(note.get<std::string>()));
    }
  }
  CHECK(answered > 60);
  CHECK(answered < 195);
}

TEST_CASE("serve: what is read", "[hostile][serve]") {
  const Reply page = server().ask("GET", "/");
  CHECK(page.status == 200);
  CHECK_THAT(page.headers.at("content-type"), StartsWith("text/html"));
  CHECK_THAT(page.headers.at("content-security-policy"), Contains("default-src 'none'"));
  CHECK_THAT(page.body, Contains("<!DOCTYPE html>"));
  CHECK(server().ask("GET", "/#model=x").status == 200);
  CHECK(server().ask("GET", "/healthz").body == "ok\n");
  CHECK(json::parse(server().ask("GET", "/openapi.json").body)["paths"].size() > 8);
  CHECK(json::parse(server().ask("GET", "/v1/catalog").body)["schema"] == "ddlsim/catalog/1");
  CHECK(server().post("predict", kJob).status == 200);
  // A request is counted once its answer is sent, which another connection may overtake.
  const std::string counted = R"(ddlsim_requests_total{command="predict",status="200"})";
  std::string metrics;
  for (int tries = 0; tries < 50 && metrics.find(counted) == std::string::npos; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(tries > 0 ? 100 : 0));
    metrics = server().ask("GET", "/metrics").body;
  }
  CHECK_THAT(metrics, Contains(counted));
  CHECK_THAT(metrics, Contains(R"(ddlsim_request_seconds_bucket{command="predict",le="+Inf"})"));
  const Reply head = server().ask("HEAD", "/healthz");
  CHECK(head.status == 200);
  CHECK(head.headers.at("content-length") == "3");
  for (const char* header : {"cache-control", "x-content-type-options", "cross-origin-resource-policy"}) {
    CHECK(head.headers.count(header) == 1);
  }
  CHECK(head.headers.count("access-control-allow-origin") == 0);
}

TEST_CASE("serve: one connection, many questions", "[hostile][serve]") {
  Client client(server().port());
  const std::string question = "POST /v1/predict HTTP/1.1\r\nHost: " + server().host() + "\r\n" + kJsonType +
                               "\r\nContent-Length: " + std::to_string(kJob.size()) + "\r\n\r\n" + kJob;
  CHECK(client.send(question + question));  // two at once
  const Reply first = client.receive();
  const Reply second = client.receive();
  CHECK(first.status == 200);
  CHECK(second.body == first.body);
  for (int i = 0; i < 20; ++i) {
    client.send(question);
    CHECK(client.receive().status == 200);
  }
  // Chunked, and as YAML.
  client.send("POST /v1/predict HTTP/1.1\r\nHost: " + server().host() +
              "\r\nContent-Type: application/yaml; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
              "10\r\nmodel: resnet50\n\r\n10\r\nnode: dgx1-v100\n\r\n1a\r\nnodes: 4\nnetwork: 25 Gb/s\r\n0\r\n\r\n");
  CHECK(client.receive().body == first.body);
}

TEST_CASE("serve: other methods, paths and types", "[hostile][serve]") {
  check_refused(server().ask("GET", "/v1/predict"), 405, "POST");
  CHECK(server().ask("GET", "/v1/predict").headers.at("allow") == "POST");
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    CAPTURE(method);
    check_refused(server().ask(method, "/healthz", ""), 405, "GET");
  }
  for (const char* path : {"/v1/", "/v1/predict/", "/v1/predcit", "/v1/version", "/v1/../v1/catalog",
                           "/../../etc/passwd", "//", "/%2e%2e/etc/passwd", "/%00", "/v1/catalog%2f..", "/.env",
                           "/index.html", "http://127.0.0.1/healthz", "/healthz/..", "/v1%2fcatalog/x"}) {
    CAPTURE(path);
    check_refused(server().ask("GET", path), 404, "there is nothing here");
    check_refused(server().ask("GET", path), 404, "\"not-found\"");
  }
  check_refused(server().ask("POST", "/v1/predict", kJob), 415, "application/json");
  check_refused(server().ask("POST", "/v1/predict", kJob, {"Content-Type: text/plain"}), 415, "text/plain");
  check_refused(server().ask("POST", "/v1/predict", kJob, {"Content-Type: multipart/form-data; boundary=x"}), 415,
                "type");
  check_refused(server().ask("POST", "/v1/predict", kJob, {kJsonType, "Content-Encoding: gzip"}), 415, "compressed");
  check_alive(server());
}

TEST_CASE("serve: other origins and other names of the host", "[hostile][serve]") {
  const auto from = [](const std::string& header) {
    return server().ask("POST", "/v1/predict", kJob, {kJsonType, header});
  };
  for (const char* origin : {"http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:1", "file://"}) {
    CAPTURE(origin);
    check_refused(from(std::string("Origin: ") + origin), 403, "other origins");
  }
  for (const char* host : {"evil.example", "127.0.0.1", "localhost.evil.example:1", "127.0.0.1:1", ""}) {
    CAPTURE(host);
    const Reply reply = from(std::string("Host: ") + host);
    CHECK((reply.status == 403 || reply.status == 400));
  }
  CHECK(from("Origin: http://" + server().host()).status == 200);
  CHECK(from("Host: localhost:" + std::to_string(server().port())).status == 200);
  // A page elsewhere learns nothing from asking whether it may ask.
  const Reply preflight = server().ask("OPTIONS", "/v1/predict", "",
                                       {"Origin: http://evil.example", "Access-Control-Request-Method: POST"});
  CHECK(preflight.status == 403);
  CHECK(preflight.headers.count("access-control-allow-origin") == 0);
}

TEST_CASE("serve: bodies that are none, too long, or never end", "[hostile][serve]") {
  check_refused(server().post("predict", "{\"model\": "), 400, "parse");
  check_refused(server().post("predict", "{model: resnet50, node: dgx1-v100}"), 400, "no JSON");
  check_refused(server().post("plan", R"({"job": {"model": "resnet50", "node": "dgx1-v100"}, "limit": "60 s"})"), 400,
                "a search takes 12 s here at most");
  check_refused(
      server().post("plan", R"({"job": {"model": "gpt3_175b", "node": "dgx-a100", "nodes": 128, "global_batch": 1536},
                                          "limit": "1 us"})"),
      503, "out-of-time");
  check_refused(server().post("predict", "\xff\xfe"), 400, "no JSON");
  check_refused(server().post("predict", std::string(200'000, '[')), 400, "error");
  check_refused(server().post("predict", ""), 400, "error");
  check_refused(server().post("predict", R"({"model": "/etc/passwd", "node": "dgx1-v100"})"), 400,
                "files cannot be named");
  check_refused(server().post("predict", std::string(1'000'001, ' ')), 413, "1000000 bytes");
  const std::string head = "POST /v1/predict HTTP/1.1\r\nHost: " + server().host() + "\r\n" + kJsonType + "\r\n";
  const auto refused_head = [&](const std::string& more, int status, const std::string& says) {
    CAPTURE(more);
    Client client(server().port());
    client.send(head + more + "\r\n{}");
    check_refused(client.receive(), status, says);
    CHECK(client.closes(5));
  };
  refused_head("Content-Length: 1000000000000\r\n", 413, "1000000 bytes");
  refused_head("Content-Length: 1000000000\r\nExpect: 100-continue\r\n", 413, "1000000 bytes");
  refused_head("", 411, "length");
  refused_head("Content-Length: -1\r\n", 400, "no length");
  refused_head("Content-Length: 2x\r\n", 400, "no length");
  refused_head("Content-Length: 2\r\nContent-Length: 3\r\n", 400, "twice");
  refused_head("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400, "twice");
  refused_head("Transfer-Encoding: gzip\r\n", 400, "chunked");
  Client chunks(server().port());
  chunks.send(head + "Transfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(65536, ' ') + "\r\n";
  for (int i = 0; i < 16384 && chunks.send(chunk); ++i) {
  }  // 1 GB, if it were taken
  check_alive(server());
  CHECK(resident(server().pid()) < std::int64_t{kSanitized ? 2000 : 300} << 20);
}

TEST_CASE("serve: heads that are too long, and words that are no request", "[hostile][serve]") {
  for (const std::string& text : {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"),
                                  std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
                                  std::string("GET / HTTP/9.9\r\n\r\n"), std::string("FOO / HTTP/1.1\r\n\r\n"),
                                  std::string(100'000, 'A'), "GET /" + std::string(60'000, 'a') + " HTTP/1.1\r\n\r\n",
                                  "GET / HTTP/1.1\r\n" + std::string(60'000, 'b') + ": c\r\n\r\n"}) {
    Client client(server().port());
    client.send(text);
    const Reply reply = client.receive(15);
    CAPTURE(text.substr(0, 40), reply.body);
    CHECK((reply.status == 0 || (reply.status >= 400 && reply.status < 500)));
  }
  Client endless(server().port());
  endless.send("GET /healthz HTTP/1.1\r\nHost: " + server().host() + "\r\n");
  for (int i = 0; i < 5000 && endless.send("X-" + std::to_string(i) + ": y\r\n"); ++i) {
  }
  endless.send("\r\n");
  CHECK(endless.receive(15).status != 200);
  check_alive(server());
}

TEST_CASE("serve: slow clients lose their turn, and cost others nothing", "[hostile][serve]") {
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<Client>(server().port()));
    slow.back()->send("POST /v1/predict HTTP/1.1\r\nHost: ");
  }
  check_alive(server());
  // Ten seconds are given from the first byte on, however many follow.
  const auto start = std::chrono::steady_clock::now();
  bool closed = false;
  while (!closed && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    if (!slow.front()->send("x")) break;
    closed = slow.front()->closes(0.5);
  }
  CHECK(closed);
  for (const auto& one : slow) CHECK(one->closes(5));
  check_alive(server());
}

TEST_CASE("serve: more connections than there may be are turned away", "[hostile][serve]") {
  const ServeProcess one;
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 300; ++i) idle.push_back(std::make_unique<Client>(one.port()));
  int refused = 0;
  for (std::size_t i = 256; i < idle.size(); ++i) refused += idle[i]->receive(5).status == 503 ? 1 : 0;
  CHECK(refused > 30);
  idle.clear();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  check_alive(one);
}

TEST_CASE("serve: a token, where there is one", "[hostile][serve]") {
  const ServeProcess one({}, kSecret);
  CHECK(one.ask("GET", "/").status == 200);
  CHECK(one.ask("GET", "/healthz").status == 200);
  for (const char* path : {"/metrics", "/v1/catalog", "/openapi.json"}) CHECK(one.ask("GET", path).status == 401);
  const auto with = [&](const std::string& header) {
    return one.ask("POST", "/v1/predict", kJob, {kJsonType, header});
  };
  check_refused(one.post("predict", kJob), 401, "Bearer");
  for (const std::string& wrong : {std::string("x"), std::string(kSecret).substr(1), std::string(kSecret) + "x",
                                   std::string(kSecret) + kSecret, std::string()}) {
    check_refused(with("Authorization: Bearer " + wrong), 401, "token");
  }
  check_refused(with(std::string("Authorization: Basic ") + kSecret), 401, "token");
  CHECK(with(std::string("Authorization: Bearer ") + kSecret).status == 200);
}

TEST_CASE("serve: localhost is this host", "[hostile][serve]") {
  const ServeProcess one({"--host", "localhost"});
  check_alive(one);
}

TEST_CASE("serve: the memory of a search of plans has a bound, and is given back", "[hostile][serve]") {
  const ServeProcess one;
  check_alive(one);
  const Reply plan = one.post("plan", R"({"job": {"model": "gpt3_175b", "node": "dgx-a100-80gb", "nodes": 256,
      "global_batch": 1536}, "limit": "5 s"})");
  CHECK((plan.status == 200 || plan.body.find("out-of-time") != std::string::npos));
  CHECK(resident(one.pid()) < std::int64_t{kSanitized ? 2000 : 150} << 20);
}

TEST_CASE("serve: what it does not start with", "[hostile][serve]") {
  refused(1, {"serve", "--host", "0.0.0.0"}, {"can be reached from other machines", "--token"});
  refused(1, {"serve", "--host", "0.0.0.0", "--token", "short"}, {"at least 16"});
  refused(1, {"serve", "--host", "example.com"}, {"'example.com' is no address"});
  refused(1, {"serve", "--port", std::to_string(server().port())}, {"in use", "--port takes another"});
  refused(2, {"serve", "--port", "70000"}, {"--port"});
  refused(2, {"serve", "--port", "http"}, {"--port"});
  refused(2, {"serve", "--token", ""}, {"--token has an empty value"});
  refused(2, {"serve", "extra"}, {"unknown argument 'extra'"});
  refused(1, {"serve", "--data", "/nowhere"}, {"/nowhere"});
  CHECK_THAT(run_program({"serve", "--help"}).out, Contains("SIGTERM"));
}

TEST_CASE("serve: SIGTERM and SIGINT end it when what had begun is answered", "[hostile][serve]") {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServeProcess one;
    Client idle(one.port());
    Client begun(one.port());
    begun.send("POST /v1/predict HTTP/1.1\r\nHost: " + one.host() + "\r\n" + kJsonType +
               "\r\nContent-Length: " + std::to_string(kJob.size()) + "\r\n\r\n" + kJob.substr(0, 10));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    int status = -1;
    std::thread ending([&] { status = one.end(signal); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    begun.send(kJob.substr(10));
    const Reply reply = begun.receive();
    CHECK(reply.status == 200);
    CHECK(reply.headers.at("connection") == "close");
    CHECK(idle.closes(5));
    ending.join();
    CHECK(status == 0);
  }
}

TEST_CASE("readme: a server asked by curl", "[hostile][serve]") {
  if (run_shell("curl --version >/dev/null", ".").status != 0) {
    WARN("curl is not installed: the guide's block was not run");
    return;
  }
  const TempFolder folder;
  const std::string port = std::to_string(20000 + static_cast<int>(::getpid()) % 20000);
  const Outcome outcome = run_shell(R"(set -e
sed -n '/<!-- run serve -->/,/^```$/p' ')" DDLSIM_SOURCE_DATA R"(/sim/README.md' | sed '1,2d;$d' | sed 's/8080/)" +
                                        port + R"(/' >block.sh
mkdir bin && ln -s "$DDLSIM" bin/ddlsim && ln -s "$(dirname "$DDLSIM")/ddlsim-serve" bin/ddlsim-serve
PATH="$PWD/bin:$PATH"
. ./block.sh
ddlsim predict --model resnet50 --node dgx-a100 --nodes 4 --network "100 Gb/s" --json | cmp - answer.json
echo as the guide says)",
                                    folder.path(), 60);
  CAPTURE(outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "as the guide says\n");
}
