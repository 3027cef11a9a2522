"""Names as PostgreSQL reads and quotes them, and definitions that are made of names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlanon.errors import Refused
from sqlanon.pgcatalog.principal_view import Key

PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")
RESERVED_WORDS = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case
    cast char character check coalesce collate collation column concurrently constraint create cross current_catalog
    current_date current_role current_schema current_time current_timestamp current_user dec decimal default
    deferrable desc distinct do else end except exists extract false fetch float for foreign freeze from full grant
    greatest group grouping having ilike in initially inner inout int integer intersect interval into is isnull join
    lateral leading least left like limit localtime localtimestamp national natural nchar none normalize not notnull
    null nullif numeric offset on only or order out outer overlaps overlay placing position precision primary real
    references returning right row select session_user setof similar smallint some substring symmetric table
    tablesample then time timestamp to trailing treat trim true union unique user using values varchar variadic
    verbose when where window with xmlattributes
"""
RESERVED = frozenset(RESERVED_WORDS.split())


_PART = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\s*')


def parse_ident(text: str, strict: bool) -> list[str]:
    """The parts of a name with dots, as PostgreSQL reads them; what stands behind them is an error if `strict`.

    >>> parse_ident('Public."My Table".c', True), parse_ident("a.b(c)", False)
    (['public', 'My Table', 'c'], ['a', 'b'])
    """
    wrong = Refused(f'string is not a valid identifier: "{text[:80]}"', sqlstate="22023")
    found: list[str] = []
    place = 0
    while True:
        match = _PART.match(text, place)
        if match is None:
            raise wrong
        quoted, plain = match.groups()
        found.append(quoted.replace('""', '"') if quoted is not None else plain.lower())
        place = match.end()
        if text[place : place + 1] != ".":
            break
        place += 1
    if strict and place < len(text):
        raise wrong
    return found


def quote_ident(name: str) -> str:
    """
    >>> quote_ident("people"), quote_ident("People"), quote_ident('a"b'), quote_ident("order")
    ('people', '"People"', '"a""b"', '"order"')
    """
    if PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def split_name(text: str) -> list[str]:
    """The parts of a name as a text writes it: folded, unless quoted. Malformed names are 42602.

    >>> split_name('Public."My Table"'), split_name("pg_class")
    (['public', 'My Table'], ['pg_class'])
    """
    part = r'\s*+(?:"((?:[^"]|"")++)"|([^\s".,()]++))\s*+'
    found: list[str] = []
    at = 0
    while True:
        match = re.compile(part).match(text, at)
        if match is None:
            raise Refused("invalid name syntax", sqlstate="42602")
        found.append(match[1].replace('""', '"') if match[1] is not None else match[2].lower())
        at = match.end()
        if at == len(text):
            return found
        if text[at] != ".":
            raise Refused("invalid name syntax", sqlstate="42602")
        at += 1


def index_definition(key: Key) -> str:
    table = f"{quote_ident(key.schema)}.{quote_ident(key.entry.name)}"
    return f"CREATE UNIQUE INDEX {quote_ident(key.name)} ON {table} USING btree ({list_names(key.columns)})"


def list_names(names: Sequence[str]) -> str:
    return ", ".join(map(quote_ident, names))
