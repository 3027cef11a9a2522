"""The server as a whole, inside of the test's process: rights, budgets, changes of the policy, and what goes wrong."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from proxy_running import PASSWORD, POLICY, Running, running
from psycopg import generators

from sqlanon.errors import SqlanonError
from sqlanon.pgwire.frontend import ProtocolError
from sqlanon.server import users
from sqlanon.server.audit import AuditLog
from sqlanon.server.startup import startup_settings


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("proxy")) as found:
        yield found


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Answers about persons leave late: until then a statement can be broken off."""
    with running(tmp_path_factory.mktemp("slow"), POLICY.replace("answer_time: 0", "answer_time: 4")) as found:
        yield found


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


# ---- budgets and rights


def test_an_answer_is_charged_once_told_and_written_down(here: Running) -> None:
    before, told = here.spent(), []
    with here.connect() as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        sql = "SELECT count(*) AS n FROM visits WHERE cost < 17"
        (first,) = connection.execute(sql).fetchall()
        assert here.spent() - before == pytest.approx(0.5)
        assert connection.execute(sql).fetchall() == [first]
        assert here.spent() - before == pytest.approx(0.5)
    assert told[0].startswith("epsilon 0.5 spent; ")
    assert told[1].startswith("the same answer as before: no epsilon spent; ")
    entry, again = here.log[-2:]
    assert (entry["principal"], entry["decision"], entry["epsilon"], entry["cached"]) == ("ann", "answered", 0.5, False)
    assert (entry["tables"], again["epsilon"], again["cached"]) == (["visits"], 0, True)
    assert entry["shape"] == "select count ( * ) as n from visits where cost < ?"
    assert "17" not in json.dumps(entry["shape"])


def test_epsilon_is_set_within_the_limits_of_the_policy(here: Running) -> None:
    with here.connect() as connection:
        connection.execute("SET sqlanon.epsilon = 0.25")
        before = here.spent()
        connection.execute("SELECT sum(cost) AS total FROM visits").fetchall()
        assert here.spent() - before == pytest.approx(0.25)
        with pytest.raises(psycopg.Error) as error:
            connection.execute("SET sqlanon.epsilon = 2")
        assert error.value.sqlstate == "22023"
        assert here.spent() - before == pytest.approx(0.25)


def test_an_error_is_set_in_place_of_an_epsilon(here: Running) -> None:
    asked = "SELECT count(*) AS n FROM visits WHERE cost < 58"
    with here.connect() as connection:
        connection.execute("SET sqlanon.error = 1e6")
        before = here.spent()
        found = connection.execute(asked).fetchall()
        assert here.spent() - before == pytest.approx(0.01)  # the least that a statement may spend
        assert connection.execute("SHOW sqlanon.error").fetchone() == ("1e6",)
        connection.execute("SET sqlanon.epsilon = 0.25")
        with pytest.raises(psycopg.Error, match="together"):
            connection.execute(asked)
        connection.execute("RESET sqlanon.epsilon")
        with pytest.raises(psycopg.Error, match="percent") as error:
            connection.execute("SET sqlanon.error = '2%'")
        assert error.value.sqlstate == "22023"
        assert connection.execute(asked).fetchall() == found
        connection.execute("SET sqlanon.error = 0.001")
        with pytest.raises(psycopg.Error, match="is not reached"):
            connection.execute(asked)


def test_what_a_statement_spends_by_itself_is_shown(here: Running) -> None:
    with here.connect() as connection:
        assert connection.execute("SHOW sqlanon.epsilon").fetchone() == ("0.5",)
        connection.execute("SET sqlanon.epsilon = 0.25")
        assert connection.execute("SHOW sqlanon.epsilon").fetchone() == ("0.25",)
        assert dict(row[:2] for row in connection.execute("SHOW ALL"))["sqlanon.epsilon"] == "0.25"
        connection.execute("RESET sqlanon.epsilon")
        assert dict(row[:2] for row in connection.execute("SHOW ALL"))["sqlanon.epsilon"] == "0.5"


