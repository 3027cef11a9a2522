"""What the gateway does not answer is called by the name that a person wrote, never by a word of the parser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from proxy_running import made

from sqlanon.errors import SqlanonError
from sqlanon.gateway import Gate, open_gateway

PARSER_WORDS = ("DPIPE", "NEGATE", "DB in", "TABLE in", "TABLEALIAS", "BITWISE", "JSON_EXTRACT", "REGEXP_LIKE", "TUPLE")


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    found = open_gateway(made(Path(tmp_path_factory.mktemp("messages"))))
    yield found
    found.close()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT count(*) FROM people TABLESAMPLE 10 PERCENT", "TABLESAMPLE in FROM is not answered"),
        ("SELECT count(*) FROM read_csv('x')", "the function read_csv() in FROM is not answered"),
        ("SELECT sum(DISTINCT age) FROM people", "DISTINCT in SUM() is not answered"),
        ("SELECT size & 3 FROM towns", "size & 3 is not answered"),
        ("SELECT town -> 'b' FROM towns", "town -> 'b' is not answered"),
        ("SELECT town ~ 'x' FROM towns", "town ~ 'x' is not answered"),
        ("SELECT (size, town) FROM towns", "(size, town) is not answered"),
        ("SELECT ARRAY[1] FROM towns", "ARRAY is not answered"),
        ("SELECT count(*) FROM people FOR UPDATE", "FOR UPDATE in SELECT is not answered"),
        ("SELECT count(*) FROM people NATURAL JOIN towns", "NATURAL JOIN is not answered: the tables share no column"),
        ("SELECT size FROM towns QUALIFY 1 = 1", "QUALIFY in SELECT is not answered"),
        ("SELECT DISTINCT ON (town) town FROM towns", "ON in DISTINCT is not answered"),
        ("TRUNCATE people", "TRUNCATE is not answered"),
    ],
)
def test_a_refusal_names_what_was_written(gate: Gate, sql: str, said: str) -> None:
    with pytest.raises(SqlanonError) as caught:
        gate.prepare(sql, "ann", dialect="postgres")
    assert caught.value.message == said
    assert not any(word in str(caught.value.message) for word in PARSER_WORDS)


def test_a_long_expression_is_cut_short(gate: Gate) -> None:
    with pytest.raises(SqlanonError) as caught:
        gate.prepare(f"SELECT size & {'1' * 18} & {'2' * 18} & {'3' * 18} & {'4' * 18} FROM towns", "ann")
    assert caught.value.message.endswith("… is not answered") and len(caught.value.message) < 90
