from os import PathLike
from typing import Any, Iterable, Iterator, Literal, Mapping, Sequence, Union, overload

import numpy
import numpy.typing
import pandas

__version__: str

# A setting: a quantity is a text with its unit; None is as if nothing had been said.
Setting = Union[str, int, float, "PathLike[str]", Model, Gpu, Link, Node, Mapping[str, Any], Sequence[Mapping[str, Any]], None]
# Several values of one make an axis of a sweep.
Axis = Union[Setting, Sequence[Union[str, int, float]], Sequence[Model], "numpy.typing.NDArray[Any]"]
Job = Mapping[str, Any]
Data = Union["Catalog", str, "PathLike[str]", None]
Path = Union[str, "PathLike[str]"]

class Error(Exception):
    message: str
    code: Literal["parse", "invalid-argument", "not-found", "unsupported", "infeasible", "io", "out-of-time"]
    file: str | None
    line: int | None
    column: int | None
    notes: tuple[str, ...]
    also: tuple[Error, ...]
    @property
    def choices(self) -> tuple[str, ...]: ...
    def __init__(self, message: str, code: str = ..., file: str | None = ..., line: int | None = ...,
                 column: int | None = ..., notes: Iterable[str] = ..., also: Iterable[Error] = ...) -> None: ...

class Catalog:
    root: str
    def __init__(self, root: Path) -> None: ...
    def ids(self, kind: str) -> list[str]: ...

class Record:
    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, name: str) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object) -> bool: ...
    def keys(self) -> Iterable[str]: ...
    def to_dict(self) -> dict[str, Any]: ...

class Breakdown:
    compute: float
    memory: float
    launch: float
    input_exposed: float
    communication: float
    communication_exposed: float
    bubble: float
    other: float
    host_update: float
    unexplained: float
    def to_dict(self) -> dict[str, float]: ...

class Traffic(Record):
    link: str
    bytes: float
    time_s: float

class Segment(Record):
    name: str
    time_s: float

class Memory(Record):
    rank: str
    weights_bytes: float
    gradients_bytes: float
    gradients_later_bytes: float
    master_bytes: float
    optimizer_bytes: float
    weight_casts_bytes: float
    activations_bytes: float
    micro_batches: float
    loss_bytes: float
    working_bytes: float
    buffers_bytes: float
    context_bytes: float
    slack_bytes: float
    tight: bool
    device_bytes: float
    capacity_bytes: float
    host_bytes: float
    host_capacity_bytes: float

class Parallel(Record):
    data: int
    tensor: int
    context: int
    expert: int
    pipeline: int
    virtual_stages: int
    schedule: str
    zero: int
    recompute: str
    micro_batch: int
    passes: int
    global_batch: int
    states: str | None
    offload_optimizer: bool
    offload_weights: bool
    offload_activations: bool
    lora_rank: int
    lora_products: str | None
    frozen_bits: int
    others: dict[str, str]

class Input(Record):
    dataset: str | None
    exposed_s: float
    needed_samples_per_s: float
    needed_copies_bytes_per_s: float

class Training(Record):
    steps: int
    time_s: float
    startup_s: float
    evaluation_s: float
    checkpoints_s: float
    cost_usd: float | None
    energy_j: float
    gpu_utilisation: float

class Power(Record):
    working_w: float
    idle_w: float
    limit_w: float
    slowdown: float

class Prediction:
    title: str
    fidelity: str
    step_time_s: float
    throughput_samples_per_s: float
    scaling_efficiency: float
    bottleneck: str
    interval_90_s: tuple[float, float]
    provenance: str
    breakdown_s: Breakdown
    traffic: list[Traffic]
    input: Input
    memory_bytes_per_gpu: float
    memory: Memory
    fits: bool | None
    mfu: float
    hfu: float
    architecture: str
    gpus: int
    batch_per_gpu: int
    sample: str
    parallel: Parallel
    model_flops_per_s_per_gpu: float
    critical_path: list[Segment]
    notes: tuple[str, ...]
    # Of language models; where prices are known; where a run's length is stated. AttributeError where they are not.
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    bounds_s: Record
    power: Power
    price_usd_per_h: float
    training: Training
    def to_dict(self) -> dict[str, Any]: ...
    def render(self, format: str) -> str: ...
    def _repr_html_(self) -> str: ...

class Result(Record):
    notes: list[str]
    title: str
    def render(self, format: str = ...) -> str: ...
    def _repr_html_(self) -> str: ...

