// The command contract (DESIGN.md, section 6): what programs that read our answers may rely on.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "hostile/run_program.h"

namespace {

using namespace ddlsim::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using nlohmann::json;

std::string answer(const Words& arguments) {
  const Outcome outcome = run_program(arguments);
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "");
  return outcome.out;
}

json answer_json(const Words& arguments) {
  json parsed = json::parse(answer(arguments), nullptr, false);
  REQUIRE_FALSE(parsed.is_discarded());
  return parsed;
}

void check_text(const json& holder, const std::string& key) {
  CAPTURE(key);
  REQUIRE(holder.contains(key));
  REQUIRE(holder[key].is_string());
  CHECK_FALSE(holder[key].get<std::string>().empty());
}

double number(const json& holder, const std::string& key) {
  REQUIRE(holder.contains(key));
  REQUIRE(holder[key].is_number());  // a null here was a nan or an infinity
  return holder[key].get<double>();
}

void check_breakdown(const json& parts, double step) {
  double sum = 0;
  for (const char* part :
       {"compute", "memory", "launch", "input_exposed", "communication_exposed", "bubble", "other"}) {
    CHECK(number(parts, part) >= 0);
    sum += number(parts, part);
  }
  CHECK(sum == Approx(step).epsilon(1e-9));
  CHECK(number(parts, "communication") >= number(parts, "communication_exposed") * (1 - 1e-9));
}

/// P of the contract (DESIGN.md, section 6).
void check_prediction(const json& p, bool several_gpus) {
  REQUIRE(p.is_object());
  const double step = number(p, "step_time_s");
  CHECK(step > 0);
  check_breakdown(p.value("breakdown_s", json{}), step);
  CHECK(number(p, "throughput_samples_per_s") > 0);
  CHECK(number(p, "scaling_efficiency") > 0);
  CHECK(number(p, "memory_bytes_per_gpu") > 0);
  CHECK(number(p, "mfu") > 0);
  // Winograd makes 3 x 3 convolutions of up to a quarter of the FLOPs that are counted.
  CHECK(number(p, "mfu") <= 4);
  check_text(p, "bottleneck");
  for (const auto& [key, values] :
       {std::pair<std::string, Words>{"fidelity", {"aggregate", "analytic", "event"}},
        {"provenance", {"measured", "interpolated", "analytic", "extrapolated", "assumed"}}}) {
    check_text(p, key);
    CHECK(std::count(values.begin(), values.end(), p[key].get<std::string>()) == 1);
  }
  CHECK(p.value("fits", json{}).is_boolean());
  const json interval = p.value("interval_90_s", json{});
  REQUIRE(interval.size() == 2);
  CHECK(interval[0].get<double>() > 0);
  CHECK(interval[0].get<double>() <= step);
  CHECK(interval[1].get<double>() >= step);
  const json traffic = p.value("traffic", json{});
  REQUIRE(traffic.is_array());
  CHECK(traffic.size() >= (several_gpus ? 2 : 1));
  for (const json& link : traffic) {
    check_text(link, "link");
    CHECK(number(link, "bytes") > 0);
    CHECK(number(link, "time_s") > 0);
  }
  const json notes = p.value("notes", json{});
  REQUIRE(notes.is_array());
  for (const json& note : notes) CHECK(note.is_string());
}

void check_alternative(const json& alternative, const json& baseline) {
  check_text(alternative, "name");
  REQUIRE(alternative.contains("changes"));
  REQUIRE(alternative["changes"].is_object());
  CHECK_FALSE(alternative["changes"].empty());
  for (const json& value : alternative["changes"]) CHECK(value.is_string());
  REQUIRE(alternative.contains("prediction"));
  check_prediction(alternative["prediction"], true);
  const double ratio =
      number(alternative["prediction"], "throughput_samples_per_s") / number(baseline, "throughput_samples_per_s");
  CHECK(number(alternative, "speedup") == Approx(ratio).epsilon(1e-9));
}

