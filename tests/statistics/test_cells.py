"""Cells, equations and unsafe cells as the database makes them, beside plain Python and other tools."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import brute_statistics
import pytest
from conftest import Database, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_numbers import read_numbers
from statistical_tables import SDCTABLE

from sqlanon.errors import HierarchyError, PolicyError, SourceError
from sqlanon.policy.files import parse_statistics
from sqlanon.policy.statistics import StatisticsPolicy, Suppression
from sqlanon.statistics.cell_tables import CellTables, Workspace, find_unsafe, make_cells
from sqlanon.statistics.protection_task import ReadTables, read_tables


def statistics_policy(data: Mapping[str, Any]) -> StatisticsPolicy:
    found = parse_statistics(json.dumps({"source": {"table": "firms"}, "release": {"table": "released"}, **data}))
    assert found is not None
    return found


@contextmanager
def cells_of(database: Database, policy: StatisticsPolicy, exact_counts: bool = False) -> Iterator[CellTables]:
    workspace = Workspace(database.engine)
    try:
        yield make_cells(policy, database.engine, workspace, exact_counts=exact_counts)
    finally:
        workspace.drop()


def label(tables: CellTables, name: str, cell: int) -> tuple[str, ...]:
    item = next(item for item in tables.tables if item.name == name)
    dimensions = [tables.dimension(place) for place in item.places]
    return tuple(dimension.labels[dimension.node_of(cell)] for dimension in dimensions)


def unsafe_cells(database: Database, policy: StatisticsPolicy) -> dict[str, set[str]]:
    """By rule."""
    with cells_of(database, policy) as tables:
        found: dict[str, set[str]] = {}
        for name, rule, cell, _ in find_unsafe(tables):
            found.setdefault(rule, set()).add("|".join(label(tables, name, cell)))
        return found


def tree_of(below: Mapping[str, Sequence[str]], root: str) -> Any:
    return {node: tree_of(below, node) if node in below else None for node in below[root]}


def rule_of(said: str) -> dict[str, Any]:
    """A rule as sdcTable was asked for it: 'nk n=2 k=85'."""
    kind, *pairs = said.split()
    params = {key: float(value) for key, value in (pair.split("=") for pair in pairs)}
    names = {"freq": "minimum_frequency", "nk": "nk_dominance", "p": "p_percent", "pq": "pq"}
    if kind == "freq":
        params = {"n": params["maxN"] + 1}
    return {names[kind]: {key: int(value) for key, value in params.items()}}


def load_case(database: Database, name: str) -> Mapping[str, Any]:
    case: Mapping[str, Any] = SDCTABLE[name]
    columns = case["rows"]["columns"]
    kinds = {column: "INTEGER" if column == "amount" else "TEXT" for column in columns}
    database.table("firms", kinds, [dict(zip(columns, row, strict=True)) for row in case["rows"]["rows"]])
    return case


@pytest.mark.parametrize("name", SDCTABLE)
def test_unsafe_cells_are_those_of_sdctable(database: Database, name: str) -> None:
    case = load_case(database, name)
    hierarchies = {own: {"tree": {"tree": {"Total": tree_of(case["trees"][own], "Total")}}} for own in case["dims"]}
    for said, wanted in case["primary"].items():
        statistic = {"by": case["dims"], "of": "amount", "rules": [rule_of(said)]}
        policy = statistics_policy({"hierarchies": hierarchies, "statistics": {"t": statistic}})
        found = unsafe_cells(database, policy)
        assert set().union(*found.values()) == set(wanted), said


@pytest.mark.parametrize("name", ["flat_4x5", "nested_6x3"])
def test_unsafe_cells_are_those_of_acro(database: Database, name: str) -> None:
    case = load_case(database, name)
    checks = {"MinimumThresholdCheck": "minimum_frequency", "NKCheck": "nk_dominance", "PPercentCheck": "p_percent"}
    rules = [{"minimum_frequency": {"n": 3}}, {"nk_dominance": {"n": 2, "k": 85}}, {"p_percent": {"p": 10}}]
    found = unsafe_cells(database, statistics_policy({"statistics": {"t": {
        "by": case["dims"], "of": "amount", "rules": rules}}}))  # fmt: skip
    filled = {row[0] for row in case["cells"]["rows"] if row[1] > 0}  # to acro an empty cell is below the threshold too
    for check, rule in checks.items():
        wanted = {cell for cell, flagged in read_numbers("statistics_acro")["cases"][name].items() if check in flagged}
        leaves = {cell for cell in found[rule] if "Total" not in cell}
        assert leaves == wanted & filled


def levels_of(database: Database, amounts: Sequence[float], rules: Sequence[Any], **also: Any) -> dict[str, float]:
    """What rules ask for the one cell of a table, by rule."""
    waived = also.pop("waived", None)
    weights = also.pop("weights", None)
    rows = [
        {"one": "x", "amount": amount, "waived": bool(waived and waived[place]),
         "weight": weights[place] if weights else 1.0}
        for place, amount in enumerate(amounts)
    ]  # fmt: skip
    database.table("firms", {"one": "TEXT", "amount": "DOUBLE PRECISION", "waived": "BOOLEAN",
                             "weight": "DOUBLE PRECISION"}, rows)  # fmt: skip
    statistic = {"by": ["one"], "of": "amount", "rules": list(rules)}
    statistic |= {"waived": "waived"} if waived else {}
    statistic |= {"weight": "weight"} if weights else {}
    with cells_of(database, statistics_policy({"statistics": {"t": statistic}})) as tables:
        return {rule: level for _, rule, cell, level in find_unsafe(tables) if label(tables, "t", cell) == ("x",)}


def test_the_levels_of_the_worked_example(database: Database) -> None:
    amounts = [70, 20, 5, 3, 2]
    assert levels_of(database, amounts, [{"p_percent": {"p": 10}}]) == {}
    rules = [{"p_percent": {"p": 15}}, {"nk_dominance": {"n": 2, "k": 85}}, {"pq": {"p": 15, "q": 50}}]
    found = levels_of(database, amounts, rules)
    assert found == {
        "p_percent": pytest.approx(0.5),
        "nk_dominance": pytest.approx(5.882352941),
        "pq": pytest.approx(11),
    }
    assert levels_of(database, amounts, [{"p_percent": {"p": 15}}], waived=[True, False, False, False, False]) == {}
    assert levels_of(database, amounts, [{"minimum_frequency": {"n": 6}}]) == {"minimum_frequency": pytest.approx(10)}
    assert levels_of(database, amounts, [{"minimum_frequency": {"n": 6, "level": 7}}]) == {"minimum_frequency": 7}
    # Who has waived attacks all the same: of the others, 20 is what can be estimated, by the one with 70.
    assert levels_of(database, [70, 20, 1], [{"p_percent": {"p": 15}}], waived=[True, False, False]) == {
        "p_percent": pytest.approx(0.15 * 20 - 1)
    }
    assert levels_of(database, [70, 20], [{"minimum_frequency": {"n": 3}}], waived=[True, True]) == {}


def test_weights_count_units_of_the_population(database: Database) -> None:
    """(50, 1), (30, 2.5), (4, 6): a value of 149, of which the two largest units have 80."""
    rules = [{"nk_dominance": {"n": 2, "k": 53}}]
    assert levels_of(database, [50, 30, 4], rules, weights=[1, 2.5, 6]) == {
        "nk_dominance": pytest.approx(100 / 53 * 80 - 149)
    }
    rules = [{"nk_dominance": {"n": 2, "k": 54}}]
    assert levels_of(database, [50, 30, 4], rules, weights=[1, 2.5, 6]) == {}


ROWS = st.lists(
    st.fixed_dictionaries({
        "region": st.sampled_from(["N1", "N2", "S1"]), "branch": st.sampled_from(["a", "b é\"'"]),
        "size": st.sampled_from(["s", "l"]), "amount": st.integers(0, 60), "holding": st.integers(1, 6),
    }),
    min_size=1, max_size=14,
)  # fmt: skip
PATHS = {
    "region": lambda value: (value, value[0] + "*", "*"),
    "branch": lambda value: (value, "Total"),
    "size": lambda value: (value, "Total"),
}
TYPES = {"region": "TEXT", "branch": "TEXT", "size": "TEXT", "amount": "INTEGER", "holding": "INTEGER"}
RULES: list[tuple[str, dict[str, Any]]] = [
    ("minimum_frequency", {"n": 3}), ("p_percent", {"p": 20}), ("pq", {"p": 20, "q": 60}),
    ("nk_dominance", {"n": 2, "k": 75}),
]  # fmt: skip


def check_cells(database: Database, rows: list[dict[str, Any]], holding: bool, exact_counts: bool) -> None:
    database.table("firms", TYPES, rows)
    rules = [{name: params} for name, params in RULES]
    own = {"contributor": "holding"} if holding else {}
    policy = statistics_policy({
        "hierarchies": {"region": {"prefix": {"length": 2}}},
        "statistics": {
            "one": {"by": ["region", "branch"], "of": "amount", "rules": rules, **own},
            "two": {"by": ["size", "region"], "of": "amount", "rules": rules, **own},
            "three": {"by": ["branch"], "rules": [{"minimum_frequency": {"n": 2}}], **own},
        },
    })  # fmt: skip
    with cells_of(database, policy, exact_counts) as tables:
        found = find_unsafe(tables)
        read = read_tables(tables, Suppression())
        for item in tables.tables:
            by = item.statistic.by
            whole = brute_statistics.cells(rows, by, PATHS)
            nodes = [dict.fromkeys(node for row in rows for node in PATHS[column](row[column])) for column in by]
            assert {label(tables, item.name, cell) for cell in read.cells[item.name]} == set(itertools.product(*nodes))
            for cell in read.cells[item.name]:
                members = whole.get(label(tables, item.name, cell), [])
                variable = read.variable(item, cell)
                value = sum(row["amount"] for row in members) if item.statistic.of else len(members)
                assert read.task.system.value[variable] == value
                who = len({row["holding"] for row in members}) if holding else len(members)
                counted = int(read.contributors[variable])
                fewest = 3 if item.statistic.of else 2  # from here on no rule of the table cares
                assert counted == who or (not exact_counts and fewest <= counted < who)
                amounts = [amount for _, amount in brute_statistics.contributors(
                    members, "amount", "holding" if holding else None)]  # fmt: skip
                flagged = {rule for name, rule, unsafe, _ in found if (name, unsafe) == (item.name, cell)}
                asked = RULES if item.statistic.of else [("minimum_frequency", {"n": 2})]
                assert flagged == {name for name, params in asked if getattr(brute_statistics, name)(amounts, **params)}
        check_equations(tables, read)
        if holding:
            check_intruders(tables, read, rows)


def check_equations(tables: CellTables, read: ReadTables) -> None:
    """Every equation holds, and each total is split up along every dimension that has nodes below it."""
    system = read.task.system
    sums = [0.0] * system.equations
    for row, column, sign in zip(system.rows, system.columns, system.signs, strict=True):
        sums[row] += sign * system.value[column]
    assert sums == [0.0] * system.equations
    wanted = set()
    for item in tables.tables:
        for cell in read.cells[item.name]:
            for place in item.places:
                dimension = tables.dimension(place)
                node = dimension.node_of(cell)
                below = [number for number, parent in enumerate(dimension.parents) if number and parent == node]
                parts = [cell + (number - node) * dimension.stride for number in below]
                if parts:
                    variables = frozenset(read.variable(item, part) for part in parts)
                    wanted.add((read.variable(item, cell), variables))
    totals: dict[int, int] = {}
    members: dict[int, set[int]] = {}
    for row, column, sign in zip(system.rows.tolist(), system.columns.tolist(), system.signs.tolist(), strict=True):
        if sign < 0:
            totals[row] = column
        else:
            members.setdefault(row, set()).add(column)
    assert {(totals[row], frozenset(own)) for row, own in members.items()} == wanted
    assert len(totals) == len(wanted)  # what two tables share is there once


def check_intruders(tables: CellTables, read: ReadTables, rows: list[dict[str, Any]]) -> None:
    """Who is alone in some cell knows these cells, and a part of others; who has most of an unsafe one, these parts."""
    wanted: dict[int, tuple[set[int], dict[int, float]]] = {}
    attackers = set()
    for item in tables.tables:
        for nodes, members in brute_statistics.cells(rows, item.statistic.by, PATHS).items():
            if len({row["holding"] for row in members}) == 1:
                attackers.add(members[0]["holding"])
            brought = brute_statistics.contributors(members, "amount", "holding")
            amounts = [amount for _, amount in brought]
            if item.statistic.of and any(getattr(brute_statistics, name)(amounts, **params) for name, params in RULES):
                attackers.add(min(who for who, amount in brought if amount == amounts[0]))
            cell = sum(tables.dimension(place).numbers[node] * tables.dimension(place).stride
                       for place, node in zip(item.places, nodes, strict=True))  # fmt: skip
            for who in {row["holding"] for row in members}:
                alone, parts = wanted.setdefault(who, (set(), {}))
                if len({row["holding"] for row in members}) == 1:
                    alone.add(read.variable(item, cell))
                else:
                    own = [row for row in members if row["holding"] == who]
                    parts[read.variable(item, cell)] = float(
                        sum(row["amount"] for row in own) if item.statistic.of else len(own)
                    )
    found = sorted(
        (sorted(each.alone.tolist()), sorted(zip(each.cells.tolist(), each.amounts.tolist(), strict=True)))
        for each in read.task.intruders[1:]
    )
    assert found == sorted((sorted(wanted[who][0]), sorted(wanted[who][1].items())) for who in attackers)


@settings(max_examples=examples(40))
@given(rows=ROWS, holding=st.booleans(), exact_counts=st.booleans())
def test_cells_are_those_of_plain_python(rows: list[dict[str, Any]], holding: bool, exact_counts: bool) -> None:
    from sqlanon.engines import connect

    database = Database(connect(":memory:"))
    try:
        check_cells(database, rows, holding, exact_counts)
    finally:
        database.engine.close()


@settings(max_examples=examples(15))
@given(rows=ROWS, holding=st.booleans())
def test_cells_are_those_of_plain_python_on_postgres(
    postgres: Database, rows: list[dict[str, Any]], holding: bool
) -> None:
    check_cells(postgres, rows, holding, False)


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=6), st.integers(5, 60))
def test_waivers_are_those_of_plain_python(contributors: list[tuple[int, bool]], p: int) -> None:
    from sqlanon.engines import connect

    contributors.sort(reverse=True)
    amounts, waived = [amount for amount, _ in contributors], [flag for _, flag in contributors]
    database = Database(connect(":memory:"))
    try:
        found = levels_of(database, amounts, [{"p_percent": {"p": p}}], waived=waived)
    finally:
        database.engine.close()
    assert bool(found) == (sum(amounts) > 0 and brute_statistics.p_percent_waived(amounts, waived, p=p))


def test_a_group_that_is_in_one_part_is_told_apart_by_an_empty_one(database: Database) -> None:
    rows = [{"region": "N1", "branch": "a"}] * 4 + [{"region": "N2", "branch": branch} for branch in "aabb"]
    database.table("firms", {"region": "TEXT", "branch": "TEXT"}, rows)
    policy = statistics_policy({
        "statistics": {"t": {"by": ["region", "branch"], "rules": ["group_disclosure"]}},
        "protect": {"suppression": {"zeros": "unknown"}},
    })  # fmt: skip
    assert unsafe_cells(database, policy) == {"group_disclosure": {"N1|b"}}


# ---- what is refused


def _firms(database: Database, rows: Sequence[Mapping[str, Any]]) -> None:
    database.table(
        "firms", {"region": "TEXT", "amount": "DOUBLE PRECISION", "who": "TEXT"}, [dict(row) for row in rows]
    )


SUM = {"by": ["region"], "of": "amount", "contributor": "who", "rules": [{"minimum_frequency": {"n": 2}}]}
ROW = {"region": "north", "amount": 5.0, "who": "a"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"region": None}, "column 'region' has NULLs"),
        ({"who": None}, "column 'who' has NULLs"),
        ({"amount": None}, "the amount 'amount' has NULLs"),
        ({"amount": -1.0}, "the amount 'amount' is negative in some records"),
        ({"amount": float("nan")}, "an amount is not a finite number"),
        ({"amount": 1e16}, "an amount is not a finite number, or above 1e15"),
        ({"region": "Total"}, "a value of 'region' is called as the total"),
    ],
)
def test_rows_that_make_no_cell_are_refused(database: Database, row: Mapping[str, Any], said: str) -> None:
    _firms(database, [ROW, {**ROW, **row}])
    with (
        pytest.raises((SourceError, HierarchyError), match=said),
        cells_of(database, statistics_policy({"statistics": {"t": SUM}})) as tables,
    ):
        read_tables(tables, Suppression())


@pytest.mark.parametrize("regions", [("N1", "N1"), ("N1", "S1")])
def test_one_contributor_has_one_weight(database: Database, regions: tuple[str, str]) -> None:
    """Also where the two records are in different cells: together they are in the total."""
    rows = [{"firm": 1, "region": region, "amount": 10, "weight": weight} for region, weight in
            zip(regions, (1.0, 5.0), strict=True)]  # fmt: skip
    kinds = {"firm": "INTEGER", "region": "TEXT", "amount": "BIGINT", "weight": "DOUBLE PRECISION"}
    database.table("firms", kinds, [*rows, {"firm": 2, "region": "N1", "amount": 3, "weight": 2.0}])
    table = {"by": ["region"], "of": "amount", "contributor": "firm", "weight": "weight",
             "rules": [{"minimum_frequency": {"n": 2}}]}  # fmt: skip
    with (
        pytest.raises(SourceError, match="records of several weights"),
        cells_of(database, statistics_policy({"statistics": {"t": table}})),
    ):
        pass
    database.run("UPDATE firms SET weight = 2")
    with cells_of(database, statistics_policy({"statistics": {"t": table}})) as tables:
        assert tables.tables[0].name == "t"


def test_an_empty_table_is_refused(database: Database) -> None:
    _firms(database, [])
    with (
        pytest.raises(SourceError, match="the source has no row"),
        cells_of(database, statistics_policy({"statistics": {"t": SUM}})),
    ):
        pass


@pytest.mark.parametrize(
    ("statistic", "said"),
    [
        ({"by": ["regoin"]}, r"column 'regoin' is not in the source\n  hint: did you mean 'region'"),
        ({"of": "who"}, "column 'who' is of type .*, and cannot be summed up"),
        ({"waived": "who"}, "column 'who' is of type .*, and not true or false"),
        ({"contributor": "nobody"}, "column 'nobody' is not in the source"),
    ],
)
def test_columns_that_do_not_fit_are_refused(database: Database, statistic: Mapping[str, Any], said: str) -> None:
    _firms(database, [ROW])
    with (
        pytest.raises(PolicyError, match=said),
        cells_of(database, statistics_policy({"statistics": {"t": {**SUM, **statistic}}})),
    ):
        pass


def test_too_many_cells_are_refused_with_their_number(duck: Database) -> None:
    duck.run("CREATE TABLE firms AS SELECT i % 500 AS region, i % 501 AS branch FROM range(250500) AS t(i)")
    policy = statistics_policy(
        {"statistics": {"t": {"by": ["region", "branch"], "rules": [{"minimum_frequency": {"n": 2}}]}}}
    )
    with pytest.raises(PolicyError, match="the tables have 251,502 cells, more than 200,000"), cells_of(duck, policy):
        pass


def test_one_label_for_two_nodes_is_refused(database: Database) -> None:
    _firms(database, [{**ROW, "region": "a"}, {**ROW, "region": "b"}])
    hierarchy = {"tree": {"tree": {"all": {"b": ["a"], "c": ["b"]}}}}
    policy = statistics_policy({"hierarchies": {"region": hierarchy}, "statistics": {"t": SUM}})
    with pytest.raises(HierarchyError, match="one label for two nodes"), cells_of(database, policy):
        pass


def test_temporary_tables_are_dropped(duck: Database) -> None:
    _firms(duck, [ROW, {**ROW, "who": "b"}])
    with cells_of(duck, statistics_policy({"statistics": {"t": SUM}})) as tables:
        read_tables(tables, Suppression())
        assert duck.fetch("SELECT count(*) FROM duckdb_tables() WHERE temporary")[0][0] > 5
    assert duck.fetch("SELECT count(*) FROM duckdb_tables() WHERE temporary")[0][0] == 0
