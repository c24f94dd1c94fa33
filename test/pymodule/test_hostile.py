"""What bad input gets: ddlsim.Error with the command's own words, never a crash or a silent default."""

import pickle

import ddlsim
import numpy
import pytest
from conftest import JOB, command

MODEL_NODE = ["--model", "resnet50", "--node", "dgx1-v100"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("network", 100), ("network", float("nan")), ("network", "100"), ("network", "100 Gb"), ("network", "-1 Gb/s"),
        ("network", ""), ("nodes", 0), ("nodes", -1), ("nodes", 1.5), ("nodes", float("nan")), ("nodes", float("inf")),
        ("nodes", 10**30), ("nodes", True), ("batch", "many"), ("model", "resnet5000"), ("node", "dgx-9"),
        ("gpu", "v1000"), ("gpu.peak.fp32", 15.7), ("no.such.path", 1), ("strategy", "pss"), ("precision", "fp12"),
        ("efficiency.compute", 2), ("launch_interval", 5), ("model", "/nowhere/at_all.yaml"), ("fidelity", "guess"),
    ],
)  # fmt: skip
def test_the_commands_own_words(path, value):
    with pytest.raises(ddlsim.Error) as caught:
        ddlsim.predict(**{"model": "resnet50", "node": "dgx1-v100", path: value})
    typed = "yes" if value is True else str(value)
    said = command("predict", *MODEL_NODE, "--set", f"{path}={typed}", fails=True)
    error = caught.value
    assert error.message in said and all(note in said for note in error.notes)
    assert error.code in {"parse", "invalid-argument", "not-found", "unsupported", "infeasible", "io", "out-of-time"}
    assert str(error).startswith(error.file or error.message)


def test_an_error_names_choices_and_travels():
    with pytest.raises(ddlsim.Error) as caught:
        ddlsim.predict(model="resnet5", node="dgx1-v100")
    error = caught.value
    assert error.code == "not-found" and "resnet50" in error.choices
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.code, again.notes, again.choices) == (
        error.message,
        error.code,
        error.notes,
        error.choices,
    )


def test_an_error_has_a_place(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("model: mine\nname: Mine\nlayers: [{conv: {out: many}}]\n")
    with pytest.raises(ddlsim.Error) as caught:
        ddlsim.predict(model=file, node="dgx1-v100")
    assert caught.value.file == str(file) and caught.value.line >= 1 and caught.value.column >= 1
    assert f"{file}:" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "takes a text or a number"), (b"4", "takes a text or a number"), ([1, 2], "takes one value, not a list"),
        ((1,), "takes one value"), ({1, 2}, "takes a text or a number"), (1j, "takes a text or a number"),
        (numpy.array([1, 2]), "array of shape (2,)"), (numpy.zeros((2, 2)), "array of shape (2, 2)"),
        (numpy.array([]), "array of shape (0,)"), ("4\0", "NUL character"), ("\ud800", "UTF-8"), ({5: 1}, "no text"),
        (lambda: 1, "takes a text or a number"),
    ],
)  # fmt: skip
def test_values_that_are_none(value, words):
    with pytest.raises(ddlsim.Error) as caught:
        ddlsim.predict(**{**JOB, "nodes": value})
    assert words in caught.value.message and "nodes" in caught.value.message


def test_keys_and_jobs_that_are_none():
    for job in (5, "resnet50", [JOB], None):
        with pytest.raises(ddlsim.Error, match="map of paths"):
            ddlsim.predict(job)
    with pytest.raises(ddlsim.Error, match="NUL"):
        ddlsim.predict(JOB, **{"no\0des": 1})
    with pytest.raises(ddlsim.Error, match="no text"):
        ddlsim.predict({3: 4})
    with pytest.raises(ddlsim.Error, match="no model named|model"):
        ddlsim.predict()
    with pytest.raises(ddlsim.Error, match="no node named"):
        ddlsim.predict(model="resnet50")


