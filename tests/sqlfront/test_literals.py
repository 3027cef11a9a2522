"""Literals: the server's lexer, the gateway and the catalog read the text that a real PostgreSQL reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest
from conftest import Database
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.errors import TokenError

from sqlanon.errors import Refused
from sqlanon.gateway.bind.read_statement import parse_statement
from sqlanon.pgcatalog.dialect import parse_query
from sqlanon.sqlfront.lexer import tokens
from sqlanon.sqlfront.limits import MAX_TEXT
from sqlanon.sqlfront.parser_tokens import tokenize

# As a reader gives it: a text, or the SQLSTATE of the error.
Read = tuple[str, str]

LITERALS = [
    "''",
    "'it''s'",
    r"'back\slash \n \'",
    r"E''",
    r"E'\b\f\n\r\t'",
    r"E'\q\z\"\' '' \\'",
    "E'\\\n\\\r\\ü\\😀'",
    r"E'\xc3\xbc'",
    r"E'\303\274'",
    r"E'\xe2\202\xac'",
    "E'\\xc3'\n'\\xbc'",
    r"E'\x41\x4a1\xg\x'",
    r"E'\1\12\101\1019\8'",
    r"E'\501'",  # more than a byte: the lower eight bits count
    r"E'\0'",
    r"E'\000'",
    r"E'\400'",
    r"E'\x00'",
    r"E'\xff'",
    r"E'\xc3'",
    r"E'\xc3x\xbc'",
    r"E'\xc0\x80'",
    r"E'\xed\xa0\xbd\xed\xb8\x80'",
    r"E'\u00fc\U000000fc\U0001F600'",
    r"E'\uD83D\uDE00'",
    r"E'\U0000D83D\uDE00'",
    r"E'\uD83D'",
    r"E'\uDE00'",
    r"E'\uDE00\uD83D'",
    r"E'\uD83D\uD83D'",
    r"E'\uD83Dx'",
    r"E'\uD83D\n'",
    r"E'\uD83D\xed'",
    r"E'\uD83D''\uDE00'",
    r"E'\uD83D\uD'",
    "E'\\uD83D'\n'\\uDE00'",
    r"E'\u'",
    r"E'\u00f'",
    r"E'\U0000'",
    r"E'\u0000'",
    r"E'\U00110000'",
    r"E'\U0010FFFF'",
    r"e'\u0041'",
    "E'a' -- note\n -- note\n '\\'b'",
    "E'a'\n'b\\\\'",
    "'a' -- note\n 'b'",
    "'a'\r'b'",
    "'a'\t\n\f'b'\n''",
    "U&''",
    r"U&'d\0061t\+000061 \\ '''",
    r"u&'\D83D\DE00\D83D\+00DE00'",
    r"U&'\D83D'",
    r"U&'\DE00'",
    r"U&'\D83Dx'",
    r"U&'\D83D\\'",
    r"U&'\D83D\D83D'",
    r"U&'\0000'",
    r"U&'\+110000'",
    r"U&'\00g1'",
    r"U&'\1'",
    r"U&'a\'",
    "U&'\\00'\n'61'",
    "U&'d!0061!!\\' UESCAPE '!'",
    "U&'d!0061' /* note */ uescape -- note\n E'!'",
    "U&'d!0061' UESCAPE $$!$$",
    "U&'d!0061' UESCAPE '!'\n''",
    r"U&'d^0061]0061-0061' UESCAPE '^'",
    r"U&'d^0061]0061-0061' UESCAPE ']'",
    r"U&'d^0061]0061-0061' UESCAPE '-'",
    "U&'a' UESCAPE ''",
    "U&'a' UESCAPE 'ab'",
    "U&'a' UESCAPE '+'",
    "U&'a' UESCAPE 'a'",
    "U&'a' UESCAPE ' '",
    "U&'a' UESCAPE 'ü'",
    "U&'a' UESCAPE U&'!'",
    "U&'a' UESCAPE 1",
    "U&'a' UESCAPE",
    "$$$$",
    r"$$it's \n E'\x' $1$$",
    "$tag$ $$ $tag $ $tag$",
    "$ü_1$ü$ü_1$",
    "$€$a$€$",
    "'open",
    "E'open\\'",
    "U&'open",
    "$a$ open $b$",
    "E'a'\n'b\\'",
]


def _by_server(sql: str) -> str:
    word, literal = tokens(sql)
    assert (word.kind, literal.kind) == ("word", "string")
    assert (literal.start, literal.end) == (7, len(sql))
    return literal.value


def _by_parser(tree: exp.Expr) -> str:
    (literal,) = tree.expressions
    assert isinstance(literal, exp.Literal) and literal.is_string
    return str(literal.this)


READERS: dict[str, Callable[[str], str]] = {
    "server": _by_server,
    "gateway": lambda sql: _by_parser(parse_statement(sql, "postgres").tree),
    "catalog": lambda sql: _by_parser(parse_query(sql)),
}


def _asked(postgres: Database, sql: str) -> Read:
    """What PostgreSQL itself makes of it."""
    try:
        ((found,),) = postgres.fetch(sql)
    except psycopg.Error as error:
        return "error", error.sqlstate or ""
    assert isinstance(found, str)
    return "text", found


def _ours(read: Callable[[str], str], sql: str) -> Read:
    try:
        return "text", read(sql)
    except Refused as error:
        return "error", error.sqlstate


@pytest.mark.parametrize("literal", LITERALS, ids=ascii)
def test_a_literal_is_read_as_postgresql_reads_it(postgres: Database, literal: str) -> None:
    sql = f"SELECT {literal}"
    expected = _asked(postgres, sql)
    assert {name: _ours(read, sql) for name, read in READERS.items()} == dict.fromkeys(READERS, expected)


def test_unknown_escapes_stand_for_themselves(postgres: Database) -> None:
    r"""Also \v, which PostgreSQL's manual does not list."""
    for read in READERS.values():
        assert read(r"SELECT E'\v'") == "v"
    if postgres.fetch("SHOW server_version_num") < [("170000",)]:
        assert postgres.fetch(r"SELECT E'\v'") == [("v",)]


