// Predictions as rows of a table whose columns somebody else's readers know.
#include <fmt/core.h>

#include <string>

#include "ddlsim/report/views.h"
#include "table.h"

namespace ddlsim::report {
namespace {

std::string number(double value) { return fmt::format("{}", value); }

}  // namespace

std::string render_columns(std::span<const answer::Prediction* const> rows, Columns, Format format) {
  Table table({"Model", "#-GPUs", "Precision", "GBS", "MBS", "Sequence Length", "FSDP", "TP", "PP", "CP", "VP", "EP",
               "GA", "Tokens / sec / GPU", "Model TFLOP / sec / GPU"});
  for (const answer::Prediction* row : rows) {
    const answer::Prediction& p = *row;
    const answer::Split& split = p.split;
    const auto tokens = p.tokens_per_second();
    table.add({p.model, std::to_string(p.gpus), p.precision, std::to_string(split.global_batch()),
               std::to_string(split.micro_batch), p.tokens_per_sample ? std::to_string(*p.tokens_per_sample) : "",
               split.zero == 3 ? "1" : "0", std::to_string(split.tensor), std::to_string(split.pipeline),
               std::to_string(split.context), std::to_string(split.virtual_stages), std::to_string(split.expert),
               std::to_string(split.passes), tokens ? number(*tokens / static_cast<double>(p.gpus)) : "",
               number(p.rate_per_gpu().in(teraflops_per_second))});
  }
  return table.render(format);
}

}  // namespace ddlsim::report
