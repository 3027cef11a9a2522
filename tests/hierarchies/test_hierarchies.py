"""Hierarchies: the contract of the package, the kinds that are lookups, and what is said when a policy is wrong."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Database
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlglot import exp

from sqlanon import hierarchies
from sqlanon.errors import HierarchyError
from sqlanon.hierarchies import Hierarchy, build
from sqlanon.hierarchies._levels import root

KINDS = {
    "age", "country", "csv", "dates", "groups", "hrc", "intervals", "ip", "prefix", "table", "tree", "zip3"
}  # fmt: skip


def made(kind: str, base: Path = Path(), **params: Any) -> Hierarchy:
    return build(kind, params, base)


def paths(hierarchy: Hierarchy) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in hierarchy.rows}


# The contract


def test_the_kinds_are_the_files_of_the_package() -> None:
    assert set(hierarchies.names()) == KINDS


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_kind_is_documented(kind: str) -> None:
    module = hierarchies.kind(kind)
    assert "NULL" in module.__doc__
    example = re.search(r"(?:^    .*\n)+", module.__doc__, re.MULTILINE)
    assert example
    ((column, use),) = yaml.safe_load(example[0])["hierarchies"].items()
    assert column and list(use) == [kind]
    module.Params.model_validate(use[kind] or {})


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_params_make_a_schema_and_refuse_what_they_do_not_know(kind: str) -> None:
    model = hierarchies.kind(kind).Params
    schema = model.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        assert part["additionalProperties"] is False
        assert all(field["description"].endswith(".") for field in part["properties"].values())
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        model.model_validate({"colour": "red"})


def test_an_unknown_kind_is_told() -> None:
    with pytest.raises(HierarchyError) as told:
        made("interval")
    assert str(told.value) == "unknown hierarchy 'interval'\n  hint: did you mean 'intervals'?"
    with pytest.raises(HierarchyError, match=r"hint: there are age, country, csv, dates"):
        made("xyz")


def test_a_hierarchy_has_one_shape() -> None:
    rows = (("a", "*"),)
    with pytest.raises(ValueError, match="exactly one of levels, rows and relation"):
        Hierarchy(height=1)
    with pytest.raises(ValueError, match="exactly one of levels, rows and relation"):
        Hierarchy(height=1, rows=rows, relation=exp.select("1"))
    with pytest.raises(ValueError, match="at least one level"):
        Hierarchy(height=0, rows=rows)
    with pytest.raises(ValueError, match="1 computed levels, but the height is 2"):
        Hierarchy(height=2, levels=(root("*"),))
    with pytest.raises(ValueError, match=r"each row needs 2 values, the last of them '\*'"):
        Hierarchy(height=1, rows=(("a", "b", "*"),))


# What is wrong with parameters, and what to do

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("intervals", {"widths": []}, "at least 1 item"),
    ("intervals", {"widths": [0]}, "0 is not a width; use a number greater than 0"),
    ("intervals", {"widths": [5, 12]}, "12 must be a larger multiple of 5, the width before it"),
    ("intervals", {"widths": [5, 5]}, "5 must be a larger multiple of 5, the width before it"),
    ("intervals", {"widths": ["5"]}, "a number is needed, not text"),
    ("intervals", {"widths": [True]}, "a number is needed, not true or false"),
    ("intervals", {"widths": [float("nan")]}, "finite number"),
    ("intervals", {"widths": [1e300]}, "a number of more than 15 digits cannot be kept exactly"),
    ("intervals", {"widths": [1e-10]}, "0.0000000001 has too many decimals; use at most 9"),
    (
        "intervals",
        {"widths": [0.01], "origin": 10**13},
        "10000000000000 is too large; with 2 decimals, use numbers below 10000000000000",
    ),
    (
        "intervals",
        {"widths": [5, 20], "max": 90},
        "90 is not an edge of the bands of width 20; use 80 or 100, or change the widths",
    ),
    ("intervals", {"widths": [5], "min": -7}, "-7 is not an edge of the bands of width 5; use -10 or -5"),
    ("intervals", {"widths": [5], "min": 10, "max": 10}, "10 is not greater than min, which is 10; change one"),
    ("age", {"top": 100}, "less than or equal to 90"),
    ("age", {"top": 85}, "multiple of 10"),
    ("groups", {"order": ["a", "b", "a"], "sizes": [2]}, "'a' is there twice; keep one"),
    ("groups", {"order": ["a", "b"], "sizes": [1]}, "a group of 1 generalizes nothing; start with 2 or more"),
    ("groups", {"order": list("abcdefg"), "sizes": [2, 5]}, "5 must be a larger multiple of 2, the size before it"),
    ("groups", {"order": ["a", "b"], "sizes": [2]}, "a group of 2 holds all 2 values, as the root does"),
    ("groups", {"order": ["a", False, "c"], "sizes": [2]}, "YAML reads one value as bool, not as text"),
    ("prefix", {"length": 0}, "greater than or equal to 1"),
    ("prefix", {"length": "5"}, "valid integer"),
    ("prefix", {"length": 5, "keep": 5}, "to keep 5 of 5 characters hides nothing; keep fewer"),
    ("prefix", {"length": 5, "mask": "**"}, "at most 1 character"),
    ("prefix", {"length": 5, "from": "top"}, "'right' or 'left'"),
    ("dates", {"levels": ["month", "week"]}, "each period once, from short to long: [week, month]"),
    ("dates", {"levels": ["year", "month"]}, "each period once, from short to long: [month, year]"),
    ("dates", {"levels": ["minute"]}, "'hour', 'day', 'week', 'month', 'quarter', 'year' or 'decade'"),
    ("ip", {"prefixes": [8, 16]}, "16 must be less than 8, the prefix before it"),
    ("ip", {"prefixes": [32]}, "32 is no prefix of an IPv4 network; use 1 to 31"),
    ("ip", {"prefixes6": [62]}, "62 is no prefix that can be kept; use a multiple of 4 from 4 to 96"),
    ("tree", {"tree": {"a": ["x"], "b": ["y"]}}, "there are 2 names at the top; put all below one"),
    ("tree", {"tree": {"all": None}}, "there is no value below 'all'; list the values there"),
    ("tree", {"tree": {"all": {"a": ["x"], "b": ["x"]}}}, "the value 'x' is there twice; keep one"),
    ("tree", {"tree": {"all": [1.5]}}, "YAML reads one value as float, not as text: put it in quotes"),
    ("tree", {"tree": {"all": [None]}}, "YAML reads one value as nothing, not as text: put it in quotes"),
    (
        "tree",
        {"tree": {"all": {"a": {"Other": ["x"]}, "b": {"Other": ["y"]}}}},
        "the name 'Other' stands for two groups; give each group its own name",
    ),
    ("csv", {"path": "x.csv", "delimiter": "\n"}, "a quote or a line break cannot separate levels"),
    ("table", {"columns": ["a"]}, "give exactly one of 'table' and 'query'"),
    ("table", {"table": "t", "query": "SELECT 1", "columns": ["a"]}, "exactly one of 'table' and 'query'"),
    ("table", {"table": "t", "columns": ["a", "a"]}, "'a' is there twice; keep one"),
    ("table", {"table": "t", "columns": ["a"], "add_root": False}, "one column has no level above it"),
    ("table", {"table": "t; DROP TABLE u", "columns": ["a"]}, "'t; DROP TABLE u' is not a table name"),
    ("table", {"table": "t AS u", "columns": ["a"]}, "'t AS u' is not a table name; write table or schema.table"),
    ("table", {"query": "SELECT FROM WHERE", "columns": ["a"]}, "the query cannot be parsed as duckdb"),
    ("table", {"query": "SELECT 1", "dialect": "dbase", "columns": ["a"]}, "the query cannot be parsed as dbase"),
    ("table", {"query": "SELECT 1; SELECT 2", "columns": ["a"]}, "the query must be one SELECT"),
    ("table", {"query": "DELETE FROM t", "columns": ["a"]}, "the query must be one SELECT"),
    (
        "table",
        {"query": "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "columns": ["a"], "dialect": "postgres"},
        "the query must only read",
    ),
    ("zip3", {"population": {"zip": "zip"}}, "give exactly one of 'table' and 'query'"),
    ("zip3", {"population": {"table": "t", "digits": 4}}, "3 or 5"),
]


@pytest.mark.parametrize(("kind", "params", "said"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_parameters_are_told(kind: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as told:
        made(kind, **params)
    assert said in str(told.value)


# Lookups


def test_groups_of_neighbours() -> None:
    hierarchy = made("groups", order=["XS", "S", "M", "L", "XL", 50, "60"], sizes=[2, 4])
    assert hierarchy.height == 3
    assert paths(hierarchy)["M"] == ("M..L", "XS..L", "*")
    assert paths(hierarchy)["50"] == ("XL..50", "XL..60", "*")
    assert paths(hierarchy)["60"] == ("60", "XL..60", "*")
    with pytest.raises(ValidationError, match=r"the label 'a\.\.b' stands for two groups; rename a value"):
        made("groups", order=["a", "b", "c", "d", "a..b"], sizes=[2, 4])


@pytest.mark.full
@given(
    order=st.lists(st.text(max_size=4), min_size=9, max_size=30, unique=True),
    sizes=st.sampled_from([[2], [3, 6], [2, 4, 8]]),
)
def test_a_group_covers_its_values(order: list[str], sizes: list[int]) -> None:
    try:
        hierarchy = made("groups", order=order, sizes=sizes)
    except ValidationError as error:
        assert "stands for two groups" in str(error)
        return
    for place, row in enumerate(hierarchy.rows):
        assert row[0] == order[place] and row[-1] == "*"
        for size, label in zip(sizes, row[1:-1], strict=True):
            ends = [
                (first, last)
                for first in range(0, len(order), size)
                for last in [min(first + size, len(order)) - 1]
                if label == (order[first] if first == last else f"{order[first]}..{order[last]}")
            ]
            assert any(first <= place <= last for first, last in ends)


def test_a_tree_lifts_values_that_lie_less_deep() -> None:
    tree = {"Any": {"Professional": {"Health": ["Doctor", "Nurse"]}, "Artist": ["Dancer", 7], "Retired": None}}
    hierarchy = made("tree", tree=tree)
    assert (hierarchy.height, hierarchy.root) == (3, "Any")
    assert paths(hierarchy) == {
        "Doctor": ("Health", "Professional", "Any"),
        "Nurse": ("Health", "Professional", "Any"),
        "Dancer": ("Dancer", "Artist", "Any"),
        "7": ("7", "Artist", "Any"),
        "Retired": ("Retired", "Retired", "Any"),
    }
    assert made("tree", tree={"all": ["x", {"g": ["y"]}]}).rows == (("x", "x", "all"), ("y", "g", "all"))
    assert made("tree", tree={"all": {"g": "x"}}).rows == (("x", "g", "all"),)


def test_countries() -> None:
    hierarchy = made("country")
    found = paths(hierarchy)
    assert len(found) == len(hierarchy.rows)  # no leaf twice
    assert sum(len(leaf) == 2 and leaf.isupper() for leaf in found) == 249
    assert sum(len(leaf) == 3 and leaf.isupper() for leaf in found) == 249
    for leaves, path in {
        ("PE", "PER", "Peru"): ("South America", "Americas", "*"),
        ("TR", "TUR", "Türkiye", "Turkey"): ("Western Asia", "Asia", "*"),
        ("TW", "TWN", "Taiwan"): ("Eastern Asia", "Asia", "*"),
        ("GB", "GBR", "United Kingdom"): ("Northern Europe", "Europe", "*"),
        ("US", "USA", "United States", "United States of America"): ("Northern America", "Americas", "*"),
        ("KE", "KEN"): ("Eastern Africa", "Africa", "*"),
        ("AQ", "ATA"): ("Antarctica", "Antarctica", "*"),
        ("FM", "FSM"): ("Micronesia", "Oceania", "*"),
    }.items():
        assert {found[leaf] for leaf in leaves} == {path}
    regions = {path[0]: path[1] for path in found.values()}
    assert all(regions[path[0]] == path[1] for path in found.values())
    counts = {region: sum(above == region for above in regions.values()) for region in set(regions.values())}
    assert counts == {"Africa": 5, "Americas": 4, "Antarctica": 1, "Asia": 5, "Europe": 4, "Oceania": 4}


# Files


def write(folder: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    (folder / "h.csv").write_bytes(data)
    return folder


def test_a_file_is_read_as_arx_writes_it(tmp_path: Path) -> None:
    write(tmp_path, '\ufeff11th;School;*\r\nBSc;"Under;""grad""";*\r\n\r\nPhD;Grad;*')
    hierarchy = made("csv", tmp_path, path="h.csv")
    assert (hierarchy.height, hierarchy.root) == (2, "*")
    assert paths(hierarchy) == {"11th": ("School", "*"), "BSc": ('Under;"grad"', "*"), "PhD": ("Grad", "*")}


