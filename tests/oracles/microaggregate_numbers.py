"""Microaggregation of tables of numbers: what a policy makes of them, and MDAV in plain numpy."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from conftest import Database
from transforming import load

import sqlanon
from sqlanon.engines.temp_tables import drop_steps
from sqlanon.evidence.apply_transformations import apply
from sqlanon.evidence.utility import Utility, utility
from sqlanon.policy import Source

Numbers = list[list[float]]


def read_file(path: Path) -> tuple[list[str], Numbers]:
    """The header and the rows of a file of numbers."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = list(csv.reader(file))
    return header, [[float(cell) for cell in line] for line in lines]


def generate_firms(count: int, width: int, seed: int) -> tuple[list[str], Numbers]:
    """Firms that differ in size and trade, so that columns are correlated and skewed. No two distances are equal."""
    draw = random.Random(seed)
    loads = [[draw.gauss(0, 1) for _ in range(width)] for _ in range(3)]
    rows = []
    for _ in range(count):
        factors = [draw.gauss(0, 1) for _ in loads]
        common = [sum(f * own[at] for f, own in zip(factors, loads, strict=True)) for at in range(width)]
        rows.append([1000 * 2.0 ** (value / 2 + draw.gauss(0, 0.3)) for value in common])
    return [f"c{at}" for at in range(width)], rows


def microaggregate(database: Database, header: list[str], numbers: Numbers, use: dict[str, Any]) -> Numbers:
    """The rows that the transformation makes of the table `firms`, in their order; also as the table `masked`."""
    kinds = {"rid": "INTEGER"} | dict.fromkeys(header, "DOUBLE PRECISION")
    rows = [{"rid": place} | dict(zip(header, line, strict=True)) for place, line in enumerate(numbers)]
    load(database, "firms", kinds, rows)
    written = _written(header) | {"transformations": [{"microaggregation": {"columns": header, **use}}]}
    made = apply(sqlanon.parse(json.dumps(written)), database.engine, None)
    database.run("DROP TABLE IF EXISTS masked")
    database.run(f"CREATE TABLE masked AS {made.policy.source.text}")
    drop_steps(database.engine, made.prelude.steps)
    chosen = ", ".join(f'"{name}"' for name in header)
    return [list(row) for row in database.fetch(f"SELECT {chosen} FROM masked ORDER BY rid")]


def measure_masked(database: Database, header: list[str]) -> Utility:
    """What is measured of `masked` beside `firms`."""
    plain = sqlanon.parse(json.dumps(_written(header)))
    return utility(plain, database.engine, Source(table="masked"), key="rid")


def _written(header: list[str]) -> dict[str, Any]:
    roles = {"rid": "insensitive"} | dict.fromkeys(header, "quasi_identifier")
    return {"source": {"table": "firms"}, "columns": roles, "models": [{"k_anonymity": {"k": 2}}]}


def information_loss(numbers: Numbers, found: Numbers) -> float:
    """100 * SSE / SST of standardized columns."""
    lost = 0.0
    for before, after in zip(zip(*numbers, strict=True), zip(*found, strict=True), strict=True):
        mean = sum(before) / len(before)
        spread = sum((value - mean) ** 2 for value in before)
        lost += sum((a - b) ** 2 for a, b in zip(before, after, strict=True)) / spread
    return 100 * lost / len(numbers[0])


def mdav(numbers: Numbers, k: int) -> Numbers:
    """Maximum distance to average vector (Domingo-Ferrer and Torra 2005): the row farthest from the mean of what is
    left takes its nearest k - 1, then the row farthest from that one does; every row becomes the mean of its group."""
    table = np.array(numbers)
    scaled = (table - table.mean(axis=0)) / table.std(axis=0, ddof=1)
    left = np.arange(len(table))
    groups: list[np.ndarray] = []

    def distances(point: np.ndarray) -> np.ndarray:
        return np.asarray(((scaled[left] - point) ** 2).sum(axis=1))

    def take(place: int) -> None:
        nonlocal left
        chosen = np.argsort(distances(scaled[place]), kind="stable")[:k]
        groups.append(left[chosen])
        left = np.delete(left, chosen)

    while len(left) >= 3 * k:
        first = left[np.argmax(distances(scaled[left].mean(axis=0)))]
        second = left[np.argmax(distances(scaled[first]))]
        take(first)
        take(second)
    if len(left) >= 2 * k:
        take(left[np.argmax(distances(scaled[left].mean(axis=0)))])
    groups.append(left)
    found = np.empty_like(table)
    for group in groups:
        found[group] = table[group].mean(axis=0)
    return found.tolist()
