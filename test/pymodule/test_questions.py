"""Every question: the answer is the command's JSON, and its fields are attributes."""

import copy
import json
import pickle

import ddlsim
import pytest
from conftest import FLAGS, JOB, command, command_json


def test_predict_is_the_commands():
    p = ddlsim.predict(**JOB)
    told = command_json("predict", *FLAGS)
    assert p.to_dict() == told
    expected = told["prediction"]
    for name, value in expected.items():
        got = getattr(p, name)
        if isinstance(got, tuple):
            got = list(got)
        assert (got.to_dict() if hasattr(got, "to_dict") else got) == value or name in ("traffic", "critical_path")
    assert [row.to_dict() for row in p.traffic] == expected["traffic"]
    assert p.traffic[0].link == "network" and p.memory.weights_bytes > 0 and p.parallel.data == 32
    assert p.title.startswith("ResNet-50") and p.render("csv") == command("predict", *FLAGS, "--format", "csv")
    assert str(p) + "\n" == command("predict", *FLAGS)


def test_a_prediction_shows_itself():
    p = ddlsim.predict(**JOB)
    step, rate = f"{p.step_time_s * 1e3:.4g}", f"{p.throughput_samples_per_s:.4g}"
    assert repr(p) == f"<ddlsim.Prediction: step {step} ms, {rate} images/s on 32 GPUs, bound by network>"
    assert "<svg" in p._repr_html_() and p.render("svg") in p._repr_html_()
    with pytest.raises(AttributeError, match="step_time_s"):
        p.step_tim
    with pytest.raises(AttributeError):
        p.step_time_s = 1
    with pytest.raises(TypeError, match="to_dict"):
        pickle.dumps(p)


def test_settings_in_every_form():
    direct = ddlsim.predict(**JOB, **{"gpu.memory_bandwidth": "2 TB/s", "gpu": "a100-sxm4-40gb"})
    assert (
        direct.step_time_s
        == ddlsim.predict(JOB, gpu={"name": "a100-sxm4-40gb", "memory_bandwidth": "2 TB/s"}).step_time_s
    )
    assert (
        direct.step_time_s
        == ddlsim.predict({**JOB, "gpu": "a100-sxm4-40gb"}, {"gpu": {"memory_bandwidth": "2 TB/s"}}).step_time_s
    )
    later = ddlsim.predict({"nodes": 1}, JOB, {"nodes": 2}, nodes=8)
    assert later.gpus == 64
    assert ddlsim.predict(**JOB, gpu=None).to_dict() == ddlsim.predict(**JOB).to_dict()


def test_numbers_of_numpy_and_paths(root):
    import numpy

    plain = ddlsim.predict(**{**JOB, "nodes": 2, "batch": 32}).to_dict()
    assert ddlsim.predict(**{**JOB, "nodes": numpy.int32(2), "batch": numpy.float64(32)}).to_dict() == plain
    assert ddlsim.predict(**{**JOB, "nodes": numpy.array(2), "batch": 32.0}).to_dict() == plain
    by_file = ddlsim.predict(**{**JOB, "nodes": 2, "batch": 32, "model": root / "models/resnet50.yaml"})
    assert by_file.step_time_s == plain["prediction"]["step_time_s"]


def test_a_map_is_no_flag(tmp_path):
    runs = {"model": "resnet50", "node": "dgx1-v100", "nodes": 4}
    told = ddlsim.predict(**runs, **{"measured.steps": "1x8 = 213 ms"}).to_dict()
    assert ddlsim.predict(**runs, measured={"steps": "1x8 = 213 ms"}).to_dict() == told
    assert ddlsim.predict({"measured": {"steps": "1x8 = 213 ms"}}, **runs).to_dict() == told
    assert len(ddlsim.sweep(**{**runs, "nodes": [2, 4]}, measured={"steps": "1x8 = 213 ms"})) == 2
    with pytest.raises(ddlsim.Error, match="unknown setting 'measured.stepz'"):
        ddlsim.predict(**runs, measured={"stepz": "1x8 = 213 ms"})


def test_json_is_as_the_schema_says_of_whom():
    told = json.loads(command("predict", *FLAGS, "--json"))
    assert told["program"]["data"] and ddlsim.predict(JOB).to_dict()["program"] == told["program"]
    answer = ddlsim.what_if(JOB, vs=[{"nodes": 2}])
    for one in (answer, answer.baseline, answer.alternatives[0].prediction):
        assert json.loads(one.render("json"))["program"] == told["program"]


