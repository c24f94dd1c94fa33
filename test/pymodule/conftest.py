"""What the tests of the Python module share: the module, and the command beside it (./test/python sets both)."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("DDLSIM_PROGRAM", str(ROOT / "build/python/bin/ddlsim"))


def command(*arguments, fails=False):
    """What the command prints; where it fails, what it says on stderr."""
    environment = {**os.environ, "DDLSIM_DATA": str(ROOT)}
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def command_json(*arguments):
    return json.loads(command(*arguments, "--json"))


@pytest.fixture(scope="session")
def root():
    return ROOT


# Four jobs of every kind of strategy, as keyword arguments and as flags.
JOB = {"model": "resnet50", "node": "dgx1-v100", "nodes": 4, "network": "25 Gb/s", "strategy": "ps"}
FLAGS = ["--model", "resnet50", "--node", "dgx1-v100", "--nodes", "4", "--network", "25 Gb/s", "--strategy", "ps"]
