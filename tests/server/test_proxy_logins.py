"""Logins in the audit log: who came in, who did not, and that refusals without end fill no disk."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Iterator
from typing import Any

import psycopg
import pytest
from proxy_running import PASSWORD, POLICY, Running, running

from sqlanon.errors import Refused
from sqlanon.server.audit import Record
from sqlanon.server.audit_chain import verify
from sqlanon.server.login_log import KINDS, Logins, address_of

LIMITS = "  limits: {connections: 2, unauthenticated: 8, wrong_passwords: 10000}\n"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("logins"), POLICY + LIMITS) as found:
        yield found


def flushed(proxy: Running) -> None:
    async def flush() -> None:
        proxy.server.door.logins.flush()
        await asyncio.gather(*proxy.server.door._later)

    proxy.call(flush())


def new(proxy: Running, before: int) -> list[tuple[Any, ...]]:
    """Logins since then."""
    names = ("principal", "door", "decision", "sqlstate", "address", "count")
    return [tuple(entry[name] for name in names) for entry in proxy.events("login")[before:]]


def refused(proxy: Running, *arguments: Any, **options: Any) -> None:
    with pytest.raises(psycopg.OperationalError):
        proxy.connect(*arguments, **options)


@pytest.mark.full
def test_a_login_is_written_with_the_session_of_its_statements(proxy: Running) -> None:
    flushed(proxy)
    before = len(proxy.events("login"))
    with proxy.connect("bob") as db:
        assert new(proxy, before) == [("bob", "pg", "answered", "00000", "127.0.0.1", 1)]
        db.execute("SELECT town FROM towns").fetchall()
    entry = proxy.events("login")[before]
    assert entry["session"] == proxy.log[-1]["session"] and entry["policy"] == proxy.log[-1]["policy"]
    assert "address" not in proxy.log[-1] and "count" not in proxy.log[-1]


@pytest.mark.full
def test_refusals_that_are_alike_are_two_lines_with_their_number(proxy: Running) -> None:
    flushed(proxy)
    before = len(proxy.events("login"))
    for _ in range(30):
        refused(proxy, "ann", "a wrong secret")
    assert new(proxy, before) == [("ann", "pg", "refused", "28P01", "127.0.0.1", 1)]
    flushed(proxy)
    assert new(proxy, before)[1:] == [("ann", "pg", "refused", "28P01", "127.0.0.1", 29)]
    flushed(proxy)
    assert len(new(proxy, before)) == 2, "nothing came since"


def test_each_reason_has_its_sqlstate_and_no_secret_is_written(proxy: Running) -> None:
    flushed(proxy)
    before = len(proxy.events("login"))
    refused(proxy, "my secret, in the wrong field", "wrong")
    refused(proxy, "ann", dbname="elsewhere")
    with proxy.connect(), proxy.connect():
        refused(proxy, "ann")
    flushed(proxy)
    told = [(who, state) for who, _, decision, state, _, _ in new(proxy, before) if decision == "refused"]
    assert told == [("", "28P01"), ("ann", "3D000"), ("ann", "53300")]
    text = (proxy.folder / "policy.audit.jsonl").read_text(encoding="utf-8")
    for secret in (PASSWORD, "a wrong secret", "my secret", "elsewhere"):
        assert secret not in text
    verify(proxy.folder / "policy.audit.jsonl")


def test_strangers_who_are_turned_away_are_counted(proxy: Running) -> None:
    flushed(proxy)
    before = len(proxy.events("login"))
    silent = [socket.create_connection(("127.0.0.1", proxy.server.port)) for _ in range(100)]
    try:
        with proxy.connect():
            pass
    finally:
        for each in silent:
            each.close()
    flushed(proxy)
    found = new(proxy, before)
    strangers = [count for who, _, _, state, _, count in found if (who, state) == ("", "53300")]
    assert len(strangers) == 2 and sum(strangers) >= 20
    assert ("ann", "pg", "answered", "00000", "127.0.0.1", 1) in found


def test_nobody_comes_in_unseen(proxy: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(record: Record) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(proxy.server.door.audit, "write", full)
        with pytest.raises(psycopg.OperationalError, match="logins are not possible now"):
            proxy.connect()
    proxy.connect().close()


# ---- how much is written


def written(work: Any, **options: Any) -> list[Record]:
    """What `work` makes Logins write."""
    found: list[Record] = []

    async def write(record: Record) -> None:
        found.append(record)

    async def scenario() -> None:
        logins = Logins(write, found.append, lambda: "fingerprint", **options)
        result = work(logins)
        if isinstance(result, Awaitable):
            await result
        logins.flush()

    asyncio.run(scenario())
    return found


@pytest.mark.full
def test_a_flood_from_many_addresses_stays_small() -> None:
    def flood(logins: Logins) -> None:
        for number in range(100_000):
            logins.refused(f"user{number % 1000}", "pg", f"10.0.{number % 200}.{number % 250}", "28P01")

    found = written(flood)
    assert len(found) <= 2 * (KINDS + 1)
    assert sum(record.count for record in found) == 100_000
    assert found[-1].address == found[-1].principal == "" and found[-1].count > 90_000


def test_after_a_period_it_is_written_and_told_anew() -> None:
    async def twice(logins: Logins) -> None:
        for _ in range(3):
            logins.refused("ann", "pg", "10.0.0.1", "28P01")
        await asyncio.sleep(0.3)
        logins.refused("ann", "pg", "10.0.0.1", "28P01")

    assert [record.count for record in written(twice, period=0.1)] == [1, 2, 1]


def test_a_login_that_cannot_be_written_is_told() -> None:
    async def broken(record: Record) -> None:
        raise Refused("the disk is full", sqlstate="58030")

    logins = Logins(broken, lambda record: None, lambda: "")
    with pytest.raises(Refused):
        asyncio.run(logins.succeeded("ann", "s", "pg", "10.0.0.1"))


def test_the_address_of_a_client() -> None:
    assert address_of(("10.0.0.1", 4711)) == "10.0.0.1" and address_of(("fe80::1%eth0", 1, 0, 0)) == "fe80::1%eth0"
    assert address_of(None) == address_of("") == ""