def test_error_bars_are_columns_at_no_further_cost(here: Running) -> None:
    sql = "SELECT ward, count(*) AS n FROM visits WHERE cost < 59 GROUP BY ward ORDER BY ward"
    with here.connect() as connection:
        plain = connection.execute(sql).fetchall()
        assert [ward for ward, _ in plain] == ["w0", "w1", "w2", "w3"]
        before = here.spent()
        connection.execute("PREPARE early AS " + sql)
        connection.execute("SET sqlanon.intervals = on")
        barred = connection.execute(sql)
        assert [column.name for column in barred.description or ()] == ["ward", "n", "n_low", "n_high"]
        rows = barred.fetchall()
        assert [row[:2] for row in rows] == plain and all(low <= n <= high for _, n, low, high in rows)
        assert connection.execute("SELECT town FROM towns").fetchone() == ("Athens",)
        assert connection.execute("SELECT 1").fetchone() == (1,)
        with connection.transaction():
            connection.execute("DECLARE c CURSOR FOR " + sql)
            assert connection.execute("FETCH ALL c").fetchall() == rows
        with connection.cursor().copy(f"COPY ({sql}) TO STDOUT") as copied:
            assert [bytes(line).count(b"\t") for line in copied] == [3] * 4
        assert connection.execute("EXECUTE early").fetchall() == plain, "it is what it was when it was prepared"
        connection.execute("PREPARE late AS " + sql)
        connection.execute("SET sqlanon.intervals = off")
        assert connection.execute("EXECUTE late").fetchall() == rows
        assert connection.execute(sql).fetchall() == plain
        assert here.spent() == before


def test_whoever_sees_no_group_is_told_how_many_persons_it_takes(here: Running) -> None:
    """The number hangs on the statement and the policy alone: the plan says it too."""
    told: list[Any] = []
    with here.connect() as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_hint))
        asked = "SELECT visit, count(*) AS n FROM visits GROUP BY visit"
        (plan,) = [line for (line,) in connection.execute(f"EXPLAIN VERBOSE {asked}") if "a key needs" in line]
        assert connection.execute(asked).fetchall() == []
        assert connection.execute(asked).fetchall() == []
        connection.execute("SELECT count(*) AS n FROM visits WHERE cost < 21").fetchall()
    needed = re.search(r"at least (\d+) after noise", plan)
    assert needed is not None
    assert told == [f"groups of fewer than about {needed[1]} persons are left out"] * 2 + [None]


def test_the_budget_is_shown_and_cannot_be_overdrawn(here: Running) -> None:
    with here.connect("poor") as connection:
        connection.execute("SELECT count(*) AS n FROM people").fetchall()
        row = connection.execute("SHOW sqlanon.budget").fetchone()
        assert row is not None
        assert row[:3] == ("poor", 0.5, pytest.approx(0.1))
        with pytest.raises(psycopg.Error) as error:
            connection.execute("SELECT count(*) AS n FROM people WHERE age > 5").fetchall()
        assert error.value.sqlstate == "53400"
        assert here.spent("poor") == pytest.approx(0.5)


@pytest.mark.full
def test_roles_see_their_own_tables(here: Running) -> None:
    with here.connect("bob") as connection:
        with pytest.raises(psycopg.Error) as error:
            connection.execute("SELECT count(*) FROM people")
        assert error.value.sqlstate == "42P01"
        assert "people" not in (error.value.diag.message_hint or "")
        found = connection.execute("SELECT relname FROM pg_class WHERE relkind = 'r' ORDER BY 1").fetchall()
    names = {name for (name,) in found}
    assert {"towns", "visits"} <= names
    assert "people" not in names


def test_describe_spends_nothing(here: Running) -> None:
    before = here.spent()
    written = [entry for entry in here.log if entry["principal"] == "ann"]  # of others some may still be on their way
    with here.connect() as connection:
        for sql in ("SELECT count(*) AS n FROM visits WHERE ward = $1", "SELECT avg(age) AS a FROM people"):
            # Not the calls that wait inside of libpq: they would keep the server's thread waiting too.
            connection.pgconn.send_prepare(b"p", sql.encode())
            connection.wait(generators.execute(connection.pgconn))
            connection.pgconn.send_describe_prepared(b"p")
            (described,) = connection.wait(generators.execute(connection.pgconn))
            assert described.nfields == 1, described.error_message
            connection.execute("DEALLOCATE p")
    assert here.spent() == before
    assert [entry for entry in here.log if entry["principal"] == "ann"] == written


@pytest.mark.full
def test_cursors_and_fetch_sizes_are_charged_once(here: Running) -> None:
    before = here.spent()
    with here.connect(autocommit=False) as connection, connection.cursor("c") as cursor:
        cursor.itersize = 1
        cursor.execute("SELECT ward, count(*) AS n FROM visits GROUP BY ward ORDER BY ward")
        assert [ward for ward, _ in cursor] == ["w0", "w1", "w2", "w3"]
    assert here.spent() - before == pytest.approx(0.5)


