"""Values that are drawn by who is in a cell: noise by cell keys, and random rounding. The database draws.

The same contributors have the same draw in every table and release under one secret; other settings, other draws.
"""

from __future__ import annotations

import hashlib
import hmac

from sqlglot import exp

from sqlanon.relations import statistics_tables
from sqlanon.sqltree.tree import select, table
from sqlanon.statistics.cell_tables import CellTables, TableCells, Workspace
from sqlanon.statistics.perturbation_table import KEYS, PerturbationTable

RECORDS = "record keys"


def key_check(secret: str | None) -> str:
    """A keyed hash that tells whether two releases were made with the same secret, and nothing else."""
    return hmac.new((secret or "").encode(), b"which key", hashlib.sha256).hexdigest()[:16]


def noisy_cells(tables: CellTables, noise: PerturbationTable, secret: str) -> dict[str, str]:
    """By table: the relation (cell, value) of counts with noise."""
    label = f"cell_key {noise.digest}"
    seeds = _load_seeds(tables.workspace, secret, [label])
    records = _record_keys(tables, seeds, label)
    return {
        item.name: look_up(tables.workspace, item.cells, cell_keys(tables, item, records), noise)
        for item in tables.tables
    }


def look_up(workspace: Workspace, cells: str, keys: str, noise: PerturbationTable, modulus: int = KEYS) -> str:
    """Counts with the noise of their cell keys, which are below a number."""
    columns = {"size": "bigint", "change": "bigint", "low_key": "bigint", "high_key": "bigint"}
    loaded = workspace.load("noise", columns, noise.intervals(modulus))
    relations = {"cells": cells, "cell_keys": keys, "noise": loaded}
    return workspace.bound("noisy", "add_noise", relations, largest=noise.last)


def rounded_cells(tables: CellTables, base: int, secret: str) -> dict[str, str]:
    """By table: the relation (cell, value) of whole numbers that are rounded by chance."""
    own = {item.name: f"random_rounding {base} {item.statistic.of or ''}" for item in tables.tables}
    seeds = _load_seeds(tables.workspace, secret, [RECORDS, *dict.fromkeys(own.values())])
    records = _record_keys(tables, seeds, RECORDS)
    found = {}
    for item in tables.tables:
        keys = cell_keys(tables, item, records)
        tree = statistics_tables.key_draws(keys, tables.engine.dialect, seeds, own[item.name])
        relations = {"cells": item.cells, "draws": tables.workspace.make("draws", tree)}
        found[item.name] = tables.workspace.bound("rounded", "round_by_draws", relations, base=base)
    return found


def _load_seeds(workspace: Workspace, secret: str, labels: list[str]) -> str:
    """Seeds by label, each a keyed hash of it; they are loaded, so that no statement shows them."""
    rows = [
        (label, hmac.new(secret.encode(), label.encode(), hashlib.sha256).hexdigest()[:32] + ":") for label in labels
    ]
    return workspace.load("seeds", {"label": "text", "seed": "text"}, rows)


def _record_keys(tables: CellTables, seeds: str, label: str) -> str:
    parts = [item.contributions for item in tables.tables]
    kind = _contributor_type(tables, parts[0])
    tree = statistics_tables.record_keys(parts, kind, tables.engine.dialect, seeds, label)
    return tables.workspace.make("record_keys", tree)


def _contributor_type(tables: CellTables, contributions: str) -> exp.DataType:
    rows = tables.workspace.filled(select("contributor", source=table(contributions)))
    known = {item.name: item.type for item in tables.engine.columns(rows)}
    return exp.DataType.build(known["contributor"], dialect=tables.engine.dialect)


def cell_keys(tables: CellTables, item: TableCells, records: str, modulus: int = KEYS) -> str:
    """The relation (cell, cell_key) of all cells of a table that somebody is in; `records` has the keys of people."""
    workspace, nodes = tables.workspace, [(place, tables.dimension(place)) for place in item.places]
    digits = [{"dimension": place, "below": own.below, "above": own.above} for place, own in nodes]
    relations = {"contributions": item.settled, "record_keys": records}
    keys = workspace.bound("keys", "sum_keys", relations, keys=modulus)
    for own in digits:
        keys = workspace.bound("keys", "roll_up_keys", {"cell_keys": keys, "up": tables.up}, keys=modulus, **own)
    if item.spread is None:
        return keys
    # Those who are in several cells of the finest level count once in each total.
    rolled = item.spread
    for own in digits:
        rolled = workspace.bound("spread", "roll_up_contributions", {"contributions": rolled, "up": tables.up}, **own)
    others = workspace.bound("keys", "sum_keys", {"contributions": rolled, "record_keys": records}, keys=modulus)
    return workspace.bound("keys", "add_keys", {"cell_keys": keys, "other_cell_keys": others}, keys=modulus)
