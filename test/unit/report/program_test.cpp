// Every JSON says which program it is of, and one who knows says with which data.
#include "ddlsim/report/program.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "ddlsim/report/views.h"

using namespace ddlsim;
using nlohmann::ordered_json;

TEST_CASE("program: every JSON names it, the data are whoever's who knows", "[unit][report]") {
  const std::string bare = report::render_list("gpus", {{"t4", "NVIDIA T4", ""}}, report::Format::kJson);
  const auto json = ordered_json::parse(bare);
  CHECK(std::next(json.begin()).key() == "program");
  CHECK(json["program"]["version"].get<std::string>().starts_with("0."));
  CHECK(json["program"]["data"].is_null());
  const std::string known = report::with_program(bare, "0123456789abcdef");
  CHECK(ordered_json::parse(known)["program"]["data"] == "0123456789abcdef");
  CHECK(ordered_json::parse(known)["rows"] == json["rows"]);
  CHECK(report::with_program(known, "0123456789abcdef") == known);
  CHECK(report::with_program(known, std::nullopt) == bare);
  CHECK(report::with_program("id,name\n", "0123456789abcdef") == "id,name\n");
}

TEST_CASE("columns: the model stands in every row", "[unit][report]") {
  answer::Prediction one;
  one.model = "Llama 3.1 8B";
  answer::Prediction other = one;
  other.split.tensor = 4;
  const std::vector<const answer::Prediction*> rows{&one, &other};
  const std::string csv = report::render_columns(rows, report::Columns::kNemo, report::Format::kCsv);
  CHECK(csv.starts_with("Model,#-GPUs,Precision,"));
  CHECK(csv.find("\nLlama 3.1 8B,") != std::string::npos);
  CHECK(csv.find("\nLlama 3.1 8B,", csv.find("\nLlama 3.1 8B,") + 1) != std::string::npos);
}

TEST_CASE("list: what is long is folded on a terminal, and alone there", "[unit][report]") {
  std::string ids = "a-model-of-one-name-0";
  for (int i = 1; i < 40; ++i) ids += ", a-model-of-one-name-" + std::to_string(i);
  const std::vector<report::ListRow> rows{{"models", ids, ""}, {"cpus", "one", ""}};
  const std::string text = report::render_list("kind", rows, report::Format::kText);
  std::size_t longest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  CHECK(longest <= 110);
  CHECK(text.find("also known as") == std::string::npos);
  CHECK(text.find("a-model-of-one-name-39\n") != std::string::npos);
  CHECK(text.find("\ncpus") != std::string::npos);
  CHECK(report::render_list("kind", rows, report::Format::kCsv).find(ids) != std::string::npos);
}
