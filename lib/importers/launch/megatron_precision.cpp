// What Megatron-LM, NeMo and Megatron-Bridge compute in, and what weights, gradients and states are kept in.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "megatron_arguments.h"

namespace ddlsim::importers::launch {
namespace {

constexpr const char* kMegatronFormats = "Megatron's formats of weights, gradients and states";

class PrecisionReader {
 public:
  PrecisionReader(Arguments& arguments, Builder& out) : in_(arguments), out_(out) {}

  bool read() {
    const Argument* fp8 = in_.find_first({"fp8-format", "fp8", "fp8-hybrid", "fp8-e4m3"});
    std::string format = fp8 == nullptr ? std::string() : in_.word(fp8->name);
    const Argument* four = in_.find_first({"fp4-format", "fp4"});
    read_recipe();
    if (recipe_.find("fp8") != std::string::npos) {
      fp8 = said_;
      format = recipe_;
    }
    if (recipe_.find("fp4") != std::string::npos) four = said_;
    const bool narrower = four != nullptr && in_.word(four->name) != "false";
    const bool eight = !narrower && fp8 != nullptr && format != "false" && format != "0";
    const bool bf16 = in_.flag("bf16") || recipe_.find("bf16") != std::string::npos;
    const bool fp16 = in_.flag("fp16") || recipe_.find("fp16") != std::string::npos || recipe_.starts_with("16");
    if (bf16 && fp16) {
      out_.fault("both --bf16 and --fp16", in_.find_first({"fp16", "precision", "mixed-precision"})->where,
                 {"keep one"});
    }
    sums_ = read_sums();
    if (const Argument* unknown = in_doubt()) {
      out_.ask("precision", unknown->words() + " is not known", unknown->where);
      assume_states_of(out_.value_of("precision"));
    } else if (narrower) {
      out_.set("precision", "fp4", four->words(), four->where);
      out_.assume("parallel.states", sums_ == Sums::kSixteen ? "mixed-16" : "mixed", kMegatronFormats);
    } else if (eight) {
      out_.set("precision", "fp8", fp8->words(), fp8->where);
      // Megatron's help: "do not use any other intermediate dtype".
      const bool primary = in_.flag("fp8-param-gather") && in_.flag("use-distributed-optimizer");
      out_.assume("parallel.states", primary ? "fp8-primary" : "fp8", kMegatronFormats);
      if (sums_ == Sums::kSixteen) keep_sixteen();
    } else if (bf16 || fp16) {
      const char* const kind = bf16 ? "bf16" : "fp16";
      const Argument& found = in_.flag(kind) ? *in_.find(kind) : *said_;
      out_.set("precision", kind, found.words(), found.where);
      assume_states_of(kind);
    } else {
      out_.assume("precision", "fp32", "no --bf16, --fp16, --fp8-format or --fp4-format");
      assume_states_of("fp32");
    }
    return eight;
  }

 private:
  /// What gradients are summed and sent in; kOwn: as Megatron does where nobody says it.
  enum class Sums { kOwn, kSixteen, kFull };

  /// NeMo's trainer.precision (bf16, 16, 16-mixed, bf16-mixed, 32) or the name of a recipe of Megatron-Bridge
  /// (bf16_mixed, bf16_with_fp8_current_scaling_mixed; megatron/bridge/training/mixed_precision.py).
  void read_recipe() {
    for (const char* name : {"precision", "mixed-precision"}) {
      said_ = in_.find(name);
      if (said_ == nullptr) continue;
      recipe_ = in_.word(name);
      bridge_ = std::string_view(name) == "mixed-precision";
      break;
    }
    std::replace(recipe_.begin(), recipe_.end(), '-', '_');
    if (bridge_ && recipe_.find("fp8") != std::string::npos && !in_.has("fp8-param-gather")) {
      out_.leave_out(said_->words(),
                     "whether its weights are gathered in 8 bits depends on its release: 16 are taken, "
                     "parallel.gather_fp8 says otherwise",
                     said_->where);
    }
  }

  Sums read_sums() {
    for (const char* name : {"grad-reduce-in-bf16", "main-grads-dtype", "grad-sync-dtype"}) {  // the last is NeMo's
      const bool said = std::string_view(name) == "grad-reduce-in-bf16" ? in_.flag(name) : is_sixteen(in_.word(name));
      if (said) return by(name, Sums::kSixteen);
    }
    if (in_.flag("accumulate-allreduce-grads-in-fp32")) return Sums::kFull;
    // Megatron-Core's own name for it, in YAML. A recipe overrides what stands beside it.
    const bool stated = in_.has("grad-reduce-in-fp32");
    if (bridge_ && !recipe_.empty()) return recipe_.find("bf16") != std::string::npos ? Sums::kFull : Sums::kOwn;
    if (!stated) return Sums::kOwn;
    if (in_.flag("grad-reduce-in-fp32")) return Sums::kFull;
    return in_.is_unknown("grad-reduce-in-fp32") ? doubt_sums() : by("grad-reduce-in-fp32", Sums::kSixteen);
  }
  Sums by(const char* name, Sums sums) {
    sixteen_ = in_.find(name);
    return sums;
  }
  Sums doubt_sums() {
    const Argument& found = *in_.find("grad-reduce-in-fp32");
    out_.ask("parallel.states", found.words() + " is not known: mixed, or mixed-16", found.where);
    return Sums::kOwn;
  }
  /// "bf16", "torch.bfloat16".
  static bool is_sixteen(const std::string& word) { return word.ends_with("bf16") || word.ends_with("bfloat16"); }

  /// An option that decides the format and is not known.
  const Argument* in_doubt() {
    for (const char* name : {"bf16", "fp16", "precision", "mixed-precision", "fp8", "fp4"}) {
      if (in_.is_unknown(name)) return in_.find(name);
    }
    return nullptr;
  }

  /// Of DeepSpeed's engine formats are DeepSpeed's.
  void assume_states_of(const std::string& precision) {
    if (runs_deepspeed(in_)) return;
    const bool sixteen = precision == "bf16" || precision == "fp16";
    if (precision == kAsked) {
      out_.ask("parallel.states", "mixed in bf16 (Megatron sums gradients in fp32), mixed-16 in fp16, fp32 in fp32");
    } else if (sixteen) {
      const bool narrow = sums_ == Sums::kSixteen || (precision == "fp16" && sums_ == Sums::kOwn);
      out_.assume("parallel.states", narrow ? "mixed-16" : "mixed", kMegatronFormats);
    } else {
      out_.assume("parallel.states",
                  precision == "fp8"   ? "fp8"
                  : precision == "fp4" ? "mixed"
                                       : "fp32",
                  kMegatronFormats);
    }
  }

  /// No format of states has weights of 8 bits and gradients of 16: they are sent as such, and counted in fp32.
  void keep_sixteen() {
    out_.set("strategy.gradients", "bf16", sixteen_->words(), sixteen_->where);
    out_.leave_out(sixteen_->words() + " beside fp8", "gradients are sent in 16 bits, but stand in 32 in memory",
                   sixteen_->where);
  }

  Arguments& in_;
  Builder& out_;
  const Argument* said_ = nullptr;  // who names the recipe
  std::string recipe_;
  bool bridge_ = false;
  Sums sums_ = Sums::kOwn;
  const Argument* sixteen_ = nullptr;  // who says that gradients have 16 bits
};

}  // namespace

bool read_megatron_precision(Arguments& arguments, Builder& out) { return PrecisionReader(arguments, out).read(); }

}  // namespace ddlsim::importers::launch
