"""The canonical relations of attacks on releases that part rows.

target_parts(group_id, part, value)              what is known of targets, written as one text for each part
part_cells(part, bucket, value, n)               how many rows of a bucket have these values in a part
part_sizes(bucket, n)
part_secrets(bucket, value, secret, n)           in the part of the sensitive column, with its values
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.relations.attacks.attack_relations import as_text
from sqlanon.relations.bucketization import GROUP, RECORDS
from sqlanon.relations.classes import Prelude
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    column,
    count_all,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    text,
    union_all,
)

Parts = Sequence[Sequence[str]]


def target_parts(prelude: Prelude, targets: str, parts: Parts, places: Mapping[str, int]) -> str:
    """`parts` are the columns that are known in each part; `places` are those of the targets."""

    def build() -> exp.Query:
        return union_all(
            [
                select(
                    "group_id",
                    alias(bigint(literal(number)), "part"),
                    alias(_written([exp.column(f"c{places[name]}") for name in names]), "value"),
                    source=table(targets),
                )
                for number, names in enumerate(parts)
            ]
        )

    return prelude.once("target_parts", (targets, _key(parts)), build)


def part_cells(prelude: Prelude, main: exp.Select, parts: Parts) -> str:
    def build() -> exp.Query:
        found: list[exp.Query] = []
        for number, names in enumerate(parts):
            value = _written([as_text(column(name)) for name in names])
            grouped: list[exp.Expr | str] = [column(GROUP), *([value.copy()] if names else [])]
            found.append(
                select(
                    alias(bigint(literal(number)), "part"),
                    alias(column(GROUP), "bucket"),
                    alias(value, "value"),
                    alias(bigint(count_all()), "n"),
                    source=nest_query(main.copy(), "m"),
                    groups=grouped,
                )
            )
        return union_all(found)

    return prelude.once("part_cells", (_key(parts),), build)


def part_sizes(prelude: Prelude, main: exp.Select) -> str:
    counted = [alias(column(GROUP), "bucket"), alias(bigint(count_all()), "n")]
    tree = select(*counted, source=nest_query(main.copy(), "m"), groups=[column(GROUP)])
    return prelude.once("part_sizes", (), lambda: tree)


def part_secrets(prelude: Prelude, rows: exp.Select, names: Sequence[str], sensitive: str, *, counted: bool) -> str:
    """`rows` hold the sensitive column; where they are `counted`, the column RECORDS says how many they stand for."""

    def build() -> exp.Query:
        value, secret = _written([as_text(column(name)) for name in names]), as_text(column(sensitive))
        grouped: list[exp.Expr | str] = [column(GROUP), *([value.copy()] if names else []), secret.copy()]
        return select(
            alias(column(GROUP), "bucket"),
            alias(value, "value"),
            alias(secret, "secret"),
            alias(bigint(sum_bigint(exp.column(RECORDS)) if counted else count_all()), "n"),
            source=nest_query(rows.copy(), "s"),
            groups=grouped,
        )

    return prelude.once("part_secrets", (sensitive, tuple(names)), build)


def _key(parts: Parts) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(names) for names in parts)


def _written(values: Sequence[exp.Expr]) -> exp.Expr:
    """Several texts as one, each after its length, so that no two lists are written alike."""
    line: exp.Expr = text(literal(""))
    for value in values:
        length = text(exp.Length(this=value.copy()))
        for piece in (length, literal(":"), value):
            line = exp.DPipe(this=line, expression=piece)
    return line