def test_a_map_within_itself_ends():
    endless = {}
    endless["gpu"] = endless
    with pytest.raises(ddlsim.Error, match="deep"):
        ddlsim.predict(JOB, gpu=endless)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ddlsim.what_if(JOB, vs=[5]), lambda: ddlsim.what_if(JOB, vs=5), lambda: ddlsim.what_if(JOB, vs=[{}]),
        lambda: ddlsim.what_if(JOB, vs=[{"network": 100}]), lambda: ddlsim.find("network", "fast", JOB),
        lambda: ddlsim.find("colour", "step_time <= 1 s", JOB), lambda: ddlsim.find(5, "step_time <= 1 s", JOB),
        lambda: ddlsim.find("network", None, JOB), lambda: ddlsim.plan(JOB, objective="fame"),
        lambda: ddlsim.plan(JOB, limit=5), lambda: ddlsim.plan(JOB, nodes_up_to=0), lambda: ddlsim.plan(JOB, nodes_up_to=2.5),
        lambda: ddlsim.plan(nodes=2, nodes_up_to=2), lambda: ddlsim.explain(JOB, part="soul"),
        lambda: ddlsim.stalls(JOB, one_server="dgx-9"), lambda: ddlsim.stalls(JOB, measured_stalls="/nowhere.csv"),
        lambda: ddlsim.stall_study(JOB), lambda: ddlsim.recommend(model="resnet50"),
        lambda: ddlsim.recommend(model="resnet50", steps=10, deadline=24), lambda: ddlsim.recommend(model="resnet50", steps=10, budget="5 s"),
        lambda: ddlsim.recommend(model="resnet50", steps=10, region="x"), lambda: ddlsim.collective(nodes=2),
        lambda: ddlsim.collective(node="dgx-a100", op="all_hands"), lambda: ddlsim.collective(node="dgx-a100", smallest=8),
        lambda: ddlsim.collective(node="dgx-a100", factor=1), lambda: ddlsim.collective(node="dgx-a100", compare=["nccl", "nccl"]),
        lambda: ddlsim.collective(node="dgx-a100", compare=["nccl:star"]), lambda: ddlsim.validate(),
        lambda: ddlsim.validate("/nowhere.csv"), lambda: ddlsim.validate(5.5j), lambda: ddlsim.fleet("/nowhere.csv"),
        lambda: ddlsim.fleet(jobs=0), lambda: ddlsim.fleet(jobs="many"), lambda: ddlsim.fleet(population="mars"),
        lambda: ddlsim.curve("nodes", JOB), lambda: ddlsim.curve("nodes", [], JOB), lambda: ddlsim.curve("nodes", [1, 1], JOB),
        lambda: ddlsim.curve(5, [1], JOB), lambda: ddlsim.predict(JOB, data="/nowhere"), lambda: ddlsim.Catalog("/nowhere"),
    ],
)  # fmt: skip
def test_every_question_refuses(ask):
    with pytest.raises(ddlsim.Error) as caught:
        ask()
    assert caught.value.message


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: ddlsim.sweep(JOB, nodes=numpy.zeros((2, 2))), "one dimension"),
        (lambda: ddlsim.sweep(JOB, nodes=[]), "has no value"), (lambda: ddlsim.sweep(JOB, nodes=[1, None]), "None"),
        (lambda: ddlsim.sweep(JOB, nodes=[1, 1]), "twice"), (lambda: ddlsim.sweep(JOB, colour=[1, 2]), "colour"),
        (lambda: ddlsim.sweep(JOB, model=["resnet50", "resnet5"]), "resnet5"), (lambda: ddlsim.sweep(JOB, where="nodes >"), ""),
        (lambda: ddlsim.sweep(JOB, zip=[{"nodes": [1, 2], "batch": [1]}]), "values"), (lambda: ddlsim.sweep(JOB, zip=[5]), "zip"),
        (lambda: ddlsim.sweep(JOB, sample=0), "sample"), (lambda: ddlsim.sweep(JOB, seed=1), "sample"),
        (lambda: ddlsim.sweep(JOB, sample=5, sample_by="dice"), "way to sample"), (lambda: ddlsim.sweep(JOB, shard="5/4"), ""),
        (lambda: ddlsim.sweep(JOB, threads=0), "threads"), (lambda: ddlsim.sweep(JOB, shards=0), "shards"),
        (lambda: ddlsim.sweep(JOB, shards=2, shard="1/2"), "shard and shards"), (lambda: ddlsim.sweep(JOB, nodes=[object()]), "nodes"),
        (lambda: ddlsim.sweep(node="dgx-a100"), "no model named"), (lambda: ddlsim.sweep(model="resnet50"), "no node named"),
        (lambda: ddlsim.sweep(JOB, nodes="1..5000:+1", batch="1..5000:+1"), "points"), (lambda: ddlsim.concat([]), "no part"),
        (lambda: ddlsim.sweep(JOB, nodes=["2\0"]), "NUL"),
    ],
)  # fmt: skip
def test_sweeps_refuse(ask, words):
    with pytest.raises(ddlsim.Error) as caught:
        ask()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ddlsim.Link("net", kind="network", bandwidth=100, latency="1 us"),
        lambda: ddlsim.Link("net", kind="network", bandwidth="100 Gb/s", latency="1 us", colour="red"),
        lambda: ddlsim.Link("a/b", kind="network", bandwidth="100 Gb/s", latency="1 us"),
        lambda: ddlsim.Link(5, kind="network", bandwidth="100 Gb/s", latency="1 us"),
        lambda: ddlsim.Link("net", kind="network", bandwidth=float("nan"), latency="1 us"),
        lambda: ddlsim.Link("net", kind="network", bandwidth=object(), latency="1 us"),
        lambda: ddlsim.Gpu("g", architecture="A", form="sxm", sm_count=-1, peak={"fp32": "1 TFLOP/s"},
                           memory={"size": "1 GB", "bandwidth": "1 GB/s"}, pcie="pcie4-x16", peer_to_peer=True, tdp="400 W"),
        lambda: ddlsim.Node("n", gpu="a100-sxm4-40gb", gpus=0, gpu_interconnect="nvlink", pcie_uplinks=1, network="infiniband-100g"),
        lambda: ddlsim.Model("m", layers=[{"conv": {"out": 1}}], input={"shape": [3, 2], "bytes": 5}, batch=1),
        lambda: ddlsim.Model("m", layers=[], input={"shape": [3], "bytes": "5 B"}, batch=1),
        lambda: ddlsim.Model("m", layers=[{"linaer": {"out": 3}}], input={"shape": [3], "bytes": "5 B"}, batch=1),
    ],
)  # fmt: skip
def test_parts_refuse(build):
    with pytest.raises(ddlsim.Error):
        build()
