"""Statements that can have no row, as clients send them to learn the columns: WHERE 1 = 0, or LIMIT 0.

They are bound like all others, read nothing, and cost nothing. The catalog shows the same names and types.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sqlanon.gateway.bind.catalog import Schema, stored_type
from sqlanon.gateway.bind.conditions import conjuncts
from sqlanon.gateway.bind.parameters import TYPES
from sqlanon.gateway.bind.values import Relation, Value

COMPARED: dict[type, Callable[[float, float], bool]] = {
    exp.EQ: operator.eq, exp.NEQ: operator.ne, exp.LT: operator.lt, exp.GT: operator.gt,
}  # fmt: skip


def limits_to_nothing(node: exp.Expr) -> bool:
    """LIMIT 0, or FETCH FIRST 0 ROWS ONLY."""
    limit = node.args.get("limit")
    if limit is None:
        return False
    count = limit.args.get("count") if type(limit) is exp.Fetch else limit.expression
    return type(count) is exp.Literal and not count.is_string and count.this == "0"


def excludes_all(where: exp.Expr | None) -> bool:
    """Whether a condition is false whatever the rows hold, as 1 = 0 and false are.

    >>> import sqlglot
    >>> [excludes_all(sqlglot.condition(text)) for text in ("1 = 0", "a = 1 AND (FALSE)", "1 = 0 OR TRUE", "a = 0")]
    [True, True, False, False]
    """
    if where is None:
        return False
    for part in conjuncts(where):
        if type(part) is exp.Boolean and not part.this:
            return True
        compare = COMPARED.get(type(part))
        sides = [part.this, part.expression] if compare is not None else []
        if compare is not None and all(type(side) is exp.Literal and not side.is_string for side in sides):
            one, other = (float(side.this) for side in sides)
            if not compare(one, other):
                return True
    return False


def empty_answer(columns: Mapping[str, Value], labels: tuple[str, ...], schema: Schema) -> Relation:
    """No row, with columns of these types; a column of a table has the type that the catalog shows."""
    select = exp.Select().where(exp.Boolean(this=False), copy=False)
    found: dict[str, Value] = {}
    for name, value in columns.items():
        stored = value.stored
        if value.source is not None:
            table, column = value.source
            stored = next((stored_type(info.type) for info in schema.columns[table] if info.name == column), stored)
        tree = exp.cast(exp.Null(), _type(value, stored))
        select = select.select(exp.alias_(tree, name, quoted=True), copy=False)
        found[name] = replace(value, tree=exp.Null(), stored=stored, plain=None, unit=False, public=True)
    return Relation(select, found, "public", labels=labels)


def _type(value: Value, stored: str | None) -> Any:
    if stored is not None and stored.startswith("numeric"):
        return "DECIMAL(38, 0)"
    return exp.DataType.Type.TEXT if value.kind in ("null", "opaque") else TYPES[value.kind]
