"""A table for the tests of algorithms that part rows, and what they make of it, on any engine."""

from __future__ import annotations

import json
import random
from typing import Any

from conftest import Database
from transforming import KEY, load

import sqlanon
from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.release import Published, publish
from sqlanon.release.retire_release import retire

TYPES = {
    "id": "BIGINT",
    "tag": "INTEGER",
    "age": "INTEGER",
    "sex": "VARCHAR",
    "disease": "VARCHAR",
    "income": "INTEGER",
}
DISEASES = ["flu", "hepatitis", "hiv", "heart", None]


def patients(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Rows that are told apart by `tag`, which is released; and sorted by what is to be hidden."""
    draw = random.Random(seed)
    rows = [
        {
            "age": 20 + draw.randrange(60),
            "sex": draw.choice("fm"),
            "disease": DISEASES[0 if number % 11 == 0 else number % 5],
            "income": draw.randrange(40),
        }
        for number in range(count)
    ]
    rows.sort(key=lambda row: str(row["disease"]))
    return [{"id": 7 * number, "tag": number, **row} for number, row in enumerate(rows)]


def policy(algorithm: Any, models: list[dict[str, Any]], **changes: Any) -> sqlanon.Policy:
    written = {
        "source": {"table": "patients"},
        "columns": {
            "id": "identifier",
            "tag": "insensitive",
            "age": "quasi_identifier",
            "sex": "quasi_identifier",
            "disease": "sensitive",
            "income": "identifier",
        },
        "models": models,
        "algorithm": algorithm,
        "release": {"table": "released"},
        "sensitive_nulls": "value",  # one of the five diseases; what is unknown has tests of its own
    }
    return sqlanon.parse(json.dumps({**written, **changes}))


def anatomy(l: int, **changes: Any) -> sqlanon.Policy:  # noqa: E741
    algorithm = changes.pop("algorithm", {"anatomy": {"l": l}})
    return policy(algorithm, changes.pop("models", [{"distinct_l_diversity": {"l": l}}]), **changes)


def with_patients(database: Database, rows: list[dict[str, Any]]) -> None:
    if rows:
        load(database, "patients", TYPES, rows)
    else:
        database.table("patients", TYPES, [])


def published(database: Database, asked: sqlanon.Policy, secret: str = KEY) -> Published:
    return publish_anew(asked, database.engine, secret=secret)


def publish_anew(asked: sqlanon.Policy, engine: Engine, **given: Any) -> Published:
    """Publish; where the draws are other ones than those of the last release, retire that first."""
    try:
        return publish(asked, engine, **given)
    except PolicyError as error:
        if "of the same rows" not in error.message:
            raise
        retire(asked, engine)
        return publish(asked, engine, **given)


__all__ = ["KEY", "anatomy", "patients", "policy", "publish_anew", "published", "with_patients"]
