"""The notebook of the examples, and the magics by themselves."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from test_anonymize import QI, patients, smallest_class
from test_answering import opened

import sqlanon as sa
from sqlanon.errors import PolicyError
from sqlanon.notebook_magics import answer_cell

NOTEBOOK = ROOT / "examples" / "python" / "dataframes.ipynb"
CELL = """\
columns: {age: quasi_identifier, zip: quasi_identifier, sex: quasi_identifier, disease: sensitive}
models: [{k_anonymity: {k: 5}}]
"""


@pytest.mark.full
def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, demonstrated: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own cells assert what they show. No output is kept in the file: it would be of another run."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    shutil.copytree(demonstrated[0], tmp_path / "demo")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter's own parts
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = "".join(str(output) for cell in notebook.cells for output in cell.get("outputs", ()))
    assert "<svg" in shown and "requirements are broken" in shown and "<td>male</td>" in shown


def test_a_cell_is_a_policy_for_rows_or_sql_for_a_gateway() -> None:
    variables = {"df": patients(60), "gate": opened()}
    release, kept = answer_cell("df -> release", CELL, variables)
    assert kept == "release" and smallest_class(release.to_pandas(), QI) >= 5
    answer, kept = answer_cell(" gate ", "SELECT count(*) AS n FROM df", variables)
    assert kept is None and answer.columns == ("n",)
    variables["gate"].close()


@pytest.mark.parametrize(
    ("line", "cell", "said"),
    [
        ("", CELL, "names what is asked"),
        ("df ->", CELL, "names what is asked"),
        ("df; import os", CELL, "names what is asked"),
        ("numbr", CELL, "did you mean 'number'"),
        ("df", CELL.replace("models", "modles"), "policy.yml:2: unknown key 'modles'"),
        ("df", "", "the policy is empty"),
        ("number", CELL, "rows cannot be read from int"),
    ],
)
def test_cells_that_are_wrong(line: str, cell: str, said: str) -> None:
    with pytest.raises(sa.SqlanonError, match=said):
        answer_cell(line, cell, {"df": patients(20), "number": 5})


def test_magics_are_registered_and_show_errors_without_a_trace() -> None:
    pytest.importorskip("IPython")
    from IPython.core.error import UsageError

    class Shell:
        def __init__(self) -> None:
            self.user_ns: dict[str, Any] = {"df": patients(60)}
            self.magics: dict[str, Any] = {}

        def register_magic_function(self, function: Any, kind: str, name: str) -> None:
            assert name == "sqlanon"
            self.magics[kind] = function

    shell = Shell()
    sa.load_ipython_extension(shell)  # type: ignore[attr-defined]
    shown = shell.magics["cell"]("df -> release", CELL)
    assert shell.user_ns["release"] is shown and len(shown) == 60
    with pytest.raises(UsageError, match="there is no variable 'nothing'"):
        shell.magics["cell"]("nothing", CELL)


def test_the_line_is_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    from sqlanon.notebook_magics import _run_command

    _run_command("explain k_anonymity")
    _run_command("check nowhere.csv --qi age --k 5")
    said = capsys.readouterr()
    assert "k_anonymity" in said.out and "there is no file 'nowhere.csv'" in said.err + said.out


def test_a_policy_in_text_without_a_source_needs_rows() -> None:
    with pytest.raises(PolicyError, match="source"):
        sa.check(CELL)
