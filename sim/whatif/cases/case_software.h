// What a case says of its software: when it was released, whether its kernels are fused, and how long the sequences are
// that its loader makes. Private to the room.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ddlsim/importers/training_way.h"
#include "ddlsim/io/case_file.h"

namespace ddlsim::whatif {

/// A year with its months as a fraction, of what is said first: a container of NVIDIA ("22.10-py3"), a month, a release
/// of NVIDIA's in the framework's name ("NeMo 22.11"), a year, another release, a round of MLPerf. Nothing where nobody
/// says any.
[[nodiscard]] std::optional<double> software_year_of(const io::Case& one);

/// Whether blocks run as fused kernels. Convolutional networks: NVIDIA's MXNet, OneFlow, XLA and what is submitted to
/// MLPerf fuse norms and activations, others run single operators. With attention, by the framework's name
/// (importers::runs_fused_blocks), and what NVIDIA submits to MLPerf does.
[[nodiscard]] std::optional<bool> software_fused_of(const io::Case& one);

/// Whether a case is a submission to MLPerf.
[[nodiscard]] bool is_submission(const io::Case& one);

/// The way of a case's framework at the time of its release; the newest where nobody says when.
[[nodiscard]] const importers::TrainingWay& way_of(const io::Case& one);

/// Whether its tensor ranks send a part each between stages (importers/training_way.h), of that time as way_of() has
/// it.
[[nodiscard]] bool scatters_between_stages(const io::Case& one);

/// Whether TensorFlow compiles by XLA: where the row says so, and in NVIDIA's example of BERT, whose scripts do unless
/// told otherwise (TensorFlow/LanguageModeling/BERT/scripts/run_pretraining_lamb_phase1.sh: use_xla).
[[nodiscard]] bool runs_xla(const io::Case& one);

/// Whether GELU, layer norm and dropout run as single operations (software.operators): TensorFlow's without XLA.
[[nodiscard]] bool composes_operators(const io::Case& one);

/// Whether operators run under torch.autocast (software.operators): PyTorch's own mixed precision without a compiler,
/// as the source says it, as Lightning's precision 16 and Hugging Face's Trainer are (pytorch_lightning
/// plugins/precision/amp.py; transformers trainer.py, autocast_smart_context_manager), and timm's benchmark.py --amp.
[[nodiscard]] bool autocasts(const io::Case& one);

/// The optimizer that a case names, in the words of model.optimizer; nothing where it names none that is known.
[[nodiscard]] std::optional<std::string> optimizer_of(const io::Case& one);

/// The formats of states, in the words of parallel.states: as said, else of NVIDIA's fine-tuned BERT in half precision,
/// which Apex trains at level O2, all of the model in fp16 beside fp32 masters (PyTorch/LanguageModeling/BERT/
/// run_squad.py: amp.initialize, opt_level "O2", keep_batchnorm_fp32 False).
[[nodiscard]] std::optional<std::string> states_of(const io::Case& one);

/// How images lie, in the words of software.layout; nothing where nobody says. Pixel by pixel in 16 bits by the scripts
/// of NVIDIA's MXNet (DeepLearningExamples MxNet/Classification/RN50v1.5/runner: --conv-layout NHWC), of its PyTorch
/// networks (PyTorch/Classification/ConvNets/configs.yml: memory_format) and of DLPerf's OneFlow
/// (OneFlow/Classification/ConvNets/resnet50v1.5/local_train.sh: --channel_last).
[[nodiscard]] std::optional<std::string> layout_of(const io::Case& one);

/// How the optimizer runs, in the words of software.optimizer; nothing: fused. PyTorch's own are loops before 2.0
/// (March 2023) and foreach since. Trainers with a name of their own fuse (Megatron, NeMo, torchtitan, Composer,
/// MLPerf's), and so do NVIDIA's examples (Apex's FusedAdam and FusedLAMB), but for GNMT (torch.optim.Adam:
/// PyTorch/Translation/GNMT/ train.py) and BERT's fine-tuning in 32 bits (BertAdam, tensor by tensor:
/// PyTorch/LanguageModeling/BERT/run_squad.py). BERT's Adam is single operations where TensorFlow 1 composes those
/// (google-research/bert optimization.py).
/// A case that says so itself ("adamw-fused", "Apex FusedAdam") has one kernel.
[[nodiscard]] std::optional<std::string> software_optimizer_of(const io::Case& one);

/// Whether element-wise layers join the kernel before them (workload/fusion.h) in fp32 too: where the row says XLA, and
/// in OneFlow's ResNet (Oneflow-Inc/OneFlow-Benchmark train.sh: --fuse_bn_relu, --fuse_bn_add_relu). In 16 bits they do
/// wherever software_fused_of holds (plan::joins_pointwise).
[[nodiscard]] bool fuses_pointwise(const io::Case& one);

/// Whether kernels are launched as graphs: what NVIDIA submits to MLPerf from round 1.0 on (mlcommons/
/// training_results_v1.0 NVIDIA/benchmarks: bert --use_cuda_graph, maskrcnn MODEL.PRECOMPUTE_RPN and --use-cuda-graphs,
/// ssd --cuda-graphs; recalled).
[[nodiscard]] bool runs_graphs(const io::Case& one);

/// Whether every launch waits for its kernel (plan::Job): as said, and in what BigScience measured for its 176B model
/// from 18 February 2022 on, when CUDA_LAUNCH_BLOCKING=1 got it past a hang (train/tr11-176B-ml/chronicles-prequel.md).
[[nodiscard]] bool blocks_launches(const io::Case& one);

/// What a case trains for, by its `phase` and its `task`, where either says it.
enum class TrainingPhase { kPreTraining, kFineTuning };
[[nodiscard]] std::optional<TrainingPhase> phase_of(const io::Case& one);

/// Tokens that a sequence has on average once its loader has cut and padded it; nothing where no length is said, and
/// the model's own stands. That is `extra.seq_len`, or what the phase of BERT that is named has (128, 512, SQuAD 384),
/// but for BERT's pre-training on Wikipedia, where most sequences are
/// shorter than the 512 tokens they may have (lengths of all 16,279,552: graphcore/examples v3.2.0,
/// tutorials/blogs_code/packedBERT/histograms.py, Krell et al. 2021, arXiv 2107.02027; mean 255.8):
///   - MLPerf's without padding run them as they are: 256;
///   - NVIDIA's examples for PyTorch and PaddlePaddle, since they read with LDDL (containers from 21.11), draw each
///     batch from one bin of 64 tokens and pad it to its longest (scripts/run_pretraining.sh, phase2_bin_size; NVIDIA/
///     LDDL README, "Sequence Binning"): 270 to 279 for batches of 4 to 64 of these lengths, 277 for 16, a multiple of
///     8 as LDDL pads them (sequence_length_alignment): 280. Their phase 1 (128) is not binned.
[[nodiscard]] std::optional<std::string> sequence_length_of(const io::Case& one);

/// Positions of a sequence of BERT whose word its head predicts, of a sequence of `length`; nothing where the model's
/// own stand. One where it is fine-tuned (no such head). In pre-training 20 of 128 and 80 of 512 (google-research/bert
/// README: max_predictions_per_seq); all in NVIDIA's example for PyTorch before LDDL (containers before 21.11:
/// PyTorch/LanguageModeling/BERT/modeling.py, BertForPreTraining, hands its head the whole sequence).
[[nodiscard]] std::optional<std::string> predictions_of(const io::Case& one, std::string_view length);

/// Words of BERT's vocabulary where code pads it for tensor cores: NVIDIA's for PyTorch makes 30,522 a multiple of 8
/// (PyTorch/LanguageModeling/BERT/run_pretraining.py, and its submissions to MLPerf). Nothing: the model's own.
[[nodiscard]] std::optional<std::string> vocabulary_of(const io::Case& one);

/// Whether a case's products in fp32 run in TF32, on a GPU that has it. NVIDIA's containers for PyTorch set
/// TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 (docs.monai.io, precision_accelerating), since 20.06; TensorFlow since 2.4
/// (tf.config.experimental.enable_tensor_float_32_execution) and JAX do unless told otherwise; PyTorch lets
/// convolutions since 1.7, and other products from then on up to 1.11 (docs, notes/cuda). Passes timed alone say what
/// they are.
[[nodiscard]] bool multiplies_in_tf32(const io::Case& one, bool convolves);

}  // namespace ddlsim::whatif
