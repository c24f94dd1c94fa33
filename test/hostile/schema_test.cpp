// The answers beside their schemas: every golden JSON and what every command prints now. The schemas allow nothing that
// they do not name, and this validator nothing that it does not know.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "files.h"
#include "hostile/run_program.h"
#include "hostile/serve_process.h"

namespace {

using namespace ddlsim::test;
using Json = nlohmann::json;

/// The keywords of JSON Schema 2020-12 that the schemas use.
class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  /// What is wrong, with its path; empty: nothing.
  [[nodiscard]] std::string problem(const Json& value) const { return at(value, root_, ""); }

 private:
  static bool is_type(const Json& value, const std::string& type) {
    if (type == "number") return value.is_number();
    if (type == "integer") return value.is_number_integer();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "object") return value.is_object();
    return type == "array" && value.is_array();
  }

  std::string at(const Json& value, const Json& schema, const std::string& path) const {
    for (const auto& [key, rule] : schema.items()) {
      if (std::string why = keyword(value, schema, {key, rule}, path); !why.empty()) return why;
    }
    return {};
  }

  std::string keyword(const Json& value, const Json& schema, const std::pair<std::string, Json>& one,
                      const std::string& path) const {
    const auto& [key, rule] = one;
    static const std::set<std::string> silent{"$schema", "$id", "$defs", "title", "description", "properties"};
    if (silent.count(key) > 0) return {};
    if (key == "$ref") {
      const std::string to = rule.get<std::string>().substr(1);
      return at(value, root_.at(Json::json_pointer(to)), path);
    }
    if (key == "type") {
      const Json types = rule.is_array() ? rule : Json::array({rule});
      for (const Json& type : types) {
        if (is_type(value, type)) return {};
      }
      return path + ": " + value.dump().substr(0, 60) + " is not " + rule.dump();
    }
    if (key == "const") return value == rule ? "" : path + " is not " + rule.dump();
    if (key == "enum") {
      return std::find(rule.begin(), rule.end(), value) != rule.end()
                 ? ""
                 : path + ": " + value.dump() + " is none of " + rule.dump();
    }
    if (key == "pattern") {
      const bool fits =
          !value.is_string() || std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()));
      return fits ? "" : path + ": " + value.dump() + " is not as " + rule.dump();
    }
    if (key == "anyOf") {
      std::string whys;
      for (const Json& choice : rule) {
        const std::string why = at(value, choice, path);
        if (why.empty()) return {};
        whys += why + "; ";
      }
      return whys;
    }
    return structure(value, schema, one, path);
  }

  std::string structure(const Json& value, const Json& schema, const std::pair<std::string, Json>& one,
                        const std::string& path) const {
    const auto& [key, rule] = one;
    if (key == "required") {
      for (const Json& name : rule) {
        if (value.is_object() && !value.contains(name.get<std::string>())) return path + " lacks " + name.dump();
      }
      return {};
    }
    if (key == "additionalProperties") {
      if (!value.is_object()) return {};
      for (const auto& [name, member] : value.items()) {
        const bool known = schema.contains("properties") && schema["properties"].contains(name);
        if (!known && rule == false) return path + " has '" + name + "', which the schema does not name";
        std::string why = at(member, known ? schema["properties"][name] : rule, path + "/" + name);
        if (!why.empty()) return why;
      }
      return {};
    }
    if (key == "items") {
      for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) {
        if (std::string why = at(value[i], rule, path + "/" + std::to_string(i)); !why.empty()) return why;
      }
      return {};
    }
    if (key == "minItems") return value.is_array() && value.size() < rule ? path + " is too short" : "";
    if (key == "maxItems") return value.is_array() && value.size() > rule ? path + " is too long" : "";
    return "the validator does not know '" + key + "'";
  }

  const Json& root_;
};

const Json& schema(const std::string& name) {
  static std::map<std::string, Json> known;
  auto& json = known[name];
  if (json.is_null()) {
    const Outcome outcome = run_program({"schema", name});
    INFO(name << outcome.err);
    REQUIRE(outcome.status == 0);
    json = Json::parse(outcome.out);
  }
  return json;
}

/// Of "ddlsim/predict/1", by its schema.
std::string problem_of(const Json& answer) {
  const std::string said = answer.at("schema");
  return Validator(schema(said.substr(7, said.size() - 9))).problem(answer);
}

std::string seeds() { return std::string(DDLSIM_SOURCE_DATA) + "/test/fuzz/seeds/"; }

