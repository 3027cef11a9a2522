"""Probabilistic record linkage through Splink: an optional extra, which learns in a DuckDB of its own.

Only combinations of values go there, one row for each kind of target and one for each class; never rows of persons.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.evidence.attacks.attacked_table import NotJudged, Side, Targets, fits_of
from sqlanon.evidence.attacks.learning_attacks import chosen_targets
from sqlanon.families import Plugin
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.attacks import learning_relations
from sqlanon.sqltree.tree import BIGINT, DOUBLE, alias, bind, rows_relation, select, table

MATCHES = ("group_id", "class_id", "probability")
AGREE = 0.99  # how likely a column of a person agrees with their own record
MOST_SCORED = 2_000_000  # pairs of a kind of target and a class
MOST_PAIRS = 1e6  # that are drawn to learn how often values agree by chance


def has_splink() -> bool:
    return find_spec("splink") is not None and find_spec("pyarrow") is not None


def link_records(item: Plugin, certainty: float, targets: Targets, side: Side, notes: list[str]) -> tuple[Any, ...]:
    """What the attack achieves: targets, broken, highest, average. Of many targets a sample is looked for."""
    import duckdb

    known = side.known(targets)
    shown = relations.spell_classes(side.prelude, side.grouping, known)
    listed = chosen_targets(targets, side, notes, item.name, MOST_SCORED)
    fits = fits_of(targets, side) if side.released else None
    if fits and any(side.work.engine.query(learning_relations.ambiguous(name)) for name in fits):
        raise NotJudged("several labels of a column stand for one value: columns cannot be compared one by one")
    places = [targets.known.index(name) + 1 for name in known]
    wanted = learning_relations.labelled_targets(side.prelude, listed, places, fits)
    side.work.run()
    connection = duckdb.connect(":memory:")
    try:
        groups = _copy(side.work.engine, connection, wanted, "targets", ("group_id", "persons"), len(known))
        classes = _copy(side.work.engine, connection, shown, "classes", ("class_id", "records"), len(known))
        if groups and classes:
            _match(connection, len(known), classes)
        else:
            _create(connection, "matches", rows_relation([], MATCHES, [BIGINT, BIGINT, DOUBLE]))
        tree = relations.confidence(bind(item.sql, {"certainty": certainty}, {}))
        return tuple(connection.execute(tree.sql("duckdb")).fetchall()[0])
    finally:
        connection.close()


def _copy(engine: Engine, connection: Any, name: str, to: str, numbers: tuple[str, ...], columns: int) -> int:
    """Copy a temporary table, which no other connection of the engine sees; the number of its rows."""
    import pyarrow as pa

    labels = [f"c{place}" for place in range(1, columns + 1)]
    rows = engine.query(select(*numbers, *labels, source=table(name)))
    fields = [*((each, pa.int64()) for each in numbers), *((each, pa.string()) for each in labels)]
    arrays = [pa.array([row[place] for row in rows], type=kind) for place, (_, kind) in enumerate(fields)]
    connection.register("copied", pa.Table.from_arrays(arrays, names=[each for each, _ in fields]))
    _create(connection, to, select(exp.Star(), source=table("copied")))
    connection.unregister("copied")
    return len(rows)


def _match(connection: Any, columns: int, classes: int) -> None:
    """Train, and write the table matches(group_id, class_id, probability)."""
    import splink.comparison_library as compare
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

    logging.getLogger("splink").setLevel(logging.ERROR)
    names = [f"c{place}" for place in range(1, columns + 1)]
    for to, own, name in (("wanted", "group_id", "targets"), ("shown", "class_id", "classes")):
        _create(connection, to, select(alias(exp.column(own), "unique_id"), *names, source=table(name)))
    api = DuckDBAPI(connection)
    # A label covers the value of its own record: that true pairs agree need not be learned, and cannot be where all
    # combinations of values occur.
    settings = SettingsCreator(
        link_type="link_only",
        comparisons=[compare.ExactMatch(name).configure(m_probabilities=[AGREE, 1 - AGREE]) for name in names],
        blocking_rules_to_generate_predictions=[block_on(name) for name in names],
        probability_two_random_records_match=1 / max(classes, 2),
    )
    # Splink puts pairs in the order of these names.
    sides = [api.register(name, dataset_display_name=shown) for name, shown in (("wanted", "a"), ("shown", "b"))]
    linker = Linker(sides, settings, log_level=logging.ERROR)
    linker.training.estimate_u_using_random_sampling(max_pairs=MOST_PAIRS, seed=1)
    predicted = linker.inference.predict(threshold_match_probability=None, warning_mode="never")
    found = ("unique_id_l", "unique_id_r", "match_probability")
    chosen = [alias(exp.column(given), name) for given, name in zip(found, MATCHES, strict=True)]
    _create(connection, "matches", select(*chosen, source=table(predicted.physical_name)))


def _create(connection: Any, name: str, query: exp.Query) -> None:
    connection.execute(exp.Create(this=table(name), kind="TABLE", expression=query).sql("duckdb"))