def test_a_root_is_added_where_there_is_none(tmp_path: Path) -> None:
    write(tmp_path, "a,x\nb,x\nc,y\n")
    assert made("csv", tmp_path, path="h.csv", delimiter=",").rows[0] == ("a", "x", "*")
    write(tmp_path, "a,Any\nb,Any\n")
    hierarchy = made("csv", tmp_path, path=str(tmp_path / "h.csv"), delimiter=",")
    assert (hierarchy.height, hierarchy.root) == (1, "Any")


@given(
    rows=st.lists(
        st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)] * 3),
        min_size=1,
        max_size=10,
        unique_by=lambda row: row[0],
    )
)
def test_every_text_survives_the_file(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    folder, made_file = tmp_path_factory.getbasetemp(), io.StringIO(newline="")
    csv.writer(made_file, delimiter=";", quoting=csv.QUOTE_ALL).writerows([(*row, "*") for row in rows])
    assert made("csv", write(folder, made_file.getvalue()), path="h.csv").rows == tuple((*row, "*") for row in rows)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "h.csv: the hierarchy file is empty\n  hint: write one line for each value: value;group;*"),
        ("\n\n", "h.csv: the hierarchy file is empty\n  hint: write one line for each value: value;group;*"),
        (
            "a;x;*\n\nb;*\n",
            "h.csv:3: this line has 2 levels, line 1 has 3\n"
            "  hint: give every line the same number of levels; repeat a label to fill one up",
        ),
        ('a;"x\ny";*\na;z;*\n', "h.csv:3: the value 'a' is already on line 1\n  hint: keep one line for each value"),
        (
            "a,x,*\n",
            "h.csv:1: this line has only one level\n"
            "  hint: separate the levels with ';', or name another delimiter in the policy",
        ),
        (b"a;x\nb;\xe9\n", "h.csv:2: this line is not UTF-8\n  hint: save the file as UTF-8"),
        (
            'a;x\nb;"y\n',
            "h.csv:2: this line cannot be read: unexpected end of data\n"
            '  hint: put a value that holds a quote in quotes, and double the inner one: "6"" pipe"',
        ),
        (
            "a;x;\nb;x;\n",
            "h.csv:1: the last level has no label\n  hint: remove the ';' at the end of each line",
        ),
    ],
)
def test_a_wrong_file_is_told_with_its_line(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(HierarchyError) as told:
        made("csv", write(tmp_path, content), path="h.csv")
    assert str(told.value) == said


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(HierarchyError) as told:
        made("csv", tmp_path, path="no.csv")
    assert str(told.value) == (
        "no.csv: the hierarchy file cannot be read: No such file or directory\n"
        f"  hint: the path starts from the folder of the policy, {tmp_path}"
    )


# Lookups in the database


def looked_up(database: Database, hierarchy: Hierarchy) -> dict[Any, tuple[Any, ...]]:
    assert hierarchy.relation is not None
    levels = ", ".join(f"level_{level}" for level in range(hierarchy.height + 1))
    relation = hierarchy.relation.sql(database.engine.dialect)
    return {row[0]: row[1:] for row in database.fetch(f"SELECT {levels} FROM ({relation}) AS given")}


CITIES = [
    {"city": "Bonn", "State": "NRW", "order": 1},
    {"city": "Bonn", "State": "NRW", "order": 1},
    {"city": "Mainz", "State": "RLP", "order": 1},
    {"city": None, "State": "RLP", "order": 1},
]


def test_a_table_is_a_lookup(database: Database) -> None:
    database.table("cities", {"city": "TEXT", "State": "TEXT", "order": "INTEGER"}, CITIES)
    hierarchy = made("table", table="cities", columns=["city", "State"])
    assert (hierarchy.height, hierarchy.root) == (2, "*")
    assert looked_up(database, hierarchy) == {"Bonn": ("NRW", "*"), "Mainz": ("RLP", "*")}
    rooted = made("table", table="cities", columns=["city", "State", "order"], add_root=False, root="1")
    assert (rooted.height, rooted.root) == (2, "1")
    assert looked_up(database, rooted)["Bonn"] == ("NRW", "1")


def test_a_query_is_a_lookup(database: Database) -> None:
    database.table("cities", {"city": "TEXT", "State": "TEXT", "order": "INTEGER"}, CITIES)
    query = 'WITH c AS (SELECT * FROM cities) SELECT length(city) AS n, "State" FROM c ORDER BY 1 LIMIT 3'
    hierarchy = made("table", query=query, columns=["n", "State"])
    assert looked_up(database, hierarchy) == {"4": ("NRW", "*"), "5": ("RLP", "*")}


def test_a_table_may_be_in_a_schema() -> None:
    hierarchy = made("table", table='geo."my.cities"', columns=["city"])
    assert hierarchy.relation is not None
    assert 'FROM "geo"."my.cities" AS source' in hierarchy.relation.sql("postgres")


PEOPLE = [
    {"zcta": zcta, "people": people}
    for zcta, people in [
        ("13053", 15000), ("13068", 5001), ("03601", 20000), ("10001", None), ("601", 99999), ("99999-1", 99999)
    ]
]  # fmt: skip


def test_small_areas_are_not_told(database: Database) -> None:
    database.table("zcta", {"zcta": "TEXT", "people": "INTEGER"}, PEOPLE)
    population = {"table": "zcta", "zip": "zcta", "people": "people"}
    found = looked_up(database, made("zip3", population=population))
    assert len(found) == 100_000
    assert found["13053"] == found["13099"] == ("130**", "*")  # 20,001 people
    assert {found[code] for code in ("03601", "10001", "60100", "99999", "00000")} == {("000**", "*")}
    assert {path[0] for path in found.values()} == {"130**", "000**"}


def test_population_by_area_and_threshold(database: Database) -> None:
    query = "SELECT '036' AS zip, 20000 AS population UNION ALL SELECT '130', 500"
    population = {"query": query, "digits": 3}
    found = looked_up(database, made("zip3", population=population, threshold=500))
    assert (found["03601"], found["13053"]) == (("036**", "*"), ("000**", "*"))
