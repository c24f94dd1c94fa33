// Requests as text: what they may hold, what is refused, and that the answers are those of the C++ calls.
#include "ddlsim/service/service.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "catalog.h"
#include "ddlsim/report/program.h"
#include "ddlsim/report/questions.h"
#include "ddlsim/report/views.h"
#include "ddlsim/whatif/compare.h"
#include "ddlsim/whatif/curve.h"
#include "ddlsim/whatif/elasticity.h"
#include "ddlsim/whatif/explain.h"
#include "ddlsim/whatif/find.h"
#include "ddlsim/whatif/plan_search.h"
#include "ddlsim/whatif/predict.h"
#include "ddlsim/whatif/recommend.h"
#include "ddlsim/whatif/stalls.h"
#include "random_jobs.h"

namespace {

using namespace ddlsim;
using Catch::Matchers::Contains;
using nlohmann::json;
using test::JobSettings;

constexpr auto kJson = report::Format::kJson;

service::Service make(service::Limits limits = {}) { return service::Service(test::learnt_catalog(), limits); }

const service::Service& all() {
  static const service::Service one = make();
  return one;
}

std::vector<whatif::Override> overrides_of(const JobSettings& job) {
  std::vector<whatif::Override> overrides;
  for (const auto& [path, value] : job) overrides.push_back({path, value, {}});
  return overrides;
}

const JobSettings kJob{{"model", "resnet50"}, {"node", "dgx1-v100"}, {"nodes", "4"}, {"network", "25 Gb/s"}};

/// What says which data answered is there, and is left out.
std::string without_data(const std::string& text) {
  REQUIRE(json::parse(text)["program"]["data"].is_string());
  return report::with_program(text, std::nullopt);
}

std::string asked(const std::string& command, const std::string& request) {
  const auto answered = all().answer(command, request);
  INFO(request << (answered ? "" : to_string(answered.error())));
  REQUIRE(answered);
  return without_data(*answered);
}

/// {"job": {...}, more}
std::string with(const JobSettings& job, const std::string& more) {
  return "{\"job\": " + test::request_of(job) + (more.empty() ? "" : ", ") + more + "}";
}

Error refused(const service::Service& service, const std::string& command, const std::string& request) {
  const auto answered = service.answer(command, request);
  INFO(request);
  REQUIRE_FALSE(answered);
  return answered.error();
}

Expected<std::string> predicted(const JobSettings& job) {
  return whatif::resolve(test::learnt_catalog(), overrides_of(job)).and_then([](const whatif::Scenario& scenario) {
    return whatif::predict(scenario).map(
        [&](const answer::Prediction& p) { return report::render(p, whatif::describe(scenario), kJson); });
  });
}

}  // namespace

TEST_CASE("service: 200 random jobs have the answers and the refusals of the C++ calls", "[service]") {
  test::RandomJobs jobs(20261122);
  int answered = 0;
  for (int i = 0; i < 200; ++i) {
    const JobSettings job = jobs.next();
    const auto mine = all().answer("predict", test::request_of(job));
    const auto theirs = predicted(job);
    CAPTURE(test::request_of(job));
    REQUIRE(mine.has_value() == theirs.has_value());
    if (mine) {
      ++answered;
      REQUIRE(without_data(*mine) == *theirs);
    } else {
      CHECK(mine.error().message == theirs.error().message);
      CHECK(mine.error().notes == theirs.error().notes);
      CHECK(mine.error().code == theirs.error().code);
    }
  }
  // Neither half is a formality.
  CHECK(answered > 60);
  CHECK(answered < 195);
}

