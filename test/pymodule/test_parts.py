"""Models, GPUs, links and servers built in Python: as if they had been files."""

import json
import pickle

import ddlsim
import pytest
from conftest import command_json

LAYERS = [{"linear": {"out": 4096}}, {"relu": {}}, {"linear": {"out": 10}}]
INPUT = {"shape": [784], "bytes": "3136 B"}


def parts():
    model = ddlsim.Model("mlp", input=INPUT, batch=256, layers=LAYERS)
    gpu = ddlsim.Gpu("my-gpu", architecture="Ampere", form="sxm", sm_count=100, peak={"fp32": "20 TFLOP/s"},
                     memory={"size": "40 GB", "bandwidth": "1555 GB/s"}, pcie="pcie4-x16", peer_to_peer=True, tdp="400 W",
                     nvlink={"link": "nvlink3", "bandwidth": "300 GB/s"})  # fmt: skip
    link = ddlsim.Link("my-net", kind="network", bandwidth="200 Gb/s", latency="3 us", transport="roce")
    node = ddlsim.Node("my-server", gpu=gpu, gpus=8, gpu_interconnect="nvlink", pcie_uplinks=4, network=link)
    return model, gpu, link, node


def test_parts_are_files(tmp_path):
    model, gpu, link, node = parts()
    told = ddlsim.predict(model=model, node=node, nodes=4)
    flags = []
    for name, part in (("model", model), ("node", node)):
        file = tmp_path / f"{part.id}.yaml"
        file.write_text(part.text)
        flags += [f"--{name}", file]
    assert told.to_dict() == command_json("predict", *flags, "--nodes", 4)
    assert told.gpus == 32 and "mlp" in told.title and "my-gpu" in told.title
    assert model.parameters == 784 * 4096 + 4096 + 4096 * 10 + 10
    assert ddlsim.what_if(model=model, node=node, nodes=4).baseline.step_time_s == told.step_time_s
    assert ddlsim.predict(model=model, node="dgx-a100", gpu=gpu, network=link).gpus == 8
    json.loads(model.text)


def test_parts_travel():
    for part in parts():
        again = pickle.loads(pickle.dumps(part))
        assert type(again) is type(part) and again.id == part.id
        assert again.text == part.text or isinstance(part, ddlsim.Node)  # which names the files of its parts
    model, _, _, node = (pickle.loads(pickle.dumps(part)) for part in parts())
    first, _, _, server = parts()
    assert ddlsim.predict(model=model, node=node).step_time_s == ddlsim.predict(model=first, node=server).step_time_s


def test_dimensions_of_a_model():
    layers = [{"embedding": {"rows": 1000, "width": 64, "lookups": "sequence"}}, {"linear": {"out": 64}}]
    net = ddlsim.Model(
        "words", dimensions={"sequence": 128}, input={"shape": ["sequence"], "bytes": "512 B"}, batch=8, layers=layers
    )
    short = ddlsim.predict({"model.sequence": 16}, model=net, node="dgx-a100")
    assert short.step_time_s < ddlsim.predict(model=net, node="dgx-a100").step_time_s


def test_a_fault_names_its_place_and_choices():
    with pytest.raises(ddlsim.Error) as caught:
        ddlsim.Model("mlp", input=INPUT, batch=256, layers=[{"linaer": {"out": 3}}])
    assert caught.value.file == "Model('mlp')" and caught.value.line > 1 and "linear" in caught.value.choices
    with pytest.raises(ddlsim.Error, match="the unit is missing"):
        ddlsim.Link("net", kind="network", bandwidth=100, latency="1 us")
    with pytest.raises(TypeError):
        ddlsim.Link("net")