def test_made_up_data_cost_nothing(here: Running) -> None:
    before = here.spent()
    with here.connect() as connection:
        told: list[Any] = []
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary))
        connection.execute("SET sqlanon.dry_run = on")
        assert len(connection.execute("SELECT count(*) AS n FROM visits").fetchall()) == 1
    assert here.spent() == before
    assert told == ["synthetic data: nothing is spent, and the numbers are not real"]
    assert here.log[-1]["kind"] == "synthetic"


def test_an_administrator_tries_the_rights_of_another_on_made_up_data(here: Running) -> None:
    with here.connect("dana") as connection:
        connection.execute("SET sqlanon.simulate = 'bob'")
        with pytest.raises(psycopg.Error) as error:
            connection.execute("SELECT count(*) FROM people")
        assert error.value.sqlstate == "42P01"
        connection.execute("SELECT count(*) AS n FROM visits").fetchall()
        assert (here.log[-1]["principal"], here.log[-1]["simulated"]) == ("dana", "bob")
        connection.execute("SET sqlanon.simulate = ''")
        connection.execute("EXPLAIN SELECT count(*) AS n FROM people").fetchall()
    assert here.spent("bob") == here.spent("dana") == 0
    with here.connect("ann") as connection, pytest.raises(psycopg.Error) as error:
        connection.execute("SET sqlanon.simulate = 'bob'")
    assert error.value.sqlstate == "42501"


# ---- logins


@pytest.mark.parametrize(
    ("user", "password", "database", "sqlstate"),
    [
        ("ann", "wrong horse battery", "policy", "28P01"),
        ("nobody", PASSWORD, "policy", "28P01"),
        ("ann", PASSWORD, "other", "3D000"),
    ],
)
def test_wrong_logins(here: Running, user: str, password: str, database: str, sqlstate: str) -> None:
    with pytest.raises(psycopg.OperationalError) as error:
        here.connect(user, password, dbname=database)
    said = {"28P01": f'password authentication failed for user "{user}"', "3D000": 'database "other" does not exist'}
    assert said[sqlstate] in str(error.value)


@pytest.mark.full
def test_a_user_who_is_taken_away_is_sent_away(tmp_path: Path) -> None:
    with running(tmp_path) as found, found.connect("bob") as connection:
        connection.execute("SELECT 1")
        users.remove(tmp_path / "policy.users", "bob")
        with pytest.raises(psycopg.OperationalError) as error:
            connection.execute("SELECT 1")
        assert error.value.sqlstate == "57P01"
        (tmp_path / "policy.users").unlink()
        with pytest.raises(psycopg.OperationalError, match="logins are not possible now"):
            found.connect("ann")


def test_options_of_a_startup_message() -> None:
    given = {"user": "a", "database": "d", "application_name": "x", "options": r"-c a=b\ c --d-e=f -cg=h"}
    assert startup_settings(given) == [("application_name", "x"), ("a", "b c"), ("d_e", "f"), ("g", "h")]
    with pytest.raises(ProtocolError):
        startup_settings({"options": "-F"})


# ---- statements that are broken off

HEAVY = "SELECT sum(a.cost * b.cost) AS s FROM visits a JOIN visits b ON a.person = b.person"


def test_a_cancelled_statement_ends_and_the_session_goes_on(slow: Running) -> None:
    with slow.connect() as connection:
        threading.Timer(0.3, connection.cancel_safe).start()
        started = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(HEAVY)
        assert time.monotonic() - started < 8
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_client_that_goes_away_ends_its_statement(slow: Running) -> None:
    connection = slow.connect()
    connection.pgconn.send_query((HEAVY + " WHERE a.cost < 49").encode())
    connection.pgconn.flush()
    until(lambda: slow.server.door.queries.busy == 1)
    connection.close()
    until(lambda: slow.server.door.queries.busy == 0 and not slow.server.sessions)


def test_a_statement_that_would_take_too_long_is_refused_before_it_is_charged(slow: Running) -> None:
    with slow.connect() as connection:
        connection.execute("SET statement_timeout = '200ms'")
        before = slow.spent()
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="longer than the statement may take"):
            connection.execute(HEAVY + " WHERE a.cost < 48")
        assert slow.spent() == before
        connection.execute("RESET statement_timeout")
        assert connection.execute("SELECT count(*) FROM towns").fetchall() == [(2,)]


# ---- what is written down


