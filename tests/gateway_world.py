"""A gateway over a small world, with ways to look inside: exact mechanisms, and a spy on every statement."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine, connect
from sqlanon.errors import SqlanonError
from sqlanon.gateway import Gate, PricedStatement
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.gateway.price.noise import Mechanisms
from sqlanon.ledger import Ledger
from sqlanon.mechanisms import Choice, Cost, KeySelection, Mechanism
from sqlanon.policy.gateway import Gateway

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row]]

COLUMNS: dict[str, dict[str, str]] = {
    "users": {"user_id": "BIGINT", "email": "TEXT", "home": "TEXT", "born": "DATE", "secret": "TEXT"},
    "visits": {
        "user_id": "BIGINT", "age": "INTEGER", "region": "TEXT", "income": "DOUBLE PRECISION", "visits": "BIGINT",
        "note": "TEXT", "seen": "TIMESTAMP", "ok": "BOOLEAN", "price": "DECIMAL(12, 2)", "ward": "TEXT",
    },
    "orders": {"order_id": "BIGINT", "user_id": "BIGINT", "amount": "INTEGER"},
    "items": {"order_id": "BIGINT", "sku": "TEXT", "price": "DOUBLE PRECISION"},
    "regions": {"region": "TEXT", "country": "TEXT", "size": "INTEGER"},
    "published": {"region": "TEXT", "persons": "INTEGER"},
    "staff": {"user_id": "BIGINT", "grade": "INTEGER"},
}  # fmt: skip
REGIONS = [
    {"region": "R0", "country": "A", "size": 1},
    {"region": "R1", "country": "A", "size": 2},
    {"region": "R2", "country": "B", "size": 3},
    {"region": "R9", "country": "C", "size": 4},
]
PUBLISHED = [{"region": "R0", "persons": 10}, {"region": "R1", "persons": 20}]


def policy(**changed: Any) -> Gateway:
    """The policy of the attack list: visits and users are private, items by way of orders, regions is public."""
    tables: dict[str, Any] = {
        "users": {"columns": {"secret": "hidden", "email": {}} | {"email": {"keys": None}}},
        "visits": {
            "unit": "user_id",
            "columns": {
                "age": {"low": 0, "high": 120},
                "income": {"low": 0, "high": 200_000},
                "visits": {"low": 0, "high": 50},
                "price": {"low": -10, "high": 10.5},
                "ward": {"keys": ["W0", "W1", "W2"]},
            },
        },
        "orders": {"unit": "user_id", "columns": {"amount": {"low": 0, "high": 1000}}},
        "items": {"link": {"table": "orders", "on": "order_id"}, "columns": {"price": {"low": 0, "high": 100}}},
        "regions": {"public": True, "columns": {"size": {"low": 0, "high": 100}}},
        "published": {"released": True},
        "staff": {"unit": "user_id", "columns": {"grade": {"low": 0, "high": 9}}},
    }
    tables["users"] = {"columns": {"secret": "hidden"}}
    given: dict[str, Any] = {
        "database": ":memory:",
        "unit": {"table": "users", "key": "user_id"},
        "tables": tables,
        "rows": 4,
        "groups": 3,
        "minimum_group": 2,
        "budget": {
            "statement": {"epsilon": 2.0, "delta": 1e-6, "default": 1.0},
            "principal": {"epsilon": 90.0, "delta": 1e-3},
        },
        "principals": {"analyst": {}, "guest": {"tables": ["visits", "regions"]}},
        "answer_time": 0.0,
    }
    return Gateway.model_validate(given | changed)


def people(count: int = 40) -> dict[str, list[Row]]:
    """Rows of persons 1 to count; person 7 is alone in the region R99, and has more rows than the policy counts."""
    users, visits, orders, items, staff = [], [], [], [], []
    for who in range(1, count + 1):
        users.append(
            {"user_id": who, "email": f"u{who}@x", "home": f"R{who % 3}", "born": date(1950 + who, 1, 2), "secret": "s"}
        )
        for turn in range(1 + who % 3):
            visits.append(visit(who, turn))
        orders.append({"order_id": who * 10, "user_id": who, "amount": who * 5})
        items += [{"order_id": who * 10, "sku": f"S{turn}", "price": 1.5 * turn} for turn in range(who % 2 + 1)]
        staff.append({"user_id": who, "grade": who % 9})
    visits += [visit(7, turn) | {"region": "R99", "income": 150_000.0} for turn in range(6)]
    return {
        "users": users, "visits": visits, "orders": orders, "items": items, "staff": staff,
        "regions": REGIONS, "published": PUBLISHED,
    }  # fmt: skip


def visit(who: int, turn: int) -> Row:
    return {
        "user_id": who, "age": 20 + who, "region": f"R{who % 3}", "income": 1000.0 * who + turn, "visits": turn + 1,
        "note": f"n{turn}", "seen": f"2026-01-{turn + 1:02d} 10:00:00", "ok": who % 2 == 0, "price": turn + 0.25,
        "ward": f"W{who % 4}",
    }  # fmt: skip


# ---- mechanisms that add nothing


def exact_laplace(sensitivity: int, epsilon: float) -> Mechanism:
    return Mechanism(lambda values: list(values), Cost(epsilon, 0.0, epsilon**2 / 2), sensitivity / epsilon)


def exact_gaussian(sensitivity: float, rho: float, delta: float) -> Mechanism:
    return Mechanism(lambda values: list(values), Cost(rho, delta, rho), sensitivity, "gaussian")


def exact_keys(groups: int, minimum: int, epsilon: float, delta: float) -> KeySelection:
    def select(persons: Sequence[int]) -> list[int | None]:
        return [int(count) if count >= minimum else None for count in persons]

    return KeySelection(select, Cost(epsilon, delta, epsilon**2 / 2), groups / epsilon, minimum, minimum)


def exact_choice(sensitivity: float, epsilon: float) -> Choice:
    def choose(scores: Sequence[int]) -> int:
        return max(range(len(scores)), key=lambda place: scores[place])

    return Choice(choose, Cost(epsilon, 0.0, epsilon**2 / 2), 2 * sensitivity / epsilon)


EXACT = Mechanisms(exact_laplace, exact_gaussian, exact_keys, exact_choice)


# ---- engines


@dataclass
class Spy:
    """An engine that writes down every statement before it runs it."""

    engine: Engine
    seen: list[str] = field(default_factory=list)

    @property
    def dialect(self) -> str:
        return self.engine.dialect

    def query(self, tree: exp.Expr) -> list[tuple[Any, ...]]:
        self.seen.append(tree.sql(self.dialect))
        return self.engine.query(tree)

    def prepared(self, tree: exp.Expr) -> Callable[[Sequence[int | float]], list[tuple[Any, ...]]]:
        self.seen.append(tree.sql(self.dialect))
        return self.engine.prepared(tree)

    def batches(self, tree: exp.Query, rows: int) -> Generator[Any, None, None]:
        self.seen.append(tree.sql(self.dialect))
        return self.engine.batches(tree, rows)

    def columns(self, rows: exp.Select) -> list[ColumnInfo]:
        return self.engine.columns(rows)

    def interrupt(self) -> None:
        self.engine.interrupt()

    def close(self) -> None:
        self.engine.close()


def fill(engine: Engine, tables: Tables, columns: Mapping[str, Mapping[str, str]] = COLUMNS) -> None:
    """Create the tables anew, with these rows."""
    connection = engine._connection  # type: ignore[attr-defined]
    for name, declared in columns.items():
        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        connection.execute(f'CREATE TABLE "{name}" ({", ".join(f"{key} {kind}" for key, kind in declared.items())})')
        put(engine, name, declared, tables.get(name, ()))


def put(engine: Engine, name: str, declared: Mapping[str, str], rows: Sequence[Row]) -> None:
    if rows:
        mark = "?" if engine.dialect == "duckdb" else "%s"
        cursor = engine._connection.cursor()  # type: ignore[attr-defined]
        values = [[row[column] for column in declared] for row in rows]
        cursor.executemany(f'INSERT INTO "{name}" VALUES ({", ".join(mark for _ in declared)})', values)
        cursor.close()


@dataclass
class World:
    """A gate, and what it did."""

    gate: Gate
    spy: Spy

    @property
    def spent(self) -> float:
        return self.gate.left("analyst").spent.epsilon

    def refusal(self, sql: str, principal: str = "analyst", **options: Any) -> tuple[str, str] | None:
        """How a statement is refused or fails: the class of the error and its whole text; None if it is answered."""
        try:
            self.gate.answer(sql, principal, **options)
        except SqlanonError as error:
            return type(error).__name__, str(error)
        return None

    def rows(self, sql: str, **options: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.gate.answer(sql, **options).rows]

    def raw(self, sql: str) -> list[tuple[Any, ...]]:
        """Plain SQL, past the gateway."""
        found = self.gate.engine.engine._connection.execute(sql).fetchall()  # type: ignore[attr-defined]
        return [tuple(row) for row in found]

    def prepare(self, sql: str, **options: Any) -> PricedStatement:
        return self.gate.prepare(sql, "analyst", **options)

    def exact(self, sql: str, **options: Any) -> list[list[tuple[Any, ...]]]:
        """The rows of each core of a statement, without ledger and post-processing."""
        parts = self.prepare(sql, **options).parts
        return [self.gate.data.noisy(part, self.gate.data.keys(part.core)) for part in parts]

    def close(self) -> None:
        self.gate.close()


def world(
    folder: Path,
    tables: Tables | None = None,
    *,
    given: Gateway | None = None,
    mechanisms: Mechanisms | None = None,
    engine: Engine | None = None,
    columns: Mapping[str, Mapping[str, str]] = COLUMNS,
    name: str = "budget.ledger",
) -> World:
    """A gate over fresh tables: in memory, or on the engine that is given."""
    engine = engine if engine is not None else connect(":memory:", read_only=False)
    fill(engine, people() if tables is None else tables, columns)
    return reopened(folder, engine, given or policy(), mechanisms, name)


def reopened(folder: Path, engine: Engine, given: Gateway, mechanisms: Mechanisms | None, name: str) -> World:
    ledger = Ledger.create(folder / name)
    spy = Spy(engine)
    catalog = Catalog(given, schema_of(engine, given))
    gate = Gate(given, spy, ledger, catalog, mechanisms or Mechanisms())  # type: ignore[arg-type]
    return World(gate, spy)
