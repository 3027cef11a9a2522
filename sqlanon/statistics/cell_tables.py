"""Make the cells of all tables of a policy inside the database, and find those that are unsafe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError, SourceError, SqlanonError, did_you_mean
from sqlanon.evidence.hierarchies import build_hierarchies, require_valid
from sqlanon.families import family, plugin
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy.statistics import RULES, Statistic, StatisticsPolicy
from sqlanon.relations import statistics_tables
from sqlanon.relations.classes import Prelude
from sqlanon.relations.hierarchy_lookups import generalize_value, lookup
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    bind,
    count_all,
    join_clause,
    nest_query,
    select,
    table,
    text,
    union_all,
)
from sqlanon.statistics.dimensions import (
    LARGEST_NUMBER,
    MOST_CELLS,
    TOTAL,
    Dimension,
    build_dimension,
    require_size,
)

PREFIX = "sqlanon_statistics"
Q = TypeVar("Q", bound=exp.Query)
WHOLE = {
    "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    "int2", "int4", "int8",
}  # fmt: skip
Key = tuple[str | None, str | None, str | None]  # contributor, waived, weight


@dataclass
class Workspace:
    """Temporary tables of one run, each under a name of its own; dropped together."""

    engine: Engine
    names: list[str] = field(default_factory=list)
    defined: dict[str, exp.Select] = field(default_factory=dict)

    def make(self, kind: str, query: exp.Query) -> str:
        name = self._named(kind)
        self.engine.create_temporary(name, self.filled(query))
        return name

    def define(self, kind: str, query: exp.Select) -> str:
        """A relation that is not stored: its query takes the place of its name wherever this is read."""
        name = f"{PREFIX}_{kind}_{len(self.names) + len(self.defined) + 1}_"
        self.defined[name] = self.filled(query)
        return name

    def filled(self, query: Q) -> Q:
        """A query with what is not stored written out."""
        for node in list(query.find_all(exp.Table)):
            if node.name in self.defined:
                node.replace(nest_query(self.defined[node.name].copy(), node.alias or node.name))
        return query

    def load(self, kind: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> str:
        """A small table from values; `columns` are names and SQL types."""
        listed = [[str(value) for value in row] for row in rows]
        name = self._named(kind)
        if not listed:
            nothing = [alias(exp.cast(exp.Null(), type_), own) for own, type_ in columns.items()]
            self.engine.create_temporary(name, exp.select(*nothing).where(exp.false()))
            return name
        loaded = self._named("loaded")
        self.engine.load_temporary(loaded, list(columns), listed)
        typed = [alias(exp.cast(exp.column(own), type_), own) for own, type_ in columns.items()]
        self.engine.create_temporary(name, select(*typed, source=table(loaded)))
        return name

    def bound(self, kind: str, statement: str, relations: Mapping[str, str], **params: int) -> str:
        """A table made by a file of sql/statistics."""
        return self.make(kind, bind(family("statistics")[statement].sql, params, relations))

    def _named(self, kind: str) -> str:
        name = f"{PREFIX}_{kind}_{len(self.names) + 1}"
        self.names.append(name)
        return name

    def drop(self) -> None:
        # A connection that broke off takes its temporary tables with it; the error that broke it is the one to show.
        with suppress(SqlanonError):
            self.engine.drop_temporary(self.names)


@dataclass(frozen=True)
class TableCells:
    """One table of a policy: its relations in the database, and its dimensions."""

    name: str
    statistic: Statistic
    places: tuple[int, ...]  # numbers of its dimensions, from 1
    cells: str
    tops: str
    members: str
    contributions: str
    settled: str  # contributions of those who are in one cell of the finest level
    spread: str | None  # of those who are in several, if there are some
    whole: bool  # whether its values are whole numbers


@dataclass(frozen=True)
class CellTables:
    """All tables of a policy, made in the database."""

    policy: StatisticsPolicy
    engine: Engine
    workspace: Workspace
    dimensions: tuple[Dimension, ...]
    nodes: str
    up: str
    tables: tuple[TableCells, ...]

    def dimension(self, place: int) -> Dimension:
        return self.dimensions[place - 1]


def make_cells(
    policy: StatisticsPolicy, engine: Engine, workspace: Workspace, *, exact_counts: bool = False
) -> CellTables:
    """Cells, contributions and equations of every table, with one pass over the rows for each kind of contributor.

    How many contributors a cell has is counted where a rule needs it; with `exact_counts` everywhere, which takes long.
    """
    if engine.product == "spark":
        raise policy.error(
            "tables of statistics are not made on Spark", "source", hint="use DuckDB or PostgreSQL on these rows"
        )
    source = engine.resolve(policy.source)
    if source.joins:
        hint = "join the tables in a query: 'query: SELECT … FROM … JOIN …'"
        raise policy.error("tables of statistics are made of one table, view or query", "source", hint=hint)
    rows = relation(source, engine.dialect)
    types = _require_columns(policy, engine, rows)
    bases: dict[Key, tuple[str, list[str]]] = {}
    for statistic in policy.statistics.values():
        amounts = bases.setdefault(_key(policy, statistic), ("", []))[1]
        if statistic.of is not None and statistic.of not in amounts:
            amounts.append(statistic.of)
    for key, (_, amounts) in list(bases.items()):
        listed = [(name, _is_whole(types[name])) for name in amounts]
        tree = statistics_tables.base_rows(rows.copy(), policy.dimensions, key[0], listed, *key[1:])
        stored = workspace.make("base", tree)
        complete = statistics_tables.whole_base(
            stored, len(policy.dimensions), len(amounts), alone=key[0] is None, waived=key[1] is not None,
            weighted=key[2] is not None,
        )  # fmt: skip
        bases[key] = (workspace.define("base", complete), amounts)
    values = _combine_values(policy, engine, workspace, next(iter(bases.values()))[0])
    for key, (made, amounts) in bases.items():
        _require_clean(engine, workspace, made, key, amounts)
    dimensions = _read_dimensions(policy, engine, values)
    places = {name: place for place, name in enumerate(policy.dimensions, start=1)}
    require_size((name, [dimensions[places[own] - 1] for own in item.by]) for name, item in policy.statistics.items())
    nodes, up = _load_nodes(workspace, dimensions)
    tables = []
    for name, statistic in policy.statistics.items():
        key = _key(policy, statistic)
        made, amounts = bases[key]
        own = tuple(places[dimension] for dimension in statistic.by)
        amount = None if statistic.of is None else amounts.index(statistic.of) + 1
        whole = statistic.of is None or _is_whole(types[statistic.of])
        brought = _bring(workspace, engine, made, key, (nodes, own, amount, whole), grouped=len(own) < len(dimensions))
        tables.append(_make_table(workspace, dimensions, (nodes, up), (name, statistic), own, brought, exact_counts))
    return CellTables(policy, engine, workspace, dimensions, nodes, up, tuple(tables))


def _key(policy: StatisticsPolicy, statistic: Statistic) -> Key:
    return policy.contributor_of(statistic), statistic.waived, statistic.weight


def _is_whole(type_: str) -> bool:
    return type_.lower() in WHOLE


def _require_columns(policy: StatisticsPolicy, engine: Engine, rows: exp.Select) -> dict[str, str]:
    """The types of the source's columns; every column that the policy names is among them, and of the right kind."""
    known = {item.name: item for item in engine.columns(rows)}
    for name, statistic in policy.statistics.items():
        asked: list[tuple[str | None, tuple[str | int, ...]]] = [
            *((item, ("statistics", name, "by", place)) for place, item in enumerate(statistic.by)),
            (statistic.of, ("statistics", name, "of")),
            (statistic.contributor, ("statistics", name, "contributor")),
            (statistic.waived, ("statistics", name, "waived")),
            (statistic.weight, ("statistics", name, "weight")),
            (policy.person, ("person",)),
        ]
        for wanted, path in asked:
            if wanted is not None and wanted not in known:
                hint = did_you_mean(wanted, known) or f"it has {', '.join(list(known)[:20])}"
                raise policy.error(f"column '{wanted}' is not in the source", *path, hint=hint)
        for wanted, what in ((statistic.of, "of"), (statistic.weight, "weight")):
            if wanted is not None and not known[wanted].numeric:
                said = f"column '{wanted}' is of type {known[wanted].type}, and cannot be summed up"
                raise policy.error(
                    said, "statistics", name, what, hint="name a column of numbers, or cast it in a query"
                )
        if statistic.waived is not None and not known[statistic.waived].type.lower().startswith("bool"):
            said = f"column '{statistic.waived}' is of type {known[statistic.waived].type}, and not true or false"
            raise policy.error(said, "statistics", name, "waived", hint="make it a boolean in a query")
    return {name: item.type for name, item in known.items()}


