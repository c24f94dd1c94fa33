// A sweep's answers into a database, a file of lines or standard output, by this process or by ranks of MPI.
#pragma once

#include <string>

#include "ddlsim/io/catalog.h"
#include "ddlsim/io/result_store.h"
#include "ddlsim/report/format.h"
#include "ddlsim/whatif/grid.h"
#include "ddlsim/whatif/sweep.h"
#include "ranks.h"

namespace ddlsim::cli {

/// What a sweep asks, on every rank alike.
struct SweepQuestion {
  const whatif::Grid& grid;
  const io::Catalog& catalog;
  whatif::SweepOptions options;
  io::ResultRun run;
  report::Format format = report::Format::kText;
  std::string out;
};

/// By this process, or by the ranks that were started together. Returns the exit status.
int answer_sweep(const SweepQuestion& question, UseMpi use);

}  // namespace ddlsim::cli
