"""Columns called like those of sqlanon's own statements: a release is the same as under other names.

The names are taken from the statements themselves. Columns that matter have some of them, and columns that are released
as they are have the others.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from conftest import Database
from sqlglot import exp

from sqlanon.engines import connect
from sqlanon.errors import PolicyError
from sqlanon.policy import parse
from sqlanon.release import publish

KEY = "a secret that is longer than sixteen characters"
TYPES = {
    "p_id": "BIGINT", "p_age": "INTEGER", "p_zip": "TEXT", "p_job": "TEXT", "p_ill": "TEXT", "p_income": "INTEGER",
    "p_guard": "TEXT", "p_number": "INTEGER",
}  # fmt: skip
ROLES = {
    "p_id": "identifier", "p_age": "quasi_identifier", "p_zip": "quasi_identifier", "p_job": "quasi_identifier",
    "p_ill": "sensitive", "p_income": "insensitive", "p_guard": "identifier", "p_number": "insensitive",
}  # fmt: skip
HIERARCHIES = {
    "p_age": {"intervals": {"widths": [10, 20]}},
    "p_zip": {"prefix": {"length": 3}},
    "p_job": {"tree": {"tree": {"*": {"care": ["nurse", "doctor"], "craft": ["cook", "baker"]}}}},
    "p_ill": {"tree": {"tree": {"*": {"grave": ["hiv", "cancer"], "mild": ["flu", "cold"]}}}},
}
K, L = {"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"l": 2}}
# Beside the names of algorithms: models, and what else a policy says.
ALGORITHMS: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    **{name: (name, [K, L], {}) for name in (
        "full_domain", "samarati", "incognito", "datafly", "exhaustive", "heuristic", "mondrian", "local_suppression",
        "top_down_specialization", "bottom_up_generalization",
    )},
    "fixed_levels": ({"fixed_levels": {"levels": {"p_age": 2, "p_zip": 2, "p_job": 2}}}, [K], {}),
    "sample_and_generalize": (
        {"sample_and_generalize": {"rate": 0.7}}, [{"expected_confidence": {"beta": 0.7}}, {"k_anonymity": {"k": 2}}],
        {"suppression_limit": 1.0},
    ),
}  # fmt: skip
TRANSFORMATIONS: dict[str, dict[str, Any]] = {
    "rounding": {"columns": ["p_income"], "base": 10, "random": True},
    "top_bottom_coding": {"columns": ["p_income"], "top": 60, "bottom": 20},
    "sampling": {"share": 0.6, "exact": True, "strata": ["p_job"]},
}
CHANGED = {
    name: {*params.get("columns", []), *params.get("ordered", []), "p_age"} for name, params in TRANSFORMATIONS.items()
}


def some_rows(count: int = 40) -> list[dict[str, Any]]:
    return [
        {
            "p_id": 3 * i, "p_age": 20 + (i * 7) % 41, "p_zip": ["101", "102", "201"][(i // 2) % 3],
            "p_job": ["nurse", "doctor", "cook", "baker"][(i * i + i // 3) % 4],
            "p_ill": ["hiv", "cancer", "flu", "cold"][i % 4], "p_income": 10 + (i * 37) % 83,
            "p_guard": ["hiv", "grave", None][i % 3], "p_number": i,
        }
        for i in range(count)
    ]  # fmt: skip


def renamed(given: Any, names: dict[str, str]) -> Any:
    if isinstance(given, dict):
        return {names.get(key, key): renamed(value, names) for key, value in given.items()}
    if isinstance(given, list):
        return [renamed(value, names) for value in given]
    return names.get(given, given) if isinstance(given, str) else given


class Published:
    """Releases of the same rows under different names."""

    def __init__(self, database: Database, algorithm: Any, models: list[Any], more: dict[str, Any]) -> None:
        self.database = database
        self.given = {
            "source": {"table": "t"}, "columns": ROLES, "models": models, "hierarchies": HIERARCHIES,
            "algorithm": algorithm, "suppression_limit": 0.3, "release": {"table": "r"}, "absent_values": "allow",
        } | more  # fmt: skip
        self.seen: set[str] = set()
        engine = database.engine
        for name in ("execute", "query"):
            setattr(engine, name, self._watched(getattr(engine, name)))

    def _watched(self, run: Any) -> Any:
        def watched(tree: exp.Expr) -> Any:
            self.seen.update(node.name for node in tree.find_all(exp.Identifier))
            return run(tree)

        return watched

    def rows(self, names: dict[str, str], beside: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The release, with the plain names; and those that stand beside, which hold the number of their row."""
        columns = {names.get(name, name): kind for name, kind in TYPES.items()} | dict.fromkeys(beside, "TEXT")
        rows = [
            {names.get(name, name): value for name, value in row.items()}
            | {name: f"{name} of {row['p_number']}" for name in beside}
            for row in some_rows()
        ]
        for name in ("r", "sqlanon_releases"):  # or the same rows under other names would be refused as a second draw
            self.database.run(f"DROP TABLE IF EXISTS {name}")
        self.database.table("t", columns, rows)
        given = renamed(self.given, names)
        given["columns"] |= dict.fromkeys(beside, "insensitive")
        publish(parse(json.dumps(given)), self.database.engine, secret=KEY, workload=False)
        plain = {own: name for name, own in names.items()}
        shown = [each.name for each in self.database.engine.columns(exp.select("*").from_("r"))]
        found = self.database.fetch("SELECT * FROM r")
        return [{plain.get(name, name): value for name, value in zip(shown, row, strict=True)} for row in found]

    def names(self) -> list[str]:
        own = {
            name for name in self.seen if len(name) < 40 and not name.startswith("p_") and name not in ("t", "r", "")
        }
        return sorted({name.casefold(): name for name in sorted(own)}.values())


