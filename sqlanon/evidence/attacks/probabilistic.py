"""Probabilistic record linkage through Splink: an optional extra, which learns in a DuckDB of its own.

Only combinations of values go there, one row for each kind of target and one for each class; never rows of persons.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from sqlglot import exp

from sqlanon.compiler import attacks as relations
from sqlanon.compiler import guessing
from sqlanon.compiler.tree import BIGINT, DOUBLE, alias, bind, rows_relation, select, table
from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks.side import Side, Targets, fits_of
from sqlanon.families import Plugin

BATCH = 100_000
MATCHES = ("group_id", "class_id", "probability")
MOST_PAIRS = 1e6  # that are drawn to learn how often values agree by chance


def installed() -> bool:
    return find_spec("splink") is not None and find_spec("pyarrow") is not None


def linked(item: Plugin, certainty: float, targets: Targets, side: Side) -> tuple[Any, ...]:
    """What the attack achieves: targets, broken, highest, average."""
    import duckdb

    known = side.known(targets)
    shown = relations.spelt(side.prelude, side.grouping, known)
    side.work.run()
    targets.work.run()
    fits = fits_of(targets, side) if side.released else None
    if fits and any(side.work.engine.query(guessing.ambiguous(name)) for name in fits):
        raise PolicyError("several labels of a column stand for one value: columns cannot be compared one by one")
    places = [targets.known.index(name) + 1 for name in known]
    wanted = guessing.labelled_targets(side.prelude, targets.table, places, fits)
    side.work.run()
    connection = duckdb.connect(":memory:")
    try:
        groups = _copy(side.work.engine, connection, wanted, "targets")
        classes = _copy(side.work.engine, connection, shown, "classes")
        if groups and classes:
            _match(connection, len(known), classes)
        else:
            _create(connection, "matches", rows_relation([], MATCHES, [BIGINT, BIGINT, DOUBLE]))
        tree = relations.confidence(bind(item.sql, {"certainty": certainty}, {}))
        return tuple(connection.execute(tree.sql("duckdb")).fetchall()[0])
    finally:
        connection.close()


def _copy(engine: Engine, connection: Any, name: str, to: str) -> int:
    import pyarrow as pa

    batches = list(engine.batches(select(exp.Star(), source=table(name)), BATCH))
    if not batches:
        return 0
    copied = pa.Table.from_batches(batches)
    connection.register("copied", copied)
    _create(connection, to, select(exp.Star(), source=table("copied")))
    connection.unregister("copied")
    return int(copied.num_rows)


def _match(connection: Any, columns: int, classes: int) -> None:
    """Train, and write the table matches(group_id, class_id, probability)."""
    import splink.comparison_library as compare
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

    logging.getLogger("splink").setLevel(logging.ERROR)
    names = [f"c{place}" for place in range(1, columns + 1)]
    for to, own, name in (("wanted", "group_id", "targets"), ("shown", "class_id", "classes")):
        _create(connection, to, select(alias(exp.column(own), "unique_id"), *names, source=table(name)))
    api = DuckDBAPI(connection)
    settings = SettingsCreator(
        link_type="link_only",
        comparisons=[compare.ExactMatch(name) for name in names],
        blocking_rules_to_generate_predictions=[block_on(name) for name in names],
        probability_two_random_records_match=1 / max(classes, 2),
    )
    # Splink puts pairs in the order of these names.
    sides = [api.register(name, dataset_display_name=shown) for name, shown in (("wanted", "a"), ("shown", "b"))]
    linker = Linker(sides, settings, log_level=logging.ERROR)
    training = linker.training
    training.estimate_u_using_random_sampling(max_pairs=MOST_PAIRS, seed=1)
    for name in names if len(names) > 1 else ():
        # Where nothing agrees on a column there is nothing to learn from it; its weights stay what they are by default.
        with suppress(Exception):
            training.estimate_parameters_using_expectation_maximisation(block_on(name), record_sample_proportion=1.0)
    predicted = linker.inference.predict(threshold_match_probability=None, warning_mode="never")
    found = ("unique_id_l", "unique_id_r", "match_probability")
    chosen = [alias(exp.column(given), name) for given, name in zip(found, MATCHES, strict=True)]
    _create(connection, "matches", select(*chosen, source=table(predicted.physical_name)))


def _create(connection: Any, name: str, query: exp.Query) -> None:
    connection.execute(exp.Create(this=table(name), kind="TABLE", expression=query).sql("duckdb"))
