"""The compressed table that every search runs on: one row a distinct combination of quasi-identifiers.

    dictionary(original, records, n0, n1, …, missing, r0, …, position, f1, …)  one table a quasi-identifier
    compressed(k1, …, v1, …, person, u, row_, n, f1_1, …)                     packed keys, sensitive values, counts

The bits of a key are the paths from the roots of the hierarchies down to the values, so that generalizing to a node of
the lattice is `key & mask`. n0, n1, … are the labels of a value on each level, r0, r1, … its place among its siblings,
f1, f2, … the number of leaves below its label; f2_1 is f1 of the second quasi-identifier. Where models ask for
it, the bits of u tell which quasi-identifiers, then which values, are NULL; and row_ tells apart the rows that have a
NULL, where such a row is alike to no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.relations.classes import NULL_NODE, Grouping, Prelude, cells, class_columns, grouped_rows, totals
from sqlanon.relations.hierarchy_lookups import generalize_value, lookup
from sqlanon.relations.source import rows_to_check
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    case,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    same,
    select,
    sum_bigint,
    table,
    text,
    window,
)

BITS = 62  # of a BIGINT, without its sign


@dataclass(frozen=True)
class Domain:
    """A quasi-identifier as a search sees it. Its bits in key `key`: `masks[level]` keeps what `level` still tells."""

    name: str
    short: str
    hierarchy: Hierarchy
    dictionary: str
    covered: bool = True  # by its hierarchy, all values of it
    leaves: int = 0
    key: int = 0
    shifts: tuple[int, ...] = ()
    masks: tuple[int, ...] = ()

    @property
    def height(self) -> int:
        return self.hierarchy.height

    @property
    def bits(self) -> tuple[int, ...]:
        """The key, and the edges of the levels in it; what a plan keeps."""
        return (self.key, *self.shifts, self.masks[0].bit_length() if self.masks[0] else self.shifts[-1])


@dataclass(frozen=True)
class Compressed:
    """What was compressed, and where its parts are."""

    table: str
    domains: tuple[Domain, ...]
    keys: int
    values: Mapping[str, str] = field(default_factory=dict)  # sensitive attribute to its column of value ranks
    person: bool = False
    tells_nulls: bool = False  # has the column u
    tells_rows: bool = False  # has the columns u and row_

    def masks(self, levels: Sequence[int]) -> tuple[int, ...]:
        found = [0] * self.keys
        for domain, level in zip(self.domains, levels, strict=True):
            found[domain.key] |= domain.masks[level]
        return tuple(found)

    def shown_nulls(self, levels: Sequence[int]) -> int:
        """The mask of u: a NULL under the root of its hierarchy is hidden."""
        shown = [level < domain.height for domain, level in zip(self.domains, levels, strict=True)]
        return sum(1 << place for place, bit in enumerate([*shown, *(True for _ in self.values)]) if bit)

    @property
    def others(self) -> list[str]:
        """The columns beside keys, counts and leaves."""
        person = ["person"] if self.person else []
        nulls = ["u"] if self.tells_nulls else []
        return [*self.values.values(), *person, *nulls, *(["row_"] if self.tells_rows else [])]

    @property
    def key_names(self) -> list[str]:
        return [f"k{i}" for i in range(1, self.keys + 1)]


def root_only() -> Hierarchy:
    """How a quasi-identifier without a hierarchy is generalized: it is shown, or it is not."""
    return Hierarchy(height=1, levels=(lambda value: literal("*"),))


def combinations_of_rows(
    prelude: Prelude, grouping: Grouping, attributes: Sequence[str], *, unique: tuple[str, ...] = ()
) -> str:
    """One GROUP BY over the rows: c1, c2, … with s1, s2, … and the person where they are needed, and records. Rows with
    a NULL in a column of `unique` stay apart, by their number row_."""
    plain = Grouping(grouping.columns)
    if _single(grouping, attributes) and not unique:
        return cells(prelude, plain, attributes[0])
    extra: dict[str, exp.Expr] = {f"s{i}": column(name) for i, name in enumerate(attributes, start=1)}
    if grouping.person is not None:
        extra["person"] = column(grouping.person)
    if not unique:
        return prelude.once("combined", (plain, tuple(extra)), lambda: grouped_rows(prelude, plain, extra, count_all()))
    # Rows are told apart here and nowhere else, so that any numbers will do.
    numbers = rows_to_check(prelude.rows.copy(), grouping.columns, suppressed_marker=None, number_rows=True)
    extra["row_"] = class_columns(Grouping(unique, nulls_match=False))[-1]
    numbered = Prelude(numbers, prelude.dialect)
    return prelude.once("combined", (plain, tuple(extra)), lambda: grouped_rows(numbered, plain, extra, count_all()))


def dictionary(prelude: Prelude, made: str, name: str, short: str, hierarchy: Hierarchy) -> str:
    """The values of a quasi-identifier with their labels, their places among siblings, and the leaves below labels."""

    def build() -> exp.Query:
        own = label_values(prelude, made, name, short, hierarchy)
        return _ranked(own, hierarchy.height, lookup(prelude, name, hierarchy))

    return prelude.once("dictionary", (name,), build)


def label_values(prelude: Prelude, made: str, name: str, short: str, hierarchy: Hierarchy) -> exp.Subquery:
    """The values in the column `short` of a table, as d(original, records, n0, n1, …, missing)."""
    looked_up = lookup(prelude, name, hierarchy)
    counted = alias(sum_bigint(exp.column("records")), "records")
    values = select(alias(exp.column(short), "original"), counted, source=table(made), groups=[exp.column(short)])
    original = exp.column("original", table="v")
    labels = [
        alias(exp.Coalesce(this=text(node), expressions=[literal(NULL_NODE)]), f"n{level}")
        for level in range(hierarchy.height)
        for node in [generalize_value(hierarchy, level, original.copy(), "l" if looked_up else None)]
    ]
    joins, missing = [], literal(0)
    if looked_up:
        entry = exp.column("level_0", table="l")
        known = _with_leaves(looked_up, hierarchy.height)
        joins = [join_clause(known, entry.eq(text(original.copy())), side="LEFT")]
        lacks = exp.and_(entry.copy().is_(exp.Null()), original.copy().is_(exp.Null()).not_(), copy=False)
        missing = case((lacks, literal(1)), default=literal(0))
    below = [exp.column(f"leaves_{level}", table="l") for level in range(1, hierarchy.height) if looked_up]
    chosen = [original, exp.column("records", table="v"), *labels, alias(missing, "missing"), *below]
    return nest_query(select(*chosen, source=nest_query(values, "v"), joins=joins), "d")


def _ranked(values: exp.Subquery, height: int, looked_up: str | None) -> exp.Select:
    names = ["original", "records", *(f"n{level}" for level in range(height)), "missing"]
    chosen: list[exp.Expr] = [exp.column(name, table="d") for name in names]
    for level in range(height):
        own = exp.column(f"n{level}", table="d")
        parents = [exp.column(f"n{level + 1}", table="d")] if level + 1 < height else []
        rank = window(exp.DenseRank(), partition=parents, order=[own])
        chosen.append(alias(exp.Sub(this=rank, expression=literal(1)), f"r{level}"))
    position = window(exp.DenseRank(), order=[exp.column("original", table="d")])
    chosen.append(alias(position, "position"))
    for level in range(1, height):
        node = exp.column(f"n{level}", table="d")
        if looked_up is None:
            leaves: exp.Expr = window(exp.Count(this=exp.column("original", table="d")), partition=[node])
        else:
            leaves = exp.func("GREATEST", exp.column(f"leaves_{level}", table="d"), literal(1))
        unknown = exp.column("original", table="d").is_(exp.Null())
        # NULL stays NULL below the root and stands for itself alone.
        chosen.append(alias(double(case((unknown, literal(1)), default=leaves)), f"f{level}"))
    return select(*chosen, alias(_all_leaves(looked_up), "domain"), source=values)


def _with_leaves(looked_up: str, height: int) -> exp.Expr:
    """A lookup as `l`, with the number of leaves below each label that is not the root."""
    if height == 1:
        return table(looked_up, alias="l")
    nodes = [exp.column(f"level_{level}") for level in range(1, height)]
    counts = [window(exp.Count(this=node), partition=[node.copy()]) for node in nodes]
    named = [alias(count, f"leaves_{level}") for level, count in enumerate(counts, start=1)]
    return nest_query(select(exp.Star(), *named, source=table(looked_up)), "l")


def _all_leaves(looked_up: str | None) -> exp.Expr:
    if looked_up is None:
        return window(exp.Count(this=exp.column("original", table="d")))
    return exp.select(count_all()).from_(table(looked_up)).subquery()


def sizes(domains: Sequence[Domain]) -> exp.Select:
    """For each quasi-identifier the number of its leaves, whether a value lacks an entry, and the largest place among
    siblings on each level."""
    widest = max(domain.height for domain in domains)
    parts = []
    for place, domain in enumerate(domains):
        tops = [
            exp.Max(this=exp.column(f"r{level}")) if level < domain.height else literal(0) for level in range(widest)
        ]
        parts.append(
            exp.select(
                alias(literal(place), "place"),
                alias(exp.Max(this=exp.column("domain")), "leaves"),
                alias(exp.Max(this=exp.column("missing")), "missing"),
                *(alias(bigint(top), f"r{level}") for level, top in enumerate(tops)),
            ).from_(table(domain.dictionary))
        )
    tree = parts[0]
    union: exp.Query = tree
    for part in parts[1:]:
        union = exp.union(union, part, distinct=False, copy=False)
    return exp.select("*").from_(union.subquery(alias="sizes")).order_by("place")


def laid_out(
    domains: Sequence[Domain], rows: Sequence[Sequence[int]], *, strangers: bool = False
) -> tuple[tuple[Domain, ...], int]:
    """Give each quasi-identifier its bits; a new key is begun where 62 are full. Returns the number of keys too.

    With `strangers`, on each level the bits that are all ones are no label's: they are for other tables' values.
    """
    placed = []
    key = used = 0
    for domain, (_, leaves, missing, *tops) in zip(domains, rows, strict=True):
        widths = [(int(top or 0) + strangers).bit_length() for top in tops[: domain.height]]
        if used + sum(widths) > BITS:
            key, used = key + 1, 0
        edges = [used]
        for width in widths:
            edges.append(edges[-1] + width)
        used = edges[-1]
        # A column of NULLs has no leaf, but it has one value.
        known = replace(domain, covered=not missing)
        placed.append(with_bits(known, (key, *edges), max(int(leaves or 0), 1)))
    return tuple(placed), key + 1


def with_bits(domain: Domain, bits: Sequence[int], leaves: int) -> Domain:
    """A quasi-identifier whose levels lie between these edges of a key: (key, 0, 3, 5) are 3 bits, then 2 above."""
    key, *edges = bits
    top = (1 << edges[-1]) - 1
    masks = [top & ~((1 << edge) - 1) for edge in edges]
    return replace(domain, leaves=leaves, key=key, shifts=tuple(edges[:-1]), masks=tuple(masks))


def code(domain: Domain, name: str | None = None, level: int = 0) -> exp.Expr:
    """The bits of a label at a level, from its places among siblings in the dictionary `name`; levels of one node have
    no bit."""
    edges = (*domain.shifts, domain.bits[-1])
    parts: list[exp.Expr] = [
        exp.Mul(this=bigint(exp.column(f"r{each}", table=name)), expression=bigint(literal(1 << edges[each])))
        for each in range(level, domain.height)
        if edges[each + 1] > edges[each]
    ]
    return add_up(parts) if parts else bigint(literal(0))


def add_up(parts: Sequence[exp.Expr]) -> exp.Expr:
    """The sum of some expressions."""
    tree = parts[0]
    for part in parts[1:]:
        tree = exp.Add(this=tree, expression=part)
    return tree


def same_value(dialect: str, value: exp.Expr, name: str) -> exp.Expr:
    """Whether a value is that of a row of a dictionary or of totals, NULL included."""
    return same(dialect, value, exp.column("original", table=name))


def compress_rows(
    prelude: Prelude,
    made: str,
    domains: Sequence[Domain],
    keys: int,
    grouping: Grouping,
    attributes: Sequence[str],
    *,
    tells_nulls: bool = False,
    tells_rows: bool = False,
) -> Compressed:
    """Join the combinations to their dictionaries, and keep integers only."""
    values = {name: f"v{i}" for i, name in enumerate(attributes, start=1)}
    single = _single(grouping, attributes) and not tells_rows
    named = {short: "original" if single else f"s{short[1:]}" for short in values.values()}

    def build() -> exp.Query:
        tree = exp.select().from_(table(made, alias="c"))
        parts: list[list[exp.Expr]] = [[] for _ in range(keys)]
        leaves: list[exp.Expr] = []
        for place, domain in enumerate(domains, start=1):
            name = f"d{place}"
            own = exp.column(domain.short, table="c")
            counts = [f"f{level}" for level in range(1, domain.height)]
            # Its bits are put together once a value of the dictionary, not once a combination.
            known = select("original", alias(code(domain), "code"), *counts, source=table(domain.dictionary))
            tree = tree.join(nest_query(known, name), on=same_value(prelude.dialect, own, name), copy=False)
            parts[domain.key].append(exp.column("code", table=name))
            leaves += [alias(exp.column(count, table=name), f"f{place}_{count[1:]}") for count in counts]
        for number, codes in enumerate(parts, start=1):
            tree = tree.select(alias(bigint(add_up(codes)), f"k{number}"))
        for attribute, short in values.items():
            own = exp.column(named[short], table="c")
            ranks = totals(prelude, grouping, attribute, numeric=False)
            name = f"t{short}"
            if prelude.dialect == "duckdb":
                tree = tree.join(table(ranks, alias=name), on=same_value(prelude.dialect, own, name))
                tree = tree.select(alias(exp.column("value", table=name), short))
            else:
                tree = tree.select(alias(window(exp.DenseRank(), order=[own]), short))
        if grouping.person is not None:
            tree = tree.select("c.person")
        if tells_nulls:
            columns = [*(domain.short for domain in domains), *named.values()]
            flags: list[exp.Expr] = [
                case((exp.column(name, table="c").is_(exp.Null()), bigint(literal(1 << bit))), default=literal(0))
                for bit, name in enumerate(columns)
            ]
            tree = tree.select(alias(bigint(add_up(flags)), "u"))
        if tells_rows:
            tree = tree.select(alias(bigint(exp.column("row_", table="c")), "row_"))
        # Narrow counts are added up faster; DuckDB refuses a combination of more than two billion rows.
        counted: exp.Expr = exp.column("records", table="c")
        counted = exp.cast(counted, "int") if prelude.dialect == "duckdb" else counted
        return tree.select(alias(counted, "n"), *leaves)

    made_table = prelude.once("compressed", (grouping, tuple(attributes)), build)
    person = grouping.person is not None
    return Compressed(made_table, tuple(domains), keys, values, person, tells_nulls, tells_rows)


def _single(grouping: Grouping, attributes: Sequence[str]) -> bool:
    return grouping.person is None and len(attributes) == 1
