#!/usr/bin/env python3
"""Step times of whole models on this machine's GPU: what predictions are compared with, never what they are fitted to.

Needs PyTorch alone; the models are written out here, layer by layer as models/*.yaml of the same names list them.
A step: forward, backward, optimizer, on synthetic data that is on the GPU already. Times are medians over the steps by
CUDA events (time_s) and by the host's clock (wall_s: all steps, by their number).

  python3 ground_truth.py --out steps.jsonl --traces traces         # 6 minutes at most
  python3 ground_truth.py --only resnet50,bert_large --precisions bf16
  measure --list | python3 ground_truth.py --convolutions rows.jsonl   # the plan's convolutions by PyTorch, for the fit

A line each: {"model", "precision", "batch", "time_s", "mad_s", "wall_s", "steps", "memory_bytes", ...}.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Self-attention of 64-wide heads. fused: one product for query, key and value (GPT-2, ViT), else three (BERT)."""

    plain = False  # scores, softmax, context as kernels of their own

    def __init__(self, width, fused, causal=False):
        super().__init__()
        self.heads, self.causal = width // 64, causal
        self.qkv = nn.ModuleList([nn.Linear(width, 3 * width)] if fused else [nn.Linear(width, width) for _ in range(3)])
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv[0](x).chunk(3, -1) if len(self.qkv) == 1 else [linear(x) for linear in self.qkv]
        q, k, v = (t.view(batch, length, self.heads, 64).transpose(1, 2) for t in (q, k, v))
        if Attention.plain:
            scores = q @ k.transpose(-1, -2) / 8.0
            if self.causal:
                scores = scores + torch.full((length, length), float("-inf"), device=x.device, dtype=scores.dtype).triu(1)
            y = scores.softmax(-1).to(v.dtype) @ v
        else:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A transformer layer; norm_first: GPT-2 and ViT, else BERT."""

    def __init__(self, width, norm_first, dropout, causal=False, epsilon=1e-5):
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(width, fused=norm_first, causal=causal)
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=epsilon) for _ in range(2))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout) if dropout > 0 else nn.Identity()

    def mlp(self, x):
        return self.dropout(self.down(functional.gelu(self.up(x))))

    def forward(self, x):
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norms[0](x)))
            return x + self.mlp(self.norms[1](x))
        x = self.norms[0](x + self.dropout(self.attention(x)))
        return self.norms[1](x + self.mlp(x))


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Identity()
        if inside != 4 * width:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def vgg16():
    layers, inside = [], 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(inside, width, 3, padding=1), nn.ReLU(inplace=True)]
            inside = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
               nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers)


class BertLarge(nn.Module):
    """Sequences of 128, 20 of them masked; both pre-training heads."""

    predictions = 20

    def __init__(self):
        super().__init__()
        self.words, self.places, self.segments = nn.Embedding(30522, 1024), nn.Embedding(512, 1024), nn.Embedding(2, 1024)
        self.norm, self.dropout = nn.LayerNorm(1024, eps=1e-12), nn.Dropout(0.1)
        self.blocks = nn.Sequential(*[Block(1024, False, 0.1, epsilon=1e-12) for _ in range(24)])
        self.pooler, self.next_sentence = nn.Linear(1024, 1024), nn.Linear(1024, 2)
        self.transform, self.transform_norm = nn.Linear(1024, 1024), nn.LayerNorm(1024, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(30522))

    def forward(self, ids):
        x = self.words(ids) + self.places.weight[:ids.shape[1]] + self.segments(torch.zeros_like(ids))
        x = self.blocks(self.dropout(self.norm(x)))
        masked = x[:, :self.predictions].reshape(-1, 1024)
        masked = self.transform_norm(functional.gelu(self.transform(masked)))
        sentence = self.next_sentence(torch.tanh(self.pooler(x[:, 0])))
        return functional.linear(masked, self.words.weight, self.bias), sentence


class Gpt2Medium(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.dropout = nn.Embedding(50257, 1024), nn.Embedding(1024, 1024), nn.Dropout(0.1)
        self.blocks = nn.Sequential(*[Block(1024, True, 0.1, causal=True) for _ in range(24)])
        self.norm = nn.LayerNorm(1024)

    def forward(self, ids):
        x = self.blocks(self.dropout(self.words(ids) + self.places.weight[:ids.shape[1]]))
        return functional.linear(self.norm(x), self.words.weight).view(-1, 50257)


class VitLarge(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 1024, 16, 16)
        self.token, self.places = nn.Parameter(torch.zeros(1, 1, 1024)), nn.Parameter(torch.zeros(1, 197, 1024))
        self.blocks = nn.Sequential(*[Block(1024, True, 0.0, epsilon=1e-6) for _ in range(24)])
        self.norm, self.head = nn.LayerNorm(1024, eps=1e-6), nn.Linear(1024, 1000)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


def images(batch, device):
    return torch.randn(batch, 3, 224, 224, device=device), torch.randint(1000, (batch,), device=device)


def bert_data(batch, device):
    ids = torch.randint(30522, (batch, 128), device=device)
    return ids, (ids[:, :20].reshape(-1), torch.randint(2, (batch,), device=device))


def gpt_data(batch, device):
    ids = torch.randint(50257, (batch, 1025), device=device)
    return ids[:, :-1].contiguous(), ids[:, 1:].reshape(-1)


def loss_of(output, target):
    pairs = zip(output, target) if isinstance(output, tuple) else [(output, target)]
    return sum(functional.cross_entropy(o.float(), t) for o, t in pairs)


# model: what makes it, its data, its optimizer, parameters as published (models/*.yaml), batches
MODELS = {
    "resnet50": (resnet50, images, "sgd-momentum", 25557032, (32, 64, 128)),
    "vgg16": (vgg16, images, "sgd-momentum", 138357544, (32, 64, 128)),
    "bert_large": (BertLarge, bert_data, "adam", 336226108, (8, 16, 32)),
    "gpt2_medium": (Gpt2Medium, gpt_data, "adam", 354823168, (2, 4, 8)),
    "vit_large": (VitLarge, images, "adam", 304326632, (16, 32, 64)),
}
PRECISIONS = ("bf16", "tf32", "fp32")


def set_precision(precision):
    torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = False


class Job:
    def __init__(self, name, precision, batch, device):
        make, data, optimizer, self.published, _ = MODELS[name]
        set_precision(precision)
        torch.manual_seed(1)
        with torch.device(device):
            self.model = make()
        self.input, self.target = data(batch, device)
        self.half = precision == "bf16"
        parameters = self.model.parameters()
        if optimizer == "adam":
            self.optimizer = torch.optim.AdamW(parameters, lr=1e-5)
        else:
            self.optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def step(self):
        half = torch.autocast("cuda", torch.bfloat16) if self.half else contextlib.nullcontext()
        with half:
            loss = loss_of(self.model(self.input), self.target)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def measure_steps(job, steps, seconds, least=20):
    """Event times of the steps, and the host's time for all by their number. Nothing waits inside."""
    for _ in range(4):
        loss = job.step()
    torch.cuda.synchronize()
    if not torch.isfinite(loss):
        raise RuntimeError("the loss is not finite")
    start = time.perf_counter()
    job.step()
    torch.cuda.synchronize()
    once = time.perf_counter() - start
    steps = max(least, min(steps, int(seconds / once)))
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    start = time.perf_counter()
    marks[0].record()
    for mark in marks[1:]:
        job.step()
        mark.record()
    torch.cuda.synchronize()
    wall = (time.perf_counter() - start) / steps
    return [a.elapsed_time(b) * 1e-3 for a, b in zip(marks, marks[1:])], wall


