"""Models, GPUs, links and servers built in Python: the keys of their files as keyword arguments, the same checks."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile

from . import _ddlsim
from ._error import Error

_folder = None
_count = 0


def _own_folder():
    """A folder of this process: a child of a fork has one of its own."""
    global _folder
    if _folder is None or _folder[0] != os.getpid():
        _folder = (os.getpid(), tempfile.mkdtemp(prefix="ddlsim-"))
        atexit.register(_remove, *_folder)
    return _folder[1]


def _remove(process, folder):
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _plain(value):
    if isinstance(value, _Part):
        return value._ddlsim_file()
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "__fspath__"):
        return os.fspath(value)
    raise Error(f"takes texts, numbers, lists and maps, not {type(value).__name__}")


class _Part:
    """A document of the catalogue's schema."""

    _key = ""
    _sourced = ()  # what the reader wants a source of; nobody needs to write "stated in Python"

    def __init__(self, id, **keys):
        if not isinstance(id, str) or not id or "/" in id or "\0" in id:
            raise Error(f"{id!r} is no id of a {self._key}", notes=("a word, as 'my-cluster'",))
        sources = dict(keys.pop("sources", None) or {})
        keys = {name: value for name, value in keys.items() if value is not None}
        for name in self._sourced:
            if name in keys:
                sources.setdefault(name, "stated in Python")
        document = {self._key: id, "name": keys.pop("name", id), **keys, "sources": sources}
        self.id = id
        self._keys = (id, {**keys, "name": document["name"], "sources": sources})
        #: The document, as a file of the catalogue would have it (JSON is YAML).
        self.text = json.dumps(document, default=_plain, indent=1, ensure_ascii=False)
        self._file = None
        self._check(self.text, f"{type(self).__name__}({id!r})")

    def _ddlsim_file(self):
        """The document as a file of this process."""
        global _count
        folder = _own_folder()
        if self._file is None or not self._file.startswith(folder + os.sep):
            _count += 1
            inside = os.path.join(folder, str(_count))
            os.mkdir(inside)
            self._file = os.path.join(inside, f"{self.id}.yaml")
            with open(self._file, "w", encoding="utf-8") as file:
                file.write(self.text)
        return self._file

    def __reduce__(self):
        return (_again, (type(self), *self._keys))

    def __repr__(self):
        return f"<ddlsim.{type(self).__name__} {self.id!r}>"


def _again(kind, id, keys):
    return kind(id, **keys)


class Model(_Part):
    """A model of your own: the keys of a model's file (models/README.md) as keyword arguments.

    id         its name
    layers     a list, each {operator: {key: value}}, in forward order: {"linear": {"out": 1000}}
    input      {"shape": [...], "bytes": "150528 B"}: of one sample; bytes with a unit
    batch      samples per GPU and pass when nobody says otherwise
    optimizer  sgd, sgd-momentum, adam;  sample, task: words;  dimensions: {name: size};  sources: {key: where from}

    >>> net = Model("mlp", input={"shape": [784], "bytes": "3136 B"}, batch=256,
    ...             layers=[{"linear": {"out": 4096}}, {"relu": {}}, {"linear": {"out": 10}}])
    >>> net.parameters
    3256330
    """

    _key = "model"
    _sourced = ("layers", "input", "batch", "global_batch", "optimizer", "dimensions", "published", "measured_on")

    def __init__(
        self, id, *, layers, input, batch, optimizer="sgd-momentum", sample="sample", task="not stated", **keys
    ):
        super().__init__(
            id, task=task, sample=sample, batch=batch, optimizer=optimizer, input=input, **keys, layers=layers
        )

    def _check(self, text, name):
        self._ddlsim_model = _ddlsim.read_model(text, name)

    @property
    def parameters(self):
        """How many parameters it has."""
        return self._ddlsim_model.parameters


class Gpu(_Part):
    """A GPU of your own: the keys of hardware/gpus (hardware/README.md); quantities are texts with units.

    >>> gpu = Gpu("my-gpu", architecture="Ampere", form="sxm", sm_count=108, peak={"fp32": "20 TFLOP/s"},
    ...           memory={"size": "40 GB", "bandwidth": "1555 GB/s"}, pcie="pcie4-x16",
    ...           peer_to_peer=True, tdp="400 W")
    """

    _key = "gpu"
    _sourced = ("sm_count", "peak", "memory", "nvlink", "pcie", "nccl_tuning", "peer_to_peer", "tdp")

    def __init__(self, id, *, architecture, form, sm_count, peak, memory, pcie, peer_to_peer, tdp, **keys):
        if isinstance(peer_to_peer, bool):
            peer_to_peer = "yes" if peer_to_peer else "no"
        super().__init__(
            id,
            architecture=architecture,
            form=form,
            sm_count=sm_count,
            peak=peak,
            memory=memory,
            pcie=pcie,
            peer_to_peer=peer_to_peer,
            tdp=tdp,
            **keys,
        )

    def _check(self, text, name):
        _ddlsim.check_gpu(text, name)


class Link(_Part):
    """A link of your own: the keys of hardware/links; `bandwidth` and `latency` are texts with units.

    >>> Link("my-net", kind="network", bandwidth="200 Gb/s", latency="3 us", transport="roce")
    <ddlsim.Link 'my-net'>
    """

    _key = "link"
    _sourced = ("transport", "bandwidth", "latency")

    def __init__(self, id, *, kind, bandwidth, latency, **keys):
        super().__init__(id, kind=kind, bandwidth=bandwidth, latency=latency, **keys)

    def _check(self, text, name):
        _ddlsim.check_link(text, name)


class Node(_Part):
    """A server of your own: the keys of hardware/nodes. `gpu` and the links may be names, files, Gpu or Link.

    >>> node = Node("my-server", gpu="a100-sxm4-40gb", gpus=8, gpu_interconnect="nvlink", pcie_uplinks=4,
    ...             network={"link": "infiniband-100g", "count": 4})
    """

    _key = "node"
    _sourced = (
        "gpu", "gpus", "gpu_interconnect", "nvlink", "nvlink_pairs", "pcie_uplinks", "host_link", "network", "host",
        "vcpus", "processor", "host_memory", "disk",
    )  # fmt: skip

    def __init__(self, id, *, gpu, gpus, gpu_interconnect, network, pcie_uplinks, **keys):
        if isinstance(network, (str, Link)):
            network = {"link": network, "count": 1}
        super().__init__(
            id,
            gpu=gpu,
            gpus=gpus,
            gpu_interconnect=gpu_interconnect,
            pcie_uplinks=pcie_uplinks,
            network=network,
            **keys,
        )

    def _check(self, text, name):
        _ddlsim.check_node(text, name)
