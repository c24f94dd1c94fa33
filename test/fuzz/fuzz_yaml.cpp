// Model, hardware, profile, population and jobs files: the same text goes to every reader of YAML.
#include "ddlsim/io/hardware_files.h"
#include "ddlsim/io/jobs_file.h"
#include "ddlsim/io/model_file.h"
#include "ddlsim/io/population_file.h"
#include "ddlsim/io/profile_file.h"
#include "ddlsim/io/yaml.h"
#include "input.h"

using namespace ddlsim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = io::parse_yaml(fuzz::text_of(data, size), "fuzz.yaml");
  fuzz::require_answer(document);
  if (!document) return 0;
  fuzz::require_answer(io::read_model(*document));
  fuzz::require_answer(io::read_gpu(*document));
  fuzz::require_answer(io::read_link(*document));
  fuzz::require_answer(io::read_node(*document));
  fuzz::require_answer(io::read_setting(*document));
  fuzz::require_answer(io::read_population(*document));
  fuzz::require_answer(io::read_profile(*document));
  fuzz::require_answer(io::read_jobs(*document, "fuzz.yaml"));
  return 0;
}
