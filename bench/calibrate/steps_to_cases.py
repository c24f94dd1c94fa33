#!/usr/bin/env python3
"""Turns what ground_truth.py and zoo_steps.py measured into a table of cases, which `ddlsim validate` predicts and compares.

  python3 steps_to_cases.py steps.jsonl zoo.jsonl > mine.csv && ddlsim validate mine.csv

Of a configuration that both measured the first file's row counts. --source says where the rows come from.
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


def described(row):
    """A line of ground_truth.py as zoo_steps.py writes it."""
    if "optimizer" in row:
        return row
    name = row["model"]
    row = {**row, "optimizer": OPTIMIZERS.get(name, "adamw"), "precision": row["precision"].replace("bf16", "amp")}
    return {**row, "layout": "channels-first"} if name in IMAGES else {**row, "sequence": SEQUENCES[name]}


def case_of(row, facts, source, number):
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
    if row.get("attention") == "eager":
        extra["flash_attention"] = "no"
    if parts > 1:
        extra.update({"grad_accum": parts, "micro_batch": row["batch"], "global_batch": row["batch"] * parts})
    if row["model"] == "t5_base":
        extra["seq_len_dec"] = 114
    if row["model"] == "gpt2_medium" and "reserved_bytes" not in row:
        extra["activation"] = "gelu"  # nn.GELU, where transformers' is of single operations
    gpu = GPUS.get(facts["gpu"], facts["gpu"])
    written = "by hand" if "parameters" in row and "reserved_bytes" not in row else "torchvision" if "layout" in row else "transformers"
    words = ["weights and states in bf16"] if precision == "bf16" else ["autocast"] if precision.startswith("amp") else []
    words += [f"{row['wall_s'] * 1e3:.2f} ms by the host's clock"]
    return {"id": f"{gpu.split('-')[0].lower()}_{number:03}", "group": f"{gpu}_{number:03}", "source": source, "model": row["model"],
            "framework": f"PyTorch {facts['torch'].split('+')[0]} ({written})", "precision": precision.split("-")[0], "gpu": gpu,
            "gpus_per_node": 1, "nodes": 1, "total_gpus": 1, "batch_per_gpu": row["batch"], "architecture": "single",
            "extra": json.dumps(extra, sort_keys=True), "metric": "step_ms", "value": f"{row['time_s'] * 1e3:.6g}",
            "notes": "; ".join(words)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--source", default="measured here by bench/calibrate")
    options = parser.parse_args()
    out = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n", restval="")
    out.writeheader()
    seen, number = set(), 0
    for path in options.files:
        facts = {}
        for line in open(path, encoding="utf-8"):
            row = json.loads(line)
            facts = row.get("context", facts)
            if "time_s" not in row:
                continue
            case = case_of(described(row), facts, options.source, number + 1)
            key = (case["model"], case["precision"], case["batch_per_gpu"], case["gpu"], case["extra"])
            if key in seen:
                continue
            seen.add(key)
            number += 1
            out.writerow(case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
