"""A gate over visits of persons, for the tests of marginals: on any engine, with any mechanism."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import yaml
from gateway_world import fill

from sqlanon.engines import Engine
from sqlanon.gateway import Gate
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.gateway.price.noise import Mechanisms
from sqlanon.ledger import Ledger
from sqlanon.policy.files import load_marginals
from sqlanon.policy.marginals import Marginals

Row = dict[str, Any]
COLUMNS = {
    "users": {"user_id": "BIGINT"},
    "visits": {
        "user_id": "BIGINT", "age": "INTEGER", "sex": "TEXT", "region": "TEXT", "seen": "DATE", "ok": "BOOLEAN",
        "cost": "DOUBLE PRECISION", "moment": "TIMESTAMP", "note": "TEXT",
    },
}  # fmt: skip
GATEWAY = """
gateway:
  database: warehouse.duckdb
  unit: {table: users, key: user_id}
  tables:
    users: {}
    visits:
      unit: user_id
      columns:
        age: {low: 0, high: 99}
        sex: {keys: [f, m]}
        region: {keys: [R0, R1, R2]}
        seen: {low: 2026-01-01, high: 2026-03-31}
        moment: {low: 2026-01-01, high: 2026-01-10}
        cost: {low: 0, high: 10}
        note: hidden
  rows: 4
  budget: {statement: {epsilon: 1, delta: 1e-6}, principal: {epsilon: 3, delta: 1e-4}}
"""
SECTION = """
marginals:
  table: visits
  of: {by_age_sex: [age, sex], by_region_sex: [region, sex]}
  epsilon: 1
  bins: {age: 10, cost: 2.5, seen: 30}
"""


def section(folder: Path, changes: str = "", **changed: Any) -> Marginals:
    """The section of a policy file that is written to a folder; `changed` are keys of it, None to leave one out."""
    written = yaml.safe_load(SECTION)["marginals"]
    written |= changed
    used = {column for listed in written["of"].values() for column in listed}
    written["bins"] = {column: width for column, width in written["bins"].items() if column in used}
    kept = {("as" if key == "who" else key): value for key, value in written.items() if value not in (None, {})}
    gateway = yaml.safe_load(GATEWAY)["gateway"]
    for line in changes.split(";"):
        if line:
            key, value = line.split("=")
            gateway[key.strip()] = yaml.safe_load(value)
    (folder / "policy.yml").write_text(yaml.safe_dump({"gateway": gateway, "marginals": kept}, sort_keys=False))
    found = load_marginals(folder / "policy.yml")
    assert found is not None
    return found


def visits(count: int, seed: int = 1) -> list[Row]:
    """Rows of some persons, with values outside of what is declared, and NULLs."""
    rng = random.Random(seed)
    return [
        {
            "user_id": rng.choice([None, *range(1, count // 2 + 2)]),
            "age": rng.choice([None, -5, 150, *range(0, 100, 3)]),
            "sex": rng.choice(["f", "m", "m", "x", None]),
            "region": rng.choice(["R0", "R1", "R1", "R9"]),
            "seen": date(2025, 12, 30) + timedelta(days=rng.randrange(100)),
            "ok": rng.choice([True, False, None]),
            "cost": rng.choice([None, -1.0, 0.0, 2.5, 2.4, 9.9, 10.0, 99.0, float("nan")]),
            "moment": f"2026-01-{rng.randrange(1, 20):02d} 13:45:00",
            "note": "n",
        }
        for _ in range(count)
    ]


def gate_over(
    engine: Engine, given: Marginals, folder: Path, rows: Sequence[Row], mechanisms: Mechanisms | None = None
) -> Gate:
    fill(engine, {"visits": rows}, COLUMNS)
    return reopened(engine, given, folder, mechanisms)


def reopened(engine: Engine, given: Marginals, folder: Path, mechanisms: Mechanisms | None = None) -> Gate:
    path = folder / "policy.ledger"
    ledger = Ledger.open(path) if path.exists() else Ledger.create(path)
    catalog = Catalog(given.gateway, schema_of(engine, given.gateway))
    return Gate(given.gateway, engine, ledger, catalog, mechanisms or Mechanisms())


# ---- what the definitions say, in plain Python


def label(column: str, value: Any) -> Any:
    """The value that a row counts as; None if it is not counted."""
    if value is None:
        return None
    if column == "age":
        return min(max(value, 0), 99) // 10 * 10
    if column == "sex":
        return value if value in ("f", "m") else None
    if column == "region":
        return value if value in ("R0", "R1", "R2") else None
    if column == "seen":
        first, last = date(2026, 1, 1), date(2026, 3, 31)
        return first + timedelta(days=(min(max(value, first), last) - first).days // 30 * 30)
    if column == "cost":
        held = 10.0 if value != value else min(max(value, 0.0), 10.0)
        return min(held // 2.5, 3) * 2.5
    assert column == "ok"
    return value


def counted(rows: Sequence[Row], columns: Sequence[str], of: Sequence[str], most: int | None = None) -> Counter[Any]:
    """Rows by the labels of some columns, of those that have one in all `columns`; with a limit, only how many a
    person has matters, and the counts are by nothing."""
    found: Counter[Any] = Counter()
    held: dict[Any, int] = defaultdict(int)
    for row in rows:
        labels = {column: label(column, row[column]) for column in columns}
        if row["user_id"] is None or None in labels.values():
            continue
        held[row["user_id"]] += 1
        found[tuple(labels[column] for column in of)] += 1
    return Counter({(): sum(min(n, most) for n in held.values())}) if most is not None else found


def table(engine: Engine, name: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = engine._connection.execute(f"SELECT * FROM {name}").fetchall()  # type: ignore[attr-defined]
    return found


def as_counter(rows: Sequence[tuple[Any, ...]]) -> Counter[Any]:
    return Counter({tuple(row[:-1]): row[-1] for row in rows if row[-1]})
