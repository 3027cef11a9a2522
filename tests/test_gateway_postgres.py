"""Statements as clients of PostgreSQL write them: texts, arrays, names, and errors with PostgreSQL's codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gateway_world import World, world

from sqlanon.errors import Refused


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = world(tmp_path_factory.mktemp("postgres"))
    yield found
    found.close()


def rows(made: World, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    return list(made.gate.answer(sql, parameters=parameters, dialect="postgres").rows)


def code(made: World, sql: str) -> str:
    with pytest.raises(Refused) as error:
        made.gate.answer(sql, dialect="postgres")
    return error.value.sqlstate


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"E'tab\tquote\'s ''\\ \u00fc \xc3\xbc \101 \U0001F388'", "tab\tquote's '\\ ü ü A 🎈"),
        (r"E'\uD83D\uDE00'", "😀"),
        ("$$it's \\ $1$$", "it's \\ $1"),
        ("$tag$ $$ $tag$", " $$ "),
        ("'two' -- a note\n 'parts'", "twoparts"),
        ("E'two'\n'parts'", "twoparts"),
        (r"U&'d\0061t\+000061 \\'", "data \\"),
        (r"U&'d!0061t' UESCAPE '!'", "dat"),
        ("'back\\slash\\n'", "back\\slash\\n"),
    ],
)
def test_texts(made: World, written: str, text: str) -> None:
    assert rows(made, f"SELECT {written}") == [(text,)]
    assert rows(made, f"SELECT region FROM regions WHERE region || {written} = 'R0' || $1", text) == [("R0",)]
    # Of persons too: the statement that reads them is the same, so that it is answered from what is kept.
    asked = "SELECT COUNT(*) FROM visits WHERE region || {} = note"
    plain = rows(made, asked.format("'" + text.replace("'", "''") + "'"))
    spent = made.spent
    assert rows(made, asked.format(written)) == plain
    assert made.spent == spent


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (r"E'\000'", "22021"),
        (r"E'a\xff'", "22021"),
        (r"E'\ud800'", "22021"),
        (r"E'\u12'", "22025"),
        (r"E'\U00110000'", "22025"),
        (r"U&'\0000'", "42601"),
        (r"U&'\d800'", "22021"),
        (r"U&'\12'", "42601"),
        ("U&'a' UESCAPE 'ab'", "42601"),
        ("'two' 'parts'", "0A000"),
        ("E'a'\n'b\\'", "0A000"),
        ("$$" + "x" * 10_001 + "$$", "22021"),
        ("B'101'", "0A000"),
        ("X'1F'", "0A000"),
        ("E'open", "42601"),
        ("$a$ open $b$", "42601"),
    ],
    ids=lambda given: ascii(given[:30]),
)
def test_texts_that_are_none(made: World, written: str, expected: str) -> None:
    for sql in (f"SELECT {written} FROM regions", f"SELECT COUNT(*) FROM visits WHERE note = {written}"):
        assert code(made, sql) == expected
