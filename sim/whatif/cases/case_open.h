// What a case leaves open, and how else it may have been. Private to the room.
//
// Some conditions that sources leave out change a step by more than kernels err. A prediction takes one of them, the
// likeliest; the job is priced under the others too, and the 90 % interval's lower end is stretched by the fastest of
// them, its upper end by the slowest, each over the prediction (validate.cpp). Of several conditions each counts: they
// are independent. What says them is `stated_by`.
//
//   attention's kernel   trainers of Hugging Face transformers since 2023: one kernel (sdpa, FlashAttention) or eager
//   GELU                 GPT-2 by trainers that may run transformers' own (DeepSpeed, ColossalAI, Lightning,
//                        accelerate): single operations or one kernel
//   layout of images     PyTorch's convolutions in 16 bits since 1.5 (April 2020): channels-last or channels-first
//   TF32                 PyTorch's fp32 since 1.12 on GPUs that have TF32: scripts may allow it
//   exchange             frameworks whose way of sharing gradients nobody knows: as DistributedDataParallel's, one
//                        all-reduce after backward, or one for each gradient
//   Ethernet's rate      TCP at a rate that nobody says (case_network.h)
//   network ports        servers of V100 with several ports, whose network nobody says: one port
//
// Where a measured step of the same group sets a GPU's speed (--anchor), conditions within a GPU are in it.
// Limits: two or three alternatives each, not what lies between them; predictions of `predict` state theirs.
#pragma once

#include <string>
#include <vector>

#include "ddlsim/io/case_file.h"
#include "ddlsim/io/catalog.h"
#include "ddlsim/whatif/scenario.h"

namespace ddlsim::whatif {

struct OpenCondition {
  std::string what;
  std::string stated_by;            // where a row would say it
  std::vector<io::Case> otherwise;  // the case with the condition stated, in every way it may have been
  bool of_network = false;          // between servers; else within each GPU
  bool always_said = false;         // however little it changes a step
};

/// `scenario`: what the case is taken to mean.
[[nodiscard]] std::vector<OpenCondition> open_conditions(const io::Catalog& catalog, const io::Case& one,
                                                         const Scenario& scenario);

}  // namespace ddlsim::whatif
