#include <array>
#include <nlohmann/json.hpp>

#include "ddlsim/service/service.h"

namespace ddlsim::service {
namespace {

using Json = nlohmann::ordered_json;

struct Described {
  std::string_view command;
  std::string_view summary;
  std::string_view example;
};

constexpr auto kDescribed = std::to_array<Described>({
    {"predict", "The step time of a job, and where it goes",
     R"({"model": "resnet50", "node": "dgx-a100", "nodes": 4, "network": "100 Gb/s"})"},
    {"what-if", "A job beside what it could be; without vs: what would help most",
     R"({"job": {"model": "resnet50", "node": "dgx1-v100", "nodes": 4}, "vs": [{"network": "100 Gb/s"}]})"},
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

Json operation(const Described& one) {
  Json responses;
  responses["200"] = json_response("What the command prints with --json", {{"type", "object"}});
  const Json error{{"$ref", "#/components/schemas/Error"}};
  responses["400"] = json_response("The request is not one, or has no answer", error);
  responses["401"] = json_response("No token, or a wrong one (where the server has one)", error);
  responses["403"] = json_response("From a page of another origin, or by another name of this host", error);
  responses["413"] = json_response("More than a megabyte", error);
  responses["415"] = json_response("Neither application/json nor application/yaml", error);
  responses["503"] = json_response("Too busy, or it took too long", error);
  Json body{{"required", true}};
  body["content"]["application/json"] = {{"schema", {{"type", "object"}}}, {"example", Json::parse(one.example)}};
  body["content"]["application/yaml"] = {{"schema", {{"type", "object"}}}};
  return {{"summary", one.summary}, {"operationId", one.command}, {"requestBody", body}, {"responses", responses}};
}

Json reading(std::string_view what, std::string_view type) {
  Json get{{"summary", what}};
  get["responses"]["200"] = text_response(what);
  get["responses"]["200"]["content"][std::string(type)] = Json::object();
  return {{"get", get}};
}

Json error_schema() {
  const Json text{{"type", "string"}};
  const Json maybe_text{{"type", "string"}, {"nullable", true}};
  const Json maybe_number{{"type", "integer"}, {"nullable", true}};
  const Json list{{"type", "array"}, {"items", text}};
  return {{"type", "object"},
          {"required", {"schema", "code", "error", "notes"}},
          {"properties",
           {{"schema", {{"type", "string"}, {"enum", {"ddlsim/error/1"}}}},
            {"code", text},
            {"error", text},
            {"file", maybe_text},
            {"line", maybe_number},
            {"column", maybe_number},
            {"notes", list},
            {"also", {{"type", "array"}, {"items", {{"type", "object"}}}}}}}};
}

}  // namespace

std::string openapi(std::string_view version) {
  Json json{{"openapi", "3.0.3"},
            {"info",
             {{"title", "ddlsim"},
              {"version", version},
              {"description",
               "The commands of ddlsim over HTTP. A request is a job's settings (GET /v1/catalog lists them), or "
               "{\"job\": settings, ...flags}; quantities carry their unit, answers are in SI units."}}}};
  for (const Described& one : kDescribed) json["paths"]["/v1/" + std::string(one.command)]["post"] = operation(one);
  json["paths"]["/v1/catalog"] = reading("Models, servers, strategies and settings that are known", "application/json");
  json["paths"]["/openapi.json"] = reading("This", "application/json");
  json["paths"]["/healthz"] = reading("ok", "text/plain");
  json["paths"]["/metrics"] = reading("Requests and their times, for Prometheus", "text/plain");
  json["components"]["schemas"]["Error"] = error_schema();
  json["components"]["securitySchemes"]["token"] = {{"type", "http"}, {"scheme", "bearer"}};
  return json.dump(2) + "\n";
}

}  // namespace ddlsim::service
