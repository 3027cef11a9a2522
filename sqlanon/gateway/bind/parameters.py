"""Parameters of a statement: what kinds they are, by where they stand, and their values as literals.

A statement is bound until the kind of every parameter is known; a parameter that nothing tells of is a text, as in
PostgreSQL. The columns of an answer never depend on the value of a parameter, nor on its being NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.scalars import Scope, date_literal, number_literal, number_value, rule, text_literal
from sqlanon.gateway.bind.values import NUMBERS, Interval, Kind, ParameterSlot, Value

MAX_PARAMETERS = 1000
MAX_ELEMENTS = 1000  # of an array, and of all that are given
# Values that the rules take wherever they take any of the kind: a quantile between 0 and 1, a small power, a date.
EXAMPLES: dict[Kind, Any] = {
    "int": 1, "float": 0.5, "text": "2000-01-01", "bool": True, "date": date(2000, 1, 1),
    "timestamp": datetime(2000, 1, 1),
}  # fmt: skip
TYPES: dict[Kind, Any] = {
    "int": exp.DataType.Type.BIGINT, "float": exp.DataType.Type.DOUBLE, "text": exp.DataType.Type.TEXT,
    "bool": exp.DataType.Type.BOOLEAN, "date": exp.DataType.Type.DATE, "timestamp": exp.DataType.Type.TIMESTAMP,
}  # fmt: skip


@rule(exp.Placeholder)
def _placeholder(node: exp.Placeholder, scope: Scope) -> Value:
    slot = node.meta.get("slot")
    if not isinstance(slot, ParameterSlot):
        raise Refused("a parameter is not answered here", sqlstate="42601")
    if slot.many:
        raise Refused(f"parameter ${slot.name[:40]} is an array: = ANY(…) and <> ALL(…) are answered of it")
    return slot.bound()


def _example(slot: ParameterSlot) -> Value:
    if slot.kind is None:
        return Value(exp.Null(), "null", public=True)
    return literal_as(EXAMPLES[slot.kind], slot.kind)


def with_slots(tree: exp.Expr) -> tuple[exp.Expr, dict[str, ParameterSlot]]:
    """The tree with a slot for each parameter: ?, $1, $name and :name."""
    slots: dict[str, ParameterSlot] = {}
    count = 0

    def slotted(node: exp.Expr) -> exp.Expr:
        nonlocal count
        if type(node) not in (exp.Placeholder, exp.Parameter):
            return node
        name = node.name if node.this is not None else ""
        if not name:
            count += 1
            name = str(count)
        made = exp.Placeholder(this=name)
        made.meta["slot"] = slots.setdefault(name, ParameterSlot(name, _example))
        return made

    return tree.transform(slotted, copy=False), slots


def fill(
    slots: Mapping[str, ParameterSlot], given: Sequence[Any] | Mapping[str, Any], kinds: Sequence[str] | None
) -> None:
    """Bind parameters to values, of the given kinds, such as int or int[], or of the kinds of the Python values."""
    in_order = list(given) if not isinstance(given, Mapping) else []
    by_name = {str(name): value for name, value in given.items()} if isinstance(given, Mapping) else {}
    by_name |= {str(number): value for number, value in enumerate(in_order, start=1)}
    for name, slot in slots.items():
        if name not in by_name:
            raise Refused(f"there is no value for parameter ${name[:40]}", sqlstate="08P01")
        _fill(slot, by_name[name], None if kinds is None else kinds[int(name) - 1])
    if sum(len(slot.elements or ()) for slot in slots.values()) > MAX_ELEMENTS:
        raise Refused(f"more than {MAX_ELEMENTS} elements of arrays are not answered", sqlstate="54000")
    if kinds is None and len(slots) < len(by_name):
        raise Refused("more parameters are given than the statement has", sqlstate="08P01")


def _fill(slot: ParameterSlot, value: Any, kind: str | None) -> None:
    slot.filled = True
    slot.many = isinstance(value, list | tuple) if kind is None else kind.endswith("[]")
    if not slot.many:
        slot.value = literal_of(value) if kind is None else literal_as(value, kind_named(kind))
        slot.kind = slot.value.kind
        return
    if value is not None and not isinstance(value, list | tuple):
        raise Refused("a parameter is not an array", sqlstate="22P02")
    if value is not None and len(value) > MAX_ELEMENTS:
        raise Refused(f"more than {MAX_ELEMENTS} elements of arrays are not answered", sqlstate="54000")
    given = [] if value is None else value
    made = [literal_of(each) if kind is None else literal_as(each, kind_named(kind)) for each in given]
    slot.elements = None if value is None else made
    slot.kind = kind_named(kind) if kind is not None else next((each.kind for each in made), "text")


def kind_named(name: str) -> Kind:
    """
    >>> kind_named("int"), kind_named("int[]")
    ('int', 'int')
    """
    return next(kind for kind in TYPES if kind == name.removesuffix("[]"))


def number_slots(slots: Mapping[str, ParameterSlot], declared: Sequence[str | None]) -> list[ParameterSlot]:
    """Slots by their number from 1, with the kinds that are declared of some; gaps have slots of their own."""
    for name in slots:
        if not name.isdigit() or not 1 <= int(name) <= MAX_PARAMETERS:
            raise Refused(f"there is no parameter ${name[:40]}", sqlstate="42P02", hint="write $1, $2, …")
    most = max([len(declared), *map(int, slots)])
    listed = [slots.get(str(number)) or ParameterSlot(str(number), _example) for number in range(1, most + 1)]
    for slot, kind in zip(listed, declared, strict=False):
        slot.kind, slot.many = (None, False) if kind is None else (kind_named(kind), kind.endswith("[]"))
    return listed


def literal_as(value: Any, kind: Kind) -> Value:
    """A Python value as a literal of a kind, or a typed NULL."""
    if value is None:
        bounds = Interval(0, 0) if kind in NUMBERS else None
        return Value(exp.cast(exp.Null(), TYPES[kind]), kind, bounds, public=True, nothing=True)
    if kind == "int" and type(value) is int and _readable(value):
        return number_value(value, "int")
    if kind == "float" and isinstance(value, int | float | Decimal) and type(value) is not bool and _readable(value):
        return number_literal(exp.Null(), repr(abs(float(value))), "float") if value >= 0 else _negative(value)
    if kind == "text" and isinstance(value, str):
        return text_literal(value)
    if kind == "bool" and type(value) is bool:
        return Value(exp.Boolean(this=value), "bool", literal=value, public=True)
    if kind == "date" and isinstance(value, date):
        return date_literal(value.date() if isinstance(value, datetime) else value)
    if kind == "timestamp" and isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, datetime.min.time())
        return date_literal(_in_utc(moment))
    if kind in NUMBERS and isinstance(value, int | float | Decimal) and type(value) is not bool:
        raise Refused("a parameter is too large or too small", sqlstate="22003", hint="up to 18 digits are read")
    raise Refused(f"a parameter is not a {kind}", sqlstate="22P02")


def _negative(value: Any) -> Value:
    return number_value(-number_literal(exp.Null(), repr(-float(value)), "float").literal, "float")


def literal_of(value: Any) -> Value:
    """A Python value as a literal of the kind that it has in Python."""
    if value is None:
        return Value(exp.Null(), "null", public=True)
    if isinstance(value, bool):
        return Value(exp.Boolean(this=value), "bool", literal=value, public=True)
    if isinstance(value, int | float | Decimal):
        if not _readable(value):
            raise Refused("a parameter is too large or too small", sqlstate="22003", hint="up to 18 digits are read")
        literal = number_literal(exp.Null(), _digits(abs(value)))
        return number_value(-literal.literal, literal.kind) if value < 0 else literal
    if isinstance(value, str):
        return text_literal(value)
    if isinstance(value, date | datetime):
        return date_literal(_in_utc(value) if isinstance(value, datetime) else value)
    raise Refused(f"a parameter of type {type(value).__name__} is not answered", sqlstate="42804")


def _in_utc(moment: datetime) -> datetime:
    """A parameter with a zone is a timestamptz; what it is compared with is in UTC, as all sessions are."""
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise Refused("a parameter is out of range", sqlstate="22008") from None


def _readable(value: Any) -> bool:
    """Numbers that have few digits when they are written out; Decimal cannot compare what is not a number."""
    if isinstance(value, Decimal) and not (value.is_finite() and abs(value.adjusted()) <= 40):
        return False
    return bool(abs(value) <= 10**18)


def _digits(value: Any) -> str:
    return (
        str(value)
        if isinstance(value, int)
        else format(Decimal(repr(value) if isinstance(value, float) else value), "f")
    )
