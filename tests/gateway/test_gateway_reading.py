"""Reading statements: parameters, negations and names with a schema, with every parser that may be installed."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from conftest import ROOT, TESTS
from gateway_world import EXACT, World, world
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.read_statement import TESTED, parse_statement
from sqlanon.gateway.bind.scalars import only
from sqlanon.pgcatalog.dialect import parse_query as read_catalogue
from sqlanon.sqlfront.lexer import tokens
from sqlanon.sqlfront.parser_tokens import tokenize


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("reading"), mechanisms=EXACT)


# ---- parameters


@pytest.mark.parametrize(
    ("sql", "values", "rows"),
    [
        ("SELECT region FROM regions WHERE region IN ($1,$2) ORDER BY 1", ("R1", "R2"), [("R1",), ("R2",)]),
        ("SELECT region FROM regions WHERE size=$1+$2", (1, 2), [("R2",)]),
        ("SELECT region FROM regions WHERE size=$2-$1", (1, 3), [("R1",)]),
        ("SELECT $1||$2 FROM regions LIMIT $3", ("a", "b", 1), [("ab",)]),
        ("SELECT $1::int+$2::int FROM regions LIMIT 1", (4, 5), [(9,)]),
        ("SELECT $1,$2,'$1,$2',$$,$1,$$,$a$,$1,$a$ FROM regions LIMIT 1", ("x", 1),
         [("x", 1, "$1,$2", ",$1,", ",$1,")]),
        ("SELECT $1/*$2,$1*/,/*/*$2,*/$3,*/$2--$9,$8\n FROM regions LIMIT 1", ("x", "y"), [("x", "y")]),
        ('SELECT $1 AS "$1,$2",$2 FROM regions LIMIT 1', ("x", "y"), [("x", "y")]),
        ("SELECT E'\\'$1,$2',$1,$2 FROM regions LIMIT 1", ("x", "y"), [("'$1,$2", "x", "y")]),
    ],
)  # fmt: skip
def test_parameters_that_touch(small: World, sql: str, values: tuple[Any, ...], rows: list[Any]) -> None:
    assert small.rows(sql, parameters=values, dialect="postgres") == rows


def test_named_parameters_that_touch(small: World) -> None:
    sql = "SELECT region FROM regions WHERE region IN ($one,$two) AND size>$least ORDER BY 1"
    given = {"one": "R0", "two": "R1", "least": 1}
    assert small.rows(sql, parameters=given, dialect="duckdb") == [("R1",)]


def test_the_catalogue_reads_parameters_that_touch() -> None:
    tree = read_catalogue("SELECT $1::int+$2::int,$3 WHERE 1 IN ($1,$2)")
    assert sorted(node.this.name for node in tree.find_all(exp.Parameter)) == ["1", "1", "2", "2", "3"]


PIECES = st.sampled_from(
    ["$1", "$2", "$33", ",", "+", "::int", "(", ")", "'a$1,$2'", '"$1,"', "$$,$1$$", "$t$ $1,$$ $t$", "/*$1,$2*/", " ",
     "--$1,\n", "word", "w$1", "E'\\'$1,'", "<@", "->>", "||", "5", "é", "\n"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=25))
def test_tokens_stand_where_they_stand_in_the_text(pieces: list[str]) -> None:
    """A parameter is one wherever PostgreSQL reads one, and nowhere else; each token is a piece of the text itself."""
    text = "".join(pieces)
    assume(not re.search(r"\$\d+[^\W\d]", text))  # PostgreSQL 15 refuses $1word
    try:
        ours = [token for token in tokens(text) if token.kind == "parameter"]
    except Refused:
        return
    try:
        found = tokenize(text, "postgres")
    except sqlglot.errors.SqlglotError:
        return  # such as two signs that are no operator
    numbers = [
        (token.start, after.end + 1)
        for token, after in itertools.pairwise(found)
        if token.token_type == sqlglot.TokenType.PARAMETER and text[token.start : token.end + 1] == "$"
    ]
    assert numbers == [(token.start, token.end) for token in ours]
    assert all(text[token.start : token.end + 1].strip() for token in found)


def test_an_error_points_into_the_text_as_it_was_written(small: World) -> None:
    sql = "SELECT $1,$2,$1,$2 FROM regions WHERE nothing = 1"
    with pytest.raises(Refused) as error:
        small.rows(sql, parameters=(1, 2), dialect="postgres")
    assert error.value.position == sql.index("nothing") + 1


# ---- negations


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
@pytest.mark.parametrize(
    "condition",
    [
        "region IS NOT NULL", "region IS NULL", "region NOT LIKE 'R1%'", "region LIKE 'R1%'", "region NOT ILIKE 'r1%'",
        "NOT region LIKE 'R1%'", "NOT region NOT LIKE 'R1%'", "region NOT IN ('R1')", "size NOT BETWEEN 2 AND 3",
        "(size > 1) IS NOT TRUE", "(size > 1) IS NOT FALSE", "region NOTNULL", "region ISNULL",
        "NOT (region IS NOT NULL)", "(region IS NOT NULL) IS NOT NULL", "region IS NOT DISTINCT FROM 'R1'",
        "(NOT size > 1) IS NULL", "(NOT size > 1) IS TRUE", "(NOT size > 1) = (size > 2)",
    ],
)  # fmt: skip
def test_negations(small: World, condition: str, dialect: str) -> None:
    sql = f"SELECT region FROM regions WHERE {condition} ORDER BY 1"
    assert small.rows(sql, dialect=dialect) == small.raw(sql)
    counted = f"SELECT COUNT(*) FROM visits WHERE {condition.replace('size', 'age')}"
    assert small.rows(counted, dialect=dialect)[0][0] >= 0


def test_an_argument_that_nobody_reads_is_named() -> None:
    node = exp.Is(this=exp.column("a"), expression=exp.Null(), reversed_=True)
    with pytest.raises(Refused) as error:
        only(node, "this", "expression")
    assert "reversed" in error.value.message and "reversed_" in (error.value.detail or "")
    assert error.value.hint is None  # this version was tested


def test_a_parser_that_was_not_tested_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlglot, "__version__", "99.1.0")
    node = exp.Is(this=exp.column("a"), expression=exp.Null(), reversed_=True)
    with pytest.raises(Refused) as error:
        only(node, "this", "expression")
    assert error.value.hint == "this was not tested with sqlglot 99.1.0: install sqlglot>={},<{}".format(*declared())


# ---- names with a schema


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ('SELECT "public"."regions"."region" FROM "public"."regions" ORDER BY "public"."regions"."region" LIMIT 1',
         "R0"),
        ("SELECT public.regions.region FROM regions ORDER BY 1 LIMIT 1", "R0"),
        ("SELECT main.regions.region FROM main.regions ORDER BY main.regions.region DESC LIMIT 1", "R9"),
        ("SELECT MAX(public.regions.region) FROM regions WHERE public.regions.size < 3", "R1"),
        ('SELECT public.regions.country FROM public.regions GROUP BY "public"."regions"."country" '
         "HAVING COUNT(*) > 1", "A"),
        ("SELECT public.regions.region FROM public.regions JOIN published "
         "ON public.regions.region = public.published.region ORDER BY public.published.persons DESC LIMIT 1", "R1"),
    ],
)  # fmt: skip
def test_columns_with_a_schema(small: World, sql: str, rows: str) -> None:
    assert small.rows(sql, dialect="postgres") == [(rows,)]


def test_all_columns_of_a_table_with_a_schema(small: World) -> None:
    asked = "SELECT public.regions.* FROM public.regions JOIN published USING (region) ORDER BY 1"
    assert small.rows(asked, dialect="postgres") == [("R0", "A", 1), ("R1", "A", 2)]


def test_a_schema_in_a_private_statement(small: World) -> None:
    sql = 'SELECT "public"."visits"."ward", COUNT(*) FROM "public"."visits" GROUP BY "public"."visits"."ward"'
    plain = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
    assert small.rows(sql, dialect="postgres") == small.rows(plain, dialect="postgres")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT public.r.region FROM regions r",  # an alias has no schema
        "SELECT public.regions.region FROM regions r",
        "SELECT other.regions.region FROM regions",
        "SELECT public.regions.region FROM published",
        "SELECT other.regions.* FROM regions",
        "WITH regions AS (SELECT * FROM published) SELECT public.regions.region FROM regions",
        "SELECT public.t.region FROM (SELECT region FROM regions) t",
    ],
)
def test_a_schema_that_the_table_is_not_in(small: World, sql: str) -> None:
    with pytest.raises(Refused) as error:
        small.rows(sql, dialect="postgres")
    assert error.value.sqlstate == "42P01" and "missing FROM-clause entry" in error.value.message


def test_the_schema_of_another_database(small: World) -> None:
    with pytest.raises(Refused, match="cross-database references"):
        small.rows("SELECT other.public.regions.region FROM regions", dialect="postgres")


def test_a_hidden_column_stays_hidden(small: World) -> None:
    with pytest.raises(Refused, match="permission denied"):
        small.rows("SELECT COUNT(public.users.secret) FROM public.users", dialect="postgres")


# ---- versions of the parser


def declared() -> tuple[str, str]:
    """The lowest version that pyproject.toml allows, and the first that it does not."""
    given = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    (found,) = (each for each in given if each.startswith("sqlglot"))
    match = re.fullmatch(r"sqlglot>=([\d.]+),<([\d.]+)", found)
    assert match is not None, found
    return match.group(1), match.group(2)


def test_the_versions_that_are_declared_are_those_that_were_tested() -> None:
    assert tuple(map(version, declared())) == TESTED


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def test_the_parser_that_is_installed_was_tested() -> None:
    assert TESTED[0] <= version(sqlglot.__version__) < TESTED[1]


@pytest.mark.long
def test_the_lowest_version(tmp_path: Path) -> None:
    """All of these tests, and those of texts and types, with the oldest parser that may be installed."""
    if version(sqlglot.__version__) == TESTED[0]:
        pytest.skip("this is the lowest version")
    lowest = declared()[0]
    installing = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*installing, "--target", tmp_path, f"sqlglot=={lowest}"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"sqlglot {lowest} cannot be installed here: {done.stderr[-200:]}")
    files = ["test_gateway_reading", "test_gateway_spellings", "test_gateway_types", "test_gateway_fanout"]
    files += ["test_gateway_exact", "test_gateway_attacks", "test_proxy_lexing", "test_proxy_catalog_hostile"]
    paths = [str(path) for name in files for path in TESTS.glob(f"*/{name}.py")]
    assert len(paths) == len(files)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import sqlglot, pytest; "
    code += f"assert sqlglot.__version__ == {lowest!r}; sys.exit(pytest.main(sys.argv[1:]))"
    asked = ["-x", "-m", "not long", "-p", "no:cacheprovider", *paths]
    ran = subprocess.run([sys.executable, "-c", code, *asked], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert re.search(r"[1-9]\d\d+ passed", ran.stdout), ran.stdout[-400:]


def test_read_is_stable_under_spaces() -> None:
    close, apart = (parse_statement(f"SELECT $1{gap},{gap}$2 FROM t", "postgres").tree for gap in ("", " "))
    assert close.sql("postgres") == apart.sql("postgres")
