#include "ddlsim/events/event_step.h"

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>

#include "ddlsim/hardware/collective_table.h"
#include "unit/events/two_layers.h"

using namespace ddlsim;
using namespace ddlsim::events;
using namespace ddlsim::step;
using ddlsim::test::one_per_tensor;
using ddlsim::test::setting;
using ddlsim::test::two_layers;

namespace {

/// Two GPUs on two nodes: the table says that 10 MB take 5 ms.
class TwoNodes {
 public:
  explicit TwoNodes(Bandwidth network) {
    const cost::Communicator two{.gpus = 2,
                                 .nodes = 2,
                                 .intra = gigabytes_per_second(10),
                                 .inter = network,
                                 .pcie = gigabytes_per_second(10),
                                 .memory = gigabytes_per_second(1000)};
    const std::array<primitives::CollectiveMeasurement, 2> points{
        {{.op = primitives::CollectiveOp::kAllReduce, .gpus = 2, .nodes = 2, .size = bytes(10), .time = nanoseconds(5)},
         {.op = primitives::CollectiveOp::kAllReduce,
          .gpus = 2,
          .nodes = 2,
          .size = gigabytes(1),
          .time = milliseconds(500)}}};
    auto table = hardware::CollectiveTable::create(points);
    model_ = cost::CollectiveModel::create(two, {}, std::make_shared<const hardware::CollectiveTable>(*table)).value();
  }
  [[nodiscard]] CollectiveFabric fabric() const { return {&*model_}; }

 private:
  std::optional<cost::CollectiveModel> model_;
};

double ms(const StepSetting& s, const std::vector<plan::Message>& messages, const EventSetting& event = {}) {
  return run_event_step(two_layers(), messages, s, event).value().step.in(milliseconds);
}

const std::vector<WorkerKind> kOneSlow{{1, 1}, {1.5, 1}};

}  // namespace

TEST_CASE("event step: gradients leave as soon as they are ready", "[unit][sim]") {
  StepSetting s = setting();
  const TwoNodes two(gigabytes_per_second(1));
  s.fabric = two.fabric();
  // The example of the header: rings 7..12..17.
  CHECK(ms(s, one_per_tensor()) == Approx(17));
  // Backward until 10.5 and 13.5, rings 10.5..15.5..20.5.
  CHECK(ms(s, one_per_tensor(), {.workers = kOneSlow}) == Approx(20.5));
  // The port is full as it is: rings of 10 ms, 7..17..27. Three jobs: 7..22..37.
  CHECK(ms(s, one_per_tensor(), {.jobs = 2}) == Approx(27));
  CHECK(ms(s, one_per_tensor(), {.jobs = 3}) == Approx(37));
  s.overlap = plan::Overlap::kNone;
  CHECK(ms(s, one_per_tensor()) == Approx(19));
  CHECK(ms(s, one_per_tensor(), {.jobs = 2}) == Approx(29));
}

TEST_CASE("event step: jobs share what they fill, and only while they meet", "[unit][sim]") {
  StepSetting s = setting();
  const std::vector<plan::Message> last{{.size = megabytes(10), .count = 1, .after = 0}};
  const TwoNodes slow(gigabytes_per_second(1));
  s.fabric = slow.fabric();
  // Backward until 9, the ring until 14. Together: 10 ms of ring. 7 ms apart: 9..14, 16..21, 23..28, 30..35, never
  // both.
  CHECK(ms(s, last) == Approx(14));
  CHECK(ms(s, last, {.jobs = 2}) == Approx(19));
  CHECK(ms(s, last, {.jobs = 2, .offset = milliseconds(7)}) == Approx(14));
  // A whole step apart is together: what came before has ended.
  CHECK(ms(s, last, {.jobs = 2, .offset = milliseconds(14)}) == Approx(19));
  // 10 MB in 5 ms are 2 GB/s: a port of 100 Gb/s or more has room for two.
  const TwoNodes fast(gigabytes_per_second(20));
  s.fabric = fast.fabric();
  CHECK(ms(s, last, {.jobs = 2}) == Approx(14));
}

TEST_CASE("event step: the CPU issues kernels one by one", "[unit][sim]") {
  StepSetting s = setting();
  s.launch_interval = milliseconds(4);
  // Four kernels issued at 4, 8, 12, 16; the last takes 2 ms. Twice as slow a GPU: 4, 8+4, 12+8, 20+4.
  CHECK(ms(s, {}) == Approx(18));
  CHECK(ms(s, {}, {.workers = {{2, 1}}}) == Approx(24));
  // Two kernels in every layer: issued at 8, 16, 24, 32; the last layer's last kernel takes 1 ms.
  workload::Model model = two_layers();
  for (workload::Layer& layer : model.layers) layer.forward_kernels = layer.backward_kernels = 2;
  CHECK(run_event_step(model, {}, s, {}).value().step.in(milliseconds) == Approx(33));
}

