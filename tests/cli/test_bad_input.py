"""Names, values, files and servers that nobody expects: right answers, or a clear message and exit code 2."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit, urlunsplit

import brute
import duckdb
import pytest
from click.testing import CliRunner, Result
from conftest import Database
from measuring import policy_for

from sqlanon.cli import main
from sqlanon.engines import connect
from sqlanon.errors import HierarchyError, PolicyError
from sqlanon.evidence.checks import check
from sqlanon.evidence.loss import loss
from sqlanon.evidence.results import CheckResult
from sqlanon.families import algorithm_traits, family, module_names
from sqlanon.policy import Source, parse

K2 = {"k_anonymity": {"k": 2}}
L2 = {"distinct_l_diversity": {"l": 2}}


def checked(database: Database, group: list[str], sensitive: list[str], *models: Any, **more: Any) -> list[CheckResult]:
    return list(check(policy_for(group, sensitive, list(models), **more), database.engine, limit=100).checks)


# Names ----------------------------------------------------------------------------------------------------------------

# Names that SQL must quote, and names that the statements use themselves.
ODD = [
    'say "hi"',
    "it's",
    "two words",
    "a.b",
    "Größe",
    "日本",
    "select",
    "order",
    "MiXed",
    "100%",
    ":k",
    "--",
    "?",
    ";",
]
OWN = ["class_id", "records", "value", "measured", "sqlanon_row", "source", "c1", "c2", "original", "label", "number"]
OWN += ["person", "released", "population", "guard", "category", "node", "level_0", "k", "r", "n", "t", "broken"]
CELLS = [("1", "1", "f"), ("1", "1", "g"), ("1", "2", "g"), ("1", "2", "g"), ("2", "1", "f"), (None, "1", "f")]


def fill(database: Database, *columns: str, table: str = "t") -> list[dict[str, Any]]:
    rows = [dict(zip(columns, cells, strict=True)) for cells in CELLS]
    database.table(table, dict.fromkeys(columns, "TEXT"), rows)
    return rows


@pytest.mark.parametrize("name", ODD + OWN)
def test_a_column_may_have_any_name(database: Database, name: str) -> None:
    first = "c2" if name == "c1" else "first"  # the other way round than the statements name them
    fill(database, first, name, "secret")
    anonymity, diversity = checked(database, [first, name], ["secret"], K2, L2)
    assert [item.columns for item in anonymity.violations] == [{first: None, name: "1"}, {first: "2", name: "1"}]
    assert [(item.columns, item.records) for item in diversity.violations] == [({first: "1", name: "2"}, 2)]
    assert (diversity.classes, diversity.broken_classes) == (4, 3)


@pytest.mark.full
@pytest.mark.parametrize("name", ODD[:6] + OWN)
def test_a_sensitive_column_may_have_any_name(database: Database, name: str) -> None:
    rows = fill(database, "first", "second", name)
    models: list[Any] = [{"t_closeness": {"t": 0}}, {"hierarchical_t_closeness": {"t": 0}}, {"expected_confidence": {}}]
    models.append({"entropy_l_alpha_diversity": {"l": 2, "alpha": 1, "categories": [["f"], ["g"]]}})
    tree = {"tree": {"tree": {"*": ["f", "g"]}}}
    found = checked(database, ["first", "second"], [name], *models, hierarchies={name: tree})
    distance = max(brute.t_closeness(rows, ["first", "second"], name, t=0).values())
    surprise = max(brute.expected_confidence(rows, ["first", "second"], name, beta=1).values())
    assert [result.measured for result in found] == pytest.approx([float(distance), float(distance), surprise, 1])


@pytest.mark.parametrize("name", ["two words", "select", "MiXed", "Größe", "it's", ";--", "source", "records", "c1"])
def test_a_table_may_have_any_name(database: Database, name: str) -> None:
    fill(database, "a", "b", "s", table=name)
    (found,) = checked(database, ["a", "b"], ["s"], K2, source={"table": name})
    assert (found.classes, found.broken_classes) == (4, 2)


def test_double_quotes_protect_a_dot(database: Database) -> None:
    database.run('DROP SCHEMA IF EXISTS "my.schema" CASCADE')
    database.run('CREATE SCHEMA "my.schema"')
    database.run("""CREATE TABLE "my.schema"."v1.5" AS SELECT 'x' AS a""")
    (found,) = checked(database, ["a"], [], K2, source={"table": '"my.schema"."v1.5"'})
    database.run('DROP SCHEMA "my.schema" CASCADE')
    assert (found.classes, found.measured) == (1, 1)


def test_a_double_quote_in_the_name_of_a_table(database: Database) -> None:
    fill(database, "a", "b", "s", table='say "hi"')
    (found,) = checked(database, ["a", "b"], ["s"], K2, source={"table": '"say ""hi"""'})
    assert (found.classes, found.broken_classes) == (4, 2)


