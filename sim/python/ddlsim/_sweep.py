"""Sweeps: every point of a grid of settings, as columns."""

from __future__ import annotations

from . import _ddlsim
from ._error import Error


class Column:
    """A column of texts: `codes` (int32 numpy array, -1: nothing) into `texts`."""

    __slots__ = ("codes", "texts")

    def __init__(self, codes, texts):
        self.codes = codes
        self.texts = list(texts)

    def to_numpy(self):
        """The texts themselves, an object array; None where there is nothing."""
        import numpy

        return numpy.array([*self.texts, None], dtype=object)[self.codes]


class Sweep:
    """Rows of a sweep as columns, in the grid's order; the columns of `ddlsim sweep --format csv`.

    Numbers are numpy arrays that own what the sweep wrote: nothing is copied. NaN stands where a point has no answer;
    `why` then says the reason. `point` is a row's number on the grid.

        rows["step_time_s"]      numpy array, SI units as the name says
        rows["model"]            object array of texts; rows.text("model") their codes and the texts
        rows.to_pandas()         a DataFrame; texts become categories
    """

    def __init__(self, columns, axes):
        self._columns = columns
        #: The settings that vary.
        self.axes = tuple(axes)

    @property
    def columns(self):
        """The columns' names."""
        return list(self._columns)

    def __len__(self):
        return len(self._columns["point"])

    def __getitem__(self, name):
        column = self._column(name)
        return column.to_numpy() if isinstance(column, Column) else column

    def _column(self, name):
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"no column {name!r}; there are: {', '.join(self._columns)}") from None

    def text(self, name):
        """A column of texts: its codes (numpy array, not copied) and the texts."""
        column = self._column(name)
        if not isinstance(column, Column):
            raise Error(f"the column '{name}' is one of numbers")
        return column

    @property
    def answered(self):
        """Which rows have an answer: a numpy array of truth values."""
        import numpy

        return ~numpy.isnan(self._columns["step_time_s"])

    def to_pandas(self):
        """A pandas DataFrame with these columns, texts as categories."""
        import pandas

        columns = {}
        for name, column in self._columns.items():
            if isinstance(column, Column):
                column = pandas.Categorical.from_codes(column.codes, categories=column.texts)
            columns[name] = column
        return pandas.DataFrame(columns, copy=False)

    def __repr__(self):
        return f"<ddlsim.Sweep: {len(self)} points over {', '.join(self.axes) or 'nothing'}>"

    def _repr_html_(self):
        return self.to_pandas()._repr_html_()


class Shard:
    """Part k of n of a sweep, as work for another process or machine: picklable; called, it gives its rows."""

    def __init__(self, jobs, settings, options, data, number, of):
        self.jobs, self.settings, self.options, self.data = jobs, settings, options, data
        self.number, self.of = number, of

    def __call__(self):
        return run(self.jobs, self.settings, {**self.options, "shard": f"{self.number}/{self.of}"}, self.data)

    def __repr__(self):
        return f"<ddlsim.Shard {self.number}/{self.of}>"

    # Dask names tasks by this: the same part of the same sweep is the same work.
    def __dask_tokenize__(self):
        import pickle

        return pickle.dumps((self.jobs, self.settings, self.options, self.data, self.number, self.of))


def run_shard(shard):
    """Runs a part of a sweep: what `Client.map` takes."""
    return shard()


def _files(value):
    """The parts of Python's making among some settings: {file: id}."""
    found = {}
    if isinstance(value, dict):
        for one in value.values():
            found.update(_files(one))
    elif isinstance(value, (list, tuple)):
        for one in value:
            found.update(_files(one))
    elif hasattr(value, "_ddlsim_file"):
        found[value._ddlsim_file()] = value.id
    return found


def run(jobs, settings, options, data):
    """A sweep here, by this process's threads."""
    from . import _catalog

    raw = _ddlsim.sweep(_catalog(data), jobs, settings, options)
    ids = _files([jobs, settings, options])
    columns = {}
    for name, _, values, texts in raw:
        columns[name] = values if texts is None else Column(values, [ids.get(text, text) for text in texts])
    return Sweep(columns, [name for name, axis, _, _ in raw if axis])


def concat(parts):
    """The parts of one sweep as one, rows in the grid's order: what the sweep without shards gives."""
    import numpy

    parts = list(parts)
    if not parts:
        raise Error("no part of a sweep to join")
    if any(part.columns != parts[0].columns for part in parts):
        raise Error("parts of different sweeps cannot be joined", notes=("their columns differ",))
    order = numpy.argsort(numpy.concatenate([part["point"] for part in parts]), kind="stable")
    columns = {}
    for name in parts[0].columns:
        all_of = [part._columns[name] for part in parts]
        if isinstance(all_of[0], Column):
            columns[name] = _joined_texts(all_of, order)
        else:
            columns[name] = numpy.concatenate(all_of)[order]
    if (columns["point"][1:] == columns["point"][:-1]).any():
        raise Error("a point is in two of the parts", notes=("give each part of a sweep once",))
    return Sweep(columns, parts[0].axes)


def _joined_texts(columns, order):
    import numpy

    places = {}
    codes = []
    for column in columns:
        new = [places.setdefault(text, len(places)) for text in column.texts]
        codes.append(numpy.array([*new, -1], dtype=numpy.int32)[column.codes])
    codes = numpy.concatenate(codes)[order]
    # Texts stand in the order in which rows have them, as in a sweep that was not shared out.
    seen, first = numpy.unique(codes[codes >= 0], return_index=True)
    ordered = seen[numpy.argsort(first)]
    texts = list(places)
    new_place = numpy.full(len(texts) + 1, -1, dtype=numpy.int32)
    new_place[ordered] = numpy.arange(len(ordered), dtype=numpy.int32)
    return Column(new_place[codes], [texts[place] for place in ordered])