class Alternative(Record):
    name: str
    changes: dict[str, str]
    speedup: float
    speedup_interval_90: list[float]
    probability_faster: float
    prediction: Prediction

class WhatIf(Result):
    baseline: Prediction
    alternatives: list[Alternative]

class Tried(Record):
    value: float
    metric: float
    fits: bool
    holds: bool

class Found(Result):
    variable: str
    unit: str
    condition: str
    metric: str
    reached: bool
    probability: float | None
    value: float | None
    holds: str | None
    always: bool
    range: Record | None
    over_rdma: Record | None
    settings: dict[str, str]
    monotone: bool
    holding: list[Record]
    prediction: Prediction
    limit_setting: str
    limit: Prediction
    tried: list[Tried]
    predictions: int

class PlannedJob(Record):
    plan: dict[str, str]
    prediction: Prediction
    cost_usd: float
    against_best: str

class ParetoPlan(Record):
    plan: dict[str, str]
    gpus: int
    step_time_s: float
    memory_bytes_per_gpu: float
    cost_usd: float | None

class Plan(Result):
    objective: str
    searched: int
    pruned: int
    too_large: int
    seconds: float
    proved: bool
    best: PlannedJob
    next: list[PlannedJob]
    pareto: list[ParetoPlan]
    sensitivity: list[Record]

class ExplainedValue(Record):
    symbol: str
    meaning: str
    value: float
    unit: str
    provenance: str
    source: str

class ExplainedPart(Record):
    part: str
    title: str
    symbol: str
    equation: str
    values: list[ExplainedValue]
    result: float
    unit: str

class Explanation(Result):
    step_time_s: float
    parts: list[ExplainedPart]
    prediction: Prediction

class Stall(Record):
    time_s: float
    percent: float

class StallParts(Record):
    interconnect: Stall | None
    network: Stall | None
    prep: Stall | None
    fetch: Stall | None

class Stalls(Result):
    stalls: StallParts
    runs: Record
    one_server: str
    steps_per_epoch: float | None

class StudiedModel(Record):
    model: str
    parameters: int
    gradient_tensors: int
    one_gpu_step_time_s: float
    stalls: StallParts

class StallStudy(Result):
    models: list[StudiedModel]

class ServerChoice(Record):
    node: str
    nodes: int
    gpus: int
    batch: int
    micro_batch: int
    passes: int
    strategy: str
    price_usd_per_h: float
    price_region: str | None
    price_date: str | None
    step_time_s: float
    steps: int
    stalls: Record | None
    probability_in_deadline: float | None
    time_s: float
    cost_usd: float
    energy_j: float
    prediction: Prediction

class Recommendation(Result):
    deadline_s: float | None
    budget_usd: float | None
    compared: int
    cheapest: ServerChoice
    fastest: ServerChoice
    pareto: list[ServerChoice]
    choices: list[ServerChoice]
    infeasible: list[Record]
    would_help: list[str]

class CollectiveRow(Record):
    size_bytes: float
    time_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    algorithm: str
    protocol: str
    provenance: str

class Collective(Result):
    op: str
    gpus: int
    nodes: int
    library: str
    rows: list[CollectiveRow]
    compared: list[Record]

class ValidatedCase(Record):
    id: str
    metric: str
    measured: float
    predicted: float
    error: float
    interval_90: list[float]
    provenance: str

class Validation(Result):
    anchor: str
    rows: int
    predicted: int
    unsupported: list[Record]
    mape: float
    median_ape: float
    p90_ape: float
    max_ape: float
    coverage_90: float
    sets: list[Record]
    cases: list[ValidatedCase]

class Fleet(Result):
    setting: str
    jobs: int
    groups: list[Record]
    speedups: list[Record]
    headlines: list[Record]

class CurvePoint(Record):
    value: str
    perfect_throughput_samples_per_s: float
    prediction: Prediction

class Curve(Result):
    setting: str
    points: list[CurvePoint]
    gaps: list[Record]

class Column:
    codes: numpy.typing.NDArray[numpy.int32]
    texts: list[str]
    def to_numpy(self) -> numpy.typing.NDArray[Any]: ...

class Sweep:
    axes: tuple[str, ...]
    @property
    def columns(self) -> list[str]: ...
    @property
    def answered(self) -> numpy.typing.NDArray[numpy.bool_]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> numpy.typing.NDArray[Any]: ...
    def text(self, name: str) -> Column: ...
    def to_pandas(self) -> pandas.DataFrame: ...

