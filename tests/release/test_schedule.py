"""Schedules: when a refresh is due, that exactly one runs, and what becomes of those that fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, pairwise, takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sqlanon.cli import main
from sqlanon.errors import PolicyError
from sqlanon.ledger.runs import LEASE, Runs
from sqlanon.policy import parse
from sqlanon.policy.schedule import Schedule
from sqlanon.schedule import Job, RefreshOutcome, due, refresh, serve_schedule

POLICY = """
source: {database: warehouse.duckdb, table: people}
person: id
columns: {id: identifier, town: quasi_identifier, illness: sensitive}
hierarchies:
  town: {tree: {tree: {"*": [A, B]}}}
models: [{k_anonymity: {k: 2}}]
release: {view: released}
history: {}
schedule: {cron: "0 3 * * *", tz: Europe/Athens}
"""
KEY = "a key that is long enough"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(cron: str, tz: str, after: str, count: int = 3) -> list[str]:
    found = Schedule(cron=cron, tz=tz).times(at(after))
    return [f"{next(found):%Y-%m-%d %H:%M}" for _ in range(count)]


def test_times_of_a_zone() -> None:
    assert times("0 3 * * *", "Europe/Athens", "2026-01-10 12:00") == [
        "2026-01-11 01:00",
        "2026-01-12 01:00",
        "2026-01-13 01:00",
    ]
    assert times("0 3 * * *", "Europe/Athens", "2026-07-10 12:00", 1) == ["2026-07-11 00:00"]


def test_the_hour_that_is_left_out_in_spring() -> None:
    """In Athens 29 March 2026 goes from 2:59 to 4:00: what is due at 3:30 comes when that hour would have been."""
    assert times("30 3 * * *", "Europe/Athens", "2026-03-28 12:00", 2) == ["2026-03-29 01:00", "2026-03-30 00:30"]
    assert times("0 * * * *", "Europe/Athens", "2026-03-29 00:30", 3) == [
        "2026-03-29 01:00",
        "2026-03-29 02:00",
        "2026-03-29 03:00",
    ]


def test_the_hour_that_comes_twice_in_autumn() -> None:
    """On 25 October 2026 3:30 comes twice there: a daily refresh runs once, an hourly one every hour."""
    assert times("30 3 * * *", "Europe/Athens", "2026-10-24 12:00", 2) == ["2026-10-25 00:30", "2026-10-26 01:30"]
    assert times("0 * * * *", "Europe/Athens", "2026-10-24 23:30", 3) == [
        "2026-10-25 00:00",
        "2026-10-25 01:00",
        "2026-10-25 02:00",
    ]


def test_times_of_the_second_of_two_equal_hours() -> None:
    after = at("2026-10-25 01:10")  # 3:10 for the second time
    assert next(Schedule(cron="30 3 * * *", tz="Europe/Athens").times(after)) == at("2026-10-26 01:30")


def test_leap_days_and_names() -> None:
    assert times("0 0 29 2 *", "UTC", "2026-01-01 00:00", 2) == ["2028-02-29 00:00", "2032-02-29 00:00"]
    assert times("@daily", "UTC", "2026-02-28 10:00", 2) == ["2026-03-01 00:00", "2026-03-02 00:00"]
    assert times("@weekly", "UTC", "2026-11-16 10:00", 1) == ["2026-11-22 00:00"]  # a Sunday
    assert times("0 6 * * mon", "UTC", "2026-11-16 10:00", 1) == ["2026-11-23 06:00"]


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
    st.sampled_from(["0 3 * * *", "*/15 * * * *", "30 2 * * 0", "@monthly"]),
    st.sampled_from(["UTC", "Europe/Athens", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_times_only_go_forward(moment: datetime, cron: str, tz: str) -> None:
    found = Schedule(cron=cron, tz=tz).times(moment.replace(tzinfo=UTC))
    listed = [moment.replace(tzinfo=UTC), *(next(found) for _ in range(5))]
    assert all(one < other for one, other in pairwise(listed))


def test_missed_times_are_made_up_for_once() -> None:
    run, skip = Schedule(cron="@hourly"), Schedule(cron="@hourly", misfire="skip")
    last = at("2026-01-01 00:00")
    assert run.due(last, at("2026-01-01 00:59")) is None
    assert run.due(last, at("2026-01-01 05:20")) == at("2026-01-01 05:00")
    assert skip.due(last, at("2026-01-01 05:20")) is None
    assert skip.due(last, at("2026-01-01 05:00:30")) == at("2026-01-01 05:00")
    assert run.due(at("2019-01-01 00:00"), at("2026-01-01 05:20")) == at("2026-01-01 05:00")


ZONES = ["Europe/Athens", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu", "UTC"]


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("cron", ["30 2 * * *", "0 3 * * *", "15 0 * * *", "30 1 * * *", "@daily"])
def test_every_day_of_a_year_has_one_time(cron: str, tz: str) -> None:
    """Whatever the clocks do: two days are 23 or 25 hours long, and each has its refresh."""
    zone = ZoneInfo(tz)
    begin, end = datetime(2026, 1, 1, tzinfo=zone), datetime(2029, 1, 1, tzinfo=zone)
    found = takewhile(lambda moment: moment < end, Schedule(cron=cron, tz=tz).times(begin - timedelta(seconds=1)))
    days = [moment.astimezone(zone).date() for moment in found]
    assert days == [begin.date() + timedelta(days=number) for number in range(365 + 365 + 366)]


@pytest.mark.parametrize("tz", ["Europe/Athens", "America/New_York", "America/Santiago"])
def test_what_runs_every_hour_runs_every_hour(tz: str) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    found = list(islice(Schedule(cron="@hourly", tz=tz).times(begin), 365 * 24))
    assert found == [begin + timedelta(hours=number) for number in range(1, 365 * 24 + 1)]


def test_what_was_missed_while_the_clocks_changed() -> None:
    """A machine that slept through the change makes up for the last time only, and for that once."""
    for before, moment, after in (
        ("2026-03-28 01:30", "2026-03-29 01:00", "2026-03-29 09:00"),  # 3:30 does not exist on 29 March
        ("2026-10-24 00:30", "2026-10-25 00:30", "2026-10-25 09:00"),  # and comes twice on 25 October
    ):
        run = Schedule(cron="30 3 * * *", tz="Europe/Athens")
        assert run.due(at(before), at(after)) == at(moment)
        assert run.due(at(moment), at(after)) is None
        assert Schedule(cron=run.cron, tz=run.tz, misfire="skip").due(at(before), at(after)) is None
    leap = Schedule(cron="0 0 29 2 *")
    assert leap.due(at("2024-02-29 00:00"), at("2028-02-28 23:59")) is None
    assert leap.due(at("2024-02-29 00:00"), at("2029-06-01 00:00")) == at("2028-02-29 00:00")
    assert Schedule(cron="0 0 29 2 *", misfire="skip").due(at("2024-02-29 00:00"), at("2028-03-01 00:00")) is None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{cron: "0 3 * *"}', "five fields"),
        ('{cron: "61 3 * * *"}', "Bad minute"),
        ('{cron: "0 0 31 2 *"}', "Bad day-of-month"),
        ('{cron: "0 3 * * *", tz: Europe/Atens}', "did you mean 'Europe/Athens'"),
        ('{cron: "0 3 * * *", misfire: never}', "run"),
        ('{cron: "0 3 * * *", retries: 99}', "a number from 0 to 10"),
        ("{tz: UTC}", "cron"),
    ],
)
def test_wrong_schedules(written: str, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse(POLICY.replace('{cron: "0 3 * * *", tz: Europe/Athens}', written))
    assert said in str(error.value)


# ---- runs


@pytest.fixture
def job(tmp_path: Path) -> Job:
    fill(tmp_path, 6)
    path = tmp_path / "policy.yml"
    path.write_text(POLICY)
    return Job(path)


def fill(folder: Path, rows: int) -> None:
    with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
        connection.execute("CREATE OR REPLACE TABLE people (id INTEGER, town TEXT, illness TEXT)")
        row = "i, ['A', 'B'][i % 2 + 1], ['flu', 'cold'][i // 2 % 2 + 1]"
        connection.execute(f"INSERT INTO people SELECT {row} FROM range({rows}) AS r(i)")


def test_one_of_many_claims_a_time(tmp_path: Path) -> None:
    moment = at("2026-01-01 03:00")

    def claim(number: int) -> bool:
        return Runs(tmp_path / "runs").claim("r", moment, f"owner {number}", moment, attempts=4) is not None

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(claim, range(64))) == 1


def test_a_run_that_failed_is_tried_again_and_one_that_did_not_is_not(tmp_path: Path) -> None:
    runs, moment = Runs(tmp_path / "runs"), at("2026-01-01 03:00")
    for outcome, attempt in (("failed", 1), ("failed", 2), ("done", 3)):
        run = runs.claim("r", moment, "me", moment, attempts=4)
        assert run is not None and run.attempt == attempt
        assert runs.claim("r", moment + timedelta(days=1), "you", moment, attempts=4) is None  # while it runs
        runs.finish(run, outcome, moment)
    assert runs.claim("r", moment, "me", moment, attempts=4) is None
    assert runs.last_due("r") == moment


def test_tries_come_to_an_end(tmp_path: Path) -> None:
    runs, moment = Runs(tmp_path / "runs"), at("2026-01-01 03:00")
    for _ in range(2):
        run = runs.claim("r", moment, "me", moment, attempts=2)
        assert run is not None
        runs.finish(run, "failed", moment)
    assert runs.claim("r", moment, "me", moment, attempts=2) is None


def test_who_died_is_replaced(tmp_path: Path) -> None:
    runs, moment = Runs(tmp_path / "runs"), at("2026-01-01 03:00")
    dead = runs.claim("r", moment, "me", moment, attempts=4)
    assert dead is not None
    assert runs.alive(dead, moment + LEASE / 2)
    assert runs.claim("r", moment, "you", moment + LEASE, attempts=4) is None
    again = runs.claim("r", moment, "you", moment + 2 * LEASE, attempts=4)
    assert again is not None and again.attempt == 2
    assert not runs.alive(dead, moment + 2 * LEASE)  # and is told when it wakes up
    assert [run.outcome for run in runs.listed("r")] == ["running", "lost"]


def test_a_refresh_is_due_refreshed_and_due_no_more(job: Job) -> None:
    now = datetime.now(UTC)
    assert due(job, now) is None
    tomorrow = now + timedelta(days=1, minutes=1)
    moment = due(job, tomorrow)
    assert moment is not None and now < moment <= tomorrow
    done = refresh(job, moment, secret=KEY)
    assert done.published is not None and done.published.document["history"]["version"] == 1
    assert due(job, tomorrow) is None
    assert refresh(job, moment, secret=KEY).run is None
    (run,) = job.runs.listed("released")
    assert (run.outcome, run.version, run.due) == ("done", 1, moment)


def test_a_refusal_stays_refused_and_says_why(job: Job) -> None:
    refresh(job, secret=KEY)
    fill(job.path.parent, 7)  # one newcomer, who would be told apart
    moment = at("2026-01-01 03:00")
    done = refresh(job, moment, secret=KEY)
    assert isinstance(done.error, PolicyError) and "held back" in str(done.error)
    assert refresh(job, moment, secret=KEY).run is None
    assert job.runs.listed("released")[0].outcome == "refused"
    with duckdb.connect(str(job.path.parent / "warehouse.duckdb")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM released").fetchall() == [(6,)]


def test_what_fails_for_a_passing_reason_waits_longer_each_time(job: Job) -> None:
    later = datetime.now(UTC) + timedelta(days=1, minutes=1)
    moment = due(job, later)
    assert moment is not None
    waits = []
    for _ in range(3):
        done = refresh(_Elsewhere(job.path), moment, now=partial(max, later, later), secret=KEY)
        assert done.error is not None and done.run is not None
        waits.append(next(wait for wait in (10, 40, 70, 130) if due(job, later + timedelta(seconds=wait))))
        later += timedelta(seconds=waits[-1])
    assert waits == [40, 70, 130]
    assert refresh(job, moment, now=lambda: later, secret=KEY).published is not None


class _Elsewhere(Job):
    """As if the database were away for a while."""

    def policy(self):  # type: ignore[no-untyped-def]
        found = super().policy()
        away = found.source.model_copy(update={"database": "nowhere/at all.duckdb"})
        return found.model_copy(update={"source": away})


@pytest.mark.full
def test_two_schedulers_and_each_time_once(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a slow machine a refresh takes minutes of this clock, and its owner would be taken to be dead.
    monkeypatch.setattr("sqlanon.ledger.runs.LEASE", timedelta(days=1))
    # Nor does anybody wait for the next minute in seconds of another clock.
    monkeypatch.setattr("sqlanon.schedule.LONGEST_WAIT", 0.2)
    job.path.write_text(POLICY.replace("0 3 * * *", "* * * * *"))
    start, began = datetime.now(UTC), time.monotonic()

    def fast() -> datetime:  # a minute goes by in half a second
        return start + timedelta(seconds=(time.monotonic() - began) * 120)

    told: list[RefreshOutcome] = []
    stop = threading.Event()
    workers = [
        threading.Thread(target=serve_schedule, args=([job], stop, told.append), kwargs={"now": fast, "secret": KEY})
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + 60
    while sum(item.published is not None for item in told) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    stop.set()
    for worker in workers:
        worker.join(30)
        assert not worker.is_alive()
    done = [run for run in job.runs.listed("released", 100) if run.outcome == "done"]
    assert len(done) >= 4
    assert len({run.due for run in done}) == len(done)
    spans = sorted((run.started, run.ended) for run in done if run.ended is not None)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))


def scheduler(job: Job) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sqlanon", "schedule", str(job.path)]
    return subprocess.Popen(command, env={**os.environ, "SQLANON_KEY": KEY}, stdout=subprocess.PIPE, text=True)


@pytest.mark.full
def test_two_processes_one_refresh_and_a_graceful_end(job: Job) -> None:
    """Both find that it is due, one does it; told to stop in the middle of it, it is finished first."""
    fill(job.path.parent, 200_000)
    os.utime(job.path, (1e9, 1e9))
    children = [scheduler(job) for _ in range(2)]
    try:
        assert all(child.stdout is not None and "next" in child.stdout.readline() for child in children)
        deadline = time.monotonic() + 120
        while not job.runs.listed("released") and time.monotonic() < deadline:
            time.sleep(0.01)
        for child in children:
            child.send_signal(signal.SIGTERM)
        told = [child.communicate(timeout=120)[0] for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert [child.returncode for child in children] == [0, 0]
    assert sorted("refreshed, version 1" in text for text in told) == [False, True]
    assert all(text.endswith("stopped\n") for text in told)
    (run,) = job.runs.listed("released")
    assert (run.outcome, run.version, run.attempt) == ("done", 1, 1)


def test_a_run_that_died_after_its_release_is_set_right(job: Job) -> None:
    """Killed between the release and the record: the release is out, and is not made again for the same time."""
    moment = at("2026-01-01 03:00")
    done = refresh(job, moment, secret=KEY)
    assert done.run is not None
    with job.runs._open() as connection:
        connection.execute("UPDATE runs SET outcome = 'running', version = NULL, ended = NULL, alive = '2000-01-01'")
    assert refresh(job, moment, secret=KEY).published is None
    (run,) = job.runs.listed("released")
    assert (run.outcome, run.version, run.due) == ("done", 1, moment)
    with job.runs._open() as connection:
        connection.execute("UPDATE runs SET outcome = 'running', version = NULL, ended = NULL, alive = '2000-01-01'")
    assert refresh(job, moment + timedelta(days=1), secret=KEY).published is not None
    assert [(run.outcome, run.version) for run in job.runs.listed("released")] == [("done", 2), ("done", 1)]


@pytest.mark.full
def test_the_commands(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLANON_KEY", KEY)

    def run(*args: str, code: int = 0, given: str = "") -> str:
        done = CliRunner().invoke(main, [*args], input=given)
        assert done.exit_code == code, done.output
        return done.output

    policy = str(job.path)
    assert "was not published yet" in run("releases", "list", policy)
    assert "nothing is due" in run("refresh", "--due", policy)
    assert "refreshed, version 1, 0 rows held back" in run("refresh", policy)
    fill(job.path.parent, 10)
    assert "refreshed, version 2" in run("refresh", policy)
    fill(job.path.parent, 11)
    assert "would have to be held back" in run("refresh", policy, code=1)
    listed = run("releases", "list", policy)
    assert "2  current" in listed and "1  superseded" in listed
    assert '"version": 2' in run("releases", "show", policy, "2")
    assert "+" in run("releases", "diff", policy, "1", "2")
    assert "there is no version 9" in run("releases", "show", policy, "9", code=2)
    shown = run("status", policy)
    assert "refused" in shown and "done" in shown and "next" in shown
    assert "is retired" in run("releases", "retire", policy, given="y\n")
    assert "2  retired" in run("releases", "list", policy)