def save_trace(job, path):
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    job.step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        job.step()
        torch.cuda.synchronize()
    profile.export_chrome_trace(path)


def context():
    properties = torch.cuda.get_device_properties(0)
    cpu = platform.processor()
    with contextlib.suppress(OSError, StopIteration), open("/proc/cpuinfo", encoding="utf-8") as lines:
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    driver = ""
    with contextlib.suppress(Exception):
        import subprocess
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.split("\n")[0].strip()
    return {"gpu": properties.name, "driver": driver, "cuda": torch.version.cuda, "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version(), "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory, "cpu": cpu, "cores": os.cpu_count(),
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "attention": "plain" if Attention.plain else "sdpa", "data": "synthetic, on the GPU"}


def clocks():
    """SM clock, temperature, power; needs NVML's Python package, which PyTorch calls."""
    with contextlib.suppress(Exception):
        return {"sm_clock_mhz": torch.cuda.clock_rate(), "temperature_c": torch.cuda.temperature(),
                "power_w": torch.cuda.power_draw() * 1e-3}
    return {}


def measure_job(name, precision, batch, options, traces):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    job = Job(name, precision, batch, "cuda")
    parameters = sum(p.numel() for p in job.model.parameters())
    if parameters != job.published:
        print(f"  {name} has {parameters} parameters, published are {job.published}", file=sys.stderr)
    times, wall = measure_steps(job, options.steps, options.seconds)
    median = statistics.median(times)
    row = {"model": name, "precision": precision, "batch": batch, "time_s": median,
           "mad_s": statistics.median(abs(t - median) for t in times), "min_s": min(times), "max_s": max(times),
           "wall_s": wall, "steps": len(times), "parameters": parameters,
           "memory_bytes": torch.cuda.max_memory_allocated(), **clocks()}
    if traces and batch == MODELS[name][4][1]:
        path = os.path.join(traces, f"{name}_{precision}_{batch}.json.gz")
        try:
            save_trace(job, path)
            row["trace"] = os.path.basename(path)
        except Exception as problem:  # a profiler that may not look costs no step time
            print(f"  no trace: {problem}", file=sys.stderr)
    return row


