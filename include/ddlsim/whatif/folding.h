// What a prediction folds, and how rates are shared in a fabric of any size.
//
// Alike ranks stand once (plan/step_plan.h): a plan has a class for every stage and kind of GPU, and a group for every
// purpose that ranks talk for, whatever their number. A what-if of 1,000,000 GPUs costs what one of 1,000 costs; its
// groups are priced in closed form (cost/collective.h).
//
// Congestion, of a group that spans servers, per server and direction:
//
//   rate = network / (siblings x oversubscription)
//
//   network         all ports of a server together, at the share that the collective library reaches
//   siblings k      alike groups that send through the same server's ports at once: GPUs of a server over the group's
//                   ranks there. Each has 1/k of them (max-min fair among equals; whole ports, where they suffice)
//   oversubscription  what the servers of a leaf may send over what its links to the spine carry: s servers of b each,
//                   with uplinks of s b / o, get b / o. All servers of a job send alike, so every uplink is as full as
//                   every other and none is better off
//
// Messages of parameter servers share the ports of workers and servers by the same law (cost/parameter_server.h).
//
// Limits: everything between servers is taken to cross the spine, which groups within one leaf do not; hashing of flows
// onto uplinks is taken to be even. Groups that are unlike, as gradients beside stage boundaries, take turns on a
// port in the recurrence's channel (step/schedule.h); fidelity event shares it between them instead. Jobs of others
// beside this one: fidelity event (settings jobs, other_jobs, network.uplink).
//
// Worked example: DGX H100, 8 ports of 400 Gb/s, tensor 8 x pipeline 4 on 1,000,000 GPUs: 4 classes. Gradients: 32
// groups of 31,250 ranks, one in each of 31,250 servers, 8 of them through the same ports: 3.2 Tb/s / 8 = 400 Gb/s
// each, with an oversubscription of 2 200 Gb/s.
#pragma once

#include <string>

#include "ddlsim/plan/step_plan.h"

namespace ddlsim::whatif {

/// "1,000,000 GPUs as 4 classes of alike ranks; gradients: 32 alike groups of 31,250 ranks on 31,250 servers, 8 through
/// the same ports; ..."
[[nodiscard]] std::string folding_text(const plan::StepPlan& plan, double oversubscription);

}  // namespace ddlsim::whatif
