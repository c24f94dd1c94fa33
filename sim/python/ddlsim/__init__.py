"""How long a training step takes on a cluster, what holds it back, and what would change it.

    import ddlsim
    p = ddlsim.predict(model="resnet50", node="dgx-a100", nodes=4, network="100 Gb/s")
    p.step_time_s, p.throughput_samples_per_s, p.breakdown_s.communication_exposed, p.interval_90_s

The questions are those of the command: predict, what_if, find, plan, explain, stalls, stall_study, recommend,
collective, validate, fleet, sweep, curve. Answers have the fields of the command's JSON as attributes, in SI units as
their names say (_s: seconds, _bytes, _per_s), `to_dict()` (that JSON), `render(format)`, `print(answer)` (the command's
text) and, in a notebook, the report's picture.

Settings are keyword arguments, the paths of `ddlsim list settings` and the command's flags (tp, pp, global_batch, ...).
Paths with dots stand in maps:

    ddlsim.predict(model="bert_large", node="dgx-a100", gpu={"memory_bandwidth": "2 TB/s"})
    ddlsim.predict({"model.sequence": 512}, model="bert_large", node="dgx-a100")
    ddlsim.predict(cluster, model="bert_large", **{"efficiency.compute": "50 %"})     # cluster: a dict of settings

A quantity is a text with its unit ("100 Gb/s", "5 us"): a plain number is refused where a unit is needed. None is as if
nothing had been said. What has no answer raises ddlsim.Error: message, code, place, choices.

The catalogue (models/ and hardware/) is that of DDLSIM_DATA, else the one beside the package, else the source tree's;
`data=` of every question takes another: a folder, or a ddlsim.Catalog that was opened once.
"""

from __future__ import annotations

import os
import threading

from . import _ddlsim
from ._error import Error
from ._parts import Gpu, Link, Model, Node
from ._results import (
    Breakdown,
    Collective,
    Curve,
    Explanation,
    Fleet,
    Found,
    Plan,
    Prediction,
    Recommendation,
    Record,
    Result,
    Stalls,
    StallStudy,
    Validation,
    WhatIf,
)
from ._sweep import Column, Shard, Sweep, concat, run_shard
from ._sweep import run as _run_sweep

__version__ = _ddlsim.version

__all__ = [
    "Breakdown", "Catalog", "Collective", "Column", "Curve", "Error", "Explanation", "Fleet", "Found", "Gpu", "Link",
    "Model", "Node", "Plan", "Prediction", "Recommendation", "Record", "Result", "Shard", "StallStudy", "Stalls",
    "Sweep", "Validation", "WhatIf", "collective", "concat", "curve", "explain", "find", "fleet", "plan", "predict",
    "recommend", "run_shard", "settings", "stall_study", "stalls", "sweep", "validate", "what_if",
]  # fmt: skip


class Catalog(_ddlsim.Catalog):
    """A folder that holds models/ and hardware/, opened once. Threads may share it; it travels as its path.

    root       the folder
    ids(kind)  the ids of a kind: models, gpus, links, nodes, instances, storage, cpus, datasets, ...

    >>> "resnet50" in ddlsim.Catalog(ddlsim.settings.__globals__["_data_folder"]()).ids("models")
    True
    """

    def __init__(self, root):
        super().__init__(os.fspath(root))

    def __reduce__(self):
        return (Catalog, (self.root,))

    def __repr__(self):
        return f"<ddlsim.Catalog {self.root!r}>"


def _data_folder():
    """$DDLSIM_DATA, else share/ddlsim of where the package is installed, else the source tree."""
    stated = os.environ.get("DDLSIM_DATA")
    if stated:
        return stated
    folder = os.path.dirname(os.path.abspath(__file__))
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        shared = os.path.join(folder, "share", "ddlsim")
        if os.path.isdir(os.path.join(shared, "models")):
            return shared
    return _ddlsim.source_data


_default = None
_opening = threading.Lock()


def _catalog(data):
    global _default
    if data is not None:
        return data if isinstance(data, _ddlsim.Catalog) else Catalog(data)
    if _default is None:
        with _opening:
            if _default is None:
                _default = Catalog(_data_folder())
    return _default


