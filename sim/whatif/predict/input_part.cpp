#include "predict/input_part.h"

#include <fmt/core.h>

#include "ddlsim/cost/loader.h"
#include "ddlsim/support/plural.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/training.h"

namespace ddlsim::whatif {
namespace {

std::string words_for_workers(const plan::Input& input, double workers) {
  if (workers < 1) return "none ahead of its GPU";
  const bool processes = input.loader.get() == plan::Loader::kWorkers;
  return fmt::format("{} {} a GPU{}", significant(workers), processes ? "workers" : "threads",
                     input.decode.get() == plan::DecodeOn::kGpu ? ", decoding on the GPU" : "");
}

/// Whether samples are read from storage, in the first epoch of a run at the least.
bool reads_storage(const Scenario& scenario, const answer::Prediction& prediction) {
  return prediction.input.from_storage > 0 || (prediction.training && in_first_epoch(scenario));
}

/// What is stated of a storage that nothing is read from.
std::optional<std::string> unread_note(const Scenario& scenario, const answer::Prediction& prediction) {
  if (reads_storage(scenario, prediction)) return std::nullopt;
  std::string stated;
  for (const std::string& path : scenario.host_stated) {
    if (path.starts_with("input.storage")) stated += (stated.empty() ? "" : ", ") + path;
  }
  if (stated.empty()) return std::nullopt;
  return fmt::format(
      "stated, but without effect here: {}, as all samples are in memory (--set input.epoch=first: the epoch that "
      "reads "
      "them)",
      stated);
}

/// What a storage's rates stand for, and whether the server's path to its volumes bounds them: of one that samples are
/// read from, in the first epoch of a run at the least, unless somebody states its rate.
std::optional<std::string> storage_note(const Scenario& scenario, const answer::Prediction& prediction) {
  const hardware::Node& node = scenario.cluster.node;
  const auto& storage = node.host.storage;
  if (!storage || !reads_storage(scenario, prediction)) return std::nullopt;
  if (storage->bandwidth_origin == Origin::kStated) return std::nullopt;
  std::vector<std::string> parts;
  if (!storage->notes.empty()) parts.push_back(storage->notes);
  if (storage->attached == hardware::Attachment::kVolume) {
    const auto& path = node.host.volume_bandwidth;
    if (!path) {
      parts.push_back(fmt::format("Nobody says what {} reaches of all its volumes", node.name));
    } else if (storage->bandwidth >= *path) {
      parts.push_back(fmt::format("{} reaches {} of all its volumes in the long run", node.name, to_text(*path)));
    }
  }
  if (parts.empty()) return std::nullopt;
  std::string text = fmt::format("storage: {}: ", storage->name);
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i > 0 ? " " : "") + parts[i];
  return text;
}

/// Of text in sequences of another length than the model's, or of one that nobody says.
std::optional<std::string> sequences_note(const workload::Dataset& data, const workload::Model& model) {
  if (data.tokens == 0 && data.sample == model.sample && workload::tokens_of(model)) {
    return fmt::format(
        "input: a sequence of {} is taken as one of the model's, whatever its length (tokens: of its file)", data.name);
  }
  if (data.cut_from == 0) return std::nullopt;
  return fmt::format(
      "input: {}: the model takes sequences of {} tokens: an epoch is as many tokens, {} of its sequences, those of {} "
      "joined or cut",
      data.name, to_text(data.tokens), to_text(data.samples), to_text(data.cut_from));
}

}  // namespace

answer::InputPart input_part(const Question& question, const answer::Prediction& prediction) {
  const Scenario& scenario = question.scenario;
  answer::InputPart part;
  part.exposed = prediction.breakdown.input_exposed;
  const Time busy = prediction.step_time - part.exposed;
  const double step_samples = prediction.throughput_samples_per_second * prediction.step_time.in(seconds);
  if (busy > Time::zero()) part.needed_samples_per_second = step_samples / busy.in(seconds);
  const workload::Model& model = *scenario.model;
  const DataSize sample = model.has_layers() ? model.input_per_sample
                                             : workload::features_at(model, scenario.batch, scenario.precision).input /
                                                   static_cast<double>(scenario.batch);
  part.needed_copies =
      sample * (part.needed_samples_per_second / static_cast<double>(scenario.cluster.nodes)) / seconds(1);
  if (!scenario.input.dataset) return part;
  const cost::LoaderShare share = cost::loader_share(scenario);
  const cost::LoaderRates rates =
      cost::loader_rates(cost::loader_work(scenario.input, scenario.cluster.node.host), share);
  const double processes = plan::server_input(scenario).processes * static_cast<double>(scenario.cluster.nodes);
  part.dataset = scenario.input.dataset->name;
  part.loader = words_for_workers(scenario.input, share.workers);
  part.samples_per_second = rates.all().in(per_second)*processes;
  if (rates.all() < Rate::infinity()) part.bound_by = name_of(cost::kLoaderStages, rates.slowest());
  part.from_storage = share.from.storage;
  part.from_servers = share.from.remote;
  return part;
}

void add_input_notes(const Question& question, answer::Prediction& prediction) {
  std::vector<std::string>& notes = prediction.notes;
  const answer::InputPart& part = prediction.input;
  const plan::Input& input = question.scenario.input;
  if (!input.dataset) {
    prediction.input.note = fmt::format(
        "input: the loader is taken to keep up: {} {} in all, {} to the GPUs of each server "
        "(--dataset says what it reads)",
        significant(part.needed_samples_per_second), plural(prediction.sample, "/s"), to_text(part.needed_copies));
    notes.push_back(prediction.input.note);
    return;
  }
  if (!input.workers.get()) {
    notes.push_back(fmt::format("assumed: {}, all hardware threads of the server (--workers)", part.loader));
  }
  if (input.decode.get() == plan::DecodeOn::kGpu && !input.gpu_decode.stated()) {
    notes.push_back(
        fmt::format("assumed: the GPU decodes a sample in {}, the time measured on a V100, and half the decoding stays "
                    "with the host "
                    "(--set input.gpu_decode=...)",
                    to_text(input.gpu_decode_of())));
  }
  const hardware::Host& host = question.scenario.cluster.node.host;
  if (const auto cache = input.cache_size.get(); cache && host.memory > DataSize::zero() && *cache > host.memory) {
    notes.push_back(fmt::format("input.cache_size: {}, more than the {} of {}", to_text(*cache), to_text(host.memory),
                                question.scenario.cluster.node.name));
  }
  if (auto unread = unread_note(question.scenario, prediction)) notes.push_back(std::move(*unread));
  if (auto storage = storage_note(question.scenario, prediction)) notes.push_back(std::move(*storage));
  if (auto sequences = sequences_note(*input.dataset, *question.scenario.model)) notes.push_back(std::move(*sequences));
  const std::string& sample = input.dataset->sample;
  if (sample != prediction.sample) {
    notes.push_back(
        fmt::format("input: {} has {}, the model takes {}", part.dataset, plural(sample), plural(prediction.sample)));
  }
}

}  // namespace ddlsim::whatif
