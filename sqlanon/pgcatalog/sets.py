"""Functions that give rows: in a list of columns, or in FROM."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.pgcatalog.binder import CatalogBinder
from sqlanon.pgcatalog.bound_expression import Bound, call, cast, constant
from sqlanon.pgcatalog.functions import no_function
from sqlanon.pgcatalog.identifiers import RESERVED
from sqlanon.pgcatalog.kinds import BOOL, BY_NAME, CHAR, INT2, INT4, INT8, RECORD, TEXT, TEXTS, array_of, duck_type
from sqlanon.pgwire.types import PgType

SETS = (
    "generate_series", "generate_subscripts", "unnest", "_pg_expandarray", "pg_partition_ancestors",
    "regexp_split_to_table",
)  # fmt: skip
RESULTS = {"pg_partition_ancestors": "relid"}  # whose column has a name of its own
REGCLASS = BY_NAME["regclass"]
KEYWORDS: Mapping[str, PgType] = {"word": TEXT, "catcode": CHAR, "barelabel": BOOL, "catdesc": TEXT, "baredesc": TEXT}

Rows = tuple[exp.Expr, PgType, Mapping[str, PgType] | None]


def rows(b: CatalogBinder, name: str, items: list[Bound]) -> Rows:
    """A list with an element a row, the type of the elements, and their fields if they are records."""
    if name == "generate_series":
        return _series(b, name, items)
    if name == "pg_partition_ancestors" and len(items) == 1:
        b.casts.to(items[0], REGCLASS)  # a table that is not there is told so; none is a part of another
        return constant([], array_of(REGCLASS)).tree, REGCLASS, None
    if name == "regexp_split_to_table" and len(items) == 2:
        return call("string_split_regex", *(b.casts.to(item, TEXT, explicit=False).tree for item in items)), TEXT, None
    first = items[0] if items else None
    if first is not None and first.unknown:
        first = b.casts.to(first, TEXTS)
    if first is None or first.type.element is None:
        raise no_function(name, items)
    if name == "unnest" and len(items) == 1:
        return first.tree, first.type.element, None
    if name == "generate_subscripts" and len(items) == 2:
        # Vectors count from 0, arrays from 1; there is only one dimension.
        start = 0 if first.type.name in ("int2vector", "oidvector") else 1
        ends = [
            exp.Literal.number(start),
            exp.Sub(this=call("len", first.tree), expression=exp.Literal.number(1 - start)),
        ]
        b.casts.to(items[1], INT4)
        return (
            cast(call("pg_series", *(cast(end, "BIGINT") for end in (*ends, exp.Literal.number(1)))), "INTEGER[]"),
            INT4,
            None,
        )
    if name == "_pg_expandarray" and len(items) == 1:
        return call("expandarray", first.tree), RECORD, {"x": first.type.element or INT2, "n": INT4}
    raise no_function(name, items)


def _series(b: CatalogBinder, name: str, items: list[Bound]) -> Rows:
    if len(items) not in (2, 3):
        raise no_function(name, items)
    items = [b.casts.to(item, INT4) if item.unknown else item for item in items]
    kind = b.casts.common(items, name)
    if kind.name not in ("int4", "int8", "int2"):
        raise Refused("only series of whole numbers are answered here", sqlstate="0A000")
    kind = INT8 if kind is INT8 else INT4
    items = items if len(items) == 3 else [*items, constant(1, kind)]
    tree = call("pg_series", *(cast(item.tree, "BIGINT") for item in items))
    return cast(tree, f"{duck_type(kind)}[]"), kind, None


def keywords() -> list[tuple[str, str, bool, str, str]]:
    """What pg_get_keywords() tells, of the words that no name may be without quotes."""
    return [(word, "R", False, "reserved", "requires AS") for word in sorted(RESERVED)]