def test_nothing_leaves_that_cannot_be_written_down(here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with here.connect() as connection:
        monkeypatch.setattr(AuditLog, "write", full)
        for sql in ("SELECT count(*) AS n FROM visits WHERE cost < 3", "SELECT * FROM towns"):
            with pytest.raises(psycopg.Error) as error:
                connection.execute(sql)
            assert error.value.sqlstate == "58030"


def test_refusals_are_written_down(here: Running) -> None:
    with here.connect() as connection, pytest.raises(psycopg.Error):
        connection.execute("SELECT * FROM people WHERE person = 7")
    entry = here.log[-1]
    assert (entry["decision"], entry["sqlstate"], entry["epsilon"]) == ("refused", "42501", 0)
    assert entry["shape"] == "select * from people where person = ?"


# ---- the policy changes


@pytest.mark.full
def test_a_policy_that_changes_and_one_that_is_broken(tmp_path: Path) -> None:
    with running(tmp_path) as found, found.connect() as connection:
        policy, door = tmp_path / "policy.yml", found.server.door
        towns = "SELECT count(*) FROM towns"
        assert connection.execute(towns).fetchall() == [(2,)]
        policy.write_text(POLICY.replace("    towns: {public: true}\n", "").replace("[towns, visits]", "[visits]"))
        assert found.call(door.reload())
        with pytest.raises(psycopg.Error) as error:
            connection.execute(towns)
        assert error.value.sqlstate == "42P01"
        policy.write_text(POLICY.replace("rows: 4", "rows: four"))
        with pytest.raises(SqlanonError):
            found.call(door.reload())
        assert not door.healthy()
        for sql in (towns, "SELECT count(*) FROM visits", "SELECT 1"):
            with pytest.raises(psycopg.Error) as error:
                connection.execute(sql)
            assert error.value.sqlstate == "57P03"
            assert "four" not in str(error.value)
        policy.write_text(POLICY)
        assert found.call(door.reload())
        assert door.healthy()
        assert connection.execute(towns).fetchall() == [(2,)]
        assert door.current.number == 3
        policy.write_text(POLICY.replace("    ann: {}\n", ""))
        found.call(door.reload())
        with pytest.raises(psycopg.OperationalError) as gone:
            connection.execute(towns)
        assert gone.value.sqlstate == "57P01"


# ---- encryption


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl, to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    made = "openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.crt -days 2 -subj /CN=localhost"
    subprocess.run(made.split(), cwd=folder, check=True, capture_output=True)
    (folder / "server.key").chmod(0o600)
    with running(
        folder,
        POLICY.replace("answer_time: 0", "answer_time: 4")
        + "  host: 0.0.0.0\n  tls: {certificate: server.crt, key: server.key}\n",
    ) as found:
        yield found


@pytest.mark.full
def test_encrypted_with_the_channel_bound_to_the_certificate(encrypted: Running) -> None:
    with encrypted.connect(sslmode="require", channel_binding="require") as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT count(*) FROM towns").fetchall() == [(2,)]
        threading.Timer(0.3, connection.cancel_safe).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(HEAVY)
    with encrypted.connect(sslmode="disable") as connection:  # from the same machine
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def own_address() -> str:
    """One of this machine by which it is not known as itself; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("needs a network other than loopback")
        return str(asked.getsockname()[0])


@pytest.mark.full
def test_off_loopback_nobody_comes_in_without_encryption(encrypted: Running) -> None:
    here = own_address()
    with pytest.raises(psycopg.OperationalError, match="this server takes encrypted connections only"):
        encrypted.connect(host=here, sslmode="disable")
    for host, mode in ((here, "require"), ("127.0.0.1", "disable")):
        with encrypted.connect(host=host, sslmode=mode) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.full
def test_bytes_before_the_encryption_are_not_read_after_it(encrypted: Running) -> None:
    """What somebody in between puts behind a request for encryption must not count as the client's."""
    with socket.create_connection(("127.0.0.1", encrypted.server.port), timeout=10) as link:
        smuggled = struct.pack("!ii", 8, 80877103) + b"Q\x00\x00\x00\x0dSELECT 1\x00"
        link.sendall(smuggled)
        found = b""
        while part := link.recv(1000):
            found += part
        assert not found.startswith(b"S")
        assert b"08P01" in found


@pytest.mark.full
def test_half_open_handshakes_keep_nobody_out(encrypted: Running) -> None:
    """200 who ask for encryption and then say nothing, or only half of it; a client comes in, encrypted, and works."""
    begun = struct.pack("!ii", 8, 80877103)
    with ExitStack() as held:
        for number in range(200):
            link = held.enter_context(socket.create_connection(("127.0.0.1", encrypted.server.port), timeout=30))
            link.sendall(begun)
            if number % 2:
                assert link.recv(1) in (b"S", b"")
                with suppress(OSError):
                    link.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(20))
        with encrypted.connect(sslmode="require", connect_timeout=30) as connection:
            assert connection.execute("SELECT count(*) FROM towns").fetchall() == [(2,)]
        with encrypted.connect(sslmode="require", connect_timeout=30) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
    until(lambda: not encrypted.server._strangers)