def _combine_values(policy: StatisticsPolicy, engine: Engine, workspace: Workspace, base: str) -> str:
    """The combinations of values that the rows have."""
    named = [f"dim_{place}" for place in range(1, len(policy.dimensions) + 1)]
    made = workspace.make("values", select(*named, source=table(base)).distinct())
    missing = engine.query(statistics_tables.missing_values(made, len(named)))[0]
    for name, count in zip(policy.dimensions, missing, strict=True):
        if count:
            raise _missing(name)
    return made


def _missing(name: str | None) -> SourceError:
    return SourceError(
        f"column '{name}' has NULLs: a record without it is in a total, and in no part of it",
        hint="say what they are in a query, such as COALESCE(…, 'unknown'), or leave these records out",
    )


def _require_clean(engine: Engine, workspace: Workspace, base: str, key: Key, amounts: Sequence[str]) -> None:
    """Refuse rows that no cell can be made of; of what is wrong only its kind is told."""
    found = engine.query(workspace.filled(statistics_tables.base_problems(base, len(amounts))))[0]
    nobody, *counts = (int(number) for number in found)
    if nobody:
        raise _missing(key[0])
    for place, name in enumerate(amounts):
        missing, negative = counts[2 * place : 2 * place + 2]
        if missing:
            raise SourceError(
                f"the amount '{name}' has NULLs", hint="say what they are in a query, or leave these records out"
            )
        if negative:
            raise SourceError(
                f"the amount '{name}' is negative in some records: then neither dominance nor an attacker's bounds can "
                "be computed",
                hint="make two tables, one of gains and one of losses",
            )
    if key[2] is not None and counts[-2]:
        raise SourceError(f"the weight '{key[2]}' is missing or below 1 in some records", hint="correct the weights")
    if key[2] is not None and key[0] is not None and (counts[-1] or _has_uneven_weights(engine, workspace, base)):
        raise SourceError(
            f"some contributors have records of several weights in '{key[2]}'",
            hint="leave 'contributor' out, if each record is a unit of the sample",
        )


