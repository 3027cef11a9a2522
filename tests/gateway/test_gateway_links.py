"""A link leads to a key that is unique: by a constraint, or as the data are, looked at again when they change."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pytest
from conftest import Database
from gateway_world import EXACT, World, reopened

from sqlanon.errors import EngineError, PolicyError
from sqlanon.gateway import open_gateway
from sqlanon.gateway.answer.linked_keys import require_linked_keys
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.ledger import Ledger
from sqlanon.policy.files import parse_gateway
from sqlanon.policy.gateway import Gateway

ROWS = 5
COUNT = "SELECT COUNT(*) FROM items"
TEXT = """
gateway:
  database: {database}
  ledger: {ledger}
  unit: {{table: users, key: user_id}}
  rows: 5
  answer_time: 0
  budget: {{statement: {{epsilon: 1, delta: 1e-6}}, principal: {{epsilon: 50, delta: 1e-3}}}}
  principals: {{analyst: {{}}}}
  tables:
    users: {{}}
    orders: {{unit: user_id}}
    items: {{link: {{table: orders, on: order_id}}}}
"""


def policy(link: Any = None, **changed: Any) -> Gateway:
    given: dict[str, Any] = {
        "database": ":memory:", "unit": {"table": "users", "key": "user_id"}, "rows": ROWS, "answer_time": 0.0,
        "principals": {"analyst": {}, "trusted": {"controls": True}}, "controls": {"query_set_size": 2},
        "budget": {"statement": {"epsilon": 1.0, "delta": 1e-6}, "principal": {"epsilon": 90.0, "delta": 1e-3}},
        "tables": {
            "users": {}, "orders": {"unit": "user_id"},
            "items": {"link": link or {"table": "orders", "on": "order_id"}},
        },
    }  # fmt: skip
    return Gateway.model_validate(given | changed)


def fill(database: Database, *, shared: bool, key: str = "") -> None:
    """Ten persons with an order of five items each; with `shared`, all have the same order number."""
    database.table("users", {"user_id": "BIGINT"}, [{"user_id": who} for who in range(10)])
    columns = {"order_id": "BIGINT", "year": "BIGINT", "user_id": "BIGINT"}
    orders = [{"order_id": 0 if shared else who, "year": 1, "user_id": who} for who in range(10)]
    database.table("orders", columns, [])
    if key:
        database.run(f"ALTER TABLE orders ADD {key}")
    for row in orders:
        database.run("INSERT INTO orders VALUES ({order_id}, {year}, {user_id})".format(**row))
    items = [{"order_id": row["order_id"], "year": 1} for row in (orders[:1] if shared else orders) for _ in range(5)]
    database.table("items", {"order_id": "BIGINT", "year": "BIGINT"}, items)


def opened(database: Database, folder: Path, given: Gateway | None = None) -> World:
    return reopened(folder, database.engine, given or policy(), EXACT, f"{uuid4().hex}.ledger")


def test_a_key_that_persons_share_moves_more_than_the_bound(database: Database, tmp_path: Path) -> None:
    """Why it is refused: with the first person go their order and its items, which nine others were read with."""
    fill(database, shared=True)
    joined = "SELECT COUNT(*) FROM (SELECT o.user_id FROM items i JOIN orders o ON o.order_id = i.order_id) t"
    ((before,),) = database.fetch(joined)
    database.run("DELETE FROM items")
    ((after,),) = database.fetch(joined)
    assert before - after == 50 > ROWS


def test_a_shared_key_is_refused_when_the_policy_is_opened(database: Database, tmp_path: Path) -> None:
    fill(database, shared=True)
    catalog = Catalog(policy(), schema_of(database.engine, policy()))
    with pytest.raises(PolicyError, match="'items' links to 'orders' on order_id, which several rows") as error:
        require_linked_keys(database.engine, catalog)
    assert not any(sign.isdigit() for sign in str(error.value).replace("policy:", ""))


def test_open_gateway_refuses_it(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE users AS SELECT 1 AS user_id")
        connection.execute("CREATE TABLE orders AS SELECT 7 AS order_id, range AS user_id FROM range(2)")
        connection.execute("CREATE TABLE items AS SELECT 7 AS order_id")
    text = TEXT.format(database="d.duckdb", ledger="l.ledger")
    Ledger.create(tmp_path / "l.ledger").close()
    with pytest.raises(PolicyError, match=r"policy.yml:\d+: table 'items' links to 'orders'"):
        open_gateway(parse_gateway(text, "policy.yml", tmp_path))
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("UPDATE orders SET order_id = user_id")
    gate = open_gateway(parse_gateway(text, "policy.yml", tmp_path))
    assert gate.answer(COUNT).rows
    gate.close()


@pytest.mark.full_on_postgres
def test_an_analyst_is_told_nothing_and_pays_nothing(database: Database, tmp_path: Path) -> None:
    fill(database, shared=True)
    here = opened(database, tmp_path)
    texts = []
    for who, sql in (("analyst", COUNT), ("trusted", COUNT), ("analyst", COUNT + " WHERE order_id = 3")):
        with pytest.raises(EngineError) as error:
            here.gate.answer(sql, who)
        texts.append(str(error.value))
    assert len(set(texts)) == 1 and "it cost nothing" in texts[0] and "order" not in texts[0]
    assert here.gate.ledger.history() == []
    assert here.rows("SELECT COUNT(*) FROM orders") == [(10,)]  # which no link is read for


def test_data_that_change_are_looked_at_again(postgres: Database, tmp_path: Path) -> None:
    fill(postgres, shared=False)
    here = opened(postgres, tmp_path)
    assert here.rows(COUNT) == [(50,)]
    postgres.run("UPDATE orders SET order_id = 0")
    assert here.refusal(COUNT + " WHERE order_id < 5") is not None
    postgres.run("UPDATE orders SET order_id = user_id")
    assert here.rows(COUNT + " WHERE order_id < 6") == [(30,)]


@pytest.mark.parametrize("key", ["PRIMARY KEY (order_id)", "UNIQUE (order_id)"])
def test_with_a_constraint_nothing_is_counted(database: Database, tmp_path: Path, key: str) -> None:
    if database.engine.dialect == "duckdb" and key.startswith("UNIQUE"):
        key = "PRIMARY KEY (order_id)"  # the one that DuckDB adds to a table
    fill(database, shared=False, key=key)
    here = opened(database, tmp_path)
    assert here.rows(COUNT) == [(50,)]
    assert not [text for text in here.spy.seen if "HAVING" in text and "LIMIT 1" in text]


def test_without_one_it_is_counted_once_for_each_version_of_a_file(database: Database, tmp_path: Path) -> None:
    fill(database, shared=False)
    here = opened(database, tmp_path)
    for number in range(3):
        here.rows(f"{COUNT} WHERE order_id < {number}")
    looked = [text for text in here.spy.seen if "HAVING" in text and "LIMIT 1" in text]
    assert len(looked) == (1 if database.engine.dialect == "duckdb" else 3)


def test_a_constraint_that_is_dropped(postgres: Database, tmp_path: Path) -> None:
    fill(postgres, shared=False, key="CONSTRAINT own UNIQUE (order_id)")
    here = opened(postgres, tmp_path)
    assert here.rows(COUNT) == [(50,)]
    postgres.run("ALTER TABLE orders DROP CONSTRAINT own")
    postgres.run("UPDATE orders SET order_id = 0")
    found = here.refusal(COUNT + " WHERE order_id < 5")
    assert found is not None and "lost a constraint" in found[1]
    assert here.spent == pytest.approx(1.0)


@pytest.mark.full_on_postgres
@pytest.mark.parametrize("key", ["", "PRIMARY KEY (order_id, year)"])
def test_a_key_of_two_columns(database: Database, tmp_path: Path, key: str) -> None:
    fill(database, shared=False, key=key)
    both = policy({"table": "orders", "on": {"order_id": "order_id", "year": "year"}})
    assert opened(database, tmp_path, both).rows(COUNT) == [(50,)]
    database.run("INSERT INTO orders VALUES (3, 2, 4)")
    assert opened(database, tmp_path, both).rows(COUNT) == [(50,)]  # order 3 of another year
    assert opened(database, tmp_path).refusal(COUNT) is not None  # half of the key is not unique
    if key:
        return
    database.run("INSERT INTO orders VALUES (3, 1, 4)")
    assert opened(database, tmp_path, both).refusal(COUNT) is not None


def test_a_key_that_is_null_is_shared_by_nobody(database: Database, tmp_path: Path) -> None:
    fill(database, shared=False)
    database.run("INSERT INTO orders VALUES (NULL, 1, 4), (NULL, 1, 5)")
    assert opened(database, tmp_path).rows(COUNT) == [(50,)]


# ---- types that an engine compares by a cast

FAR = 2**57  # from where on a double stands for 32 whole numbers
UUID_TEXT = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
CAST = [
    ("BIGINT", "DOUBLE PRECISION", [FAR + 17, FAR + 18], FAR + 32, "both"),
    ("DECIMAL(38,0)", "DOUBLE PRECISION", [FAR + 17, FAR + 18], FAR + 32, "both"),
    ("VARCHAR", "UUID", [UUID_TEXT, UUID_TEXT.upper()], UUID_TEXT, "duckdb"),
    ("VARCHAR", "CHAR(5)", ["a", "a "], "a", "postgres"),
]


def fill_cast(database: Database, parent: str, child: str, keys: list[Any], item: Any) -> None:
    """Two persons with an order each, whose numbers differ, and an item that an engine finds both of them for."""
    database.table("users", {"user_id": "BIGINT"}, [{"user_id": who} for who in range(2)])
    database.run(f"CREATE TABLE orders (order_id {parent} UNIQUE, user_id BIGINT)")
    for who, key in enumerate(keys):
        database.run(f"INSERT INTO orders VALUES ({key!r}, {who})")
    database.run(f"CREATE TABLE items (order_id {child})")
    database.run(f"INSERT INTO items VALUES ({item!r})")


@pytest.mark.parametrize(("parent", "child", "keys", "item", "engine"), CAST)
def test_a_unique_key_is_shared_if_the_engine_casts_it(
    database: Database, parent: str, child: str, keys: list[Any], item: Any, engine: str
) -> None:
    if engine not in ("both", database.engine.dialect):
        pytest.skip(f"{database.engine.dialect} has no such comparison")
    fill_cast(database, parent, child, keys, item)
    joined = "SELECT COUNT(*) FROM items i JOIN orders o ON o.order_id = i.order_id"
    assert database.fetch(joined) == [(2,)], "why it is refused"
    with pytest.raises(PolicyError, match=r"'items\.order_id' and 'orders\.order_id' .* have different types"):
        schema_of(database.engine, policy())


@pytest.mark.parametrize(("holder", "other"), [("BIGINT", "DOUBLE PRECISION"), ("DOUBLE PRECISION", "BIGINT")])
def test_the_unit_is_of_one_type_everywhere(database: Database, holder: str, other: str) -> None:
    database.table("users", {"user_id": holder}, [])
    database.table("orders", {"order_id": "BIGINT", "user_id": other}, [])
    database.table("items", {"order_id": "BIGINT"}, [])
    with pytest.raises(PolicyError, match=r"'orders\.user_id' and 'users\.user_id' .* have different types"):
        schema_of(database.engine, policy())


@pytest.mark.parametrize(
    ("parent", "child"), [("BIGINT", "INTEGER"), ("DECIMAL(12,0)", "BIGINT"), ("VARCHAR(9)", "TEXT"), ("UUID", "UUID")]
)
def test_types_that_are_compared_as_they_are_stored(database: Database, parent: str, child: str) -> None:
    database.table("users", {"user_id": "BIGINT"}, [])
    database.table("orders", {"order_id": parent, "user_id": "INTEGER"}, [])
    database.table("items", {"order_id": child}, [])
    assert schema_of(database.engine, policy()).columns["items"][0].name == "order_id"