TEST_CASE("service: every command is its C++ call", "[service]") {
  const auto& catalog = test::learnt_catalog();
  const auto job = overrides_of(kJob);
  JobSettings priced = kJob;
  priced.emplace_back("price", "dgx-a100=12 $/h");
  CHECK(asked("predict", test::request_of(priced)) == predicted(priced).value());
  CHECK_THAT(predicted(priced).value(), Contains("without effect here: the price of dgx-a100"));
  CHECK(
      asked("what-if", with(kJob, R"("vs": [{"network": "100 Gb/s"}, {"name": "more", "nodes": 8, "batch": 32}])")) ==
      report::render(*whatif::compare(catalog, job,
                                      std::vector<whatif::Change>{{"", {{"network", "100 Gb/s", {}}}},
                                                                  {"more", {{"nodes", "8", {}}, {"batch", "32", {}}}}}),
                     kJson));
  CHECK(asked("what-if", test::request_of(kJob)) == report::render(*whatif::what_would_help(catalog, job), kJson));
  CHECK(asked("what-if", with(kJob, "\"elasticities\": true")) ==
        report::render(*whatif::elasticities(catalog, job), kJson));
  CHECK(asked("find",
              with(kJob, R"("variable": "network", "such_that": "scaling_efficiency >= 90 %", "to": "1 Tb/s")")) ==
        report::render(*whatif::find(catalog, job, "network", *whatif::parse_condition("scaling_efficiency >= 90 %"),
                                     {std::nullopt, "1 Tb/s"}),
                       kJson));
  CHECK(asked("explain", with(kJob, R"("part": "all-reduce")")) ==
        report::render(*whatif::explain(*whatif::resolve(catalog, job), "all-reduce"), kJson));
  CHECK(asked("stalls", test::request_of(kJob)) == report::render(*whatif::stalls(catalog, job), kJson));
  CHECK(asked("predict", with(kJob, R"("curve": "nodes=1,2")")) ==
        report::render(*whatif::curve(catalog, job, *whatif::parse_curve("nodes=1,2")), kJson));
  whatif::RecommendOptions cheap;
  cheap.providers = {"aws"};
  cheap.max_nodes = 1;
  cheap.deadline = hours(100);
  cheap.predict_all = true;
  const JobSettings run{{"model", "resnet50"}, {"training.samples", "1281167"}};
  CHECK(asked("recommend", with(run, R"("catalog": "aws", "max_nodes": 1, "deadline": "100 h")")) ==
        report::render(*whatif::recommend(catalog, overrides_of(run), cheap), kJson));
}

TEST_CASE("service: a plan is the command's, but for what a clock measures", "[service]") {
  const JobSettings job{{"model", "bert_base"}, {"node", "dgx1-v100"}, {"global_batch", "64"}};
  const auto clock = [] { return Time::zero(); };
  json mine = json::parse(asked("plan", with(job, R"("objective": "memory")")));
  whatif::PlanOptions options;
  options.objective = answer::PlanObjective::kMemory;
  json theirs = json::parse(
      report::render(*whatif::search_plans(test::learnt_catalog(), overrides_of(job), options, clock), kJson));
  for (json* one : {&mine, &theirs}) {
    for (const char* key : {"seconds", "search_s", "searched_s"}) one->erase(key);
  }
  CHECK(mine == theirs);
}

TEST_CASE("service: a job is the same as JSON, as YAML, nested and with other white space", "[service]") {
  const std::string one = asked("predict", test::request_of(kJob));
  for (
      const char* text :
      {"model: resnet50\nnode: dgx1-v100\nnodes: 4\nnetwork: 25 Gb/s\n",
       "{\"model\":\"resnet50\",\"node\":\"dgx1-v100\",\"nodes\":4,\"network\":\"25 Gb/s\"}",
       "{\n\t\"model\": \"resnet50\",\n\t\"node\": \"dgx1-v100\",\r\n\t\"nodes\": 4,\n\t\"network\": \"25 "
       "Gb\\/s\"\n}\n",
       R"({"job": {"network": {"name": "25 Gb/s"}, "model": {"name": "\u0072esnet50"}, "node": "dgx1-v100", "nodes": "4"}})"}) {
    CHECK(asked("predict", text) == one);
  }
}

