#include "ddlsim/whatif/goodput.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ddlsim/events/failures.h"
#include "ddlsim/plan/lower.h"
#include "ddlsim/plan/memory.h"
#include "ddlsim/support/quantity_io.h"
#include "ddlsim/whatif/scenario.h"
#include "predict/goodput_notes.h"
#include "scenario/sound.h"

namespace ddlsim::whatif {
namespace {

using cost::CheckpointMode;

constexpr double kSimulatedIntervals = 1000;     // of one run, at least
constexpr double kSimulatedFailures = 10;        // likewise, on average
constexpr double kFewEvents = 30;                // below, a mean's normal interval says little (assumed)
constexpr std::int64_t kMostRounds = 1'000'000;  // copies in memory from one in storage to the next

tl::unexpected<Error> bad(std::string what, std::string note) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), {}, {std::move(note)});
}

std::int64_t ceil_div(std::int64_t whole, std::int64_t part) { return whole / part + (whole % part == 0 ? 0 : 1); }

/// How often what fails, per running time.
struct Rates {
  Rate gpus{};
  Rate nodes{};
  Rate switches{};

  [[nodiscard]] Rate all() const { return gpus + nodes + switches; }
};

Rates rates_of(const Scenario& scenario) {
  const Failures& said = scenario.failures;
  const hardware::FailureRates& published = said.published ? *said.published : hardware::FailureRates{};
  const auto rate = [](const std::optional<Time>& stated, const std::optional<Time>& of_file, std::int64_t parts) {
    const std::optional<Time>& mtbf = stated ? stated : of_file;
    return mtbf ? per_second(static_cast<double>(parts) / mtbf->in(seconds)) : Rate{};
  };
  const hardware::Cluster& cluster = scenario.cluster;
  const std::int64_t joined = said.nodes_per_switch.value_or(published.nodes_per_switch);
  return {.gpus = rate(said.gpu, published.gpu, cluster.gpus()),
          .nodes = rate(said.node, published.node, cluster.nodes),
          .switches = rate(said.network, published.network, ceil_div(cluster.nodes, joined))};
}

std::string rates_text(const Failures& failures) {
  const bool own = failures.gpu || failures.node || failures.network;
  if (!failures.published) return "stated";
  return failures.published->name + (own ? ", some stated" : "");
}

/// What a model keeps from step to step.
struct Kept {
  DataSize trained{};  // weights, fp32 weights and states of the optimizer
  DataSize frozen{};   // weights that no step changes: they are read, and never written
};

/// As plan/memory.h counts them among weights.
DataSize frozen_of(const plan::Job& job, const plan::StepPlan& plan) {
  const plan::States states = job.parallel.states.value_or(plan::States::kFp32);
  const DataSize plain = plan::frozen_weight(job, plan::state_sizes(states, plan.model->optimizer).weight);
  const DataSize quantised = workload::quantised_weight(job.parallel.frozen_bits);
  const plan::Chunk& chunk = plan.classes.front().chunk;
  DataSize frozen;
  for (std::size_t i = 0; i < chunk.count; ++i) {
    frozen += plain * static_cast<double>(chunk[i].frozen_elements - chunk[i].quantised_elements) +
              quantised * static_cast<double>(chunk[i].quantised_elements);
  }
  return frozen;
}

/// By the model's plan on one GPU, unsplit.
Expected<Kept> states_of(const Scenario& scenario) {
  const auto all = [](const plan::MemoryFootprint& memory) {
    return memory.weights + memory.master + memory.optimizer_state;
  };
  if (!scenario.model->has_layers()) {
    return Kept{.trained = all(
                    plan::memory_footprint(*scenario.model, scenario.strategy, 1, scenario.batch, scenario.precision))};
  }
  plan::Job alone = static_cast<const plan::Job&>(scenario);
  alone.cluster.nodes = 1;
  alone.cluster.gpus_per_node = 1;
  alone.parallel = {.states = scenario.parallel.states,
                    .lora_rank = scenario.parallel.lora_rank,
                    .lora_products = scenario.parallel.lora_products,
                    .frozen_bits = scenario.parallel.frozen_bits};
  alone.strategy.sync_every = 1;
  alone.straggler = by_default(1.0);
  return plan::lower(alone).map([&](const plan::StepPlan& plan) {
    const DataSize frozen = frozen_of(alone, plan);
    return Kept{.trained = all(plan.classes.front().memory) - frozen, .frozen = frozen};
  });
}

