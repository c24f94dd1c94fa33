#include "torchtitan_schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace ddlsim::importers::launch {
namespace {

/// Schedules of torch.distributed.pipelining (schedules.py, get_schedule_class), and ours; else what is nearest.
struct TitanSchedule {
  std::string_view name;
  std::string_view ours;
  std::string_view nearest{};
};
constexpr std::array kTitanSchedules{
    TitanSchedule{"1f1b", "1f1b"},
    TitanSchedule{"gpipe", "gpipe"},
    TitanSchedule{"interleaved1f1b", "interleaved"},
    TitanSchedule{"flexibleinterleaved1f1b", "interleaved"},  // PyTorch 2.5
    TitanSchedule{"zbvzerobubble", "zbv"},
    TitanSchedule{"interleavedzerobubble", "",
                  "interleaved has its parts, with backward in one piece; zb-h1 has weights' gradients apart, in one "
                  "part per rank"},
    TitanSchedule{"loopedbfs", "",
                  "interleaved has its bubble, and keeps fewer micro-batches; gpipe keeps as many, in one part per "
                  "rank, with a longer bubble"},
    TitanSchedule{
        "dualpipev", "",
        "zbv has its two parts per rank, there and back, without pairs; dualpipe has its pairs, on two copies "
        "of the weights"},
    TitanSchedule{"pipelineschedulesingle", "", "its order is in a CSV, which is not read: 1f1b, gpipe or zb-h1"},
    TitanSchedule{"pipelineschedulemulti", "", "its order is in a CSV, which is not read: interleaved or zbv"},
};

constexpr const char* kEach = "parallelism.pipeline_parallel_layers_per_stage";

class TitanScheduleReader {
 public:
  TitanScheduleReader(Tree& in, const TitanPipeline& pipeline, Builder& out)
      : in_(in), pipeline_(pipeline), out_(out) {}

  void read() {
    const auto found =
        in_.find_first({"parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"});
    if (pipeline_.stages > 1) {
      read_name(found);
      if (out_.value_of("parallel.schedule") == "interleaved") read_chunks();
      in_.close(kEach);
    } else if (found) {
      out_.leave_out(found.words, "of no effect without a pipeline", found.where());
    }
  }

 private:
  void read_name(const Tree::Found& found) {
    if (!found) return out_.assume("parallel.schedule", "1f1b", "torchtitan's own");
    const std::string name = in_.word(found);
    const auto* const row = std::find_if(kTitanSchedules.begin(), kTitanSchedules.end(),
                                         [&](const TitanSchedule& known) { return known.name == name; });
    if (row == kTitanSchedules.end()) {
      out_.ask("parallel.schedule",
               found.words + " is not modelled: 1f1b, gpipe, interleaved, zb-h1, zb-h2, zbv, dualpipe", found.where());
    } else if (row->ours.empty()) {
      out_.ask("parallel.schedule", fmt::format("{} is not modelled: {}", found.words, row->nearest), found.where());
    } else {
      out_.set("parallel.schedule", std::string(row->ours), found.words, found.where());
    }
  }

  /// Stages of so many layers, rounded up, over ranks, two of each at least (torchtitan/distributed/
  /// pipeline_parallel.py). Embedding and head count as layers, one each unless stated; before its pull request 1416
  /// (2025) as none.
  void read_chunks() {
    const auto each = in_.find(kEach);
    if (!each) {
      return out_.assume("parallel.virtual_stages", "2", "torchtitan makes two stages per GPU unless told otherwise");
    }
    std::int64_t ends = 0;
    bool stated = false;
    for (const char* end : {"first", "last"}) {
      const auto less = in_.find(fmt::format("parallelism.pipeline_parallel_{}_stage_less_layers", end));
      const std::int64_t layers = in_.count(less, 0).value_or(1);
      if (less && layers != 1) {
        out_.leave_out(less.words, "counted, but layers are cut into parts of nearly equal work", less.where());
      }
      stated = stated || less;
      ends += layers;
    }
    const auto size = in_.count(each);
    if (!size || pipeline_.blocks == 0) {
      return out_.ask("parallel.virtual_stages", each.words + ": chunks of layers per GPU?", each.where());
    }
    // Per rank; 0: torchtitan refuses it.
    const auto chunks = [&](std::int64_t layers) {
      const std::int64_t stages = layers / *size + (layers % *size > 0 ? 1 : 0);
      return stages % pipeline_.stages == 0 && stages > pipeline_.stages ? stages / pipeline_.stages : 0;
    };
    const std::int64_t counted = chunks(pipeline_.blocks + ends);
    const std::int64_t alone = stated ? 0 : chunks(pipeline_.blocks);
    const std::string of = fmt::format("{} of {} blocks", each.words, pipeline_.blocks);
    if (counted > 0 && alone > 0 && counted != alone) {
      out_.ask("parallel.virtual_stages",
               fmt::format("{}: {}, or {} by releases before 2025-08, which count neither embedding nor head", of,
                           counted, alone),
               each.where());
    } else if (counted + alone == 0) {
      out_.ask("parallel.virtual_stages",
               fmt::format("{} make no equal number of stages, from two, on {} ranks", of, pipeline_.stages),
               each.where());
    } else {
      out_.set("parallel.virtual_stages", std::max(counted, alone), of, each.where());
    }
  }

  Tree& in_;
  const TitanPipeline& pipeline_;
  Builder& out_;
};

}  // namespace

void read_titan_schedule(Tree& in, const TitanPipeline& pipeline, Builder& out) {
  TitanScheduleReader(in, pipeline, out).read();
}

}  // namespace ddlsim::importers::launch
