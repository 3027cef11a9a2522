"""A fingerprint of rows: two tables with the same rows, in whatever order, have the same one."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection

from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine
from sqlanon.sqltree.tree import alias, column, count_all, literal, nest_query, select, text

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


def fingerprint_by(engine: Engine, rows: exp.Select, person: str, without: Collection[str]) -> str:
    """Of rows that belong to persons, whatever these are called: the same where as many persons have the same rows.
    Values count as the text that they are written as, so that a file and a table may be the same. Columns `without` are
    left out, such as other numbers that are drawn."""
    names = [item.name for item in engine.columns(rows) if item.name not in {person, *without}]
    written = [alias(text(column(name)), name, quoted=True) for name in names]
    texts = select(alias(column(person), person, quoted=True), *written, source=nest_query(rows.copy(), "rows_"))
    columns = [item for item in engine.columns(texts) if item.name != person]
    own = [alias(exp.Sum(this=_hashed(engine.dialect, columns)), "own"), alias(count_all(), "records")]
    by_person = select(*own, source=nest_query(texts, "data"), groups=[column(person)])
    said = "\x1f".join([*names, fingerprint(engine, by_person)])
    return hashlib.sha256(said.encode()).hexdigest()[:SHORT]


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
