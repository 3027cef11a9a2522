"""The one door: every question of every client passes here, is answered by a worker, and is written down first."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from sqlanon.errors import LedgerError, Refused, SqlanonError
from sqlanon.gateway.price.budgets import limits_of
from sqlanon.ledger import Ledger
from sqlanon.ledger.limits import Left
from sqlanon.pgwire import types
from sqlanon.policy.files import load_serve
from sqlanon.policy.serve import Serve
from sqlanon.server.audit import AuditLog, Decision, Record
from sqlanon.server.catalog_cache import AnswerStream, CachingAnswer, Lasting, is_lasting
from sqlanon.server.catalog_metadata import metadata_of
from sqlanon.server.commands import OwnerCommand, Question, with_intervals
from sqlanon.server.http_api import Result
from sqlanon.server.login_log import Logins
from sqlanon.server.metrics import Metrics
from sqlanon.server.owner_process import OwnerAnswer, run_owner_statement
from sqlanon.server.pool import Opened, Pool
from sqlanon.server.portals import data_cells
from sqlanon.server.quotas import SHARE, Room, decode_parameters
from sqlanon.server.read_command import parse_command
from sqlanon.server.work_messages import Ask, Described, Failed, Failure, Summary
from sqlanon.sqlfront.lexer import statements, tokens

KNOWN_SHAPES = 2_000
CATALOG_SECONDS = 10.0  # names and types are told in far less: what takes longer keeps others waiting
SHORTEST = 0.001  # seconds that are left to a statement whose time is over


@dataclass(frozen=True)
class Caller:
    """Who asks, through which door; a simulated role is answered from made-up data."""

    principal: str
    session: str
    door: Literal["pg", "http", "console"] = "pg"
    simulated: str | None = None

    @property
    def role(self) -> str:
        return self.simulated or self.principal


@dataclass(frozen=True)
class PolicyVersion:
    """A policy as it was read: answers of two versions are never mixed in one statement."""

    serve: Serve
    number: int
    fingerprint: str


@dataclass
class Door:
    path: Path
    current: PolicyVersion
    audit: AuditLog
    queries: Pool
    catalog: Pool
    metrics: Metrics = field(default_factory=Metrics)
    broken: str | None = None  # why nothing is answered: the policy on the disk cannot be read
    _described: OrderedDict[tuple[Any, ...], Described] = field(default_factory=OrderedDict)
    _later: set[asyncio.Future[None]] = field(default_factory=set)
    _lasting: Lasting = field(default_factory=Lasting)
    _owning: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.spools = Room(lambda: SHARE * self.current.serve.limits.result)  # of all sessions
        self.logins = Logins(self._write, self._write_later, lambda: self.current.fingerprint)

    # ---- questions

    async def describe(
        self, caller: Caller, question: Question, asked: Sequence[int], timeout: float | None = None
    ) -> Described:
        """Columns and parameters of a question. It never reads data and never spends."""
        version = self._ready(caller)
        key = (version.number, caller.role, question, tuple(asked))
        if key not in self._described:
            ask = self.ask(caller, question, types=tuple(asked), timeout=timeout)
            try:
                self._described[key] = await self._pool(question).describe(ask)
            except Failed as error:
                await self._write(_record(caller, question, version, "refused", error.sqlstate))
                raise
            while len(self._described) > KNOWN_SHAPES:
                self._described.popitem(last=False)
        return self._described[key]

    async def refused(self, caller: Caller, text: str, error: Refused) -> None:
        """Write down a text that never became a question: ATTACH, COPY to a file, and what cannot be read at all."""
        route = Question(text, "query")
        await self._write(_record(caller, route, self.current, "refused", error.sqlstate))
        self.metrics.statement(caller.door, "refused", error.sqlstate, 0.0)

    def longest(self, question: Question, wanted: float | None = None) -> float:
        """Seconds that a statement may take, for its description and its answer together."""
        longest = self.current.serve.statement_timeout
        if question.route == "catalog":
            longest = min(longest, CATALOG_SECONDS)
        return min(longest, wanted or longest)

    def ask(self, caller: Caller, question: Question, **more: Any) -> Ask:
        """A request for a worker; a role that is simulated gets made-up data, whatever it asks for."""
        more["timeout"] = self.longest(question, more.get("timeout"))
        dry = (
            bool(more.pop("dry_run", False))
            or caller.simulated is not None
            or self.current.serve.is_dry(caller.principal)
        )
        bars = question.intervals
        return Ask(sql=question.text, principal=caller.role, dry_run=bool(dry), intervals=bars, **more)

    @asynccontextmanager
    async def run(self, caller: Caller, question: Question, ask: Ask) -> AsyncIterator[AnswerStream]:
        """Answer a question. What was asked and what it cost is on the disk before the first row leaves."""
        version = self._ready(caller)
        started = time.monotonic()
        decision: Decision = "answered"
        state, found = "00000", Summary(rows=0, kind="plain")

        async def before_answer(summary: Summary) -> None:
            nonlocal found
            found = summary
            await self._write(_record(caller, question, version, "answered", "00000", summary))

        try:
            # With the version: a statement that began under another policy leaves nothing behind for this one.
            lasts = question.route == "catalog" and not ask.dry_run and is_lasting(ask.sql)
            key = (version.number, replace(ask, timeout=0)) if lasts and _is_hashable(ask.parameters) else None
            if key is not None and (known := self._lasting.get(key)) is not None:
                await before_answer(known.summary)
                yield known
                return

            def at_last(ask: Ask, answering: PolicyVersion) -> Ask:
                nonlocal version
                version = answering  # a statement that waited may be answered under a newer one than it was asked
                return replace(ask, dry_run=ask.dry_run or version.serve.is_dry(caller.principal))

            async with self._pool(question).run(ask, before_answer, at_last) as running:
                yield running if key is None else CachingAnswer(running, self._lasting, key)
        except Failed as error:
            decision, state = "refused", error.sqlstate
            await self._write(_record(caller, question, version, decision, state))
            raise
        except asyncio.CancelledError:
            decision, state = "cancelled", "57014"
            # Waiting here would hold the cancellation up; nothing was told that is not in the ledger.
            self._write_later(_record(caller, question, version, decision, state))
            raise
        finally:
            seconds = time.monotonic() - started
            spent, withheld = found.epsilon, found.withheld
            self.metrics.statement(caller.door, decision, state, seconds, epsilon=spent, withheld=withheld)

    # ---- statements of owners

    def is_owner(self, caller: Caller) -> bool:
        """Whether somebody may say what is released: not while they try the rights of others, or get made-up data."""
        serve = self.current.serve
        known = serve.gateway.principals.get(caller.principal)
        return known is not None and known.owner and caller.simulated is None and not serve.is_dry(caller.principal)

    async def run_owner(self, caller: Caller, command: OwnerCommand) -> OwnerAnswer:
        """Run the statement of an owner, one at a time. It is in the audit log before anything is done."""
        version = self._ready(caller)
        if not self.is_owner(caller):
            raise Refused("permission denied: this statement is for owners", sqlstate="42501")
        record = Record(
            caller.session, caller.principal, caller.door, "answered", kind="owner", shape=shape(command.text),
            policy=version.fingerprint,
        )  # fmt: skip
        started = time.monotonic()
        try:
            folder = version.serve.located_policies
            if folder is None and not command.looks_up:
                raise Refused(
                    "no folder for policies is named", sqlstate="0A000",
                    hint="add 'policies: FOLDER' to the section serve: SQL of owners is kept there",
                )  # fmt: skip
            words = ["--gateway", str(self.path), "--policies", str(folder or self.path.parent / ".none")]
            await self._write(record)
            async with self._owning:
                found = await run_owner_statement(";\n".join([*command.options, command.text]), words)
        except SqlanonError as error:
            await self._write(replace(record, decision="refused", sqlstate=error.sqlstate))
            self.metrics.statement(caller.door, "refused", error.sqlstate, time.monotonic() - started)
            raise
        except asyncio.CancelledError:
            self._write_later(replace(record, decision="cancelled", sqlstate="57014"))
            raise
        self.metrics.statement(caller.door, "answered", "00000", time.monotonic() - started)
        return found

    async def write_action(self, record: Record) -> None:
        """Write down what somebody does in the console. Raises Refused if it cannot be written."""
        await self._write(record)

    async def _write(self, record: Record) -> None:
        if record.kind == "catalogue":
            self._write_later(record)  # it tells of nobody: it is written, and not waited for
            return
        try:
            await self.audit.write(record)
        except (OSError, SqlanonError):
            self.metrics.audit_failures.add()
            raise Refused(
                "the audit log cannot be written: nothing is answered", sqlstate="58030",
                hint="ask the owner of the data whether the disk is full",
            ) from None  # fmt: skip

    def _write_later(self, record: Record) -> None:
        task = asyncio.ensure_future(self._write_quietly(record))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _write_quietly(self, record: Record) -> None:
        with suppress(OSError, SqlanonError):
            await self.audit.write(record)

    def _pool(self, question: Question) -> Pool:
        return self.queries if question.route == "query" else self.catalog

    def _ready(self, caller: Caller | None = None) -> PolicyVersion:
        if self.broken:
            raise Refused(self.broken, sqlstate="57P03", hint="ask the owner of the data to correct the policy")
        if caller is not None and caller.simulated and not self.may_simulate(caller.principal, caller.simulated):
            raise Refused("only administrators may simulate a role of the policy", sqlstate="42501")
        return self.current

    def may_simulate(self, principal: str, role: str) -> bool:
        serve = self.current.serve
        return principal in serve.administrators and role in serve.gateway.principals

    # ---- whole answers, for HTTP and the console

    async def query(
        self, principal: str, sql: str, parameters: Sequence[Any], *, epsilon: float | None, dry_run: bool, door: str,
        intervals: bool = False, error: float | None = None,
    ) -> Result:  # fmt: skip
        caller = Caller(principal, f"{door}{secrets.token_hex(6)}", "console" if door == "console" else "http")
        try:
            question = _one_question(sql, intervals)
        except Refused as refused:
            await self.refused(caller, sql, refused)
            raise
        started = time.monotonic()
        described = await self.describe(caller, question, ())
        if len(parameters) != len(described.parameters):
            wanted = len(described.parameters)
            raise Refused(f"{len(parameters)} parameters are given, and {wanted} are needed", sqlstate="08P01")
        given = [_written(value) for value in parameters]
        values = await decode_parameters(described.parameters, (0,) * len(given), given)
        ask = self.ask(
            caller, question, parameters=values, types=described.parameters, epsilon=epsilon, error=error,
            dry_run=dry_run,
            timeout=max(SHORTEST, self.longest(question) - (time.monotonic() - started)),
        )  # fmt: skip
        rows: list[list[Any]] = []
        size, limit = 0, self.current.serve.limits.result
        async with self.run(caller, question, ask) as running:
            columns = (await running.described()).columns
            async for chunk in running.chunks():
                # As Python has them, values take more memory than their bytes.
                size += len(chunk.data) + 60 * len(chunk.ends) * (1 + len(columns))
                if size > limit:
                    raise Refused("the answer is too large", sqlstate="54000", hint="ask for fewer rows")
                for cells in data_cells(chunk.data):
                    pairs = zip(cells, columns, strict=True)
                    rows.append([types.decode(column.type, 0, cell) for cell, column in pairs])
            summary = running.summary
        return Result([(column.name, column.type.name) for column in columns], rows, summary)

    async def explain(
        self, principal: str, sql: str, parameters: Sequence[Any], *, epsilon: float | None, dry_run: bool, door: str,
        intervals: bool = False, error: float | None = None,
    ) -> Result:  # fmt: skip
        text = sql if sql.lstrip().lower().startswith("explain") else f"EXPLAIN {sql}"
        return await self.query(
            principal, text, parameters, epsilon=epsilon, error=error, dry_run=dry_run, door=door, intervals=intervals
        )

    async def budget(self, principal: str) -> Mapping[str, Any]:
        left = await self.left(principal)
        return {
            "principal": principal,
            "spent": {"epsilon": left.spent.epsilon, "delta": left.spent.delta},
            "left": {"epsilon": left.left.epsilon, "delta": left.left.delta},
            "renews": left.renewal,
        }

    def tables(self, principal: str) -> list[dict[str, Any]]:
        """The tables that a principal may use, with what the policy says of their columns; no database is asked."""
        gateway = self._ready().serve.gateway
        return [
            {
                "name": name,
                "kind": "public" if table.public else "released" if table.released else "persons",
                "columns": [
                    {"name": column, **use.model_dump(exclude_none=True, exclude_defaults=True)}
                    for column, use in table.columns.items()
                    if gateway.allows(principal, name, column)
                ],
            }
            for name, table in gateway.tables.items()
            if gateway.allows(principal, name)
        ]

    # ---- budgets

    async def left(self, principal: str) -> Left:
        """What a principal has spent and has left; the server reads the ledger, never the data."""
        gateway = self._ready().serve.gateway

        def look() -> Left:
            with closing(Ledger.open(gateway.located_ledger)) as ledger:
                return ledger.left(principal, limits_of(gateway, principal))

        return await asyncio.to_thread(look)

    def healthy(self) -> bool:
        return self.broken is None and self.queries.alive and self.catalog.alive

    # ---- the policy changes

    async def reload(self) -> bool:
        """Read the policy again, all or nothing. One that cannot be read ends all answers: its owner meant a change."""
        try:
            serve = await asyncio.to_thread(load_serve, self.path)
            fingerprint = version_of(serve)
            if fingerprint == self.current.fingerprint:
                self.broken = None
                return False
            version = PolicyVersion(serve, self.current.number + 1, fingerprint)
            # What the new policy takes away must not be answered while its workers start.
            self._pause()
            opened = await self._opened(version)
        except BaseException as error:
            told = error.message if isinstance(error, LedgerError) else "the policy cannot be read"
            self.broken = f"{told}: nothing is answered until it can"
            self.metrics.reloads.add(1, decision="refused")
            for pool in (self.queries, self.catalog):
                pool.resume(Failure("57P03", self.broken, hint="ask the owner of the data to correct the policy"))
            raise
        self._adopt(version, *opened)
        self.broken = None
        self._described.clear()
        self._lasting.clear()
        self.metrics.reloads.add(1, decision="answered")
        return True

    async def renew(self) -> None:
        """Workers that open the data anew, under the same policy: a release has another version now. Until they are
        ready the old ones answer."""
        if self.broken:
            return  # the next policy opens them
        version = replace(self.current, number=self.current.number + 1)
        self._adopt(version, *await self._opened(version))
        self._described.clear()
        self._lasting.clear()

    def _pause(self) -> None:
        self.queries.pause()
        self.catalog.pause()
        self._described.clear()
        self._lasting.clear()

    async def start(self) -> None:
        """Start all workers."""
        self._adopt(self.current, *await self._opened(self.current))

    async def _opened(self, version: PolicyVersion) -> tuple[Opened, Opened]:
        """Workers of both kinds for a policy; none is left if one of them cannot be opened."""
        queries = await self.queries.open(version.serve.gateway, label=version)
        try:
            found = metadata_of(version.serve, queries.tables)
            return queries, await self.catalog.open(None, found, label=version)
        except BaseException:
            await queries.close()
            raise

    def _adopt(self, version: PolicyVersion, queries: Opened, catalog: Opened) -> None:
        """In one step: nobody is answered by workers of one policy and written down under another."""
        self.queries.adopt(queries)
        self.catalog.adopt(catalog)
        self.current = version

    async def close(self) -> None:
        await self.queries.close()
        await self.catalog.close()
        self.logins.flush()
        await asyncio.gather(*self._later)
        await asyncio.to_thread(self.audit.close)


def _one_question(sql: str, intervals: bool) -> Question:
    found = [parse_command(statement) for statement in statements(sql)]
    found = list(map(with_intervals, found)) if intervals else found
    if len(found) != 1 or not isinstance(found[0], Question):
        raise Refused("exactly one SELECT is answered at a time", sqlstate="0A000")
    return found[0]


def _is_hashable(values: Sequence[Any]) -> bool:
    # Not floats: 0.0 and -0.0 are equal, and shown apart.
    return all(isinstance(value, str | int | None) for value in values)


def _written(given: Any) -> bytes | None:
    """A parameter of JSON, as the text of a value."""
    if given is None:
        return None
    text = str(given).lower() if isinstance(given, bool) else str(given)
    return text.encode("utf-8", "surrogatepass")


def _record(
    caller: Caller,
    question: Question,
    version: PolicyVersion,
    decision: Decision,
    sqlstate: str,
    found: Summary | None = None,
) -> Record:
    told = found or Summary(rows=0, kind="catalogue" if question.route == "catalog" else "plain")
    return Record(
        session=caller.session, principal=caller.principal, simulated=caller.simulated or "", door=caller.door,
        shape=shape(question.text), policy=version.fingerprint, decision=decision, sqlstate=sqlstate,
        kind=told.kind if found or told.kind == "catalogue" else "", tables=told.tables, columns=told.columns,
        epsilon=told.epsilon, delta=told.delta, withheld=told.withheld, rows=told.rows, cached=told.cached,
    )  # fmt: skip


def version_of(serve: Serve) -> str:
    """A hash of the whole policy as it is understood: also of budgets, unlike the key of the answer cache."""
    text = json.dumps([serve.model_dump(), serve.gateway.model_dump()], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def shape(text: str) -> str:
    """A statement without its literals, for the log.

    >>> shape("SELECT  COUNT(*) FROM visits WHERE name = 'Ann' AND age > 41")
    'select count ( * ) from visits where name = ? and age > ?'
    """
    try:
        found = tokens(text)
    except Refused:
        return "unreadable"
    words = []
    for token in found[:400]:
        if token.kind in ("string", "number"):
            words.append("?")
        elif token.kind == "quoted":
            words.append('"' + token.value[:63].replace('"', '""') + '"')
        else:
            words.append(token.value[:63])
    return " ".join(words)[:2000]
