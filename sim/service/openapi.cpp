#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "ddlsim/report/schemas.h"
#include "ddlsim/service/service.h"
#include "request.h"

namespace ddlsim::service {
namespace {

using Json = nlohmann::ordered_json;

struct Described {
  std::string_view command;
  std::string_view summary;
  std::string_view example;
  std::string_view answer_too = {};  // a schema beside the command's own
};

constexpr auto kDescribed = std::to_array<Described>({
    {"predict", "The step time of a job, and where it goes",
     R"({"model": "resnet50", "node": "dgx-a100", "nodes": 4, "network": "100 Gb/s"})", "curve"},
    {"what-if", "A job beside what it could be; without vs: what would help most",
     R"({"job": {"model": "resnet50", "node": "dgx1-v100", "nodes": 4}, "vs": [{"network": "100 Gb/s"}]})",
     "elasticities"},
    {"find", "Which value of a setting makes a condition hold",
     R"({"job": {"model": "resnet50", "node": "dgx1-v100", "nodes": 4}, "variable": "network", "such_that": "scaling_efficiency >= 90 %"})"},
    {"plan", "The best way to split a job over GPUs",
     R"({"job": {"model": "bert_large", "node": "dgx1-v100", "nodes": 2, "global_batch": 512}, "limit": "5 s"})"},
    {"explain", "Where every number of a prediction comes from",
     R"({"job": {"model": "resnet50", "node": "dgx1-v100", "nodes": 4}, "part": "all-reduce"})"},
    {"stalls", "Where the GPUs of a job wait",
     R"({"job": {"model": "resnet18", "node": "p3.8xlarge", "nodes": 2, "input": {"dataset": "imagenet"}}})"},
    {"recommend", "Which servers to rent for a run",
     R"({"job": {"model": "resnet50", "training": {"samples": 1281167, "epochs": 90}}, "deadline": "24 h", "catalog": "aws"})"},
});

Json text_response(std::string_view what) { return {{"description", what}}; }

Json json_response(std::string_view what, Json schema) {
  Json response = text_response(what);
  response["content"]["application/json"]["schema"] = std::move(schema);
  return response;
}

Json named(std::string_view schema) { return {{"$ref", "#/components/schemas/" + std::string(schema)}}; }

void add_schema(const std::string& name, Json& all);

/// References between files become references within this document, which gets what they name.
void refer_within(Json& at, Json& all) {
  constexpr std::string_view kEnding = ".json";
  for (auto& [key, value] : at.items()) {
    if (value.is_structured()) {
      refer_within(value, all);
    } else if (at.is_object() && key == "$ref") {
      std::string to = value.get<std::string>();
      if (!to.ends_with(kEnding)) continue;
      to.resize(to.size() - kEnding.size());
      add_schema(to, all);
      value = named(to)["$ref"];
    }
  }
}

/// The installed schema of an answer, or of a part of one.
void add_schema(const std::string& name, Json& all) {
  if (all.contains(name)) return;
  all[name] = nullptr;  // it may name itself
  const auto known = report::schemas();
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.name == name; });
  Json schema = Json::parse(found->text);
  schema.erase("$schema");
  schema.erase("$id");
  refer_within(schema, all);
  all[name] = std::move(schema);
}

/// A job's settings, or a job with what the command takes beside it.
Json request_schema(std::string_view command) {
  const Json settings{{"description", "settings of a job: GET /v1/catalog lists them"}, {"type", "object"}};
  const Json value{{"type", {"string", "number", "boolean"}}};
  Json properties{{"job", settings}};
  for (const std::string_view key : keys_of(command)) {
    properties[std::string(key)] = key == "vs" ? Json{{"type", "array"}, {"items", settings}} : value;
    if (key == "limit") properties["limit"]["description"] = "of a search; more than this server allows is refused";
  }
  const Json with_job{{"type", "object"},
                      {"properties", properties},
                      {"required", Json::array({"job"})},
                      {"additionalProperties", false}};
  return {{"anyOf", {with_job, settings}}};
}

Json operation(const Described& one) {
  Json responses;
  Json answers{{"anyOf", Json::array({named(one.command)})}};
  if (!one.answer_too.empty()) answers["anyOf"].push_back(named(one.answer_too));
  responses["200"] = json_response("What the command prints with --json", std::move(answers));
  const Json error = named("error");
  responses["400"] = json_response("The request is not one, or has no answer", error);
  responses["401"] = json_response("No token, or a wrong one (where the server has one)", error);
  responses["403"] = json_response("From a page of another origin, or by another name of this host", error);
  responses["413"] = json_response("More than a megabyte", error);
  responses["415"] = json_response("Neither application/json nor application/yaml", error);
  responses["503"] = json_response("Too busy, or it took too long", error);
  Json body{{"required", true}};
  body["content"]["application/json"] = {{"schema", request_schema(one.command)},
                                         {"example", Json::parse(one.example)}};
  body["content"]["application/yaml"] = {{"schema", request_schema(one.command)}};
  return {{"summary", one.summary}, {"operationId", one.command}, {"requestBody", body}, {"responses", responses}};
}

Json reading(std::string_view what, std::string_view type, Json schema = nullptr) {
  Json get{{"summary", what}};
  get["responses"]["200"] = text_response(what);
  Json& content = get["responses"]["200"]["content"][std::string(type)] = Json::object();
  if (!schema.is_null()) content["schema"] = std::move(schema);
  return {{"get", get}};
}

}  // namespace

std::string openapi(std::string_view version) {
  Json json{{"openapi", "3.1.0"},
            {"info",
             {{"title", "ddlsim"},
              {"version", version},
              {"description",
               "The commands of ddlsim over HTTP. A request is a job's settings (GET /v1/catalog lists them), or "
               "{\"job\": settings, ...flags}; quantities carry their unit, answers are in SI units."}}}};
  for (const Described& one : kDescribed) json["paths"]["/v1/" + std::string(one.command)]["post"] = operation(one);
  json["paths"]["/v1/catalog"] =
      reading("Models, servers, strategies and settings that are known", "application/json", named("catalog"));
  json["paths"]["/openapi.json"] = reading("This", "application/json");
  json["paths"]["/healthz"] = reading("ok", "text/plain");
  json["paths"]["/metrics"] = reading("Requests and their times, for Prometheus", "text/plain");
  Json& schemas = json["components"]["schemas"] = Json::object();
  for (const char* const name : {"error", "catalog"}) add_schema(name, schemas);
  for (const Described& one : kDescribed) {
    add_schema(std::string(one.command), schemas);
    if (!one.answer_too.empty()) add_schema(std::string(one.answer_too), schemas);
  }
  json["components"]["securitySchemes"]["token"] = {{"type", "http"}, {"scheme", "bearer"}};
  return json.dump(2) + "\n";
}

}  // namespace ddlsim::service
