#include <ddlsim/whatif/predict.h>
#include <cstdio>

using namespace ddlsim;

int main() {
  const auto catalog = io::Catalog::open(DDLSIM_DATA_DIR);
  if (!catalog) return std::puts(to_string(catalog.error()).c_str()), 1;
  const std::vector<whatif::Override> settings{
      {"model", "resnet50", {}}, {"node", "dgx-a100", {}}, {"nodes", "4", {}}, {"network", "100 Gb/s", {}}};
  const auto prediction = whatif::resolve(*catalog, settings).and_then(whatif::predict);
  if (!prediction) return std::puts(to_string(prediction.error()).c_str()), 1;
  std::printf("step %.1f ms, bound by %s\n", prediction->step_time.in(milliseconds), prediction->bottleneck.c_str());
}
