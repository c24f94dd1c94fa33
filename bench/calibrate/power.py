#!/usr/bin/env python3
"""What work costs in watts, and how far clocks fall under it when it lasts.

Short samples (measure, zoo_steps.py) end before a GPU's power limit is felt; training does not. Here every load runs
alone for --seconds, and the second half of it counts: time per call, joules by NVML's energy counter, the SM clock, and
for how much of the time power held the clocks.

  python3 power.py --out power.jsonl --budget 400
  python3 power.py --only steps --list
  python3 power.py --summary power.jsonl        # the `power` of a GPU's file; needs no GPU

Loads: nothing, a spinning thread; products of every precision, of zeros too; kernels bound by memory; attention;
convolutions; products and pauses in turn (share: of the time that is the product's), which draw less than the limit; and
whole steps of zoo_steps.py. A line each: {"load", ..., "time_s" (a call and its pause), "early_s" (in the first 0.15 s),
"power_w", "energy_j" (a call), "sm_clock_mhz", "limited" (share of the time that power held the clocks, by NVML's
counter), "temperature_c", "calls"}. Needs PyTorch and NVML's Python package.

The summary takes loads whose clocks stayed within 3 % of the highest: beyond what an idle GPU draws, joules of a FLOP
(products of random numbers, with pauses where clocks would fall without) and of a byte (a sum of two tensors, GELU, layer
norm: a step's kernels work on what they move, and draw half as much again as copies). Medians.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time

try:
    import pynvml
    import torch
    from torch.nn import functional

    from ground_truth import context, set_precision
    from zoo_steps import Job

    KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32,
             "fp8": torch.float8_e4m3fn}
except ImportError:  # a summary and a list need none of them
    torch = None


class Meter:
    """NVML's counters of one GPU."""

    def __init__(self):
        pynvml.nvmlInit()
        self.gpu = pynvml.nvmlDeviceGetHandleByIndex(0)

    def limit(self):
        return pynvml.nvmlDeviceGetEnforcedPowerLimit(self.gpu) * 1e-3

    def look(self):
        """Counters, which only grow: joules, seconds that power held the clocks."""
        held = None
        with contextlib.suppress(pynvml.NVMLError):
            held = pynvml.nvmlDeviceGetViolationStatus(self.gpu, pynvml.NVML_PERF_POLICY_POWER).violationTime * 1e-9
        return {"at": time.perf_counter(), "joules": pynvml.nvmlDeviceGetTotalEnergyConsumption(self.gpu) * 1e-3, "held": held}

    def clock(self):
        return pynvml.nvmlDeviceGetClockInfo(self.gpu, pynvml.NVML_CLOCK_SM)

    def temperature(self):
        return pynvml.nvmlDeviceGetTemperature(self.gpu, pynvml.NVML_TEMPERATURE_GPU)


def timed_loop(meter, burst, seconds):
    """Runs bursts for so long, two in flight. burst() enqueues work and returns how many calls it was. What the second
    half of the time gave, and the first 0.15 s."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    marks, calls, clocks, first_look, began = [], [], [], None, 0
    mark = torch.cuda.Event(enable_timing=True)
    mark.record()
    marks.append(mark)
    while time.perf_counter() - start < seconds or first_look is None or len(calls) < began + 6:
        calls.append(burst())
        mark = torch.cuda.Event(enable_timing=True)
        mark.record()
        marks.append(mark)
        if len(marks) > 3:
            marks[-3].synchronize()
        if first_look is None and time.perf_counter() - start > seconds / 2 and len(calls) >= 3:
            first_look, began = meter.look(), len(calls) - 2  # this one's mark is behind us
        if first_look is not None:
            clocks.append(meter.clock())
    last_look, ended = meter.look(), len(calls) - 2
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) * 1e-3 for a, b in zip(marks, marks[1:])]
    whole = last_look["at"] - first_look["at"]
    counted = sum(calls[began:ended])
    power = (last_look["joules"] - first_look["joules"]) / whole
    early, early_calls, passed = 0.0, 0, 0.0
    for taken, count in zip(times[1:], calls[1:]):
        if passed > 0.15 and early_calls:
            break
        early, early_calls, passed = early + taken, early_calls + count, passed + taken
    duration = sum(times[began:ended]) / max(counted, 1)
    held = None if last_look["held"] is None else (last_look["held"] - first_look["held"]) / whole
    return {"time_s": duration, "early_s": early / max(early_calls, 1), "power_w": round(power, 1),
            "energy_j": power * duration, "seconds": round(whole, 3), "calls": counted,
            "sm_clock_mhz": statistics.median(clocks), "limited": held, "temperature_c": meter.temperature()}


def seconds_of(call):
    """Of a call, by five after three."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / 5