def test_flags_of_the_command_are_keywords():
    """Every flag of a scenario has a keyword of its name, which means the same setting."""
    import re

    values = {
        "model": "llama_3_1_8b", "node": "dgx-h100", "gpu": "a100-sxm4-80gb", "nodes": "2", "gpus-per-node": "4",
        "network": "100 Gb/s", "strategy": "allreduce", "batch": "2", "precision": "bf16", "tp": "2", "pp": "2",
        "cp": "2", "ep": "1", "etp": "1", "dp": "1", "schedule": "gpipe", "zero": "1", "recompute": "full", "micro-batch": "2",
        "global-batch": "64", "measured-step": "180 ms", "measured": "nothing.csv", "dataset": "imagenet",
        "workers": "3", "fidelity": "analytic", "samples": "100000", "tokens": "300e9", "epochs": "3", "steps": "1000",
        "carbon": "400 g/kWh", "price": "12 $/h", "spot": None, "scenario": "nothing.yaml", "set": "nodes=2",
        "failures": "llama3-405b", "mtbf-gpu": "50000 h", "mtbf-node": "90000 h", "mtbf-switch": "1e6 h", "spares": "2",
        "checkpoint-mode": "asynchronous", "checkpoint-every": "20 min", "checkpoint-bandwidth": "10 GB/s",
    }  # fmt: skip
    base = {"model": "llama_3_1_8b", "node": "dgx-h100", "nodes": 2}
    beside = {"epochs": {"samples": "1000"}, "spot": {"node": "p4d.24xlarge"}, "dataset": {"model": "resnet50"},
              "workers": {"model": "resnet50", "dataset": "imagenet"}, "tokens": {"epochs": 1},
              **{name: {"failures": "llama3-405b"} for name in ("mtbf-gpu", "mtbf-node", "mtbf-switch", "spares",
                 "checkpoint-mode", "checkpoint-every", "checkpoint-bandwidth")}}  # fmt: skip
    flags = set(re.findall(r"^ +(?:-., ?)?--([a-z-]+)", command("help", "predict"), re.MULTILINE))
    own = {"help", "format", "json", "columns", "trace", "chakra", "curve", "data", "goodput", "save"}
    assert flags - own == set(values)
    for flag in sorted(flags - own - {"scenario", "set"}):
        job = {**base, **beside.get(flag, {})}
        typed = [part for name, value in job.items() if name != flag for part in (f"--{name}", str(value))]
        typed += [f"--{flag}"] + ([] if values[flag] is None else [values[flag]])
        job[flag.replace("-", "_")] = True if values[flag] is None else values[flag]
        try:
            told = ddlsim.predict(**job).to_dict()
        except ddlsim.Error as error:
            assert error.message in command("predict", *typed, fails=True), flag
        else:
            assert told == command_json("predict", *typed), flag


def test_what_if():
    w = ddlsim.what_if(**JOB, vs=[{"network": "100 Gb/s"}, {"name": "rings", "strategy": "allreduce"}])
    told = command_json(
        "what-if", *FLAGS, "--vs", "--network", "100 Gb/s", "--vs", "--strategy", "allreduce", "--name", "rings"
    )
    assert w.to_dict() == told
    assert w.baseline.to_dict()["prediction"] == told["baseline"]
    assert [one.name for one in w.alternatives] == ["network = 100 Gb/s", "rings"]
    assert w.alternatives[1].changes == {"strategy": "allreduce"}
    assert w.alternatives[1].prediction.to_dict()["prediction"] == told["alternatives"][1]["prediction"]
    assert w.alternatives[0].speedup == told["alternatives"][0]["speedup"]
    assert ddlsim.what_if(**JOB).to_dict() == command_json("what-if", *FLAGS)
    assert "<svg" in w._repr_html_() and repr(w).startswith("<ddlsim.WhatIf: ")


def test_find():
    f = ddlsim.find("network", "scaling_efficiency >= 90 %", **JOB)
    assert f.to_dict() == command_json("find", "network", "--such-that", "scaling_efficiency >= 90 %", *FLAGS)
    assert f.prediction.scaling_efficiency >= 0.9 and f._repr_html_().startswith("<pre>")
    f = ddlsim.find("nodes", "throughput >= 30000 images/s", JOB, start=1, stop=64)
    assert f.to_dict() == command_json(
        "find", "nodes", "--such-that", "throughput >= 30000 images/s", *FLAGS, "--from", 1, "--to", 64
    )