/// The separators of a row; those in quotes (CSV) or after a backslash (Markdown) are text.
std::size_t separators(const std::string& row, char separator) {
  std::size_t count = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] == '"' && separator == ',') quoted = !quoted;
    const bool escaped = quoted || (separator == '|' && i > 0 && row[i - 1] == '\\');
    if (row[i] == separator && !escaped) ++count;
  }
  return count;
}

/// Rows that follow each other have as many columns. In Markdown, text stands between the tables.
void check_table(const Words& command, const std::string& format) {
  std::istringstream stream(answer(plus(command, {"--format", format})));
  const char separator = format == "csv" ? ',' : '|';
  std::size_t columns = 0;
  int rows = 0;
  Words ragged;
  for (std::string row; std::getline(stream, row);) {
    const bool table = format == "csv" || row.starts_with("|");
    const std::size_t here = table ? separators(row, separator) : 0;
    if (columns != 0 && table && here != columns) ragged.push_back(row);
    columns = here;
    rows += table ? 1 : 0;
  }
  CHECK(ragged == Words{});
  CHECK(rows >= 2);
}

const Words kJob{"--model", "resnet50", "--node", "dgx1-v100", "--nodes", "4", "--network", "25 Gb/s"};

}  // namespace

TEST_CASE("contract: predict and what-if of every model of the zoo", "[hostile]") {
  for (const char* model : {"alexnet", "vgg16", "resnet50", "resnet101", "resnet152", "inception_v3", "bert_base",
                            "bert_large", "gnmt", "transformer_big", "gpt2", "dlrm", "ncf"}) {
    for (const char* strategy : {"ps", "allreduce"}) {
      for (const char* network : {"25 Gb/s", "100 Gb/s"}) {
        CAPTURE(model, strategy, network);
        const Words job{"--model", model,       "--node", "dgx1-v100",  "--nodes",
                        "4",       "--network", network,  "--strategy", strategy};
        const json predicted = answer_json(plus(plus({"predict"}, job), {"--json"}));
        CHECK(predicted["schema"] == "ddlsim/predict/1");
        REQUIRE(predicted.contains("prediction"));
        check_prediction(predicted["prediction"], true);

        const json compared =
            answer_json(plus(plus({"what-if"}, job), {"--vs", "--set", "network=200 Gb/s", "--json"}));
        CHECK(compared["schema"] == "ddlsim/what-if/1");
        CHECK(compared["baseline"] == predicted["prediction"]);
        REQUIRE(compared["alternatives"].size() == 1);
        const json& alternative = compared["alternatives"][0];
        check_alternative(alternative, compared["baseline"]);
        CHECK(alternative["changes"] == json{{"network", "200 Gb/s"}});
        CHECK(number(alternative, "speedup") >= 1 - 1e-9);  // more bandwidth is never slower
      }
    }
  }
}

TEST_CASE("contract: one GPU, and a model known by its features", "[hostile]") {
  const json alone = answer_json({"predict", "--model", "resnet50", "--node", "p3.2xlarge", "--json"});
  check_prediction(alone["prediction"], false);
  CHECK(alone["prediction"]["breakdown_s"]["communication"] == 0.0);
  CHECK(alone["prediction"]["scaling_efficiency"] == 1.0);
  // Its activations are unknown, so whether it fits may be too: null, never a guess.
  const json known = answer_json({"predict", "--model", "pai_resnet50", "--node", "dgx1-v100", "--json"});
  CHECK(known["prediction"]["fidelity"] == "aggregate");
  CHECK(known["prediction"]["fits"].is_null());
}

