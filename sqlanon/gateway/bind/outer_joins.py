"""Outer joins that keep the rows of a public table: only rows with a person are read, and no answer may need more.

How many rows of `regions` have no visit is a number about persons, and one person can move it by as many regions as
they visit: no bound of the policy holds for it. Rows without a person are therefore never read, and `regions LEFT JOIN
visits` is read as an inner join. That is the same wherever such a row, in which all columns of private tables are NULL,
is left out by WHERE or adds nothing to an aggregate. Every other statement is refused, except that COUNT(*) counts the
rows of persons alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.calls import call_of, is_aggregate
from sqlanon.gateway.bind.scalars import refusal
from sqlanon.gateway.bind.sources import FromRows

# What an expression is in a row without a person: NULL; NULL or 0; NULL or false; or anything.
Found = Literal["null", "zero", "false", "any"]
# NULL if any of their parts is.
STRICT = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod,
    exp.Neg, exp.Cast, exp.Lower, exp.Upper, exp.Length, exp.Abs, exp.Floor, exp.Ceil, exp.Round, exp.Sqrt,
    exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.Hour, exp.Minute, exp.DPipe, exp.Substring,
    exp.StartsWith, exp.TimestampTrunc, exp.DateTrunc,
)  # fmt: skip


def require_persons(
    rows: FromRows,
    where: exp.Expr | None,
    keys: Sequence[exp.Expr],
    shown: Iterable[exp.Expr | None],
    *,
    answered: bool,
) -> None:
    """Refuse a statement whose answer needs the rows without a person. `shown` is all that may hold aggregates;
    without `answered` it is a subquery, whose rows may be asked for anything."""
    if not rows.keeps_public:
        return
    asked = rows_without_person(where, rows) if where is not None else "any"
    if asked in ("null", "false"):
        return
    aggregates = [node for part in shown if part is not None for node in _aggregates(part)]
    looked_at = [node for node in (where, *keys) if node is not None and _reads_persons(node, rows)]
    if not answered or not aggregates or looked_at or not all(_adds_nothing(node, rows) for node in aggregates):
        place = next(iter(looked_at or aggregates), where or exp.Null())
        raise _refusal(place)


def _refusal(node: exp.Expr) -> Refused:
    return refusal(
        node,
        "rows of a public table that no row of a person matches are not read, and this statement asks for them",
        hint="write JOIN in place of LEFT or RIGHT JOIN, and aggregate columns of the private table: COUNT(v.id)",
    )


def _aggregates(node: exp.Expr) -> list[exp.Expr]:
    if is_aggregate(node):
        return [node]
    return [found for part in node.iter_expressions() for found in _aggregates(part)]


def _adds_nothing(node: exp.Expr, rows: FromRows) -> bool:
    call = call_of(node, rows)
    assert call is not None
    if call.filter is not None and rows_without_person(call.filter, rows) in ("null", "false"):
        return True
    if call.argument is None:
        return call.filter is None
    found = rows_without_person(call.argument, rows)
    return found == "null" or (found == "zero" and call.name == "sum")


def _reads_persons(node: exp.Expr, rows: FromRows) -> bool:
    return any(_is_personal(column, rows) for column in node.find_all(exp.Column))


def _is_personal(node: exp.Column, rows: FromRows) -> bool:
    found = rows.column(node).shown
    own = {source.alias for source in rows.sources if source.relation.nature == "private"}
    return isinstance(found, exp.Column) and found.table in own


def rows_without_person(node: exp.Expr, rows: FromRows) -> Found:
    """What an expression is where all columns of private tables are NULL."""
    kind = type(node)
    parts = [rows_without_person(part, rows) for part in node.iter_expressions()] if kind is not exp.Column else []
    if kind is exp.Column:
        return "null" if _is_personal(node, rows) else "any"  # type: ignore[arg-type]
    if kind is exp.Null:
        return "null"
    if kind is exp.Literal:
        return "zero" if not node.args.get("is_string") and node.name == "0" else "any"
    if kind is exp.Boolean:
        return "any" if node.this else "false"
    if kind is exp.Paren:
        return parts[0]
    if kind in STRICT:
        return "null" if "null" in parts else "any"
    if kind is exp.Is:
        return "false" if _is_known(node, rows, negated=bool(node.args.get("negate"))) else "any"
    if kind is exp.Not:
        inner = node.this.unnest()
        if type(inner) is exp.Is and _is_known(inner, rows, negated=not inner.args.get("negate")):
            return "false"
        return "null" if parts[0] == "null" else "any"
    if kind is exp.And:
        return "false" if {"null", "false"} & set(parts) else "any"
    if kind is exp.Or:
        return "false" if set(parts) <= {"null", "false"} else "any"
    if kind is exp.In:
        return "null" if node.args.get("query") is None and parts[0] == "null" else "any"
    if kind is exp.Between and not node.args.get("negate"):
        return "false" if "null" in parts else "any"
    if kind is exp.Coalesce:
        return _one_of(parts)
    if kind is exp.Case:
        return _case(node, rows)
    return "any"


def _is_known(node: exp.Expr, rows: FromRows, *, negated: bool) -> bool:
    """Whether it asks a column of persons to be there: IS NOT NULL."""
    return negated and type(node.expression) is exp.Null and rows_without_person(node.this, rows) == "null"


def _case(node: exp.Expr, rows: FromRows) -> Found:
    subject = node.args.get("this")
    nothing = subject is not None and rows_without_person(subject, rows) == "null"
    found: list[Found] = []
    for branch in node.args.get("ifs") or []:
        if not nothing and (subject is not None or rows_without_person(branch.this, rows) not in ("null", "false")):
            found.append(rows_without_person(branch.args["true"], rows))
    default = node.args.get("default")
    return _one_of([*found, rows_without_person(default, rows) if default is not None else "null"])


def _one_of(parts: Sequence[Found]) -> Found:
    if set(parts) == {"null"}:
        return "null"
    return "zero" if set(parts) <= {"null", "zero"} else "any"
