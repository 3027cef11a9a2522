"""Persons as sets of items: the canonical relations, and the sets of items that occur, level by level.

    items(person, item)                 who has which item, once; both are numbers
    item_names(item, c1, c2, …)         what an item is: the text of one column, or of several together
    person_numbers(person, key)         who a person is, for whoever has to tell the source's own rows apart
    owners(person, value)               the private items, sensitive items or sensitive values of persons
    itemsets(class_id, size, records, x1, x2, …)   sets of so many items that occur, and how many persons have them all
    itemset_values(class_id, value, records)       how many of these have a private item or a sensitive value as well

A level holds the sets of one size all of whose parts hold: what breaks a model there is minimal, and what is larger
than a broken set is never counted (Apriori).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.families import plugin
from sqlanon.relations.classes import Prelude
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    bind,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    select,
    table,
    text,
    union_all,
    window,
)

# What a release calls its persons: a fresh random number in place of who they are.
PERSON_NUMBER = "person_number"


@dataclass(frozen=True)
class ItemColumns:
    """Which columns of the rows say who has what. Several columns together are one item, in their order."""

    person: str
    items: tuple[str, ...]
    sensitive: str | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        return (self.person, *self.items, *((self.sensitive,) if self.sensitive is not None else ()))

    @property
    def names(self) -> tuple[str, ...]:
        """c1, c2, …: the columns of an item in sqlanon's own tables."""
        return tuple(f"c{place}" for place in range(1, len(self.items) + 1))


@dataclass(frozen=True)
class ItemTables:
    """The names of the tables that hold the relations."""

    rows: str  # person, c1, …, value: what was read, once
    persons: str
    names: str
    items: str
    values: str | None = None  # value, label
    owners: str | None = None  # of the sensitive column


def read_items(prelude: Prelude, columns: ItemColumns) -> ItemTables:
    """Read the rows once, and number persons and items. Items are numbered in the order of their columns."""
    names = columns.names

    def read() -> exp.Query:
        chosen = [alias(column(columns.person), "key")]
        chosen += [alias(text(column(own)), name) for own, name in zip(columns.items, names, strict=True)]
        if columns.sensitive is not None:
            chosen.append(alias(column(columns.sensitive), "value"))
        return select(*chosen, source=nest_query(prelude.rows.copy(), "source"))

    def number(key: str, order: Sequence[str], found: Sequence[str]) -> exp.Query:
        distinct = select(*found, source=table(rows)).distinct()
        numbered = window(exp.RowNumber(), order=[exp.column(name) for name in order])
        return select(alias(numbered, key), *found, source=nest_query(distinct, "found"))

    rows = prelude.once("item_rows", (columns,), read)
    persons = prelude.once("person_numbers", (columns,), lambda: number("person", (), ("key",)))
    items = prelude.once("item_names", (columns,), lambda: number("item", names, names))

    def code(found: str, number_of: str, on: Sequence[str], result: str) -> exp.Query:
        same_person = exp.column("key", table="p").eq(exp.column("key", table="r"))
        same = exp.and_(*(exp.column(name, table="n").eq(exp.column(name, table="r")) for name in on), copy=False)
        return select(
            exp.column("person", table="p"),
            alias(exp.column(number_of, table="n"), result),
            source=table(rows, alias="r"),
            joins=[join_clause(table(persons, alias="p"), same_person), join_clause(table(found, alias="n"), same)],
        ).distinct()

    coded = prelude.once("items", (columns,), lambda: code(items, "item", names, "item"))
    if columns.sensitive is None:
        return ItemTables(rows, persons, items, coded)
    values = prelude.once("sensitive_values", (columns,), lambda: number("value_id", ("value",), ("value",)))
    owners = prelude.once("owners", (columns,), lambda: code(values, "value_id", ("value",), "value"))
    return ItemTables(rows, persons, items, coded, values, owners)