def test_a_column_called_like_the_row_number(database: Database) -> None:
    database.table("t", {"a": "TEXT", "sqlanon_row": "INTEGER"}, [{"a": None, "sqlanon_row": 7}] * 2)
    (found,) = checked(database, ["a"], [], K2, nulls="unique")
    assert (found.classes, found.holds) == (2, False)


def test_a_table_called_like_a_temporary_one(database: Database) -> None:
    fill(database, "a", "b", "s", table="sqlanon_classes_1")
    policy = policy_for(["a", "b"], ["s"], [K2, L2], source={"table": "sqlanon_classes_1"})
    with pytest.raises(PolicyError, match="begins with sqlanon_"):
        check(policy, database.engine)


@pytest.mark.full
@pytest.mark.parametrize("name", ["c1", "class_id", "records", "released", "kept", "level", "label", "v1", "target"])
def test_loss_of_a_column_of_any_name(database: Database, name: str) -> None:
    database.table("t", {name: "TEXT"}, [{name: "x"}, {name: "y"}])
    database.table("r", {name: "TEXT"}, [{name: "*"}, {name: "*"}])
    policy = policy_for([name], [], [K2], hierarchies={name: {"tree": {"tree": {"*": ["x", "y"]}}}})
    found = loss(policy, database.engine, Source(table="r"))
    assert (found.levels, found.by_attribute) == ({name: 1}, {name: 1.0})


# Values ---------------------------------------------------------------------------------------------------------------

TYPES = {"a": "TEXT", "s": "TEXT", "n": "DOUBLE PRECISION", "g": "TEXT"}
SHAPES: dict[str, tuple[int, list[tuple[Any, ...]]]] = {
    "empty": (0, []),
    "one row": (1, [("x", "flu", 1.0, None)]),
    "all equal": (1, [("x", "flu", 1.0, "*")] * 5),
    "all distinct": (5, [(f"x{i}", f"s{i}", float(i), f"s{i}") for i in range(5)]),
    "all NULL": (1, [(None, None, None, None)] * 5),
}
MODELS: dict[str, dict[str, Any]] = {
    "k_anonymity": {"k": 2},
    "k_map": {"k": 2},
    "delta_presence": {"delta_min": 0, "delta_max": 0.5},
    "xy_anonymity": {"x": ["a"], "y": ["s"], "k": 2},
    "xy_privacy": {"x": ["a"], "k": 2, "h": 0.5},
    "multi_attribute_l_diversity": {"l": 2},
    "distinct_l_diversity": {"l": 2},
    "entropy_l_diversity": {"l": 2},
    "recursive_cl_diversity": {"c": 2, "l": 2},
    "positive_recursive_cl_diversity": {"c": 2, "l": 2, "dont_care": ["flu"]},
    "negative_positive_recursive_cl_diversity": {"c1": 2, "c2": 0.1, "l": 2, "protect": ["flu"]},
    "l_plus_diversity": {"thresholds": {"flu": 0.5}},
    "confidence_bounding": {"value": "flu", "h": 0.5},
    "alpha_k_anonymity": {"alpha": 0.5, "k": 2},
    "k_e_anonymity": {"k": 2, "e": 1},
    "epsilon_m_anonymity": {"epsilon": 1, "m": 2},
    "relative_epsilon_m_anonymity": {"epsilon": 0.1, "m": 2},
    "t_closeness": {"t": 0.1},
    "ordered_t_closeness": {"t": 0.1},
    "hierarchical_t_closeness": {"t": 0.1},
    "nt_closeness": {"n": 2, "t": 0.1},
    "basic_beta_likeness": {"beta": 1},
    "enhanced_beta_likeness": {"beta": 1},
    "delta_disclosure": {"delta": 1},
    "personalized_privacy": {"p_breach": 0.5, "guard": "g"},
    "expected_confidence": {},
}
ALWAYS_BROKEN_FOR_ONE_VALUE = {"distinct_l_diversity", "entropy_l_diversity", "recursive_cl_diversity"}


