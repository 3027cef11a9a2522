"""The canonical relations of attacks that give each unit, a set of records that look alike, its own shares of values.

units(unit, records)                   persons with the same quasi-identifiers, or a class of a release
target_units(group_id, unit)           the units that fit a group of targets
unit_shares(unit, value, share)        how likely a record of a unit has a value
beliefs(group_id, value, share, belief)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.families import plugin
from sqlanon.relations.attacks.attack_relations import as_text, rows_like
from sqlanon.relations.classes import Grouping, Prelude, cells, number_classes
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    bind,
    column,
    count_all,
    double,
    join_clause,
    nest_query,
    select,
    table,
    window,
)

Shares = Sequence[tuple[str, str, str]]  # of a unit or a shape, a value, and how likely it is


def number_units(prelude: Prelude, rows: exp.Select, types: Mapping[str, str], kept: Mapping[str, str]) -> str:
    """unit, c1, c2, …, k1, …: rows with the same quasi-identifiers have one number, in the order of these, whose types
    are those of the source and whose values are c1, c2, … as text; columns that are kept are k1, …"""

    def build() -> exp.Query:
        alike = rows_like(rows.copy(), {**types, **kept}, prelude.dialect)
        return select(
            alias(window(exp.DenseRank(), order=[column(name) for name in types]), "unit"),
            *(alias(as_text(column(name)), f"c{place}") for place, name in enumerate(types, start=1)),
            *(alias(column(name), f"k{place}") for place, name in enumerate(kept, start=1)),
            source=nest_query(alike, "given"),
        )

    return prelude.once("numbered_units", (tuple(types), tuple(kept)), build)


def units(prelude: Prelude, made_units: str, columns: int) -> str:
    """The units with their quasi-identifiers, c1, c2, …"""
    names = [f"c{place}" for place in range(1, columns + 1)]
    tree = select(
        alias(bigint(exp.column("unit")), "unit"),
        alias(bigint(count_all()), "records"),
        *names,
        source=table(made_units),
        groups=["unit", *names],
    )
    return prelude.once("units", (made_units,), lambda: tree)


def count_rows_of_groups(made_units: str) -> exp.Select:
    """unit, k1 and the number of rows, in the order of the units; k1 is the group of a row."""
    return select("unit", "k1", count_all(), source=table(made_units), groups=["unit", "k1"]).order_by("unit", "k1")


def list_persons(made_units: str, columns: int, most: int) -> exp.Select:
    """unit, k1 and c1, c2, … of every row, in the order of k1, which is the key of a person."""
    values = [f"c{place}" for place in range(1, columns + 1)]
    return select("unit", as_text(exp.column("k1")), *values, source=table(made_units)).order_by("k1").limit(most)


def order_values(rows: exp.Select, name: str, type_: str, dialect: str) -> exp.Select:
    """The different values of a column as text, in the order of the database."""
    alike = rows_like(rows.copy(), {name: type_}, dialect)
    different = select(column(name), source=nest_query(alike, "given")).distinct()
    known = column(name).is_(exp.Null()).not_()
    return select(as_text(column(name)), source=nest_query(different, "different"), where=known).order_by(column(name))


def list_rows(rows: exp.Select, names: Sequence[str], most: int) -> exp.Select:
    """Some columns of a table as text."""
    return select(*(as_text(column(name)) for name in names), source=nest_query(rows.copy(), "given")).limit(most)


def count_nulls(rows: exp.Select, name: str) -> exp.Select:
    return select(count_all(), source=nest_query(rows.copy(), "given"), where=column(name).is_(exp.Null()))


def target_units(prelude: Prelude, targets: str, made: str, places: Sequence[tuple[int, int]]) -> str:
    """`places` are those of what is known among the columns of the targets, and among those of the units."""

    def build() -> exp.Query:
        equal = [exp.column(f"c{own}", table="t").eq(exp.column(f"c{other}", table="u")) for own, other in places]
        chosen = [exp.column("group_id", table="t"), exp.column("unit", table="u")]
        return select(
            *chosen, source=table(targets, alias="t"), joins=[join_clause(table(made, alias="u"), exp.and_(*equal))]
        )

    return prelude.once("target_units", (targets, made), build)


def judged_targets(prelude: Prelude, targets: str, fitting: str, made: str, shares: str) -> str:
    """The targets all of whose units have shares, or that fit no unit."""
    own = exp.column("unit", table="s").eq(exp.column("unit", table="f"))
    known = select("unit", source=table(shares)).distinct()
    without = select(
        exp.column("group_id", table="f"),
        source=table(fitting, alias="f"),
        joins=[join_clause(nest_query(known, "s"), own, side="LEFT")],
        where=exp.column("unit", table="s").is_(exp.Null()),
    )
    judged = exp.column("group_id").isin(query=without).not_()
    chosen = select("group_id", "persons", source=table(targets), where=judged)
    return prelude.once("judged_targets", (targets, made), lambda: chosen)


def unit_shares(prelude: Prelude, made: str, given: Shares) -> str:
    loaded = prelude.load("loaded_shares", (made,), ("unit", "value", "share"), tuple(given))
    typed: list[exp.Expr | str] = [
        alias(bigint(exp.column("unit")), "unit"),
        "value",
        alias(double(exp.column("share")), "share"),
    ]
    return prelude.once("unit_shares", (made,), lambda: select(*typed, source=table(loaded)))


def class_nodes(prelude: Prelude, grouping: Grouping, attribute: str) -> str:
    """class_id, value, records, label: as class_values, with the rank of what is shown. That may be no value of the
    source, but a node of its taxonomy."""

    def build() -> exp.Query:
        rows = select(exp.Star(), source=table(cells(prelude, grouping, attribute)))
        shown = nest_query(number_classes(prelude, grouping, rows, ["original", "records"]), "n")
        label = as_text(exp.column("original"))
        rank = window(exp.DenseRank(), order=[label.copy()])
        return select("class_id", alias(rank, "value"), "records", alias(label, "label"), source=shown)

    return prelude.once("class_nodes", (grouping, attribute), build)


def class_shapes(prelude: Prelude, values: str) -> str:
    """class_id, records, shape: classes whose values occur equally often have one shape."""
    statement = plugin("attacks", "class_shapes").sql
    return prelude.once("class_shapes", (values,), lambda: bind(statement, {}, {"class_values": values}))


def class_units(prelude: Prelude, shapes: str, fitting: str, given: Shares) -> tuple[str, str, str]:
    """target_units, units and unit_shares, where classes are the units; shares are given for each shape."""
    unit = alias(exp.column("class_id"), "unit")
    loaded = prelude.load("loaded_shares", (shapes,), ("shape", "value", "share"), tuple(given))
    same = exp.column("shape", table="g").eq(exp.column("shape", table="s"))
    shares = select(
        alias(exp.column("class_id", table="s"), "unit"),
        exp.column("value", table="g"),
        alias(double(exp.column("share", table="g")), "share"),
        source=table(shapes, alias="s"),
        joins=[join_clause(table(loaded, alias="g"), same)],
    )
    found = select("group_id", unit, source=table(fitting))
    made = select(unit.copy(), "records", source=table(shapes))
    return (
        prelude.once("target_units", (shapes, fitting), lambda: found),
        prelude.once("units", (shapes,), lambda: made),
        prelude.once("unit_shares", (shapes,), lambda: shares),
    )


def unit_beliefs(prelude: Prelude, fitting: str, made: str, shares: str) -> str:
    statement, own = (
        plugin("attacks", "unit_beliefs").sql,
        {"target_units": fitting, "units": made, "unit_shares": shares},
    )
    return prelude.once("beliefs", ("units", fitting, shares), lambda: bind(statement, {}, own))
