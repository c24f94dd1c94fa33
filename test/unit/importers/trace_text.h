// Traces as torch.profiler writes them, made for tests.
#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "unit/importers/onnx_bytes.h"

namespace ddlsim::test {

/// One event of a trace, as text. Times are in microseconds.
inline std::string gpu_event(std::string_view cat, std::string_view name, double start, double duration, int stream,
                             int correlation, std::string_view more = {}) {
  return fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {}, )"
                     R"("args": {{"stream": {}, "correlation": {}{}}}}})",
                     cat, name, stream, start, duration, stream, correlation, more);
}
inline std::string kernel_event(std::string_view name, double start, double duration, int stream, int correlation,
                                std::string_view more = {}) {
  return gpu_event("kernel", name, start, duration, stream, correlation, more);
}
inline std::string launch_event(double start, int thread, int correlation) {
  return fmt::format(
      R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": {}, "ts": {}, "dur": 1, )"
      R"("args": {{"correlation": {}}}}})",
      thread, start, correlation);
}
inline std::string span_event(std::string_view cat, std::string_view name, double start, double duration, int thread,
                              std::string_view args = {}) {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 9, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})", cat,
      name, thread, start, duration, args);
}
inline std::string step_event(int number, double start, double duration) {
  return span_event("user_annotation", fmt::format("ProfilerStep#{}", number), start, duration, 1);
}

struct TraceText {
  std::vector<std::string> events;
  std::string gpu = "Tesla V100-SXM2-16GB";
  int rank = 0;
  int world = 2;

  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::string& event : events) all += (all.empty() ? "" : ",\n") + event;
    return fmt::format(
        R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0, "name": "{}"}}], )"
        R"("distributedInfo": {{"backend": "nccl", "rank": {}, "world_size": {}}}, "traceEvents": [{}]}})",
        gpu, rank, world, all);
  }
};

using TraceFile = OnnxFile;

}  // namespace ddlsim::test
