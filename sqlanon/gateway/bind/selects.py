"""SELECT: which of four things it is, and the relation that comes of it.

Over private rows: a projection that keeps the unit, an aggregate for each person, or the core of a private answer.
Over public and noisy rows: SQL as it is, written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind import casts, functions  # noqa: F401  (their rules register themselves)
from sqlanon.gateway.bind.aggregates import Aggregate, Answered, bind_aggregate
from sqlanon.gateway.bind.bounding import UNSTABLE
from sqlanon.gateway.bind.calls import holds_aggregate
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.conditions import condition
from sqlanon.gateway.bind.core import Core, key_tree
from sqlanon.gateway.bind.empty_answers import empty_answer, excludes_all, limits_to_nothing
from sqlanon.gateway.bind.error_bars import Ends, bars_of, holds_noise
from sqlanon.gateway.bind.fanout import fanouts_of
from sqlanon.gateway.bind.grouping_sets import VALUES, holds_margins, order_by_place, read_sets, select_set, union_of
from sqlanon.gateway.bind.keys import set_key_mode
from sqlanon.gateway.bind.listed_rows import listed_rows
from sqlanon.gateway.bind.noise_spread import spreads_of
from sqlanon.gateway.bind.outer_joins import require_persons
from sqlanon.gateway.bind.places import Place
from sqlanon.gateway.bind.scalars import bind, bind_shown, only, refusal, spelling
from sqlanon.gateway.bind.select_items import Item, groups_of, items_of, resolve_item
from sqlanon.gateway.bind.sources import FromRows, NamedRelation, rename_columns, rows_of, thin
from sqlanon.gateway.bind.values import NO_NOISE, NUMBERS, UNIT, Interval, Relation, Spread, Value, hull
from sqlanon.sqlfront.limits import MAX_DEPTH

MAX_WRITTEN = 30_000  # nodes of a relation, as it is written for an engine
SELECT_ARGS = (
    "with_",
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "distinct",
)

Columns = list[tuple[str, Value]]
ALONE = {"uuid", "numeric", "timestamptz"}  # types that are not what they are computed with


class Binder:
    """Binds one statement for one principal; collects the cores that it must ask."""

    def __init__(self, catalog: Catalog, principal: str, dialect: str, aggregate: Aggregate = bind_aggregate) -> None:
        self.catalog = catalog
        self.aggregate = aggregate
        self.principal = principal
        self.dialect = dialect
        self.cores: list[Core] = []
        self.tables: set[str] = set()  # of the policy, that the statement reads
        self.used: set[tuple[str, str]] = set()  # and their columns
        self.bars: dict[str, Ends] = {}  # error bars of the columns of the outermost SELECT
        self.bare: tuple[str, ...] = ()  # and its numbers with noise for which none are known
        self.answered: list[tuple[exp.Expr, Answered]] = []  # all aggregates with noise, wherever they stand
        self._beside_persons = True  # private tables are named somewhere in the statement

    def query(self, node: exp.Expr, ctes: dict[str, Relation], depth: int = 0) -> Relation:
        if depth > MAX_DEPTH:
            raise refusal(node, "subqueries are nested too deeply")
        if depth == 0:
            self._beside_persons = self.catalog.holds_persons(node, self.principal)
        if type(node) is exp.Subquery:
            only(node, "this", "alias")
            return self.query(node.this, ctes, depth + 1)
        known = self._with(node, ctes, depth)
        if type(node) in (exp.Union, exp.Except, exp.Intersect):
            found = self._set_operation(node, known, depth)
        elif type(node) is exp.Select:
            found = self._select(node, known, depth)
            if depth == 0 and found.nature == "noisy" and self._is_empty(node):
                self.cores.clear()  # nothing is asked of them, and nothing is charged
                self.bars = {}
                found = empty_answer(found.columns, found.labels, self.catalog.schema)
        elif (listed := listed_rows(node, self.dialect)) is not None:
            found = listed
        else:
            raise refusal(node, f"{spelling(node)} is not answered", hint="only SELECT is")
        if sum(1 for _ in found.tree.walk()) > MAX_WRITTEN:
            # A CTE is written wherever it is read: each that reads the one before it twice makes twice as much.
            raise refusal(node, "the statement is too long to be answered", sqlstate="54001")
        return found

    def _with(self, node: exp.Expr, ctes: dict[str, Relation], depth: int) -> dict[str, Relation]:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        only(clause, "expressions")
        known = dict(ctes)
        for cte in clause.expressions:
            only(cte, "this", "alias", "materialized")
            alias = cte.args["alias"]
            only(alias, "this", "columns")
            # Bound once: a noisy CTE that is read twice is the same noise twice.
            found = self.query(cte.this, known, depth + 1)
            names = [each.name for each in alias.args.get("columns") or []]
            known[cte.alias.casefold()] = rename_columns(alias, found, names) if names else found
        return known

    def _find(self, node: exp.Expr, ctes: dict[str, Relation], depth: int) -> Relation:
        if type(node) is exp.Subquery:
            only(node, "this", "alias")
            return self.query(node.this, ctes, depth + 1)
        listed = listed_rows(node, self.dialect)
        if listed is not None:
            return listed
        if type(node) is not exp.Table or type(node.this) is not exp.Identifier:
            raise refusal(node, f"{spelling(node)} in FROM is not answered", hint="name a table, or write a subquery")
        only(node, "this", "db", "catalog", "alias")
        if len(node.parts) == 1 and node.name.casefold() in ctes:
            return ctes[node.name.casefold()]
        found = self.catalog.relation(node, self.principal, beside_persons=self._beside_persons)
        self.tables.add(found.table or "")
        return found

    # ---- SELECT

    def _select(self, node: exp.Select, ctes: dict[str, Relation], depth: int) -> Relation:
        only(node, *SELECT_ARGS)
        if holds_margins(node):
            return self._margins(node, ctes, depth)
        rows = rows_of(node, self.catalog, self.dialect, lambda part: self._find(part, ctes, depth), self.used)
        distinct = node.args.get("distinct")
        if distinct is not None:
            only(distinct)
        items = items_of(node, rows)
        where = node.args.get("where")
        if where is not None:
            only(where, "this")
            rows.tree = rows.tree.where(condition(where.this, rows).tree, copy=False)
        if (
            rows.multiplies and self.aggregate is bind_aggregate
        ):  # an exact answer is of all rows, and its time is no secret
            thin(rows, where.this if where is not None else None, self.catalog.policy.rows)
        groups = groups_of(node, items, rows)
        if rows.nature != "private":
            return self._plain(node, rows, items, groups, depth)
        aggregated = [*(item.node for item in items), node.args.get("having"), node.args.get("order")]
        has_aggregate = any(part is not None and holds_aggregate(part) for part in aggregated)
        if distinct is not None and not groups and not has_aggregate:
            groups = [item.node for item in items]  # of an aggregate, DISTINCT is of the noisy rows
        keys = [bind(group, rows) for group in groups]
        by_person = any(key.unit for key in keys)
        answered_here = not by_person and bool(keys or has_aggregate)
        require_persons(rows, where.this if where is not None else None, groups, aggregated, answered=answered_here)
        if by_person:
            return self._person(node, rows, items, keys, depth)
        if depth == 0 and not keys and not has_aggregate and self._is_empty(node):
            return self._empty(node, rows, items)
        if keys or has_aggregate:
            return self._core(node, rows, items, keys, depth, where)
        return self._projection(node, rows, items, depth)

    def _place(self, rows: FromRows, kind: str, core: Core | None = None, **more: Any) -> Place:
        return Place(rows, kind, self.catalog.policy, self.aggregate, core, **more)

    def _bound(self, items: list[Item], place: Place) -> Columns:
        # What * stands for is a column of the rows; of a group it must be looked up among the keys.
        starred = place.kind in ("rows", "plain") and not place.grouped
        read = bind_shown if place.kind == "plain" else bind
        return [
            (item.name, item.value if starred and item.value is not None else read(item.node, place)) for item in items
        ]

    def _is_empty(self, node: exp.Select) -> bool:
        """Whether there is no row, whatever the data: then the answer has columns only, and nothing is read."""
        if limits_to_nothing(node):
            return True
        grouped = any(node.args.get(name) is not None for name in ("group", "having"))
        where = node.args.get("where")
        alone = not grouped and not any(holds_aggregate(each) for each in node.expressions)
        return alone and where is not None and excludes_all(where.this)

    def _empty(self, node: exp.Select, rows: FromRows, items: list[Item]) -> Relation:
        place = self._place(rows, "rows")
        columns = self._bound(items, place)
        self._finished(node, exp.Select(), columns, items, place)  # what is wrong in ORDER BY is refused all the same
        return empty_answer(dict(columns), _labels(items), self.catalog.schema)

    def _margins(self, node: exp.Select, ctes: dict[str, Relation], depth: int) -> Relation:
        """ROLLUP, CUBE and GROUPING SETS: a core for each set of keys, which the controls judge together."""
        group = node.args["group"]
        if self.aggregate is bind_aggregate:
            hint = "write a statement for each grouping"
            raise refusal(group, "ROLLUP, CUBE and GROUPING SETS are not answered with noise", hint=hint)
        if node.args.get("distinct") is not None:
            raise refusal(node, "DISTINCT of several groupings is not answered")
        written, sets = read_sets(group)
        rows = rows_of(node, self.catalog, self.dialect, lambda part: self._find(part, ctes, depth), self.used)
        items = items_of(node, rows)
        named = [item for item in items if not rows.has(item.name)]
        keys = [resolve_item(each, items, "GROUP BY", named) for each in written]
        bound = [bind(key, rows) for key in keys]
        kinds = [key.kind for key in bound]
        if any(key.unit for key in bound):
            raise refusal(group, "these groupings are not answered at once", hint="leave the privacy unit out")
        if rows.nature != "private" or not any(holds_aggregate(item.node) for item in items):
            hint = "ask for aggregates of private tables, and write each other grouping as a statement of its own"
            raise refusal(group, "these groupings are not answered at once", hint=hint)
        if any(kind not in VALUES for kind in kinds):
            raise refusal(group, "values of this type are not grouped by in several ways at once")
        everything = tuple(range(len(keys)))
        hidden = [] if everything in sets else [everything]
        start, family = len(self.cores), 1 + max((core.family for core in self.cores), default=0)
        for chosen in hidden:
            self._select(select_set(node, items, keys, kinds, chosen), ctes, depth + 1)
        union = union_of([select_set(node, items, keys, kinds, chosen) for chosen in sets])
        for name in ("limit", "offset"):
            if node.args.get(name) is not None:
                union.set(name, node.args[name].copy())
        if (order := order_by_place(node.args.get("order"), items)) is not None:
            union.set("order", order)
        if isinstance(union, exp.Select):
            found = self._select(union, ctes, depth + 1)
        else:
            found = self._set_operation(union, ctes, depth)
        made = self.cores[start:]
        if found.nature != "noisy" or len(made) != len(hidden) + len(sets):
            raise refusal(group, "these groupings are not answered at once", hint="name aggregates and keys alone")
        for core, chosen in zip(made, [*hidden, *sets], strict=True):
            core.family, core.places, core.shown = family, chosen, chosen not in hidden
        return replace(found, labels=_labels(items))

    # ---- the four

    def _projection(self, node: exp.Select, rows: FromRows, items: list[Item], depth: int) -> Relation:
        columns = self._bound(items, self._place(rows, "rows"))
        self._nothing_more(node, depth, "having", "order", "limit", "offset")
        return self._private(rows, columns, [], None, rows.unique)

    def _person(self, node: exp.Select, rows: FromRows, items: list[Item], keys: list[Value], depth: int) -> Relation:
        """GROUP BY with the unit: one row a person (and key), exact, still private."""
        self._nothing_more(node, depth, "order", "limit", "offset")
        if node.args.get("distinct") is not None and node.args.get("group") is not None:
            raise refusal(node, "DISTINCT below the aggregate is not answered", hint="GROUP BY alone is distinct")
        place = self._place(rows, "person", keys=keys)
        columns = self._bound(items, place)
        having = node.args.get("having")
        held = None
        if having is not None:
            only(having, "this")
            held = condition(having.this, place).tree
        alone = all(key.unit for key in keys)
        return self._private(rows, columns, [key.whole if key.unit else key.tree for key in keys], held, alone)

    def _private(
        self,
        rows: FromRows,
        columns: Columns,
        groups: list[exp.Expr],
        having: exp.Expr | None,
        unique: bool,
    ) -> Relation:
        assert rows.unit is not None
        select = rows.tree.copy()
        for name, value in columns:
            select = select.select(exp.alias_(value.tree, name, quoted=True), copy=False)
        select = select.select(exp.alias_(rows.unit.copy(), UNIT, quoted=True), copy=False)
        if groups:
            varying = [group.copy() for group in groups if not _is_constant(group)]
            select = select.group_by(rows.unit.copy(), *varying, copy=False)
        if having is not None:
            select = select.having(having, copy=False)
        # What is computed with was put in above, in place of what is stored.
        outside = {
            name: replace(value, stored=None, plain=None, uncut=False).renamed(
                exp.column(exp.to_identifier(name, quoted=True))
            )
            for name, value in columns
        }
        return Relation(
            select, outside, "private", unique=unique, fanouts=fanouts_of(rows), privates=rows.privates,
            multiplied=rows.multiplied and not unique, joined=rows.joined,
        )  # fmt: skip

    def _nothing_more(self, node: exp.Expr, depth: int, *names: str) -> None:
        for name in names:
            if node.args.get(name) is not None:
                if depth == 0:
                    raise not_shown()  # there is no aggregate: LIMIT 5 still asks for rows
                raise refusal(
                    node.args[name],
                    f"{name.upper()} below the aggregate is not answered",
                    hint="order and limit the answer itself",
                )

    def _core(
        self, node: exp.Select, rows: FromRows, items: list[Item], keys: list[Value], depth: int, where: exp.Expr | None
    ) -> Relation:
        """One private aggregate: its exact integers become a noisy table, and the rest is SQL over that table."""
        assert rows.unit is not None
        core = Core(
            len(self.cores), rows.tree, rows.unit, rows.unique, keys, "none", fanouts=fanouts_of(rows),
            joined=rows.joined,
        )  # fmt: skip
        self.cores.append(core)
        for key in keys:
            if key.kind == "null":
                raise refusal(node, "GROUP BY takes an expression of columns")
        set_key_mode(core, rows, where)
        place = self._place(rows, "group", core, keys=keys)
        columns = self._bound(items, place)
        select = exp.Select().from_(exp.to_table(core.table), copy=False)
        having = node.args.get("having")
        if having is not None:
            only(having, "this")
            select = select.where(condition(self._unnamed(having.this, items, rows), place).tree, copy=False)
        select = self._finished(node, select, columns, items, place)
        if depth == 0:
            found = {item.name: bars_of(item.node, place, place.bars) for item in items}
            self.bars = {name: ends for name, ends in found.items() if ends is not None}
        self.answered += place.answered
        noisy = [holds_noise(item.node, place.bars) for item in items]
        spreads = [
            spreads_of(item.node, place, place.bars) if has else None for item, has in zip(items, noisy, strict=True)
        ]
        made = Relation(select, _outside(columns), "noisy", labels=_labels(items))
        return self._told(made, noisy, spreads, depth)

    def _told(
        self, relation: Relation, noisy: Sequence[bool], spreads: Sequence[tuple[Spread, ...] | None], depth: int
    ) -> Relation:
        """A relation of noisy rows, whose columns know whether they have noise; `bare` names those without bars."""
        columns = {
            name: replace(value, noisy=has, spreads=spread)
            for (name, value), has, spread in zip(relation.columns.items(), noisy, spreads, strict=True)
        }
        if depth == 0:
            self.bare = tuple(
                name
                for name, value in columns.items()
                if value.noisy and value.kind in NUMBERS and name not in self.bars
            )
        return replace(relation, columns=columns)

    def _unnamed(self, node: exp.Expr, items: list[Item], rows: FromRows) -> exp.Expr:
        """HAVING may use names of the SELECT list, as DuckDB allows."""
        named = {item.name.casefold(): item.node for item in items if not rows.has(item.name)}

        def swap(part: exp.Expr) -> exp.Expr:
            if type(part) is exp.Column and not part.table and part.name.casefold() in named:
                return exp.Paren(this=named[part.name.casefold()].copy())
            return part

        return node.copy().transform(swap, copy=False)

    def _plain(
        self, node: exp.Select, rows: FromRows, items: list[Item], groups: list[exp.Expr], depth: int
    ) -> Relation:
        having = node.args.get("having")
        aggregated = [*(item.node for item in items), node.args.get("order")]
        grouped = bool(groups) or having is not None
        grouped = grouped or any(part is not None and holds_aggregate(part) for part in aggregated)
        keys = [bind(group, rows) for group in groups]
        place = self._place(rows, "plain", keys=keys, grouped=grouped)
        columns = self._bound(items, place)
        select = rows.tree.copy()
        if keys:
            varying = [key.shown.copy() for key in keys if not _is_constant(key.shown)]
            # One group of all rows, and none where there is no row: a cast is not taken for the place of a column.
            select = select.group_by(*(varying or [exp.cast(exp.Literal.number(1), "int")]), copy=False)
        if having is not None:
            only(having, "this")
            select = select.having(condition(self._unnamed(having.this, items, rows), place).tree, copy=False)
        select = self._finished(node, select, columns, items, place)
        if grouped:
            select.meta[UNSTABLE] = True
        made = Relation(select, _outside(columns), rows.nature, labels=_labels(items))
        if rows.nature != "noisy":
            return made
        noisy = [_has_noise(item.node, rows) for item in items]
        spreads = [spreads_of(item.node, rows, {}) if has else None for item, has in zip(items, noisy, strict=True)]
        return self._told(made, noisy, spreads, depth)

    def _finished(
        self, node: exp.Select, select: exp.Select, columns: Columns, items: list[Item], place: Place
    ) -> exp.Select:
        """Projection, DISTINCT, ORDER BY, LIMIT and OFFSET of rows that may be seen."""
        for name, value in columns:
            tree = key_tree(value) if value.kind in NUMBERS and value.plain is None else value.shown
            select = select.select(exp.alias_(tree, name, quoted=True), copy=False)
        if node.args.get("distinct") is not None:
            if any(value.kind == "opaque" for _, value in columns):
                raise refusal(node, "DISTINCT of values of this type is not answered")
            select.set("distinct", exp.Distinct())
        select = self._ordered(node, select, columns, items, place)
        for name in ("limit", "offset"):
            clause = node.args.get(name)
            if clause is None:
                continue
            given = bind(_count(clause), place)
            given.must_be("int")
            if given.nothing:
                continue  # LIMIT NULL is none, as in PostgreSQL
            literal = given.literal
            if type(literal) is not int or not 0 <= literal <= 10**9:
                raise refusal(clause, f"{name.upper()} takes a whole number")
            select = getattr(select, name)(literal, copy=False)
        if select.find(exp.Limit, exp.Offset, exp.Window):
            select.meta[UNSTABLE] = True
        return select

    def _ordered(
        self, node: exp.Select, select: exp.Select, columns: Columns, items: list[Item], place: Place
    ) -> exp.Select:
        clause = node.args.get("order")
        if clause is None:
            return select
        only(clause, "expressions")
        for each in clause.expressions:
            only(each, "this", "desc", "nulls_first")
            wanted = resolve_item(each.this, items, "ORDER BY")
            same = [value for item, (_, value) in zip(items, columns, strict=True) if item.node is wanted]
            value = same[0] if same and same[0].kind != "opaque" else bind(wanted, place)
            if _is_constant(value.shown):
                continue
            select = select.order_by(
                exp.Ordered(
                    this=value.shown.copy(),
                    desc=bool(each.args.get("desc")),
                    nulls_first=bool(each.args.get("nulls_first")),
                ),
                copy=False,
            )
        return select

    # ---- UNION, EXCEPT, INTERSECT

    def _set_operation(self, node: exp.Expr, ctes: dict[str, Relation], depth: int) -> Relation:
        only(node, "with_", "this", "expression", "distinct", "order", "limit", "offset")
        left = self.query(node.this, ctes, depth + 1)
        right = self.query(node.expression, ctes, depth + 1)
        name = node.key.upper()
        if left.nature != right.nature:
            raise refusal(node, f"{name} of private, public and noisy rows is not answered", hint="aggregate first")
        if len(left.columns) != len(right.columns):
            raise refusal(node, f"each {name} query must have the same number of columns", sqlstate="42601")
        columns: dict[str, Value] = {}
        for (label, a), b in zip(left.columns.items(), right.columns.values(), strict=True):
            if a.kind == "opaque" and (type(node) is not exp.Union or node.args.get("distinct")):
                raise refusal(node, f"{name} of values of this type is not answered", hint="UNION ALL is")
            if a.kind != b.kind or not _matched(a, b):
                raise refusal(node, f"{name} types {a.kind} and {b.kind} cannot be matched", sqlstate="42804")
            stored = a.stored if a.stored == b.stored else a.beside if a.beside in ALONE else None
            columns[label] = replace(
                a, bounds=_wider(a, b), keys=None, unit=a.unit and b.unit, source=None, public=a.public and b.public,
                # A promise needs both sides: a literal is within its bounds as it stands, a column is not.
                clamped=a.clamped and b.clamped, computed=a.computed or b.computed, stored=stored,
                size=max(a.longest, b.longest) if a.kind == "text" else None, uncut=a.uncut or b.uncut,
                plain=a.plain if stored is not None else None, noisy=a.noisy or b.noisy, spreads=_either(a, b),
            )  # fmt: skip
        if left.nature == "private":
            if type(node) is exp.Union and node.args.get("distinct") and any(each.unit for each in columns.values()):
                return self._distinct_union(node, ctes, depth)
            if type(node) is not exp.Union or node.args.get("distinct"):
                hint = "UNION ALL is, and UNION of rows that hold the privacy unit"
                raise refusal(node, f"{name} of private rows is not answered", hint=hint)
            self._nothing_more(node, depth, "order", "limit", "offset")
        made = type(node)(this=left.tree.copy(), expression=right.tree.copy(), distinct=bool(node.args.get("distinct")))
        if left.nature != "private":
            return self._around(node, Relation(made, columns, left.nature, labels=left.labels))
        return Relation(
            made, columns, "private", fanouts=(*left.fanouts, *right.fanouts), privates=left.privates + right.privates,
            multiplied=left.multiplied or right.multiplied, joined=left.joined + right.joined,
        )  # fmt: skip

    def _distinct_union(self, node: exp.Expr, ctes: dict[str, Relation], depth: int) -> Relation:
        """UNION of rows with the unit, as SELECT DISTINCT of UNION ALL: each person has their own set of rows."""
        self._nothing_more(node, depth, "order", "limit", "offset")
        every = node.copy()
        every.set("with_", None)  # whose relations are in `ctes`
        every.set("distinct", False)
        rows = exp.Subquery(this=every, alias=exp.TableAlias(this=exp.to_identifier("sides")))
        select = exp.Select(expressions=[exp.Star()], distinct=exp.Distinct()).from_(rows, copy=False)
        return self._select(select, ctes, depth + 1)

    def _around(self, node: exp.Expr, relation: Relation) -> Relation:
        """A set operation as a subquery, so that ORDER BY and LIMIT are bound by the same rules as elsewhere."""
        named = NamedRelation("sides", "r0", relation)
        rows = FromRows(self.dialect, [named], nature=relation.nature)
        rows.tree = rows.tree.from_(
            exp.Subquery(this=relation.tree, alias=exp.TableAlias(this=exp.to_identifier("r0"))), copy=False
        )
        items = [
            Item(name, exp.column(name), named.value(name), label)
            for name, label in zip(relation.columns, relation.shown_names, strict=True)
        ]
        outer = exp.Select(**{key: node.args.get(key) for key in ("order", "limit", "offset")})
        place = self._place(rows, "plain")
        columns = self._bound(items, place)
        select = self._finished(outer, rows.tree, columns, items, place)
        return Relation(select, _outside(columns), relation.nature, labels=relation.labels)


def _is_constant(tree: exp.Expr) -> bool:
    """Whether a value is the same in all rows. As a key it changes nothing, and is left out: GROUP BY and ORDER BY
    take a bare number for the place of a column, and PostgreSQL refuses other literals there."""
    return tree.find(exp.Column, exp.Star, exp.AggFunc, exp.Window, exp.WithinGroup, exp.Anonymous, exp.Query) is None


def _count(clause: exp.Expr) -> exp.Expr:
    """How many rows LIMIT, OFFSET or FETCH FIRST … ROWS ONLY says."""
    if type(clause) is not exp.Fetch:
        only(clause, "expression")
        count: exp.Expr = clause.expression
        return count
    only(clause, "direction", "count", "limit_options")
    options = clause.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise refusal(clause, "FETCH with PERCENT or WITH TIES is not answered", hint="FETCH FIRST 5 ROWS ONLY is")
    fetched: exp.Expr | None = clause.args.get("count")
    return fetched if fetched is not None else exp.Literal.number(1)


def not_shown() -> Refused:
    return Refused(
        "rows of persons are not shown",
        hint="ask for aggregates: COUNT, SUM, AVG, …, with a GROUP BY that does not hold the privacy unit",
        sqlstate="42501",
    )


def _matched(a: Value, b: Value) -> bool:
    """Whether values of one kind are stored as types that an engine brings together: int2 and int8 are."""
    return a.stored == b.stored or (a.kind != "opaque" and (a.beside == b.beside or not {a.beside, b.beside} & ALONE))


def _either(a: Value, b: Value) -> tuple[Spread, ...] | None:
    """How far noise moves a column of a set operation, whose rows are from either side."""
    sides = [each.spreads if each.noisy else (NO_NOISE,) for each in (a, b)]
    left, right = sides
    return (*left, *right) if (a.noisy or b.noisy) and left is not None and right is not None else None


def _labels(items: list[Item]) -> tuple[str, ...]:
    return tuple(item.label for item in items)


def _has_noise(node: exp.Expr, rows: FromRows) -> bool:
    """Of an expression over noisy rows: it reads a column with noise, or looks at several rows or at another query."""
    if holds_aggregate(node) or node.find(exp.Window, exp.Query) is not None:
        return True
    return any(bind(column, rows).noisy for column in node.find_all(exp.Column))


def _outside(columns: Columns) -> dict[str, Value]:
    return {
        name: replace(value.renamed(exp.column(exp.to_identifier(name, quoted=True))), clamped=False, computed=False)
        for name, value in columns
    }


def _wider(a: Value, b: Value) -> Interval | None:
    return hull([a.bounds, b.bounds]) if a.bounds is not None and b.bounds is not None else None