TEST_CASE("service: JSON is read as JSON", "[service]") {
  const std::string one = asked("predict", test::request_of(kJob));
  for (const char* nodes : {"4.0", "4e0", "40e-1"}) {
    CAPTURE(nodes);
    CHECK(asked("predict", std::string(R"({"model": "resnet50", "node": "dgx1-v100", "nodes": )") + nodes +
                               R"(, "network": "25 Gb/s"})") == one);
  }
  const json named = json::parse(
      asked("what-if", with(kJob, R"("vs": [{"name": "\ud83d\ude80 4.0 \"H100\" \\ud83d", "network": "100 Gb/s"}])")));
  CHECK(named["alternatives"][0]["name"] == "\xF0\x9F\x9A\x80 4.0 \"H100\" \\ud83d");
  const auto strictly = [](const std::string& text) {
    const auto answer = all().answer("predict", text, service::Syntax::kJson);
    return answer ? Error{ErrorCode::kIo, "answered", {}, {}, {}} : answer.error();
  };
  CHECK(strictly(test::request_of(kJob)).message == "answered");
  CHECK(strictly("").message == "the request is empty");
  CHECK_THAT(strictly("{\"model\":\n  \"resnet50\"").message, Contains("no JSON: unexpected end of input"));
  CHECK(strictly("{\"model\":\n  resnet50}").where.line == 2);
  for (const char* loose :
       {"{'model': 'resnet50'}", "{\"model\": \"resnet50\",}", "{model: resnet50}", "model: resnet50",
        "{\"model\": \"resnet50\"} {}", "{\"model\": \"\\ud83d\"}", "{\"nodes\": 1e999}"}) {
    CAPTURE(loose);
    CHECK(strictly(loose).code == ErrorCode::kParse);
    CHECK_THAT(strictly(loose).message, Contains("the request is no JSON: "));
  }
  CHECK_THAT(refused(all(), "predict", "{\"model\": \"resnet50\"").message, Contains("no JSON: unexpected end"));
  CHECK_THAT(refused(all(), "predict", " ").message, Contains("the request is empty"));
}

TEST_CASE("service: a job takes the flags' names", "[service]") {
  const std::string one = asked("predict", R"({"model": "bert_large", "node": "dgx-a100", "nodes": 2,
      "parallel": {"tensor": 2}, "training": {"samples": 1000000, "epochs": 3}, "measured.steps": "2x8 = 300 ms"})");
  CHECK(asked("predict", R"({"model": "bert_large", "node": "dgx-a100", "nodes": 2, "tp": 2, "samples": 1000000,
      "epochs": 3, "measured": {"steps": "2x8 = 300 ms"}})") == one);
  CHECK_THAT(
      refused(all(), "predict", R"({"model": "resnet50", "node": "dgx1-v100", "tp": 2, "parallel": {"tensor": 4}})")
          .message,
      Contains("parallel.tensor is set twice"));
  CHECK_THAT(refused(make({.files = false}), "predict", R"({"model": "resnet50", "node": "p", "measured": "runs.csv"})")
                 .message,
             Contains("files cannot be named from afar"));
}

TEST_CASE("service: a search takes as long as it may, or says so", "[service]") {
  const JobSettings job{{"model", "gpt3_175b"}, {"node", "dgx-a100-80gb"}, {"nodes", "64"}, {"global_batch", "1536"}};
  const service::Service hasty = make({.search = milliseconds(1)});
  const Error long_one = refused(hasty, "plan", with(job, "\"limit\": \"2 ms\""));
  CHECK(long_one.code == ErrorCode::kInvalidArgument);
  CHECK(long_one.message == "limit: a search takes 1 ms here at most");
  const Error early = refused(hasty, "plan", test::request_of(job));
  CHECK(early.code == ErrorCode::kOutOfTime);
  CHECK(json::parse(service::error_json(early))["code"] == "out-of-time");
}

