"""Persons by their signature: all rows of a person taken together, where one row a person is not what a table holds.

entities(k1, signature, records)    a person, the number of its signature, and how many rows it has
row_codes(code, c1, …, b1, …)       a kind of row: values of the quasi-identifiers, and signatures of its child rows
signatures(signature, spelt)        a signature, spelt as the sorted codes of its rows

Equal signatures have equal numbers, and no others have: a signature is compared as the whole list of its rows, not by
a digest. It says how often each row occurs, unless `distinct` is asked for. Of child tables along foreign keys, the
rows of a child have signatures first, and these are a part of what tells rows of the parent apart: so a signature is
the whole tree of a person, and two trees have one number if and only if they are equal up to the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.relations.classes import Prelude
from sqlanon.relations.row_sets import ROW_SET
from sqlanon.relations.source import table_parts
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    column,
    count_all,
    join_clause,
    literal,
    nest_query,
    same,
    select,
    table,
    window,
)


@dataclass(frozen=True)
class Branch:
    """A child table, and the columns by which its rows belong to those of the parent: (parent's, child's)."""

    child: EntityTable
    on: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class EntityTable:
    """A table with rows of persons, and what hangs on its rows. `name` is as the policy has it."""

    name: str
    rows: exp.Select = field(compare=False)
    columns: tuple[str, ...]
    branches: tuple[Branch, ...] = ()

    @property
    def all_tables(self) -> list[EntityTable]:
        """This table, and all below it; a parent comes before its children."""
        return [self, *(item for branch in self.branches for item in branch.child.all_tables)]


@dataclass(frozen=True)
class Signed:
    """The tables that give the rows of one key a signature: `owners` (k1, …, signature, records), `codes` and
    `kinds`, and the same of each child table."""

    tree: EntityTable
    columns: tuple[str, ...]  # quasi-identifiers of this table: c1, c2, … of `codes`
    keys: tuple[str, ...]
    owners: str
    codes: str
    kinds: str
    below: tuple[Signed, ...] = ()

    @property
    def all_tables(self) -> list[Signed]:
        return [self, *(item for child in self.below for item in child.all_tables)]


def sign_rows(
    prelude: Prelude, tree: EntityTable, keys: Sequence[str], qid: Sequence[str], *, distinct: bool = False
) -> Signed:
    """Number the signatures of the rows that have one key, such as a person. A row without a key belongs to nobody."""
    columns = tuple(name for name in qid if name in tree.columns)
    below = tuple(
        sign_rows(prelude, item.child, [right for _, right in item.on], qid, distinct=distinct)
        for item in tree.branches
    )
    key = (tree.name, tuple(keys), tuple(qid), distinct)
    codes = prelude.once("row_codes", key, lambda: _numbered(prelude.dialect, _kinds_of_rows(tree, columns, below)))
    lists = prelude.once(
        "entity_rows", key, lambda: _spelt(prelude.dialect, tree, keys, columns, below, codes, distinct=distinct)
    )
    kinds = prelude.once("signatures", key, lambda: _numbered_lists(prelude.dialect, lists))

    def build() -> exp.Query:
        own = exp.column("spelt", table="s").eq(exp.column("spelt", table="e"))
        chosen = [exp.column(name, table="e") for name in (*_keys(keys), "records")]
        chosen.insert(-1, exp.column("signature", table="s"))
        return select(*chosen, source=table(lists, alias="e"), joins=[join_clause(table(kinds, alias="s"), own)])

    owners = prelude.once("entities", key, build)
    return Signed(tree, columns, tuple(keys), owners, codes, kinds, below)


def _keys(keys: Sequence[str]) -> list[str]:
    return [f"k{place}" for place in range(1, len(keys) + 1)]


def code_columns(columns: Sequence[str], below: Sequence[Signed]) -> list[str]:
    """What tells the kinds of rows of a table apart: c1, c2, … of its own and b1, b2, … of its child tables."""
    own = [f"c{place}" for place in range(1, len(columns) + 1)]
    return own + [f"b{place}" for place in range(1, len(below) + 1)]


def _with_below(tree: EntityTable, columns: Sequence[str], below: Sequence[Signed]) -> exp.Select:
    """The rows of a table as `source`, with the signature of the child rows of each; without any it is 0."""
    chosen = [alias(column(name, "source"), f"c{place}") for place, name in enumerate(columns, start=1)]
    joins = []
    for place, (branch, made) in enumerate(zip(tree.branches, below, strict=True), start=1):
        name = f"below_{place}"
        pairs = [
            column(left, "source").eq(exp.column(f"k{number}", table=name))
            for number, (left, _) in enumerate(branch.on, start=1)
        ]
        joins.append(join_clause(table(made.owners, alias=name), exp.and_(*pairs, copy=False), side="LEFT"))
        signature = exp.Coalesce(this=exp.column("signature", table=name), expressions=[literal(0)])
        chosen.append(alias(bigint(signature), f"b{place}"))
    return select(*chosen, source=nest_query(tree.rows.copy(), "source"), joins=joins)


def _kinds_of_rows(tree: EntityTable, columns: Sequence[str], below: Sequence[Signed]) -> exp.Select:
    """(c1, …, b1, …, records), one row a kind of row."""
    names = code_columns(columns, below)
    rows = _with_below(tree, columns, below)
    if not names:  # a table without quasi-identifiers: all its rows are alike
        rows.append("expressions", alias(literal(0), "c0"))
    counted = alias(count_all(), "records")
    return select(*(names or ["c0"]), counted, source=nest_query(rows, "rows_below"), groups=names or ["c0"])


def _numbered(dialect: str, kinds: exp.Select) -> exp.Select:
    return select(alias(window(exp.RowNumber()), "code"), exp.Star(), source=nest_query(kinds, "kinds"))


def _spelt(
    dialect: str,
    tree: EntityTable,
    keys: Sequence[str],
    columns: Sequence[str],
    below: Sequence[Signed],
    codes: str,
    *,
    distinct: bool,
) -> exp.Select:
    """(k1, …, spelt, records), one row a key."""
    rows = coded_rows(dialect, tree, keys, columns, below, codes)
    names = _keys(keys)
    counted = alias(count_all(), "records")
    spelt = alias(_sorted_list(dialect, exp.column("code"), distinct=distinct), "spelt")
    known = exp.and_(*(exp.column(name).is_(exp.Null()).not_() for name in names), copy=False)
    return select(*names, spelt, counted, source=nest_query(rows, "coded"), where=known, groups=names)


def coded_rows(
    dialect: str,
    tree: EntityTable,
    keys: Sequence[str],
    columns: Sequence[str],
    below: Sequence[Signed],
    codes: str,
    also: Sequence[exp.Expr] = (),
) -> exp.Select:
    """Every row of a table with its keys k1, … and its code, and what else is asked of `source`."""
    rows = _with_below(tree, columns, below)
    for place, name in enumerate(keys, start=1):
        rows.append("expressions", alias(column(name, "source"), f"k{place}"))
    for item in also:
        rows.append("expressions", item)
    named = [item.alias for item in also]
    names = code_columns(columns, below)
    alike = [same(dialect, exp.column(name, table="c"), exp.column(name, table="r")) for name in names]
    chosen = [exp.column(name, table="r") for name in (*_keys(keys), *named)]
    return select(
        *chosen,
        exp.column("code", table="c"),
        source=nest_query(rows, "r"),
        joins=[join_clause(table(codes, alias="c"), exp.and_(*alike, copy=False) if alike else exp.true())],
    )


def _sorted_list(dialect: str, code: exp.Expr, *, distinct: bool) -> exp.Expr:
    inside: exp.Expr = exp.Distinct(expressions=[code]) if distinct else code
    if dialect == "duckdb":  # to sort each list takes a third of the time of an ordered aggregate
        return exp.Anonymous(this="LIST_SORT", expressions=[exp.Anonymous(this="LIST", expressions=[inside])])
    return exp.ArrayAgg(this=exp.Order(this=inside, expressions=[exp.Ordered(this=code.copy(), nulls_first=False)]))


def _numbered_lists(dialect: str, lists: str) -> exp.Select:
    known = select("spelt", source=table(lists), groups=["spelt"])
    return select(alias(window(exp.RowNumber()), "signature"), "spelt", source=nest_query(known, "lists"))


def add_signatures(
    prelude: Prelude, tree: EntityTable, person: str, qids: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], str]:
    """Give every row the number of its person's signature, one column for each quasi-identifier; the names of the
    columns. As `add_row_sets`, where rows of persons may be trees along foreign keys."""
    named = {qid: f"{ROW_SET} {place}" for place, qid in enumerate(dict.fromkeys(qids), start=1)}
    joins, added = [], []
    for place, (qid, name) in enumerate(named.items(), start=1):
        short = f"entities_{place}"
        made = sign_rows(prelude, tree, [person], qid).owners
        own = exp.column("k1", table=short).eq(column(person, "source"))
        joins.append(join_clause(table(made, alias=short), own, side="LEFT"))
        added.append(alias(exp.column("signature", table=short), name, quoted=True))
        prelude.entities[name] = made
    every = exp.Column(this=exp.Star(), table=exp.to_identifier("source"))
    prelude.rows = select(every, *added, source=nest_query(prelude.rows.copy(), "source"), joins=joins)
    return named


def child_ending(name: str) -> str:
    """What is added to the name of a release for a child table.

    >>> child_ending("clinic.visits")
    'visits'
    """
    return table_parts(name)[-1]