def _has_uneven_weights(engine: Engine, workspace: Workspace, base: str) -> bool:
    tree = bind(family("statistics")["uneven_weights"].sql, {}, {"contributions": base})
    return bool(engine.query(workspace.filled(tree).limit(1)))


def _read_dimensions(policy: StatisticsPolicy, engine: Engine, combined: str) -> tuple[Dimension, ...]:
    """The nodes above the values that the data have. The hierarchies are checked on these."""
    built = build_hierarchies(policy)
    named = {name: f"dim_{place}" for place, name in enumerate(policy.dimensions, start=1)}
    values = [alias(exp.column(own), name, quoted=True) for name, own in named.items()]
    prelude = Prelude(select(*values, source=table(combined)), engine.dialect, prefix=f"{PREFIX}_h")
    try:
        require_valid(policy, engine, built, prelude)
        found: list[Dimension] = []
        stride = 1
        for name in policy.dimensions:
            known = select(alias(exp.column(named[name]), "original"), source=table(combined)).distinct()
            made = _read_dimension(engine, prelude, name, known, built.get(name), stride)
            found.append(made)
            stride = made.above
            if stride > LARGEST_NUMBER:
                raise policy.error("the dimensions have too many nodes together", "statistics",
                                   hint="take fewer columns in 'by', or coarser values")  # fmt: skip
        return tuple(found)
    finally:
        drop_steps(engine, prelude.steps)