TEST_CASE("service: what is no request is refused with its place", "[service]") {
  const auto error = [](const std::string& request) { return refused(all(), "predict", request); };
  CHECK(error("").code == ErrorCode::kParse);
  CHECK(error("{\"model\": ").code == ErrorCode::kParse);
  CHECK_THAT(error("[1, 2]").message, Contains("must be a map"));
  CHECK_THAT(error(R"({"model": "resnet50", "model": "vgg16"})").message, Contains("duplicate key 'model'"));
  CHECK_THAT(error(R"({"model": ["resnet50"]})").message, Contains("'model' takes one value, not a list"));
  CHECK_THAT(error(std::string("{\"model\": \"res\0net50\"}", 22)).message, Contains("a NUL character after 14 bytes"));
  CHECK_THAT(error("{\"model\": \"\xff\"}").message, Contains("UTF-8"));
  CHECK_THAT(error(std::string(1'000'001, ' ')).message, Contains("more than 1000000 bytes"));
  CHECK(error(std::string(100'000, '[')).code == ErrorCode::kParse);
  CHECK_THAT(error(R"({"model": "resnet50"})").message, Contains("no node named"));
  CHECK_THAT(error(R"({"job": {"model": "resnet50"}, "jbo": 1})").message, Contains("unknown key 'jbo'"));
  CHECK_THAT(error(R"({"model": "resnet50", "curve": "nodes=1,2"})").message,
             Contains("'curve' beside the job's settings"));
  CHECK_THAT(error(R"({"job": {"model": "resnet50"}, "curve": ["nodes"]})").message,
             Contains("'curve' takes one value"));
  const Error network = error("{\"model\": \"resnet50\",\n \"node\": \"dgx1-v100\",\n \"network\": 25}");
  CHECK_THAT(network.message, Contains("network: "));
  CHECK(network.where == SourceLocation{"request", 3, 13});
  const Error nan = error(R"({"model": "resnet50", "node": "dgx1-v100", "network": NaN})");
  CHECK(nan.code != ErrorCode::kIo);
}

TEST_CASE("service: flags that make no question are refused with their place", "[service]") {
  const auto error = [](const std::string& command, const std::string& more) {
    return refused(all(), command, with(kJob, more));
  };
  CHECK_THAT(error("what-if", "\"vs\": []").message, Contains("'vs' takes a list"));
  CHECK_THAT(error("what-if", "\"vs\": {\"nodes\": 2}").message, Contains("'vs' takes a list"));
  CHECK_THAT(error("what-if", "\"vs\": [{\"name\": \"nothing\"}]").message, Contains("without a setting"));
  CHECK_THAT(error("what-if", "\"vs\": [{\"netwrok\": 1}]").message, Contains("unknown setting 'netwrok'"));
  CHECK_THAT(error("what-if", "\"elasticities\": true, \"vs\": [{\"nodes\": 2}]").message, Contains("of one job"));
  CHECK_THAT(error("what-if", "\"elasticities\": 3").message, Contains("neither true nor false"));
  CHECK_THAT(error("find", "\"variable\": \"network\"").message, Contains("'such_that' is missing"));
  CHECK_THAT(error("find", "\"such_that\": \"mfu >= 1 %\"").message, Contains("'variable' is missing"));
  const Error condition = error("find", R"("variable": "network", "such_that": "speed >= 1 %")");
  CHECK_THAT(condition.message, Contains("such_that: unknown metric 'speed'"));
  CHECK(condition.where.line == 1);
  CHECK_THAT(error("plan", "\"objective\": \"fun\"").message, Contains("unknown objective 'fun'"));
  CHECK_THAT(error("plan", "\"limit\": 3").message, Contains("limit: "));
  CHECK_THAT(error("plan", "\"nodes_up_to\": 0").message, Contains("nodes_up_to: "));
  CHECK_THAT(error("explain", "\"part\": \"all-redcue\"").message, Contains("no part 'all-redcue'"));
  CHECK_THAT(error("stalls", "\"fetch\": \"x\"").message, Contains("unknown fetch 'x'"));
  CHECK_THAT(error("recommend", "\"deadline\": \"3 GB\"").message, Contains("deadline: "));
  CHECK_THAT(error("recommend", "\"budget\": \"3 h\"").message, Contains("budget: "));
  const Error command = refused(all(), "predcit", "{}");
  CHECK(command.message == "unknown command 'predcit'");
  CHECK_THAT(command.notes.front(), Contains("predict"));
}

TEST_CASE("service: from afar no value names a file", "[service]") {
  const service::Service far = make({.files = false});
  const Error unknown = refused(far, "predict", R"({"model": "resnet51", "node": "dgx1-v100"})");
  for (const std::string& note : unknown.notes) CHECK_THAT(note, !Contains("file of your own"));
  CHECK_THAT(unknown.notes.back(), Contains("`ddlsim list models` shows them all"));
  for (const auto& [path, value] :
       std::vector<std::pair<std::string, std::string>>{{"model", "/etc/passwd"},
                                                        {"model", "../../etc/passwd"},
                                                        {"model", "job.yaml"},
                                                        {"node", "./dgx1-v100"},
                                                        {"gpu", "a/b"},
                                                        {"network", "/dev/stdin"},
                                                        {"network", "4 x /etc/passwd"},
                                                        {"network", "25 Gb/s/../../x"},
                                                        {"collective.table", "sweep.txt"},
                                                        {"measured.runs", "runs.csv"},
                                                        {"other_jobs.0.measured.runs", "runs.csv"},
                                                        {"input.dataset", "/proc/self/environ"},
                                                        {"price", "etc/passwd=12 $/h"}}) {
    JobSettings job = kJob;
    std::erase_if(job, [&, p = path](const auto& one) { return one.first == p; });
    job.emplace_back(path, value);
    CAPTURE(path, value);
    CHECK_THAT(refused(far, "predict", test::request_of(job)).message, Contains("files cannot be named from afar"));
    CHECK_THAT(refused(far, "what-if", with(kJob, "\"vs\": [{\"" + path + "\": \"" + value + "\"}]")).message,
               Contains("files cannot be named from afar"));
    const std::string curve = "\"curve\": \"" + path + "=25 Gb/s," + value + "\"";
    CHECK_THAT(refused(far, "predict", with(kJob, curve)).message, Contains("files cannot be named from afar"));
  }
  CHECK_THAT(refused(far, "stalls", with(kJob, R"("one_server": "/etc/passwd")")).message, Contains("from afar"));
  // Rates, prices and names with a stroke stay what they are.
  for (const auto& [path, value] :
       std::vector<std::pair<std::string, std::string>>{{"network", "2 x 12.5 GB/s"},
                                                        {"gpu.peak.fp32", "20 TFLOP/s"},
                                                        {"price", "dgx1-v100=12 $/h"},
                                                        {"model", "google-bert/bert-base-uncased"}}) {
    JobSettings job = kJob;
    std::erase_if(job, [&, p = path](const auto& one) { return one.first == p; });
    job.emplace_back(path, value);
    const auto answered = far.answer("predict", test::request_of(job));
    CAPTURE(path, value);
    if (!answered) CHECK_THAT(answered.error().message, !Contains("afar"));
  }
}

TEST_CASE("service: threads ask one service and get one answer", "[service]") {
  const std::string expected = asked("predict", test::request_of(kJob));
  const service::Service shared = make();
  std::vector<std::string> answers(8);
  std::vector<std::thread> threads;
  for (std::string& answer : answers) {
    threads.emplace_back([&shared, &answer] {
      for (int i = 0; i < 20; ++i) answer = shared.answer("predict", test::request_of(kJob)).value_or("");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& answer : answers) CHECK(without_data(answer) == expected);
}

TEST_CASE("service: steps of many jobs are those of each", "[service]") {
  std::vector<std::vector<whatif::Override>> changes;
  for (const char* network : {"10 Gb/s", "100 Gb/s", "much"}) changes.push_back({{"network", network, {}}});
  const auto times = all().step_times(test::request_of(kJob), changes);
  REQUIRE(times);
  REQUIRE(times->size() == 3);
  for (std::size_t i = 0; i < 2; ++i) {
    JobSettings job = kJob;
    job.emplace_back("network", changes[i].front().value);
    const auto scenario = whatif::resolve(test::learnt_catalog(), overrides_of(job));
    CHECK((*times)[i].value() == whatif::predict(*scenario)->step_time);
  }
  CHECK_THAT((*times)[2].error().message, Contains("network: "));
  CHECK_FALSE(all().step_times("{", changes));
}

TEST_CASE("service: measured runs are of the job as it stands, and correct its changes", "[service]") {
  JobSettings job = kJob;
  job.emplace_back("measured.step", "500 ms");
  const std::vector<std::vector<whatif::Override>> changes{
      {{"nodes", "2", {}}}, {{"nodes", "16", {}}}, {{"nodes", "2", {}}, {"measured.step", "600 ms", {}}}, {}};
  const auto times = all().step_times(test::request_of(job), changes);
  REQUIRE(times);
  std::vector<whatif::Change> alternatives;
  for (std::size_t i = 0; i < 3; ++i) alternatives.push_back({"", changes[i]});
  const auto compared = whatif::compare(test::learnt_catalog(), overrides_of(job), alternatives);
  REQUIRE(compared);
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    CHECK((*times)[i]->in(seconds) == Approx(compared->alternatives[i].prediction.step_time.in(seconds)));
  }
  CHECK((*times)[1]->in(milliseconds) != Approx(500));
  CHECK((*times)[2]->in(milliseconds) == Approx(600));
  CHECK((*times)[3]->in(milliseconds) == Approx(500));
  job.back().second = "1 us";
  CHECK_THAT(all().step_times(test::request_of(job), changes).error().message, Contains("faster than the wire"));
}

TEST_CASE("service: errors as JSON", "[service]") {
  Error error{ErrorCode::kNotFound, "unknown \"thing\" \xff", {"request", 3, 7}, {"did you mean it?"}, {}};
  error.also.push_back({ErrorCode::kParse, "another", {}, {}, {}});
  const json parsed = json::parse(service::error_json(error));
  CHECK(parsed["schema"] == "ddlsim/error/1");
  CHECK(parsed["code"] == "not-found");
  CHECK(parsed["line"] == 3);
  CHECK(parsed["column"] == 7);
  CHECK(parsed["file"] == "request");
  CHECK(parsed["notes"] == json::array({"did you mean it?"}));
  CHECK(parsed["also"][0]["error"] == "another");
  CHECK(parsed["also"][0]["line"].is_null());
}

TEST_CASE("service: the catalogue has what the page offers, with units", "[service]") {
  const json catalog = json::parse(all().catalog_json().value());
  CHECK(catalog["schema"] == "ddlsim/catalog/1");
  for (const char* list : {"models", "nodes", "gpus", "links", "datasets", "strategies", "settings"}) {
    CAPTURE(list);
    CHECK(catalog[list].size() > 2);
  }
  CHECK(catalog["commands"].size() == service::commands().size());
  std::map<std::string, json> units;
  for (const json& setting : catalog["settings"]) units[setting["path"]] = setting["unit"];
  CHECK(units.at("gpu.memory_bandwidth") == "GB/s");
  CHECK(units.at("network.latency") == "us");
  CHECK(units.at("strategy.density") == "%");
  CHECK(units.at("nodes").is_null());
  CHECK(units.at("strategy").is_null());
}

TEST_CASE("service: the page is one document that loads nothing, under its own policy", "[service]") {
  const std::string page(service::page());
  CHECK_THAT(page, Contains("<!DOCTYPE html>") && Contains("</html>") && !Contains("@SCRIPT@") && !Contains("@STYLE@"));
  for (const char* outside : {"http:", "https:", "src=", "url(", "@import", "innerHTML", "eval(", "style=\""}) {
    CHECK_THAT(page, !Contains(outside));
  }
  CHECK(page.size() < 100'000);
  // Of nothing but the empty text, SHA-256 is e3b0c442...: neither hash may be that.
  CHECK_THAT(service::page_policy(), Contains("script-src 'sha256-") && Contains("default-src 'none'") &&
                                         !Contains("unsafe") && !Contains("47DEQpj8HBSa"));
}

TEST_CASE("service: how to ask is OpenAPI, and its examples have answers", "[service]") {
  const json api = json::parse(service::openapi("1.2.3"));
  CHECK(api["openapi"] == "3.1.0");
  const json& schemas = api["components"]["schemas"];
  CHECK(schemas["predict"]["properties"]["prediction"]["$ref"] == "#/components/schemas/prediction");
  CHECK(schemas["error"]["properties"]["schema"]["const"] == "ddlsim/error/1");
  CHECK(schemas["catalog"]["properties"]["schema"]["const"] == "ddlsim/catalog/1");
  CHECK(schemas.dump().find(".json\"") == std::string::npos);
  CHECK(api["info"]["version"] == "1.2.3");
  for (const std::string_view command : service::commands()) {
    CAPTURE(command);
    const json& post = api["paths"].at("/v1/" + std::string(command)).at("post");
    const json& example = post["requestBody"]["content"]["application/json"]["example"];
    const json answer = json::parse(asked(std::string(command), example.dump()));
    const std::string schema = "ddlsim/" + std::string(command) + "/1";
    CHECK(answer["schema"] == schema);
    const json& said = post["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"][0]["$ref"];
    CHECK(said == "#/components/schemas/" + std::string(command));
    CHECK(schemas[std::string(command)]["properties"]["schema"]["const"] == schema);
  }
}

TEST_CASE("service: numbers beyond all numbers, and nothing, are said in words", "[unit][service]") {
  const auto refused = [](const std::string& request) {
    return all().answer("predict", request, service::Syntax::kJson).error();
  };
  const Error endless = refused("{\"model\": \"resnet50\",\n \"nodes\": 1e400}");
  CHECK(endless.message == "the request is no JSON: '1e400' is beyond all numbers");
  CHECK(endless.where.line == 2);
  CHECK(endless.where.column == 11);
  CHECK_THAT(refused(" null\n").message, Contains("a request must be a map"));
}
