"""Refresh releases when they are due: by hand or cron with `refresh`, or as a service with `serve_schedule`."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlanon import marginals
from sqlanon.engines import Engine, connect
from sqlanon.errors import BudgetExhausted, EngineError, PolicyError, SqlanonError
from sqlanon.ledger.runs import LEASE, Run, Runs
from sqlanon.marginals import Refreshed
from sqlanon.policy import Policy, load, load_marginals
from sqlanon.policy.marginals import Marginals
from sqlanon.policy.schedule import Schedule
from sqlanon.release import Published, publish

FIRST_DELAY = timedelta(seconds=30)  # before a try that failed is repeated; twice as long each time
LONGEST_WAIT = 60.0  # seconds until the clock and the policies are looked at again
Clock = Callable[[], datetime]


def clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Job:
    """A policy file whose release, or whose marginals, are refreshed."""

    path: Path

    def policy(self) -> Policy | Marginals:
        return load_marginals(self.path) or load(self.path).located()

    @property
    def runs(self) -> Runs:
        return Runs(self.path.with_suffix(".runs"))


@dataclass(frozen=True)
class Outcome:
    """What became of a refresh; `run` is None where nothing was due, or somebody else was faster."""

    job: Job
    run: Run | None
    published: Published | Refreshed | None = None
    error: SqlanonError | None = None


def release_name(policy: Policy | Marginals) -> str:
    if isinstance(policy, Marginals):
        return ", ".join(policy.tables)
    given = policy.release
    if given is None:
        raise PolicyError("the policy names no release", hint="add for example 'release: {view: patients_released}'")
    return given.table or given.view or given.path or ""


def schedule_of(policy: Policy | Marginals) -> Schedule:
    if policy.schedule is None:
        raise PolicyError(
            f"{policy.name} has no schedule",
            hint="add for example 'schedule: {cron: \"0 3 * * *\", tz: Europe/Athens}'",
        )
    return policy.schedule


def due(job: Job, now: datetime) -> datetime | None:
    """The time for which a refresh is due, if one is."""
    policy = job.policy()
    schedule, runs, name = schedule_of(policy), job.runs, release_name(policy)
    last = runs.last_due(name)
    if last is None:
        # Nothing was refreshed by schedule yet: the first time is the next one after the policy was written.
        last = datetime.fromtimestamp(job.path.stat().st_mtime, UTC)
        tried = [run.due for run in runs.listed(name, 1)]
        last = min([last, *(moment - timedelta(seconds=1) for moment in tried)])
    earlier = runs.listed(name, 50)
    pending = [run.due for run in earlier[:1] if run.outcome in ("failed", "lost", "running") and run.due > last]
    found = schedule.due(last, now) or (pending[0] if pending else None)  # what was tried was not missed
    if found is None:
        return None
    tries = [run for run in earlier if run.due == found]
    if len(tries) > schedule.retries:  # it was given up
        return None
    if tries and tries[0].ended is not None and now < tries[0].ended + FIRST_DELAY * 2 ** (len(tries) - 1):
        return None
    return found


def refresh(job: Job, moment: datetime | None = None, *, now: Clock = clock, secret: str | None = None) -> Outcome:
    """Refresh a release for a time that is due, or for now; exactly one of several processes does."""
    policy = job.policy()
    name, runs = release_name(policy), job.runs
    attempts = 1 + (policy.schedule.retries if policy.schedule is not None else 0)
    owner = f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"
    run = runs.claim(name, moment or now(), owner, now(), attempts=attempts)
    if run is None:
        return Outcome(job, None)
    try:
        with _alive_while(policy, runs, run, now) as work:
            done = work(secret)
    except (PolicyError, BudgetExhausted) as error:  # it would break a promise, and would again
        runs.finish(run, "refused", now(), message=error.message)
        return Outcome(job, run, error=error)
    except SqlanonError as error:
        runs.finish(run, "failed", now(), message=error.message)
        return Outcome(job, run, error=error)
    except BaseException:
        runs.finish(run, "failed", now(), message="it was stopped")
        raise
    version = done.document.get("history", {}).get("version")
    runs.finish(run, "done", now(), version=version, plan=done.plan.hash)
    return Outcome(job, run, done)


@contextmanager
def _alive_while(
    policy: Policy | Marginals, runs: Runs, run: Run, now: Clock
) -> Iterator[Callable[[str | None], Published | Refreshed]]:
    """What a refresh does, on an open database, while the others are told that it works."""
    if isinstance(policy, Marginals):
        with closing(marginals.open_gate(policy)) as gate, _Alive(runs, run, gate.engine, now):
            yield lambda _: marginals.refresh(policy, gate, occasion=run.due.isoformat())
        return
    url = policy.locate(policy.source.database) if policy.source.database else None
    read_only = policy.release is not None and policy.release.path is not None
    with closing(connect(url, read_only=read_only)) as engine, _Alive(runs, run, engine, now):
        yield lambda secret: publish(policy, engine, secret=secret, workload=False)


class _Alive:
    """While a refresh works, say that it does; one that was taken to be dead is broken off before it shows anything."""

    def __init__(self, runs: Runs, run: Run, engine: Engine, now: Clock) -> None:
        self._runs, self._run, self._engine, self._now = runs, run, engine, now
        self._over = threading.Event()
        self._lost = False
        self._thread = threading.Thread(target=self._say, daemon=True)

    def _say(self) -> None:
        while not self._over.wait(LEASE.total_seconds() / 4):
            try:
                if self._runs.alive(self._run, self._now()):
                    continue
            except SqlanonError:
                continue  # tried again before the lease is over
            self._lost = True
            self._engine.interrupt()
            return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._over.set()
        self._thread.join()
        if self._lost and kind is None:
            raise EngineError("another process took over this refresh", hint="is this machine overloaded?")


def serve_schedule(
    jobs: Sequence[Job],
    stop: threading.Event,
    tell: Callable[[Outcome], None],
    *,
    now: Clock = clock,
    secret: str | None = None,
) -> None:
    """Refresh whatever is due, until `stop` is set; a refresh that runs then is finished first.

    Policies are read anew each time; one that cannot be read is told and waits, the others go on."""
    told: dict[Job, str] = {}
    while not stop.is_set():
        soonest = now() + timedelta(seconds=LONGEST_WAIT)
        for job in jobs:
            if stop.is_set():
                return
            try:
                moment = due(job, now())
                if moment is not None:
                    tell(refresh(job, moment, now=now, secret=secret))
                soonest = min(soonest, next(schedule_of(job.policy()).times(now())))
                told.pop(job, None)
            except SqlanonError as error:
                if told.get(job) != str(error):
                    tell(Outcome(job, None, error=error))
                told[job] = str(error)
        stop.wait(max(0.2, min(LONGEST_WAIT, (soonest - now()).total_seconds())))
