"""Checksums of numbers that identify persons, as SQL on the text of a value: what a pattern alone cannot tell.

A digit that is a checksum by chance is right in one of ten values; a column counts if nine of ten values are right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.sqltree.labels import call, join_text, number, string
from sqlanon.sqltree.tree import bigint, case, literal

LONGEST_CARD = 19
IBAN_DIGITS = 72  # 34 characters, most of them letters of two digits each
PIECE = 9  # digits of an IBAN at once: their product with a remainder fits into a BIGINT
DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"


@dataclass(frozen=True)
class ContentCheck:
    """A pattern of a value without its separators, what its checksum must fulfil, and what the values are then."""

    pattern: str
    holds: Callable[[exp.Expr], exp.Expr]
    called: str


def _digit(code: exp.Expr, place: int) -> exp.Expr:
    return bigint(call("SUBSTRING", code.copy(), place, 1))


def _added(parts: Sequence[exp.Expr]) -> exp.Expr:
    total = parts[0]
    for part in parts[1:]:
        total = exp.Add(this=total, expression=part)
    return exp.paren(total, copy=False)


def _rest(value: exp.Expr, modulus: int) -> exp.Expr:
    return exp.paren(exp.Mod(this=value, expression=number(modulus)), copy=False)


def _weighted(weights: Sequence[int], start: int, code: exp.Expr) -> exp.Expr:
    digits = [_digit(code, start + place) for place in range(len(weights))]
    return _added([exp.Mul(this=digit, expression=number(w)) for digit, w in zip(digits, weights, strict=True)])


def _divisible(weights: Sequence[int], modulus: int) -> Callable[[exp.Expr], exp.Expr]:
    return lambda code: _rest(_weighted(weights, 1, code), modulus).eq(0)


def _luhn(code: exp.Expr) -> exp.Expr:
    padded = call("LPAD", code.copy(), LONGEST_CARD, "0")
    parts: list[exp.Expr] = []
    for place in range(1, LONGEST_CARD + 1):
        digit = _digit(padded, place)
        if (LONGEST_CARD - place) % 2:
            twice = exp.Mul(this=digit.copy(), expression=number(2))
            # The digits of a number of two digits add up to 9 less than it.
            digit = case((digit > number(4), exp.Sub(this=twice, expression=number(9))), default=twice.copy())
        parts.append(digit)
    return _rest(_added(parts), 10).eq(0)


def _iban(code: exp.Expr) -> exp.Expr:
    moved = join_text(call("SUBSTRING", code, 5), call("SUBSTRING", code, 1, 4))
    for place in range(26):
        moved = call("REPLACE", moved, chr(ord("A") + place), str(10 + place))
    padded = call("LPAD", moved, IBAN_DIGITS, "0")
    pieces = range(IBAN_DIGITS // PIECE)
    parts: list[exp.Expr] = [
        exp.Mul(
            this=bigint(call("SUBSTRING", padded, piece * PIECE + 1, PIECE)),
            expression=number(pow(10, IBAN_DIGITS - (piece + 1) * PIECE, 97)),
        )
        for piece in pieces
    ]
    return _rest(_added(parts), 97).eq(1)


def _dni(code: exp.Expr) -> exp.Expr:
    place = exp.Add(this=_rest(bigint(call("SUBSTRING", code, 1, 8)), 23), expression=number(1))
    # PostgreSQL takes no BIGINT for a place in a text.
    return call("SUBSTRING", string(DNI_LETTERS), exp.cast(place, "INT"), 1).eq(call("SUBSTRING", code, 9, 1))


def _cpf(code: exp.Expr) -> exp.Expr:
    def right(count: int) -> exp.Expr:
        total = _weighted(range(count + 1, 1, -1), 1, code)
        return _rest(_rest(exp.Mul(this=total, expression=number(10)), 11), 10).eq(_digit(code, count + 1))

    return exp.and_(right(9), right(10))


def _nir(code: exp.Expr) -> exp.Expr:
    body, rest = bigint(call("SUBSTRING", code, 1, 13)), bigint(call("SUBSTRING", code, 14, 2))
    return exp.Sub(this=number(97), expression=_rest(body, 97)).eq(rest)


def _personnummer(code: exp.Expr) -> exp.Expr:
    return _luhn(call("SUBSTRING", code, exp.Sub(this=call("LENGTH", code.copy()), expression=number(9)), 10))


_MONTH_AND_DAY = "(0[1-9]|1[0-2])([0-2][0-9]|3[01])"
CHECKS: Mapping[str, ContentCheck] = {
    "iban": ContentCheck("^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$", _iban, "IBANs, with a valid checksum"),
    "card": ContentCheck("^[0-9]{13,19}$", _luhn, "card numbers, with a valid checksum"),
    "dni": ContentCheck("^[0-9]{8}[A-Z]$", _dni, "Spanish identity numbers (DNI), with a valid checksum"),
    "cpf": ContentCheck("^[0-9]{11}$", _cpf, "Brazilian tax numbers (CPF), with a valid checksum"),
    "nir": ContentCheck("^[1-478][0-9]{14}$", _nir, "French social security numbers (NIR), with a valid checksum"),
    "bsn": ContentCheck(
        "^[0-9]{9}$", _divisible((9, 8, 7, 6, 5, 4, 3, 2, 10), 11), "Dutch citizen numbers (BSN), with a valid checksum"
    ),
    "nhs": ContentCheck("^[0-9]{10}$", _divisible(range(10, 0, -1), 11), "British NHS numbers, with a valid checksum"),
    "pesel": ContentCheck(
        "^[0-9]{11}$",
        _divisible((1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), 10),
        "Polish identity numbers (PESEL), with a valid checksum",
    ),
    "personnummer": ContentCheck(
        f"^([0-9]{{2}})?[0-9]{{2}}{_MONTH_AND_DAY}[0-9]{{4}}$",
        _personnummer,
        "Swedish identity numbers, with a valid checksum",
    ),
}


def passes(name: str, value: exp.Expr) -> exp.Expr:
    """1 where the checksum of a text is right, else 0.

    >>> import duckdb
    >>> given = exp.values([("GB82 WEST 1234 5698 7654 32",), ("GB83 WEST 1234 5698 7654 32",)], "t", ["v"])
    >>> duckdb.sql(exp.select(passes("iban", exp.column("v"))).from_(given).sql("duckdb")).fetchall()
    [(1,), (0,)]
    """
    check = CHECKS[name]
    bare = value.copy()
    for separator in (" ", "-", ".", "/"):
        bare = call("REPLACE", bare, separator, "")
    fits = exp.RegexpLike(this=bare.copy(), expression=literal(check.pattern))
    # Only what fits is cast to numbers; NULL goes through all of it.
    code = case((fits, bare))
    return case((check.holds(code), literal(1)), default=literal(0))