def _read_dimension(
    engine: Engine, prelude: Prelude, name: str, distinct: exp.Select, hierarchy: Hierarchy | None, stride: int
) -> Dimension:
    count = int(engine.query(select(count_all(), source=nest_query(distinct.copy(), "values_")))[0][0])
    if count > MOST_CELLS:
        raise PolicyError(
            f"'{name}' has {count:,} values: the table would have more than {MOST_CELLS:,} cells",
            hint="take a coarser column",
        )
    if not count:
        raise SourceError("the source has no row: there is nothing to publish", hint="is it the right table?")
    value = exp.column("original", table="o")
    chosen: list[exp.Expr] = [text(value)]
    joins: list[exp.Join] = []
    root = TOTAL
    if hierarchy is not None:
        root = hierarchy.root
        done = len(prelude.steps)
        made = lookup(prelude, name, hierarchy)
        run_steps(engine, prelude.steps[done:])
        if made is not None:
            same = exp.column("level_0", table="l").eq(text(value.copy()))
            joins.append(join_clause(table(made, alias="l"), same, side="LEFT"))
        for level in range(1, hierarchy.height + 1):
            chosen.append(text(generalize_value(hierarchy, level, value.copy(), "l" if made else None)))
    rows = engine.query(select(*chosen, source=nest_query(distinct, "o"), joins=joins))
    paths = [(*(str(label) for label in row), *(() if hierarchy is not None else (root,))) for row in rows]
    return build_dimension(name, root, paths, stride)


def _load_nodes(workspace: Workspace, dimensions: Sequence[Dimension]) -> tuple[str, str]:
    nodes, up = [], []
    for place, dimension in enumerate(dimensions, start=1):
        for number, label in enumerate(dimension.labels):
            parent = dimension.parents[number] * dimension.stride if number else -1
            nodes.append((place, number * dimension.stride, parent, label))
        for leaf in dimension.leaves:
            up += [
                (place, leaf * dimension.stride, (node - leaf) * dimension.stride) for node in dimension.ancestors(leaf)
            ]
    made = workspace.load("nodes", {"dimension": "int", "part": "bigint", "parent": "bigint", "label": "text"}, nodes)
    return made, workspace.load("up", {"dimension": "int", "part": "bigint", "step": "bigint"}, up)


@dataclass(frozen=True)
class _Brought:
    """What contributors brought to the finest cells of a table: relations of everybody, of those who are in one of
    these cells, and of those who are in several, by name and by number."""

    everybody: str
    settled: str
    whole: bool
    spread: str | None = None
    numbered: str | None = None
    contributors: str | None = None  # who is in several cells