def settings():
    """Every setting as (path, meaning, example), as `ddlsim list settings` shows them.

    >>> [meaning for path, meaning, example in ddlsim.settings() if path == "nodes"]
    ['how many servers']
    """
    return _ddlsim.settings()


@_ddlsim.calls_predict(_catalog)
def predict(*jobs, data=None, **settings):
    """How long a step of a job takes, and where it goes.

    Arguments are settings; `jobs` are maps of them, of which the later win. The usual ones:

    model            a name (`ddlsim.Catalog(...).ids("models")`), a file, or a ddlsim.Model. Needed
    node             a server or cloud instance: a name, a file, or a ddlsim.Node. Needed
    nodes            how many servers (1);  gpus_per_node: GPUs of each that the job uses (all)
    gpu              another GPU in that server: a name, a file, a ddlsim.Gpu, or {"peak": {"fp32": "20 TFLOP/s"}, ...}
    network          of a server, with its unit: "100 Gb/s", a link's name, "4 x infiniband-100g", or a ddlsim.Link
    strategy         "allreduce", "ps", "pearl", or a framework's way ("pytorch-ddp")
    batch            samples per GPU and pass (the model's, or what divides a stated global_batch)
    global_batch     samples of a step over all replicas
    precision        "fp32", "tf32", "fp16", "bf16", "fp8"
    tp, pp, cp, ep   tensor, pipeline, context, expert ranks (1);  zero, schedule, recompute
    dataset          what is read ("imagenet");  workers: of a GPU's loader
    samples, epochs, steps   how long the run is: then `training` says its time, cost (USD), energy (J)
    fidelity         "aggregate", "analytic", "event"

    All paths: ddlsim.settings(). `data`: a Catalog or a folder (the default catalogue).

    Returns a Prediction: step_time_s and interval_90_s in seconds, throughput_samples_per_s, breakdown_s, ...
    Raises ddlsim.Error: what the command would have said.

    >>> p = ddlsim.predict(model="resnet50", node="dgx-a100", nodes=4, network="100 Gb/s")
    >>> p.gpus, p.bottleneck
    (32, 'gpu compute')
    >>> 0.05 < p.step_time_s < 0.5
    True
    >>> ddlsim.predict(model="resnet50", node="dgx-a100", network=100)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ddlsim.Error: network: '100' is not a bandwidth: the unit is missing
      units: B/s, kB/s, ...
    """


def what_if(*jobs, vs=None, data=None, **settings):
    """A job beside what it could be; without `vs`, every upgradable part is tried, one at a time, best first.

    vs   alternatives: each a map of changed settings, with a "name" if you like

    Returns a WhatIf: baseline (a Prediction), alternatives (name, changes, speedup, speedup_interval_90,
    probability_faster, prediction). Speedup is of samples per second.

    >>> w = ddlsim.what_if(model="resnet50", node="dgx1-v100", nodes=4, network="25 Gb/s", strategy="ps",
    ...                    vs=[{"network": "100 Gb/s"}, {"strategy": "allreduce"}])
    >>> [(one.name, round(one.speedup, 2)) for one in w.alternatives]
    [('network = 100 Gb/s', 1.28), ('strategy = allreduce', 1.91)]
    """
    return WhatIf(_ddlsim.what_if(_catalog(data), jobs, settings, _list("vs", vs)))


def find(variable, such_that, *jobs, start=None, stop=None, sure=None, data=None, **settings):
    """Which value of a setting makes a condition hold: the inverse question.

    variable     any setting that is a number: "network", "batch", "nodes", "efficiency.compute"
    such_that    "METRIC >= VALUE", <= or =; step_time, throughput, scaling_efficiency, mfu, memory, cost,
                 time_to_train, energy, CO2, exposed_communication
    start, stop  the least and the largest value to try, with their unit
    sure         it is to hold with this probability ("90%"), by the prediction's interval; else for the expected step

    Returns a Found: reached, value (SI, of `unit`), probability (that it holds there), settings {path: value}, prediction (there), limit, tried.

    >>> f = ddlsim.find("network", "scaling_efficiency >= 90 %", model="resnet50", node="dgx1-v100", nodes=4)
    >>> f.reached, f.prediction.scaling_efficiency >= 0.9
    (True, True)
    """
    start, stop = _text("from", start), _text("to", stop)
    return Found(
        _ddlsim.find(
            _catalog(data), jobs, settings, _word("variable", variable), _word("such_that", such_that), start, stop,
            _text("sure", sure),
        )
    )


