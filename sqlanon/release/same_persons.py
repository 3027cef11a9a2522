"""Whether two policies read rows of the same persons, and which of their columns hold the same values.

Tables and files that both read are found by name, through views too. A copy has another name: its rows have the same
identities and, in a column that was drawn in both, mostly the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import SqlanonError
from sqlanon.policy import Policy, Source
from sqlanon.relations.source import query_tree, relation, table_parts
from sqlanon.relations.transformation_tables import key_columns
from sqlanon.sqltree.draws import is_number
from sqlanon.sqltree.tree import (
    alias,
    case,
    column,
    count_all,
    double,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    text,
    window,
)

# Of the values that do not agree by chance: with more of them, a column is the other one. Persons change in a copy.
AGREEMENT = 0.5


class SamePersons:
    """Two policies, of which what is asked is read once."""

    def __init__(self, engine: Engine, one: Policy, other: Policy) -> None:
        self.engine, self.one, self.other = engine, one, other

    @cached_property
    def _share_tables(self) -> bool:
        return bool(_tables(self.engine, self.one.source) & _tables(self.engine, self.other.source))

    def share_rows(self) -> bool:
        """Whether both read rows of the same tables, with an identity in common. Where that cannot be known, they
        do."""
        return self._share_tables and self._share_identities

    @cached_property
    def _share_identities(self) -> bool:
        named = key_columns(self.one)
        if not named or named != key_columns(self.other):
            return True
        try:
            found = self._paired([column(name) for name in named], [column(name) for name in named])
            return bool(self.engine.query(select(literal(1), source=found).limit(1)))
        except SqlanonError:
            return True

    def share_values(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those pairs of columns, of the one and of the other, that hold values of the same persons: columns of the
        same name where rows are the same, and others that agree."""
        named = [pair for pair in pairs if pair[0].lower() == pair[1].lower()]
        found = named if named and self.share_rows() else []
        rest = [pair for pair in pairs if pair not in found]
        if self.one.source == self.other.source:  # other columns of one table are other values
            return found
        try:
            return found + (self._agreeing(rest) if rest else [])
        except SqlanonError:  # the source of the other release is no longer there
            return found

    def _paired(self, ours: Sequence[exp.Expr], theirs: Sequence[exp.Expr]) -> exp.Subquery:
        """Rows with the same identity: x0, x1, … of ours, y0, y1, … of theirs, and those of the next row in z0, …"""
        sides: list[exp.Subquery] = []
        for policy, chosen, letter in ((self.one, ours, "x"), (self.other, theirs, "y")):
            rows = relation(self.engine.resolve(policy.source), self.engine.dialect)
            keys = [alias(text(column(name)), f"k{place}") for place, name in enumerate(key_columns(policy))]
            values = [alias(item, f"{letter}{place}") for place, item in enumerate(chosen)]
            sides.append(
                nest_query(select(*keys, *values, source=nest_query(rows, "source")), "ours" if not sides else "them")
            )
        count = len(key_columns(self.one))
        same = [
            exp.column(f"k{place}", table="ours").eq(exp.column(f"k{place}", table="them")) for place in range(count)
        ]
        order = [exp.column(f"k{place}", table="ours") for place in range(count)]
        shown = [exp.column(f"y{place}", table="them") for place in range(len(theirs))]
        later = [
            alias(window(exp.Lead(this=item.copy()), order=[key.copy() for key in order]), f"z{place}")
            for place, item in enumerate(shown)
        ]
        chosen = [exp.column(f"x{place}", table="ours") for place in range(len(ours))]
        join = exp.Join(this=sides[1], on=exp.and_(*same))
        return nest_query(select(*chosen, *shown, *later, source=sides[0], joins=[join]), "pairs")

    def _agreeing(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        kinds = [
            {
                item.name: exp.DataType.build(item.type, dialect=self.engine.dialect)
                for item in self.engine.columns(relation(self.engine.resolve(policy.source), self.engine.dialect))
            }
            for policy in (self.one, self.other)
        ]
        keyed = len(key_columns(self.one))
        if not keyed or keyed != len(key_columns(self.other)):
            return self._among_common(pairs, [*kinds[0]], [*kinds[1]])
        pairs = [pair for pair in pairs if is_number(kinds[0][pair[0]]) == is_number(kinds[1][pair[1]])]
        if not pairs:
            return []
        ours, theirs = (list(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1))
        trees = [
            [double(column(name)) if is_number(known[name]) else text(column(name)) for name in names]
            for known, names in zip(kinds, (ours, theirs), strict=True)
        ]
        asked: list[exp.Expr] = []
        for name, before in pairs:
            x = exp.column(f"x{ours.index(name)}")
            for letter in "yz":
                asked.append(_counted(exp.EQ(this=x.copy(), expression=exp.column(f"{letter}{theirs.index(before)}"))))
            known = exp.column(f"y{theirs.index(before)}").is_(exp.Null()).not_()
            asked.append(_counted(exp.and_(x.is_(exp.Null()).not_(), known)))
        counted = [int(value or 0) for value in self.engine.query(select(*asked, source=self._paired(*trees)))[0]]
        found = []
        for place, pair in enumerate(pairs):
            agreed, by_chance, rows = counted[3 * place : 3 * place + 3]
            if rows > by_chance and agreed - by_chance >= AGREEMENT * (rows - by_chance):
                found.append(pair)
        return found

    def _among_common(
        self, pairs: Sequence[tuple[str, str]], ours: Sequence[str], theirs: Sequence[str]
    ) -> list[tuple[str, str]]:
        """Without an identity, rows are those that are equal in all columns that both have."""
        common = [name for name in ours if name in theirs]
        asked = [pair for pair in pairs if pair[0] == pair[1] and pair[0] in common]
        if not asked:
            return []
        sides = []
        for policy in (self.one, self.other):
            rows = relation(self.engine.resolve(policy.source), self.engine.dialect)
            written = [alias(text(column(name)), f"c{place}") for place, name in enumerate(common)]
            sides.append(select(*written, source=nest_query(rows, "source")))
        trees = [side.copy().distinct() for side in sides] + [exp.intersect(*sides)]
        one, other, both = (
            int(self.engine.query(select(count_all(), source=nest_query(tree, "found")))[0][0]) for tree in trees
        )
        return asked if both and both >= AGREEMENT * min(one, other) else []


def _counted(condition: exp.Expr) -> exp.Expr:
    return sum_bigint(case((condition, literal(1)), default=literal(0)))


def _tables(engine: Engine, source: Source) -> set[tuple[str, ...]]:
    """The tables and files that a source reads, through views too."""
    if source.path is not None:
        return {_file(source.path)}
    found: set[tuple[str, ...]] = set()
    waiting = [table_parts(source.text)] if source.query is None else []
    if source.query is not None:
        tree = query_tree(source.query, engine.dialect)
        waiting += _named(tree)
        functions = [item.this for item in tree.find_all(exp.Table) if not item.name and item.this is not None]
        found |= {_file(item.name) for made in functions for item in made.find_all(exp.Literal) if item.is_string}
    waiting += [table_parts(join.table) for join in source.joins]
    while waiting:
        parts = waiting.pop()
        there = engine.find(parts)
        own = there.full_name if there is not None else _file(".".join(parts))
        if own in found:
            continue
        found.add(own)
        if there is not None and there.kind == "view":
            waiting += _named_by_view(engine, there.full_name)
    return found


def _file(path: str) -> tuple[str, ...]:
    return ("file", str(Path(path).resolve()))


def _named(tree: exp.Expr) -> list[list[str]]:
    return [[part.name for part in item.parts] for item in tree.find_all(exp.Table) if item.name]


def _named_by_view(engine: Engine, full_name: tuple[str, ...]) -> list[list[str]]:
    *_, schema, name = full_name
    if engine.dialect == "duckdb":
        views: exp.Expr = exp.Table(this=exp.Anonymous(this="duckdb_views"))
        lower = [exp.Lower(this=exp.column(item)) for item in ("schema_name", "view_name")]
        tree = select("sql", source=views, where=exp.and_(lower[0].eq(schema), lower[1].eq(name)))
    else:
        mine = exp.and_(exp.column("schemaname").eq(literal(schema)), exp.column("viewname").eq(literal(name)))
        tree = select("definition", source=table("pg_views"), where=mine)
    found: list[list[str]] = []
    for (sql,) in engine.query(tree):
        try:
            parsed = exp.maybe_parse(sql, dialect=engine.dialect)
        except Exception:  # a view that only its engine can read
            continue
        made = parsed.expression if isinstance(parsed, exp.Create) and parsed.expression is not None else parsed
        found += _named(made)
    return found