def burst_of(call, length=0.06):
    """Calls that take about so long."""
    number = max(1, int(length / seconds_of(call)))

    def burst():
        for _ in range(number):
            call()
        return number
    return burst


def product(row):
    kind = KINDS[row["precision"]]
    set_precision("fp32" if row["precision"] == "fp32" else "tf32")
    make = torch.zeros if row.get("data") == "zeros" else torch.randn
    a, b = (make(size, row["k"], device="cuda") for size in (row["m"], row["n"]))
    if row["precision"] == "fp8":
        one = torch.ones((), device="cuda")
        a, b = a.to(kind), b.to(kind)
        return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
    a, b = a.to(kind), b.to(kind)
    return lambda: a @ b.t()


def memory_bound(row):
    kind = KINDS[row["precision"]]
    x = torch.randn(row["elements"], device="cuda", dtype=kind)
    y, z = torch.randn_like(x), torch.empty_like(x)
    if row["kind"] == "layer_norm":
        wide = x.view(-1, 4096)
        return lambda: functional.layer_norm(wide, (4096,))
    return {"copy": lambda: z.copy_(x), "add": lambda: torch.add(x, y, out=z), "read": x.sum, "fill": lambda: z.fill_(1),
            "gelu": lambda: functional.gelu(x)}[row["kind"]]


def attention(row):
    names = torch.nn.attention.SDPBackend
    backend = {"flash": names.FLASH_ATTENTION, "cudnn": names.CUDNN_ATTENTION}[row["backend"]]
    shape = (row["batch"], row["queries"], row["heads"], row["width"])
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_() for _ in range(3))

    def forward():
        with torch.nn.attention.sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=bool(row["causal"]))
    if row["pass"] == "forward":
        return forward
    y = forward()
    dy = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)


