"""From one type to another: what goes by itself, what takes a cast, and what constants become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.pgcatalog.bound_expression import Bound, call, cast, constant
from sqlanon.pgcatalog.kinds import (
    BY_OID,
    NUMBERS,
    NUMERIC,
    OID,
    OIDS,
    REG,
    STRINGS,
    TEXT,
    TEXTS,
    TIMES,
    UNKNOWN,
    WHOLE,
    array_of,
    duck_type,
    sql_name,
)
from sqlanon.pgcatalog.lookups import Lookups
from sqlanon.pgwire.frontend import ProtocolError
from sqlanon.pgwire.types import PgType, by_oid, decode, encode

MOST_PARAMETERS = 65_535
REG_TYPES = {"regclass", "regtype", "regproc", "regnamespace", "regrole"}


@dataclass
class Parameters:
    """The types of parameters, as far as they are given or follow from the statement; values, if it is to run."""

    types: dict[int, PgType] = field(default_factory=dict)
    values: Sequence[Any] | None = None
    seen: set[int] = field(default_factory=set)

    def place(self, number: int) -> Bound:
        if not 0 < number <= MOST_PARAMETERS or (self.values is not None and number > len(self.values)):
            raise Refused(f"there is no parameter ${number}", sqlstate="42P02")
        self.seen.add(number)
        if number not in self.types:
            return Bound(exp.Null(), UNKNOWN, parameter=number)
        return self._of(number, self.types[number])

    def settle(self, number: int, kind: PgType) -> Bound:
        """Decide on the type of a parameter; the first use of it does."""
        return self._of(number, self.types.setdefault(number, kind))

    def _of(self, number: int, kind: PgType) -> Bound:
        if self.values is None:
            return Bound(cast(exp.Null(), duck_type(kind)), kind)
        value = self.values[number - 1]
        if kind.name in REG_TYPES and isinstance(value, str):
            return Bound(exp.Literal.string(value), UNKNOWN, value=value)
        if isinstance(value, str) and (duck_type(kind) != "VARCHAR" or kind.name in ("json", "jsonb")):
            value = decode(by_oid(kind.oid), 0, value.encode())
        return constant(value, kind)

    def oids(self) -> tuple[int, ...]:
        """All types up to the last parameter; one that nothing tells is an error, as in PostgreSQL."""
        for number in range(1, max(self.seen | set(self.types), default=0) + 1):
            if number not in self.types:
                raise Refused(f"could not determine data type of parameter ${number}", sqlstate="42P18")
        return tuple(self.types[number].oid for number in sorted(self.types))


@dataclass(frozen=True)
class Casts:
    """Coercions; `lookups` reads the names of relations and types."""

    lookups: Lookups
    parameters: Parameters

    def to(self, item: Bound, kind: PgType, typmod: int = -1, *, explicit: bool = True) -> Bound:
        """The item as a value of a type, under its own name."""
        made = self._to(item, kind, explicit)
        made = self._limited(made, typmod) if typmod >= 0 else made
        return replace(
            made, name=item.name, weight=item.weight, origin=(0, 0) if made.type != item.type else item.origin
        )

    def _to(self, item: Bound, kind: PgType, explicit: bool) -> Bound:
        if item.parameter:
            item = self.parameters.settle(item.parameter, kind)
        if item.type.oid == kind.oid:
            return item
        if item.constant and (item.unknown or item.value is None):
            return constant(self.read(item.value, kind), kind)
        if item.type.name in STRINGS and kind.name in STRINGS:
            shorter = kind.name == "char" and not item.unknown
            tree = call("left", item.tree, exp.Literal.number(1)) if shorter else item.tree
            value = item.value[:1] if shorter and item.constant and item.value else item.value
            return replace(item, tree=tree, type=kind, value=value, typmod=-1)
        if kind.name in STRINGS:
            if not explicit and kind.name != "text":
                raise self.cannot(item.type, kind)
            return replace(self.text(item), type=kind)
        if item.type.name in STRINGS and item.constant:
            return constant(self.read(item.value, kind), kind)
        if not (explicit or implicit(item.type, kind)):
            raise self.cannot(item.type, kind)
        return self._changed(item, kind)

    def _changed(self, item: Bound, kind: PgType) -> Bound:
        """A value of another type, as the statement runs; of constant numbers the value is known before."""
        old, new = item.type.name, kind.name
        if old in STRINGS and new in REG_TYPES:
            return Bound(call(f"pg_to_{new}", item.tree), kind)
        numbers = old in NUMBERS and new in NUMBERS
        oids = (old in OIDS or old in WHOLE) and (new in OIDS or new in WHOLE)
        times = old in (*TIMES, "time", "interval") and new in (*TIMES, "time")
        if (old, new) == ("json", "jsonb") and item.constant:
            return constant(self.read(item.value, kind), kind)
        if (old, new) == ("json", "jsonb") or (old in STRINGS and new in ("json", "jsonb")):
            return Bound(call(f"pg_{new}", item.tree), kind)
        other = (old, new) in (("bool", "int4"), ("int4", "bool"), ("jsonb", "json"))
        if numbers and item.constant and new == "numeric" and not isinstance(item.value, float):
            return constant(Decimal(item.value), kind)
        if numbers and item.constant and new in ("int8", "float8") and old in WHOLE:
            return constant(int(item.value) if new == "int8" else float(item.value), kind)
        if oids and new in OIDS and item.constant and item.value is not None and item.value >= 0:
            return constant(item.value, kind)
        if numbers and new == "numeric" and old in WHOLE:
            return Bound(cast(item.tree, "DECIMAL(38,0)"), kind)
        if numbers or oids or times or other or old in STRINGS:
            return Bound(cast(item.tree, duck_type(kind)), kind)
        if item.type.element is not None and kind.element is not None:
            return self._array(item, kind)
        raise self.cannot(item.type, kind)

    def _array(self, item: Bound, kind: PgType) -> Bound:
        assert item.type.element is not None and kind.element is not None
        old, new = item.type.element, kind.element
        same = duck_type(old) == duck_type(new)
        if same and (old.name in STRINGS) == (new.name in STRINGS):
            return replace(item, type=kind)
        if item.constant and item.value is not None:
            changed = self._elements(item.value, old, new)
            if changed is not None:
                return constant(changed, kind)
        if (old.name in NUMBERS or old.name in OIDS) and (new.name in NUMBERS or new.name in OIDS):
            return Bound(cast(item.tree, duck_type(kind)), kind)
        if new.name in STRINGS and (old.name in WHOLE or old.name in ("oid", "uuid", "date")):
            return Bound(cast(item.tree, "VARCHAR[]"), kind)
        if new.name in STRINGS and old.name in REG_TYPES:
            return Bound(call(f"pg_{old.name}_outs", item.tree), kind)
        raise self.cannot(item.type, kind)

    def _elements(self, values: list[Any], old: PgType, new: PgType) -> list[Any] | None:
        """Each element as another type; None if that takes a database."""
        made: list[Any] = []
        for value in values:
            if isinstance(value, list):
                inner = self._elements(value, old, new)
                if inner is None:
                    return None
                made.append(inner)
                continue
            item = self._to(constant(value, old), new, explicit=True)
            if not item.constant:
                return None
            made.append(item.value)
        return made

    def _limited(self, item: Bound, typmod: int) -> Bound:
        """What varchar(n), char(n) and numeric(p, s) make of a value."""
        kind = item.type.name
        if kind in ("varchar", "bpchar"):
            length = typmod - 4
            if item.constant:
                cut = None if item.value is None else item.value[:length]
                cut = cut.ljust(length) if cut is not None and kind == "bpchar" else cut
                return replace(constant(cut, item.type), typmod=typmod)
            tree = call("left", item.tree, exp.Literal.number(length))
            if kind == "bpchar":
                tree = call("rpad", tree, exp.Literal.number(min(length, 1000)), exp.Literal.string(" "))
            return replace(item, tree=tree, typmod=typmod)
        if kind == "numeric":
            precision, scale = (typmod - 4) >> 16, (typmod - 4) & 0x7FF
            if item.constant and item.value is not None:
                with localcontext() as context:
                    context.prec = 2000
                    rounded = item.value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
                if rounded and rounded.adjusted() >= precision - scale:
                    raise Refused("numeric field overflow", sqlstate="22003")
                return replace(constant(rounded, NUMERIC), typmod=typmod)
            if precision > 38:
                raise Refused("a numeric of more than 38 digits is not answered here", sqlstate="22003")
            return Bound(cast(item.tree, f"DECIMAL({precision},{scale})"), NUMERIC, typmod=typmod)
        return replace(item, typmod=typmod)

    def read(self, value: str | None, kind: PgType) -> Any:
        """What a type makes of a text; 22P02 if nothing."""
        if value is None:
            return None
        if kind.name in REG_TYPES:
            return self._named(value, kind.name)
        if kind.name in REG:
            raise Refused(f"constants of type {kind.name} are not answered here", sqlstate="0A000")
        if kind.name == "name":
            return value.encode()[:63].decode(errors="ignore")
        if duck_type(kind) == "VARCHAR" and kind.name not in ("json", "jsonb", "char"):
            if kind.name not in STRINGS:
                raise Refused(f"constants of type {kind.name} are not answered here", sqlstate="0A000")
            return value
        objects = kind.element is not None and kind.element.name in REG_TYPES
        try:
            made = decode(by_oid(TEXTS.oid if objects else kind.oid), 0, value.encode())
        except ProtocolError as error:
            raise Refused(error.message, sqlstate=error.sqlstate, hint=error.hint) from None
        return self._objects(made, kind.element) if objects and kind.element else made

    def _objects(self, names: list[Any], kind: PgType) -> list[Any]:
        return [self._objects(each, kind) if isinstance(each, list) else self.read(each, kind) for each in names]

    def _named(self, value: str, kind: str) -> int:
        if value == "-":
            return 0
        found: int | None = getattr(self.lookups, f"to_{kind}")(value)
        if found is None:
            what, state = {
                "regclass": ("relation", "42P01"), "regtype": ("type", "42704"), "regproc": ("function", "42883"),
                "regnamespace": ("schema", "3F000"), "regrole": ("role", "42704"),
            }[kind]  # fmt: skip
            raise Refused(f'{what} "{value[:80]}" does not exist', sqlstate=state)
        return found

    def alike(self, items: Sequence[Bound], kind: PgType) -> list[Bound]:
        """Values of one type. Of numeric also with as many digits after the point, or DuckDB rounds some of them."""
        made = [self.to(item, kind, explicit=False) for item in items]
        if kind.oid != NUMERIC.oid or all(item.constant for item in made):
            return made
        return [self.level(item) for item in made]

    def level(self, item: Bound) -> Bound:
        return Bound(cast(item.tree, duck_type(NUMERIC)), NUMERIC, item.name, item.weight)

    def text(self, item: Bound) -> Bound:
        """A value as PostgreSQL writes it."""
        kind = item.type
        if item.parameter:
            return self.parameters.settle(item.parameter, TEXT)
        if kind.name in STRINGS:
            return replace(item, type=TEXT)
        if item.constant and kind.name not in REG_TYPES:
            shown = encode(by_oid(kind.oid), 0, item.value)
            written = None if shown is None else shown.decode()
            written = {"t": "true", "f": "false"}[written] if kind.name == "bool" and written else written
            return constant(written, TEXT)
        if kind.name in REG_TYPES:
            return Bound(call(f"pg_{kind.name}_out", item.tree), TEXT)
        if kind.name == "bytea":
            return Bound(call("concat", exp.Literal.string("\\x"), call("lower", call("hex", item.tree))), TEXT)
        if kind.name in ("int2vector", "oidvector"):
            return Bound(call("array_to_string", item.tree, exp.Literal.string(" ")), TEXT)
        if kind.name in ("float4", "float8"):
            shown_tree = call(
                "regexp_replace", cast(item.tree, "VARCHAR"), exp.Literal.string(r"\.0$"), exp.Literal.string("")
            )
            return Bound(shown_tree, TEXT)
        if kind.element is not None:
            quoted = Bound(cast(item.tree, "VARCHAR[]"), TEXT)
            return Bound(call("pg_array_out", quoted.tree), TEXT)
        if kind.name == "record":
            raise self.cannot(kind, TEXT)
        return Bound(cast(item.tree, "VARCHAR"), TEXT)

    def cannot(self, old: PgType, new: PgType) -> Refused:
        return Refused(f"cannot cast type {sql_name(old)} to {sql_name(new)}", sqlstate="42846")

    def common(self, items: Sequence[Bound], what: str) -> PgType:
        """The type that all of a CASE, COALESCE, UNION or ARRAY take."""
        known = [item.type for item in items if not item.unknown]
        if not known:
            return TEXT
        best = known[0]
        for kind in known[1:]:
            best = self.wider(best, kind, what)
        return best

    def wider(self, one: PgType, other: PgType, what: str) -> PgType:
        if one.oid == other.oid:
            return one
        for order in (NUMBERS, TIMES):
            if one.name in order and other.name in order:
                return one if order.index(one.name) > order.index(other.name) else other
        if one.name in STRINGS and other.name in STRINGS:
            # The first one wins; only name is what a varchar goes over into, and not the other way.
            if "char" in (one.name, other.name):
                return TEXT
            return other if other.name == "name" and one.name in ("varchar", "bpchar") else one
        if implicit(other, one):
            return one
        if implicit(one, other):
            return other
        if one.element is not None and other.element is not None:
            return array_of(self.wider(one.element, other.element, what))
        said = f"{what} types {sql_name(one)} and {sql_name(other)} cannot be matched"
        raise Refused(said, sqlstate="42804")


def implicit(old: PgType, new: PgType) -> bool:
    """Whether a value goes over without being asked, as an argument of a function does."""
    if old.oid == new.oid or old.oid == UNKNOWN.oid:
        return True
    for order in (NUMBERS, TIMES):
        if old.name in order and new.name in order:
            return order.index(old.name) < order.index(new.name)
    if old.name in STRINGS:
        return new.name in ("text", "varchar", "name") or (new.name in REG_TYPES - {"regtype"} and old.name == "text")
    if new.name in OIDS:
        return old.name in WHOLE or (old.name in OIDS and new.oid == OID.oid) or old.oid == OID.oid
    if old.name in OIDS and new.name in ("int8",):
        return True
    if old.element is not None and new.element is not None:
        return duck_type(old) == duck_type(new) and implicit(old.element, new.element)
    return False


def type_of(oid: int) -> PgType:
    """The type of a parameter that a client names."""
    found = BY_OID.get(oid)
    if found is None:
        raise Refused(f"type with OID {oid} is not known here", sqlstate="42704")
    return found