def plan(*jobs, objective="time", limit=None, nodes_up_to=None, data=None, **settings):
    """The best way to split a job over GPUs: every legal plan is compared. What is stated stays as it is.
    schedule, zero and recompute may name several values, schedule="1f1b,interleaved": plans choose among them.

    objective    "time", "memory" or "cost" (of a step; `price="98 $/h"` of a server)
    limit        answer after this long with the best so far ("60 s")
    nodes_up_to  compare clusters of 1, 2, 4, ... servers too

    Returns a Plan: best and next (plan {path: value}, prediction), pareto, sensitivity.

    >>> best = ddlsim.plan(model="resnet50", node="dgx1-v100", global_batch=512, zero=0, precision="fp32").best
    >>> best.plan["batch"], best.prediction.gpus
    ('64', 8)
    """
    if nodes_up_to is not None and "nodes" in settings:
        raise Error("nodes and nodes_up_to", notes=("state one of them",))
    most = None if nodes_up_to is None else _count("nodes_up_to", nodes_up_to)
    return Plan(
        _ddlsim.plan(_catalog(data), jobs, settings, _word("objective", objective), _text("limit", limit), most)
    )


def explain(*jobs, part=None, data=None, **settings):
    """Where every number of a prediction comes from: equations, values, provenance, sources.

    part   "step", "software", "compute", "memory-bound", "launch", "all-reduce", "exposed", "memory", ...; None: all

    Returns an Explanation: parts (part, equation, values, result in `unit`, SI), prediction.

    >>> e = ddlsim.explain(model="resnet50", node="dgx1-v100", nodes=4, part="step")
    >>> abs(e.parts[0].result / e.prediction.step_time_s - 1) < 1e-6
    True
    """
    return Explanation(_ddlsim.explain(_catalog(data), jobs, settings, _text("part", part) or ""))


def stalls(*jobs, one_server=None, fetch_as_repository=False, measured_stalls=None, data=None, **settings):
    """Where the GPUs of a job wait, by differencing predictions: interconnect, network, prep, fetch.

    one_server           the server with as many GPUs that several are compared with (the catalogue's)
    fetch_as_repository  fetch by the formula of Stash's repository, not its paper's
    measured_stalls      a CSV file of your own runs: run,train_s,batches

    Returns Stalls: stalls.interconnect, .network, .prep, .fetch (time_s in seconds, percent as whatif/stalls.h has it).

    >>> s = ddlsim.stalls(model="resnet18", node="p3.8xlarge", nodes=2)
    >>> s.stalls.network.time_s > s.stalls.interconnect.time_s > 0
    True
    """
    server, runs = _text("one_server", one_server) or "", _text("measured_stalls", measured_stalls)
    return Stalls(_ddlsim.stalls(_catalog(data), jobs, settings, server, bool(fetch_as_repository), runs))


def stall_study(*jobs, data=None, **settings):
    """Interconnect and network stalls against depth and gradients: ResNets and VGGs. `model` must not be stated."""
    return StallStudy(_ddlsim.stall_study(_catalog(data), jobs, settings))