def convolution(row):
    set_precision("fp32" if row["precision"] == "fp32" else "tf32")
    kind = KINDS[row["precision"]]
    torch.backends.cudnn.benchmark = True
    layout = torch.contiguous_format if row["precision"] in ("fp32", "tf32") else torch.channels_last
    x = torch.randn(row["batch"], row["in"], row["size"], row["size"], device="cuda", dtype=kind).contiguous(memory_format=layout)
    w = torch.randn(row["out"], row["in"], row["kernel"], row["kernel"], device="cuda", dtype=kind).contiguous(memory_format=layout)

    def call():
        with torch.no_grad():
            return functional.conv2d(x, w, padding=row["kernel"] // 2)
    return call


CALLS = {"gemm": product, "memory_bound": memory_bound, "attention": attention, "convolution": convolution}


def kernel_loads():
    yield {"load": "idle"}
    yield {"load": "spin"}

    def gemm(precision, m, n, k, **more):
        return {"load": "gemm", "precision": precision, "m": m, "n": n, "k": k, **more}
    for m, n, k in ((8192, 8192, 8192), (4096, 4096, 4096), (8192, 28672, 4096), (8192, 4096, 14336), (16384, 6144, 4096),
                    (16384, 16384, 512), (4096, 1024, 1024), (32768, 768, 768)):
        yield gemm("bf16", m, n, k)
    yield gemm("bf16", 8192, 8192, 8192, data="zeros")
    yield gemm("fp16", 8192, 8192, 8192)
    for size in (8192, 4096):
        yield gemm("tf32", size, size, size)
        yield gemm("fp32", size, size, size)
    yield gemm("fp8", 8192, 8192, 8192)
    yield gemm("fp8", 8192, 28672, 4096)
    yield gemm("fp8", 8192, 8192, 8192, data="zeros")
    for share in (0.25, 0.5, 0.65, 0.8):
        yield gemm("bf16", 8192, 8192, 8192, share=share)
    for precision in ("fp8", "tf32", "fp32"):
        yield gemm(precision, 8192, 8192, 8192, share=0.5)
    for kind in ("copy", "add", "read", "fill", "gelu", "layer_norm"):
        yield {"load": "memory_bound", "kind": kind, "precision": "bf16", "elements": 1 << 29}
    yield {"load": "memory_bound", "kind": "add", "precision": "fp32", "elements": 1 << 21}  # 24 MiB: L2
    for backend in ("flash", "cudnn"):
        for direction in ("forward", "backward"):
            yield {"load": "attention", "backend": backend, "pass": direction, "batch": 2, "queries": 8192, "heads": 32,
                   "width": 128, "causal": 1}
    yield {"load": "attention", "backend": "flash", "pass": "forward", "batch": 128, "queries": 512, "heads": 16, "width": 64,
           "causal": 0}
    for precision in ("bf16", "tf32", "fp32"):
        yield {"load": "convolution", "precision": precision, "batch": 256, "in": 128, "out": 128, "size": 28, "kernel": 3}
    yield {"load": "convolution", "precision": "bf16", "batch": 256, "in": 64, "out": 256, "size": 56, "kernel": 1}


def step_loads():
    def job(model, precision, batch, optimizer="adamw", **more):
        return {"load": "step", "model": model, "precision": precision, "batch": batch, "optimizer": optimizer, **more}
    yield job("llama_3_2_1b", "bf16", 4, "adamw-fused", sequence=4096)
    yield job("llama_3_1_8b", "bf16", 1, "adamw-fused", sequence=8192, layers=8)
    yield job("llama_3_1_8b", "bf16", 1, "adamw-fused", sequence=8192, layers=8, compile=True)
    yield job("llama_3_1_8b", "bf16", 1, "adamw-fused", sequence=8192, layers=8, compile=True, eight_bits="tensorwise")
    yield job("llama_3_1_8b", "bf16", 1, "adamw-fused", sequence=8192, layers=8, compile=True, eight_bits="rowwise")
    yield job("qwen2_5_7b", "bf16", 1, "sgd", sequence=4096, recompute="full")
    yield job("gpt2_xl", "amp", 4, sequence=1024)
    yield job("bert_large", "amp-fp16", 32, sequence=384, head="answers")
    yield job("bert_base", "tf32", 64, sequence=128)
    yield job("t5_base", "bf16", 16, sequence=512)
    yield job("resnet50", "amp", 256, "sgd-momentum", layout="channels-last")
    yield job("resnet50", "tf32", 128, "sgd-momentum", layout="channels-first")
    yield job("resnet50", "fp32", 64, "sgd-momentum", layout="channels-first")
    yield job("vgg16", "amp", 128, "sgd-momentum", layout="channels-last")
    yield job("vit_large", "amp", 128, layout="channels-first")
    yield job("efficientnet_b4", "amp", 64, "sgd-momentum", layout="channels-last")
    yield job("resnet50", "amp", 8, "sgd-momentum", layout="channels-first")  # waits for the host


def loop_of(row):
    """burst() of a load."""
    if row["load"] == "idle":
        def rest():
            time.sleep(0.05)
            return 1
        return rest
    if row["load"] == "spin":
        return burst_of(lambda: torch.cuda._sleep(2000000))
    if row["load"] == "step":
        job = Job(row)
        for _ in range(4):
            loss = job.step()
        torch.cuda.synchronize()
        if not torch.isfinite(loss):
            raise RuntimeError("the loss is not finite")

        def step():
            job.step()
            return 1
        return step
    call = CALLS[row["load"]](row)
    if "share" not in row:
        return burst_of(call)
    pause = int(seconds_of(call) * (1 / row["share"] - 1) * 1.98e9)

    def both():
        for _ in range(10):
            call()
            torch.cuda._sleep(pause)
        return 10
    return both


def moved(row):
    """Bytes that a kernel bound by memory reads and writes."""
    arrays = {"copy": 2, "add": 3, "read": 1, "fill": 1, "gelu": 2, "layer_norm": 2}[row["kind"]]
    return arrays * row["elements"] * (2 if row["precision"] == "bf16" else 4)


def summary(path):
    """The `power` of a GPU's file, of what was measured there."""
    rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    rows = [row for row in rows if row.get("load") and "power_w" in row]
    highest = max(row["sm_clock_mhz"] for row in rows)
    free = [row for row in rows if row["sm_clock_mhz"] > 0.97 * highest]
    idle = statistics.median(row["power_w"] for row in free if row["load"] == "idle")
    found = {}
    for row in free:
        joules = (row["power_w"] - idle) * row["time_s"]
        if row["load"] == "gemm" and row.get("data") != "zeros":
            found.setdefault(row["precision"], []).append(joules / (2 * row["m"] * row["n"] * row["k"]))
        if row["load"] == "memory_bound" and row["kind"] in ("add", "gelu", "layer_norm") and moved(row) > 1e9:
            found.setdefault("memory", []).append(joules / moved(row))
    units = {name: "pJ/B" if name == "memory" else "pJ/FLOP" for name in found}
    parts = [f"{name}: {statistics.median(values) * 1e12:.3g} {units[name]}" for name, values in sorted(found.items())]
    print("power: {idle: " + f"{idle:.3g} W, " + ", ".join(parts) + "}")


def measure(meter, row, options):
    torch.cuda.empty_cache()
    burst = loop_of(row)
    if row["load"] != "idle":
        time.sleep(0.4)  # what came before is no part of the first 0.15 s
    seconds = options.seconds * (1.5 if row["load"] == "step" else 1)
    found = timed_loop(meter, burst, seconds)
    if row["load"] == "step":
        found["memory_bytes"] = torch.cuda.max_memory_allocated()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="power.jsonl")
    parser.add_argument("--budget", type=float, default=400, help="seconds (400)")
    parser.add_argument("--seconds", type=float, default=4, help="of a load; steps take half as many more (4)")
    parser.add_argument("--only", default="kernels,steps", help="joined by ','")
    parser.add_argument("--list", action="store_true", help="print the loads")
    parser.add_argument("--summary", default="", help="of a file that was measured")
    options = parser.parse_args()
    if options.summary:
        summary(options.summary)
        return 0
    makers = {"kernels": kernel_loads, "steps": step_loads}
    rows = [row for name in options.only.split(",") for row in makers[name]()]
    if options.list:
        for row in rows:
            print(json.dumps(row))
        return 0
    if torch is None or not torch.cuda.is_available():
        print("error: PyTorch sees no GPU, or is not there", file=sys.stderr)
        return 1
    torch.zeros(1, device="cuda")
    meter, end, done = Meter(), time.monotonic() + options.budget, 0
    with open(options.out, "w", encoding="utf-8") as out:
        facts = {**context(), "power_limit_w": meter.limit()}
        print(json.dumps({"schema": "ddlsim/power/1", "context": facts}), file=out, flush=True)
        for number, row in enumerate(rows):
            if time.monotonic() > end:
                print(f"the budget is spent; {len(rows) - number} were not reached", file=sys.stderr)
                break
            start = time.monotonic()
            torch.cuda.reset_peak_memory_stats()
            try:
                line = {**row, **measure(meter, row, options)}
                done += 1
                said = (f"{line['time_s'] * 1e3:9.3f} ms (early {line['early_s'] * 1e3:9.3f}) {line['power_w']:6.1f} W "
                        f"{line['sm_clock_mhz']} MHz, limited {line['limited']}")
            except Exception as problem:
                line = {**row, "error": f"{type(problem).__name__}: {str(problem)[:300]}"}
                said = line["error"]
            print(json.dumps(line), file=out, flush=True)
            print(f"{number + 1:3}/{len(rows)} {time.monotonic() - start:5.1f} s {json.dumps(row)}  {said}", file=sys.stderr,
                  flush=True)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
