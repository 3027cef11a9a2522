"""Refresh releases when they are due: by hand or cron with `refresh`, or as a service with `serve_schedule`."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from sqlanon.engines import Engine, connect
from sqlanon.engines.open_writable import open_writable
from sqlanon.errors import BudgetExhausted, EngineError, PolicyError, SqlanonError
from sqlanon.ledger.runs import LEASE, Run, Runs
from sqlanon.policy import Policy, load
from sqlanon.policy.files import load_marginals, load_statistics
from sqlanon.policy.marginals import Marginals
from sqlanon.policy.schedule import Schedule
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.relations.source import asks_due
from sqlanon.release import Published, publish
from sqlanon.release.record import Version
from sqlanon.release.retire_release import retire as drop
from sqlanon.release.retire_release import rollback
from sqlanon.release.versions import evidence_shown

if TYPE_CHECKING:
    from sqlanon.marginals import Refreshed
    from sqlanon.release.publish_statistics import PublishedTables

FIRST_DELAY = timedelta(seconds=30)  # before a try that failed is repeated; twice as long each time
LONGEST_WAIT = 60.0  # seconds until the clock and the policies are looked at again
Clock = Callable[[], datetime]
AnyPolicy: TypeAlias = Policy | Marginals | StatisticsPolicy
_Result = TypeVar("_Result")


def clock() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Job:
    """A policy file whose release, tables of statistics or marginals are refreshed."""

    path: Path

    def policy(self) -> AnyPolicy:
        found = load_marginals(self.path)
        if found is not None:
            return found
        tables = load_statistics(self.path)
        return tables.located() if tables is not None else load(self.path).located()

    @property
    def runs(self) -> Runs:
        return Runs(self.path.with_suffix(".runs"))


@dataclass(frozen=True)
class RefreshOutcome:
    """What became of a refresh; `run` is None where nothing was due, or somebody else was faster."""

    job: Job
    run: Run | None
    published: Published | Refreshed | PublishedTables | None = None
    error: SqlanonError | None = None


def release_name(policy: AnyPolicy) -> str:
    if isinstance(policy, Marginals):
        return ", ".join(policy.tables)
    given = policy.release
    if given is None:
        raise PolicyError("the policy names no release", hint="add for example 'release: {view: patients_released}'")
    return given.table or given.view or given.path or ""


def schedule_of(policy: AnyPolicy) -> Schedule:
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


def refresh(
    job: Job,
    moment: datetime | None = None,
    *,
    now: Clock = clock,
    secret: str | None = None,
    plan_hash: str | None = None,
) -> RefreshOutcome:
    """Refresh a release for a time that is due, or for now; exactly one of several processes does."""
    moment = moment or now()
    policy = job.policy()
    if isinstance(policy, Policy):
        policy = policy.at(moment)
    elif plan_hash is not None and isinstance(policy, Marginals):
        raise _not_of_marginals("there is no plan to hold a refresh to", "leave --plan-hash out")
    name, runs = release_name(policy), job.runs
    attempts = 1 + (policy.schedule.retries if policy.schedule is not None else 0)
    run = runs.claim(name, moment, _owner(), now(), attempts=attempts)
    if run is None:
        return RefreshOutcome(job, None)
    try:
        with _opened(policy) as engine, _Alive(runs, run, engine, now):
            if _is_out(runs, policy, engine, run, now):
                runs.forget(run)
                return RefreshOutcome(job, None)
            done = _refreshed(policy, engine, run, secret, plan_hash)
    except (PolicyError, BudgetExhausted) as error:  # it would break a promise, and would again
        runs.finish(run, "refused", now(), message=error.message)
        return RefreshOutcome(job, run, error=error)
    except SqlanonError as error:
        runs.finish(run, "failed", now(), message=error.message)
        return RefreshOutcome(job, run, error=error)
    except BaseException:
        runs.finish(run, "failed", now(), message="it was stopped")
        raise
    version = done.document.get("history", {}).get("version")
    runs.finish(run, "done", now(), version=version, plan=done.plan.hash)
    return RefreshOutcome(job, run, done)


def _refreshed(
    policy: AnyPolicy, engine: Engine, run: Run, secret: str | None, plan_hash: str | None
) -> Published | Refreshed | PublishedTables:
    if isinstance(policy, Policy):
        return publish(policy, engine, secret=secret, workload=False, plan_hash=plan_hash, run=run.id)
    if isinstance(policy, StatisticsPolicy):
        from sqlanon.release.publish_statistics import publish_statistics  # with the solver

        return publish_statistics(policy, engine, secret=secret, plan_hash=plan_hash, run=run.id)
    from sqlanon import marginals  # with the whole gateway, which other policies do not need

    with marginals.gate_on(policy, engine) as gate:
        return marginals.refresh(policy, gate, occasion=run.due.isoformat(), run=run.id)


def _is_out(runs: Runs, policy: AnyPolicy, engine: Engine, run: Run, now: Clock) -> bool:
    """Whether the release of a time is out already: a process may die after it has shown a release, and before it has
    said so. The release names its run, so that the record of runs can be set right. It cannot name the one that begins
    now, unless the record of runs was lost and counts from 1 again."""
    shown = evidence_shown(policy, engine)
    found = runs.unsettled(int(shown["run"])) if shown is not None and "run" in shown else None
    if shown is None or found is None or found.id == run.id:
        return False
    runs.settle(found, now(), version=shown.get("history", {}).get("version"), plan=str(shown["plan_hash"]))
    return found.due == run.due


def backfill(
    job: Job, first: datetime, last: datetime, *, now: Clock = clock, secret: str | None = None
) -> Iterator[RefreshOutcome]:
    """Refresh for every time of the schedule from `first` to `last`, in order, each as of its time.

    It ends at the first one that is refused or fails. Times that are done already are passed over. It only goes
    forward: a release for a time before the one that is shown would show older rows in place of newer ones."""
    policy = job.policy()
    if isinstance(policy, Marginals):
        raise _not_of_marginals(
            "rows are counted as they are now, not as of a time that is past", "leave --backfill out"
        )
    if isinstance(policy, StatisticsPolicy):
        raise PolicyError(
            "tables of statistics show their source as it is now: there is nothing to make up for",
            hint="leave --backfill out",
        )
    schedule, name = schedule_of(policy), release_name(policy)
    dialect = "postgres" if (policy.source.database or "").startswith(("postgres://", "postgresql://")) else "duckdb"
    if not asks_due(policy.source, dialect):
        raise PolicyError(
            "this release shows its source as it is now: there is nothing to make up for",
            hint="a query can be read as of a time: 'query: SELECT … WHERE admitted < :due'",
        )
    if policy.history is None:
        raise PolicyError(
            "a backfill publishes several releases of the same people, which must be compared", hint="add 'history: {}'"
        )
    until = min(last, now())
    times = list(takewhile(lambda moment: moment <= until, schedule.times(first - timedelta(microseconds=1))))
    newest = job.runs.last_due(name)
    todo = [moment for moment in times if not job.runs.is_done(name, moment)]
    if newest is not None and todo and todo[0] < newest:
        raise PolicyError(
            f"the release of {newest:%Y-%m-%d %H:%M} UTC is out: one for an earlier time cannot follow it",
            hint="begin the backfill after that time",
        )
    for moment in todo:
        done = refresh(job, moment, now=now, secret=secret)
        yield done
        if done.published is None:
            return


def roll_back(job: Job, version: int, *, now: Clock = clock) -> Version:
    """Show an earlier version again; what was shown until then."""
    policy = job.policy()
    if isinstance(policy, Marginals):
        raise _not_of_marginals("no earlier version is kept to go back to", "'sqlanon refresh POLICY' counts anew")
    if isinstance(policy, StatisticsPolicy):
        raise PolicyError("tables of statistics do not go back to an earlier version", hint="publish them anew")
    return _alone(job, policy, now, lambda engine: rollback(policy, engine, version), f"back to version {version}")


def retire(job: Job, *, now: Clock = clock) -> list[str]:
    """Drop the release of a policy, or its tables of marginals; their names."""
    policy = job.policy()
    return _alone(job, policy, now, lambda engine: drop(policy, engine), "retired")


def _not_of_marginals(why: str, hint: str) -> PolicyError:
    return PolicyError(f"the policy has marginals: {why}", hint=hint)


def _alone(job: Job, policy: AnyPolicy, now: Clock, work: Callable[[Engine], _Result], said: str) -> _Result:
    """Do something with a release while nobody refreshes it; it is in the record of runs."""
    moment, runs = now(), job.runs
    run = runs.claim(release_name(policy), moment, _owner(), moment, attempts=1)
    if run is None:
        raise EngineError("somebody refreshes this release now", hint="wait until it is done: 'sqlanon status POLICY'")
    try:
        with _opened(policy) as engine, _Alive(runs, run, engine, now):
            found = work(engine)
    except BaseException:
        runs.forget(run)  # no refresh was tried, and none that failed before is made up for by it
        raise
    runs.finish(run, "done", now(), message=said)
    return found


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"


def _opened(policy: AnyPolicy) -> AbstractContextManager[Engine]:
    """The database of a policy, to write to it if that is where the release goes."""
    if isinstance(policy, Marginals):
        return open_writable(policy.gateway.located_database)
    url = policy.locate(policy.source.database) if policy.source.database else None
    if policy.release is not None and policy.release.path is not None:
        return closing(connect(url))
    return open_writable(url, new=policy.source.path is not None)


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
    tell: Callable[[RefreshOutcome], None],
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
                    tell(RefreshOutcome(job, None, error=error))
                told[job] = str(error)
        stop.wait(max(0.2, min(LONGEST_WAIT, (soonest - now()).total_seconds())))
