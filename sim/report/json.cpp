#include "json.h"

#include <vector>

#include "ddlsim/report/program.h"
#include "goodput_lines.h"

namespace ddlsim::report {
namespace {

Json shares(const answer::TimeShares& sums) {
  return {
      {"input", sums.input}, {"compute", sums.compute}, {"memory", sums.memory}, {"communication", sums.communication}};
}

Json breakdown(const answer::Breakdown& parts) {
  return {{"compute", parts.compute.in(seconds)},
          {"memory", parts.memory.in(seconds)},
          {"launch", parts.launch.in(seconds)},
          {"input_exposed", parts.input_exposed.in(seconds)},
          {"communication", parts.communication.in(seconds)},
          {"communication_exposed", parts.communication_exposed.in(seconds)},
          {"bubble", parts.bubble.in(seconds)},
          {"other", parts.other.in(seconds)},
          {"host_update", parts.host_update.in(seconds)},
          {"unexplained", parts.unexplained.in(seconds)}};
}

Json traffic(const std::vector<answer::LinkTraffic>& links) {
  Json all = Json::array();
  for (const answer::LinkTraffic& link : links) {
    all.push_back({{"link", link.link}, {"bytes", link.bytes.in(bytes)}, {"time_s", link.time.in(seconds)}});
  }
  return all;
}

Json input_part(const answer::InputPart& input) {
  Json json{{"dataset", input.dataset.empty() ? Json(nullptr) : Json(input.dataset)},
            {"exposed_s", input.exposed.in(seconds)},
            {"needed_samples_per_s", input.needed_samples_per_second},
            {"needed_copies_bytes_per_s", input.needed_copies.in(bytes_per_second)}};
  if (input.samples_per_second) {
    json["loader"] = input.loader;
    const bool binds = !input.bound_by.empty();
    json["loader_samples_per_s"] = binds ? Json(*input.samples_per_second) : Json(nullptr);
    json["bound_by"] = binds ? Json(input.bound_by) : Json(nullptr);
    json["from_storage"] = input.from_storage;
    json["from_other_servers"] = input.from_servers;
  }
  return json;
}

Json ledger(const answer::MemoryLedger& memory) {
  return {{"rank", memory.rank},
          {"weights_bytes", memory.weights.in(bytes)},
          {"gradients_bytes", memory.gradients.in(bytes)},
          {"gradients_later_bytes", memory.gradients_later.in(bytes)},
          {"master_bytes", memory.master.in(bytes)},
          {"optimizer_bytes", memory.optimizer_state.in(bytes)},
          {"weight_casts_bytes", memory.weight_casts.in(bytes)},
          {"activations_bytes", memory.activations.in(bytes)},
          {"micro_batches", memory.micro_batches},
          {"loss_bytes", memory.loss.in(bytes)},
          {"working_bytes", memory.working.in(bytes)},
          {"buffers_bytes", memory.buffers.in(bytes)},
          {"context_bytes", memory.context.in(bytes)},
          {"slack_bytes", memory.slack.in(bytes)},
          {"tight", memory.tight},
          {"device_bytes", memory.all().in(bytes)},
          {"capacity_bytes", memory.capacity.in(bytes)},
          {"host_bytes", memory.host.in(bytes)},
          {"host_capacity_bytes", memory.host_capacity.in(bytes)}};
}

Json parallel(const answer::Split& split) {
  Json others = Json::object();
  for (const auto& [path, value] : split.others) others[path] = value;
  return {{"data", split.data},
          {"tensor", split.tensor},
          {"context", split.context},
          {"expert", split.expert},
          {"expert_tensor", split.expert_tensor},
          {"pipeline", split.pipeline},
          {"virtual_stages", split.virtual_stages},
          {"schedule", split.schedule},
          {"zero", split.zero},
          {"recompute", split.recompute},
          {"micro_batch", split.micro_batch},
          {"passes", split.passes},
          {"global_batch", split.global_batch()},
          {"states", split.states ? Json(*split.states) : Json(nullptr)},
          {"offload_optimizer", split.offload_optimizer},
          {"offload_weights", split.offload_weights},
          {"offload_activations", split.offload_activations},
          {"lora_rank", split.lora_rank},
          {"lora_products", split.lora_products ? Json(*split.lora_products) : Json(nullptr)},
          {"frozen_bits", split.frozen_bits},
          {"others", std::move(others)}};
}

}  // namespace

Json to_json(const answer::Prediction& p) {
  Json json;
  json["fidelity"] = name_of(answer::kFidelities, p.fidelity);
  json["step_time_s"] = p.step_time.in(seconds);
  json["throughput_samples_per_s"] = p.throughput_samples_per_second;
  json["scaling_efficiency"] = p.scaling_efficiency;
  json["bottleneck"] = p.bottleneck;
  json["interval_90_s"] = {p.interval_90.first.in(seconds), p.interval_90.second.in(seconds)};
  json["provenance"] = to_string(p.provenance);
  json["breakdown_s"] = breakdown(p.breakdown);
  json["traffic"] = traffic(p.traffic);
  json["input"] = input_part(p.input);
  json["memory_bytes_per_gpu"] = p.memory_per_gpu.in(bytes);
  json["memory"] = ledger(p.memory);
  json["fits"] = p.fits ? Json(*p.fits) : Json(nullptr);
  json["mfu"] = p.mfu;
  json["hfu"] = p.hfu;
  json["architecture"] = p.architecture;
  json["gpus"] = p.gpus;
  json["batch_per_gpu"] = p.batch_per_gpu;
  json["sample"] = p.sample;
  json["optimizer"] = p.optimizer;
  json["parallel"] = parallel(p.split);
  json["model_flops_per_s_per_gpu"] = p.rate_per_gpu().in(flops_per_second);
  if (const auto tokens = p.tokens_per_second()) {
    json["tokens_per_s"] = *tokens;
    json["tokens_per_s_per_gpu"] = *tokens / static_cast<double>(p.gpus);
  }
  json["critical_path"] = Json::array();
  for (const answer::Segment& segment : p.critical_path) {
    json["critical_path"].push_back({{"name", segment.name}, {"time_s", segment.time.in(seconds)}});
  }
  if (p.bounds) {
    json["bounds_s"] = {{"ideal_overlap", p.bounds->first.in(seconds)}, {"no_overlap", p.bounds->second.in(seconds)}};
  }
  if (p.power) {
    json["power"] = {{"working_w", p.power->working.in(watts)},
                     {"idle_w", p.power->idle.in(watts)},
                     {"limit_w", p.power->limit.in(watts)},
                     {"slowdown", p.power->slowdown}};
  }
  if (p.price) json["price_usd_per_h"] = p.price->in(dollars_per_hour);
  if (p.training) json["training"] = to_json(*p.training);
  if (p.goodput) json["goodput"] = to_json(*p.goodput);
  json["notes"] = p.notes;
  return json;
}

Json to_json(const answer::Training& run) {
  Json json{{"steps", run.steps}};
  if (run.epochs) json["epochs"] = *run.epochs;
  json["time_s"] = run.time().in(seconds);
  json["startup_s"] = run.startup.in(seconds);
  json["evaluation_s"] = run.evaluation.in(seconds);
  json["checkpoints_s"] = run.checkpoints.in(seconds);
  if (run.failures > Time::zero()) json["failures_s"] = run.failures.in(seconds);
  json["cost_usd"] = run.cost ? Json(run.cost->in(dollars)) : Json(nullptr);
  json["energy_j"] = run.energy.in(joules);
  json["gpu_utilisation"] = run.utilisation;
  if (run.carbon) json["co2_g"] = run.carbon->in(grams);
  return json;
}

Json to_json(const answer::Comparison& comparison) {
  Json json;
  json["schema"] = "ddlsim/what-if/1";
  json["title"] = comparison.title;
  json["baseline"] = to_json(comparison.baseline);
  json["alternatives"] = Json::array();
  for (const answer::Alternative& alternative : comparison.alternatives) {
    Json changes = Json::object();
    for (const auto& [path, value] : alternative.changes) changes[path] = value;
    json["alternatives"].push_back(
        {{"name", alternative.name},
         {"changes", changes},
         {"speedup", alternative.speedup},
         {"speedup_interval_90", {alternative.speedup_interval_90.first, alternative.speedup_interval_90.second}},
         {"probability_faster", alternative.probability_faster},
         {"prediction", to_json(alternative.prediction)}});
  }
  if (!comparison.skipped.empty()) json["skipped"] = comparison.skipped;
  return json;
}

Json to_json(const answer::FleetReport& report) {
  Json json;
  json["schema"] = "ddlsim/fleet/1";
  json["title"] = report.title;
  json["setting"] = report.setting;
  json["jobs"] = report.jobs;
  json["groups"] = Json::array();
  for (const answer::FleetGroup& group : report.groups) {
    json["groups"].push_back({{"architecture", group.architecture},
                              {"jobs", group.jobs},
                              {"cnodes", group.cnodes},
                              {"time_share_by_job", shares(group.by_job)},
                              {"time_share_by_cnode", shares(group.by_cnode)}});
  }
  json["speedups"] = Json::array();
  for (const answer::SpeedupRow& row : report.speedups) {
    json["speedups"].push_back({{"change", row.change},
                                {"architecture", row.architecture},
                                {"jobs", row.jobs},
                                {"too_large", row.too_large},
                                {"share_faster", row.faster},
                                {"mean", row.mean},
                                {"mean_by_cnode", row.mean_by_cnode},
                                {"p10", row.p10},
                                {"median", row.median},
                                {"p90", row.p90},
                                {"max", row.largest}});
  }
  json["headlines"] = Json::array();
  for (const answer::HeadlineRow& row : report.headlines) {
    json["headlines"].push_back({{"text", row.text},
                                 {"published", row.published},
                                 {"status", row.status},
                                 {"computed", row.computed},
                                 {"difference", row.difference}});
  }
  json["notes"] = report.notes;
  return json;
}

std::string dump(const Json& json) {
  return with_program(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", std::nullopt);
}

}  // namespace ddlsim::report
