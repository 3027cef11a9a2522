"""A table for the tests of transformations, and what a policy makes of it, on any engine."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pyarrow
from conftest import Database

import sqlanon
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.evidence.apply_transformations import apply

KEY = "a secret that is longer than sixteen characters"
OTHER_KEY = "another secret, just as long as the first one"
TYPES = {
    "id": "BIGINT",
    "age": "INTEGER",
    "income": "BIGINT",
    "rent": "DOUBLE PRECISION",
    "tax": "DECIMAL(12,2)",
    "born": "DATE",
    "job": "VARCHAR",
    "smoker": "BOOLEAN",
    "town": "VARCHAR",
}
JOBS = ["nurse", "driver", "clerk", "cook", "smith"]


def people(count: int, seed: int = 1, nulls: bool = True) -> list[dict[str, Any]]:
    """Rows with correlated numbers, ties, NULLs, and doubles that engines print differently."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        wealth = draw.gauss(0, 1)
        rows.append(
            {
                "id": number,
                "age": 20 + int(draw.random() * 60),
                "income": int(math.exp(10 + 0.5 * wealth)),
                "rent": 500 + 100 * wealth + 50 * draw.gauss(0, 1),
                "tax": round(1000 + 300 * wealth + 10 * draw.gauss(0, 1), 2),
                "born": f"19{int(40 + draw.random() * 59):02}-0{1 + int(draw.random() * 9)}-1{int(draw.random() * 9)}",
                "job": JOBS[min(int(draw.random() * draw.random() * 8), 4)],
                "smoker": draw.random() < 0.3,
                "town": "ABC"[int(draw.random() * 3)],
            }
        )
    if nulls:
        for number in range(0, count, 17):
            rows[number]["income"] = rows[number]["job"] = rows[number]["smoker"] = rows[number]["born"] = None
    return rows


def policy(transformations: list[dict[str, Any]], **changes: Any) -> sqlanon.Policy:
    roles = dict.fromkeys(TYPES, "insensitive") | {"id": "identifier", "age": "quasi_identifier"}
    written = {
        "source": {"table": "people"},
        "columns": roles,
        "models": [{"k_anonymity": {"k": 2}}],
        "suppression_limit": 0.5,
        "transformations": transformations,
        "release": {"table": "released"},
    }
    return sqlanon.parse(json.dumps({**written, **changes}))


def changed(
    database: Database, transformations: list[dict[str, Any]], *, secret: str | None = KEY, **changes: Any
) -> list[dict[str, Any]]:
    """The rows after the transformations, in the order of `id`, or of all columns where there is none."""
    made = apply(policy(transformations, **changes), database.engine, secret)
    try:
        names = list(made.outline.types)
        found = database.fetch(made.policy.source.text)
    finally:
        drop_steps(database.engine, made.prelude.steps)
    rows = [dict(zip(names, row, strict=True)) for row in found]
    known = all(row.get("id") is not None for row in rows)
    return sorted(rows, key=lambda row: row["id"] if known else str(sorted(row.items(), key=str)))


def with_people(database: Database, rows: list[dict[str, Any]], *, without: tuple[str, ...] = ()) -> None:
    load(database, "people", {name: kind for name, kind in TYPES.items() if name not in without}, rows)


def load(database: Database, table: str, kept: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """A fresh table. Thousands of rows at once: one by one takes longer than a test."""
    if database.engine.dialect != "duckdb":
        database.table(table, kept, rows)
        return
    database.table(table, kept, [])
    connection = database.engine._connection  # type: ignore[attr-defined]
    connection.register("given", pyarrow.Table.from_pylist([{name: row[name] for name in kept} for row in rows]))
    chosen = ", ".join(f'"{name}"' for name in kept)
    connection.execute(f"INSERT INTO {table} SELECT {chosen} FROM given")
    connection.unregister("given")
