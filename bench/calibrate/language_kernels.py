#!/usr/bin/env python3
"""Kernels of language models that `measure` has not, timed through PyTorch, as rows of the fit.

  python3 language_kernels.py --out flash.jsonl                       # PyTorch's own attention, experts, fp8 products
  python3 language_kernels.py --out cudnn.jsonl --only attention --attention cudnn

attention: scaled_dot_product_attention, forward and backward, grouped heads among them; experts: a layer of gated
experts (permute, two grouped products, SwiGLU between, weighted sum), rows evenly shared; gemm: fp8 (e4m3) products with
one scale a tensor, bf16 out. --operations FILE times what the fit does not read: norms, losses, optimizers of PyTorch.
Points come in random order until --budget is spent. Needs a GPU since Ampere; fp8 since Ada.
"""

import argparse
import json
import random
import sys
import time

import torch
from torch import nn
from torch.nn import functional

from ground_truth import context, sampled, set_precision


def time_call(call):
    """As sampled, behind a kernel as long as the host takes for the calls."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(4):
        call()
    host = (time.perf_counter() - start) / 4
    torch.cuda.synchronize()
    whole = (time.perf_counter() - start) / 4
    repeats = max(1, min(16, int(0.004 / max(whole, 1e-6))))
    return sampled(call, repeats, int(2.5e9 * min(host * repeats, 0.02)) + 100000)


def attention_points():
    for heads, kv_heads in ((16, 16), (32, 32), (32, 8), (64, 8)):
        for width in (64, 128):
            for causal in (0, 1):
                for tokens in (4096, 16384, 65536):
                    for length in (128, 512, 1024, 2048, 4096, 8192, 16384, 32768):
                        if length > tokens or (length == 32768 and heads == 64):
                            continue
                        for direction in ("forward", "backward"):
                            yield {"op": "attention", "precision": "bf16", "pass": direction, "batch": tokens // length,
                                   "queries": length, "keys": length, "heads": heads, "kv_heads": kv_heads,
                                   "width": width, "value_width": width, "causal": causal}


def attention_call(row, backend):
    def tensor(heads):
        shape = (row["batch"], row["queries"], heads, row["width"])
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
    q, k, v = tensor(row["heads"]), tensor(row["kv_heads"]), tensor(row["kv_heads"])
    grouped = row["heads"] != row["kv_heads"]

    def forward():
        with torch.nn.attention.sdpa_kernel(backend):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=bool(row["causal"]), enable_gqa=grouped)
    if row["pass"] == "forward":
        return forward
    y = forward()
    dy = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True)


EXPERTS = ((4096, 14336, 8, 2), (2048, 1408, 64, 6), (2048, 768, 128, 8), (2048, 1024, 64, 8), (2880, 2880, 32, 4),
           (7168, 2048, 32, 8))  # width, inner, experts, of them per token


def experts_points():
    for width, inner, experts, chosen in EXPERTS:
        for tokens in (1024, 4096, 8192, 16384):
            yield {"op": "experts", "precision": "bf16", "tokens": tokens, "routed": tokens * chosen, "experts": experts,
                   "width": width, "inner": inner, "gated": 1}


def experts_call(row):
    tokens, routed, experts = row["tokens"], row["routed"], row["experts"]
    width, inner = row["width"], row["inner"]
    chosen = routed // tokens
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16)
    up = torch.randn(experts, width, 2 * inner, device="cuda", dtype=torch.bfloat16)
    down = torch.randn(experts, inner, width, device="cuda", dtype=torch.bfloat16)
    weights = torch.rand(tokens, chosen, 1, device="cuda", dtype=torch.bfloat16)
    order = torch.randperm(routed, device="cuda")
    back = torch.argsort(order)
    ends = (torch.arange(1, experts + 1, device="cuda") * (routed // experts)).to(torch.int32)
    ends[-1] = routed

    def call():
        rows = x.index_select(0, order // chosen)
        gate, value = torch._grouped_mm(rows, up, offs=ends).chunk(2, -1)
        out = torch._grouped_mm(functional.silu(gate) * value, down, offs=ends)
        return (out.index_select(0, back).view(tokens, chosen, width) * weights).sum(1)
    return call


def gemm_points(number, seed):
    chance = random.Random(seed)

    def size(least, most, whole):
        return max(whole, round(least * (most / least) ** chance.random() / whole) * whole)
    layers = [(n, k) for n, k in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (57344, 8192), (8192, 28672))]
    for n, k in layers:
        for m in (1024, 4096, 8192, 16384):
            yield {"op": "gemm", "precision": "fp8", "batch_count": 1, "m": m, "n": n, "k": k}
    for _ in range(number):
        yield {"op": "gemm", "precision": "fp8", "batch_count": 1, "m": size(64, 16384, 16), "n": size(64, 16384, 16),
               "k": size(64, 16384, 16)}


def gemm_call(row):
    kind = torch.float8_e4m3fn
    a = torch.randn(row["m"], row["k"], device="cuda").to(kind)
    b = torch.randn(row["n"], row["k"], device="cuda").to(kind).t()
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)


# Operations of PyTorch: name, kind, arrays of the tensor's size that must be read and written
def operation_points():
    shapes = ((1024, 1024), (8192, 1024), (8192, 4096), (32768, 4096))
    names = ("add", "gelu", "gelu-backward", "silu-mul", "dropout", "layer_norm", "layer_norm-backward", "rms_norm",
             "rms_norm-backward", "rms_norm-plain", "softmax", "softmax-backward", "sum-rows", "cast")
    for name in names:
        for precision in ("fp32", "bf16"):
            for rows, length in shapes:
                yield {"op": "operation", "name": name, "precision": precision, "rows": rows, "length": length}
    for precision in ("fp32", "bf16"):
        for rows, length in ((2048, 32000), (8192, 32000), (4096, 128256)):
            for name in ("cross_entropy", "cross_entropy-backward"):
                yield {"op": "operation", "name": name, "precision": precision, "rows": rows, "length": length}
        for name in ("adamw-foreach", "adamw-fused", "sgd-foreach", "norm-foreach"):
            for rows, length in ((300, 16384), (300, 1048576)):  # tensors of so many elements
                yield {"op": "operation", "name": name, "precision": precision, "rows": rows, "length": length}
        for name in ("batch_norm", "batch_norm-backward", "batch_norm-last", "batch_norm-last-backward", "max_pool",
                     "relu"):
            for rows, length in ((64, 56), (256, 56), (64, 14)):  # images of 256 channels, of so many pixels a side
                yield {"op": "operation", "name": name, "precision": precision, "rows": rows, "length": length}


def optimizer_call(row, kind):
    tensors = [nn.Parameter(torch.randn(row["length"], device="cuda", dtype=kind)) for _ in range(row["rows"])]
    for tensor in tensors:
        tensor.grad = torch.randn_like(tensor)
    if row["name"] == "norm-foreach":
        return lambda: nn.utils.clip_grad_norm_(tensors, 1.0)
    if row["name"] == "sgd-foreach":
        return torch.optim.SGD(tensors, lr=1e-6, momentum=0.9).step
    return torch.optim.AdamW(tensors, lr=1e-6, fused=row["name"] == "adamw-fused").step


def backward_of(output, inputs):
    gradient = torch.randn_like(output)
    return lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True)


def operation_call(row):
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[row["precision"]]
    name, rows, length = row["name"], row["rows"], row["length"]
    if name.endswith("-foreach") or name.endswith("-fused"):
        return optimizer_call(row, kind)
    if name.startswith("batch_norm") or name in ("max_pool", "relu"):
        x = torch.randn(rows, 256, length, length, device="cuda", dtype=kind)
        if "last" in name:
            x = x.contiguous(memory_format=torch.channels_last)
        if name == "relu":
            return lambda: functional.relu(x)
        if name == "max_pool":
            return lambda: functional.max_pool2d(x, 3, 2, 1)
        norm = nn.BatchNorm2d(256, device="cuda")
        if name.endswith("backward"):
            x.requires_grad_()
            return backward_of(norm(x), (x, norm.weight, norm.bias))
        return lambda: norm(x)
    x = torch.randn(rows, length, device="cuda", dtype=kind)
    other = torch.randn_like(x)
    weight, bias = (nn.Parameter(torch.randn(length, device="cuda", dtype=kind)) for _ in range(2))
    target = torch.randint(length, (rows,), device="cuda") if name.startswith("cross") else None

    def plain_norm(value):
        wide = value.float()
        return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(value.dtype)
    forward = {"add": lambda: x + other, "gelu": lambda: functional.gelu(x), "silu-mul": lambda: functional.silu(x) * other,
               "dropout": lambda: functional.dropout(x, 0.1), "softmax": lambda: x.softmax(-1), "sum-rows": lambda: x.sum(0),
               "layer_norm": lambda: functional.layer_norm(x, (length,), weight, bias),
               "rms_norm": lambda: functional.rms_norm(x, (length,), weight), "rms_norm-plain": lambda: plain_norm(x),
               "cast": lambda: x.to(torch.bfloat16 if kind == torch.float32 else torch.float32),
               "cross_entropy": lambda: functional.cross_entropy(x, target)}[name.removesuffix("-backward")]
    if not name.endswith("-backward"):
        return forward
    x.requires_grad_()
    inputs = [x] + [weight] * ("norm" in name) + [bias] * ("layer" in name)
    return backward_of(forward(), inputs)


def call_of(row, options):
    if row["op"] == "attention":
        names = torch.nn.attention.SDPBackend
        backend = {"flash": names.FLASH_ATTENTION, "cudnn": names.CUDNN_ATTENTION,
                   "efficient": names.EFFICIENT_ATTENTION}[options.attention]
        return attention_call(row, backend)
    return {"experts": experts_call, "gemm": gemm_call, "operation": operation_call}[row["op"]](row)


def run(path, points, options, end):
    random.Random(options.seed).shuffle(points)
    done, said = 0, set()
    with open(path, "w", encoding="utf-8") as out:
        facts = {**context(), "attention": options.attention}
        print(json.dumps({"schema": "ddlsim/measurement/1", "context": facts}), file=out, flush=True)
        for number, row in enumerate(points):
            if time.monotonic() > end:
                print(f"the budget is spent; {len(points) - number} were not reached", file=sys.stderr)
                break
            try:
                timed = time_call(call_of(row, options))
            except (RuntimeError, ValueError, AttributeError, TypeError) as problem:
                text = str(problem).splitlines()[0][:160] if str(problem) else type(problem).__name__
                if (row["op"], text) not in said:
                    print(f"  {row}: {text}", file=sys.stderr, flush=True)
                said.add((row["op"], text))
                torch.cuda.empty_cache()
                continue
            bench = f"pytorch-{options.attention}" if row["op"] == "attention" else "pytorch"
            print(json.dumps({"bench": bench, **row, **timed}), file=out, flush=True)
            done += 1
    print(f"{done} of {len(points)} rows in {path}", file=sys.stderr, flush=True)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="language.jsonl")
    parser.add_argument("--operations", default="", help="time PyTorch's operations into this file instead")
    parser.add_argument("--only", default="attention,experts,gemm", help="joined by ','")
    parser.add_argument("--attention", choices=("flash", "cudnn", "efficient"), default="flash")
    parser.add_argument("--budget", type=float, default=90, help="seconds (90)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: PyTorch sees no GPU", file=sys.stderr)
        return 1
    set_precision("tf32")
    end = time.monotonic() + options.budget
    if options.operations:
        return 0 if run(options.operations, list(operation_points()), options, end) else 1
    makers = {"attention": attention_points, "experts": experts_points, "gemm": lambda: gemm_points(80, options.seed)}
    points = [row for name in options.only.split(",") for row in makers[name]()]
    return 0 if run(options.out, points, options, end) else 1


if __name__ == "__main__":
    sys.exit(main())
