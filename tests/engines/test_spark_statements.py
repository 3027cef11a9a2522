"""Statements are taken apart by where their relations are; nothing of Spark is needed for that."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from sqlanon.engines.spark_statements import (
    inline_ctes,
    parts_beside,
    reads_rows,
    replace_query,
    summaries,
    to_spark,
    unordered_windows,
    without_shuffle,
)

BESIDE = {"sqlanon_a", "sqlanon_b"}


def read(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, read="duckdb")


@pytest.mark.parametrize(
    ("sql", "fetched"),
    [
        ("SELECT s, COUNT(*) FROM t GROUP BY s", ["SELECT s, COUNT(*) FROM t GROUP BY s"]),
        (
            "SELECT RANK() OVER (ORDER BY s), n FROM (SELECT s, COUNT(*) AS n FROM t GROUP BY s) AS g",
            ["SELECT s, COUNT(*) AS n FROM t GROUP BY s"],
        ),
        (
            "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM t GROUP BY s) AS g JOIN sqlanon_a AS a ON a.n = g.n",
            ["SELECT COUNT(*) AS n FROM t GROUP BY s"],
        ),
        # Rows that are joined beside a grouping are grouped with it, and not fetched.
        (
            "SELECT COUNT(*) FROM t JOIN (SELECT s FROM t GROUP BY s) AS g ON g.s = t.s",
            ["SELECT COUNT(*) FROM t JOIN (SELECT s FROM t GROUP BY s) AS g ON g.s = t.s"],
        ),
        ("SELECT s FROM t", None),
        ("SELECT s FROM t WHERE s IN (SELECT s FROM t GROUP BY s)", None),
        ("SELECT s, COUNT(*) OVER (PARTITION BY s) FROM t", None),
        (
            "SELECT DISTINCT s FROM t UNION ALL SELECT MIN(s) FROM db.sqlanon_a",
            ["SELECT DISTINCT s FROM t", "SELECT MIN(s) FROM db.sqlanon_a"],
        ),
        (
            "WITH g AS (SELECT s, COUNT(*) AS n FROM t GROUP BY s) SELECT n FROM g",
            ["SELECT s, COUNT(*) AS n FROM t GROUP BY s"],
        ),
        ("SELECT x FROM sqlanon_a", []),
    ],
)  # fmt: skip
def test_what_is_fetched(sql: str, fetched: list[str] | None) -> None:
    found = summaries(inline_ctes(read(sql)), BESIDE)
    assert (None if found is None else [part.sql("duckdb") for part in found]) == fetched


def test_a_table_of_a_schema_is_not_one_beside() -> None:
    assert not reads_rows(read("SELECT 1 FROM SQLANON_A"), BESIDE)
    assert reads_rows(read("SELECT 1 FROM main.sqlanon_a"), BESIDE)
    assert reads_rows(read("DELETE FROM sqlanon_a WHERE x IN (SELECT x FROM t)"), BESIDE)


def test_names_of_with_hide_tables_in_their_own_statement_alone() -> None:
    tree = inline_ctes(read("SELECT 1 FROM (WITH t AS (SELECT 1 AS x FROM sqlanon_a) SELECT x FROM t) AS a, t"))
    assert tree.sql() == "SELECT 1 FROM (SELECT x FROM (SELECT 1 AS x FROM sqlanon_a) AS t) AS a, t"
    assert reads_rows(tree, BESIDE)


def test_what_was_fetched_takes_the_place_of_its_query() -> None:
    tree = read("SELECT n FROM (SELECT COUNT(*) AS n FROM t) AS g")
    (part,) = summaries(tree, BESIDE) or []
    assert replace_query(tree, part, "sqlanon_f").sql() == "SELECT n FROM (SELECT * FROM sqlanon_f) AS g"


def test_what_is_sent_is_the_largest_part_that_stands_for_itself() -> None:
    sql = (
        "SELECT t.s FROM t JOIN (SELECT x, MAX(y) AS y FROM sqlanon_a GROUP BY x) AS d ON d.x = t.s "
        "LEFT JOIN sqlanon_b AS b ON b.y = d.y WHERE EXISTS(SELECT 1 FROM sqlanon_a AS a WHERE a.x = t.s)"
    )
    found = [part.sql("duckdb") for part in parts_beside(read(sql), BESIDE)]
    assert sorted(found) == [
        "(SELECT x, MAX(y) AS y FROM sqlanon_a GROUP BY x) AS d", "sqlanon_a AS a", "sqlanon_b AS b",
    ]  # fmt: skip


def test_a_shuffle_is_taken_out_wherever_it_is() -> None:
    tree, had = without_shuffle(read("SELECT a FROM (SELECT a FROM t ORDER BY RANDOM()) AS s ORDER BY a"))
    assert had and tree.sql("duckdb") == "SELECT a FROM (SELECT a FROM t) AS s ORDER BY a"


def test_numbers_without_an_order_are_found() -> None:
    tree = read("SELECT ROW_NUMBER() OVER (), ROW_NUMBER() OVER (ORDER BY a), SUM(a) OVER () FROM t")
    assert len(unordered_windows(tree)) == 1


def test_words_of_spark() -> None:
    assert to_spark(read("SELECT CAST(a / 2 AS INT), CAST(FLOOR(a / 2) AS INT), CAST(a AS INT) FROM t")).sql(
        "spark"
    ) == ("SELECT CAST(RINT(a / 2) AS INT), CAST(FLOOR(a / 2) AS INT), CAST(a AS INT) FROM t")
    told = to_spark(read("SELECT SUM(hash(hash(a, b))) FROM t")).sql("spark")
    assert "XXHASH64(a, a IS NULL, b, b IS NULL)" in told.upper().replace(
        "A, A IS NULL, B, B IS NULL", "a, a IS NULL, b, b IS NULL"
    )
    assert "DECIMAL(38, 0)" in told
