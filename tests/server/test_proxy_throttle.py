"""Guessed passwords, and many statements of one principal: there is a limit, the policy names it, and others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from proxy_running import PASSWORD, POLICY, Running, running
from worker_world import HEAVY, failure, given, make, pool_of

from sqlanon.errors import Refused
from sqlanon.server.login_throttle import ALL_NAMES, PERIOD, LoginThrottle

MOST = 3
WRONG, MANY = "password authentication failed", "too many wrong passwords"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = f"  limits: {{wrong_passwords: {MOST}, unauthenticated: 50}}\n"
    with running(tmp_path_factory.mktemp("throttle"), POLICY + limits) as found:
        yield found


@pytest.fixture
def clock(proxy: Running) -> list[float]:
    """The time of the throttle, which starts anew with each test."""
    now = [0.0]
    proxy.server.throttle = LoginThrottle(proxy.server.throttle.limit, clock=lambda: now[0])
    return now


def said(proxy: Running, user: str, password: str) -> str:
    try:
        proxy.connect(user, password).close()
    except psycopg.OperationalError as error:
        return str(error)
    return "welcome"


@pytest.mark.full
@pytest.mark.parametrize("name", ["ann", "nobody_of_this_name"])
def test_guesses_end_after_a_few_whether_or_not_the_name_exists(proxy: Running, clock: list[float], name: str) -> None:
    for _ in range(MOST):
        assert WRONG in said(proxy, name, "a guess")
    for _ in range(5):
        assert MANY in said(proxy, name, "another guess")
    assert MANY in said(proxy, name, PASSWORD), "the right one is not confirmed either"
    assert said(proxy, "bob", PASSWORD) == "welcome", "others log in"
    clock[0] += PERIOD
    assert (said(proxy, name, PASSWORD) == "welcome") == (name == "ann")


def test_guesses_at_the_same_time_are_counted_before_they_are_answered(proxy: Running, clock: list[float]) -> None:
    with ThreadPoolExecutor(20) as many:
        answers = list(many.map(lambda number: said(proxy, "ann", f"guess {number}"), range(20)))
    assert sum(WRONG in answer for answer in answers) == MOST
    assert sum(MANY in answer for answer in answers) == 20 - MOST


def test_whoever_knows_the_password_is_never_slowed_down(proxy: Running, clock: list[float]) -> None:
    assert {said(proxy, "ann", PASSWORD) for _ in range(4 * MOST)} == {"welcome"}


def test_guesses_over_many_names_or_from_many_addresses_end_too() -> None:
    throttle = LoginThrottle(lambda: MOST, clock=lambda: 0.0)
    for number in range(ALL_NAMES * MOST):
        throttle.begin("10.0.0.1", f"name {number}")
    with pytest.raises(Refused):
        throttle.begin("10.0.0.1", "one more")
    throttle.begin("10.0.0.2", "ann")
    throttle.succeed("10.0.0.2", "ann")
    for number in range(ALL_NAMES * MOST):
        throttle.begin(f"10.1.0.{number}", "ann")
    with pytest.raises(Refused):
        throttle.begin("10.2.0.1", "ann")
    throttle.begin("10.0.0.2", "ann")  # from where ann is known to come


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlanon.server.login_throttle.REMEMBERED", 50)
    throttle = LoginThrottle(lambda: MOST, clock=lambda: 0.0)
    for number in range(500):
        throttle.begin(f"10.0.{number}.1", f"name {number}")
        throttle.succeed(f"10.0.{number}.1", f"name {number}")
        throttle.begin(f"10.0.{number}.2", f"name {number}")
    assert len(throttle._tried) <= 50 and len(throttle._welcome) <= 50


@pytest.mark.full
def test_one_principal_has_so_many_statements_and_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pool_of(make(tmp_path), size=2) as pool:
            pool.most_of_one = lambda: 4
            own = [asyncio.create_task(given(pool, HEAVY)) for _ in range(4)]
            await asyncio.sleep(0.3)
            refused = await failure(pool, "SELECT count(*) FROM released")
            assert refused.sqlstate == "53300" and "4 of your statements run or wait already" in refused.message
            assert refused.hint is not None and "statements" in refused.hint
            assert (await given(pool, "SELECT count(*) FROM released", "bob")).rows == 1
            for task in own:
                task.cancel()
            await asyncio.gather(*own, return_exceptions=True)

    asyncio.run(scenario())
