#!/usr/bin/env python3
"""Turns what ground_truth.py, zoo_steps.py and power.py measured into a table of cases, which `ddlsim validate` predicts and
compares.

  python3 steps_to_cases.py steps.jsonl zoo.jsonl > mine.csv && ddlsim validate mine.csv

Of two rows that say the same the first counts; --but names files whose configurations are cases already.
--source says where the rows come from, --first what their numbers begin with.
"""

import argparse
import csv
import json
import sys

COLUMNS = ("id,group,source,model,framework,precision,gpu,gpus_per_node,nodes,total_gpus,intra_interconnect,inter_network,"
           "batch_per_gpu,architecture,extra,metric,value,notes").split(",")
GPUS = {"NVIDIA H100 80GB HBM3": "H100-SXM5-80GB", "NVIDIA H200": "H200-SXM5-141GB"}
# What ground_truth.py's models do not say line by line.
IMAGES = ("resnet50", "vgg16", "vit_large")
SEQUENCES = {"bert_large": 128, "gpt2_medium": 1024}
OPTIMIZERS = {"resnet50": "sgd-momentum", "vgg16": "sgd-momentum"}
# As zoo_steps.py builds them by timm, and torchvision's detectors: without a trained backbone none of them is frozen.
TIMM = ("resnet50d", "se_resnet50", "se_resnext50_32x4d", "inception_v4", "inception_resnet_v2", "xception", "nasnet_large",
        "darknet53", "vit_small", "vit_tiny")
UNFROZEN = ("maskrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn", "retinanet_resnet50_fpn")
# PyTorch has no one kernel of attention for fewer heads of keys in 32 bits, nor for Falcon's single one, which transformers
# leaves to it: the kernels of these steps have isneginf of its composed one, and no flash, fmha or sdpa.
GROUPED = ("llama_3_2_1b", "llama_3_2_3b", "llama_3_1_8b", "tinyllama_1_1b", "qwen2_5_7b", "mistral_7b", "qwen3_8b")


def described(row):
    """A line of ground_truth.py as zoo_steps.py writes it."""
    if "optimizer" in row:
        return row
    name = row["model"]
    row = {**row, "optimizer": OPTIMIZERS.get(name, "adamw"), "precision": row["precision"].replace("bf16", "amp")}
    return {**row, "layout": "channels-first"} if name in IMAGES else {**row, "sequence": SEQUENCES[name]}


def case_of(row, facts, source, number, busy=False):
    precision = row["precision"]
    parts = row.get("accumulation", 1)
    extra = {"data": "synthetic", "date": facts["date"][:7], "framework_version": facts["torch"].split("+")[0],
             "optimizer": row["optimizer"], "memory_bytes_per_gpu": row["memory_bytes"],
             "memory_is": "most that PyTorch allocated"}
    extra.update({name: row[key] for key, name in (("layout", "layout"), ("sequence", "seq_len"), ("compile", "compile"),
                                                   ("recompute", "recompute"), ("lora_rank", "lora_rank")) if key in row})
    extra["states"] = "pure-16" if precision == "bf16" else "fp32"
    if precision == "fp32":
        extra["tf32"] = "no"  # PyTorch's convolutions take it unless they are told
    if "lora_rank" in row:
        extra["task"] = "lora"
    single = precision in ("fp32", "tf32")
    if row.get("attention") == "eager" or row["model"] == "falcon_7b" or (single and row["model"] in GROUPED):
        extra["flash_attention"] = "no"
    if parts > 1:
        extra.update({"grad_accum": parts, "micro_batch": row["batch"], "global_batch": row["batch"] * parts})
    if row["model"].startswith("t5"):
        extra["seq_len_dec"] = 114
    if "layers" in row:
        extra["layers"] = row["layers"]  # the first of the model's
    if row.get("head") == "answers":
        extra["task"] = "SQuAD"  # begin and end of an answer at every position, no vocabulary
    if row["model"] in UNFROZEN:
        extra["frozen"] = "none"
    if row["model"] == "gpt2_medium" and "reserved_bytes" not in row:
        extra["activation"] = "gelu"  # nn.GELU, where transformers' is of single operations
    gpu = GPUS.get(facts["gpu"], facts["gpu"])
    by_hand = "parameters" in row and "reserved_bytes" not in row
    written = ("by hand" if by_hand else "timm" if row["model"] in TIMM else "torchvision" if "layout" in row
               else "transformers")
    if written == "transformers" and not row["model"].startswith("t5"):
        extra.setdefault("flash_attention", "yes")  # its default, scaled_dot_product_attention
    words = ["weights and states in bf16"] if precision == "bf16" else ["autocast"] if precision.startswith("amp") else []
    words += [f"{row['wall_s'] * 1e3:.2f} ms by the host's clock"] if "wall_s" in row else []
    words += [f"GPU busy {row['busy_s'] * 1e3:.2f} ms"] if "busy_s" in row and busy else []
    words += [f"{row['parameters']} parameters"] if "parameters" in row and busy else []
    words += [f"{row['seconds']:.0f} s without a pause"] if row.get("load") == "step" else []
    return {"id": f"{gpu.split('-')[0].lower()}_{number:03}", "group": f"{gpu}_{number:03}", "source": source, "model": row["model"],
            "framework": f"PyTorch {facts['torch'].split('+')[0]} ({written})", "precision": precision.split("-")[0], "gpu": gpu,
            "gpus_per_node": 1, "nodes": 1, "total_gpus": 1, "batch_per_gpu": row["batch"], "architecture": "single",
            "extra": json.dumps(extra, sort_keys=True), "metric": "step_ms", "value": f"{row['time_s'] * 1e3:.6g}",
            "notes": "; ".join(words)}


def rows_of(path):
    """Steps that were timed, and of what machine. Whatever is not a framework's own (8 bits by hand) is no case."""
    facts = {}
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        facts = row.get("context", facts)
        if "time_s" in row and "eight_bits" not in row and row.get("load", "step") == "step":
            yield described(row), facts


def key_of(case, memory=True):
    extra = {name: value for name, value in json.loads(case["extra"]).items() if memory or name != "memory_bytes_per_gpu"}
    return case["model"], case["precision"], case["batch_per_gpu"], case["gpu"], json.dumps(extra)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--source", default="measured here by bench/calibrate")
    parser.add_argument("--but", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--first", type=int, default=1, metavar="NUMBER")
    parser.add_argument("--more", action="store_true", help="notes say the GPU's busy time and the parameters")
    options = parser.parse_args()
    out = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n", restval="")
    out.writeheader()
    others = {key_of(case_of(row, facts, "", 0), False) for path in options.but for row, facts in rows_of(path)}
    seen, number = set(), options.first
    for path in options.files:
        for row, facts in rows_of(path):
            case = case_of(row, facts, options.source, number, options.more)
            if key_of(case) in seen or key_of(case, False) in others:
                continue
            seen.add(key_of(case))
            number += 1
            out.writerow(case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
