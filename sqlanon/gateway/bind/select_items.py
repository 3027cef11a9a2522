"""The columns of a SELECT: their names, and what positions and names in GROUP BY and ORDER BY stand for."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlanon.gateway.bind.scalars import only, refusal
from sqlanon.gateway.bind.sources import FromRows
from sqlanon.gateway.bind.type_names import TYPE_NAMES
from sqlanon.gateway.bind.values import OWN, WRITTEN, Value

MAX_ITEMS = 100


@dataclass
class Item:
    """A column of a SELECT: its name, and what the analyst wrote; bound already where * stood for it."""

    name: str  # of its own: a name that is there already has a number after it
    node: exp.Expr
    value: Value | None = None
    label: str = ""  # what a client sees; several may be the same


def items_of(node: exp.Select, rows: FromRows) -> list[Item]:
    items: list[Item] = []
    for each in node.expressions:
        stars = rows.star(each)
        if stars is not None:
            items += [Item(name, exp.column(name), value, label) for name, value, label in stars]
            continue
        inner = each
        if type(each) is exp.Alias:
            only(each, "this", "alias")
            inner = each.this
        label = each.alias if type(each) is exp.Alias else name_of(inner)
        items.append(Item(label, inner, label=label))
    if not node.expressions:
        raise refusal(node, "a SELECT of nothing is not answered")
    if not items or len(items) > MAX_ITEMS:
        raise refusal(node, f"a SELECT has 1 to {MAX_ITEMS} columns", sqlstate="54011")
    taken: set[str] = set()
    for item in items:
        plain, number = item.name, 1
        while item.name.casefold() in taken:
            item.name, number = f"{plain}_{number}", number + 1
        taken.add(item.name.casefold())
    if any(item.name.casefold().startswith(OWN) and item.name not in WRITTEN for item in items):
        hint = f"names that begin with {OWN} are the gateway's own"
        raise refusal(node, "a column has a reserved name", hint=hint, sqlstate="42939")
    return items


def groups_of(node: exp.Select, items: list[Item], rows: FromRows) -> list[exp.Expr]:
    """What is grouped by, with positions and names of the SELECT list replaced by what they stand for."""
    group = node.args.get("group")
    if group is None:
        return []
    only(group, "expressions")
    if not group.expressions:
        raise refusal(group, "GROUP BY takes a list of expressions", sqlstate="42601")
    # A name that is both is the column, as in PostgreSQL.
    named = [item for item in items if not rows.has(item.name)]
    return [resolve_item(each, items, "GROUP BY", named) for each in group.expressions]


def resolve_item(node: exp.Expr, items: list[Item], clause: str, named: list[Item] | None = None) -> exp.Expr:
    if type(node) is exp.Literal and not node.is_string:
        if not node.this.isdigit() or not 1 <= int(node.this) <= len(items):
            raise refusal(node, f"{clause} position {node.this[:20]} is not in the select list", sqlstate="42P10")
        return items[int(node.this) - 1].node
    if type(node) is exp.Column and not node.table:
        for item in items if named is None else named:
            own = type(item.node) is exp.Column and item.node.name.casefold() == node.name.casefold()
            if item.name.casefold() == node.name.casefold() and not own:
                return item.node
    return node


def name_of(node: exp.Expr) -> str:
    """What PostgreSQL calls a column without an alias."""
    return _name(node)[0] or "?column?"


def _name(node: exp.Expr) -> tuple[str | None, bool]:
    """A name, and whether it is that of a column or function, which casts and CASE keep."""
    while type(node) in (exp.Paren, exp.Filter, exp.Window, exp.WithinGroup):
        node = node.this
    if type(node) is exp.Column:
        return node.name, True
    if isinstance(node, exp.Cast):
        inner, kept = _name(node.this)
        return (inner, True) if kept else (TYPE_NAMES.get(node.args["to"].this, "?column?"), False)
    if type(node) is exp.Case:
        default = node.args.get("default")
        inner, kept = _name(default) if default is not None else (None, False)
        return (inner, True) if kept else ("case", False)
    if "written" in node.meta:
        return str(node.meta["written"]), True
    if type(node) is exp.Trim:
        return "btrim", True
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary | exp.Predicate):
        return node.sql_name().lower(), True
    return None, False
