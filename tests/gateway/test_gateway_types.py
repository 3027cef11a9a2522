"""Types of results and parameters, plain answers as batches, and when answers leave."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from conftest import Database
from gateway_world import COLUMNS, EXACT, World, people, policy, world
from hypothesis import given
from hypothesis import strategies as st

from sqlanon.engines import Hardened, connect
from sqlanon.errors import Refused, SourceError, SqlanonError
from sqlanon.gateway import Gate, open_gateway
from sqlanon.policy.files import parse_gateway

ODD = {
    "id": "INTEGER", "price": "DECIMAL(12, 2)", "key": "UUID", "raw": "BYTEA", "document": "JSON", "clock": "TIME",
    "moment": "TIMESTAMPTZ", "span": "INTERVAL", "numbers": "INTEGER[]", "words": "TEXT[]",
}  # fmt: skip
ODD_ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "price": "12.50", "key": "00000000-0000-0000-0000-00000000000a", "raw": b"\x00\xff", "document": "[1]",
        "clock": "10:11:12", "moment": "2026-01-02 03:04:05+00", "span": "26:00:00", "numbers": [1, None],
        "words": ["a b"],
    },
    dict.fromkeys(ODD) | {"id": 2},
]  # fmt: skip


def with_odd(kind: str = "public") -> Any:
    """The usual policy with one more table, whose columns are of types that are not computed with."""
    made = policy()
    tables = made.model_dump(exclude_unset=True)["tables"]
    tables["odd"] = (
        {"released": True} if kind == "released" else {"public": True} if kind == "public" else {"unit": "id"}
    )
    return policy(tables=tables, principals={"analyst": {}})


@pytest.fixture
def odd(tmp_path: Path, database: Database) -> Iterator[World]:
    columns = COLUMNS | {"odd": ODD}
    made = world(
        tmp_path, people() | {"odd": ODD_ROWS}, given=with_odd(), engine=database.engine, columns=columns,
        mechanisms=EXACT,
    )  # fmt: skip
    yield made
    made.gate.ledger.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    made = world(tmp_path, given=with_odd(), columns=COLUMNS | {"odd": ODD}, mechanisms=EXACT)
    yield made
    made.close()


def rows_of(gate: Gate, sql: str, size: int = 10_000, **options: Any) -> list[dict[str, Any]]:
    prepared = gate.prepare(sql, "analyst", **options)
    return [row for batch in gate.plain_batches(prepared, size) for row in batch.to_pylist()]


# ---- results


def test_what_columns_are(here: World) -> None:
    sql = (
        "SELECT region, count(*) AS a, avg(income) AS b, sum(visits) AS c, max(1) OVER () AS d, count(*) > 3 AS e, "
        "CAST('2026-01-31' AS DATE) AS f, CAST('2026-01-31 10:00' AS TIMESTAMP) AS g, NULL AS h FROM visits GROUP BY 1"
    )
    found = here.gate.describe(sql, "analyst")
    assert found.columns == ("region", "a", "b", "c", "d", "e", "f", "g", "h")
    assert found.types == ("text", "int8", "float8", "int8", "int8", "bool", "date", "timestamp", "text")
    assert here.gate.answer(sql).types == found.types


def test_values_come_as_they_are_stored(odd: World) -> None:
    found = odd.gate.describe("SELECT * FROM odd", "analyst")
    assert found.columns == tuple(ODD)
    assert found.types == (
        "int4", "numeric(12,2)", "uuid", "bytea", "json", "time", "timestamptz", "interval", "int4[]", "text[]",
    )  # fmt: skip
    first, second = rows_of(odd.gate, "SELECT * FROM odd")
    assert (first["id"], str(first["price"])) == (1, "12.50")
    assert str(first["key"]) == ODD_ROWS[0]["key"] and first["document"] in ("[1]", [1])
    assert [value for name, value in second.items() if name != "id"] == [None] * 9
    assert {
        name
        for batch in odd.gate.plain_batches(odd.prepare("SELECT price AS p FROM odd"))
        for name in batch.schema.names
    } == {"p"}
    # What is computed with is a double, or a text.
    assert rows_of(odd.gate, "SELECT price * 2 AS p, key || '!' AS k FROM odd WHERE price > 12 AND key LIKE '0%'") == [
        {"p": 25.0, "k": ODD_ROWS[0]["key"] + "!"}
    ]
    nested = "SELECT price, n FROM (SELECT price, count(*) AS n FROM odd GROUP BY price) AS t ORDER BY price"
    assert [(str(row["price"]), row["n"]) for row in rows_of(odd.gate, nested)] == [("12.50", 1), ("None", 1)]
    assert odd.gate.describe(nested, "analyst").types == ("numeric(12,2)", "int8")
    assert rows_of(odd.gate, "SELECT DISTINCT price FROM odd WHERE price IS NOT NULL")[0]["price"] in (
        Decimal("12.50"),
        "12.50",
    )
    joined = "SELECT a.raw FROM odd AS a JOIN odd AS b ON a.key = b.key AND a.price = b.price"
    assert len(rows_of(odd.gate, joined)) == 1


@pytest.mark.full
@pytest.mark.parametrize("name", ["raw", "document", "clock", "span", "numbers", "words"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM odd WHERE {} = {}", "SELECT lower({}) FROM odd", "SELECT count({}) FROM odd",
        "SELECT max({}) FROM odd", "SELECT count(DISTINCT {}) FROM odd", "SELECT {}, count(*) FROM odd GROUP BY 1",
        "SELECT DISTINCT {} FROM odd", "SELECT coalesce({}, NULL) FROM odd", "SELECT {} || 'x' FROM odd",
        "SELECT CASE WHEN id = 1 THEN {} END FROM odd", "SELECT id FROM odd ORDER BY {}",
        "SELECT {} FROM odd ORDER BY 1",
        "SELECT lag({}) OVER (ORDER BY id) FROM odd", "SELECT CAST({} AS TEXT) FROM odd", "SELECT -{} FROM odd",
        "SELECT id FROM odd WHERE {} IN ('x')", "SELECT id FROM odd WHERE {} BETWEEN 1 AND 2",
        "SELECT {} FROM odd UNION SELECT {} FROM odd", "SELECT {} FROM odd INTERSECT SELECT {} FROM odd",
        "SELECT id FROM odd WHERE {} IS TRUE", "SELECT a.id FROM odd AS a JOIN odd AS b USING ({})",
        "SELECT nullif({}, 1) FROM odd", "SELECT row_number() OVER (PARTITION BY {}) FROM odd",
        "SELECT count(*) FROM (SELECT {} AS x, v.user_id FROM visits AS v CROSS JOIN odd) AS t",
        "SELECT {}, count(*) FROM visits CROSS JOIN odd GROUP BY 1",
    ],
)  # fmt: skip
def test_and_are_used_for_nothing_else(here: World, name: str, sql: str) -> None:
    before = list(here.spy.seen)
    with pytest.raises(Refused):
        here.gate.prepare(sql.replace("{}", name), "analyst")
    assert here.spy.seen == before


@pytest.mark.full_on_postgres
def test_but_to_tell_whether_they_are_there(odd: World) -> None:
    for name in ODD:
        assert rows_of(odd.gate, f"SELECT id FROM odd WHERE {name} IS NULL") == ([] if name == "id" else [{"id": 2}])
        assert rows_of(odd.gate, f"SELECT {name} IS NOT NULL AS x FROM odd WHERE id = 1") == [{"x": True}]
    both = rows_of(odd.gate, "SELECT raw FROM odd UNION ALL SELECT raw FROM odd")
    assert len(both) == 4
    # Beside rows of persons they are not there, and harm nothing.
    first = "SELECT *, row_number() OVER (PARTITION BY v.user_id ORDER BY age) AS n FROM visits AS v CROSS JOIN odd"
    sql = f"SELECT count(*) FROM ({first}) AS t WHERE n = 1"
    assert odd.rows(sql) == [(40,)]


def test_of_persons_nothing_is_shown_as_it_is(tmp_path: Path) -> None:
    private = world(tmp_path, given=with_odd("private"), columns=COLUMNS | {"odd": ODD})
    with pytest.raises(Refused, match='column "raw" does not exist'):
        private.gate.prepare("SELECT count(raw) FROM odd", "analyst")
    assert private.gate.describe("SELECT count(*), sum(least(greatest(price, 0), 1)) FROM odd", "analyst").types == (
        "int8",
        "float8",
    )
    private.close()


def numbered(folder: Path, database: Database, rows: int) -> World:
    made = world(folder, people() | {"published": []}, engine=database.engine, mechanisms=EXACT)
    database.run(f"INSERT INTO published SELECT 'R' || i, i FROM generate_series(0, {rows - 1}) AS t(i)")
    return made


def test_batches_stream_and_hold_up_nobody(tmp_path: Path, database: Database) -> None:
    made = numbered(tmp_path, database, 25_000)
    stream = made.gate.plain_batches(made.prepare("SELECT persons FROM published ORDER BY persons"), 1000)
    first = next(stream)
    assert 0 < first.num_rows <= 5000 and str(first.schema.field(0).type) == "int32"
    assert made.rows("SELECT count(*) FROM users") == [(40,)]
    rest = [number for batch in stream for number in batch.column(0).to_pylist()]
    assert first.column(0).to_pylist() + rest == list(range(25_000))
    half = made.gate.plain_batches(made.prepare("SELECT region FROM published"), 1000)
    next(half)
    half.close()
    assert made.gate.engine.engine._streams == []  # type: ignore[attr-defined]
    made.gate.ledger.close()


@pytest.mark.full_on_postgres
def test_a_stream_can_be_broken_off(tmp_path: Path, database: Database) -> None:
    made = numbered(tmp_path, database, 3000)
    three = "published a CROSS JOIN published b CROSS JOIN published c"
    sql = f"SELECT count(*) FROM {three} WHERE a.persons < b.persons + c.persons"
    made.gate.prepare(sql, "analyst")  # kept: an interrupt before the engine is at work would be lost
    timer = threading.Timer(0.3, made.gate.engine.interrupt)
    timer.start()
    start = time.monotonic()
    with pytest.raises((KeyboardInterrupt, SqlanonError)) as error:
        rows_of(made.gate, sql)
    assert time.monotonic() - start < 5 and "published" not in str(error.value)
    timer.join()
    assert rows_of(made.gate, "SELECT count(*) AS n FROM published") == [{"n": 3000}]
    made.gate.ledger.close()


def test_numbers_that_do_not_fit_say_so(tmp_path: Path) -> None:
    columns = COLUMNS | {"published": {"region": "TEXT", "persons": "HUGEINT"}}
    tables = people() | {"published": [{"region": "R0", "persons": 2**70}]}
    made = world(tmp_path, tables, columns=columns)
    assert rows_of(made.gate, "SELECT persons FROM published") == [{"persons": 2**70}]  # a numeric has room for it
    with pytest.raises(Refused, match="out of range") as error:
        rows_of(made.gate, "SELECT persons::int FROM published")
    assert error.value.sqlstate == "22003"
    made.close()


# ---- parameters


# What is told are PostgreSQL's types; what is computed with are kinds.
KIND_OF = {"int8": "int", "int4": "int", "float8": "float"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("SELECT count(*) FROM visits WHERE age > $1", ["int"]),
        ("SELECT count(*) FROM visits WHERE $1 >= income", ["float"]),
        ("SELECT count(*) FROM visits WHERE region = $1 OR region = $2", ["text", "text"]),
        ("SELECT count(*) FROM visits WHERE seen BETWEEN $1 AND $2", ["timestamp", "timestamp"]),
        ("SELECT count(*) FROM users WHERE born < $1", ["date"]),
        ("SELECT count(*) FROM visits WHERE age IN ($1, $2, 3)", ["int", "int"]),
        ("SELECT count(*) FROM visits WHERE ok = $1", ["bool"]),
        ("SELECT count(*) FROM visits WHERE $1", ["bool"]),
        ("SELECT count(*) FROM visits WHERE lower(region) LIKE $1", ["text"]),
        ("SELECT count(*) FROM visits WHERE age = $1::int", ["int"]),
        ("SELECT count(*) FROM visits WHERE region = CAST($1 AS VARCHAR)", ["text"]),
        ("SELECT count(*) FROM visits WHERE $1 IS NULL OR age = $1", ["int"]),
        ("SELECT count(*) FROM visits WHERE $1 IS NULL", ["text"]),
        ("SELECT count(*) FROM visits WHERE age + $1 > $2", ["int", "int"]),
        ("SELECT count(*) FROM visits WHERE coalesce(income, $1) > 0", ["float"]),
        ("SELECT count(*) FROM visits WHERE CASE WHEN age > 3 THEN region ELSE $1 END = 'x'", ["text"]),
        ("SELECT sum(least(greatest(age, $1), $2)) FROM visits", ["int", "int"]),
        ("SELECT region, count(*) FROM visits GROUP BY 1 HAVING count(*) > $1 LIMIT $2 OFFSET $3", ["int"] * 3),
        ("SELECT percentile_cont($1) WITHIN GROUP (ORDER BY age) FROM visits", ["float"]),
        ("SELECT round(avg(age), $1) FROM visits", ["int"]),
        ("SELECT count(*) FROM users WHERE extract(month FROM born) = $1", ["int"]),
        ("SELECT count(*) FROM users WHERE extract(year FROM born) = $1", ["int"]),
        ("SELECT left(region, $1) FROM published", ["int"]),
        ("SELECT $2 AS x FROM published", ["text", "text"]),
        ("SELECT abs($1) FROM published", ["float"]),
        ("EXPLAIN SELECT count(*) FROM visits WHERE age > $1", ["int"]),
    ],
)
def test_kinds_of_parameters_follow_from_where_they_stand(here: World, sql: str, kinds: list[str]) -> None:
    before, spent = list(here.spy.seen), here.gate.ledger.history()
    for dialect in ("duckdb", "postgres"):
        found = here.gate.describe(sql, "analyst", dialect=dialect).parameters
        assert [KIND_OF.get(each, each) for each in found] == kinds
    assert here.spy.seen == before and here.gate.ledger.history() == spent, "nothing is read, nothing is spent"


def test_a_truncated_date_is_what_the_dialect_makes_of_it(here: World) -> None:
    sql = "SELECT count(*) FROM users WHERE date_trunc('month', born) = $1"
    found = {
        dialect: here.gate.describe(sql, "analyst", dialect=dialect).parameters for dialect in ("duckdb", "postgres")
    }
    assert found == {"duckdb": ("date",), "postgres": ("timestamp",)}


def test_kinds_that_are_declared_are_kept(here: World) -> None:
    found = here.gate.describe("SELECT count(*) FROM visits WHERE age > $1 AND seen > $2", "analyst", ["float", "text"])
    assert found.parameters == ("float8", "text")
    with pytest.raises(Refused, match="a int cannot be compared with a text") as error:
        here.gate.describe("SELECT count(*) FROM visits WHERE age > $1", "analyst", ["text"])
    assert error.value.sqlstate == "42883"
    assert here.gate.describe("SELECT $1::int + 1 FROM published", "analyst", ["text"]).types == ("int8",)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(10**17), 10**17),
    "float": st.floats(-1e17, 1e17).filter(lambda x: x == 0 or abs(x) > 1e-20) | st.sampled_from([5.0, 1e16]),
    "text": st.text(st.characters(codec="utf-8", exclude_characters="\x00\\%"), max_size=20),
    "bool": st.booleans(),
    "date": st.dates(date(1800, 1, 1), date(2200, 1, 1)),
    "timestamp": st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)),
}
SHAPES = {
    "int": [
        "SELECT $1 AS x FROM published", "SELECT -$1 AS x, persons + $1 AS y FROM published",
        "SELECT round(persons / 7.0, 2) AS x FROM published WHERE persons > $1",
    ],
    "float": ["SELECT $1 * persons AS x FROM published", "SELECT coalesce(persons, $1) AS x FROM published"],
    "text": ["SELECT region || $1 AS x FROM published", "SELECT CASE WHEN region = $1 THEN 1 END AS x FROM published"],
    "bool": ["SELECT $1 AND persons > 3 AS x FROM published"],
    "date": [
        "SELECT $1 AS x, $1 < CAST('2026-01-01' AS DATE) AS y FROM published",
        "SELECT date_trunc('month', $1) AS x FROM published",
    ],
    "timestamp": ["SELECT $1 AS x FROM published", "SELECT extract(year FROM $1) AS x FROM published"],
}  # fmt: skip


@pytest.mark.full
@given(st.data())
def test_columns_do_not_hang_on_the_values_of_parameters(here: World, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(VALUES)))
    sql = data.draw(st.sampled_from(SHAPES[kind]))
    value = data.draw(VALUES[kind] | st.none())
    described = here.gate.describe(sql, "analyst", [kind])  # type: ignore[list-item]
    prepared = here.gate.prepare(
        sql, "analyst", [value], kinds=[KIND_OF.get(each, each) for each in described.parameters]
    )
    assert (prepared.columns, prepared.types) == (described.columns, described.types)
    batches = list(here.gate.plain_batches(prepared))
    assert sum(batch.num_rows for batch in batches) == (2 if "WHERE" not in sql else sum(b.num_rows for b in batches))


def test_round_to_a_parameter_is_a_float_whatever_it_is(here: World) -> None:
    for places in (-1, 0, 2):
        assert here.prepare("SELECT round(persons, $1) FROM published", parameters=[places], kinds=["int"]).types == (
            "float8",
        )
    assert here.prepare("SELECT round(persons, 0) FROM published").types == ("int8",)


def test_null_is_a_value_of_every_kind(odd: World) -> None:
    for sql, kind in (
        ("SELECT count(*) AS n FROM published WHERE persons = $1", "int"),
        ("SELECT count(*) AS n FROM published WHERE region LIKE $1", "text"),
        ("SELECT count(*) AS n FROM published WHERE persons IN ($1)", "int"),
        ("SELECT count(*) AS n FROM published WHERE persons BETWEEN $1 AND 5", "int"),
        ("SELECT count(*) AS n FROM published WHERE persons / $1 > 1", "float"),
    ):
        prepared = odd.gate.prepare(sql, "analyst", [None], kinds=[kind])  # type: ignore[list-item]
        assert [row for batch in odd.gate.plain_batches(prepared) for row in batch.to_pylist()] == [{"n": 0}], sql
    everything = odd.gate.prepare("SELECT region FROM published LIMIT $1", "analyst", [None], kinds=["int"])
    assert sum(batch.num_rows for batch in odd.gate.plain_batches(everything)) == 2


def test_a_parameter_is_the_literal_that_it_stands_for(here: World) -> None:
    for sql, value, kind, written in (
        ("SELECT count(*) FROM visits WHERE age > $1", 30, "int", "30"),
        ("SELECT count(*) FROM visits WHERE age > $1", -3, "int", "-3"),
        ("SELECT count(*) FROM visits WHERE income > $1", 2.5, "float", "2.5"),
        ("SELECT count(*) FROM visits WHERE region = $1", "R'1", "text", "'R''1'"),
        (
            "SELECT count(*) FROM visits WHERE seen > $1",
            datetime(2026, 1, 2),
            "timestamp",
            "CAST('2026-01-02' AS TIMESTAMP)",
        ),
    ):
        one = here.prepare(sql, parameters=[value], kinds=[kind])
        assert one.parts[0].cache_key == here.prepare(sql.replace("$1", written)).parts[0].cache_key, sql
    assert here.prepare("SELECT count(*) FROM visits LIMIT $1::int", parameters=[3], kinds=["int"])


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SELECT count(*) FROM visits WHERE age > $1 OR region = $1", "42883"),
        ("SELECT count(*) FROM visits WHERE age > $5000", "42P02"),
        ("SELECT count(*) FROM visits WHERE age > $name", "42P02"),
        ("SELECT count(*) FROM $1", "0A000"),
    ],
)
def test_parameters_that_make_no_sense(here: World, sql: str, state: str) -> None:
    with pytest.raises(Refused) as error:
        here.gate.describe(sql, "analyst")
    assert error.value.sqlstate == state


@pytest.mark.full
@pytest.mark.parametrize(
    ("value", "kind", "state"),
    [
        (10**19, "int", "22003"), (float("nan"), "float", "22003"), (float("inf"), "float", "22003"),
        (Decimal("1e99"), "float", "22003"), ("x", "int", "22P02"), (True, "int", "22P02"), (1.5, "int", "22003"),
        (1, "text", "22P02"), ("a\x00b", "text", "22021"), (1e-300, "float", "22003"), (1, "bool", "22P02"),
    ],
)  # fmt: skip
def test_values_that_are_not_of_their_kind(here: World, value: Any, kind: Any, state: str) -> None:
    with pytest.raises(Refused) as error:
        here.gate.prepare("SELECT count(*) FROM visits WHERE $1 IS NULL", "analyst", [value], kinds=[kind])
    assert error.value.sqlstate == state


def test_many_parameters_are_described_in_time(here: World) -> None:
    sums = " + ".join(f"age * ${number}" for number in range(1, 60))
    start = time.monotonic()
    found = here.gate.describe(f"SELECT count(*) FROM visits WHERE {sums} > 5", "analyst")
    assert found.parameters == ("int8",) * 59 and time.monotonic() - start < 20


# ---- when answers leave


class Clock:
    def __init__(self) -> None:
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def test_only_what_reads_data_of_persons_waits(tmp_path: Path) -> None:
    made = world(tmp_path, given=policy(answer_time=50.0, timeout=100.0))
    clock = Clock()
    made.gate.pause = clock
    for sql, waits in (
        ("SELECT count(*) FROM visits", True),
        ("SELECT count(*) FROM visits", False),  # from the cache: as long as the first time, for anybody
        ("SELECT count(*) FROM regions", False),
        ("SELECT region, persons FROM published", False),
        ("EXPLAIN SELECT count(*) FROM visits", False),
    ):
        clock.slept.clear()
        made.gate.answer(sql)
        assert len(clock.slept) == waits, sql
        assert all(40 < slept < 50 for slept in clock.slept)
    clock.slept.clear()
    list(made.gate.plain_batches(made.prepare("SELECT * FROM published")))
    with pytest.raises(Refused):
        made.gate.answer("SELECT nope FROM visits")
    assert clock.slept == []
    made.close()


def test_a_failure_waits_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, given=policy(answer_time=50.0, timeout=100.0))
    clock = Clock()
    made.gate.pause = clock

    def broken(*_: Any) -> Any:
        raise duckdb.Error("a value")

    monkeypatch.setattr(made.spy, "query", broken)
    monkeypatch.setattr(made.spy, "prepared", broken)
    with pytest.raises(SqlanonError, match="could not be answered"):
        made.gate.answer("SELECT count(*) FROM visits")
    assert len(clock.slept) == 1
    assert [event.kind for event in made.gate.ledger.history()] == ["charge", "failed"]
    made.close()


def test_breaking_off_while_it_waits_keeps_nothing_but_the_charge(tmp_path: Path) -> None:
    made = world(tmp_path, given=policy(answer_time=50.0, timeout=100.0))

    def broken_off(seconds: float) -> None:
        raise KeyboardInterrupt

    made.gate.pause = broken_off
    with pytest.raises(KeyboardInterrupt):
        made.gate.answer("SELECT count(*) FROM visits")
    assert [event.kind for event in made.gate.ledger.history()] == ["charge", "failed"]
    made.gate.pause = Clock()
    assert not made.gate.answer("SELECT count(*) FROM visits").cached
    made.close()


# ---- statements that are asked again


def test_a_statement_is_bound_once(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT region, count(*) FROM visits WHERE age > ? GROUP BY 1"
    first = here.gate.prepare(sql, "analyst", [30])
    assert here.gate.prepare(sql, "analyst", [30]) is first
    others = [
        here.gate.prepare(sql, "analyst", [30.0]),
        here.gate.prepare(sql, "analyst", [31]),
        here.gate.prepare(sql, "analyst", [30], epsilon=0.5),
        here.gate.prepare(sql, "analyst", [30], intervals=True),
        here.gate.prepare(sql, "analyst", [30], dialect="postgres"),
    ]
    assert all(other is not first for other in others)
    assert here.gate.prepare("SELECT count(*) FROM visits WHERE ok = ?", "analyst", [True]) is not here.gate.prepare(
        "SELECT count(*) FROM visits WHERE ok = ?", "analyst", [False]
    )
    once = here.gate.answer_prepared(first, "analyst").rows
    assert here.gate.answer_prepared(first, "analyst").rows == once
    monkeypatch.setattr(type(here.gate), "data_version", lambda self: "another")
    assert here.gate.prepare(sql, "analyst", [30]) is not first
    plain = here.prepare("SELECT region, persons FROM published ORDER BY 1")
    assert [next(iter(here.gate.plain_batches(plain))).to_pylist() for _ in range(2)] == [
        [{"region": "R0", "persons": 10}, {"region": "R1", "persons": 20}]
    ] * 2


def test_a_cached_answer_is_computed_once_and_is_that_of_the_ledger(tmp_path: Path) -> None:
    made = world(tmp_path)
    runs = []
    compute = made.gate.post.run
    made.gate.post.run = lambda *given: (runs.append(1), compute(*given))[1]  # type: ignore[method-assign]
    sql = "SELECT ward, count(*) FROM visits GROUP BY 1"
    answers = [made.gate.answer(sql) for _ in range(4)]
    assert len({answer.rows for answer in answers}) == 1 and len(runs) == 2
    assert [answer.cached for answer in answers] == [False, True, True, True]
    assert answers[3].left == answers[1].left and answers[3].types == answers[0].types
    assert made.gate.answer("SELECT ward, count(*) + 0 FROM visits GROUP BY 1").rows != () and len(runs) > 2
    # What the ledger no longer has is asked, and paid, again.
    made.gate.ledger.cached = lambda key: None  # type: ignore[method-assign]
    assert not made.gate.answer(sql).cached
    made.close()


# ---- a hardened engine


def test_a_hardened_database_reads_its_tables_alone(tmp_path: Path) -> None:
    path = tmp_path / "world.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS i FROM range(100000)")
        connection.execute(f"COPY t TO '{tmp_path / 't.parquet'}'")
        connection.execute(f"CREATE VIEW v AS SELECT * FROM '{tmp_path / 't.parquet'}'")
    spill = tmp_path / "spill"
    spill.mkdir()
    engine = connect(str(path), hardened=Hardened(120 * 2**20, temporary=str(spill)))
    own = engine._connection  # type: ignore[attr-defined]
    settings = dict(own.execute("SELECT name, value FROM duckdb_settings()").fetchall())
    for name, value in {
        "enable_external_access": "false", "lock_configuration": "true", "allow_community_extensions": "false",
        "allow_unsigned_extensions": "false", "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false", "allow_persistent_secrets": "false",
        "allow_extension_repositories": "forbidden", "access_mode": "read_only", "threads": "2",
    }.items():  # fmt: skip
        assert settings[name] == value, name
    assert own.execute("SELECT sum(i) FROM t").fetchall() == [(4999950000,)]
    # What does not fit into memory goes into the folder that it was given.
    big = "SELECT count(*) FROM (SELECT DISTINCT a.i, repeat('x', 500) || b.i FROM t a, range(4) b(i))"
    assert own.execute(big).fetchall() == [(400000,)]
    with pytest.raises(duckdb.Error):
        own.execute("CREATE TABLE u (i INTEGER)")
    engine.close()
    text = (
        "gateway: {database: world.duckdb, unit: {table: t, key: i}, tables: {t: {}, v: {public: true}}, rows: 1, "
        "budget: {statement: {epsilon: 1}, principal: {epsilon: 9}}}"
    )
    from sqlanon.ledger import Ledger

    Ledger.create(tmp_path / "policy.ledger").close()
    with pytest.raises(SourceError, match="reads files outside of the database"):
        open_gateway(parse_gateway(text, "policy.yml", tmp_path), hardened=Hardened(2**28))
