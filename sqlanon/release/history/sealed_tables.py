"""Tables of persons and groups, encrypted: without the key nobody learns who shared a class, or what is true of whom.

Each row has a mark of its own, and from it and the key SHA-256 makes a stream of bits, with which every number of the
row is combined by XOR. The mark is a keyed hash of the version and of all that the row says, so no two rows share a
stream, not even those of a refresh that was taken back and left its traces on the disk. A text becomes a number by a
keyed hash, and is found again among the values that were published, which is where it comes from. Rows are stored in
the order of their marks, which has nothing to do with what they say.

Everything happens in SQL, in the transaction of the release. The key is in a temporary table and in no statement. It
hides what is kept; it does not sign it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.relations.rewrite import sha256
from sqlanon.sqltree.tree import alias, bigint, join_clause, literal, nest_query, select, table, text

# What tells of persons. The others hold what was published, as it was published.
SEALED = ("persons", "past", "candidates", "group_values")
PLAIN = ("person", "attribute")  # a keyed hash already, and the name of a column
KEY = "sqlanon_history_seal"
OPENED = "sqlanon_history_opened"
DIGITS = 15  # hexadecimal digits of a number: 60 bits
MARK = 32  # hexadecimal digits of a uuid


def load_key(engine: Engine, secret: str) -> None:
    """A key of its own, made from the secret: the hashes of persons are made with another one."""
    key = hmac.new(secret.encode(), b"sqlanon history encryption", hashlib.sha256).hexdigest()
    engine.load_temporary(KEY, ["key"], [[key]])


def seal_rows(dialect: str, short: str, columns: Mapping[str, str], rows: exp.Query, version: int) -> exp.Query:
    """The rows of a table as they are stored."""
    hidden = _hidden(columns)
    numbers: list[exp.Expr | str] = [
        alias(_token(dialect, exp.column("attribute", table="r"), exp.column(name, table="r")), name)
        if columns[name] == "text"
        else alias(exp.column(name, table="r"), name)
        for name in hidden
    ]
    plain: list[exp.Expr | str] = [exp.column(name, table="r") for name in columns if name in PLAIN]
    secret = exp.column("key", table="s")
    coded = select(*plain, *numbers, secret, source=nest_query(rows, "r"), joins=[_key()])
    said = [exp.column(name, table="c") for name in columns]
    digest = _hash(dialect, "mark", short, version, said)
    mark = exp.cast(exp.Substring(this=digest, start=literal(1), length=literal(MARK)), "uuid")
    names = [exp.column(name, table="c") for name in columns]
    marked = select(*names, alias(mark, "mark"), exp.column("key", table="c"), source=nest_query(coded, "c"))
    own = [name for name in columns if name in PLAIN]
    stream = alias(_stream(dialect, short, version), "stream")
    streamed = select(*own, *hidden, "mark", stream, source=nest_query(marked, "c"))
    mixed = [alias(_mixed(dialect, name, place), name) for place, name in enumerate(hidden)]
    return select(*own, "mark", *mixed, source=nest_query(streamed, "d")).order_by("mark")


def unseal_rows(
    dialect: str, short: str, columns: Mapping[str, str], stored: str, values: str, version: int
) -> exp.Query:
    """The rows of a table as they were before; a text that was never published is not found, and its row is missing."""
    hidden = _hidden(columns)
    own = [name for name in columns if name in PLAIN]
    streamed = select(
        *(exp.column(name, table="c") for name in (*own, *hidden)),
        alias(_stream(dialect, short, version), "stream"),
        source=nest_query(select(exp.Star(), source=table(stored), joins=[_key()]), "c"),
    )
    mixed = [alias(_mixed(dialect, name, place), name) for place, name in enumerate(hidden)]
    numbers = select(*own, *mixed, source=nest_query(streamed, "d"))
    texts = [name for name in hidden if columns[name] == "text"]
    if not texts:
        return select(*columns, source=nest_query(numbers, "n"))
    (name,) = texts
    token = _token(dialect, exp.column("attribute", table="v"), exp.column("value", table="v"))
    distinct = select("attribute", "value", source=table(values)).distinct()
    known = select(
        exp.column("attribute", table="v"), exp.column("value", table="v"), alias(token, "token"),
        source=nest_query(distinct, "v"), joins=[_key()],
    )  # fmt: skip
    same = exp.and_(
        exp.column("attribute", table="k").eq(exp.column("attribute", table="n")),
        exp.column("token", table="k").eq(exp.column(name, table="n")),
    )
    chosen = [
        alias(exp.column("value", table="k"), name) if item == name else exp.column(item, table="n") for item in columns
    ]
    return select(*chosen, source=nest_query(numbers, "n"), joins=[join_clause(nest_query(known, "k"), same)])


def _hidden(columns: Mapping[str, str]) -> list[str]:
    return [name for name in columns if name not in PLAIN]


def _key() -> exp.Join:
    return exp.Join(this=table(KEY, alias="s"), kind="CROSS")


def _hash(dialect: str, purpose: str, short: str, version: int, parts: list[exp.Column]) -> exp.Expr:
    said: exp.Expr = exp.column("key")
    said = exp.DPipe(this=said, expression=literal(f":{purpose}:{short}:{version}"))
    for part in parts:
        said = exp.DPipe(this=said, expression=exp.DPipe(this=literal(":"), expression=text(part)))
    return sha256(said, dialect)


def _stream(dialect: str, short: str, version: int) -> exp.Expr:
    return _hash(dialect, "stream", short, version, [exp.column("mark")])


def _mixed(dialect: str, name: str, place: int) -> exp.Expr:
    """A number combined with its part of the stream; done twice, it is the number again."""
    part = exp.Substring(this=exp.column("stream"), start=literal(1 + DIGITS * place), length=literal(DIGITS))
    return exp.BitwiseXor(this=bigint(exp.column(name)), expression=_number(dialect, part))


def _token(dialect: str, attribute: exp.Expr, value: exp.Expr) -> exp.Expr:
    said = exp.DPipe(this=exp.column("key", table="s"), expression=literal(":value:"))
    named = exp.DPipe(this=attribute, expression=exp.DPipe(this=literal(":"), expression=value))
    digest = sha256(exp.DPipe(this=said, expression=named), dialect)
    return _number(dialect, exp.Substring(this=digest, start=literal(1), length=literal(DIGITS)))


def _number(dialect: str, digits: exp.Expr) -> exp.Expr:
    """Hexadecimal digits as a number."""
    if dialect == "postgres":
        bits = exp.DataType.build(f"bit({4 * DIGITS})", dialect="postgres")
        return bigint(exp.Cast(this=exp.DPipe(this=literal("x"), expression=digits), to=bits))
    return bigint(exp.DPipe(this=literal("0x"), expression=digits))