def use(name: str) -> dict[str, Any]:
    needs = family("models")[name].needs
    attribute = {"attribute": "n" if "numeric" in needs else "s"} if "sensitive" in needs else {}
    return {name: MODELS[name] | attribute}


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_tables_at_the_edge(database: Database, shape: str) -> None:
    classes, cells = SHAPES[shape]
    rows = [dict(zip(TYPES, values, strict=True)) for values in cells]
    database.table("t", TYPES, rows)
    database.table("everybody", {"a": "TEXT"}, [{"a": row["a"]} for row in rows])
    taxonomy = {"tree": {"tree": {"*": ["flu", *(f"s{i}" for i in range(5))]}}}
    roles = {"a": "quasi_identifier", "s": "sensitive", "n": "sensitive", "g": "insensitive"}
    more = {"columns": roles, "hierarchies": {"s": taxonomy}, "population": {"table": "everybody"}}
    for result in checked(database, ["a"], ["s", "n"], *map(use, MODELS), **more):
        assert result.classes == classes, result.model
        assert (result.measured is None) == (classes == 0), result.model
        assert classes or result.holds, result.model
        assert not classes or result.model not in ALWAYS_BROKEN_FOR_ONE_VALUE or not result.holds, result.model
        if result.model in ("k_anonymity", "k_map"):
            assert result.holds == (shape in ("empty", "all equal", "all NULL")), result.model


NAN, INFINITY = math.nan, math.inf
NUMBERS = [(NAN, 1), (NAN, 2), (INFINITY, 3), (INFINITY, NAN), (-INFINITY, INFINITY), (-INFINITY, -INFINITY)]
NUMBERS += [(None, None), (None, 5)]


def test_nan_and_infinities(database: Database) -> None:
    rows = [{"a": a, "n": n} for a, n in NUMBERS]
    database.table("t", {"a": "DOUBLE PRECISION", "n": "DOUBLE PRECISION"}, rows)
    models: list[Any] = [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"l": 3}}]
    models += [{"k_e_anonymity": {"k": 2, "e": 1}}, {"epsilon_m_anonymity": {"epsilon": 1, "m": 2}}]
    models += [{"relative_epsilon_m_anonymity": {"epsilon": 0.5, "m": 2}}, {"ordered_t_closeness": {"t": 0}}]

    def label(shown: str | None) -> str | None:  # engines spell them differently
        return None if shown is None else str(float(shown))

    found = [
        {label(item.columns["a"]): item.measured for item in result.violations}
        for result in checked(database, ["a"], ["n"], *models, sensitive_nulls="value")
    ]
    sizes, diversity, ranges, absolute, relative, distances = found
    assert sizes == diversity == {"nan": 2, "inf": 2, "-inf": 2, None: 2}
    assert ranges == {"inf": 0, "-inf": 0, None: 0}  # neither NaN nor an infinity is a number to be far from
    assert absolute == relative == {"nan": 1}
    assert all(0 < distance <= 1 for distance in distances.values()) and len(distances) == 4


@pytest.mark.parametrize(("kind", "most"), [("BIGINT", 2**63 - 1), ("NUMERIC(38, 0)", 10**38 - 1)])
def test_huge_integers(database: Database, kind: str, most: int) -> None:
    rows = [{"a": most, "n": most}, {"a": most, "n": -most}, {"a": most - 1, "n": 0}, {"a": most - 1, "n": 0}]
    database.table("t", {"a": kind, "n": kind}, rows)
    anonymity, spread = checked(database, ["a"], ["n"], {"k_anonymity": {"k": 3}}, {"k_e_anonymity": {"k": 2, "e": 1}})
    assert {item.columns["a"] for item in anonymity.violations} == {str(most), str(most - 1)}
    assert [item.columns for item in spread.violations] == [{"a": str(most - 1)}]