def recommend(*jobs, deadline=None, budget=None, catalog=None, max_nodes=None, epochs_by_batch=None, prices=None,
              region=None, limit=None, plans=False, data=None, **settings):  # fmt: skip
    """Which servers to rent for a run: every type x count x batch x strategy, by time, cost and energy.

    deadline, budget   "24h", "500 $": choices beyond are none
    catalog            clouds to choose from: "aws,gcp" or a list; None or "all": all; "none": stated prices alone
    max_nodes          most servers of a choice (16)
    epochs_by_batch, prices, region   as the command's: CSV files, and a region of those prices
    limit              of all searches for plans ("60 s"): of models that no GPU holds, with `plans` of all

    Needs `model` and the length of a run (samples and epochs, or steps); a `node` is the only type that is tried.
    Returns a Recommendation: choices (the cheapest first), cheapest, fastest, pareto, infeasible.

    >>> r = ddlsim.recommend(model="resnet50", samples=1281167, epochs=90, catalog="aws", max_nodes=2, deadline="24h")
    >>> r.cheapest.cost_usd <= r.fastest.cost_usd and r.fastest.time_s <= 24 * 3600
    True
    """
    given = {
        "deadline": deadline, "budget": budget, "max_nodes": max_nodes, "epochs_by_batch": epochs_by_batch,
        "prices": prices, "region": region, "limit": limit, "plans": "yes" if plans else None,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    if catalog is not None:
        clouds = catalog.split(",") if isinstance(catalog, str) else list(catalog)
        if clouds == ["none"]:
            given["clouds"] = []
        elif clouds != ["all"]:
            given["clouds"] = clouds
    return Recommendation(_ddlsim.recommend(_catalog(data), jobs, settings, given))


def collective(*jobs, op="all_reduce", smallest="8 B", largest="1 GiB", factor=2, step=None, library=None,
               algorithm=None, compare=(), table=None, data=None, **settings):  # fmt: skip
    """A collective over message sizes on a cluster, with the columns of nccl-tests. Needs `node`.

    op                 all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, sendrecv
    smallest, largest  sizes with their unit; each is `factor` times the one before, or `step` more
    library            "nccl", "mpi", "mpi-opt", "baidu", "gloo";  algorithm: forced upon it
    compare            libraries side by side: ["mpi", "nccl:ring"]
    table              a file of measurements that answers where it has the operation

    Returns a Collective: rows (size_bytes, time_s, algbw_bytes_per_s, busbw_bytes_per_s); `compared` has each library's.

    >>> c = ddlsim.collective(node="dgx-a100", nodes=2, smallest="1 MiB", largest="4 MiB")
    >>> [int(row.size_bytes) for row in c.rows]
    [1048576, 2097152, 4194304]
    """
    for path, value in (("collective.library", library), ("collective.algorithm", algorithm)):
        if value is not None:
            settings[path] = value
    names = [compare] if isinstance(compare, str) else list(compare)
    if len({*names}) != len(names):
        raise Error("compare: a library stands twice", notes=("name each library once",))
    if names and (library is not None or table is not None):
        raise Error("compare beside library or table", notes=("give one of them",))
    answer = _ddlsim.collective(
        _catalog(data), jobs, settings, _word("op", op), _text("smallest", smallest), _text("largest", largest),
        _count("factor", factor), _text("step", step), names, _text("table", table),
    )  # fmt: skip
    return Collective(answer)


def validate(*cases, anchor="none", data=None, **settings):
    """Predictions beside published measurements: CSV files with the columns of bench/accuracy/README.md.

    anchor     what is given of each group: "none", "first", "node", "rest"
    settings   of every row, whatever it says itself, as software="none"

    Returns a Validation: rows, predicted, mape, median_ape, p90_ape, max_ape, coverage_90 (shares), cases.
    """
    if not cases:
        raise Error("no CASES.csv named", notes=("as ddlsim.validate('cases.csv')",))
    files = [_text("cases", one) for one in cases]
    return Validation(_ddlsim.validate(_catalog(data), files, _word("anchor", anchor), settings))


def fleet(table=None, *, population="pai_2019", jobs=100_000, seed=1, setting=None, what_if=False, data=None):
    """Where the time of many jobs goes, and what would speed them up (Wang et al., IISWC 2019).

    table       a CSV file of jobs (models/README.md); without one, `jobs` are drawn from `population` by `seed`
    setting     hardware/clusters: rates of the base setting
    what_if     also the sweeps: network, PCIe, GPU, memory, ports to AllReduce

    Returns a Fleet: groups (shares of time), speedups, headlines.

    >>> ddlsim.fleet(jobs=1000, seed=1).jobs
    1000
    """
    if table is not None:
        return Fleet(
            _ddlsim.listed_fleet(
                _catalog(data), _text("table", table), _text("setting", setting) or "pai-2019", bool(what_if)
            )
        )
    drawn = (_word("population", population), _count("jobs", jobs), _count("seed", seed), _text("setting", setting))
    return Fleet(_ddlsim.drawn_fleet(_catalog(data), *drawn, bool(what_if)))


def curve(setting, values=None, *jobs, data=None, **settings):
    """One job over the values of one setting.

    setting, values   "nodes", [1, 2, 4]; or both as the command has them: "nodes=1..64:x2"

    Returns a Curve: points (value, prediction), gaps (values without an answer, and why).

    >>> c = ddlsim.curve("nodes", [1, 2, 4], model="resnet50", node="dgx-a100")
    >>> [point.prediction.gpus for point in c.points]
    [8, 16, 32]
    """
    text = _word("setting", setting)
    if isinstance(values, dict):  # a job
        jobs, values = (values, *jobs), None
    if values is not None:
        values = [values] if isinstance(values, str) else _list("values", values)
        text += "=" + ",".join(_text(setting, one) or "" for one in values)
    return Curve(_ddlsim.curve(_catalog(data), jobs, settings, text))


def sweep(*jobs, where=(), zip=(), sample=None, sample_by=None, seed=None, file=None, time_only=False, threads=None,
          shard=None, shards=None, yes=False, data=None, **settings):  # fmt: skip
    """Every combination of the values that settings have, by all cores.

    A setting with a list (or a range, or a numpy array of one dimension) varies; texts are as the command's flags:
    "1..64:x2", "a,b,c".

    where        conditions that points must meet: "nodes * batch <= 4096"
    zip          settings that change together: [{"node": ["dgx1-v100", "dgx-a100"], "batch": [64, 256]}]
    sample       so many points instead of all;  sample_by: "random", "latin-hypercube";  seed
    file         a grid file, beside which the rest stands
    time_only    step time and throughput alone, in a fraction of the time
    threads      how many work (all of the machine's)
    shard        "3/16": this part alone
    shards       a number: nothing runs here, and the answer is that many Shards, picklable work for other processes
                 or machines, as client.map(ddlsim.run_shard, work); ddlsim.concat joins their rows
    yes          go ahead with over 10,000,000 points

    Returns a Sweep (columns as numpy arrays), or a list of Shards.

    >>> rows = ddlsim.sweep(model="resnet50", node="dgx-a100", nodes=[1, 2, 4], batch=[32, 64])
    >>> len(rows), rows.axes
    (6, ('batch', 'nodes'))
    >>> rows["gpus"].tolist()
    [8, 16, 32, 8, 16, 32]
    """
    options = {"where": _list("where", where), "zip": _list("zip", zip)}
    given = {"sample": sample, "sample_by": sample_by, "seed": seed, "threads": threads, "shard": shard, "file": file}
    options.update({name: value for name, value in given.items() if value is not None})
    options.update({name: True for name, value in {"time_only": time_only, "yes": yes}.items() if value})
    if shards is None:
        return _run_sweep(jobs, settings, options, data)
    if shard is not None:
        raise Error("shard and shards", notes=("state one of them",))
    if _count("shards", shards) < 1:
        raise Error("shards: at least 1")
    return [Shard(jobs, settings, options, data, number + 1, shards) for number in range(shards)]


def _text(name, value):
    """A word, a path or a number as text; None stays None."""
    if value is None or isinstance(value, str):
        return _word(name, value) if value is not None else None
    if hasattr(value, "__fspath__"):
        return _word(name, os.fspath(value))
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    raise Error(f"'{name}' takes a text or a number, not {type(value).__name__}")


def _word(name, value):
    if not isinstance(value, str):
        raise Error(f"'{name}' takes a text, not {type(value).__name__}")
    if "\0" in value:
        raise Error(f"'{name}' has a NUL character in its text")
    return value


def _count(name, value):
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int):
        raise Error(f"'{name}' takes a whole number, not {value!r:.60}")
    if not 0 <= value < 2**63:
        raise Error(f"'{name}' is out of range: {value!r:.60}")
    return value


def _list(name, value):
    """One or several as a list."""
    if value is None:
        return []
    if isinstance(value, (str, dict)):
        return [value]
    if not isinstance(value, (list, tuple, range)) and not (
        hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1
    ):
        raise Error(f"'{name}' takes a list, not {type(value).__name__}")
    return list(value)


for _public in __all__:
    if getattr(globals()[_public], "__module__", "").startswith("ddlsim."):
        globals()[_public].__module__ = "ddlsim"