/// Servers that write, and GPUs of one of them that hold a part.
struct Writers {
  std::int64_t servers = 1;
  std::int64_t gpus = 1;
};

Writers writers_of(const Scenario& scenario) {
  const plan::Parallel& parallel = scenario.parallel;
  const hardware::Cluster& cluster = scenario.cluster;
  const std::int64_t of_stage = plan::has_whole_experts(parallel) ? std::max(parallel.tensor, parallel.expert)
                                                                  : parallel.tensor * parallel.expert;
  const std::int64_t holders =
      parallel.zero > 0 ? cluster.gpus() : std::min(cluster.gpus(), parallel.pipeline * of_stage);
  Writers writers;
  writers.servers = std::min(cluster.nodes, ceil_div(holders, cluster.gpus_per_node));
  if (scenario.checkpoints.writers) writers.servers = *scenario.checkpoints.writers;
  writers.gpus = std::clamp<std::int64_t>(ceil_div(holders, writers.servers), 1, cluster.gpus_per_node);
  return writers;
}

/// The storage that takes checkpoints; null: nobody says, or none is needed.
const hardware::Storage* storage_of(const Scenario& scenario) {
  if (scenario.checkpoints.storage) return &*scenario.checkpoints.storage;
  const auto& host = scenario.cluster.node.host.storage;
  return host && host->shared ? &*host : nullptr;
}

/// Sizes and times of one checkpoint.
struct Checkpoint {
  DataSize size{};
  Writers writers;
  Time write{};        // to storage
  Time whole{};        // from GPUs to storage: over the slower of both links
  Time read{};         // back, frozen weights too
  Time read_frozen{};  // of that
  Time snapshot{};
  Time from_partner{};  // a lost server's part, over the network
};

/// Where checkpoint.write is not stated.
Expected<Bandwidth> storage_rate(const Scenario& scenario, const Checkpoint& one) {
  const Checkpoints& said = scenario.checkpoints;
  const hardware::Storage* storage = storage_of(scenario);
  if (storage == nullptr && !said.bandwidth) {
    return bad("nobody says what checkpoints are written to",
               "--checkpoint-bandwidth '100 GB/s', --set checkpoint.storage=lustre (`ddlsim list storage`), or "
               "--set checkpoint.write='2 min'");
  }
  const auto servers = static_cast<double>(one.writers.servers);
  const double own = storage != nullptr && !storage->shared ? servers : 1;
  if (storage != nullptr && storage->capacity && *storage->capacity * own < one.size) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("a checkpoint of {} does not fit in {}, which holds {}", to_text(one.size), storage->name,
                            to_text(*storage->capacity * own)),
                {}, {"name a larger one: --set checkpoint.storage=..."});
  }
  const hardware::Node& node = scenario.cluster.node;
  const Bandwidth all = said.bandwidth ? *said.bandwidth : node.host.reaching(*storage).bandwidth * own;
  const bool over_network = said.bandwidth || storage->attached == hardware::Attachment::kNetwork;
  if (!said.node_bandwidth && !over_network) return all;
  return min(all, said.node_bandwidth.value_or(node.network_bandwidth()) * servers);
}

/// Between the GPUs that hold the states and their servers' memory, of all who write.
Bandwidth host_rate(const Scenario& scenario, const Writers& writers) {
  const hardware::Node& node = scenario.cluster.node;
  return min(node.pcie.bandwidth * static_cast<double>(writers.gpus),
             node.host_link.bandwidth * static_cast<double>(node.pcie_uplinks)) *
         (scenario.efficiency.pcie.get() * static_cast<double>(writers.servers));
}