def _bring(
    workspace: Workspace, engine: Engine, base: str, key: Key, cells: tuple[str, tuple[int, ...], int | None, bool], *,
    grouped: bool,
) -> _Brought:  # fmt: skip
    """`cells` are the nodes, the dimensions of the table, the number of its amount, and whether that is whole."""
    varying = [name for name, given in (("waived", key[1]), ("weight", key[2])) if given is not None]
    whole = cells[3]
    if key[0] is None:  # each record is one of its own
        tree = statistics_tables.contributions(base, *cells, grouped=False, varying=varying)
        made = workspace.make("contributions", tree)
        everybody = workspace.define("contributions", statistics_tables.whole_contributions(made, varying))
        return _Brought(everybody, everybody, whole)
    if grouped:
        tree = statistics_tables.contributions(base, *cells, grouped=True, varying=varying)
        made = brought = workspace.make("contributions", tree)
    else:
        amount = exp.column("records" if cells[2] is None else f"amount_{cells[2]}")
        made = ""
        brought = workspace.define("brought", select("contributor", alias(amount, "amount"), source=table(base)))
    who = workspace.bound("spread", "spread_contributors", {"contributions": brought})
    several = bool(engine.query(select(count_all(), source=table(who)))[0][0])
    if not grouped:
        tree = statistics_tables.contributions(
            base, *cells, grouped=False, varying=varying, spread=who if several else None
        )
        made = workspace.make("contributions", tree)
    elif several:
        made = workspace.make("contributions", statistics_tables.with_spread(made, varying, who))

    def part(**chosen: Any) -> str:
        return workspace.define("contributions", statistics_tables.whole_contributions(made, varying, **chosen))

    if not several:
        everybody = part()
        return _Brought(everybody, everybody, whole)
    return _Brought(part(), part(spread=False), whole, part(spread=True), part(spread=True, contributor="number"), who)


def _make_table(
    workspace: Workspace,
    dimensions: Sequence[Dimension],
    shared: tuple[str, str],
    named: tuple[str, Statistic],
    places: tuple[int, ...],
    brought: _Brought,
    exact_counts: bool,
) -> TableCells:
    """The cells of one table, from what contributors brought to its finest cells."""
    nodes, up = shared
    name, statistic = named
    own = [(place, dimensions[place - 1]) for place in places]
    most = _most_needed(statistic)
    settled, spread = brought.settled, brought.numbered
    sums = workspace.bound("sums", "sum_cells", {"contributions": settled})
    finest = None
    if spread is not None and brought.contributors is not None:
        finest = workspace.bound("sums", "sum_cells", {"contributions": spread})
        relations = {"sums": finest, "spread_contributors": brought.contributors}
        values = workspace.bound("sums", "named_sums", relations)
        sums = workspace.bound("sums", "add_sums", {"sums": sums, "other_sums": values})
    for place, dimension in own:
        sums = workspace.bound("sums", "roll_up_sums", {"sums": sums, "up": up}, **_digits(place, dimension))
    pick = "largest_contributions" if statistic.waived is not None else "largest_contributions_of_all"
    top = None
    if most:
        top = workspace.bound("top", pick, {"contributions": settled}, most=most)
        for place, dimension in own:
            relations = {"contributions": top, "up": up}
            rolled = workspace.define(
                "top", bind(family("statistics")["roll_up_largest"].sql, _digits(place, dimension), relations)
            )
            top = workspace.bound("top", pick, {"contributions": rolled}, most=most)
    others_top = None
    if spread is not None and finest is not None and brought.contributors is not None:
        limits = _limits(workspace, sums, top, most)
        # Those who are in several cells of the finest level are once in each.
        largest = workspace.bound("top", pick, {"contributions": spread}, most=most) if most else None
        others = _limits(workspace, finest, largest, most)
        for place, dimension in own:
            others = workspace.bound(
                "limits", "roll_up_limits", {"limits": others, "up": up}, **_digits(place, dimension)
            )
        limits = workspace.bound("limits", "greater_limits", {"limits": limits, "other_limits": others})
        digits = [(place, dimension.below, dimension.above) for place, dimension in own]
        ancestors = workspace.make("ancestors", statistics_tables.cell_ancestors(finest, up, limits, digits))
        enough = LARGEST_NUMBER if exact_counts else _fewest_needed(statistic)
        relations = {"contributions": spread, "ancestors": ancestors, "spread_contributors": brought.contributors}
        if statistic.waived is None and statistic.weight is None:
            alike = workspace.bound("spread", "expand_contributions_of_all", relations, fewest=enough)
            expanded = workspace.define("spread", statistics_tables.whole_expanded(alike))
        else:
            expanded = workspace.bound("spread", "expand_contributions", relations, fewest=enough)
        counts = workspace.bound("counts", "count_contributors", {"contributions": expanded})
        relations = {"sums": sums, "counts": counts, "limits": limits}
        sums = workspace.bound("sums", "add_counts", relations, fewest=enough)
        if most:
            others_top = workspace.bound("top", pick, {"contributions": expanded}, most=most)
    nothing = workspace.define("none", select(exp.Star(), source=table(settled), where=exp.false()))
    both = {"contributions": top or nothing, "other_contributions": others_top or nothing}
    tops = workspace.bound("tops", "tops", both)
    all_cells = workspace.make("universe", statistics_tables.universe(nodes, places))
    cells = workspace.bound(
        "cells", "cells", {"universe": all_cells, "sums": sums, "tops": tops}, counted=int(statistic.of is None)
    )
    relations = {"cells": cells, "nodes": nodes}
    parts: list[exp.Query] = [
        bind(family("statistics")["members"].sql, _digits(place, dimension), relations) for place, dimension in own
    ]
    members = workspace.make("members", union_all(parts))
    return TableCells(
        name, statistic, places, cells, tops, members, brought.everybody, brought.settled, brought.spread,
        brought.whole and statistic.weight is None,
    )  # fmt: skip