def test_very_long_text(database: Database) -> None:
    long = "x" * 300_000
    rows = [{"a": long + end, "s": long + end} for end in "1122"]
    database.table("t", {"a": "TEXT", "s": "TEXT"}, rows)
    anonymity, diversity = checked(database, ["a"], ["s"], K2, L2)
    assert anonymity.holds and [item.columns["a"] for item in diversity.violations] == [long + "1", long + "2"]


@pytest.mark.parametrize(
    ("kind", "values", "written"),
    [
        ("BOOLEAN", (True, False), "true"),
        ("DATE", ("2024-01-31", "2024-02-01"), "2024-01-31"),
        ("TIMESTAMP", ("2024-01-31 12:00:00", "2024-02-01 00:00:00"), "2024-01-31 12:00:00"),
    ],
)
def test_sensitive_columns_that_are_not_text(database: Database, kind: str, values: Any, written: str) -> None:
    first, second = values
    rows = [{"a": a, "s": s} for a, s in [("x", first), ("x", second), ("y", first), ("y", first), ("y", None)]]
    database.table("t", {"a": "TEXT", "s": kind}, rows)
    models: list[Any] = [L2, {"confidence_bounding": {"value": written, "h": 0.6}}, {"ordered_t_closeness": {"t": 1}}]
    diversity, confidence, distance = checked(database, ["a"], ["s"], *models, sensitive_nulls="value")
    assert diversity.holds and distance.holds
    assert [(item.columns, item.measured) for item in confidence.violations] == [({"a": "y"}, pytest.approx(2 / 3))]
    with pytest.raises(PolicyError, match="measures distances, but 's' is of type"):
        checked(database, ["a"], ["s"], {"k_e_anonymity": {"k": 2, "e": 1}})


def test_values_that_are_called_null_or_star(database: Database) -> None:
    names = ["NULL", "\u2205 NULL", "*", None]
    rows = [{"a": a, "s": s} for a in names for s in names]
    database.table("t", {"a": "TEXT", "s": "TEXT"}, rows)
    models: list[Any] = [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"l": 5}}, {"t_closeness": {"t": 0}}]
    models += [{"confidence_bounding": {"value": name, "h": 0.1}} for name in names[:3]]
    found = checked(database, ["a"], ["s"], *models, sensitive_nulls="value")
    anonymity, diversity, closeness, *confidences = found
    for result in (anonymity, diversity):
        assert {item.columns["a"]: item.measured for item in result.violations} == dict.fromkeys(names, 4)
    assert closeness.holds
    assert [result.measured for result in confidences] == [0.25] * 3


# The command line -----------------------------------------------------------------------------------------------------

PATIENTS = {"name": "TEXT", "age": "INTEGER", "zip": "TEXT", "disease": "TEXT", "salary": "INTEGER"}
ROWS = [
    dict(
        zip(
            PATIENTS,
            (f"Secret-name-{i}", 30 + i // 4, f"Z{i // 4}", f"Secret-disease-{i % 3}", 870_001 + i),
            strict=True,
        )
    )
    for i in range(12)
] + [{"name": "Secret-name-12", "age": 99, "zip": "Z9", "disease": "Secret-disease-9", "salary": 870_013}]


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, ["check", *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert "Traceback" not in result.output
    return result


@pytest.mark.parametrize("options", [[], ["--qi", "a", "--k", "2"]])
@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "folder"])
def test_a_table_of_a_file_of_rows(tmp_path: Path, name: str, options: list[str]) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    (tmp_path / "folder").mkdir()
    said = refused(str(tmp_path / name), "patients", *options)
    assert f"{name}' holds rows itself, it has no table 'patients' in it" in said and "leave the table out" in said


def refused(*args: str) -> str:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


def not_json(token: str) -> NoReturn:
    raise AssertionError(f"{token} is not JSON")


def as_json(*args: str) -> tuple[int, Any]:
    result = run(*args, "--json")
    return result.exit_code, json.loads(result.stdout, parse_constant=not_json)