def first_level(items: str) -> exp.Query:
    """The sets of one item; an item has the number of its set."""
    counted = bind(plugin("itemsets", "item_counts").sql, {}, {"items": items})
    chosen: list[exp.Expr | str] = [alias(exp.column("item"), "class_id"), alias(bigint(literal(1)), "size"), "records"]
    return select(*chosen, alias(exp.column("item"), "x1"), source=nest_query(counted, "counted"))


def next_level(items: str, fine: str, size: int) -> exp.Query:
    """The sets of `size` items all of whose parts are in `fine`, the sets of one item less that hold.

    Persons are joined with themselves, so that only sets that occur are counted. A set is counted with the part that
    lacks its last item; that its other parts hold too is looked up afterwards, set by set.
    """
    parent = exp.column("item", table="a1") if size == 2 else exp.column("class_id", table="f")
    last = exp.column("item", table=f"a{size}")
    chosen = [alias(parent, "parent"), alias(last, "item"), alias(count_all(), "records")]
    joins = member_joins(items, size)
    if size > 2:  # after the join that makes the set of size - 1
        joins.insert(size - 2, join_clause(table(fine, alias="f"), _same_items("f", size - 1)))
    counted = select(*chosen, source=table(items, alias="a1"), joins=joins, groups=[parent.copy(), last.copy()])
    return _number_sets(counted, fine, size)


def member_joins(items: str, size: int) -> list[exp.Join]:
    """Who has a set of so many items: persons joined with themselves, each item after the one before."""
    joins = []
    for place in range(2, size + 1):
        own, before = f"a{place}", f"a{place - 1}"
        same = exp.column("person", table=own).eq(exp.column("person", table="a1"))
        later = exp.column("item", table=own) > exp.column("item", table=before)
        joins.append(join_clause(table(items, alias=own), exp.and_(same, later, copy=False)))
    return joins


def _same_items(name: str, size: int) -> exp.Expr:
    pairs = [
        exp.column(f"x{place}", table=name).eq(exp.column("item", table=f"a{place}")) for place in range(1, size + 1)
    ]
    return exp.and_(*pairs, copy=False)


def _number_sets(counted: exp.Query, fine: str, size: int) -> exp.Query:
    """Sets with their items, where every part of them is in `fine`."""
    same = exp.column("class_id", table="f").eq(exp.column("parent", table="c"))
    joins = [join_clause(table(fine, alias="f"), same)]
    parts: list[exp.Expr] = [exp.column(f"x{place}", table="f") for place in range(1, size)]
    parts.append(exp.column("item", table="c"))
    for left_out in range(size - 1):  # the parent lacks the last one
        kept = [item for place, item in enumerate(parts) if place != left_out]
        name = f"p{left_out + 1}"
        pairs = [exp.column(f"x{place}", table=name).eq(item.copy()) for place, item in enumerate(kept, start=1)]
        joins.append(join_clause(table(fine, alias=name), exp.and_(*pairs, copy=False)))
    chosen = [
        alias(window(exp.RowNumber()), "class_id"),
        alias(bigint(literal(size)), "size"),
        exp.column("records", table="c"),
        *(alias(item.copy(), f"x{place}") for place, item in enumerate(parts, start=1)),
    ]
    return select(*chosen, source=nest_query(counted, "c"), joins=joins)


def set_values(items: str, level: str, owners: str, size: int, *, items_too: bool) -> exp.Query:
    """How many persons with a set also own a value; with `items_too` values are items, and none of the set counts."""
    same_person = exp.column("person", table="o").eq(exp.column("person", table="a1"))
    value = exp.column("value", table="o")
    joins = member_joins(items, size)
    joins.append(join_clause(table(level, alias="s"), _same_items("s", size)))
    joins.append(join_clause(table(owners, alias="o"), same_person))
    others = [value.copy().neq(exp.column("item", table=f"a{place}")) for place in range(1, size + 1)]
    groups = [exp.column("class_id", table="s"), value.copy()]
    return select(
        groups[0].copy(),
        value,
        alias(count_all(), "records"),
        source=table(items, alias="a1"),
        joins=joins,
        where=exp.and_(*others, copy=False) if items_too else None,
        groups=groups,
    )


