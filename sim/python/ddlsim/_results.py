"""Answers as values: attributes are the fields of the command's JSON, in SI units as their names say."""

from __future__ import annotations

import html
import json

from . import _ddlsim

Prediction = _ddlsim.Prediction
Breakdown = _ddlsim.Breakdown

# Fields whose keys are somebody's names rather than ours stay plain dicts.
_PLAIN = {"changes", "plan", "settings"}


def _wrap(name, value):
    if isinstance(value, dict):
        return value if name in _PLAIN else Record(value)
    if isinstance(value, list):
        return [_wrap("", one) for one in value]
    return value


class Record:
    """A map of the answer's JSON whose fields are attributes: `row.time_s` is `row["time_s"]`."""

    def __init__(self, fields):
        object.__setattr__(self, "_fields", fields)

    def _all(self):
        return self._fields

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return _wrap(name, self._all()[name])
        except KeyError:
            known = ", ".join(self._all())
            raise AttributeError(f"{type(self).__name__} has no '{name}'; it has: {known}") from None

    def __setattr__(self, name, value):
        raise AttributeError(f"answers do not change: '{name}'")

    def __getitem__(self, name):
        return _wrap(name, self._all()[name])

    def __iter__(self):
        return iter(self._all())

    def __len__(self):
        return len(self._all())

    def __contains__(self, name):
        return name in self._all()

    def __eq__(self, other):
        return self.to_dict() == (other.to_dict() if isinstance(other, Record) else other)

    __hash__ = None

    def __dir__(self):
        return sorted({*object.__dir__(self), *self._all()})

    def keys(self):
        return self._all().keys()

    def to_dict(self):
        """The fields as plain dicts and lists."""
        return json.loads(json.dumps(self._all()))

    def __reduce__(self):
        return (Record, (self.to_dict(),))

    def __repr__(self):
        return f"{type(self).__name__}({self.to_dict()!r})"


def picture(title, render, drawn):
    """What a notebook shows: the report's picture under its title, or its text."""
    if not drawn:
        return f"<pre>{html.escape(render('text'))}</pre>"
    return f'<div class="ddlsim"><p>{html.escape(title)}</p>{render("svg")}</div>'


class Result(Record):
    """An answer of a command: its JSON as attributes, and every view the command has."""

    def __init__(self, answer):
        object.__setattr__(self, "_answer", answer)
        object.__setattr__(self, "_fields", None)

    def _all(self):
        if self._fields is None:
            object.__setattr__(self, "_fields", json.loads(self._answer.render("json")))
        return self._fields

    def render(self, format="text"):
        """The command's text: 'text', 'json', 'csv', 'md', and 'html' or 'svg' where there is a picture."""
        return self._answer.render(format)

    def to_dict(self):
        """What the command prints with --json."""
        return json.loads(self._answer.render("json"))

    def __str__(self):
        return self.render("text").rstrip("\n")

    def _headline(self):
        return next((line for line in self.render("text").splitlines() if line.strip()), "")

    def __repr__(self):
        return f"<ddlsim.{type(self).__name__}: {self._headline()}>"

    def _repr_html_(self):
        return picture(self._all().get("title", ""), self.render, self._answer.drawn)


class _WithPrediction(Record):
    def __init__(self, fields, prediction):
        super().__init__(fields)
        object.__setattr__(self, "prediction", prediction)


class Alternative(_WithPrediction):
    """name, changes {path: value}, speedup (throughput over the baseline's), prediction."""


class WhatIf(Result):
    """title, baseline, alternatives; best first where nobody said which."""

    @property
    def baseline(self):
        return self._answer.predictions[0]

    @property
    def alternatives(self):
        found = self._answer.predictions[1:]
        return [Alternative(one, p) for one, p in zip(self._all()["alternatives"], found)]


class Found(Result):
    """The value that makes the condition hold: reached, value (SI, of `unit`), settings {path: value}, prediction
    (there), limit_setting and limit (the best that the variable can do), tried, holding, range (both ends, where
    values beyond either fail), always (every tried value holds), over_rdma (of a network that TCP drives)."""

    @property
    def prediction(self):
        """There."""
        return self._answer.predictions[0]

    @property
    def limit(self):
        """The best that the variable can do."""
        return self._answer.predictions[1]


class PlannedJob(_WithPrediction):
    """plan {path: value}, prediction, cost_usd of a step where prices are known; of the next ones: against_best."""


