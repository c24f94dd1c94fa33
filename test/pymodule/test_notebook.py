"""The notebooks of bench/notebooks run from end to end, and their pictures are there."""

import nbformat
import pytest
from conftest import ROOT
from nbconvert.preprocessors import ExecutePreprocessor

NOTEBOOKS = sorted((ROOT / "bench/notebooks").glob("*.ipynb"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path):
    book = nbformat.read(path, as_version=4)
    stored = [cell for cell in book.cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]
    assert not stored, "notebooks are kept without their output"
    ExecutePreprocessor(timeout=300, kernel_name="python3").preprocess(book, {"metadata": {"path": str(tmp_path)}})
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 3, "a scaling curve, a breakdown, a Pareto front"
    assert [output for output in outputs if "<svg" in output.get("data", {}).get("text/html", "")]


def test_there_is_one():
    assert NOTEBOOKS
