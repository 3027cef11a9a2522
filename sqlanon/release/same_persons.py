"""Whether two policies read rows of the same persons, and which of their columns hold the same values.

Tables and files that both read are found by name, through views too. A copy has another name: its rows have the same
identities and, in a column that was drawn in both, mostly the same values. Where sqlanon cannot read what a source is
made of, both may hold the same persons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
    text,
    window,
)

# Of the values that do not agree by chance: with more of them, a column is the other one. Persons change in a copy.
AGREEMENT = 0.5

# Functions after FROM that read the files they name, and those that read nothing. Any other one, such as a macro or
# query(), may read any table.
FILE_READERS = frozenset(
    {
        *("parquet_scan", "read_blob", "read_csv", "read_csv_auto", "read_json", "read_json_auto", "read_json_objects"),
        *("read_json_objects_auto", "read_ndjson", "read_ndjson_auto", "read_ndjson_objects", "read_parquet"),
        "read_text",
    }
)
GENERATORS = frozenset(
    {"explode", "exploding_generate_series", "generate_series", "json_table", "range", "repeat", "unnest", "xml_table"}
)


@dataclass(frozen=True)
class Doubt:
    """Why nobody knows whether two sources hold rows of the same persons, and what the owner can do about it."""

    reason: str
    hint: str


@dataclass
class Lineage:
    """The tables and files that a source reads, and the first reason for which there may be others."""

    names: set[tuple[str, ...]] = field(default_factory=set)
    doubt: Doubt | None = None

    def add_doubt(self, reason: str, hint: str) -> None:
        self.doubt = self.doubt or Doubt(reason, hint)


class SamePersons:
    """Two policies, of which what is asked is read once."""

    def __init__(self, engine: Engine, one: Policy, other: Policy) -> None:
        self.engine, self.one, self.other = engine, one, other

    @cached_property
    def _lineages(self) -> tuple[Lineage, Lineage]:
        return _lineage(self.engine, self.one.source), _lineage(self.engine, self.other.source)

    @cached_property
    def doubt(self) -> Doubt | None:
        """Why they may hold the same rows, where no table that is known is read by both."""
        ours, theirs = self._lineages
        return None if ours.names & theirs.names else ours.doubt or theirs.doubt

    def share_tables(self) -> bool:
        """Whether both read the same tables. Where that cannot be known, they do."""
        ours, theirs = self._lineages
        return bool(ours.names & theirs.names) or self.doubt is not None

    def share_rows(self) -> bool:
        """Whether both read rows of the same tables, with an identity in common. Where that cannot be known, they
        do."""
        return self.share_tables() and self._share_identities

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
        except SqlanonError:
            self.doubt = Doubt("the rows of both cannot be compared", "give the columns of both the same types")
            return found + [pair for pair in named if pair not in found]

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


def _lineage(engine: Engine, source: Source) -> Lineage:
    """The tables and files that a source reads, through views too."""
    found = Lineage()
    if source.path is not None:
        _add_file(source.path, found)
        return found
    waiting = [table_parts(source.text)] if source.query is None else []
    if source.query is not None:
        waiting += _read_tree(query_tree(source.query, engine.dialect), "the query of the source", found)
    waiting += [table_parts(join.table) for join in source.joins]
    while waiting:
        parts = waiting.pop()
        there = engine.find(parts)
        if there is None:
            _add_file(".".join(parts), found)
        elif there.full_name not in found.names:
            found.names.add(there.full_name)
            if engine.dialect != "duckdb":
                _ask_engine(engine, there.full_name, found)
            elif there.kind == "view":
                waiting += _read_view(engine, there.full_name, found)
    return found


def _add_file(path: str, found: Lineage) -> None:
    found.names.add(("file", str(Path(path).resolve())))
    if "*" not in path and "://" not in path and not Path(path).exists():
        found.add_doubt(
            f"'{path}' is not there any more", "give back the table or file under that name, to compare its rows"
        )


def _read_tree(tree: exp.Expr, what: str, found: Lineage) -> list[list[str]]:
    """The tables that a statement names. Files that its functions read go to what was found."""
    for item in tree.find_all(exp.Table, exp.Lateral):
        if not isinstance(item.this, exp.Func):
            continue
        called, files = _function(item.this)
        if called in FILE_READERS and files:
            for path in files:
                _add_file(path, found)
        elif called not in GENERATORS:
            found.add_doubt(
                f"{what} calls {called}(), and sqlanon cannot see which tables that reads",
                "name the tables after FROM instead",
            )
    made_here = {item.alias for item in tree.find_all(exp.CTE)}
    return [
        [part.name for part in item.parts]
        for item in tree.find_all(exp.Table)
        if item.name and (item.db or item.name not in made_here)
    ]


def _function(call: exp.Func) -> tuple[str, list[str]]:
    """The name of a function, and the files that its first argument names; none if that is computed."""
    name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
    first = next(_arguments(call), None)
    listed = first.expressions if isinstance(first, exp.Array) else [first]
    plain = all(isinstance(item, exp.Literal) and item.is_string for item in listed)
    return name.lower(), [item.name for item in listed if item is not None] if plain else []


def _arguments(call: exp.Func) -> Iterator[exp.Expr]:
    for key, value in call.args.items():
        if isinstance(call, exp.Anonymous) and key == "this":
            continue
        yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, exp.Expr))


def _read_view(engine: Engine, full_name: tuple[str, ...], found: Lineage) -> list[list[str]]:
    """The tables that a view of DuckDB names, of which the text of its definition is all there is."""
    *_, schema, name = full_name
    views = exp.Table(this=exp.Anonymous(this="duckdb_views"))
    lower = [exp.Lower(this=exp.column(item)) for item in ("schema_name", "view_name")]
    tree = select("sql", source=views, where=exp.and_(lower[0].eq(schema), lower[1].eq(name)))
    named: list[list[str]] = []
    for (sql,) in engine.query(tree):
        try:
            made = exp.maybe_parse(sql, dialect=engine.dialect)
        except Exception:  # besides its own errors, the parser has others for what it half knows
            made = None
        if isinstance(made, exp.Create) and isinstance(made.expression, exp.Query):
            named += _read_tree(made.expression, f"the view '{name}'", found)
        else:
            found.add_doubt(
                f"sqlanon cannot read the definition of the view '{name}'",
                f"write the view '{name}' without syntax of its engine, such as lambdas",
            )
    return named


def _ask_engine(engine: Engine, full_name: tuple[str, ...], found: Lineage) -> None:
    """The tables that PostgreSQL has on record for a view, and the parts of a table."""
    reads = engine.reads(full_name)
    found.names |= reads.tables
    for called in reads.functions[:1]:
        found.add_doubt(
            f"the view '{full_name[-1]}' calls {called}, and nobody can see which tables that reads",
            "name the tables after FROM instead",
        )
