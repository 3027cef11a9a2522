"""A fingerprint of rows: two tables with the same rows, in whatever order, have the same one."""

from __future__ import annotations

import hashlib
import hmac

from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine
from sqlanon.sqltree.tree import column, count_all, literal, nest_query, select, text

SHORT = 32  # hexadecimal digits: enough to tell versions apart


def fingerprint(engine: Engine, rows: exp.Select, secret: str | None = None) -> str:
    """Of all columns of a relation; one pass, inside the database. With a key nobody without it can try out rows."""
    columns = engine.columns(rows)
    names = [item.name for item in columns]
    count, total = engine.query(
        select(count_all(), text(exp.Sum(this=_hashed(engine.dialect, columns))), source=nest_query(rows, "data"))
    )[0]
    said = "\x1f".join(["sqlanon data", *names, str(count), str(total)])
    return hmac.new((secret or "").encode(), said.encode(), hashlib.sha256).hexdigest()[:SHORT]


def _hashed(dialect: str, columns: list[ColumnInfo]) -> exp.Expr:
    """A row as a number. Sums of it must not hide that two rows exchanged a value, so it is hashed as a whole."""
    if dialect == "postgres":
        # Written as in Greenwich: two clients with their own time zones read the same rows.
        values = [
            exp.AtTimeZone(this=column(item.name), zone=literal("UTC"))
            if item.type.lower() in ("timestamptz", "timestamp with time zone")
            else column(item.name)
            for item in columns
        ]
        whole = text(exp.Anonymous(this="ROW", expressions=values))
        number = exp.Anonymous(this="hashtextextended", expressions=[whole, literal(0)])
        return exp.cast(number, "numeric")
    names = [column(item.name) for item in columns]
    return exp.Anonymous(this="hash", expressions=[exp.Anonymous(this="hash", expressions=names)])