PIECES = st.one_of(
    st.sampled_from(
        ["''", "\\\\", "\\'", "\\n", "\\", "\\x", "\\u", "\\U", "\\+", "!", "!!", "+", "$", "$$", "$t$", "--", "/*",
         ";", "\\xc3\\xbc", "\\xe2\\x82", "\\xac", "\\303", "\\274", "\\uD83D", "\\uDE00", "\\D83D", "\\DE00",
         "\\+00DE00", "!D83D", "!DE00", "\\u00fc", "\\U0001F600", "\\0061",
         "\\+000061", "!0061", "0", "7", "a", "F", "g", " "]
    ),
    st.characters(exclude_characters="\0'\\v", exclude_categories=["Cs"]),
    st.integers(0, 255).map(lambda byte: f"\\x{byte:x}"),
    st.integers(0, 511).map(lambda byte: f"\\{byte:o}"),
    st.integers(0, 0x11FFFF).map(lambda code: f"\\U{code:08x}"),
    st.integers(0, 0xFFFF).map(lambda code: f"\\u{code:04x}"),
    st.integers(0, 0xFFFF).map(lambda code: f"\\{code:04x}"),
)  # fmt: skip
INSIDE = st.lists(PIECES, max_size=8).map("".join)
QUOTED = st.tuples(
    st.sampled_from(["", "E", "E", "E", "U&", "U&"]),
    st.lists(INSIDE, min_size=1, max_size=3),
    st.sampled_from(["\n", " \r ", "\n--'\n", " -- a\n\t"]),
    st.sampled_from(["", "", " UESCAPE '!'", " UESCAPE '\\'"]),
).map(lambda made: made[0] + made[2].join(f"'{part}'" for part in made[1]) + (made[3] if made[0] == "U&" else ""))
# One text: $$$$A$$ is an empty one and a name behind it.
DOLLARS = (
    st.tuples(st.sampled_from(["$$", "$t$", "$é$"]), INSIDE)
    .filter(lambda made: made[0] not in (made[1] + made[0])[:-1])
    .map(lambda made: made[0] + made[1] + made[0])
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(literal=st.one_of(QUOTED, QUOTED, DOLLARS))
def test_literals_of_any_kind_are_read_as_postgresql_reads_them(postgres: Database, literal: str) -> None:
    """What PostgreSQL reads as one text, we read as that text. What it refuses, we refuse."""
    sql = f"SELECT ({literal})"
    kind, expected = _asked(postgres, sql)
    for name, read in READERS.items():
        if name == "server":
            # The lexer knows no grammar: it is asked for texts alone, and for statements of one token between brackets.
            try:
                found = tokens(sql)
            except Refused:
                assert kind == "error", name
                continue
            if kind == "text":
                assert [token.value for token in found[2:-1]] == [expected], name
            continue
        if kind == "error":
            with pytest.raises(Refused):
                read(sql)
        else:
            tree = parse_statement(sql, "postgres").tree if name == "gateway" else parse_query(sql)
            assert [str(node.this) for node in tree.find_all(exp.Literal)] == [expected], name


@pytest.mark.parametrize("text", ["'a'$$b$$", "$$a$$'b'", "'a' 'b'", "E'a' \n E'b'", "'a' /*\n*/ 'b'"])
def test_texts_side_by_side_are_not_one(postgres: Database, text: str) -> None:
    sql = f"SELECT {text}"
    assert _asked(postgres, sql)[0] == "error"
    for name in ("gateway", "catalog"):
        with pytest.raises(Refused) as caught:
            READERS[name](sql)
        assert caught.value.sqlstate == "42601"


def test_a_sign_before_a_dollar_quote_is_no_escape() -> None:
    """U & $$a$$ is an operator between a column and a text."""
    assert [token.value for token in tokens("U&$$a$$")] == ["u", "&", "a"]
    assert [token.text for token in tokenize("U&$$a$$", "postgres")] == ["U", "&", "a"]


def test_names_in_unicode_are_refused_and_not_misread() -> None:
    with pytest.raises(Refused, match='U&"'):
        tokens('SELECT U&"d\\0061ta"')
    assert [token.value for token in tokens('SELECT E"x"')] == ["select", "e", "x"]


@pytest.mark.parametrize("piece", ["'a'\n", "-- ' \n'", "'a'--", "E'\\'\n", "U&'' UESCAPE '!' ", "$a$", "'\n--", "' "])
def test_time_grows_with_the_length_alone(piece: str) -> None:
    text = ("SELECT 'a' " + piece * MAX_TEXT)[:MAX_TEXT]
    started = time.process_time()
    for read in (tokens, lambda given: tokenize(given, "postgres")):
        with suppress(Refused, TokenError):
            read(text)
    assert time.process_time() - started < 2
