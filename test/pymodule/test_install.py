"""Installed, the package finds its data beside it, whatever the source tree is."""

import os
import subprocess
import sys

import pytest
from conftest import JOB, ROOT, command_json

BUILD = ROOT / "build/python"


@pytest.mark.skipif(not (BUILD / "cmake_install.cmake").exists(), reason="no build folder of the preset python")
def test_installed_package(tmp_path):
    subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path], check=True, stdout=subprocess.DEVNULL)
    [package] = tmp_path.glob("lib/python3*/dist-packages")
    assert {"__init__.py", "__init__.pyi", "py.typed", "_error.py"} <= {
        one.name for one in (package / "ddlsim").iterdir()
    }
    code = f"import ddlsim; p = ddlsim.predict({JOB!r}); print(ddlsim.__file__, ddlsim._catalog(None).root, repr(p.step_time_s))"
    environment = {name: value for name, value in os.environ.items() if name != "DDLSIM_DATA"}
    environment["PYTHONPATH"] = str(package)
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    file, data, step = told.stdout.split()
    assert file.startswith(str(tmp_path)) and data == str(tmp_path / "share/ddlsim")
    flags = [part for name, value in JOB.items() for part in (f"--{name}", value)]
    assert float(step) == command_json("predict", *flags)["prediction"]["step_time_s"]