def fine_sets(level: str, result: str) -> exp.Query:
    """The sets of a level that do not break a model."""
    same = exp.column("class_id", table="r").eq(exp.column("class_id", table="s"))
    return select(
        exp.Column(this=exp.Star(), table=exp.to_identifier("s")),
        source=table(level, alias="s"),
        joins=[join_clause(table(result, alias="r"), same)],
        where=exp.column("broken", table="r").eq(0),
    )


def fewest_matches(items: str, level: str, size: int) -> exp.Select:
    """For each person how many share the rarest set of so many items that they have."""
    joins = [*member_joins(items, size), join_clause(table(level, alias="s"), _same_items("s", size))]
    fewest = alias(exp.Min(this=exp.column("records", table="s")), "fewest")
    person = exp.column("person", table="a1")
    return select(person, fewest, source=table(items, alias="a1"), joins=joins, groups=[person.copy()])


def fewest_of_size(items: str, level: str, size: int) -> exp.Select:
    """The same for an attacker who also knows how many items the person has."""
    person = exp.column("person", table="a1")
    own = select("person", alias(count_all(), "n"), source=table(items), groups=["person"])
    joins = [*member_joins(items, size), join_clause(table(level, alias="s"), _same_items("s", size))]
    joins.append(join_clause(nest_query(own, "b"), exp.column("person", table="b").eq(person.copy())))
    alike = [exp.column("class_id", table="s"), exp.column("n", table="b")]
    counted = alias(window(count_all(), partition=alike), "matching")
    members = select(person, counted, source=table(items, alias="a1"), joins=joins)
    fewest = alias(exp.Min(this=exp.column("matching")), "fewest")
    return select("person", fewest, source=nest_query(members, "m"), groups=["person"])


def fewest_without(items: str, level: str, size: int, values: str) -> exp.Select:
    """The same for an attacker who also knows one item that the person does not have: who has it is ruled out. `values`
    says how many of those with a set have another item; a person is left out where that rules out nobody."""
    person = exp.column("person", table="a1")
    same = exp.column("class_id", table="v").eq(exp.column("class_id", table="s"))
    has = exp.and_(
        exp.column("person", table="o").eq(person.copy()),
        exp.column("item", table="o").eq(exp.column("value", table="v")),
        copy=False,
    )
    joins = [
        *member_joins(items, size),
        join_clause(table(level, alias="s"), _same_items("s", size)),
        join_clause(table(values, alias="v"), same),
        join_clause(table(items, alias="o"), has, side="LEFT"),
    ]
    left = exp.Sub(this=exp.column("records", table="s"), expression=exp.column("records", table="v"))
    fewest = alias(exp.Min(this=left), "fewest")
    lacks = exp.column("item", table="o").is_(exp.Null())
    return select(person, fewest, source=table(items, alias="a1"), joins=joins, where=lacks, groups=[person.copy()])


def least_matches(*found: exp.Query) -> exp.Select:
    """For each person the fewest of several attempts."""
    least = alias(exp.Min(this=exp.column("fewest")), "fewest")
    return select("person", least, source=nest_query(union_all(found), "e"), groups=["person"])


def surest_values(items: str, level: str, values: str, owners: str, size: int) -> exp.Select:
    """For each person and each value that they own the largest share of it among those who have some items of them."""
    person, value = exp.column("person", table="a1"), exp.column("value", table="o")
    own = exp.column("person", table="o").eq(person.copy())
    of_set = exp.and_(
        exp.column("class_id", table="v").eq(exp.column("class_id", table="s")),
        exp.column("value", table="v").eq(value.copy()),
        copy=False,
    )
    joins = [
        *member_joins(items, size),
        join_clause(table(level, alias="s"), _same_items("s", size)),
        join_clause(table(owners, alias="o"), own),
        join_clause(table(values, alias="v"), of_set),
    ]
    share = exp.Div(this=double(exp.column("records", table="v")), expression=exp.column("records", table="s"))
    surest = alias(exp.Max(this=share), "share")
    groups = [person.copy(), value.copy()]
    return select(person, value, surest, source=table(items, alias="a1"), joins=joins, groups=groups)