def _digits(place: int, dimension: Dimension) -> dict[str, int]:
    return {"dimension": place, "below": dimension.below, "above": dimension.above}


def _limits(workspace: Workspace, sums: str, top: str | None, most: int) -> str:
    """What cells ask of a contributor to matter, given some who are in them."""
    if top is None:
        return workspace.bound("limits", "limits_of_counts", {"sums": sums})
    return workspace.bound("limits", "limits", {"sums": sums, "contributions": top}, most=most)


def _fewest_needed(statistic: Statistic) -> int:
    """From how many contributors on no rule cares how many there are, nor whether somebody is alone."""
    return max([2, *(int(rule.params.get("n", 2)) for rule in statistic.rules)])


def _most_needed(statistic: Statistic) -> int:
    """How many of the largest contributions the rules of a table look at."""
    known = family(RULES)
    asked = [rule for rule in statistic.rules if "amounts" in known[rule.name].needs]
    return max((max(2, int(rule.params.get("n", 2))) for rule in asked), default=0)


def find_unsafe(tables: CellTables) -> list[tuple[str, str, int, float]]:
    """Unsafe cells: (table, rule, cell, level)."""
    found: list[tuple[str, str, int, float]] = []
    for item in tables.tables:
        relations = {"cells": item.cells, "tops": item.tops, "members": item.members}
        for rule in item.statistic.rules:
            page = plugin(RULES, rule.name)
            tree = bind(page.sql, page.filled(rule.params), relations)
            found += [(item.name, rule.name, int(cell), float(level)) for cell, level in tables.engine.query(tree)]
    return found


def read_cells(tables: CellTables, item: TableCells, lone: str | None) -> list[tuple[Any, ...]]:
    """The cells of a table: (cell, value, contributors, number of the contributor who is alone in it or NULL)."""
    chosen: list[exp.Expr] = [
        exp.column("cell", table="c"), exp.column("amount", table="c"), bigint(exp.column("contributors", table="c"))
    ]  # fmt: skip
    if lone is None:
        return tables.engine.query(select(*chosen, exp.Null(), source=table(item.cells, alias="c")))
    same = exp.column("contributor", table="n").eq(exp.column("lone", table="c"))
    joins = [join_clause(table(lone, alias="n"), same, side="LEFT")]
    chosen.append(exp.column("number", table="n"))
    return tables.engine.query(select(*chosen, source=table(item.cells, alias="c"), joins=joins))