Expected<Checkpoint> checkpoint_of(const Scenario& scenario) {
  const Checkpoints& said = scenario.checkpoints;
  Checkpoint one{.writers = writers_of(scenario)};
  DataSize frozen;
  if (said.size) {
    one.size = *said.size;
  } else {
    const auto kept = states_of(scenario);
    if (!kept) return tl::unexpected<Error>(kept.error());
    one.size = kept->trained;
    frozen = kept->frozen;
  }
  const Bandwidth copied = host_rate(scenario, one.writers);
  one.snapshot = said.snapshot.value_or(one.size / copied);
  if (said.write) {
    one.write = one.whole = one.read = *said.write;
  } else {
    const auto stored = storage_rate(scenario, one);
    if (!stored) return tl::unexpected<Error>(stored.error());
    one.write = one.size / *stored;
    one.whole = max(one.write, one.size / copied);
    one.read_frozen = frozen / min(*stored, copied);
    one.read = one.whole + one.read_frozen;
  }
  if (scenario.cluster.nodes > 1) {
    const DataSize of_server = one.size / static_cast<double>(one.writers.servers);
    one.from_partner = of_server / scenario.cluster.node.network_bandwidth();
  }
  return one;
}

cost::FailingRun run_of(const Scenario& scenario, const Rates& rates, const Checkpoint& one) {
  cost::FailingRun run;
  run.mode = scenario.checkpoints.mode;
  run.failures = rates.all();
  run.beyond_memory = rates.switches / rates.all();
  run.write = run.mode == CheckpointMode::kBlocking ? one.whole : one.write;
  run.blocked = run.mode == CheckpointMode::kBlocking ? run.write : one.snapshot;
  run.down = scenario.failures.restart;
  run.recovery = one.read + scenario.failures.warmup;
  run.memory_recovery = one.snapshot + one.from_partner + one.read_frozen + scenario.failures.warmup;
  return run;
}

/// What is worked between two checkpoints, and how many in memory to one in storage.
struct Rhythm {
  Time interval{};
  std::int64_t remote_every = 1;
};

Expected<Rhythm> rhythm_of(const Checkpoints& said, const cost::FailingRun& run) {
  const Time mtbf = seconds(1 / run.failures.in(per_second));
  const bool beside = run.mode != CheckpointMode::kBlocking;
  Rhythm rhythm{.interval = said.interval.value_or(cost::best_interval(run.blocked, mtbf))};
  if (!said.interval && rhythm.interval <= Time::zero()) rhythm.interval = mtbf * 1e-6;  // free: all the time
  if (run.mode == CheckpointMode::kMemory) {
    const double rounds = std::ceil(run.write / (rhythm.interval + run.blocked));
    rhythm.remote_every = said.remote_every.value_or(
        static_cast<std::int64_t>(std::clamp(rounds, 1.0, static_cast<double>(kMostRounds))));
  }
  const Time between = (rhythm.interval + run.blocked) * static_cast<double>(rhythm.remote_every);
  if (!beside || between >= run.write * (1 - 1e-12)) return rhythm;
  if (!said.interval && run.mode == CheckpointMode::kAsync) {
    rhythm.interval = run.write - run.blocked;
    return rhythm;
  }
  return fail(
      ErrorCode::kInfeasible,
      fmt::format("a checkpoint takes {} to write: one cannot start every {}", to_text(run.write), to_text(between)),
      {}, {"state a longer checkpoint.interval (or checkpoint.remote_every), or more checkpoint.bandwidth"});
}

/// So many that something fails in every run.
std::int64_t simulated_intervals(const cost::FailingRun& run, Time interval) {
  constexpr double kMost = 1e15;
  const double mtbf = 1 / run.failures.in(per_second);
  const double wanted = kSimulatedFailures * mtbf / (interval + run.blocked).in(seconds);
  return static_cast<std::int64_t>(std::ceil(std::clamp(wanted, kSimulatedIntervals, kMost)));
}

