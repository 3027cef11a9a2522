"""A fingerprint of rows: two tables with the same rows, in whatever order, have the same one."""

from __future__ import annotations

import hashlib
import hmac

from sqlglot import exp

from sqlanon.compiler.tree import column, count_all, literal, nested, select, text
from sqlanon.engines import Engine

SHORT = 32  # hexadecimal digits: enough to tell versions apart


def fingerprint(engine: Engine, rows: exp.Select, secret: str | None = None) -> str:
    """Of all columns of a relation; one pass, inside the database. With a key nobody without it can try out rows."""
    names = [item.name for item in engine.columns(rows)]
    count, total = engine.query(
        select(count_all(), text(exp.Sum(this=_hashed(engine.dialect, names))), source=nested(rows, "data"))
    )[0]
    said = "\x1f".join(["sqlanon data", *names, str(count), str(total)])
    return hmac.new((secret or "").encode(), said.encode(), hashlib.sha256).hexdigest()[:SHORT]


def _hashed(dialect: str, names: list[str]) -> exp.Expr:
    """A row as a number. Sums of it must not hide that two rows exchanged a value, so it is hashed as a whole."""
    columns = [column(name) for name in names]
    if dialect == "postgres":
        whole = text(exp.Anonymous(this="ROW", expressions=columns))
        number = exp.Anonymous(this="hashtextextended", expressions=[whole, literal(0)])
        return exp.cast(number, "numeric")
    return exp.Anonymous(this="hash", expressions=[exp.Anonymous(this="hash", expressions=columns)])