def compare(made: Published, same: set[str]) -> None:
    """`same` are the columns that no draw changes. All names are taken: some by the columns that matter, which others
    in every test, and the rest by columns beside them."""
    plain = ordered(made.rows({}), same)
    names = made.names()
    assert len(names) > 10
    reserved = [name for name in names if name.startswith("\u2205")]
    fit = [name for name in names if name not in reserved]
    taken = random.Random(str(sorted(same)) + str(made.given["algorithm"])).sample(fit, len(TYPES))
    beside = [name for name in fit if name not in taken]
    found = made.rows(dict(zip(TYPES, taken, strict=True)), beside)
    assert ordered(found, same) == plain, taken
    if "p_number" in same:
        wrong = [name for row in found if "p_number" in row for name in beside if name in row
                 and row[name] not in (None, f"{name} of {row['p_number']}")]  # fmt: skip
        assert wrong == [], taken
    for name in reserved[:1]:
        with pytest.raises(PolicyError, match="a name that sqlanon uses itself"):
            made.rows({}, [name])


def ordered(rows: list[dict[str, Any]], same: set[str]) -> list[str]:
    return sorted(str({name: row[name] for name in sorted(same & row.keys())}) for row in rows)


@pytest.mark.full
@pytest.mark.parametrize("case", ALGORITHMS)
def test_columns_called_like_those_of_an_algorithm(case: str) -> None:
    database = Database(connect(":memory:"))
    drawn = {"sample_and_generalize": {"p_number", "p_income", "p_age", "p_zip", "p_job", "p_ill"}}
    compare(Published(database, *ALGORITHMS[case]), set(TYPES) - drawn.get(case, set()))


@pytest.mark.full
@pytest.mark.parametrize("case", TRANSFORMATIONS)
def test_columns_called_like_those_of_a_transformation(case: str) -> None:
    """Draws differ with the names of columns: what is not drawn is the same."""
    database = Database(connect(":memory:"))
    more = {"transformations": [{case: TRANSFORMATIONS[case]}]}
    same = set() if case == "sampling" else set(TYPES) - CHANGED[case] - {"p_zip", "p_job"}
    compare(Published(database, "full_domain", [{"k_anonymity": {"k": 2}}], more), same)


@pytest.mark.full
@pytest.mark.parametrize("name", ["own", "whole", "seed", "label", "key"])
def test_names_that_were_taken_for_others(database: Database, name: str) -> None:
    """A stratum, and a column of rows without a key, called like what is joined to the rows or computed beside them."""
    rows = [{"age": 20 + number % 3, name: f"v{number % 2}", "number": number} for number in range(24)]
    database.table("t", {"age": "INTEGER", name: "TEXT", "number": "INTEGER"}, rows)
    roles = {"age": "quasi_identifier", name: "insensitive", "number": "insensitive"}
    for use in ({"sampling": {"share": 0.5, "exact": True, "strata": [name]}},
                {"data_swap": {"columns": ["number"], "share": 1.0, "within": [name]}}):  # fmt: skip
        given = {
            "source": {"table": "t"}, "columns": roles, "models": [{"k_anonymity": {"k": 2}}], "transformations": [use],
            "algorithm": "full_domain", "hierarchies": {"age": {"intervals": {"widths": [10]}}},
            "release": {"table": "r"},
        }  # fmt: skip
        publish(parse(json.dumps(given)), database.engine, secret=KEY, workload=False)
        found = database.fetch(f'SELECT "{name}", number FROM r')
        if "sampling" in use:
            assert sorted(value for value, _ in found) == ["v0"] * 6 + ["v1"] * 6
        assert all(value == f"v{number % 2}" for value, number in found)


def test_a_column_with_a_reserved_name_is_refused(database: Database) -> None:
    database.table("t", {"age": "INTEGER", "\u2205 row": "INTEGER"}, [{"age": 1, "\u2205 row": 2}] * 3)
    given = {"source": {"table": "t"}, "columns": {"age": "quasi_identifier"}, "models": [{"k_anonymity": {"k": 2}}],
             "algorithm": "full_domain", "release": {"table": "r"}}  # fmt: skip
    with pytest.raises(PolicyError, match="a name that sqlanon uses itself"):
        publish(parse(json.dumps(given)), database.engine, workload=False)