def run_steps(options):
    end = time.monotonic() + options.budget
    traced = options.trace_precisions.split(",")
    if options.traces:
        os.makedirs(options.traces, exist_ok=True)
    jobs = [(name, precision, MODELS[name][4][i]) for i in (1, 0, 2) for precision in options.precisions.split(",")
            for name in options.only.split(",")]
    done = 0
    with open(options.out, "w", encoding="utf-8") as out:
        print(json.dumps({"schema": "ddlsim/steps/1", "context": context()}), file=out, flush=True)
        for number, (name, precision, batch) in enumerate(jobs):
            if time.monotonic() > end:
                print(f"the budget is spent; {len(jobs) - number} were not reached", file=sys.stderr)
                break
            try:
                row = measure_job(name, precision, batch, options, options.traces if precision in traced else "")
            except (RuntimeError, torch.cuda.OutOfMemoryError) as problem:
                row = {"model": name, "precision": precision, "batch": batch, "error": str(problem).split("\n")[0][:200]}
            print(json.dumps(row), file=out, flush=True)
            done += "time_s" in row
            said = f"{row['time_s'] * 1e3:9.2f} ms  wall {row['wall_s'] * 1e3:9.2f} ms" if "time_s" in row else row["error"]
            print(f"{number + 1:3}/{len(jobs)}  {name:12} {precision:5} batch {batch:4}  {said}", file=sys.stderr, flush=True)
    return 0 if done else 1