/// Nothing where the simulation saw enough of what it is about.
std::string few_events(const answer::Goodput& g) {
  if (!g.simulated) return "";
  const double waiting = g.simulated->failures * (g.by_gpus + g.by_nodes) * g.short_of;
  const bool waits_matter = g.spare_wait > (g.restart + g.recovery_time) * 0.1;
  if (g.simulated->failures >= kFewEvents && (!waits_matter || waiting >= kFewEvents)) return "";
  const std::string waits =
      waits_matter ? fmt::format(", of which about {} wait for a spare by the formula", significant(waiting, 2)) : "";
  return fmt::format(
      "simulated goodput: its runs saw {} failures{}: too few for its interval to say much "
      "(failures.runs={} or more)",
      significant(g.simulated->failures, 4), waits, to_text(g.simulated->runs * 10));
}

answer::Goodput answer_of(const Scenario& scenario, const Rates& rates, const Checkpoint& one,
                          const cost::FailingRun& run) {
  answer::Goodput g;
  g.mtbf = seconds(1 / rates.all().in(per_second));
  g.by_gpus = rates.gpus / rates.all();
  g.by_nodes = rates.nodes / rates.all();
  g.by_switches = rates.switches / rates.all();
  g.rates = rates_text(scenario.failures);
  g.mode = name_of(cost::kCheckpointModes, run.mode);
  g.checkpoint = one.size;
  g.writers = one.writers.servers;
  g.blocked = run.blocked;
  g.write = run.write;
  g.interval_stated = scenario.checkpoints.interval.has_value();
  g.young = cost::young_interval(run.blocked, g.mtbf);
  g.daly = cost::daly_interval(run.blocked, g.mtbf);
  g.restart = scenario.failures.restart;
  g.spares = scenario.failures.spares;
  g.recovery_time = run.recovery;
  if (run.mode == CheckpointMode::kMemory) g.memory_recovery_time = run.memory_recovery;
  return g;
}

}  // namespace

Expected<void> check_goodput(const Scenario& scenario) {
  const Failures& failures = scenario.failures;
  const Checkpoints& checkpoints = scenario.checkpoints;
  if (failures.spares > scenario.cluster.nodes) {
    return bad(fmt::format("failures.spares: {} spares for a job of {} server{}", to_text(failures.spares),
                           to_text(scenario.cluster.nodes), scenario.cluster.nodes == 1 ? "" : "s"),
               "at most as many as the job has");
  }
  if (checkpoints.writers && *checkpoints.writers > scenario.cluster.nodes) {
    return bad(fmt::format("checkpoint.writers: {} of {} servers write", to_text(*checkpoints.writers),
                           to_text(scenario.cluster.nodes)),
               "state fewer");
  }
  if (checkpoints.remote_every && checkpoints.mode != CheckpointMode::kMemory) {
    return bad("checkpoint.remote_every is of copies in memory", "add --checkpoint-mode memory, or leave it out");
  }
  if (checkpoints.snapshot && checkpoints.mode == CheckpointMode::kBlocking) {
    return bad("checkpoint.snapshot: a blocking checkpoint is written without one",
               "add --checkpoint-mode async (or memory), or leave it out");
  }
  if (failures.simulated_runs == 1) {
    return bad("failures.runs: one run has no interval", "state 0, or 2 and more");
  }
  if (failures.stated() && scenario.training.checkpoint) {
    return bad("training.checkpoint beside failures: how long training stands still follows from checkpoint.*",
               "state checkpoint.write and checkpoint.interval instead");
  }
  return {};
}