/// Every answer there is, and its variants.
std::vector<std::string> questions(const TempFolder& folder) {
  const std::string rows = folder.file(
      "runs.csv", "run,train_s,batches\none_gpu,100,1000\nsynthetic,110,1000\nwarm,150,1000\ncold,300,1000\n");
  std::string kernels = "gpu,op,kind,bytes,row,time_us\n";
  for (int i = 1; i <= 60; ++i) {
    kernels += "t4,memory_bound,elementwise," + std::to_string(i * 1'000'000) + ",," +
               std::to_string(5 + 1.05 * i / 0.32) + "\n";
  }
  const std::string fit = folder.file("rows.csv", kernels);
  const std::string job = " --model resnet50 --node dgx1-v100";
  return {"predict --nodes 4" + job,
          "predict --nodes 2 --strategy ps --steps 1000 --price '3 $/h' --carbon '400 g/kWh'" + job,
          "predict --nodes 64 --goodput --mtbf-gpu '20000 h' --checkpoint-bandwidth '10 GB/s' --steps 1000" + job,
          "predict --nodes 64 --goodput --mtbf-gpu '20000 h' --checkpoint-bandwidth '10 GB/s'" + job,
          "predict --nodes 64 --mtbf-gpu '20000 h' --checkpoint-bandwidth '10 GB/s' --steps 1000" + job,
          std::string("predict --model pai_bert --node dgx1-v100 --fidelity aggregate"),
          std::string("predict --model gpt3_175b --node dgx-a100-80gb --nodes 128 --tp 8 --pp 8 --global-batch 1536"),
          std::string("predict --model dlrm --node dgx1-v100"),
          std::string("predict --model unet3d --node p3.16xlarge --dataset kits19"),
          std::string("predict --model resnet50 --node p3.16xlarge --dataset imagenet --samples 1281167 --epochs 90"),
          "predict --nodes 2 --fidelity event --set straggler=1.3" + job,
          "predict --curve nodes=1,2" + job,
          "what-if --nodes 4" + job,
          "what-if --nodes 2" + job + " --vs --set strategy=ps",
          "what-if --nodes 2 --elasticities" + job,
          std::string("find batch --such-that 'memory <= 12 GB'") + job,
          std::string("find network --nodes 4 --such-that 'scaling_efficiency >= 99.99 %'") + job,
          std::string("find network --nodes 4 --such-that 'scaling_efficiency >= 80 %'") + job,
          "explain --nodes 4" + job,
          std::string("explain --model bert_large --node dgx-h100 --set gpu.calibration=none"),
          "plan --nodes 2 --global-batch 512 --precision fp32 --zero 0" + job,
          std::string(
              "plan --model bert_large --node dgx-a100 --global-batch 256 --zero 1 --recompute none --price '10 $/h'"),
          std::string("plan --partition --model vgg16 --node dgx1-v100 --gpus-per-node 4 --batch 64"),
          std::string("stalls --model resnet18 --node p3.8xlarge --nodes 2 --dataset imagenet --workers 4"),
          std::string("stalls --model alexnet --node p3.16xlarge"),
          "stalls --model vgg11 --node p3.16xlarge --dataset imagenet --measured-stalls " + rows,
          std::string("stalls --node p3.16xlarge --study layers"),
          std::string(
              "recommend --model resnet50 --samples 1281167 --epochs 90 --deadline 24h --catalog aws --max-nodes 2"),
          std::string("recommend --model alexnet --steps 1e5 --node p3.2xlarge --max-nodes 1"),
          std::string("fleet --population pai_2019 --jobs 2000 --what-if"),
          std::string("fleet --population pai_2019 --jobs 200"),
          std::string("validate bench/accuracy/cases/ddp_csc.csv"),
          std::string("validate --anchor rest bench/accuracy/cases/ddp_csc.csv"),
          std::string("validate bench/accuracy/cases/ddp_csc.csv --row csc012"),
          std::string("validate bench/accuracy/cases/collectives_tc_aws.csv --row tcc001"),
          std::string("topology --node pcie-8xv100"),
          std::string("topology --node g4dn.xlarge"),
          std::string("topology --node dgx-a100 --nodes 16 --nodes-per-leaf 8 --oversubscription 2"),
          std::string("topology --nccl-xml test/data/topology/nvswitch.xml"),
          std::string("collective --node dgx-a100 --nodes 2 --max 1M"),
          std::string("collective --node piz-daint-xc50 --nodes 16 --compare mpi,nccl:ring --max 1M"),
          std::string("list"),
          std::string("list gpus"),
          std::string("list settings"),
          std::string("list frameworks"),
          std::string("list models resnet50"),
          std::string("list instances p3.2xlarge"),
          std::string("loader one_server"),
          std::string("loader synergy --jobs 20"),
          "sweep --nodes 1,2" + job,
          "sweep --nodes 1,2 --time-only" + job,
          "calibrate fit " + fit + " --gpu t4",
          "import kineto " + seeds() + "kineto/step.json",
          std::string("help"),
          std::string("help predict")};
}

}  // namespace

