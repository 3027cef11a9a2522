"""SELECT, UNION, VALUES and WITH."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.pgcatalog import expressions, sources
from sqlanon.pgcatalog.binder import CatalogBinder, Shared, only, refusal
from sqlanon.pgcatalog.bound_expression import NO_NAME, Bound, safe
from sqlanon.pgcatalog.calls import order_term
from sqlanon.pgcatalog.kinds import INT8, TEXT
from sqlanon.pgcatalog.plans import QueryPlan, SelectPlan, SetPlan, ValuesPlan, WrappedPlan
from sqlanon.pgcatalog.scope import SelectScope, fields_of, fold_name

MOST_COLUMNS = 1664
SELECT = frozenset({
    "expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct", "with_",
})  # fmt: skip
SETS = (exp.Union, exp.Except, exp.Intersect)
SET = frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_"})


def query(b: CatalogBinder, node: exp.Expr, scope: SelectScope | None) -> QueryPlan:
    """The plan of a query; `scope` is what stands around it."""
    if type(node) is exp.Subquery:
        only(node, frozenset({"this", "order", "limit", "offset", "with_", "alias"}))
        if node.args.get("alias") is not None:
            raise Refused("a query has no alias here", sqlstate="42601")
        shared = _with(b, node, scope)
        inner = b.query(node.this, scope)
        others = {**_outer_order(b, node, inner, scope), **shared}
        return WrappedPlan(inner.names, inner.items, inner, others) if others else inner
    if type(node) is exp.Select:
        only(node, SELECT)
        return _select(b, node, scope)
    if type(node) in SETS:
        only(node, SET)
        return _set(b, node, scope)
    if type(node) is exp.Values:
        only(node, frozenset({"expressions", "alias", "order", "limit", "offset"}))
        return values(b, node, scope)
    raise refusal(node)


def _with(b: CatalogBinder, node: exp.Expr, scope: SelectScope | None) -> dict[str, exp.Expr]:
    """The queries that WITH names, bound in order; what the generated statement has in its place."""
    given = node.args.get("with_")
    if given is None:
        return {}
    only(given, frozenset({"expressions", "recursive"}))
    recursive, made = bool(given.args.get("recursive")), []
    for each in given.expressions:
        only(each, frozenset({"this", "alias", "materialized"}))
        name = fold_name(each.args["alias"].this)
        wanted = [fold_name(column) for column in each.args["alias"].args.get("columns") or []]
        alias = b.fresh("w")
        body = each.this
        if recursive and type(body) is exp.Union and _names(body, name):
            plan = _recursive(b, body, scope, name, wanted, alias)
        else:
            plan = b.query(body, scope)
            plan.settle()
        names = rename_columns(plan.names, wanted)
        fields = fields_of(names, plan.items)
        b.shared[name] = Shared(alias, fields)
        columns = [exp.to_identifier(column.column) for column in fields]
        named = exp.TableAlias(this=exp.to_identifier(alias), columns=columns)
        # Materialized: a chain of queries that each name the one before twice would double with every link.
        once = None if type(plan) is SetPlan and recursive else True
        made.append(exp.CTE(this=plan.tree(), alias=named, materialized=once))
    return {"with_": exp.With(expressions=made, recursive=recursive)}


def rename_columns(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    if len(wanted) > len(names):
        raise Refused("more names are given than there are columns", sqlstate="42P10")
    return [*wanted, *names[len(wanted) :]]


def _names(node: exp.Expr, name: str) -> bool:
    return any(
        fold_name(table.this) == name for table in node.find_all(exp.Table) if isinstance(table.this, exp.Identifier)
    )


def _recursive(
    b: CatalogBinder, node: exp.Union, scope: SelectScope | None, name: str, wanted: list[str], alias: str
) -> QueryPlan:
    only(node, frozenset({"this", "expression", "distinct"}))
    left = b.query(node.this, scope)
    left.settle()
    b.shared[name] = Shared(alias, fields_of(rename_columns(left.names, wanted), left.items))
    right = b.query(node.expression, scope)
    _same_width(left, right)
    for place, item in enumerate(left.items):
        right.take(place, item.type)
    return SetPlan(left.names, list(left.items), [left, right], [(exp.Union, bool(node.args.get("distinct")))])


def _same_width(left: QueryPlan, right: QueryPlan) -> None:
    if len(left.items) != len(right.items):
        raise Refused("each UNION query must have the same number of columns", sqlstate="42601")


def _set(b: CatalogBinder, node: exp.Expr, scope: SelectScope | None) -> QueryPlan:
    shared = _with(b, node, scope)
    parts, links, first = [node.expression], [_link(node)], node.this
    while type(first) in SETS and not any(first.args.get(name) for name in ("order", "limit", "offset", "with_")):
        only(first, SET)
        parts.append(first.expression)
        links.append(_link(first))
        first = first.this
    plans = [b.query(each, scope) for each in (first, *reversed(parts))]
    for other in plans[1:]:
        _same_width(plans[0], other)
    plan = SetPlan(plans[0].names, list(plans[0].items), plans, links[::-1])
    for place in range(len(plan.items)):
        column = [each.items[place] for each in plans]
        if not all(item.unknown for item in column):
            plan.take(place, b.casts.common(column, node.key.upper()))
    others = {**_outer_order(b, node, plan, scope), **shared}
    if shared or not others:
        plan.others = others
        return plan
    return WrappedPlan(plan.names, plan.items, plan, others)


def _link(node: exp.Expr) -> tuple[type[exp.SetOperation], bool]:
    return type(node), bool(node.args.get("distinct"))  # type: ignore[return-value]


def _outer_order(b: CatalogBinder, node: exp.Expr, plan: QueryPlan, scope: SelectScope | None) -> dict[str, exp.Expr]:
    """ORDER BY and LIMIT of what has columns, but no relations of its own."""
    others: dict[str, exp.Expr] = {}
    order = node.args.get("order")
    if order is not None:
        keys = [_output(plan.names, each) for each in order.expressions]
        if None in keys:
            raise Refused("UNION is ordered by its columns", sqlstate="0A000")
        others["order"] = exp.Order(
            expressions=[
                order_term(exp.Literal.number(key + 1), each)  # type: ignore[operator]
                for key, each in zip(keys, order.expressions, strict=True)
            ]
        )
    return {**others, **_limits(b, node, scope)}


def _limits(b: CatalogBinder, node: exp.Expr, scope: SelectScope | None) -> dict[str, exp.Expr]:
    made: dict[str, exp.Expr] = {}
    for name, kind in (("limit", exp.Limit), ("offset", exp.Offset)):
        given = node.args.get(name)
        if given is None:
            continue
        if type(given) is exp.Fetch:
            options = given.args.get("limit_options")
            if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
                raise Refused("this FETCH is not answered here", sqlstate="0A000")
            count = given.args.get("count") or exp.Literal.number(1)
        else:
            only(given, frozenset({"this", "expression"}))
            count = given.expression
        if type(count) is exp.Var and count.name.upper() == "ALL":
            continue
        item = b.casts.to(b.expression(count, SelectScope(scope)), INT8)
        if item.constant and item.value is None:
            continue
        if item.constant and item.value < 0:
            raise Refused(f"{name.upper()} must not be negative", sqlstate="2201W" if name == "limit" else "2201X")
        tree = exp.Literal.number(item.value) if item.constant else exp.Literal.number(0)
        made[name] = kind(expression=tree)
    return made


def _output(names: Sequence[str], node: exp.Expr) -> int | None:
    """The column of the result that a key of ORDER BY names, by place or by name."""
    if type(node) is not exp.Ordered or node.args.get("with_fill"):
        raise Refused("this ORDER BY is not answered here", sqlstate="0A000")
    return output(names, node.this)


def output(names: Sequence[str], key: exp.Expr) -> int | None:
    while type(key) is exp.Paren:
        key = key.this
    if type(key) is exp.Literal and not key.is_string and str(key.this).isdigit():
        place = int(key.this)
        if not 0 < place <= len(names):
            raise Refused(f"ORDER BY position {place} is not in select list", sqlstate="42P10")
        return place - 1
    if type(key) is exp.Column and not key.args.get("table"):
        name = fold_name(key.this)
        return list(names).index(name) if name in names else None
    return None


def _select(b: CatalogBinder, node: exp.Select, scope: SelectScope | None) -> QueryPlan:
    made = exp.Select()
    for name, value in _with(b, node, scope).items():
        made.set(name, value)
    inner = SelectScope(scope)
    sources.add(b, node, made, inner)
    names, items = _columns(b, node, inner)
    if (where := node.args.get("where")) is not None:
        made.set("where", exp.Where(this=b.condition(where.this, inner)))
    if (having := node.args.get("having")) is not None:
        made.set("having", exp.Having(this=b.condition(having.this, inner)))
    plan = SelectPlan(names, items, b.casts, made)
    if (order := node.args.get("order")) is not None:
        keys = [_order_key(b, plan, each, inner) for each in order.expressions]
        made.set("order", exp.Order(expressions=keys))
    if (group := node.args.get("group")) is not None:
        made.set("group", _group(b, plan, group, inner))
    if (distinct := node.args.get("distinct")) is not None:
        made.set("distinct", _distinct(b, plan, distinct, inner))
    for name, value in _limits(b, node, scope).items():
        made.set(name, value)
    return plan


def _columns(b: CatalogBinder, node: exp.Select, scope: SelectScope) -> tuple[list[str], list[Bound]]:
    items: list[Bound] = []
    for each in node.expressions:
        if type(each) is exp.Star:
            if any(each.args.values()):
                raise Refused("* EXCEPT is not answered here", sqlstate="0A000")
            items += scope.star(None)
        elif type(each) is exp.Column and type(each.this) is exp.Star:
            schema = each.args.get("db")
            items += scope.star(fold_name(each.args["table"]), fold_name(schema) if schema else None)
        elif type(each) is exp.Dot and type(each.expression) is exp.Star:
            items += expressions.every_field(b, each, scope)
        elif type(each) is exp.Alias:
            items.append(b.expression(each.this, scope).named(fold_name(each.args["alias"])))
        else:
            items.append(b.expression(each, scope))
        if len(items) > MOST_COLUMNS:
            raise Refused(f"a result has at most {MOST_COLUMNS} columns", sqlstate="54011")
    return [item.name or NO_NAME for item in items], items


def _order_key(b: CatalogBinder, plan: SelectPlan, node: exp.Expr, scope: SelectScope) -> exp.Expr:
    place = _output(plan.names, node)
    if place is not None:
        name, item = plan.names[place], plan.items[place]
        same = [other for other, called in zip(plan.items, plan.names, strict=True) if called == name]
        if type(node.this) is exp.Column and any(other.tree != item.tree for other in same):
            raise Refused(f'ORDER BY "{name[:80]}" is ambiguous', sqlstate="42702")
        return order_term(exp.Literal.number(place + 1), node)
    item = b.expression(node.this, scope)
    if item.unknown:
        item = b.casts.to(item, TEXT)
    return order_term(safe(item.tree), node)


def _group(b: CatalogBinder, plan: SelectPlan, node: exp.Expr, scope: SelectScope) -> exp.Expr:
    only(node, frozenset({"expressions"}))
    keys: list[exp.Expr] = []
    for each in node.expressions:
        place = output(plan.names, each) if type(each) is exp.Literal else None
        if place is None and type(each) is exp.Column and not each.args.get("table"):
            # A column of a relation wins over one of the result, unlike in ORDER BY.
            try:
                keys.append(b.expression(each, scope).tree)
                continue
            except Refused:
                place = output(plan.names, each)
                if place is None:
                    raise
        keys.append(exp.Literal.number(place + 1) if place is not None else safe(b.expression(each, scope).tree))
    return exp.Group(expressions=keys)


def _distinct(b: CatalogBinder, plan: SelectPlan, node: exp.Expr, scope: SelectScope) -> exp.Expr:
    only(node, frozenset({"on"}))
    on = node.args.get("on")
    if on is None:
        return exp.Distinct()
    keys = []
    for each in on.expressions if type(on) is exp.Tuple else [on]:
        place = output(plan.names, each)
        keys.append(safe(plan.items[place].tree.copy() if place is not None else b.expression(each, scope).tree))
    return exp.Distinct(on=exp.Tuple(expressions=keys))


def values(b: CatalogBinder, node: exp.Expr, scope: SelectScope | None) -> QueryPlan:
    if any(node.args.get(name) for name in ("order", "limit", "offset")):
        raise Refused("VALUES with ORDER BY or LIMIT is not answered here", sqlstate="0A000")
    rows: list[list[Bound]] = []
    for each in node.expressions:
        cells = each.expressions if type(each) is exp.Tuple else [each.this if type(each) is exp.Paren else each]
        rows.append([b.expression(cell, SelectScope(scope)) for cell in cells])
    width = len(rows[0])
    if any(len(row) != width for row in rows) or not width:
        raise Refused("VALUES lists must all be the same length", sqlstate="42601")
    plan = ValuesPlan([f"column{place + 1}" for place in range(width)], list(rows[0]), b.casts, rows)
    for place in range(width):
        column = [row[place] for row in rows]
        if not all(item.unknown for item in column):
            plan.take(place, b.casts.common(column, "VALUES"))
    return plan