TEST_CASE("event step: what is needed first goes first", "[unit][sim]") {
  StepSetting s = setting();
  const TwoNodes two(gigabytes_per_second(1));
  s.fabric = two.fabric();
  s.priority = true;
  // From backward: the second layer is back at 4, the first at 6; rings 4..9..14. Forward: first 14..15, second ..17.
  CHECK(ms(s, one_per_tensor()) == Approx(17));
  // Slower: back at 6 and 9, rings 6..11..16, forward 16..17.5..20.5.
  CHECK(ms(s, one_per_tensor(), {.workers = kOneSlow}) == Approx(20.5));
}

TEST_CASE("event step: pieces pass the servers' stations one behind the other", "[unit][sim]") {
  StepSetting s = setting();
  s.fabric = cost::PsFabric{.workers = 2,
                            .workers_per_node = 2,
                            .local = true,
                            .pcie = gigabytes_per_second(10),
                            .server_memory = gigabytes_per_second(20)};
  // Out 1 ms, the sum of two 2 * 3 * 10 MB / (20 GB/s) = 3 ms, in 1 ms. Four pieces: 5 + 3 * 3 = 14 ms after 9.
  const std::vector<plan::Message> four{{.size = megabytes(10), .count = 4, .after = 0}};
  CHECK(ms(s, four) == Approx(23));
  // The servers wait for the slower one, whose backward ends at 13.5.
  CHECK(ms(s, four, {.workers = kOneSlow}) == Approx(27.5));
  // Pulled at the start: forward waits for 4 pieces of 1 ms, then 3; backward 6; push 1 + 4 * 3.
  s.pull_at_start = true;
  CHECK(ms(s, four) == Approx(4 + 3 + 6 + 13));
}

TEST_CASE("event step: asynchronous workers do not wait", "[unit][sim]") {
  // Steps of 9 and 18 ms: 3 steps in 18 ms by two workers, 12 ms for one each.
  const auto both = run_event_step(two_layers(), {}, setting(), {.workers = {{1, 1}, {2, 1}}, .synchronous = false});
  CHECK(both.value().step.in(milliseconds) == Approx(12));
  CHECK(both.value().slowest.in(milliseconds) == Approx(18));
  // Three fast ones: 3 / 9 + 1 / 18 = 7 / 18.
  CHECK(ms(setting(), {}, {.workers = {{1, 3}, {2, 1}}, .synchronous = false}) == Approx(4.0 * 18 / 7));
}

TEST_CASE("event step: input is copied meanwhile, and earlier passes send nothing", "[unit][sim]") {
  StepSetting s = setting();
  s.input = milliseconds(12);
  CHECK(ms(s, {}) == Approx(12));
  s.accumulation = 2;
  s.update = milliseconds(8);
  CHECK(ms(s, {}) == Approx(26));  // 9 + 9 + 8, more than 24 of input
}

TEST_CASE("event step: tasks are named after layers when asked", "[unit][sim]") {
  const auto named = run_event_step(two_layers(), {}, setting(), {.named = true}).value();
  const std::vector<std::string> names{"start", "forward first", "forward second", "backward second", "backward first"};
  for (std::uint32_t i = 0; i < names.size(); ++i) CHECK(named.program.name(TaskId{i}) == names[i]);
  CHECK(named.program.streams()[1].name == "job 1, GPUs/gpu");
}

TEST_CASE("event step: what is no schedule is refused", "[unit][sim]") {
  const auto code = [](const StepSetting& s, const EventSetting& event) {
    return run_event_step(two_layers(), one_per_tensor(), s, event).error().code;
  };
  StepSetting s = setting();
  CHECK(code(s, {.jobs = 0}) == ErrorCode::kInvalidArgument);
  CHECK(code(s, {.jobs = 1001}) == ErrorCode::kInvalidArgument);
  CHECK(code(s, {.workers = {}}) == ErrorCode::kInvalidArgument);
  CHECK(code(s, {.workers = {{0, 1}}}) == ErrorCode::kInvalidArgument);
  CHECK(code(s, {.offset = milliseconds(-1)}) == ErrorCode::kInvalidArgument);
  CHECK(code(s, {.jobs = 2, .synchronous = false}) == ErrorCode::kUnsupported);
  s.overlap = plan::Overlap::kIdeal;
  CHECK(code(s, {}) == ErrorCode::kUnsupported);
  s.overlap = plan::Overlap::kBackward;
  s.fabric = cost::PsFabric{};
  s.priority = s.pull_at_start = true;
  CHECK(code(s, {}) == ErrorCode::kUnsupported);
}
