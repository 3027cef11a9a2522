"""SQLAlchemy 2 and pandas on a real PostgreSQL and on the proxy: what is there, and what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from proxy_servers import Server
from proxy_world import CITIES, NAMES, PEOPLE

sqlalchemy = pytest.importorskip("sqlalchemy", reason="needs the package SQLAlchemy")
from sqlalchemy import MetaData, Table, bindparam, func, select, text  # noqa: E402
from sqlalchemy.exc import ProgrammingError  # noqa: E402


@pytest.fixture(scope="module")
def engine(server: Server) -> Iterator[Any]:
    made = sqlalchemy.create_engine(server.url("postgresql+psycopg"))
    yield made
    made.dispose()


@pytest.fixture
def people(engine: Any) -> Any:
    return Table("people_released", MetaData(), autoload_with=engine)


# ---- what is there


def test_tables_and_views(server: Server, engine: Any) -> None:
    found = sqlalchemy.inspect(engine)
    expected = {"cities", "people_released", "names", "kinds", "Odd Näme", "persons", "visits"}
    extra = {"events", "rows_released"} if server.proxy else set()
    views = set(found.get_view_names())
    assert views <= {"greek_cities"}
    assert set(found.get_table_names()) | views == expected | extra | {"greek_cities"}
    if not server.proxy:
        assert views == {"greek_cities"}
    assert set(found.get_table_names(schema="public")) == set(found.get_table_names())
    assert found.get_table_names(schema="nowhere") == []
    assert "public" in found.get_schema_names() and "information_schema" in found.get_schema_names()
    assert found.default_schema_name == "public"
    assert found.has_table("cities") and not found.has_table("Cities") and found.has_table("cities", schema="public")
    assert found.get_sequence_names() == [] and found.get_temp_table_names() == []
    assert found.get_materialized_view_names() == []


def test_columns(server: Server, engine: Any) -> None:
    found = sqlalchemy.inspect(engine).get_columns("people_released")
    told = [(each["name"], str(each["type"]), each["nullable"], each["default"]) for each in found]
    assert told == [
        ("id", "INTEGER", False, None), ("name", "TEXT", False, None), ("city", "TEXT", True, None),
        ("born", "DATE", True, None), ("height", "DOUBLE PRECISION", True, None),
        ("income", "NUMERIC(10, 2)", True, None), ("active", "BOOLEAN", True, None), ("seen", "TIMESTAMP", True, None),
        ("grade", "SMALLINT", True, None), # DuckDB keeps no length.
        ("code", "TEXT" if server.proxy else "VARCHAR(12)", True, None),
    ]  # fmt: skip
    odd = sqlalchemy.inspect(engine).get_columns("Odd Näme")
    assert [each["name"] for each in odd] == ["Id", "two words", "select"]
    with pytest.raises(sqlalchemy.exc.NoSuchTableError):
        sqlalchemy.inspect(engine).get_columns("nowhere")


def test_columns_of_all_kinds(server: Server, engine: Any) -> None:
    found = {each["name"]: str(each["type"]) for each in sqlalchemy.inspect(engine).get_columns("kinds")}
    expected = {
        "i2": "SMALLINT", "i4": "INTEGER", "i8": "BIGINT", "num": "NUMERIC(20, 4)", "f4": "REAL",
        "f8": "DOUBLE PRECISION", "flag": "BOOLEAN", "txt": "TEXT", "d": "DATE",
        "vc": "TEXT" if server.proxy else "VARCHAR(20)",
        "ts": "TIMESTAMP", "u": "UUID",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


def test_keys_and_indexes(server: Server, engine: Any) -> None:
    found = sqlalchemy.inspect(engine)
    assert found.get_pk_constraint("people_released")["constrained_columns"] == ["id"]
    assert found.get_pk_constraint("cities")["constrained_columns"] == ["city"]
    (key,) = found.get_foreign_keys("people_released")
    assert (key["constrained_columns"], key["referred_table"], key["referred_columns"]) == (
        ["city"], "cities", ["city"],
    )  # fmt: skip
    assert found.get_foreign_keys("cities") == []
    assert [each["column_names"] for each in found.get_unique_constraints("names")] == [["name"]]
    assert all(index["unique"] for index in found.get_indexes("names"))
    assert found.get_indexes("cities") == []
    assert found.get_check_constraints("cities") == []
    assert found.get_table_comment("cities") == {"text": "public: answered plainly" if server.proxy else None}
    assert set(found.get_multi_columns()) == {(None, name) for name in found.get_table_names()}


def test_reflection(engine: Any) -> None:
    everything = MetaData()
    everything.reflect(engine, views=True)
    assert {"people_released", "cities", "greek_cities", "Odd Näme"} <= set(everything.tables)
    people = everything.tables["people_released"]
    assert [column.name for column in people.primary_key] == ["id"]
    assert str(next(iter(people.c.city.foreign_keys)).column) == "cities.city"


# ---- what it holds


def test_core_select(engine: Any, people: Any) -> None:
    with engine.connect() as db:
        sql = select(people.c.id, people.c.name).where(people.c.id.between(2, 4)).order_by(people.c.id)
        assert db.execute(sql).all() == [(2, "person 2"), (3, "person 3"), (4, "person 4")]
        chosen = select(people.c.id).where(people.c.id.in_([5, 6, 700_000])).order_by(people.c.id)
        assert db.scalars(chosen).all() == [5, 6]
        grouped = select(people.c.city, func.count()).group_by(people.c.city).order_by(people.c.city)
        assert db.execute(grouped).all() == [(city, 250) for city in ("Athens", "Berlin", "Kraków", "Ōsaka")]
        one = select(people.c.income, people.c.born, people.c.active, people.c.seen).where(people.c.id == 3)
        row = db.execute(one).one()
        assert row[:3] == (Decimal("36.75"), date(1950, 1, 22), True) and row.seen.hour == 2
        limited = select(people.c.id).order_by(people.c.id.desc()).limit(2).offset(1)
        assert db.scalars(limited).all() == [PEOPLE - 1, PEOPLE - 2]
        cities = Table("cities", MetaData(), autoload_with=engine)
        joined = (
            select(cities.c.country, func.max(people.c.id)).join(cities, cities.c.city == people.c.city)
            .where(cities.c.country.like("G%")).group_by(cities.c.country).order_by(cities.c.country)
        )  # fmt: skip
        assert db.execute(joined).all() == [("Germany", 997), ("Greece", 1000)]


def test_text_with_parameters(engine: Any) -> None:
    with engine.connect() as db:
        for number, name in enumerate(NAMES):
            asked = text("SELECT no FROM names WHERE name = :name")
            assert db.execute(asked, {"name": name}).scalar_one() == number
        expanding = text("SELECT count(*) FROM cities WHERE city IN :chosen").bindparams(
            bindparam("chosen", expanding=True)
        )
        assert db.execute(expanding, {"chosen": ["Athens", "Ōsaka"]}).scalar_one() == 2


def test_a_stream(engine: Any) -> None:
    with engine.connect().execution_options(yield_per=100, stream_results=True) as db:
        parts = [len(part) for part in db.execute(text("SELECT id FROM people_released")).partitions(100)]
    assert parts == [100] * (PEOPLE // 100)


def test_errors_and_transactions(engine: Any) -> None:
    with engine.connect() as db:
        with pytest.raises(ProgrammingError):
            db.execute(text("SELECT nothing"))
        db.rollback()
        assert db.execute(text("SELECT 1")).scalar_one() == 1
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        with pytest.raises(ProgrammingError):
            db.execute(text("SELECT nothing"))
        assert db.execute(text("SELECT 1")).scalar_one() == 1


def test_a_pool_that_looks_first(server: Server) -> None:
    made = sqlalchemy.create_engine(server.url("postgresql+psycopg"), pool_pre_ping=True, pool_size=2)
    for _ in range(3):
        with made.connect() as db:
            assert db.execute(text("SELECT 1")).scalar_one() == 1
    made.dispose()


# ---- pandas


def test_read_sql(server: Server, engine: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="needs the package pandas")
    with engine.connect() as db:
        people = pandas.read_sql("SELECT * FROM people_released ORDER BY id", db, index_col="id", parse_dates=["born"])
        assert people.shape == (PEOPLE, 9)
        assert str(people["height"].dtype) == "float64" and str(people["grade"].dtype) == "int64"
        assert people["born"].isna().sum() == PEOPLE // 10
        assert people.loc[7, "name"] == "person 7"
        assert str(people["seen"].dtype).startswith("datetime64")
        cities = pandas.read_sql_table("cities", db)
        assert list(cities["city"]) == [city for city, *_ in CITIES] and cities["population"].sum() == 7814692
        chunks = list(pandas.read_sql_query("SELECT id FROM people_released", db, chunksize=300))
        assert [len(chunk) for chunk in chunks] == [300, 300, 300, 100]
        asked = text("SELECT ward, count(*) AS n FROM visits WHERE cost < :most GROUP BY ward ORDER BY ward")
        wards = pandas.read_sql(asked, db, params={"most": 40.5})
        assert list(wards["ward"]) == ["w0", "w1", "w2", "w3"] and str(wards["n"].dtype) == "int64"
        again = pandas.read_sql(asked, db, params={"most": 40.5})
        assert wards.equals(again)