def test_old_encryption_is_refused(encrypted: Running) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", encrypted.server.port), timeout=10) as link:
        link.sendall(struct.pack("!ii", 8, 80877103))
        assert link.recv(1) == b"S"
        with pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(link)


@pytest.mark.full
def test_questions_about_the_catalog_are_answered_anew_where_they_must(here: Running) -> None:
    tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname NOT LIKE 'pg%' ORDER BY 1"
    with here.connect("ann") as ann, here.connect("bob") as bob:
        seen = [{name for (name,) in each.execute(tables).fetchall()} for each in (ann, bob, ann, bob)]
        assert seen[0] == seen[2] != seen[1] == seen[3]
        assert "people" in seen[0] - seen[1]
        first, second = (ann.execute("SELECT now()").fetchall() for _ in range(2))
        assert first != second
        shown = []
        for name in ("one", "two"):
            ann.execute(f"SET application_name = '{name}'")
            shown += ann.execute("SELECT current_setting('application_name')").fetchall()
        assert shown == [("one",), ("two",)]
        assert [ann.execute("SELECT %s::int4 + 1", [number]).fetchone() for number in (1, 2, 1)] == [(2,), (3,), (2,)]
        for _ in range(2):
            ann.execute("SELECT 4711").fetchall()
        until(lambda: [entry["shape"] for entry in here.log[-2:]] == ["select ?"] * 2)
        assert {(entry["kind"], entry["principal"]) for entry in here.log[-2:]} == {("catalogue", "ann")}


@pytest.mark.full
def test_a_change_that_ends_halfway_is_not_taken_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query workers of the new policy are there already: they must go, and nothing is answered meanwhile."""
    with running(tmp_path) as here:
        door = here.server.door

        async def fails(*_: Any, **__: Any) -> None:
            raise RuntimeError("a mistake of our own")

        before = door.queries.pids

        (tmp_path / "policy.yml").write_text(POLICY.replace("bob: {tables: [towns, visits]}", "bob: {}"))
        with monkeypatch.context() as patched:
            patched.setattr(door.catalog, "open", fails)
            with pytest.raises(RuntimeError):
                here.call(door.reload())
        assert door.queries.pids == before
        with here.connect("bob") as connection:
            with pytest.raises(psycopg.Error) as error:
                connection.execute("SELECT count(*) FROM people")
            assert error.value.sqlstate == "57P03"
            (tmp_path / "policy.yml").write_text(POLICY)
            assert not here.call(door.reload()), "it has been in force all the time"
            with pytest.raises(psycopg.Error) as error:
                connection.execute("SELECT count(*) FROM people")
            assert error.value.sqlstate == "42P01"


def test_what_never_became_a_question_is_written_down(here: Running) -> None:
    with here.connect() as connection:
        for sql, sqlstate in (("ATTACH '/tmp/x.db'", "0A000"), ("COPY towns TO PROGRAM 'id'", "42501")):
            with pytest.raises(psycopg.Error) as error:
                connection.execute(sql)
            assert error.value.sqlstate == sqlstate
            entry = here.log[-1]
            assert (entry["decision"], entry["sqlstate"], entry["principal"]) == ("refused", sqlstate, "ann")
            assert entry["shape"].startswith(sql.split()[0].lower()) and "'" not in entry["shape"]


def test_a_mistake_of_the_server_ends_one_session_and_tells_nothing(
    here: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(*_: Any) -> None:
        raise RuntimeError("holds 'secret'")

    with here.connect() as connection:
        with monkeypatch.context() as patched:
            patched.setattr("sqlanon.server.run_command.statements", wrong)
            with pytest.raises(psycopg.Error) as error:
                connection.execute("SELECT 'secret'")
        assert error.value.sqlstate == "XX000" and "secret" not in str(error.value)
    assert "RuntimeError" in caplog.text and "secret" not in caplog.text
    with here.connect() as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_portal_is_written_down_under_the_role_of_its_bind(here: Running) -> None:
    """An administrator cannot have a real answer written down as one of made-up data."""
    sql = "SELECT count(*) AS n FROM visits WHERE cost < 23"
    with here.connect("dana", autocommit=False) as connection:
        connection.execute(f"DECLARE c CURSOR FOR {sql}")
        connection.execute("SET sqlanon.simulate = 'bob'")
        connection.execute("FETCH ALL c").fetchall()
        entry = here.log[-1]
    assert (entry["principal"], entry["simulated"], entry["kind"], entry["epsilon"]) == ("dana", "", "dp", 0.5)
