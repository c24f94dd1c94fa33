// What one job of `ddlsim loader` asks of its server. Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ddlsim/cost/loader_shares.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/io/jobs_file.h"
#include "ddlsim/support/error.h"
#include "ddlsim/whatif/predictor.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

/// A job without its arrival and length.
struct JobProfile {
  cost::LoaderDemand demand;  // of one of its servers
  std::int64_t servers = 1;
  Rate full{};  // of the whole job, likewise what follows
  Rate fair{};
  std::string model;
  std::string sample = "sample";
  std::int64_t samples_per_epoch = 0;  // 0: nobody says
  std::int64_t samples_per_step = 0;   // likewise
  Time read_once{};                    // of the data set, by its servers' storage alone; zero: every epoch does
  std::vector<std::string> notes;
};

class JobProfiler {
 public:
  /// What the jobs share. Errors: as whatif::share_loaders.
  [[nodiscard]] static Expected<JobProfiler> open(const io::Catalog& catalog, const io::JobsFile& file);

  [[nodiscard]] Expected<const JobProfile*> profile(const io::JobEntry& job);
  [[nodiscard]] const cost::LoaderSupply& supply() const { return supply_; }
  [[nodiscard]] const std::string& title() const { return title_; }

 private:
  JobProfiler(const io::Catalog& catalog, const io::JobsFile& file) : catalog_(&catalog), file_(&file) {}

  [[nodiscard]] std::vector<Override> of_server(std::int64_t nodes, std::int64_t gpus) const;
  Expected<void> set_threads(const hardware::Node& node);
  Expected<void> set_supply();
  Expected<JobProfile> make(const io::JobEntry& job);
  Expected<void> place(const io::JobEntry& job, JobProfile& profile) const;
  Expected<void> predict(const io::JobEntry& job, JobProfile& profile);
  Expected<void> measure(const io::JobEntry& job, JobProfile& profile) const;
  void value(JobProfile& profile) const;

  const io::Catalog* catalog_;
  const io::JobsFile* file_;
  cost::LoaderSupply supply_;
  std::int64_t threads_ = 0;  // hardware threads of the cores that the file grants; 0: it says nothing
  std::string title_;
  std::map<std::string, JobProfile> known_;
  Predictor predictor_;
};

}  // namespace ddlsim::whatif