def test_plan():
    flags = ["--model", "bert_large", "--node", "dgx1-v100", "--global-batch", "512", "--zero", "0"]
    plan = ddlsim.plan(model="bert_large", node="dgx1-v100", global_batch=512, zero=0)
    told = command_json("plan", *flags)
    got = plan.to_dict()
    assert got.pop("seconds") >= 0 and told.pop("seconds") >= 0
    assert got == told
    assert plan.best.prediction.to_dict()["prediction"] == told["best"]["prediction"]
    assert (
        ddlsim.predict(model="bert_large", node="dgx1-v100", **plan.best.plan).step_time_s
        == plan.best.prediction.step_time_s
    )
    assert len(plan.next) == len(told["next"])
    by_cost = ddlsim.plan(
        model="bert_large", node="dgx1-v100", global_batch=512, zero=0, objective="cost", price="98 $/h"
    )
    told = command_json("plan", *flags, "--objective", "cost", "--price", "dgx1-v100=98 $/h")
    assert by_cost.best.plan == told["best"]["plan"] and by_cost.best.cost_usd == told["best"]["cost_usd"]


def test_explain_stalls_and_study():
    assert ddlsim.explain(JOB).to_dict() == command_json("explain", *FLAGS)
    part = ddlsim.explain(JOB, strategy="allreduce", part="all-reduce")
    assert {one.part for one in part.parts} == {"all-reduce"}
    job = {"model": "resnet18", "node": "p3.8xlarge", "nodes": 2, "dataset": "imagenet"}
    flags = ["--model", "resnet18", "--node", "p3.8xlarge", "--nodes", 2, "--dataset", "imagenet"]
    assert ddlsim.stalls(job).to_dict() == command_json("stalls", *flags)
    again = ddlsim.stalls(job, fetch_as_repository=True, one_server="p3.16xlarge")
    assert again.to_dict() == command_json("stalls", *flags, "--fetch-as-repository", "--one-server", "p3.16xlarge")
    study = ddlsim.stall_study(node="p3.16xlarge")
    assert study.to_dict() == command_json("stalls", "--study", "layers", "--node", "p3.16xlarge")


def test_recommend():
    job = {"model": "resnet50", "samples": 1281167, "epochs": 90}
    flags = ["--model", "resnet50", "--samples", 1281167, "--epochs", 90, "--max-nodes", 2, "--catalog", "aws"]
    r = ddlsim.recommend(job, max_nodes=2, catalog=["aws"], deadline="24h")
    assert r.to_dict() == command_json("recommend", *flags, "--deadline", "24h")
    assert "<svg" in r._repr_html_()


def test_collective():
    c = ddlsim.collective(
        node="dgx-a100", nodes=2, smallest="1 KiB", largest="1 MiB", factor=4, compare=["mpi", "nccl:ring"]
    )
    told = command_json("collective", "--node", "dgx-a100", "--nodes", 2, "--min", "1K", "--max", "1M", "--factor", 4,
                        "--compare", "mpi,nccl:ring")  # fmt: skip
    assert c.to_dict() == told
    forced = ddlsim.collective(node="dgx-a100", smallest="1 MiB", largest="1 MiB", library="nccl", algorithm="ring")
    assert forced.to_dict() == command_json("collective", "--node", "dgx-a100", "--min", "1M", "--max", "1M",
                                            "--library", "nccl", "--algorithm", "ring")  # fmt: skip


def test_validate_and_fleet(root, tmp_path):
    cases = root / "bench/accuracy/cases/ddp_csc.csv"
    assert ddlsim.validate(cases, anchor="first").to_dict() == command_json("validate", cases, "--anchor", "first")
    kernels = ddlsim.validate(cases, software="none").to_dict()
    assert kernels == command_json("validate", cases, "--set", "software=none")
    assert kernels["mape"] != ddlsim.validate(cases).to_dict()["mape"]
    drawn = ddlsim.fleet(jobs=2000, seed=3, what_if=True)
    assert drawn.to_dict() == command_json("fleet", "--jobs", 2000, "--seed", 3, "--what-if")
    table = tmp_path / "jobs.csv"
    command("fleet", "--jobs", 500, "--seed", 3, "--generate", table)
    assert ddlsim.fleet(table).to_dict() == command_json("fleet", table)


def test_curve():
    c = ddlsim.curve("nodes=1..8:x2", **{**JOB, "nodes": None})
    told = command_json("predict", *[one for i, one in enumerate(FLAGS) if i not in (4, 5)], "--curve", "nodes=1..8:x2")
    assert c.to_dict() == told
    assert [one.prediction.gpus for one in c.points] == [8, 16, 32, 64]
    assert ddlsim.curve("nodes", [1, 2, 4, 8], {**JOB, "nodes": None}).to_dict() == told


def test_records_are_maps():
    record = ddlsim.predict(**JOB).memory
    assert dict(record) == record.to_dict() and "weights_bytes" in dir(record)
    assert pickle.loads(pickle.dumps(record)) == record == copy.deepcopy(record)
    with pytest.raises(AttributeError, match="do not change"):
        record.weights_bytes = 1
    json.dumps(record.to_dict())