TEST_CASE("contract: several alternatives, each with its own name and changes", "[hostile]") {
  const json compared =
      answer_json(plus(plus({"what-if"}, kJob), {"--vs", "--set", "network=100 Gb/s", "--set", "strategy=ps", "--vs",
                                                 "--node", "dgx-a100", "--name", "buy A100", "--json"}));
  REQUIRE(compared["alternatives"].size() == 2);
  for (const json& alternative : compared["alternatives"]) check_alternative(alternative, compared["baseline"]);
  CHECK(compared["alternatives"][0]["changes"] == json{{"network", "100 Gb/s"}, {"strategy", "ps"}});
  CHECK(compared["alternatives"][1]["name"] == "buy A100");
  CHECK(compared["alternatives"][1]["changes"] == json{{"node", "dgx-a100"}});
}

TEST_CASE("contract: a --set before the first --vs sets the job", "[hostile]") {
  const Words faster{"--set", "network=100 Gb/s", "--json"};
  const json alone = answer_json(plus(plus({"predict"}, kJob), faster))["prediction"];
  const json set_first = answer_json(plus(plus({"what-if"}, kJob), plus(faster, {"--vs", "--set", "strategy=ps"})));
  CHECK(set_first["baseline"] == alone);
  REQUIRE(set_first["alternatives"].size() == 1);
  CHECK(set_first["alternatives"][0]["changes"] == json{{"strategy", "ps"}});
  const json ranked = answer_json(plus(plus({"what-if"}, kJob), faster));
  CHECK(ranked["baseline"] == alone);
  CHECK(ranked["alternatives"].size() > 3);
}

TEST_CASE("contract: without a change, what would help most comes first", "[hostile]") {
  const json compared = answer_json(plus(plus({"what-if"}, kJob), {"--json"}));
  REQUIRE(compared["alternatives"].size() >= 5);
  double last = 1e300;
  for (const json& alternative : compared["alternatives"]) {
    check_alternative(alternative, compared["baseline"]);
    CHECK(alternative["changes"].size() == 1);
    CHECK(number(alternative, "speedup") <= last);
    last = number(alternative, "speedup");
  }
}

TEST_CASE("contract: flags that hold for the whole command may stand anywhere", "[hostile]") {
  const Words job = plus({"what-if"}, kJob);
  const Words change{"--vs", "--set", "network=100 Gb/s"};
  const std::string wanted = answer(plus(plus(job, {"--json"}), change));
  for (const Words& flags : std::vector<Words>{
           {"--json"}, {"--format", "json"}, {"--format=json"}, {"--json", "--data", DDLSIM_SOURCE_DATA}}) {
    CAPTURE(flags);
    CHECK((answer(plus(plus(job, change), flags)) == wanted));  // in brackets: a difference is too long to print
  }
}

TEST_CASE("contract: every name that the catalog lists is good for a flag", "[hostile]") {
  const Words job{"predict", "--model", "resnet50", "--node", "dgx1-v100", "--nodes", "4", "--json"};
  const auto network = [&](const std::string& value) {
    return answer_json(plus(job, {"--network", value}))["prediction"]["step_time_s"];
  };
  CHECK(network("roce-100g") <= network("4 x ethernet-25g"));
  CHECK(network("100GbE") == network("ethernet-100g"));
  CHECK(network("100 Gb/s Ethernet") == network("ethernet-100g"));
}

TEST_CASE("contract: a thousand million nodes", "[hostile]") {
  const auto ask = [](const std::string& strategy, const std::string& nodes, const Words& more = {}) {
    return answer_json(plus(
        {"predict", "--model", "resnet50", "--node", "dgx1-v100", "--strategy", strategy, "--nodes", nodes, "--json"},
        more))["prediction"];
  };
  const json servers = ask("ps", "1000000000");
  check_prediction(servers, true);
  // With as many servers as nodes, no server's load depends on their number, but for its share of the weight update and
  // for the slowest of more GPUs.
  const Words steady{"--set", "jitter=0"};
  const double many = number(ask("ps", "1000000000", steady), "step_time_s");
  CHECK(many <= number(ask("ps", "2", steady), "step_time_s"));
  CHECK(many == Approx(number(ask("ps", "2", steady), "step_time_s")).epsilon(1e-4));
  // 1e9 nodes x 8 GPUs x 64 images a step
  CHECK(number(servers, "throughput_samples_per_s") * number(servers, "step_time_s") == Approx(5.12e11).epsilon(1e-9));

  // NCCL grows trees over so many nodes: their depth, not their number, is what an all-reduce waits for.
  const json real = ask("allreduce", "1000000000");
  check_prediction(real, true);
  CHECK(number(real, "step_time_s") < 1.2 * number(ask("allreduce", "1000"), "step_time_s"));
}