Expected<answer::Goodput> goodput(const Scenario& scenario) {
  if (auto sound = check_values(scenario); !sound) return tl::unexpected<Error>(sound.error());
  const Rates rates = rates_of(scenario);
  const auto one = checkpoint_of(scenario);
  if (!one) return tl::unexpected<Error>(one.error());
  cost::FailingRun run = run_of(scenario, rates, *one);
  const auto rhythm = rhythm_of(scenario.checkpoints, run);
  if (!rhythm) return tl::unexpected<Error>(rhythm.error());
  run.remote_every = rhythm->remote_every;
  answer::Goodput g = answer_of(scenario, rates, *one, run);
  g.interval = rhythm->interval;
  g.remote_every = rhythm->remote_every;
  const cost::SparePool pool{.lost = rates.gpus + rates.nodes,
                             .repair = scenario.failures.repair.value_or(Time::zero()),
                             .spares = scenario.failures.spares};
  const cost::FailingRun without_wait = run;
  if (pool.repair > Time::zero() && pool.lost > Rate::zero()) {
    const cost::SpareWait wait = cost::spare_wait(pool, rates.all(), run.down);
    g.short_of = wait.short_of;
    g.spare_wait = wait.mean * (pool.lost / rates.all());
    run.down += g.spare_wait;
  }
  const cost::GoodputShares shares = cost::goodput(run, g.interval);
  if (!(shares.useful > 1e-9)) {
    return fail(ErrorCode::kInfeasible,
                fmt::format("the run makes no headway: something fails every {}, and a checkpoint, its interval and "
                            "coming back from one take {}",
                            to_text(g.mtbf), to_text(g.interval + run.blocked + run.recovery)),
                {}, {"fewer GPUs, a longer mean time between failures, or more checkpoint.bandwidth"});
  }
  g.share = shares.useful;
  g.checkpoints = shares.checkpoints;
  g.recomputed = shares.recomputed;
  g.recovery = shares.recovery;
  g.down = shares.down;
  g.failures = shares.failures;
  if (scenario.failures.simulated_runs > 0) {
    g.simulated = events::simulate_failures({.run = without_wait,
                                             .pool = pool,
                                             .interval = g.interval,
                                             .intervals = simulated_intervals(run, g.interval),
                                             .runs = scenario.failures.simulated_runs,
                                             .seed = scenario.failures.seed});
  }
  return g;
}

void add_goodput_notes(const Scenario& scenario, const answer::Prediction& prediction,
                       std::vector<std::string>& notes) {
  const Failures& said = scenario.failures;
  if (!prediction.goodput) {
    const bool for_nothing = scenario.checkpoints.stated() || said.spares > 0 || said.repair ||
                             said.simulated_runs > 0 || said.restart > Time::zero() || said.warmup > Time::zero() ||
                             said.nodes_per_switch;
    if (for_nothing) {
      notes.emplace_back(
          "stated, but without effect here: checkpoint.* and failures.*, as nobody says how often something fails "
          "(--failures llama3-405b, --mtbf-gpu '80000 h')");
    }
    return;
  }
  const answer::Goodput& g = *prediction.goodput;
  if (g.interval > g.mtbf) {
    notes.push_back(fmt::format("a checkpoint only every {}, but something fails every {}: most of the work is lost",
                                to_text(g.interval), to_text(g.mtbf)));
  }
  if (std::string few = few_events(g); !few.empty()) notes.push_back(std::move(few));
  std::string unsaid;
  const auto add = [&](bool missing, std::string_view path) {
    if (missing) unsaid += (unsaid.empty() ? "" : ", ") + std::string(path);
  };
  add(said.restart == Time::zero(), "failures.restart");
  add(said.warmup == Time::zero(), "failures.warmup");
  add(!said.repair, "failures.repair");
  if (!unsaid.empty()) {
    notes.push_back(fmt::format("goodput: nobody states {}: taken to take no time, so it is an upper bound", unsaid));
  }
  const hardware::Storage* storage = storage_of(scenario);
  const bool in_server = storage != nullptr && storage->attached == hardware::Attachment::kServer;
  if (in_server && !scenario.checkpoints.write && !scenario.checkpoints.bandwidth) {
    notes.push_back(
        fmt::format("checkpoints lie on each server's own {}: they are taken to outlive it", storage->name));
  }
  if (scenario.checkpoints.bandwidth || scenario.checkpoints.write) return;
  if (storage != nullptr) {
    notes.push_back(
        fmt::format("assumed: {} is written at its rate of reading, {}", storage->name, to_text(storage->bandwidth)));
  }
}

}  // namespace ddlsim::whatif
