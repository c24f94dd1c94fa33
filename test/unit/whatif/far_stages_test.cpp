// Stages that are a long way apart.
#include <catch2/catch.hpp>

#include "catalog.h"
#include "ddlsim/whatif/predict.h"

using namespace ddlsim;
using ddlsim::test::catalog;
using namespace ddlsim::whatif;

namespace {

answer::Prediction eight_stages(const char* schedule, const char* latency, const char* fidelity) {
  const std::vector<Override> settings{{"model", "gpt2_xl", {}},
                                       {"node", "dgx1-v100", {}},
                                       {"gpus_per_node", "1", {}},
                                       {"nodes", "8", {}},
                                       {"network", "1 Gb/s", {}},
                                       {"network.latency", latency, {}},
                                       {"parallel.pipeline", "8", {}},
                                       {"parallel.schedule", schedule, {}},
                                       {"batch", "1", {}},
                                       {"global_batch", "32", {}},
                                       {"fidelity", fidelity, {}}};
  return predict(resolve(catalog(), settings).value()).value();
}

}  // namespace

TEST_CASE("predict: a long wire does not keep a stage from sending the next micro-batch", "[unit][whatif]") {
  // GPipe waits for it on the way there and on the way back, whatever the micro-batches: 14 times 40 ms, and twice more
  // for the tied table's sum.
  for (const char* fidelity : {"analytic", "event"}) {
    const Time near = eight_stages("gpipe", "10 ms", fidelity).step_time;
    const Time far = eight_stages("gpipe", "50 ms", fidelity).step_time;
    CHECK((far - near).in(milliseconds) == Approx(16 * 40).epsilon(0.02));
  }
  // 1F1B in every round: a stage has no more micro-batches under way than stages follow it.
  const Time near = eight_stages("1f1b", "10 ms", "analytic").step_time;
  const answer::Prediction far = eight_stages("1f1b", "50 ms", "analytic");
  CHECK((far.step_time - near).in(milliseconds) > 30 * 40);
  CHECK(far.breakdown.communication < far.step_time);
}