def convolution_call(row, device):
    types = {"fp16": torch.float16, "bf16": torch.bfloat16}
    kind = types.get(row["precision"], torch.float32)
    stride, kernel, groups = row["stride_height"], row["kernel_height"], row["groups"]
    padding = (kernel - 1) // 2
    x = torch.randn(row["batch"], row["in"], row["input_height"], row["input_width"], device=device, dtype=kind)
    w = torch.randn(row["out"], row["in"] // groups, kernel, kernel, device=device, dtype=kind)
    if row["pass"] == "forward":
        return lambda: functional.conv2d(x, w, None, stride, padding, 1, groups)
    y = torch.randn(row["batch"], row["out"], row["output_height"], row["output_width"], device=device, dtype=kind)
    mask = [row["pass"] == "input-gradient", row["pass"] == "weight-gradient", False]
    pair = lambda value: [value, value]  # noqa: E731
    return lambda: torch.ops.aten.convolution_backward(y, x, w, None, pair(stride), pair(padding), [1, 1], False, [0, 0],
                                                       groups, mask)


def sampled(call, repeats, cycles):
    """Median seconds of a call, `repeats` in a row behind a kernel of so many cycles, in which the host runs ahead."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(9):
        torch.cuda._sleep(cycles)
        begin.record()
        for _ in range(repeats):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / repeats)
    median = statistics.median(times)
    return {"time_s": median, "mad_s": statistics.median(abs(t - median) for t in times), "min_s": min(times),
            "samples": len(times)}


def time_call(call):
    for _ in range(3):
        call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    repeats = max(1, min(20, int(0.4 / max(begin.elapsed_time(end), 1e-3))))
    return sampled(call, repeats, 1500000)  # about 0.8 ms


def run_convolutions(options):
    end = time.monotonic() + options.budget
    done = 0
    with open(options.convolutions, "w", encoding="utf-8") as out:
        facts = context()
        print(json.dumps({"schema": "ddlsim/measurement/1", "context": facts}), file=out, flush=True)
        for line in sys.stdin:
            row = json.loads(line)
            if row.get("op") != "convolution" or row.get("bench") != "nchw":
                continue
            if time.monotonic() > end:
                print("the budget is spent", file=sys.stderr)
                break
            row.pop("expected_s", None)
            row["bench"] = "pytorch"
            try:
                with torch.no_grad():
                    set_precision(row["precision"])
                    row.update(time_call(convolution_call(row, "cuda")))
            except RuntimeError as problem:
                print(f"  {row['pass']} {row['precision']}: {str(problem).splitlines()[0][:160]}", file=sys.stderr)
                continue
            print(json.dumps(row), file=out, flush=True)
            done += 1
    print(f"{done} convolutions", file=sys.stderr)
    return 0 if done else 1


def self_check():
    """Parameters as published, without a GPU."""
    wrong = 0
    for name, (make, _, _, published, _) in MODELS.items():
        with torch.device("meta"):
            count = sum(p.numel() for p in make().parameters())
        print(f"{name:12} {count} parameters{'' if count == published else f', published are {published}'}")
        wrong += count != published
    return 1 if wrong else 0


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="steps.jsonl")
    parser.add_argument("--budget", type=float, default=360, help="seconds (360)")
    parser.add_argument("--steps", type=int, default=50, help="at most so many are timed, at least 20 (50)")
    parser.add_argument("--seconds", type=float, default=4, help="of timed steps for one row (4)")
    parser.add_argument("--only", default=",".join(MODELS), help="models, joined by ','")
    parser.add_argument("--precisions", default=",".join(PRECISIONS), help="of " + ", ".join(PRECISIONS))
    parser.add_argument("--traces", default="", help="folder for a Kineto trace of one step, middle batch")
    parser.add_argument("--trace-precisions", default="bf16", help="which to trace (bf16)")
    parser.add_argument("--attention", choices=("sdpa", "plain"), default="sdpa")
    parser.add_argument("--convolutions", default="", help="measure the convolutions of a plan on stdin into this file")
    parser.add_argument("--check", action="store_true", help="count parameters, without a GPU")
    options = parser.parse_args()
    for flag, known in (("only", MODELS), ("precisions", PRECISIONS)):
        for value in getattr(options, flag).split(","):
            if value not in known:
                parser.error(f"--{flag}: '{value}' is none of {', '.join(known)}")
    return options


def main():
    options = read_options()
    Attention.plain = options.attention == "plain"
    if options.check:
        return self_check()
    if not torch.cuda.is_available():
        print("error: PyTorch sees no GPU", file=sys.stderr)
        return 1
    return run_convolutions(options) if options.convolutions else run_steps(options)


if __name__ == "__main__":
    sys.exit(main())