class Plan(Result):
    """best and next: plans with their predictions; pareto (plan, gpus, step_time_s, memory_bytes_per_gpu, cost_usd);
    sensitivity; searched, pruned, proved."""

    @property
    def best(self):
        return PlannedJob(self._all()["best"], self._answer.predictions[0])

    @property
    def next(self):
        return [PlannedJob(one, p) for one, p in zip(self._all()["next"], self._answer.predictions[1:])]


class Explanation(Result):
    """parts (part, title, symbol, equation, values, result, unit): every number with its provenance and source."""

    @property
    def prediction(self):
        return self._answer.predictions[0]


class Stalls(Result):
    """stalls.interconnect, .network, .prep, .fetch (time_s, percent; None: not known), runs, one_server."""


class StallStudy(Result):
    """Interconnect and network stalls against depth and gradients."""


class ServerChoice(_WithPrediction):
    """node, nodes, gpus, batch, strategy, time_s, cost_usd, energy_j, step_time_s, prediction."""


class Recommendation(Result):
    """choices inside the limits, the cheapest first; cheapest, fastest, pareto; infeasible, would_help."""

    def _choice(self, fields):
        return ServerChoice(fields, self._answer.predictions[self._all()["choices"].index(fields)])

    @property
    def cheapest(self):
        return self._choice(self._all()["cheapest"])

    @property
    def fastest(self):
        return self._choice(self._all()["fastest"])

    @property
    def pareto(self):
        return [self._choice(one) for one in self._all()["pareto"]]

    @property
    def choices(self):
        return [ServerChoice(one, p) for one, p in zip(self._all()["choices"], self._answer.predictions)]


class Collective(Result):
    """rows (size_bytes, time_s, algbw_bytes_per_s, busbw_bytes_per_s, algorithm, protocol); of several libraries:
    compared, each with its library and rows."""


class Validation(Result):
    """Predictions beside measurements: mape, median_ape, p90_ape, max_ape, coverage_90, cases."""


class Fleet(Result):
    """Where the time of many jobs goes, and what would speed them up."""


class CurvePoint(_WithPrediction):
    """value as stated, perfect_throughput_samples_per_s, prediction."""


class Curve(Result):
    """One job over the values of a setting: points, and gaps (value, why)."""

    @property
    def points(self):
        return [CurvePoint(one, p) for one, p in zip(self._all()["points"], self._answer.predictions)]


def _prediction_dict(self):
    """What `ddlsim predict --json` prints."""
    return json.loads(self.render("json"))


def _prediction_field(self, name):
    if not name.startswith("_"):
        fields = _prediction_dict(self)["prediction"]
        if name in fields:
            return _wrap(name, fields[name])
        raise AttributeError(f"a Prediction has no '{name}'; it has: {', '.join(fields)}")
    raise AttributeError(name)


def _prediction_repr(self):
    return (
        f"<ddlsim.Prediction: step {self.step_time_s * 1e3:.4g} ms, {self.throughput_samples_per_s:.4g} {self.sample}s/s"
        f" on {self.gpus} GPU{'' if self.gpus == 1 else 's'}, bound by {self.bottleneck}>"
    )


def _unpicklable(self):
    raise TypeError("a Prediction stays in its process: send its to_dict()")


def _breakdown_dict(self):
    """The parts, in seconds."""
    names = "compute memory launch input_exposed communication communication_exposed bubble other host_update"
    return {name: getattr(self, name) for name in [*names.split(), "unexplained"]}


def _finish_classes():
    """What the C++ classes have in Python."""
    Prediction.__doc__ = """How long a step takes, and where it goes; fields are those of `ddlsim predict --json`.

    step_time_s, throughput_samples_per_s, scaling_efficiency, mfu, hfu (shares), interval_90_s (low, high),
    breakdown_s (compute, memory, launch, input_exposed, communication, communication_exposed, bubble, other, and of it
    host_update and unexplained: seconds),
    memory_bytes_per_gpu, fits (None: not known), bottleneck, provenance, fidelity, architecture, gpus, batch_per_gpu,
    sample, notes, title; traffic, memory, input, parallel, critical_path, training as the JSON has them.
    """
    Prediction.__module__ = Breakdown.__module__ = "ddlsim"
    Prediction.to_dict = _prediction_dict
    Prediction.__getattr__ = _prediction_field
    Prediction.__repr__ = _prediction_repr
    Prediction.__str__ = lambda self: self.render("text").rstrip("\n")
    Prediction._repr_html_ = lambda self: picture(self.title, self.render, True)
    Prediction.__reduce__ = _unpicklable
    Breakdown.to_dict = _breakdown_dict
    Breakdown.__repr__ = lambda self: f"Breakdown({_breakdown_dict(self)!r})"


_finish_classes()