@pytest.fixture(params=["duckdb", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the table `patients`, and no connection to it."""
    given = str(tmp_path / "hospital.duckdb")
    if request.param == "postgres":
        given = request.getfixturevalue("postgres_url")
    made = Database(connect(given, read_only=False))
    if request.param == "postgres":
        made.run("DROP SCHEMA public CASCADE")
        made.run("CREATE SCHEMA public")
    made.table("patients", PATIENTS, ROWS)
    made.engine.close()
    return given


QI = ("patients", "--qi", "age,zip")


def test_exit_codes(url: str) -> None:
    broken = run(url, *QI, "--k", "2")
    assert broken.exit_code == 1 and "1 of 1 requirements are broken" in broken.stdout and "Z9" in broken.stdout
    made = Database(connect(url, read_only=False))
    made.run("DELETE FROM patients WHERE age = 99")
    made.engine.close()
    holds = run(url, *QI, "--k", "4")
    assert holds.exit_code == 0 and "all 1 requirements hold" in holds.stdout
    assert refused(url, *QI).startswith("sqlanon: nothing to check\n  hint: ask for a model")


def test_json_has_no_infinity(url: str) -> None:
    code, found = as_json(url, *QI, "--sensitive", "disease", "--model", "delta_disclosure delta=1", "--k", "2")
    assert code == 1 and found["holds"] is False and found["records"] == 13
    delta, anonymity = found["checks"]
    assert delta["measured"] == "inf" and delta["broken_classes"] == 4
    assert anonymity["violations"] == [{"columns": {"age": "99", "zip": "Z9"}, "records": 1, "measured": 1.0}]


def test_limit_0_shows_no_class(url: str) -> None:
    code, found = as_json(url, *QI, "--k", "5", "--limit", "0")
    assert code == 1 and found["checks"][0]["broken_classes"] == 4
    assert found["checks"][0]["violations"] == []
    assert not any(label in run(url, *QI, "--k", "5", "--limit", "0").stdout for label in ("Z0", "Z1", "Z2", "Z9"))
    assert len(as_json(url, *QI, "--k", "5", "--limit", "2")[1]["checks"][0]["violations"]) == 2


def policy_file(folder: Path, url: str, models: list[Any], source: dict[str, Any] | None = None) -> str:
    roles = {"name": "identifier", "age": "quasi_identifier", "zip": "quasi_identifier"}
    roles |= {"disease": "sensitive", "salary": "sensitive"}
    source = {"database": url, **(source or {"table": "patients"})}
    path = folder / "policy.yml"
    written = {"source": source, "columns": roles, "models": models, "absent_values": "allow"}
    path.write_text(json.dumps(written), encoding="utf-8")
    return str(path)


# What names no sensitive value in the policy, so that one in the output would come from the rows.
SILENT = ["k_anonymity", "multi_attribute_l_diversity", "distinct_l_diversity", "entropy_l_diversity", "t_closeness"]
SILENT += ["recursive_cl_diversity", "alpha_k_anonymity", "ordered_t_closeness", "nt_closeness", "delta_disclosure"]
SILENT += ["basic_beta_likeness", "enhanced_beta_likeness", "expected_confidence"]


def secrets_in(text: str) -> bool:
    return "Secret" in text or "8700" in text


@pytest.mark.full
def test_rows_of_persons_are_never_shown(url: str, tmp_path: Path) -> None:
    models = [{name: MODELS[name]} for name in SILENT]
    models += [{name: MODELS[name] | {"attribute": "salary"}} for name in ("k_e_anonymity", "epsilon_m_anonymity")]
    models.append({"xy_anonymity": {"x": ["age", "zip"], "y": ["name"], "k": 9}})
    models.append({"confidence_bounding": {"value": "influenza", "h": 0.5, "attribute": "disease"}})
    path = policy_file(tmp_path, url, models)
    for result in (run(path, "--limit", "1000"), run(path, "--limit", "1000", "--json")):
        assert result.exit_code == 1 and "Z1" in result.stdout
        assert not secrets_in(result.output)


@pytest.mark.parametrize(
    "model",
    [
        {"ff_anonymity": {"h": 0.5, "sensitive_values": {"disease": ["Secret-disease-9"]}}},
        {"xy_anonymity": {"x": ["name", "age"], "y": ["zip"], "k": 2}},
        {"xy_anonymity": {"x": ["age", "disease"], "y": ["zip"], "k": 2}},
    ],
)
def test_rows_of_persons_are_not_shown_as_classes(url: str, tmp_path: Path, model: Any) -> None:
    code, found = as_json(policy_file(tmp_path, url, [model]), "--limit", "1000")
    shown = [item["columns"] for result in found["checks"] for item in result["violations"]]
    assert code == 1 and not secrets_in(json.dumps(shown))


def test_an_error_about_a_value_does_not_quote_it(url: str, tmp_path: Path) -> None:
    query = "SELECT name, CAST(name AS INTEGER) AS age, zip, disease, salary FROM patients"
    said = refused(policy_file(tmp_path, url, [K2], {"query": query}))
    clear = ("sqlanon: the database refused a statement", "sqlanon: a value cannot be read as the type")
    assert said.startswith(clear) and not secrets_in(said)


def test_a_table_that_vanished(url: str, tmp_path: Path) -> None:
    path = policy_file(tmp_path, url, [K2], {"table": "patient"})
    assert refused(path) == "sqlanon: there is no table 'patient'\n  hint: did you mean 'patients'?\n"


def test_a_column_that_is_not_there(url: str) -> None:
    said = refused(url, "patients", "--qi", "agee", "--k", "2")
    assert "column 'agee' is not in the source" in said and "did you mean 'age'?" in said


def test_a_check_leaves_nothing_behind(url: str) -> None:
    def tables() -> list[str]:
        engine = connect(url)
        found = engine.tables()
        engine.close()
        return found

    before = Path(url).read_bytes() if Path(url).exists() else b""
    assert run(url, *QI, "--sensitive", "disease", "--k", "2", "--l", "2", "--t", "0.1").exit_code == 1
    assert tables() == ["patients"]
    if before:
        assert Path(url).read_bytes() == before
        assert [path.name for path in Path(url).parent.iterdir()] == ["hospital.duckdb"]


# Files and servers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("x;p;*\n", "does not cover values of the column\n  'y' (1 rows)"),
        ("x;p;A;*\ny;p;B;*\n", "does not nest: nodes with several parents\n  'p' (2 rows)"),
    ],
)
def test_a_hierarchy_file_that_is_no_tree_of_the_values(
    database: Database, tmp_path: Path, lines: str, problem: str
) -> None:
    (tmp_path / "a.csv").write_text(lines)
    database.table("t", {"a": "TEXT"}, [{"a": "x"}, {"a": "y"}])
    with pytest.raises(HierarchyError) as refused:
        checked(database, ["a"], [], K2, hierarchies={"a": {"csv": {"path": str(tmp_path / "a.csv")}}})
    assert problem in str(refused.value)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_folder_of_files(tmp_path: Path, ending: str) -> None:
    folder = tmp_path / "rows"
    (folder / "deeper").mkdir(parents=True)
    for name in ("one", "deeper/two"):
        duckdb.sql(f"COPY (SELECT 'x' AS a, 1 AS b) TO '{folder / name}.{ending}'")
    code, found = as_json(str(folder), "--qi", "a,b", "--k", "2")
    assert (code, found["records"], found["checks"][0]["measured"]) == (0, 2, 2)
    assert as_json(str(folder / f"one.{ending}"), "--qi", "a,b", "--k", "2")[0] == 1


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "patients.csv").write_text("a\nx\n")
    (tmp_path / "hospital.duckdb").write_bytes(b"")
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "notes.txt").write_text("no rows")

    def said(target: str, *table: str) -> str:
        return refused(str(tmp_path / target), *table, "--qi", "a", "--k", "2")

    assert said("patient.csv") == (
        f"sqlanon: there is no file '{tmp_path / 'patient.csv'}'\n  hint: did you mean 'patients.csv'?\n"
    )
    assert said("hospitl.duckdb", "t") == (
        f"sqlanon: there is no database '{tmp_path / 'hospitl.duckdb'}'\n  hint: did you mean 'hospital.duckdb'?\n"
    )
    assert said("none") == f"sqlanon: the folder '{tmp_path / 'none'}' holds no Parquet or CSV file\n"
    assert "is a database: which table of it?" in said("hospital.duckdb")
    assert refused(str(tmp_path / "policy.yml")).startswith(f"sqlanon: there is no file '{tmp_path / 'policy.yml'}'")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "letter.duckdb"
    path.write_text("Dear Sir or Madam, " * 1000)
    said = refused(str(path), "t", "--qi", "a", "--k", "2")
    assert said.startswith(f"sqlanon: the database '{path}' cannot be opened\n  hint: is it a DuckDB file")
    assert "Dear" not in said


def test_a_database_that_another_process_writes_to(tmp_path: Path) -> None:
    path = tmp_path / "busy.duckdb"
    code = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        said = refused(str(path), "t", "--qi", "a", "--k", "2")
        writer.communicate("")
    assert said == (
        f"sqlanon: the database '{path}' is in use by another process that writes to it\n"
        "  hint: wait until it is done, or check a copy of the file\n"
    )


def test_an_unreachable_server() -> None:
    said = refused("postgresql://ann:geheim@127.0.0.1:1/db", "t", "--qi", "a", "--k", "2")
    assert said.startswith("sqlanon: cannot connect to postgresql://ann@127.0.0.1:1/db\n  hint: ")
    assert "geheim" not in said


def test_a_login_that_the_server_refuses(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    host = parts.netloc.rpartition("@")[2]
    login = urlunsplit(parts._replace(netloc=f"nobody:geheim@{host}"))
    said = refused(login, "t", "--qi", "a", "--k", "2")
    assert "sqlanon: cannot connect to postgresql://nobody@" in said and "nobody" in said.partition("hint:")[2]
    assert "geheim" not in said


@pytest.mark.parametrize(
    "args",
    [
        ("postgresql://ann:geheim@127.0.0.1:1/db",),
        ("postgresql://ann:*geheim@127.0.0.1:1/db",),
        ("postgresql://ann:%geheim@127.0.0.1:1/db", "t"),
        ("postgresql://127.0.0.1:1/db?user=ann&password=ge@heim", "t"),
    ],
)
def test_a_password_is_never_shown(args: tuple[str, ...]) -> None:
    assert "heim" not in refused(*args, "--qi", "a", "--k", "2")


def test_an_engine_that_does_not_exist() -> None:
    said = refused("mysql://ann:geheim@127.0.0.1/db", "t", "--qi", "a", "--k", "2")
    assert said == (
        "sqlanon: there is no engine for 'mysql://'\n  hint: give a DuckDB file, ':memory:', a postgresql:// URL, "
        "or spark:local, spark://… or sc://… for Spark\n"
    )


def test_a_table_that_changes_between_checks(database: Database, postgres_url: str) -> None:
    fill(database, "a", "b", "s")
    for _ in range(7):
        assert len(checked(database, ["a", "b"], ["s"], K2)) == 1
    other = Database(connect(postgres_url)) if database.url else database
    other.run("ALTER TABLE t ADD COLUMN late TEXT")
    if other is not database:
        other.engine.close()
    assert len(checked(database, ["a", "b"], ["s"], K2)) == 1


@pytest.mark.parametrize("written", ["{}", "{{{}: {{}}}}"])
def test_an_algorithm_without_the_parameters_that_it_needs(written: str) -> None:
    """It is refused when the policy is read; the others are taken as they are."""
    text = "source: {table: t}\ncolumns: {a: quasi_identifier, s: sensitive}\nmodels: [k_anonymity: {k: 2}]\n"
    needing = set()
    for name in module_names("algorithms"):
        if "rows" not in algorithm_traits(name).shapes:
            continue
        try:
            parse(f"{text}algorithm: {written.format(name)}")
        except PolicyError as error:
            assert "is missing" in f"{error.message} {error.detail}"
            needing.add(name)
    assert {"anatomy", "k_e_grouping", "slicing", "personalized", "fixed_levels"} <= needing
    assert not needing & {"full_domain", "mondrian"}