TEST_CASE("contract: the input's link is not blamed for gradients that never cross it", "[hostile]") {
  // 2 (n-1) latencies of a forced ring through 8e9 GPUs outlast everything else by far.
  const json ring =
      answer_json({"predict", "--model", "resnet50", "--node", "dgx1-v100", "--nodes", "1000000000", "--strategy",
                   "allreduce", "--set", "collective.algorithm=ring", "--json"})["prediction"];
  CHECK(number(ring["breakdown_s"], "communication_exposed") > 0.99 * number(ring, "step_time_s"));
  CHECK(ring["bottleneck"] != "pcie host");
}

TEST_CASE("contract: rows of CSV and Markdown have the columns of their header", "[hostile]") {
  const std::vector<Words> commands{plus({"predict"}, kJob),
                                    plus({"what-if"}, kJob),
                                    plus(plus({"what-if"}, kJob), {"--vs", "--set", "network=100 Gb/s"}),
                                    plus(plus({"what-if"}, kJob), {"--vs", "--nodes", "8", "--name", "a, \"b\""}),
                                    {"list"},
                                    {"list", "gpus"},
                                    {"list", "settings"},
                                    {"list", "nodes", "dgx1-v100"},
                                    {"list", "models", "pai_resnet50"},
                                    {"fleet", "--jobs", "100"},
                                    {"fleet", "--jobs", "100", "--what-if"}};
  for (const Words& command : commands) {
    CAPTURE(command);
    check_table(command, "csv");
    check_table(command, "md");
  }
}

TEST_CASE("contract: a name of any kind breaks no format", "[hostile]") {
  const Words command = plus(plus({"what-if"}, kJob), {"--vs", "--nodes", "8", "--name", "a|b \xFF"});
  check_table(command, "csv");
  check_table(command, "md");
  CHECK(answer_json(plus(command, {"--json"}))["alternatives"].size() == 1);
}

TEST_CASE("contract: the same question has the same answer, byte by byte", "[hostile]") {
  for (const char* format : {"text", "json", "csv", "md", "html", "svg"}) {
    const Words command = plus(plus({"what-if"}, kJob), {"--format", format});
    CHECK(answer(command) == answer(command));
  }
}

