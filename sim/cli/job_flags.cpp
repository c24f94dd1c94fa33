// What commands about one job have in common: that it is named, and saved.
#include <fmt/core.h>

#include <algorithm>

#include "ddlsim/io/content_hash.h"
#include "ddlsim/support/names.h"
#include "ddlsim/whatif/saved_job.h"
#include "describe.h"
#include "output.h"
#include "program.h"

namespace ddlsim::cli {
namespace {

/// The first ids that are asked for by somebody new, and where all are.
std::string some_of(const io::Catalog& catalog, io::Kind kind, std::vector<std::string> shown) {
  std::erase_if(shown, [&](const std::string& id) { return !catalog.knows(kind, id); });
  const std::string_view word = name_of(io::kKinds, kind);
  return fmt::format("{0}: {1}, ...; `ddlsim list {0}` shows all {2}", word, join(shown), catalog.ids(kind).size());
}

}  // namespace

void require_model_and_node(const std::vector<whatif::Override>& settings, const io::Catalog& catalog) {
  const auto names = [&](std::string_view path) {
    return std::any_of(settings.begin(), settings.end(), [&](const whatif::Override& s) { return s.path == path; });
  };
  if (!names("model")) {
    throw UsageError{"--model is missing", some_of(catalog, io::Kind::kModels,
                                                   {"resnet50", "bert_large", "llama_3_1_8b", "llama_3_1_70b",
                                                    "mixtral_8x7b", "sd15_unet", "dlrm"})};
  }
  if (!names("node")) {
    throw UsageError{
        "--node is missing",
        some_of(catalog, io::Kind::kNodes, {"dgx1-v100", "dgx-a100", "dgx-h100", "pcie-8x4090"}) + "\n  " +
            some_of(catalog, io::Kind::kInstances, {"p3.16xlarge", "p4d.24xlarge", "p5.48xlarge", "g5.12xlarge"})};
  }
}

void SaveFlag::add_to(CLI::App& app) {
  app.add_option("--save", path_, "write the job, every value with its provenance, as a scenario for -f")
      ->type_name("JOB.yaml")
      ->group(kOutputGroup);
}

Expected<void> SaveFlag::write(const whatif::Scenario& scenario, const std::vector<whatif::Override>& stated,
                               const io::Catalog& catalog) const {
  if (!asked()) return {};
  const auto data = io::fingerprint_of(catalog.root());
  if (!data) return tl::unexpected<Error>(data.error());
  const auto text = whatif::saved_job(scenario, stated, "saved by ddlsim " DDLSIM_VERSION ", data " + *data);
  if (!text) return tl::unexpected<Error>(text.error());
  return write_file(path_, *text);
}

}  // namespace ddlsim::cli
