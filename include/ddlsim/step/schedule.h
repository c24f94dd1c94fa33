// A priced plan laid out in time, by recurrence: the `analytic` fidelity.
//
// Kernels run one after another on the GPU while the CPU issues them, one every `launch_interval`:
//   issued = issued + kernels * interval;   done = max(done + t, issued + t / kernels)
// and where launches block (plan::Job) done = done + t + kernels * interval,
// forward from the first layer to the last, then backward from the last to the first. A gradient is ready when backward
// of its layer is done. Communication of a group is one first-in-first-out resource:
//   collectives  sent = max(sent, ready) + cost/collective.h of the message
//   servers      the seven stations of cost/parameter_server.h
// and then the optimizer updates the weights (with servers: there):
//   step = max(backward done, last message back) + update
// - fusion: a coordinator wakes every cycle and fuses what is ready (plan::FusionQueue); each fused message is copied
//   into the buffer and out of it. A library that blocks it (MPI) delays its next wake. When it wakes first is chance:
//   the step is the mean over phases of the cycle (step/phases.h). (Horovod)
// - priority: whenever the channel is free it takes the waiting piece of the layer nearest to the input, and the next
//   forward pass starts at once, every layer waiting for its own tensors alone:
//   forward(l) = max(forward(l-1), back(l)) + t(l);  a step lasts from one backward pass to the next. (ByteScheduler)
// - pull at start: weights are pulled, in the model's order, when all servers have updated and the next step begins;
//   forward waits for them layer by layer. (TensorFlow's parameter servers)
// - asynchronous and stale servers: a worker's step is its own loop, or what the busiest station needs for all workers,
//   whichever is longer; stale ones wait for the slowest once in `staleness` + 1 steps.
// - contention: a running collective holds a share of the GPU's multiprocessors and moves every byte that crosses a
//   link through its memory; kernels beside it have what is left, and at least a tenth. Of one through the host's
//   memory they have a fifth, of NCCL's between servers three fifths in 16 bits before Hopper (lib/cost/nccl_tuning.h).
// - accumulation: all but the last forward and backward pass of a step send nothing.
// - jitter: cost/straggler.h, on the GPU time of a synchronous step.
// The input of the next step is copied meanwhile. It shares the host link with pulled weights; what input and pulled
// weights together need of it beyond all that is exposed. So it is with the loader, where a job says what it is: a step
// takes at least as long as its batches take to make, and a little more where their times vary (cost/loader.h). What
// the GPU decodes itself comes before forward.
//
// Plans that do not fold (a model split over ranks, offloaded states) are laid out slot by slot (plan/order.h), every
// class with its own clocks: a row in the way stops the kernels, another one occupies its group's channel, or the link
// to the host, and holds up what needs it. A rank that ends a step by itself (plan::ends_together) takes at least as
// long as its CPU needs to issue it: the next step follows. A stage gathers weights for its first pass while it waits
// for its first input. A step's parts are those of the class that waits least for the others, which sets the pace. The
// bubble is what it waits for them; what it would not wait if sends took no time is exposed communication instead.
// Contention is counted once, at the end: collectives beside a class's kernels take their share of them, at most what
// they would with bytes moving beside all of them, out of its waiting for messages and for the CPU first; the class
// that ends last by that ends the step. What stages send each other over the network takes turns at their servers'
// ports (lib/step/ports.h). Otherwise groups have a channel each: a step is no shorter than what all of them together
// have of a link (cost::PricedRow), and how they meet on it only events know. Sums of gradients start with the last
// micro-batch of a part, beside what its rank has left to do and beside the bubble (Megatron's --overlap-grad-reduce).
// Where backward is in two, what other stages wait for leaves after the input's pass, sums after the weights'. A pair
// of DualPipe takes both passes' kernels; all-to-alls of one are hidden behind kernels of the other, totals behind
// totals (events/step.h has them one by one, and hides less).
// A send to another stage is there after its whole time, but leaves room for the next as soon as it is on its way: what
// the network's latency is above a usual hop's 14 us holds up its receiver, and neither its channel nor its sender.
//
// A pipeline that never empties (PipeDream) has no slots: m micro-batches take m times the longest of
// - a rank's kernels and what is in their way, its update too where every micro-batch has one;
// - 1F1B's circle: all work of neighbours s to t and their sends there and back, over t - s + 1 micro-batches;
// and at least what the busiest channel, or all of them on the busiest link, have to send: gradients are beside
// kernels, whose weights are another version (Narayanan et al. 2019: max(compute, communication); with overlap none
// their sum, as their optimizer's code has it).
// Sources: wait-free backpropagation: Zhang et al., Poseidon, USENIX ATC 2017; Shi et al., MG-WFBP, INFOCOM 2019;
// priority: Peng et al., ByteScheduler, SOSP 2019; pipelines: Narayanan et al., SC 2021, and those of plan/order.h.
//
// Laws (tested): critical path = step; step <= compute + launch + communication + update + input + other; one GPU
// communicates nothing; an idle network leaves compute alone; p equal stages and m micro-batches take (m + p - 1) times
// a stage's forward and backward, sends apart, and other schedules what plan/order.h says.
// Limits: all GPUs of a class are alike and start together; one stream of kernels; kernels do not slow collectives; no
// contention under priority or parameter servers, nor among GPUs of two speeds.
//
// Worked example: two layers of 1 and 2 ms forward, twice that backward, 5 ms of ring for each gradient: forward until
// 3, layer 2 back at 7, its ring 7..12, layer 1 back at 9, its ring 12..17: a step of 17 ms. The same as a simulation
// of events: events/step.h.
#pragma once

#include "ddlsim/answer/timeline.h"
#include "ddlsim/cost/price.h"
#include "ddlsim/support/error.h"

namespace ddlsim::step {

/// Errors: kInvalidArgument for a cyclic order of passes; none for a plan that folds.
[[nodiscard]] Expected<answer::Timeline> schedule(const cost::PricedStep& step,
                                                  answer::Detail detail = answer::Detail::kParts);

/// The step alone, where it is at most `enough`; else any time above that. What is too long is so known early.
[[nodiscard]] Expected<Time> step_time(const cost::PricedStep& step, Time enough = Time::infinity());

/// What servers that do not wait for workers add to the loop of one worker: its step becomes at least what the busiest
/// station needs, and what `line` says of its parts follows. Synchronous plans are left as they are.
void relax(const cost::PricedStep& step, answer::Timeline& line);

}  // namespace ddlsim::step