TEST_CASE("schema: what every command prints is as its schema says", "[hostile][schema]") {
  const TempFolder folder;
  std::set<std::string> seen;
  for (const std::string& question : questions(folder)) {
    // Paths among them are the source tree's.
    const std::string line = "cd '" DDLSIM_SOURCE_DATA "'; exec \"$DDLSIM\" " + question + " --json";
    const Outcome outcome = run_shell(line, folder.path(), 240);
    INFO(line << "\n" << outcome.err);
    // What cannot be reached is an answer too, in the same shape, and no value.
    REQUIRE(outcome.status == (question.find("99.99 %") != std::string::npos ? 1 : 0));
    const bool lines = question.starts_with("sweep");
    for (std::size_t at = 0; at < outcome.out.size();) {
      const std::size_t end = lines ? outcome.out.find('\n', at) : outcome.out.size();
      const Json answer = Json::parse(outcome.out.substr(at, end - at));
      seen.insert(answer["schema"].get<std::string>());
      CHECK(problem_of(answer).empty());
      INFO(problem_of(answer));
      at = end + (lines ? 1 : 0);
    }
  }
  const Outcome names = run_program({"schema"});
  for (std::size_t at = 0; at < names.out.size();) {
    const std::size_t end = names.out.find('\n', at);
    const std::string name = names.out.substr(at, end - at);
    at = end + 1;
    if (name == "prediction" || name == "fault" || name == "calibrate-check" || name == "validate-set")
      continue;                                          // parts; asked below
    if (name == "error" || name == "catalog") continue;  // the server's
    INFO(name);
    CHECK(seen.count("ddlsim/" + name + "/1") == 1);
  }
  const Outcome check = run_shell("\"$DDLSIM\" calibrate check t4 rows.csv --json", folder.path(), 60);
  CHECK(problem_of(Json::parse(check.out)).empty());
}

TEST_CASE("schema: what a server says besides is as its schema says", "[hostile][schema]") {
  const ServeProcess server;
  CHECK(problem_of(Json::parse(server.ask("GET", "/v1/catalog").body)).empty());
  for (const char* request : {"", "{}", R"({"model": 1, "node": {"a": "b", "c": "d"}})"}) {
    const Json error = Json::parse(server.post("predict", request).body);
    INFO(error.dump());
    CHECK(problem_of(error).empty());
  }
  CHECK(problem_of(Json::parse(server.ask("GET", "/nowhere").body)).empty());
}

TEST_CASE("schema: every golden answer is as its schema says", "[hostile][schema]") {
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(DDLSIM_SOURCE_DATA) + "/test/golden")) {
    const std::string text = contents(entry.path());
    if (entry.path().extension() != ".golden" || text.find("\n{\n  \"schema\"") == std::string::npos) continue;
    INFO(entry.path());
    const std::string problem = problem_of(Json::parse(text.substr(text.find("\n{\n  \"schema\""))));
    INFO(problem);
    CHECK(problem.empty());
    ++checked;
  }
  CHECK(checked > 8);
  std::ifstream sweep(std::string(DDLSIM_SOURCE_DATA) + "/test/golden/sweep_json.golden");
  for (std::string line; std::getline(sweep, line);) {
    if (line.starts_with("{")) CHECK(problem_of(Json::parse(line)).empty());
  }
}

TEST_CASE("schema: drift is noticed", "[hostile][schema]") {
  const Outcome outcome = run_program({"predict", "--model", "resnet50", "--node", "dgx1-v100", "--json"});
  Json answer = Json::parse(outcome.out);
  REQUIRE(problem_of(answer).empty());
  Json more = answer;
  more["prediction"]["more"] = 1;
  CHECK_FALSE(problem_of(more).empty());
  Json less = answer;
  less["prediction"].erase("mfu");
  CHECK_FALSE(problem_of(less).empty());
  Json text = answer;
  text["prediction"]["step_time_s"] = "1 s";
  CHECK_FALSE(problem_of(text).empty());
  Json other = answer;
  other["prediction"]["provenance"] = "guessed";
  CHECK_FALSE(problem_of(other).empty());
  Json data = answer;
  data["program"]["data"] = "today's";
  CHECK_FALSE(problem_of(data).empty());
}
