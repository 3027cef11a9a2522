"""What a sliced table tells of the records of its source: the relations of sql/parting/slicing_posterior.sql."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.families import plugin
from sqlanon.relations.bucketization import GROUP
from sqlanon.relations.classes import Step
from sqlanon.relations.transformation_tables import written_key
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    bind,
    column,
    count_all,
    literal,
    nest_query,
    select,
    table,
    text,
    union_all,
)
from sqlanon.sqltree.tree import window as windowed

PREFIX = "sqlanon_sliced"


def posterior(
    sliced: exp.Select,
    source: exp.Select,
    parts: Sequence[Sequence[str]],
    sensitive: str,
    types: Mapping[str, exp.DataType],
) -> tuple[list[Step], exp.Select]:
    """The temporary tables, and the query for the largest posterior. `sliced` has the column GROUP."""
    bare = [[name for name in names if name != sensitive] for names in parts]
    secret = next(place for place, names in enumerate(parts) if sensitive in names)
    keys = [_key(names, types) for names in bare]
    found = [alias(key.copy(), f"v{place}") for place, key in enumerate(keys)]
    distinct = select(*found, source=nest_query(source.copy(), "source")).distinct()
    order = [exp.column(f"v{place}") for place in range(len(parts))]
    numbered = select(
        alias(windowed(exp.RowNumber(), order=order), "tuple_id"),
        *(item.copy() for item in order),
        source=nest_query(distinct, "d"),
    )
    records = Step(f"{PREFIX}_records", numbered)
    tuples = union_all(
        [
            select("tuple_id", _number(place), alias(exp.column(f"v{place}"), "value"), source=table(records.name))
            for place in range(len(parts))
        ]
    )
    cells = union_all(
        [
            select(
                _number(place),
                alias(column(GROUP), "bucket"),
                alias(key.copy(), "value"),
                alias(count_all(), "n"),
                source=nest_query(sliced.copy(), "sliced"),
                groups=[column(GROUP), key.copy()],
            )
            for place, key in enumerate(keys)
        ]
    )
    own = written_key([sensitive], types)
    secrets = select(
        alias(column(GROUP), "bucket"),
        alias(keys[secret].copy(), "value"),
        alias(own, "secret"),
        alias(count_all(), "n"),
        source=nest_query(sliced.copy(), "sliced"),
        groups=[column(GROUP), keys[secret].copy(), own.copy()],
    )
    sizes = select(
        alias(column(GROUP), "bucket"),
        alias(count_all(), "n"),
        source=nest_query(sliced.copy(), "sliced"),
        groups=[column(GROUP)],
    )
    made = {"tuples": tuples, "cells": cells, "secrets": secrets, "sizes": sizes}
    steps = [records, *(Step(f"{PREFIX}_{name}", tree) for name, tree in made.items())]
    params = {"parts": len(parts), "secret_part": secret}
    relations = {name: f"{PREFIX}_{name}" for name in made}
    return steps, bind(plugin("parting", "slicing_posterior").sql, params, relations)


def worst_share(sliced: exp.Select, sensitive: str) -> exp.Select:
    """The largest share of one sensitive value in a bucket, which no posterior exceeds where the sensitive column is a
    part of its own."""
    counted = select(
        column(GROUP),
        column(sensitive),
        alias(count_all(), "n"),
        source=nest_query(sliced.copy(), "sliced"),
        groups=[column(GROUP), column(sensitive)],
    )
    most, every = exp.Max(this=exp.column("n")), exp.Sum(this=exp.column("n"))
    shares = select(
        alias(exp.Div(this=exp.cast(most, "double"), expression=every), "share"),
        source=nest_query(counted, "c"),
        groups=[column(GROUP)],
    )
    return select(exp.Max(this=exp.column("share")), source=nest_query(shares, "s"))


def _key(names: Sequence[str], types: Mapping[str, exp.DataType]) -> exp.Expr:
    return written_key(names, types) if names else text(literal(""))


def _number(place: int) -> exp.Expr:
    return alias(bigint(literal(place)), "part")
