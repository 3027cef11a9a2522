"""Tables of statistics in files of other tools: what is written is what is shown, and is read again."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Database
from oracle_numbers import read_numbers
from statistical_tables import flat_table
from test_cells import load_case, statistics_policy, unsafe_cells
from test_published_tables import BY_BRANCH, TYPES, firms

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.errors import HierarchyError, PolicyError, SourceError
from sqlanon.hierarchies import build
from sqlanon.statistics.exchange_files import read_argus, sdmx_name
from sqlanon.statistics.foreign_table import check_cells

RDA = """   <SEPARATOR> ","
   <SAFE> "S"
   <UNSAFE> "U"
   <PROTECT> "P"
region
   <RECODEABLE>
   <TOTCODE> "Total"
   <HIERARCHICAL>
   <HIERCODELIST> "C:\\\\lists\\\\region.hrc"
   <HIERLEADSTRING> "@"
branch
   <RECODEABLE>
   <TOTCODE> "Total"
turnover
   <NUMERIC>
   <DECIMALS> 1
   <RESPONSE>
n
   <NUMERIC>
   <FREQUENCY>
status
   <STATUS>
"""
HRC = "North\n@N1\n@N2\nSouth\n"


@pytest.fixture
def business(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    engine = connect("business.duckdb", read_only=False)
    Database(engine).table("firms", TYPES, firms())
    engine.close()
    policy = {"source": {"database": "business.duckdb", "table": "firms"}, "release": {"table": "released"},
              "hierarchies": {"region": {"prefix": {"length": 2}}},
              "statistics": {"by branch": BY_BRANCH}}  # fmt: skip
    Path("policy.yml").write_text(json.dumps(policy), encoding="utf-8")
    assert run("publish", "policy.yml").exit_code == 0
    return tmp_path


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(arguments))


def shown() -> dict[tuple[str, str], float | None]:
    engine = connect("business.duckdb")
    try:
        rows = Database(engine).fetch("SELECT region, branch, value FROM released")
        return {(row[0], row[1]): None if row[2] is None else float(row[2]) for row in rows}
    finally:
        engine.close()


def test_a_table_of_argus_is_what_is_shown_and_is_read_again(business: Path) -> None:
    done = run("export", "policy.yml", "--format", "argus", "-o", "out")
    assert done.output == "wrote by_branch.rda, by_branch.tab, region.hrc to out\n", done.output
    assert Path("out/region.hrc").read_text(encoding="utf-8") == "N*\n@N1\n@N2\nS*\n@S1\n@S2\n"
    found = read_argus(Path("out/by_branch.rda"))
    assert found.cells == shown() and None in found.cells.values()
    assert found.dimensions == ("region", "branch") and found.totals == ("*", "Total")
    assert dict(found.above[0]) == {"N*": "*", "N1": "N*", "N2": "N*", "S*": "*", "S1": "S*", "S2": "S*"}
    # Hidden cells look alike, whatever the reason.
    lines = [
        line for line in Path("out/by_branch.tab").read_text(encoding="utf-8").splitlines() if not line.endswith("S")
    ]
    assert len(lines) == sum(value is None for value in shown().values())
    assert all(line.split(";", 2)[2] == ";U" for line in lines)
    checked = run("check", "out/by_branch.rda")
    assert checked.exit_code == 0 and "0 hidden cells can be computed exactly" in checked.output, checked.output
    again = run("export", "policy.yml", "--format", "argus", "-o", "out")
    assert again.exit_code == 2 and "exists already" in again.output
    assert run("export", "policy.yml", "--format", "argus", "-o", "out", "--force").exit_code == 0
    # The code list is a hierarchy that publishes the same table.
    policy = json.loads(Path("policy.yml").read_text(encoding="utf-8"))
    policy["hierarchies"] = {"region": {"hrc": {"path": "out/region.hrc", "total": "*"}}}
    policy["release"] = {"table": "again"}
    Path("again.yml").write_text(json.dumps(policy), encoding="utf-8")
    assert run("publish", "again.yml").exit_code == 0
    engine = connect("business.duckdb")
    assert not Database(engine).fetch("SELECT * FROM (TABLE again EXCEPT TABLE released)")
    engine.close()


def test_sdmx_csv_is_what_is_shown(business: Path) -> None:
    done = run("export", "policy.yml", "-o", "out", "--agency", "stats office")
    assert done.output == "wrote by_branch.csv to out\n", done.output
    with open("out/by_branch.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["DATAFLOW", "REGION", "BRANCH", "OBS_VALUE", "OBS_STATUS", "CONF_STATUS"]
    assert {row["DATAFLOW"] for row in rows} == {"STATS_OFFICE:BY_BRANCH(1.0)"}
    read = {(row["REGION"], row["BRANCH"]): float(row["OBS_VALUE"]) if row["OBS_VALUE"] else None for row in rows}
    assert read == shown()
    for row in rows:
        wanted = ("A", "F") if row["OBS_VALUE"] else ("Q", "C")
        assert (row["OBS_STATUS"], row["CONF_STATUS"]) == wanted
    assert sdmx_name("ü 1") == "__1"


def test_what_cannot_be_exported(business: Path) -> None:
    Path("rows.yml").write_text("source: {database: business.duckdb, table: firms}\n", encoding="utf-8")
    assert "is no policy for tables of statistics" in run("export", "rows.yml").output
    strange = run("export", "policy.yml", "--release", "firms")
    assert strange.exit_code == 2 and "'firms' is not the release of this policy" in strange.output


def argus(folder: Path, cells: str, *, rda: str = RDA, hrc: str = HRC) -> Path:
    (folder / "t.rda").write_text(rda, encoding="utf-8")
    (folder / "t.tab").write_text(cells, encoding="utf-8")
    (folder / "region.hrc").write_text(hrc, encoding="utf-8")
    return folder / "t.rda"


CELLS = """N1,a,10,3,S
N2,a,20,4,U
North,a,30,7,S
South,a,"x",2,U
Total,a,55.5,9,S
N1,b,1,3,S
N2,b,2,4,S
North,b,3,7,S
South,b,4,2,S
Total,b,7,9,S
N1,Total,11,3,S
N2,Total,,4,U
North,Total,33,7,S
South,Total,,2,M
Total,Total,62.5,9,P
"""


def test_a_table_of_others_is_audited_by_its_code_list(tmp_path: Path) -> None:
    """North less N1 is N2: only the hierarchy says so."""
    path = argus(tmp_path, CELLS)
    found = read_argus(path)
    assert (
        found.cells["N2", "a"] is None and found.cells["South", "a"] is None and found.cells["Total", "Total"] == 62.5
    )
    checked = check_cells(found.name, found.cells, found.totals, found.above)
    assert (checked.cells, checked.hidden, checked.exact, checked.problems) == (15, 4, 4, ())
    done = run("check", str(path), "--json")
    assert done.exit_code == 1 and json.loads(done.output)["exact"] == 4
    refused = run("check", str(path), "--k", "3")
    assert refused.exit_code == 2 and "--k is not for tables of statistics" in refused.output


def test_intervals_of_a_flat_table_are_those_of_the_worked_example(tmp_path: Path) -> None:
    """Fischetti and Salazar's table, through files."""
    table = flat_table([[20, 50, 10], [8, 19, 22], [17, 32, 12]])
    hidden = {"r1|c0", "r1|c2", "r2|c0", "r2|c2"}
    lines = [
        ",".join(
            [*name.split("|"), "" if name in hidden else str(table.value[cell]), "1", "U" if name in hidden else "S"]
        )
        for name, cell in table.at.items()
    ]
    flat = RDA.replace(
        '   <HIERARCHICAL>\n   <HIERCODELIST> "C:\\\\lists\\\\region.hrc"\n   <HIERLEADSTRING> "@"\n', ""
    )
    found = read_argus(argus(tmp_path, "\n".join(lines), rda=flat))
    checked = check_cells(found.name, found.cells, found.totals, found.above)
    assert (checked.hidden, checked.exact, checked.close, checked.holds) == (4, 0, 0, True)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"cells": "N1,a,10,3,S\nN1,a,11,3,S\n"}, SourceError, "line 2: this cell is there already"),
        ({"cells": "N1,a,ten,3,S\n"}, SourceError, "line 1: the value is no number"),
        ({"cells": "N1,a,10\n"}, SourceError, "line 1 has 3 of 5 columns"),
        ({"rda": RDA.replace("<RECODEABLE>", "<WEIGHT>")}, SourceError, "describes no table"),
        (
            {"rda": RDA.replace("<HIERCODELIST>", "<HIERLEVELS>")},
            SourceError,
            "levels by digits of a code are not read",
        ),
        ({"hrc": "North\n@@N1\n"}, HierarchyError, "region.hrc:2: this code is 1 levels too deep"),
        (
            {"hrc": "North\nNorth\n"},
            HierarchyError,
            "region.hrc:2: this line has no code, or one that is there already",
        ),
        ({"hrc": "Total\n"}, HierarchyError, "region.hrc:1: this line has no code"),
        ({"hrc": "\n"}, HierarchyError, "region.hrc: the code list is empty"),
    ],
)
def test_files_that_are_not_understood_are_refused(
    tmp_path: Path, change: dict[str, str], error: type[Exception], said: str
) -> None:
    given = {"cells": CELLS, **change}
    with pytest.raises(error, match=said):
        read_argus(argus(tmp_path, given.pop("cells"), **given))


