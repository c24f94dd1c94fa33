// What a job reads: samples on disk, and the work that makes a training sample of each.
//
// Worked example: ImageNet has 1,281,167 JPEGs of 114.7 kB. A core of a Xeon Platinum 8581C decodes one in 1.73 ms, and
// cuts, scales and normalises it in 1.1 ms more: 353 samples/s. Half that speed: 177.
#pragma once

#include <cstdint>
#include <string>

#include "ddlsim/support/source.h"
#include "ddlsim/support/units.h"

namespace ddlsim::workload {

struct Dataset {
  std::string id;
  std::string name;
  std::string sample;  // what a sample is, as models say it
  std::int64_t samples = 1;
  std::int64_t samples_per_file = 1;  // above one: files are read from end to end
  std::int64_t tokens = 0;            // of one sample; 0: nobody says, or it is no text
  std::int64_t cut_from = 0;  // tokens of one sample as its file has it, where a model takes others; 0: as it is
  DataSize stored{};          // of one sample, on disk
  DataSize decoded{};         // of one sample, as the loader hands it over
  Time decode{};              // by one core of decode_speed 1
  Time augment{};             // likewise, what comes after decoding
  double variation = 0;       // of decode + augment from sample to sample: standard deviation over mean
  Sources sources;
  std::string notes;

  [[nodiscard]] DataSize size() const { return stored * static_cast<double>(samples); }
};

/// The same tokens in sequences of so many: whole ones of the data set joined or cut, of which nothing is lost or
/// padded. What one takes on disk and of a core is in proportion. Nothing changes where nobody says how long they are.
/// Wikipedia's 156,725,653 sequences of 512 tokens are 9,795,353 of 8,192, each 16 times as large.
[[nodiscard]] Dataset in_sequences_of(Dataset dataset, std::int64_t tokens);

}  // namespace ddlsim::workload