TEST_CASE("contract: help and version go to stdout", "[hostile]") {
  for (const char* flag : {"--help", "-h", "help"}) CHECK_THAT(answer({flag}), Contains("ddlsim what-if"));
  for (const char* command : {"predict", "what-if", "fleet", "list"}) {
    CHECK_THAT(answer({command, "--help"}), Contains("Examples:") && Contains(std::string("ddlsim ") + command));
  }
  const std::string version = answer({"--version"});
  CHECK(answer({"-V"}) == version);
  CHECK(answer({"version"}) == version);
  CHECK(answer({"help", "predict"}) == answer({"predict", "--help"}));
  CHECK(answer({"help", "import", "kineto"}) == answer({"import", "kineto", "--help"}));
  CHECK(answer({"help"}) == answer({"--help"}));
  CHECK_THAT(version, Catch::Matchers::Matches("ddlsim [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_CASE("contract: pages load nothing, and names in them are no markup", "[hostile]") {
  const TempFolder folder;
  std::ifstream alexnet(std::string(DDLSIM_SOURCE_DATA) + "/models/alexnet.yaml");
  std::string text((std::istreambuf_iterator<char>(alexnet)), {});
  const std::string name = "name: AlexNet";
  text.replace(text.find(name), name.size(), R"(name: "<script>alert('1')</script>\"&")");
  const std::string model = folder.file("alexnet.yaml", text);
  for (const Words& command :
       {Words{"predict"}, Words{"what-if"}, Words{"predict", "--curve", "nodes=1,2"}, Words{"stalls"}}) {
    CAPTURE(command);
    const std::string page =
        answer(plus(command, {"--model", model, "--node", "dgx1-v100", "--nodes", "2", "--format", "html"}));
    CHECK_THAT(page, Contains("&lt;script&gt;alert(&#39;1&#39;)") && Contains("</html>") && Contains("<svg"));
    for (const char* outside : {"<script", "http:", "https:", "src=", "url(", "@import", "href"}) {
      CHECK_THAT(page, !Contains(outside));
    }
    CHECK(page.size() < 300'000);
  }
}

TEST_CASE("contract: pictures where there are some", "[hostile]") {
  const std::string svg = answer(plus(plus({"predict"}, kJob), {"--format", "svg"}));
  CHECK_THAT(svg, StartsWith("<svg xmlns=") && EndsWith("</svg>\n"));
  const Outcome list = run_program({"list", "gpus", "--format", "html"});
  CHECK(list.status == 2);
  CHECK_THAT(list.err, Contains("valid: text, json, csv, md"));
  const Outcome beside = run_program(plus(plus({"predict"}, kJob), {"--curve", "nodes=1,2", "--columns", "nemo"}));
  CHECK(beside.status == 2);
  for (const char* curve : {"", "nodes", "nodes=", "nodes=1,1", "nodes=1..1e9:+1", "nodes=4..1:x2"}) {
    CAPTURE(curve);
    CHECK(run_program(plus(plus({"predict"}, kJob), {"--curve", curve})).status == 2);
  }
  CHECK(run_program(plus(plus({"predict"}, kJob), {"--curve", "no.such=1,2"})).status == 1);
}

TEST_CASE("contract: CSV is for programs: plain SI numbers, no units in cells", "[hostile]") {
  const std::vector<Words> questions{
      {"fleet", "--jobs", "20000"},
      {"fleet", "--jobs", "2000", "--what-if"},
      {"topology", "--node", "dgx-a100", "--nodes", "2"},
      {"what-if", "--elasticities", "--model", "resnet50", "--node", "dgx-a100", "--nodes", "2"}};
  for (const Words& question : questions) {
    CAPTURE(question);
    const std::string csv = answer(plus(question, {"--format", "csv"}));
    // "20,000", 3.9 %, 12.5 GB/s, x 0.739
    CHECK_FALSE(std::regex_search(csv, std::regex("\"[0-9]+,[0-9]{3}|,[0-9.]+ [%A-Za-z/]+[,\n]|,x [0-9.]+[,\n]")));
  }
}

TEST_CASE("contract: one nearest kind, and the columns of a plan", "[hostile]") {
  const Outcome kind = run_program({"list", "gpu"});
  CHECK(kind.status == 2);
  CHECK_THAT(kind.err, EndsWith("unknown kind 'gpu'\n  did you mean 'gpus'?\n"));
  CHECK_THAT(run_program({"list", "setings"}).err, Contains("did you mean 'settings'?"));
  const Outcome some = run_program({"list", "settings", "latency", "--format", "csv"});
  CHECK_THAT(some.out, Contains("\nnvlink.latency,") && !Contains("\nnvlink,"));
  const Outcome none = run_program({"list", "settings", "netwrk"});
  CHECK(none.status == 2);
  CHECK_THAT(none.err, Contains("no setting has 'netwrk' in its path") && Contains("did you mean 'network'?"));
  const Outcome plan = run_program({"plan", "--model", "gpt2", "--node", "dgx-a100", "--gpus-per-node", "4",
                                    "--global-batch", "8", "--columns", "nemo", "--format", "csv"});
  CHECK_THAT(plan.out, StartsWith("Model,#-GPUs,") && Contains("\nGPT-2 small,4,bf16,8,2,") && !Contains("best"));
}
