"""A policy that changes while clients are at work: what was given them before is no way around the new one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from proxy_running import PASSWORD, POLICY, Running, running
from raw_client import SYNC, Raw, bind, describe, execute, parse, query

from sqlanon.server import broker as door_module
from sqlanon.server.work_messages import Ask, Described

TOWNS = "SELECT town FROM towns"
VISITS = "SELECT count(*) AS n FROM visits"


def changed(here: Running, text: str) -> None:
    (here.folder / "policy.yml").write_text(text, encoding="utf-8")
    assert here.call(here.server.door.reload())


@contextmanager
def raw_of(here: Running, user: str = "ann") -> Iterator[Raw]:
    with Raw("127.0.0.1", here.server.port, timeout=60) as raw:
        raw.login(user, PASSWORD, "policy")
        yield raw


def errors(raw: Raw, *messages: bytes) -> list[str]:
    replies = raw.ask(b"".join(messages))
    assert not [reply for reply in replies if reply.kind in "Dd"], "rows came"
    return [reply.fields["C"] for reply in replies if reply.kind == "E"]


WITHOUT = POLICY.replace(
    "  answer_time: 0\n", "  answer_time: 0\n  access: [{tables: [towns], to: [all], except: [ann]}]\n"
)
FEWER = POLICY.replace(
    "  answer_time: 0\n", "  answer_time: 0\n  access: [{tables: [towns], columns: [town], to: [all], except: [ann]}]\n"
)


@pytest.mark.full
@pytest.mark.parametrize(("text", "sqlstate"), [(WITHOUT, "42P01"), (FEWER, "42703")], ids=["table", "column"])
def test_what_was_made_before_access_was_taken_away(tmp_path: Path, text: str, sqlstate: str) -> None:
    """Statements, portals, and cursors whose rows have been read and not yet fetched."""
    with running(tmp_path) as here, raw_of(here) as raw, raw_of(here) as held, raw_of(here, "bob") as other:
        raw.ask(parse("s", TOWNS) + SYNC)
        raw.ask(query(f"PREPARE q AS {TOWNS}"))
        raw.ask(query("BEGIN"))
        raw.ask(parse("", TOWNS) + bind("bound", "") + SYNC)
        raw.ask(parse("", TOWNS) + bind("half", "") + execute("half", 1) + SYNC)
        raw.ask(query(f"DECLARE open CURSOR FOR {TOWNS}"))
        for client in (held, other):
            client.ask(query(f"DECLARE c CURSOR WITH HOLD FOR {TOWNS}"))
            assert client.kinds(query("FETCH 1 c")) == "T D C"
        changed(here, text)
        for messages in (
            execute("bound") + SYNC, execute("half", 1) + SYNC, query("FETCH ALL open"),
            bind("", "s") + execute() + SYNC, bind("", "s") + execute("", 1) + SYNC, query("EXECUTE q"),
        ):  # fmt: skip
            raw.ask(query("SAVEPOINT a"))
            assert errors(raw, messages)[:1] == [sqlstate]
            raw.ask(query("ROLLBACK TO a"))
        assert errors(held, query("FETCH ALL c")) == [sqlstate]
        assert errors(held, query("FETCH ALL c")) == ["34000"]
        assert other.kinds(query("FETCH ALL c")) == "T D C", "he may see it still, and reads on"
        changed(here, POLICY)
        assert errors(held, query("FETCH ALL c")) == ["34000"], "what was refused does not come back"


@pytest.mark.full
def test_made_up_data_begins_for_portals_that_were_bound_before(tmp_path: Path) -> None:
    with running(tmp_path) as here, raw_of(here) as raw:
        raw.ask(query("BEGIN"))
        raw.ask(parse("", VISITS) + bind("p", "") + describe("P", "p") + SYNC)
        changed(here, POLICY + "  dry_run: [ann]\n")
        before = here.spent()
        raw.ask(execute("p") + SYNC)
        assert (here.log[-1]["kind"], here.spent()) == ("synthetic", before)


@pytest.mark.full
def test_who_is_no_administrator_any_more_simulates_nobody(tmp_path: Path) -> None:
    with running(tmp_path) as here, raw_of(here, "dana") as raw:
        raw.ask(query("SET sqlanon.simulate = 'bob'"))
        assert raw.kinds(query(TOWNS)).startswith("T D")
        raw.ask(query("BEGIN"))
        raw.ask(parse("", TOWNS) + bind("p", "") + SYNC)
        changed(here, POLICY.replace("  administrators: [dana]\n", ""))
        assert errors(raw, execute("p") + SYNC) == ["42501"]
        raw.ask(query("ROLLBACK"))
        for sql in (TOWNS, f"EXPLAIN {TOWNS}", "SELECT relname FROM pg_class"):
            assert errors(raw, query(sql)) == ["42501"]
        raw.ask(query("SET sqlanon.simulate = ''"))
        assert raw.kinds(query(TOWNS)).startswith("T D")


# ---- the audit log


@pytest.mark.full
def test_the_log_has_the_policy_that_answered(tmp_path: Path) -> None:
    """Also of a statement that waited for its worker while the policy changed."""
    with running(tmp_path) as here:
        door = here.server.door
        first = door.current.fingerprint

        async def scenario() -> tuple[str, str]:
            caller = door_module.Caller("ann", "test")
            question = door_module._one_question(TOWNS, intervals=False)

            async def asked() -> None:
                async with door.run(caller, question, door.ask(caller, question)) as running:
                    async for _ in running.chunks():
                        pass

            child = await door.queries.acquire("bob")  # the only one: whoever comes now waits
            waiting = asyncio.create_task(asked())
            await asyncio.sleep(0.1)
            (tmp_path / "policy.yml").write_text(POLICY.replace("rows: 4", "rows: 5"), encoding="utf-8")
            assert await door.reload()
            await waiting
            door.queries.release(child, "bob")
            return first, door.current.fingerprint

        old, new = here.call(scenario())
        assert old != new and here.log[-1]["policy"] == new


@pytest.mark.full
def test_both_kinds_of_workers_change_in_one_step(tmp_path: Path) -> None:
    with running(tmp_path) as here:
        door = here.server.door
        seen = set()

        async def scenario() -> None:
            (tmp_path / "policy.yml").write_text(POLICY.replace("rows: 4", "rows: 5"), encoding="utf-8")
            task = asyncio.create_task(door.reload())
            while not task.done():
                seen.add((door.queries.version, door.catalog.version, door.current.number))
                await asyncio.sleep(0)
            assert await task

        here.call(scenario())
        assert seen <= {(1, 1, 1), (2, 2, 2)}


# ---- one timeout for a statement


@pytest.mark.full
def test_describing_and_running_have_one_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path) as here, raw_of(here) as raw:
        door, given = here.server.door, list[float]()
        plain, run = door.describe, door.run

        async def slow(*arguments: Any) -> Described:
            given.append(arguments[3])
            await asyncio.sleep(1.0)
            return await plain(*arguments)

        def noted(caller: Any, question: Any, ask: Ask) -> Any:
            given.append(ask.timeout)
            return run(caller, question, ask)

        monkeypatch.setattr(door, "describe", slow)
        monkeypatch.setattr(door, "run", noted)
        raw.ask(query("SET statement_timeout = 10000"))
        for messages in (query(TOWNS), parse("", TOWNS) + bind("", "") + execute() + SYNC):
            given.clear()
            assert "C" in raw.kinds(messages)
            assert 9 < given[0] <= 10 and given[1] <= given[0] - 1.0
        given.clear()
        raw.ask(parse("s", TOWNS) + SYNC)
        raw.ask(bind("", "s") + execute() + SYNC)
        assert given[1] > 9.5, "a statement that is prepared runs later, with a time of its own"
        given.clear()
        raw.ask(query(f"{TOWNS}; {TOWNS}"))
        assert given[2] > 9, "each of two statements has its own"


@pytest.mark.full
def test_a_describing_that_takes_too_long_ends_the_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path) as here, here.connect() as db:
        door = here.server.door
        plain = door.describe

        async def slow(*arguments: Any) -> Described:
            found = await plain(*arguments)
            await asyncio.sleep(1.0)
            return found

        monkeypatch.setattr(door, "describe", slow)
        db.execute("SET statement_timeout = 800")
        start = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            db.execute(TOWNS)
        assert time.monotonic() - start < 20


@pytest.mark.full
@pytest.mark.parametrize("works", [True, False], ids=["adopted", "failed"])
def test_what_is_taken_away_is_not_answered_while_workers_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    """Statements wait for the workers of the new policy, and get its answer."""
    patient = "  timeouts: {statement: 300}\n"  # new workers take long on a machine that does much else
    with running(tmp_path, POLICY + patient) as here, raw_of(here) as raw:
        assert raw.kinds(query(TOWNS)) == "T D D C"
        entered, go_on = asyncio.Event(), asyncio.Event()
        opened = here.server.door._opened

        async def slow(version: Any) -> Any:
            entered.set()
            await go_on.wait()
            if not works:
                raise OSError("the workers cannot be started")
            return await opened(version)

        async def reload() -> None:
            with suppress(OSError):
                await here.server.door.reload()

        monkeypatch.setattr(here.server.door, "_opened", slow)
        (here.folder / "policy.yml").write_text(WITHOUT + patient, encoding="utf-8")
        reloading = asyncio.run_coroutine_threadsafe(reload(), here.loop)
        here.call(entered.wait())
        with ThreadPoolExecutor(1) as other:
            asked = other.submit(raw.ask, query(TOWNS))
            time.sleep(0.5)
            assert not asked.done(), "answered under the policy that was taken back"
            here.loop.call_soon_threadsafe(go_on.set)
            replies = asked.result(120)
        reloading.result(120)
        assert not [reply for reply in replies if reply.kind == "D"]
        states = [reply.fields["C"] for reply in replies if reply.kind == "E"]
        assert states == ["42P01" if works else "57P03"]
