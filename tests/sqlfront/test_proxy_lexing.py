"""Texts of strangers: tokens, statements and commands, compared with what PostgreSQL makes of them."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlanon.errors import Refused
from sqlanon.server.broker import shape
from sqlanon.server.commands import (
    CloseCommand,
    Copy,
    Deallocate,
    Declare,
    Discard,
    ExecuteCommand,
    Fetch,
    Nothing,
    Prepare,
    Question,
    Reset,
    Set,
    Show,
    Transaction,
)
from sqlanon.server.read_command import parse_command
from sqlanon.sqlfront.lexer import comment_end, statements, tokens
from sqlanon.sqlfront.limits import MAX_TEXT, MAX_TOKENS


def one(text: str) -> object:
    (statement,) = statements(text)
    return parse_command(statement)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';';", ["SELECT ';'"]),
        ("SELECT E'\\';' ; x", ["SELECT E'\\';'", "x"]),
        ("SELECT '\\';x", ["SELECT '\\'", "x"]),  # a backslash means nothing in a plain string
        ('SELECT ";" ; x', ['SELECT ";"', "x"]),
        ("SELECT $$;$$; x", ["SELECT $$;$$", "x"]),
        ("SELECT $a$;$b$;$a$; x", ["SELECT $a$;$b$;$a$", "x"]),
        ("SELECT 1 -- ; \n; x", ["SELECT 1", "x"]),
        ("/* ; /* ; */ ; */ SELECT 1; x", ["SELECT 1", "x"]),
        (" ;; ; ", []),
        ("SELECT U&'\\0041;' ; x", ["SELECT U&'\\0041;'", "x"]),
        ("SELECT 1.5e3, .5, $1, a.b::text", ["SELECT 1.5e3, .5, $1, a.b::text"]),
    ],
)
def test_statements_end_where_they_end_in_postgresql(text: str, parts: list[str]) -> None:
    assert [each.text for each in statements(text)] == parts


@pytest.mark.parametrize("text", ["SELECT 'a", 'SELECT "a', "SELECT $$a", "/* a", "SELECT E'a\\'", '""'])
def test_what_is_not_closed_is_refused(text: str) -> None:
    with pytest.raises(Refused) as error:
        statements(text)
    assert error.value.sqlstate == "42601"


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        for part in statements(text):
            parse_command(part)
    except Refused as error:
        assert len(error.sqlstate) == 5
    assert isinstance(shape(text), str)


@given(
    st.lists(
        st.sampled_from(["'", '"', "$$", "$a$", "/*", "*/", "--", "\n", ";", "E'", "\\", "x", "(", "1"]), max_size=40
    )
)
def test_no_order_of_quotes_breaks_the_reader(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        found = tokens(text)
    except Refused:
        return
    assert all(text[token.start : token.end].strip() for token in found)
    assert [token.start for token in found] == sorted(token.start for token in found)


@pytest.mark.parametrize(
    "piece", ["(", "/*", "/* ", "--\n", "'", "$a", "a.", "1", "--", "E'\\", '"a" ', "/**/", "E'", "$a$"]
)
def test_time_grows_with_the_length_alone(piece: str) -> None:
    """The longest text takes a blink, whatever it is made of: other clients wait for it."""
    started = time.process_time()
    with suppress(Refused):
        tokens(piece * (MAX_TEXT // len(piece)))
    assert time.process_time() - started < 2
    with pytest.raises(Refused):
        tokens("(" * (MAX_TEXT + 1))


def test_comments_in_comments_are_read_once() -> None:
    """Or a text of a hundred thousand characters would take two seconds, and a million of them minutes."""
    started = time.process_time()
    assert comment_end("/* " * 150_000 + "*/ " * 150_000 + "SELECT", 0) == 899_999
    with pytest.raises(Refused):
        comment_end("/* " * 300_000, 0)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("BEGIN", Transaction("begin")),
        ("START TRANSACTION READ ONLY", Transaction("begin", "START TRANSACTION")),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", Transaction("begin", isolation="repeatable read")),
        ("begin transaction read only", Transaction("begin")),
        ("COMMIT WORK", Transaction("commit")),
        ("END", Transaction("commit")),
        ("ROLLBACK AND CHAIN", Transaction("rollback", chain=True)),
        ("ABORT", Transaction("rollback")),
        ("SAVEPOINT a", Transaction("savepoint", "a")),
        ('ROLLBACK TO SAVEPOINT "A b"', Transaction("rollback to", "A b")),
        ("RELEASE a", Transaction("release", "a")),
        ("SET application_name = 'Me'", Set("application_name", "Me")),
        ("SET LOCAL statement_timeout TO 500", Set("statement_timeout", "500", local=True)),
        ("SET SESSION x TO DEFAULT", Set("x", None)),
        ("SET sqlanon.epsilon = 0.5", Set("sqlanon.epsilon", "0.5")),
        ('SET search_path TO a, "B"', Set("search_path", "a, B")),
        ("SET TIME ZONE 'UTC'", Set("timezone", "UTC")),
        ("SET NAMES 'UTF8'", Set("client_encoding", "UTF8")),
        ("SET x = -5", Set("x", "-5")),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", Nothing("SET")),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", Set("transaction_isolation", "serializable", local=True)),
        ("RESET ALL", Reset("all")),
        ("SHOW sqlanon.budget", Show("sqlanon.budget")),
        ("SHOW TIME ZONE", Show("timezone")),
        ("SHOW TRANSACTION ISOLATION LEVEL", Show("transaction_isolation")),
        ("DISCARD ALL", Discard("all")),
        ("FETCH c", Fetch("c", 1)),
        ("FETCH ALL FROM c", Fetch("c", None)),
        ("FETCH FORWARD 10 IN c", Fetch("c", 10)),
        ("FETCH FORWARD ALL FROM c", Fetch("c", None)),
        ("FETCH 3 c", Fetch("c", 3)),
        ("FETCH NEXT FROM c", Fetch("c", 1)),
        ("MOVE 5 FROM c", Fetch("c", 5, move=True)),
        ("CLOSE ALL", CloseCommand(None)),
        ('CLOSE "C d"', CloseCommand("C d")),
        ("DEALLOCATE PREPARE a", Deallocate("a")),
        ("EXECUTE a(1, 'x', NULL, -2.5)", ExecuteCommand("a", ("1", "x", None, "-2.5"))),
        ("UNLISTEN *", Nothing("UNLISTEN")),
        ("SELECT 1", Question("SELECT 1", "catalog")),
        ("SELECT COUNT(*) FROM visits", Question("SELECT COUNT(*) FROM visits", "query")),
        ("TABLE visits", Question("TABLE visits", "query")),
        ("SELECT relname FROM pg_class", Question("SELECT relname FROM pg_class", "catalog")),
        ('select * from "pg_catalog"."x"', Question('select * from "pg_catalog"."x"', "catalog")),
    ],
)
def test_commands(text: str, command: object) -> None:
    assert one(text) == command


def test_commands_with_a_question_inside() -> None:
    declared = one("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 'A;b' FROM t")
    assert declared == Declare("c", Question("SELECT 'A;b' FROM t", "query"), hold=True, binary=False)
    prepared = one("PREPARE p (int, double precision, text[]) AS SELECT $1 FROM t")
    assert prepared == Prepare("p", ("int", "double precision", "text[]"), Question("SELECT $1 FROM t", "query"))
    copied = one("COPY (SELECT a FROM t WHERE b = ')') TO STDOUT WITH (FORMAT csv, HEADER true, DELIMITER ';')")
    assert isinstance(copied, Copy)
    assert copied.question.text == "SELECT a FROM t WHERE b = ')'"
    assert (copied.options.format, copied.header, copied.options.delimiter) == ("csv", True, ";")
    old = one("COPY t (a, b) TO STDOUT CSV HEADER NULL AS '-'")
    assert isinstance(old, Copy)
    assert old.question.text == "SELECT a, b FROM t"
    assert (old.options.format, old.header, old.options.null) == ("csv", True, "-")


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("INSERT INTO t VALUES (1)", "25006"),
        ("DROP TABLE t", "25006"),
        ("ATTACH 'x.db'", "0A000"),
        ("PRAGMA database_list", "0A000"),
        ("INSTALL httpfs", "0A000"),
        ("LOAD 'x'", "0A000"),
        ("CALL f()", "0A000"),
        ("DO $$ x $$", "0A000"),
        ("LISTEN x", "0A000"),
        ("COPY t FROM STDIN", "25006"),
        ("COPY t TO '/tmp/x'", "42501"),
        ("COPY t TO PROGRAM 'cat'", "42501"),
        ("COPY (DELETE FROM t) TO STDOUT", "25006"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT parquet)", "0A000"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT csv, FORMAT csv)", "42601"),
        ("COPY () TO STDOUT", "42601"),
        ("SET ROLE postgres", "42501"),
        ("SET SESSION AUTHORIZATION x", "42501"),
        ("SET x", "42601"),
        ("SET x = 1; 2", "42601"),
        ("FETCH BACKWARD 2 FROM c", "55000"),
        ("FETCH -1 FROM c", "55000"),
        ("DECLARE c SCROLL CURSOR FOR SELECT 1", "0A000"),
        ("DECLARE c CURSOR FOR DELETE FROM t", "25006"),
        ("DECLARE c CURSOR FOR BEGIN", "42601"),
        ("PREPARE p AS INSERT INTO t VALUES (1)", "25006"),
        ("BEGIN NONSENSE", "42601"),
        ("COMMIT x", "42601"),
        ("'x'", "42601"),
        ("SELEC 1", "42601"),
        ("DISCARD everything", "42601"),
        ("EXECUTE p(1", "42601"),
        ("EXECUTE p(SELECT 1)", "42601"),
    ],
)
def test_what_is_refused(text: str, sqlstate: str) -> None:
    with pytest.raises(Refused) as error:
        for statement in statements(text):
            parse_command(statement)
    assert error.value.sqlstate == sqlstate


def test_the_shape_of_a_statement_has_no_literals() -> None:
    found = shape("SELECT * FROM t WHERE a = 'secret' AND b = 4711 AND c = $$hidden$$ AND d = E'x\\n' -- comment")
    assert "secret" not in found
    assert "4711" not in found
    assert "hidden" not in found
    assert "comment" not in found


@pytest.mark.parametrize(
    "text",
    [
        "DECLARE c CURSOR FOR " * 900 + "SELECT 1",
        "PREPARE a AS " * 1500 + "SELECT 1",
        "COPY (" * 1100 + "SELECT 1" + ") TO STDOUT" * 1100,
        "PREPARE a AS COPY (" * 600 + "SELECT 1" + ") TO STDOUT" * 600,
    ],
)
def test_commands_in_commands_are_refused_at_once(text: str) -> None:
    """Read one in the other, each would be read again as often as it is deep, while all other clients wait."""
    begun = time.process_time()
    with pytest.raises(Refused) as caught:
        parse_command(statements(text)[0])
    assert caught.value.sqlstate in ("42601", "0A000")
    assert time.process_time() - begun < 2


def test_a_text_has_so_many_tokens() -> None:
    assert len(tokens("(" * MAX_TOKENS)) == MAX_TOKENS
    with pytest.raises(Refused) as caught:
        tokens("(" * (MAX_TOKENS + 1))
    assert caught.value.sqlstate == "54001"


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("SELECT COUNT(*) AS pg_total FROM visits ORDER BY pg_total", "query"),
        ('SELECT COUNT(*) AS "pg_total" FROM visits HAVING "pg_total" > 1', "query"),
        ("SELECT COUNT(*) FROM visits AS pg_v WHERE pg_v.age > 1", "query"),
        ("SELECT relname AS pg_class FROM pg_class", "catalog"),
        ("SELECT oid AS pg_x FROM pg_catalog.pg_class", "catalog"),
        ("SELECT a AS pg_x, pg_get_expr(b, c) FROM d", "catalog"),
        ("SELECT 1 AS pg_x", "catalog"),
        ("TABLE pg_class", "catalog"),
    ],
)
def test_what_a_column_is_called_says_nothing_of_what_is_asked(text: str, route: str) -> None:
    assert one(text) == Question(text, route)  # type: ignore[arg-type]
