"""Arrays of literals, or given as a parameter: for = ANY(…) and <> ALL(…), and for nothing else."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sqlanon.gateway.bind.parameters import EXAMPLES, MAX_ELEMENTS, literal_as
from sqlanon.gateway.bind.scalars import Scope, bind, only, read_as, refusal, text_literal
from sqlanon.gateway.bind.type_names import ELEMENT_KINDS, TYPE_NAMES
from sqlanon.gateway.bind.values import Kind, Learned, ParameterSlot, Value
from sqlanon.sqlfront.literals import elements


def array_in(node: exp.Binary) -> exp.Expr | None:
    """What stands in ANY(…) or ALL(…) on the right of a comparison; None if there is neither."""
    right = node.expression
    if type(right) is exp.Any:
        only(right, "this")
        word, given = "ANY", right.this
    elif type(right) is exp.Anonymous and str(right.this).upper() in ("ALL", "SOME"):
        only(right, "this", "expressions")
        word = str(right.this).upper()
        if len(right.expressions) != 1:
            raise refusal(node, f"{word}() takes one array")
        given = right.expressions[0]
    else:
        return None
    if (type(node), word) not in ((exp.EQ, "ANY"), (exp.EQ, "SOME"), (exp.NEQ, "ALL")):
        raise refusal(node, f"{word}() is not answered here", hint="= ANY(…) and <> ALL(…) are")
    while type(given) is exp.Paren:
        only(given, "this")
        given = given.this
    assert isinstance(given, exp.Expr)
    return given


def elements_of(node: exp.Expr, given: exp.Expr, value: Value, scope: Scope) -> list[Value] | None:
    """The elements of an array that a value is compared with; None if it is NULL."""
    kind: Kind = "text" if value.kind == "null" else value.kind
    if type(given) is exp.Cast:
        only(given, "this", "to", "_type")
        kind, name = _element(given)
        inner = given.this
        while type(inner) is exp.Paren:
            only(inner, "this")
            inner = inner.this
        found = _plain(node, inner, kind, name, scope)
        return None if found is None else [_cast(node, item, kind) for item in found]
    return _plain(node, given, kind, value.beside, scope)


def _plain(node: exp.Expr, given: exp.Expr, kind: Kind, name: str | None, scope: Scope) -> list[Value] | None:
    if type(given) is exp.Null:
        return None
    if type(given) is exp.Array:
        only(given, "expressions", "bracket_notation")
        return _few(node, [bind(item, scope) for item in given.expressions])
    if type(given) is exp.Literal and given.is_string:
        texts = elements(str(given.this))
        return _few(
            node, [Value(exp.Null(), "null", public=True) if text is None else text_literal(text) for text in texts]
        )
    slot = given.meta.get("slot") if type(given) is exp.Placeholder else None
    if not isinstance(slot, ParameterSlot):
        raise refusal(node, "ANY() and ALL() take an array of literals, or a parameter", hint="use IN, or a join")
    return _parameter(node, slot, kind, name)


def _parameter(node: exp.Expr, slot: ParameterSlot, kind: Kind, name: str | None) -> list[Value] | None:
    if slot.kind is None:
        slot.kind, slot.type, slot.many = kind, name, True
        raise Learned
    if not slot.many:
        raise refusal(
            node, f"ANY() and ALL() need an array, and parameter ${slot.name} is a {slot.kind}", sqlstate="42809"
        )
    if not slot.filled:
        return [literal_as(EXAMPLES[slot.kind], slot.kind)]
    return slot.elements


def _few(node: exp.Expr, found: list[Value]) -> list[Value]:
    if len(found) > MAX_ELEMENTS:
        raise refusal(node, f"more than {MAX_ELEMENTS} elements are not answered", sqlstate="54000")
    return found


def _element(node: exp.Cast) -> tuple[Kind, str]:
    """The kind of the elements that an array is cast to, and PostgreSQL's name of their type."""
    to: Any = node.args["to"]
    only(to, "this", "expressions", "nested")
    inner = to.expressions[0] if to.this == exp.DataType.Type.ARRAY and len(to.expressions) == 1 else None
    kind = ELEMENT_KINDS.get(inner.this) if isinstance(inner, exp.DataType) and not inner.expressions else None
    if kind is None or inner is None:
        raise refusal(node, "a cast to this type is not answered in ANY() and ALL()", hint="cast to text[], int[], …")
    return kind, TYPE_NAMES[inner.this]


def _cast(node: exp.Expr, item: Value, kind: Kind) -> Value:
    if isinstance(item.literal, str) and kind != "text":
        return read_as(node, item.literal, kind)
    if item.kind not in ("null", kind) and not (item.kind == "int" and kind == "float"):
        raise refusal(node, f"a cast of {item.kind} to {kind} is not answered here", sqlstate="42846")
    return item
