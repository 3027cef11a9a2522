"""Time and failure over the wire: what a client can measure, shorten or break off tells nothing of one person."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from proxy_running import PASSWORD, served
from raw_client import Raw, cancel, query
from timing_attack import CHOSEN, LEVEL, chance, guessed_right, long_question, longest_pattern, shop, trials, within
from worker_world import COUNT, POLICY, alive, failure, given, make, pool_of

from sqlanon.errors import Refused
from sqlanon.gateway import open_gateway
from sqlanon.ledger import Event, Ledger
from sqlanon.server import users
from sqlanon.server.work_messages import CHARGED

YOUNGER = CHOSEN + 1  # who was born later


def events(policy: Path) -> list[Event]:
    with Ledger.open(policy.with_suffix(".ledger")) as ledger:
        return ledger.history()


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def scenario(folder: Path, seconds: float, run: Callable[[Path], Awaitable[None]]) -> None:
    """A policy whose answers leave after so many seconds, for one worker."""
    text = POLICY.replace("answer_time: 0", f"answer_time: {seconds}")
    asyncio.run(run(make(folder, policy=text)))  # type: ignore[arg-type]


# ---- who breaks off


@pytest.mark.full
def test_who_breaks_off_is_told_so_and_the_worker_goes_on(tmp_path: Path) -> None:
    """The client's time is his own; that of the worker is the statement's, so that nobody can see when it was done."""

    async def run(policy: Path) -> None:
        async with pool_of(policy) as pool:
            task = asyncio.create_task(given(pool, COUNT))
            await until(lambda: bool(events(policy)))
            charged = time.monotonic()
            task.cancel()
            await asyncio.wait([task])
            assert time.monotonic() - charged < 2
            assert [event.kind for event in events(policy)] == ["charge"]
            plain = await given(pool, "SELECT count(*) FROM released")
            assert plain.rows == 1 and time.monotonic() - charged > 3.5, "the next statement waits for the worker"
            assert [event.kind for event in events(policy)] == ["charge", "answered"]
            assert (await given(pool, COUNT)).summary.cached, "what was paid for is there"

    scenario(tmp_path, 4, run)


@pytest.mark.full
def test_a_timeout_of_the_client_is_the_same_whatever_the_worker_does(tmp_path: Path) -> None:
    async def run(policy: Path) -> None:
        async with pool_of(policy) as pool:
            refused = await failure(pool, COUNT, timeout=2)
            assert refused.sqlstate == "54000" and "leave after 3 s" in refused.message and events(policy) == []
            # It waits for the worker so long that its own time is over before its answer would leave.
            first = asyncio.create_task(given(pool, COUNT))
            await until(lambda: bool(events(policy)))
            late = await failure(pool, "SELECT count(*) FROM users WHERE age > 30", timeout=4)
            assert late.message == "canceling statement due to statement timeout"
            assert (await first).rows == 5
            assert (await given(pool, "SELECT count(*) FROM users WHERE age > 30", timeout=60)).rows == 1

    scenario(tmp_path, 3, run)


@pytest.mark.full
def test_a_worker_that_dies_is_missed_when_its_answer_would_leave(tmp_path: Path) -> None:
    """Whether data made it die, or a want of memory, is told by nothing: words and time are those of any failure."""

    async def run(policy: Path) -> None:
        async with pool_of(policy) as pool:
            (pid,) = pool.pids
            task = asyncio.create_task(failure(pool, COUNT))
            await until(lambda: bool(events(policy)))
            charged = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            await until(lambda: not alive(pid))
            assert pool.alive and not task.done()
            assert await task == CHARGED and time.monotonic() - charged > 3.5
            assert (await given(pool, COUNT, timeout=60)).rows == 5
            assert pool.pids != (pid,)

    scenario(tmp_path, 4, run)


# ---- the attack


@contextmanager
def serving(folder: Path, answer_time: float) -> Iterator[tuple[int, int]]:
    """The example as it is shipped, with two customers of known ages; gives its port and the longest pattern."""
    added = f"\n  answer_time: {answer_time}\n  failures: 1000\nserve: {{port: 0, workers: 1}}\n"
    policy = shop(folder / "shop", 1950, lambda text: text.rstrip() + added)
    with duckdb.connect(str(policy.parent / "shop.duckdb")) as connection:
        connection.execute(f"UPDATE customers SET born = 1990 WHERE customer_id = {YOUNGER}")
    Ledger.create(policy.with_suffix(".ledger")).close()
    users.set_password(policy.with_suffix(".users"), "alice", PASSWORD, new=True)
    gate = open_gateway(policy)

    def is_refused(pattern: int) -> bool:
        try:
            gate.prepare(long_question(0, pattern), "alice")
        except Refused:
            return True
        return False

    pattern = longest_pattern(is_refused)
    gate.close()
    with served(policy) as (server, _):
        yield server.port, pattern


@pytest.mark.full
def test_a_short_timeout_is_no_question(tmp_path: Path) -> None:
    """57014 was a yes: with a timeout between two times, 52 questions told a whole e-mail address."""
    with serving(tmp_path, 4.0) as (port, pattern), Raw("127.0.0.1", port, timeout=300) as raw:
        raw.login("alice", PASSWORD, "policy")
        raw.ask(query("SET sqlanon.epsilon = 0.01"))
        raw.ask(query("SET statement_timeout = 3500"))
        told = []
        for who in (CHOSEN, YOUNGER):
            (error,) = (reply for reply in raw.ask(query(long_question(1, pattern, who=who))) if reply.kind == "E")
            told.append(error.body)
        assert told[0] == told[1] and b"54000" in told[0] and b"statement_timeout" in told[0]
        assert raw.kinds(query(long_question(2, 400, joined=True))).endswith("54001")
        assert events(tmp_path / "shop" / "policy.yml") == []
        raw.ask(query("SET statement_timeout = 0"))
        started = time.monotonic()
        raw.send(query(long_question(3, pattern)))
        time.sleep(0.3)
        cancel("127.0.0.1", port, raw.process, raw.secret)
        raw.until_ready()
        assert raw.kinds(query("SELECT count(*) FROM cities")) == "T D C"
        assert time.monotonic() - started >= 4, "the one worker is busy until then"


def advantage(folder: Path, count: int, answer_time: float, *, behind: bool = False) -> tuple[int, int]:
    """The heaviest question that is not refused, about who is old and who is young. `behind`: the time of what comes
    after it, from another session."""
    with (
        serving(folder, answer_time) as (port, pattern),
        Raw("127.0.0.1", port, timeout=300) as raw,
        Raw("127.0.0.1", port, timeout=300) as other,
    ):
        for each in (raw, other):
            each.login("alice", PASSWORD, "policy")
            each.ask(query("SET sqlanon.epsilon = 0.01"))

        def ask(truth: bool, number: int) -> float:
            start = time.perf_counter()
            raw.send(query(long_question(number, pattern, who=CHOSEN if truth else YOUNGER)))
            if behind:
                time.sleep(answer_time / 4)
                other.ask(query("SELECT count(*) FROM cities"))
            else:
                raw.until_ready()
            seconds = time.perf_counter() - start
            if behind:
                raw.until_ready()
            return seconds

        return guessed_right(trials(count, ask))


@pytest.mark.full
def test_a_clock_tells_nothing_over_the_wire(tmp_path: Path) -> None:
    right, of = advantage(tmp_path, 24, 0.4)
    assert chance(right, of) > LEVEL, (right, of)


@pytest.mark.long
@pytest.mark.parametrize("behind", [False, True], ids=["own", "behind"])
def test_a_clock_tells_nothing_of_many_trials_over_the_wire(tmp_path: Path, behind: bool) -> None:
    right, of = advantage(tmp_path, 400, 0.4, behind=behind)
    assert chance(right, of) > LEVEL and within(right, of) < 0.65, (right, of, within(right, of))
