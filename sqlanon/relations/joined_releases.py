"""The join of two releases of one table on the columns that both show, as an attacker would make it.

    rows(row_id, records, c1, c2, …)                       rows of a release that are alike on the columns that matter
    along(one, other)                                      labels of a column, theirs and ours, on one path to the root
    pairs(version, class_id, our_id, their_id, ours, theirs, s1, s2, …)   rows that match; s1, … are sensitive values

Values are compared as text, and NULL is a value of its own: a release shows labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.relations.classes import NULL_NODE
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    case,
    column,
    count_all,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    sum_bigint,
    table,
    text,
    window,
)

TEXT = exp.DataType.build("text")


@dataclass(frozen=True)
class ShownTable:
    """What a release shows of the columns that matter, as a table of `rows`; `columns` are c1, c2, … in order."""

    name: str
    columns: tuple[str, ...]

    def at(self, column_name: str, prefix: str) -> exp.Column:
        return exp.column(f"c{self.columns.index(column_name) + 1}", table=prefix)


def rows(release: exp.Select, columns: Sequence[str], records: str | None = None) -> exp.Select:
    """Rows alike on these columns, counted; or added up, where the column `records` holds numbers of rows."""
    values = [exp.Coalesce(this=text(column(name)), expressions=[literal(NULL_NODE)]) for name in columns]
    counted = count_all() if records is None else sum_bigint(column(records))
    shorts = [f"c{place}" for place in range(1, len(columns) + 1)]
    grouped = select(
        *(alias(value, short) for value, short in zip(values, shorts, strict=True)),
        alias(bigint(counted), "records"),
        source=nest_query(release.copy(), "release"),
        groups=[value.copy() for value in values],
    )
    number = window(exp.RowNumber(), order=[exp.column(short) for short in shorts])
    return select(alias(number, "row_id"), "records", *shorts, source=nest_query(grouped, "grouped"))


def along(taxonomy: str, root: str, theirs: ShownTable, ours: ShownTable, name: str) -> exp.Query:
    """The labels that occur and lie on one path: some leaf is below both. `taxonomy` holds (leaf, level, node)."""
    sides = []
    for shown, prefix in ((theirs, "a"), (ours, "b")):
        occurring = select(shown.at(name, "r"), source=table(shown.name, alias="r"))
        own = exp.column("node", table="t").isin(query=occurring)
        known = select("leaf", "node", source=table(taxonomy, alias="t"), where=own).distinct()
        sides.append(nest_query(known, prefix))
    leaf = exp.column("leaf", table="a").eq(exp.column("leaf", table="b"))
    chosen = [alias(exp.column("node", table="a"), "one"), alias(exp.column("node", table="b"), "other")]
    pairs = select(*chosen, source=sides[0], joins=[join_clause(sides[1], leaf)]).distinct()
    unknown = [(NULL_NODE, NULL_NODE), (NULL_NODE, root), (root, NULL_NODE), (root, root)]
    return exp.union(pairs, rows_relation(unknown, ("one", "other"), (TEXT, TEXT)), distinct=True)


def pairs(
    version: int,
    ours: ShownTable,
    theirs: ShownTable,
    common: Mapping[str, str | None],
    x: tuple[Sequence[str], Sequence[str]],
    sensitive: Sequence[str],
) -> exp.Select:
    """The rows of two releases that match. `common` maps the columns of both to their tables of labels `along` one
    path, or to None where only equal values match. `x` are the columns of ours and of theirs that make a class. A
    sensitive value is ours, where we show it."""
    joins = []
    equal: list[exp.Expr] = []
    for place, (name, matching) in enumerate(common.items(), start=1):
        if matching is None:
            equal.append(theirs.at(name, "t").eq(ours.at(name, "o")))
            continue
        prefix = f"m{place}"
        mine = exp.column("other", table=prefix).eq(ours.at(name, "o"))
        joins.append(join_clause(table(matching, alias=prefix), mine))
        equal.append(exp.column("one", table=prefix).eq(theirs.at(name, "t")))
    joins.append(join_clause(table(theirs.name, alias="t"), exp.and_(*equal)))
    known = [*(ours.at(name, "o") for name in x[0]), *(theirs.at(name, "t") for name in x[1])]
    values = [(ours.at(name, "o") if name in ours.columns else theirs.at(name, "t")) for name in sensitive]
    return select(
        alias(bigint(literal(version)), "version"),
        alias(bigint(window(exp.DenseRank(), order=known) if known else literal(1)), "class_id"),
        alias(exp.column("row_id", table="o"), "our_id"),
        alias(exp.column("row_id", table="t"), "their_id"),
        alias(exp.column("records", table="o"), "ours"),
        alias(exp.column("records", table="t"), "theirs"),
        *(alias(value, f"s{place}") for place, value in enumerate(values, start=1)),
        source=table(ours.name, alias="o"),
        joins=joins,
    )


def values_of(pairs_table: str, place: int, ranks: str | None = None, *, null_is_value: bool = True) -> exp.Select:
    """(class_id, value, records, known) of one sensitive column; the value itself, or its rank in the table of
    `totals`. What is not known is NULL, unless `null_is_value`."""
    own = exp.column(f"s{place}", table="p")
    weight = sum_bigint(exp.Mul(this=exp.column("ours", table="p"), expression=exp.column("theirs", table="p")))
    if ranks is None:
        source, joins, value = table(pairs_table, alias="p"), [], own
    else:
        source = table(pairs_table, alias="p")
        joins = [join_clause(table(ranks, alias="k"), exp.column("label", table="k").eq(own))]
        value = exp.column("value", table="k")
    group = [exp.column("class_id", table="p"), value]
    known: exp.Expr = literal(1)
    if not null_is_value:
        known = exp.Min(this=case((own.copy().eq(literal(NULL_NODE)), literal(0)), default=literal(1)))
    return select(
        exp.column("class_id", table="p"), alias(value.copy(), "value"), alias(weight, "records"),
        alias(known, "known"), source=source, joins=joins, groups=group,
    )  # fmt: skip


def totals_of(pairs_table: str, place: int) -> exp.Select:
    """(value, label, number, records) of one sensitive column of the join."""
    own = exp.column(f"s{place}")
    weight = sum_bigint(exp.Mul(this=exp.column("ours"), expression=exp.column("theirs")))
    counted = select(alias(own, "label"), alias(weight, "records"), source=table(pairs_table), groups=[own.copy()])
    return select(
        alias(window(exp.RowNumber(), order=[exp.column("label")]), "value"),
        "label",
        alias(exp.cast(exp.Null(), "double"), "number"),
        "records",
        source=nest_query(counted, "counted"),
    )