def test_files_that_are_missing(tmp_path: Path) -> None:
    path = argus(tmp_path, CELLS)
    (tmp_path / "region.hrc").unlink()
    with pytest.raises(SourceError, match=r"region.hrc cannot be read"):
        read_argus(path)
    (tmp_path / "t.tab").unlink()
    with pytest.raises(SourceError, match=r"there is no table beside t.rda"):
        read_argus(path)
    found = read_argus(argus(tmp_path, CELLS, hrc="North\n@N1\nSouth\n"))
    with pytest.raises(SourceError, match=r"3 cells of 't' have a label that is not in the hierarchy"):
        check_cells(found.name, found.cells, found.totals, found.above)
    with pytest.raises(PolicyError, match=r"no cell of 't' is a total"):
        check_cells("t", {("a",): 1.0, ("b",): None}, ["Total"], [{}])


def test_a_code_list_is_a_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "r.hrc").write_text("A\n--a1\n--a2\n----x\nB\n", encoding="utf-8-sig")
    made = build("hrc", {"path": "r.hrc", "lead": "--", "total": "All"}, tmp_path)
    assert set(made.rows) == {("a1", "a1", "A", "All"), ("x", "a2", "A", "All"), ("B", "B", "B", "All")}
    with pytest.raises(HierarchyError, match="cannot be read"):
        build("hrc", {"path": "none.hrc"}, tmp_path)


