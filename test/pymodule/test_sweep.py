"""Sweeps: rows and columns are the command's, nothing is copied, parts join to the whole."""

import csv
import io
import os
import pickle
import subprocess
import time

import ddlsim
import numpy
import pandas
import pytest
from conftest import command

GRID = {"model": ["resnet50", "vgg16"], "node": ["dgx1-v100", "dgx-a100"], "nodes": "1..8:x2",
        "gpus_per_node": [4, 16], "network": "25 Gb/s"}  # fmt: skip
FLAGS = ["--model", "resnet50,vgg16", "--node", "dgx1-v100,dgx-a100", "--nodes", "1..8:x2", "--gpus-per-node", "4,16",
         "--network", "25 Gb/s"]  # fmt: skip


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def same(sweep, text):
    """Every cell of the command's CSV, and nothing else."""
    rows = rows_of(text)
    assert len(sweep) == len(rows) and sweep.columns == list(rows[0])
    for name in sweep.columns:
        column = sweep[name]
        for i, row in enumerate(rows):
            cell, value = row[name], column[i]
            if cell == "":
                assert value is None or numpy.isnan(value), (name, i)
            elif name == "fits":
                assert bool(value) == (cell == "true")
            elif isinstance(value, str):
                assert value == cell
            else:
                assert float(value) == float(cell), (name, i)


def test_rows_are_the_commands():
    same(ddlsim.sweep(GRID), command("sweep", *FLAGS, "--format", "csv"))
    same(ddlsim.sweep(GRID, time_only=True), command("sweep", *FLAGS, "--time-only", "--format", "csv"))


def test_conditions_zip_samples_and_files(tmp_path):
    where = "nodes > 1 and model == vgg16"
    same(ddlsim.sweep(GRID, where=where), command("sweep", *FLAGS, "--where", where, "--format", "csv"))
    sampled = command("sweep", *FLAGS, "--sample", 7, "--seed", 3, "--sample-by", "lhs", "--format", "csv")
    same(ddlsim.sweep(GRID, sample=7, seed=3, sample_by="lhs"), sampled)
    file = tmp_path / "grid.yaml"
    file.write_text("model: [resnet50, vgg16]\nzip: [{node: [dgx1-v100, dgx-a100], batch: [16, 32]}]\nnodes: 1..4:x2\n")
    told = command("sweep", "-f", file, "--format", "csv")
    same(ddlsim.sweep(file=file), told)
    zipped = [{"node": ["dgx1-v100", "dgx-a100"], "batch": [16, 32]}]
    same(ddlsim.sweep(model=["resnet50", "vgg16"], zip=zipped, nodes=[1, 2, 4]), told)


def test_values_from_numpy():
    by_list = ddlsim.sweep(model="resnet50", node="dgx-a100", nodes=[1, 2, 4])
    for nodes in (numpy.array([1, 2, 4]), range(1, 5), (1, 2, 4), "1,2,4", "1..4:x2"):
        rows = ddlsim.sweep(model="resnet50", node="dgx-a100", nodes=nodes)
        assert set(by_list["step_time_s"]) <= set(rows["step_time_s"])


def test_columns_are_not_copied():
    rows = ddlsim.sweep(GRID)
    for name in ("step_time_s", "gpus", "point"):
        assert rows[name] is rows[name] and rows[name].base is not None and not rows[name].flags.owndata
    frame = rows.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == rows.columns
    assert numpy.shares_memory(frame["step_time_s"].to_numpy(), rows["step_time_s"])
    assert frame["model"].dtype == "category" and set(frame["model"]) == {"resnet50", "vgg16"}
    assert frame[rows.answered]["why"].isna().all() and not frame[~rows.answered]["why"].isna().any()
    kept = rows["step_time_s"]
    expected = kept.copy()
    del rows, frame
    ddlsim.sweep(GRID)
    assert (kept == expected).sum() == (~numpy.isnan(expected)).sum()


def test_the_later_wins():
    job = {"model": "resnet50", "node": "dgx-a100", "nodes": 64, "batch": [1, 2]}
    rows = ddlsim.sweep(job, nodes=[1, 2], batch=32)
    assert rows.axes == ("nodes",) and rows["gpus"].tolist() == [8, 16]
    assert rows["step_time_s"][0] == ddlsim.predict({**job, "batch": 32}, nodes=1).step_time_s


def test_a_row_is_a_prediction():
    rows = ddlsim.sweep(GRID)
    for i in numpy.flatnonzero(rows.answered)[::5]:
        p = ddlsim.predict(network="25 Gb/s", **{axis: rows[axis][i] for axis in rows.axes})
        assert p.step_time_s == rows["step_time_s"][i] and p.mfu == rows["mfu"][i]


def test_parts_join_to_the_whole():
    whole = ddlsim.sweep(GRID)
    work = ddlsim.sweep(GRID, shards=5)
    parts = [ddlsim.run_shard(pickle.loads(pickle.dumps(part))) for part in work]
    assert sum(map(len, parts)) == len(whole)
    joined = ddlsim.concat(reversed([pickle.loads(pickle.dumps(part)) for part in parts]))
    assert joined.axes == whole.axes
    pandas.testing.assert_frame_equal(joined.to_pandas(), whole.to_pandas())
    same(parts[1], command("sweep", *FLAGS, "--shard", "2/5", "--format", "csv"))
    with pytest.raises(ddlsim.Error, match="two of the parts"):
        ddlsim.concat([parts[0], parts[0]])
    with pytest.raises(ddlsim.Error, match="columns differ"):
        ddlsim.concat([parts[0], ddlsim.sweep(GRID, time_only=True)])


@pytest.mark.filterwarnings("ignore")
def test_dask_on_two_workers():
    from distributed import Client, LocalCluster

    os.environ.setdefault("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "60s")
    net = own_model()
    grid = {**GRID, "model": ["resnet50", net]}
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            client.wait_for_workers(2)
            work = ddlsim.sweep(GRID, threads=1, shards=6)
            futures = client.map(ddlsim.run_shard, work)
            rows = ddlsim.concat(client.gather(futures))
            workers = {worker for where in client.who_has(futures).values() for worker in where}
            mine = ddlsim.concat(client.gather(client.map(ddlsim.run_shard, ddlsim.sweep(grid, threads=1, shards=4))))
            assert len(workers) == 2
    same(rows, command("sweep", *FLAGS, "--format", "csv"))
    pandas.testing.assert_frame_equal(mine.to_pandas(), ddlsim.sweep(grid).to_pandas())
    assert set(mine["model"]) == {"resnet50", "mlp"}


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_and_workers_that_somebody_else_started(tmp_path):
    from distributed import Client

    address = tmp_path / "scheduler.json"
    where = ["--scheduler-file", str(address), "--no-dashboard"]
    started = [subprocess.Popen(["dask-scheduler", "--port", "0", *where], stderr=subprocess.DEVNULL)]
    try:
        for _ in range(2):
            one = ["dask-worker", "--nthreads", "1", "--local-directory", str(tmp_path), *where]
            started.append(subprocess.Popen(one, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 60
        while not address.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        with Client(scheduler_file=str(address), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            rows = ddlsim.concat(client.gather(client.map(ddlsim.run_shard, ddlsim.sweep(GRID, threads=1, shards=6))))
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)
    same(rows, command("sweep", *FLAGS, "--format", "csv"))


def own_model():
    layers = [{"linear": {"out": 4096}}, {"relu": {}}, {"linear": {"out": 10}}]
    return ddlsim.Model("mlp", input={"shape": [784], "bytes": "3136 B"}, batch=256, layers=layers)
