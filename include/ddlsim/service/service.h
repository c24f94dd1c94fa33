// One question and its answer, both as text: what the C interface and `ddlsim serve` are made of.
//
// A request is one JSON object, or the same as YAML (JSON is read as the YAML it also is, so numbers, places in messages
// and limits are those of scenario files). The job is a map of settings, as in a scenario file:
//
// ```
// predict     {"model": "resnet50", "node": "dgx-a100", "nodes": 4, "network": "100 Gb/s"}
// what-if     {"job": {...}, "vs": [{"name": "buy A100", "node": "dgx-a100"}, {...}]}     no "vs": every upgrade is tried
// find        {"job": {...}, "variable": "network", "such_that": "scaling_efficiency >= 90 %"}
// plan        {"job": {...}, "top": 5}
// explain     {"job": {...}, "part": "all-reduce"}
// stalls, recommend   {"job": {...}}
// ```
//
// A job that stands alone needs no "job" around it. The answer is what the command prints with --json, byte for byte; an
// error is that of the command: its place, its message, its notes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddlsim/io/catalog.h"
#include "ddlsim/support/error.h"

namespace ddlsim::service {

/// The commands that can be asked: predict, what-if, find, plan, explain, stalls, recommend.
[[nodiscard]] std::vector<std::string_view> commands();

/// The answer as the command's JSON. An unknown command or key is an error that lists the valid ones. Threads may ask
/// one catalogue at once.
[[nodiscard]] Expected<std::string> answer(const io::Catalog& catalog, std::string_view command,
                                           std::string_view request);

/// An error as JSON: {"schema": "ddlsim/error/1", "error": MESSAGE, "file": F, "line": L, "column": C, "notes": [...]}.
[[nodiscard]] std::string error_json(const Error& error);

}  // namespace ddlsim::service