@pytest.mark.parametrize("name", ["flat_4x5", "nested_6x3"])
def test_rules_by_the_names_of_acro(database: Database, name: str) -> None:
    """Its own numbers, under its own names and shares."""
    case = load_case(database, name)
    checks = {"MinimumThresholdCheck": "safe_threshold", "NKCheck": "safe_nk", "PPercentCheck": "safe_pratio"}
    rules = [{"safe_threshold": {"n": 3}}, {"safe_nk": {"n": 2, "k": 0.85}}, {"safe_pratio": {"p": 0.1}}]
    found = unsafe_cells(database, statistics_policy({"statistics": {"t": {
        "by": case["dims"], "of": "amount", "rules": rules}}}))  # fmt: skip
    filled = {row[0] for row in case["cells"]["rows"] if row[1] > 0}
    for check, rule in checks.items():
        wanted = {cell for cell, flagged in read_numbers("statistics_acro")["cases"][name].items() if check in flagged}
        assert {cell for cell in found[rule] if "Total" not in cell} == wanted & filled


def test_rules_of_acro_ask_for_the_same_levels(duck: Database) -> None:
    from test_cells import levels_of

    ours = levels_of(duck, (70, 20, 5, 3, 2), [{"p_percent": {"p": 15}}, {"nk_dominance": {"n": 2, "k": 85}},
                                               {"minimum_frequency": {"n": 10}}])  # fmt: skip
    theirs = levels_of(duck, (70, 20, 5, 3, 2), [{"safe_pratio": {"p": 0.15}}, {"safe_nk": {"n": 2, "k": 0.85}},
                                                 "safe_threshold"])  # fmt: skip
    names = {"p_percent": "safe_pratio", "nk_dominance": "safe_nk", "minimum_frequency": "safe_threshold"}
    assert len(ours) == 3 and all(math.isclose(ours[a], theirs[b]) for a, b in names.items())
