"""What is written is true: doctests, help, stubs, the README's lines."""

import ast
import doctest
import importlib.util
import inspect
import os
import pathlib
import pydoc
import re
import subprocess
import sys

import ddlsim
import pytest
from conftest import JOB, ROOT

BUILT = pathlib.Path(ddlsim.__file__).parents[1]
PACKAGE = pathlib.Path(ddlsim.__file__).resolve().parent
QUESTIONS = ["predict", "what_if", "find", "plan", "explain", "stalls", "stall_study", "recommend", "collective",
             "validate", "fleet", "curve", "sweep"]  # fmt: skip


def test_doctests():
    done = doctest.testmod(ddlsim, extraglobs={"ddlsim": ddlsim})
    assert done.failed == 0 and done.attempted >= 15


def test_help_is_complete():
    text = pydoc.render_doc(ddlsim.predict, renderer=pydoc.plaintext)
    for word in ("model", "node", "network", "100 Gb/s", "step_time_s", "seconds", "ddlsim.Error", "data"):
        assert word in text
    for name in QUESTIONS:
        question = getattr(ddlsim, name)
        for parameter in inspect.signature(question).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name == "data":
                continue
            assert re.search(rf"\b{parameter.name}\b", question.__doc__), f"{name} does not explain {parameter.name}"
    for name in ddlsim.__all__:
        assert getattr(ddlsim, name).__doc__, name
    fields = ddlsim.predict(**JOB).to_dict()["prediction"]
    missing = [name for name in fields if not re.search(rf"\b{name}\b", ddlsim.Prediction.__doc__)]
    assert set(missing) <= {"model_flops_per_s_per_gpu", "tokens_per_s", "tokens_per_s_per_gpu"}


def stub():
    return {node.name: node for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body if hasattr(node, "name")}


def test_stubs_have_what_is_there():
    known = stub()
    assert (PACKAGE / "py.typed").exists()
    assert set(ddlsim.__all__) <= set(known)
    for name in QUESTIONS:
        real = inspect.signature(getattr(ddlsim, name)).parameters.values()
        arguments = known[name].args
        typed = {one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
        named = {one.name for one in real if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
        assert named <= typed, name
    fields = ddlsim.predict(**JOB).to_dict()["prediction"]
    members = {one.target.id if isinstance(one, ast.AnnAssign) else one.name
               for one in known["Prediction"].body if isinstance(one, (ast.AnnAssign, ast.FunctionDef))}  # fmt: skip
    assert set(fields) <= members


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_types_hold(tmp_path):
    file = tmp_path / "use.py"
    file.write_text(
        "import ddlsim\n"
        "p = ddlsim.predict(model='resnet50', node='dgx-a100', nodes=4, network='100 Gb/s', tp=2)\n"
        "time: float = p.step_time_s\n"
        "parts: float = p.breakdown_s.compute + p.interval_90_s[0]\n"
        "best: ddlsim.Prediction = ddlsim.plan(model='bert_large', node='dgx-a100').best.prediction\n"
        "rows = ddlsim.sweep(model='resnet50', node='dgx-a100', nodes=[1, 2])\n"
        "work: list[ddlsim.Shard] = ddlsim.sweep(model='resnet50', node='dgx-a100', shards=3)\n"
    )
    check = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--ignore-missing-imports",
        "--cache-dir",
        str(tmp_path),
        str(file),
    ]
    environment = {**os.environ, "MYPYPATH": str(BUILT)}
    done = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout
    file.write_text("import ddlsim\nddlsim.predict(model='resnet50', node='dgx-a100').step_time_s.upper()\n")
    again = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert again.returncode != 0 and '"float" has no attribute "upper"' in again.stdout


def test_readme_lines_run():
    text = (ROOT / "README.md").read_text()
    [block] = re.findall(r"<!-- python: test/pymodule runs this -->\n```python\n(.*?)```", text, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert block.count("\n") == 5
    first, *rates = done.stdout.splitlines()
    assert first.startswith("step ") and first.endswith(" ms exposed")
    assert [line.split()[0] for line in rates] == ["node", "dgx1-v100", "dgx-a100"]


def test_import_is_light():
    code = "import ddlsim, sys; print(sorted({'numpy', 'pandas', 'distributed', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_only_the_module_is_exported():
    from ddlsim import _ddlsim

    symbols = subprocess.run(["nm", "-D", "--defined-only", _ddlsim.__file__], capture_output=True, text=True).stdout
    names = [line.split()[-1] for line in symbols.splitlines()]
    assert "PyInit__ddlsim" in names
    assert not [name for name in names if "ddlsim" in name and name != "PyInit__ddlsim"]
