"""IP addresses become networks: 192.168.77.3 -> 192.168.77.0/24 -> 192.168.0.0/16 -> 192.0.0.0/8 -> *.

    hierarchies:
      address:
        ip: {prefixes: [24, 16], prefixes6: [56, 32]}

Level i keeps the bits of the i-th prefix: `prefixes` for IPv4, any number from 1 to 31; `prefixes6` for
IPv6, a multiple of 4 up to 96. The shorter list repeats its last prefix. A network is labelled by its first
address and its prefix, "2001:db8:0:1200::/56", in lower case and without leading zeros.

It takes text, and the type inet of PostgreSQL. An address may carry its full prefix (/32, /128), as inet
prints it. IPv6 may be abbreviated and may end like IPv4 ("::ffff:192.0.2.1"); it stays IPv6. All other
text, such as a network, a number with leading zeros, or an address with a zone, is "not an address". NULL
stays NULL below the root.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator
from sqlglot import exp

from sqlanon.hierarchies import Hierarchy, Level
from sqlanon.hierarchies._levels import root
from sqlanon.hierarchies._values import Integer
from sqlanon.sqltree.labels import call, join_text, minus, number, string, text

NOT_AN_ADDRESS = "not an address"
DEFAULT_PREFIXES6 = (64, 48, 32)

# [.] rather than an escaped point: engines do not agree on what a backslash in a string is.
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_V4 = rf"{_OCTET}([.]{_OCTET}){{3}}"
_HEX = "[0-9a-fA-F]{1,4}"
_GROUPS = f"{_HEX}(:{_HEX})*"
_V6 = f"{_HEX}(:{_HEX}){{5}}:({_HEX}:{_HEX}|{_V4})|({_GROUPS})?::({_GROUPS}|({_GROUPS}:)?{_V4})?"


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    prefixes: tuple[Integer, ...] = Field(
        (24, 16, 8), min_length=1, description="How many bits of an IPv4 address each level keeps."
    )
    prefixes6: tuple[Integer, ...] | None = Field(
        None, min_length=1, description="The same for IPv6; 64, 48, 32 if not given."
    )

    @field_validator("prefixes", "prefixes6")
    @classmethod
    def _networks_nest(cls, prefixes: tuple[int, ...] | None) -> tuple[int, ...] | None:
        for longer, shorter in pairwise(prefixes or ()):
            if shorter >= longer:
                raise ValueError(f"{shorter} must be less than {longer}, the prefix before it")
        return prefixes

    @field_validator("prefixes")
    @classmethod
    def _v4_prefix(cls, prefixes: tuple[int, ...]) -> tuple[int, ...]:
        if wrong := [prefix for prefix in prefixes if not 1 <= prefix <= 31]:
            raise ValueError(f"{wrong[0]} is no prefix of an IPv4 network; use 1 to 31")
        return prefixes

    @field_validator("prefixes6")
    @classmethod
    def _v6_prefix(cls, prefixes: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if wrong := [prefix for prefix in prefixes or () if not 4 <= prefix <= 96 or prefix % 4]:
            raise ValueError(f"{wrong[0]} is no prefix that can be kept; use a multiple of 4 from 4 to 96")
        return prefixes

    def pairs(self) -> list[tuple[int, int]]:
        """The prefixes for IPv4 and IPv6 of each level; the shorter list repeats its last.

        >>> Params(prefixes=[24, 8], prefixes6=[32]).pairs(), Params(prefixes=[20]).pairs()
        ([(24, 32), (8, 32)], [(20, 64)])
        """
        six = self.prefixes6 or DEFAULT_PREFIXES6[: len(self.prefixes)]
        height = max(len(self.prefixes), len(six))
        return [
            (self.prefixes[min(level, len(self.prefixes) - 1)], six[min(level, len(six) - 1)])
            for level in range(height)
        ]


def _matches(value: exp.Expr, pattern: str) -> exp.Expr:
    return exp.RegexpLike(this=value.copy(), expression=string(f"^({pattern})$"))


def _network4(address: exp.Expr, prefix: int) -> exp.Expr:
    """The network of a well-formed IPv4 address."""
    whole, bits = divmod(prefix, 8)
    octets = [call("SPLIT_PART", address, ".", position) for position in range(1, whole + 1)]
    if bits:
        octet = call("SPLIT_PART", address, ".", whole + 1)
        last = exp.cast(octet if whole < 3 else call("SPLIT_PART", octet, "/", 1), "INT")
        octets.append(text(minus(last, last % number(2 ** (8 - bits)))))
    zeros = ".0" * (4 - len(octets))
    first, *others = octets
    return join_text(first, *(part for octet in others for part in (".", octet)), f"{zeros}/{prefix}")


def _like(value: exp.Expr, pattern: str) -> exp.Expr:
    return exp.Like(this=value.copy(), expression=string(pattern))


def _missing(address: exp.Expr) -> exp.Expr:
    """How many groups "::" stands for, if an empty one is written at each bare end; IPv4 at the end is two groups."""
    groups = exp.case().when(_like(address, "%.%"), number(7)).else_(number(8))
    colons = minus(call("LENGTH", address), call("LENGTH", call("REPLACE", address, ":", "")))
    return minus(groups, colons)


def _is6(address: exp.Expr) -> exp.Expr:
    # An empty group at an end may be all that "::" stands for; elsewhere it stands for at least one more.
    ends = exp.or_(*(_like(address, pattern) for pattern in ("::%", "%::", "%::/128")))
    fits = exp.or_(_missing(address) > 0, exp.and_(_missing(address).eq(0), ends))
    return exp.And(this=_matches(address, f"({_V6})(/128)?"), expression=exp.paren(fits))


def _network6(address: exp.Expr, prefix: int) -> exp.Expr:
    """The network of a well-formed IPv6 address."""
    whole, bits = divmod(prefix, 16)
    full = call("REPLACE", address, "::", join_text(":", call("REPEAT", "0:", _missing(address))))
    groups = [call("SPLIT_PART", full, ":", position) for position in range(1, whole + 1)]
    if bits:
        last = call("LPAD", call("SPLIT_PART", full, ":", whole + 1), 4, "0")
        groups.append(join_text(call("SUBSTRING", last, 1, bits // 4), "0" * (4 - bits // 4)))
    return call("LOWER", join_text(*(part for group in groups for part in (_short(group), ":")), f":/{prefix}"))


def _short(group: exp.Expr) -> exp.Expr:
    """A group without leading zeros; an empty one is 0."""
    bare = exp.Trim(this=group.copy(), expression=string("0"), position="LEADING")
    return call("COALESCE", call("NULLIF", bare, ""), "0")


def _level(prefix4: int, prefix6: int) -> Level:
    def label(column: exp.Expr) -> exp.Expr:
        address = text(column)
        return (
            exp.case()
            .when(_matches(address, f"{_V4}(/32)?"), _network4(address, prefix4))
            .when(_is6(address), _network6(address, prefix6))
            .when(column.is_(exp.null()).not_(), string(NOT_AN_ADDRESS))
        )

    return label


def build(params: Params, base: Path) -> Hierarchy:
    levels = tuple(_level(four, six) for four, six in params.pairs())
    return Hierarchy(height=len(levels) + 1, levels=(*levels, root("*")))
