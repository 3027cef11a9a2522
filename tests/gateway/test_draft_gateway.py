"""`sqlanon init --gateway`: a draft from keys and foreign keys that opens unedited, and makes nothing public."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from conftest import Database

from sqlanon.cli import main
from sqlanon.errors import PolicyError
from sqlanon.gateway import open_gateway
from sqlanon.gateway.draft_gateway import draft_gateway, find_unit, read_shape, trace_persons
from sqlanon.ledger import Ledger
from sqlanon.policy.files import load_gateway

TABLES = """
CREATE TABLE cities (city VARCHAR PRIMARY KEY, country VARCHAR);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR, city VARCHAR REFERENCES cities (city), born INTEGER);
CREATE TABLE orders (number INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers (id), amount DECIMAL(8, 2));
CREATE TABLE items (number INTEGER REFERENCES orders (number), place INTEGER, price DOUBLE PRECISION,
    PRIMARY KEY (number, place));
CREATE TABLE parts (number INTEGER, place INTEGER, weight INTEGER,
    FOREIGN KEY (number, place) REFERENCES items (number, place));
CREATE TABLE transfers (giver INTEGER REFERENCES customers (id), taker INTEGER REFERENCES customers (id), sum INTEGER);
CREATE TABLE notes (transfer INTEGER, said VARCHAR);
CREATE TABLE posts (id INTEGER PRIMARY KEY, writer INTEGER REFERENCES customers (id),
    answers INTEGER REFERENCES posts (id));
CREATE TABLE likes (post INTEGER REFERENCES posts (id));
"""


def make(connection: Any) -> None:
    for statement in TABLES.split(";"):
        if statement.strip():
            connection.execute(statement)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("shop.duckdb") as connection:
        make(connection)
        connection.execute("INSERT INTO customers SELECT i, 'c' || i, NULL, 1980 FROM range(500) AS t(i)")
        connection.execute("INSERT INTO orders SELECT i, i % 500, 3.5 FROM range(1000) AS t(i)")
        connection.execute('CREATE SCHEMA hr; CREATE TABLE hr."Staff: list" ("a\nb" INTEGER, k JSON)')
    return tmp_path


def test_what_belongs_to_persons(database: Database) -> None:
    make(database.engine._connection)  # type: ignore[attr-defined]
    shape = read_shape(database.engine)
    draft = trace_persons(shape, find_unit(shape, "customers"))
    assert draft.unit == ("customers", "id")
    assert draft.owned == {"orders": "customer"}
    assert {name: (way.columns, way.other, way.referred) for name, way in draft.linked.items()} == {
        "items": (("number",), "orders", ("number",)),
        "parts": (("number", "place"), "items", ("number", "place")),
    }
    reasons = {name: reason.split(" ")[0] for name, reason in draft.left_out.items()}
    assert reasons == {"cities": "no", "notes": "no", "transfers": "several", "posts": "its", "likes": "it"}


def test_the_draft_opens_as_it_is_and_shows_nothing(shop: Path) -> None:
    found = CliRunner().invoke(main, ["init", "shop.duckdb", "--gateway", "--unit", "customers", "-o", "policy.yml"])
    assert found.exit_code == 0, found.output
    assert found.output.startswith("wrote policy.yml; 4 tables of persons, 6 left out")
    policy = load_gateway("policy.yml")
    assert not any(table.public or table.released for table in policy.tables.values())
    assert all(
        declared.keys is None and declared.low is None
        for t in policy.tables.values()
        for declared in t.columns.values()
    )
    Ledger.create(policy.located_ledger).close()
    gate = open_gateway(policy)
    ((count,),) = gate.answer("SELECT COUNT(*) FROM items i JOIN orders o ON i.number = o.number").rows
    assert abs(count) < 500
    ((count,),) = gate.answer("SELECT COUNT(*) FROM orders").rows
    assert 700 < count < 1300
    for sql in ("SELECT * FROM cities", "SELECT name FROM customers", "SELECT COUNT(*) FROM transfers"):
        with pytest.raises(Exception, match=r"does not exist|not answered|aggregate|person"):
            gate.answer(sql)
    gate.close()


@pytest.mark.full
def test_names_that_need_quotes(shop: Path) -> None:
    with duckdb.connect("shop.duckdb") as connection:
        connection.execute(
            'CREATE TABLE hr."The people" ("the key" INTEGER PRIMARY KEY, k JSON, n INTEGER, "c\nd" INTEGER)'
        )
        connection.execute('CREATE TABLE hr.pay (who INTEGER REFERENCES hr."The people" ("the key"), p INTEGER)')
    draft = draft_gateway("shop.duckdb", 'hr."The people"', base=Path("."))
    Path("quoted.yml").write_text(draft.text)
    policy = load_gateway("quoted.yml")
    assert policy.unit.key == "the key" and set(policy.tables) == {'hr."The people"', "hr.pay"}
    assert policy.tables['hr."The people"'].columns["k"].hidden
    Ledger.create(policy.located_ledger).close()
    gate = open_gateway(policy)
    assert len(gate.answer("SELECT COUNT(*) FROM hr.pay").rows) == 1
    gate.close()


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (None, "is not guessed"),
        ("custmers", "there is no table 'custmers'"),
        ("customers.nme", "has no column 'nme'"),
        ("customers.name", "no constraint keeps"),
        ("transfers", "has no key of one column"),
    ],
)
def test_the_unit_is_never_guessed(shop: Path, unit: str | None, said: str) -> None:
    with pytest.raises(PolicyError, match=said) as found:
        draft_gateway("shop.duckdb", unit)
    assert found.value.hint
    if unit is None:
        assert "customers.id" in found.value.hint and "transfers" not in found.value.hint


def test_options_that_do_not_fit(shop: Path) -> None:
    for options in (["--unit", "customers"], ["orders", "--gateway"], ["--gateway", "--qi", "born"]):
        assert CliRunner().invoke(main, ["init", "shop.duckdb", *options]).exit_code == 2
    CliRunner().invoke(main, ["init", "shop.duckdb", "--gateway", "--unit", "customers", "-o", "policy.yml"])
    found = CliRunner().invoke(main, ["init", "shop.duckdb", "--gateway", "--unit", "customers", "-o", "policy.yml"])
    assert found.exit_code != 0 and "exists already" in found.output