class Shard:
    number: int
    of: int
    def __call__(self) -> Sweep: ...

class _Part:
    id: str
    text: str

class Model(_Part):
    parameters: int
    def __init__(self, id: str, *, layers: Sequence[Mapping[str, Any]], input: Mapping[str, Any], batch: int,
                 optimizer: str = ..., sample: str = ..., task: str = ..., **keys: Any) -> None: ...

class Gpu(_Part):
    def __init__(self, id: str, *, architecture: str, form: str, sm_count: int, peak: Mapping[str, str],
                 memory: Mapping[str, str], pcie: str | Link, peer_to_peer: bool | str, tdp: str, **keys: Any) -> None: ...

class Link(_Part):
    def __init__(self, id: str, *, kind: str, bandwidth: str, latency: str, **keys: Any) -> None: ...

class Node(_Part):
    def __init__(self, id: str, *, gpu: str | Gpu, gpus: int, gpu_interconnect: str,
                 network: str | Link | Mapping[str, Any], pcie_uplinks: int, **keys: Any) -> None: ...

def settings() -> list[tuple[str, str, str]]: ...
def predict(*jobs: Job, data: Data = ..., **settings: Setting) -> Prediction: ...
def what_if(*jobs: Job, vs: Job | Sequence[Job] | None = ..., data: Data = ..., **settings: Setting) -> WhatIf: ...
def find(variable: str, such_that: str, *jobs: Job, start: str | int | float | None = ...,
         stop: str | int | float | None = ..., sure: str | float | None = ..., data: Data = ..., **settings: Setting) -> Found: ...
def plan(*jobs: Job, objective: str = ..., limit: str | None = ..., nodes_up_to: int | None = ..., data: Data = ...,
         **settings: Setting) -> Plan: ...
def explain(*jobs: Job, part: str | None = ..., data: Data = ..., **settings: Setting) -> Explanation: ...
def stalls(*jobs: Job, one_server: Path | None = ..., fetch_as_repository: bool = ..., measured_stalls: Path | None = ...,
           data: Data = ..., **settings: Setting) -> Stalls: ...
def stall_study(*jobs: Job, data: Data = ..., **settings: Setting) -> StallStudy: ...
def recommend(*jobs: Job, deadline: str | None = ..., budget: str | None = ..., catalog: str | Sequence[str] | None = ...,
              max_nodes: int | None = ..., epochs_by_batch: Path | None = ..., prices: Path | None = ...,
              region: str | None = ..., limit: str | None = ..., plans: bool = ..., data: Data = ..., **settings: Setting) -> Recommendation: ...
def collective(*jobs: Job, op: str = ..., smallest: str = ..., largest: str = ..., factor: int = ..., step: str | None = ...,
               library: str | None = ..., algorithm: str | None = ..., compare: str | Sequence[str] = ...,
               table: Path | None = ..., data: Data = ..., **settings: Setting) -> Collective: ...
def validate(*cases: Path, anchor: str = ..., data: Data = ..., **settings: Setting) -> Validation: ...
def fleet(table: Path | None = ..., *, population: str = ..., jobs: int = ..., seed: int = ..., setting: str | None = ...,
          what_if: bool = ..., data: Data = ...) -> Fleet: ...
def curve(setting: str, values: Sequence[str | int | float] | str | Job | None = ..., *jobs: Job, data: Data = ...,
          **settings: Setting) -> Curve: ...
@overload
def sweep(*jobs: Mapping[str, Any], where: str | Sequence[str] = ..., zip: Sequence[Mapping[str, Any]] = ...,
          sample: int | None = ..., sample_by: str | None = ..., seed: int | None = ..., file: Path | None = ...,
          time_only: bool = ..., threads: int | None = ..., shard: str | None = ..., shards: None = ..., yes: bool = ...,
          data: Data = ..., **settings: Axis) -> Sweep: ...
@overload
def sweep(*jobs: Mapping[str, Any], where: str | Sequence[str] = ..., zip: Sequence[Mapping[str, Any]] = ...,
          sample: int | None = ..., sample_by: str | None = ..., seed: int | None = ..., file: Path | None = ...,
          time_only: bool = ..., threads: int | None = ..., shard: None = ..., shards: int, yes: bool = ...,
          data: Data = ..., **settings: Axis) -> list[Shard]: ...
def run_shard(shard: Shard) -> Sweep: ...
def concat(parts: Iterable[Sweep]) -> Sweep: ...
