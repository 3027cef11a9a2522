"""The gate: binds a statement, prices it, charges it and answers it."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from sqlanon.engines import Hardened, connect
from sqlanon.errors import Refused
from sqlanon.gateway.answer.answer_cache import LRU, as_text, from_text, values_key
from sqlanon.gateway.answer.arrow_rows import cast_batch
from sqlanon.gateway.answer.claims import Claims
from sqlanon.gateway.answer.linked_keys import require_linked_keys
from sqlanon.gateway.answer.paid_tables import CorePlan, PaidTables
from sqlanon.gateway.answer.post_processing import PostDatabase
from sqlanon.gateway.answer.private_reads import PrivateReads
from sqlanon.gateway.answer.read_data import read_failure
from sqlanon.gateway.answer.release_time import ReleaseTime
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.core import Core, key_tree
from sqlanon.gateway.bind.exact_aggregates import Exact
from sqlanon.gateway.bind.fanout import require_few
from sqlanon.gateway.bind.parameters import fill
from sqlanon.gateway.bind.read_statement import DIALECTS, ParsedStatement, parse_statement
from sqlanon.gateway.bind.row_work import require_bounded
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.gateway.bind.selects import Binder
from sqlanon.gateway.controls.control_queries import controlled_answer, judges
from sqlanon.gateway.describe_statement import description, visible
from sqlanon.gateway.explain import choice_table, explain_statement
from sqlanon.gateway.price.error_target import expected_errors, least_epsilon
from sqlanon.gateway.price.noise import Limit, Mechanisms, Noise, noise_for
from sqlanon.gateway.price.prepared_statement import (
    Answer,
    Description,
    PricedCore,
    PricedStatement,
    build_output,
    statements_of,
)
from sqlanon.gateway.price.statement_budget import LEAST, grant_budget
from sqlanon.gateway.read_error import read_error
from sqlanon.gateway.shown_tables import shown_lines
from sqlanon.ledger import Ledger
from sqlanon.ledger.limits import Left
from sqlanon.mechanisms import Cost
from sqlanon.policy.gateway import Gateway
from sqlanon.sqlfront.limits import nested_too_deeply

log = logging.getLogger("sqlanon")
LONGEST_KEPT = 2_000  # characters of a statement that is kept bound
LONGEST_ANSWER = 100_000  # characters of noisy tables, about, from which a computed answer is kept


def today() -> date:
    """What CURRENT_DATE says, in UTC as all times: the same for a day, so that a question keeps its answer for it."""
    return datetime.now(UTC).date()


@dataclass
class Gate(PrivateReads):
    """The one door to the data. Safe to use from several threads; statements that read data run one at a time."""

    mechanisms: Mechanisms = field(default_factory=Mechanisms)
    post: PostDatabase = field(default_factory=PostDatabase)
    claims: Claims | None = None  # what is shown row by row, looked at again once it may have changed
    _known: LRU[PricedStatement] = field(default_factory=LRU)
    _described: LRU[Description] = field(default_factory=LRU)
    _computed: LRU[tuple[tuple[Any, ...], ...]] = field(default_factory=LRU)

    def answer(
        self,
        sql: str,
        principal: str = "analyst",
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        dialect: str = "duckdb",
        epsilon: float | None = None,
        error: float | str | None = None,
        intervals: bool = False,
    ) -> Answer:
        """Answer a statement, or refuse it. The charge is on the disk before data is read, and is never given back."""
        prepared = self.prepare(
            sql, principal, parameters, dialect=dialect, epsilon=epsilon, error=error, intervals=intervals
        )
        return self.answer_prepared(prepared, principal)

    def answer_prepared(self, prepared: PricedStatement, principal: str, timeout: float | None = None) -> Answer:
        """`timeout` is how long the caller waits: nothing is charged for an answer that would come later."""
        if prepared.statement.explain:
            return self.explain(prepared, principal)
        found = self._answered(prepared, principal, timeout)
        return replace(found, threshold=prepared.threshold, bare=prepared.bare)

    def explain(self, prepared: PricedStatement, principal: str, *, verbose: bool = False) -> Answer:
        """What a statement would cost, and how far off its answer is; with `verbose` also what it would read and run.
        Reads no data, and spends nothing."""
        plans = self.paid.plan(prepared, principal) if self.policy.reuse and prepared.parts else ()
        return explain_statement(
            prepared, principal, self.catalog, self.engine.dialect, self.ledger, plans, verbose=verbose
        )

    def choices(
        self,
        sql: str,
        principal: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        dialect: str = "duckdb",
    ) -> tuple[list[str], list[list[str]]]:
        """What each epsilon would give: names of columns, and rows. Reads no data, and spends nothing."""
        return choice_table(
            lambda epsilon: self.prepare(sql, principal, parameters, dialect=dialect, epsilon=epsilon),
            self.policy, principal, self.ledger,
        )  # fmt: skip

    def prepare(
        self,
        sql: str,
        principal: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        kinds: Sequence[str] | None = None,
        dialect: str = "duckdb",
        epsilon: float | None = None,
        error: float | str | None = None,
        intervals: bool = False,
    ) -> PricedStatement:
        """Bind and price a statement without touching data or budget.

        `kinds` are those of the parameters, as `describe` takes them: int, text[], … `error` is asked for in place of
        an epsilon: see `error_target`.
        """
        values = values_key(parameters) if len(sql) <= LONGEST_KEPT else None
        known = None
        if values is not None:
            version, own = self.data_version(), None if kinds is None else tuple(kinds)
            known = (sql, principal, own, values, dialect, epsilon, error, intervals, version, today())
        if known is not None and (found := self._known.get(known)) is not None:
            return found
        statement = self._read(sql, principal, dialect)
        fill(statement.slots, parameters, kinds)
        binder, exact = self._binder(principal, dialect)
        try:
            most_off = None if error is None else read_error(error)
            made = self._priced(statement, binder, exact, epsilon, most_off, intervals)
        except RecursionError:
            raise nested_too_deeply() from None
        if known is not None:
            self._known.put(known, made)
        return made

    def describe(
        self,
        sql: str,
        principal: str,
        kinds: Sequence[str | None] = (),
        *,
        dialect: str = "duckdb",
        intervals: bool = False,
    ) -> Description:
        """The columns and parameters of a statement. Nothing is read, and nothing spent."""
        asked = (sql, principal, tuple(kinds), dialect, intervals, today())
        if (known := self._described.get(asked)) is not None:
            return known
        statement = self._read(sql, principal, dialect)
        try:
            made = description(statement, kinds, lambda: self._binder(principal, dialect)[0], intervals)
        except RecursionError:
            raise nested_too_deeply() from None
        if len(sql) <= LONGEST_KEPT:
            self._described.put(asked, made)
        return made

    def _binder(self, principal: str, dialect: str) -> tuple[Binder, Exact | None]:
        exact = Exact() if self.policy.principals[principal].controls else None
        return Binder(self.catalog, principal, dialect, *([exact] if exact else [])), exact

    def _read(self, sql: str, principal: str, dialect: str) -> ParsedStatement:
        if principal not in self.policy.principals:
            hint = "the policy names who may ask"
            raise Refused(f"role '{principal[:80]}' does not exist", sqlstate="28000", hint=hint)
        if dialect not in DIALECTS:
            raise Refused(f"the dialect '{dialect[:40]}' is not read", hint=f"these are: {', '.join(DIALECTS)}")
        return parse_statement(sql, dialect, today())

    def _priced(
        self,
        statement: ParsedStatement,
        binder: Binder,
        exact: Exact | None,
        epsilon: float | None,
        error: float | None,
        intervals: bool,
    ) -> PricedStatement:
        relation = visible(binder.query(statement.tree, {}))
        asked, delta, limit = grant_budget(
            self.policy, statement, epsilon, binder.principal, by_error=error is not None
        )
        tree, columns, types = build_output(relation, binder, intervals)
        reads = frozenset(binder.used | {(table, "") for table in binder.tables})
        result = (tree, columns, types, reads)
        if exact is not None:
            judged = judges(self.catalog, binder.cores, exact, statement)
            return PricedStatement(statement, relation, *result, (), Cost(), limit, asked, delta, judged)
        if error is not None and binder.cores:
            most = self.policy.budget.statement.epsilon
            asked = least_epsilon(
                error, expected_errors(binder.answered, relation), binder.cores,
                lambda tried: self._noises(binder.cores, tried, delta, limit), LEAST * most, most,
            )  # fmt: skip
        parts = self._parts(binder.cores, binder.principal, asked, delta, limit)
        for core in binder.cores:
            require_bounded(core.work)
        cost = sum((part.noise.cost for part in parts), Cost())
        stated = epsilon is not None or error is not None or "epsilon" in statement.options
        return PricedStatement(
            statement, relation, *result, parts, cost, limit, asked, delta, bare=binder.bare, stated=stated
        )

    def close(self) -> None:
        self.post.close()
        self.ledger.close()
        self.engine.close()

    # ---- before data is read

    def _noises(self, cores: Sequence[Core], epsilon: float, delta: float, limit: Limit) -> list[Noise]:
        """The noise of each core: budgets are split evenly among them."""
        return [
            noise_for(
                core, limit, epsilon / len(cores), delta / len(cores),
                mechanism=self.policy.mechanism, source=self.mechanisms,
            )
            for core in cores
        ]  # fmt: skip

    def _parts(
        self, cores: Sequence[Core], principal: str, epsilon: float, delta: float, limit: Limit
    ) -> tuple[PricedCore, ...]:
        parts = []
        version, fingerprint = self.data_version(), self.policy.fingerprint
        for core, noise in zip(cores, self._noises(cores, epsilon, delta, limit), strict=True):
            # The statements that read data are a function of this.
            read = core.rows.select(core.unit, *map(key_tree, core.keys), copy=True).sql("duckdb", copy=False)
            identity = {
                "principal": principal, "policy": fingerprint, "data": version,
                "epsilon": epsilon / len(cores), "delta": delta / len(cores), "limit": [limit.rows, limit.groups],
                "rows": [read, core.unique],
                "atoms": [str(atom.identity) + str(atom.weight) for atom in core.atoms],
                "keys": [core.mode, str(core.declared), core.public_keys.sql("duckdb") if core.public_keys else ""],
            }  # fmt: skip
            text = json.dumps(identity, sort_keys=True)
            key = hashlib.sha256(text.encode()).hexdigest()
            parts.append(PricedCore(core, noise, statements_of(core, limit), key))
        return tuple(parts)

    # ---- data

    def plain_batches(self, prepared: PricedStatement, rows: int = 10_000) -> Generator[Any, None, None]:
        """The answer of public and released tables as Arrow batches, read as they are asked for. It costs nothing.

        Close it when no more is wanted; other statements run meanwhile.
        """
        assert prepared.relation.nature == "public" and not prepared.statement.explain
        self._require_claims(prepared)
        with closing(self.engine.batches(prepared.tree, rows)) as stream:
            while True:
                found = self.data.guarded(lambda: [next(stream, None)], charged=False)
                if found[0] is None:
                    return
                try:
                    yield cast_batch(found[0], prepared.columns, prepared.types)
                except ArithmeticError:
                    raise Refused("a number is out of range for its type", sqlstate="22003") from None

    def _require_claims(self, prepared: PricedStatement) -> None:
        if self.claims is not None:
            self.claims.require(table for table, _ in prepared.reads)

    def _answered(self, prepared: PricedStatement, principal: str, timeout: float | None) -> Answer:
        self._require_claims(prepared)
        if prepared.relation.nature == "public":
            with self.lock:
                found = self.data.guarded(lambda: self.engine.query(prepared.tree.copy()), charged=False)
            return Answer(prepared.columns, tuple(map(tuple, found)), Cost(), types=prepared.types, plain=True)
        if prepared.judges:
            return controlled_answer(self, self.post, prepared, principal, timeout)
        if self.policy.reuse and prepared.parts:
            return self._from_paid(prepared, principal, timeout)
        kept = {part.core.table: self.ledger.cached(part.cache_key) for part in prepared.parts}
        fresh = [part for part in prepared.parts if kept[part.core.table] is None]
        # What is computed from the same noisy tables is the same: kept where it is small.
        same = (prepared.noisy_sql, *kept.values())
        if not fresh and (rows := self._computed.get(same)) is not None:
            return Answer(prepared.columns, rows, Cost(), self.left(principal), types=prepared.types, cached=True)
        tables: dict[str, tuple[Core, Sequence[tuple[Any, ...]]]] = {
            part.core.table: (part.core, from_text(text))
            for part in prepared.parts
            if (text := kept[part.core.table]) is not None
        }
        left = None
        if fresh:
            with self.lock:
                keys = self._public_keys(fresh)
                left, noisy = self._read_fresh(fresh, keys, principal, timeout)
                tables |= noisy
        rows = tuple(self.post.run(tables, prepared.noisy_sql))
        if not fresh and sum(map(len, map(str, same))) + 100 * len(rows) <= LONGEST_ANSWER:
            self._computed.put(same, rows)
        cost = sum((part.noise.cost for part in fresh), Cost())
        left = left or self.left(principal)
        return Answer(prepared.columns, rows, cost, left, types=prepared.types, cached=not fresh)

    @property
    def paid(self) -> PaidTables:
        return PaidTables(self, self.post, self.mechanisms)

    def _from_paid(self, prepared: PricedStatement, principal: str, timeout: float | None) -> Answer:
        """The answer from noisy tables that were paid for, as far as it follows from them; the rest is bought."""
        plans = self.paid.plan(prepared, principal)
        left, cost = None, Cost()
        if any(plan.buys is not None or plan.keys is None for plan in plans):
            with self.lock:
                plans = self.paid.plan(prepared, principal)  # somebody may have asked the same in the meantime
                buying = [plan.buys for plan in plans if plan.buys is not None]
                keys = self._public_keys(buying)
                for plan in plans:
                    if plan.keys is None:
                        known = plan.part.core.number in keys
                        plan.keys = keys[plan.part.core.number] if known else self.data.keys(plan.part.core)
                        plan.fresh_keys = plan.keys is not None
                if buying:
                    cost = sum((plan.cost for plan in plans), Cost())
                    left = self._buy(plans, buying, keys, principal, timeout)
                    plans = self.paid.settled(plans, self.paid.plan(prepared, principal))
        if left is None and (filed := self.paid.complete_known(plans)):
            self.ledger.file(principal, filed)
        tables = {plan.part.core.table: self.paid.table_of(plan) for plan in plans}
        rows = tuple(self.post.run(tables, prepared.noisy_sql))
        free, rest = left is None, left or self.left(principal)
        return Answer(prepared.columns, rows, cost, rest, types=prepared.types, cached=free, reused=free)

    def tables_to_prepare(self, principal: str) -> list[CorePlan]:
        """The tables that the policy's `prepare` wants for a principal and that are not there yet. Reads no data."""
        listed = self.policy.prepare.get(principal, ())
        if not listed:
            raise Refused(f"the policy prepares nothing for '{principal[:80]}'", hint="list statements under prepare")
        prepared = [self.prepare(sql, principal) for sql in listed]
        for sql, each in zip(listed, prepared, strict=True):
            if not each.parts or each.statement.explain:
                raise Refused(f"there is nothing to prepare for: {sql[:80]}", hint="list questions about persons")
        return self.paid.wanted(prepared, principal)

    def prepare_tables(self, principal: str) -> Left | None:
        """Buy these tables, with one charge; None if all are there."""
        with self.lock:
            plans = self.tables_to_prepare(principal)
            parts = [plan.buys for plan in plans if plan.buys is not None]
            if not parts:
                return None
            keys = self._public_keys(parts)
            for plan in plans:
                plan.keys = keys[plan.part.core.number]
                plan.fresh_keys = plan.keys is not None and plan.part.core.mode == "public"
            return self._buy(plans, parts, keys, principal, math.inf)

    def _buy(
        self,
        plans: Sequence[CorePlan],
        parts: Sequence[PricedCore],
        keys: Mapping[int, list[tuple[Any, ...]] | None],
        principal: str,
        timeout: float | None,
    ) -> Left:
        """Charge for what is missing, read it, and file it with what it makes of what was there."""

        def file(found: Mapping[str, tuple[Core, Sequence[tuple[Any, ...]]]]) -> list[tuple[str, str]]:
            bought = {plan.part.core.table: found.get(plan.part.core.table, (None, None))[1] for plan in plans}
            return [each for plan in plans for each in self.paid.complete(plan, bought[plan.part.core.table])]

        return self._read_fresh(parts, keys, principal, timeout, file)[0]

    def _public_keys(self, fresh: Sequence[PricedCore]) -> dict[int, list[tuple[Any, ...]] | None]:
        """Before a charge: what may refuse a statement, and the keys that appear whatever the private data say."""
        for part in fresh:
            require_few(part.core, self.public_number)
        self.require_keys([part.core for part in fresh])
        return {part.core.number: self.data.keys(part.core) for part in fresh}

    def _read_fresh(
        self,
        fresh: Sequence[PricedCore],
        keys: Mapping[int, list[tuple[Any, ...]] | None],
        principal: str,
        timeout: float | None,
        file: Callable[[Mapping[str, tuple[Core, Sequence[tuple[Any, ...]]]]], list[tuple[str, str]]] | None = None,
    ) -> tuple[Left, dict[str, tuple[Core, Sequence[tuple[Any, ...]]]]]:
        """Charge for what was not asked before, read it, and add noise. `file` says what else the ledger is to keep.
        With an infinite timeout it may take longer than a statement may.

        Only here are data of persons read: how long all else takes tells nothing of them.
        """
        self.require_unlocked(principal)
        count = sum(len(part.statements) for part in fresh)
        seconds = self.policy.answer_time * count if timeout == math.inf else self.require_time(count, timeout)
        with self.shield(seconds):
            release = ReleaseTime(seconds, self.policy.timeout, self.pause)
            left = self._charged(fresh, principal)
            data = replace(self.data, release=release)
            found: dict[str, tuple[Core, Sequence[tuple[Any, ...]]]] = {}
            paid: dict[str, str] | None = None
            filed: list[tuple[str, str]] = []
            try:
                with suppress(Exception):  # of any kind: which one it is would tell what data it met
                    for part in fresh:
                        found[part.core.table] = part.core, data.noisy(part, keys[part.core.number])
                    filed = file(found) if file is not None else []
                    paid = {part.cache_key: as_text(found[part.core.table][1]) for part in fresh}
                # Wait before settling: in between, the ledger would show whether the data had been read by then.
                paid = paid if release.wait() else None
            except BaseException:
                self.note_failure(left)
                raise
            if paid is None:
                self.note_failure(left)
                raise read_failure(charged=True)
            # One transaction, and on the disk before anybody sees it: the same statement gets the same noise again.
            self.ledger.settle(left, "answered", answers=paid, filed=filed)
        return left, found

    def _charged(self, fresh: Sequence[PricedCore], principal: str) -> Left:
        # Spend first: a crash may waste budget, it must never give an answer for free.
        return self.ledger.reserve(
            principal,
            sum((part.noise.cost for part in fresh), Cost()),
            self.limits(principal),
            shape=", ".join(sorted({atom.label for part in fresh for atom in part.core.atoms})) or "keys",
            fingerprint=hashlib.sha256(" ".join(part.cache_key for part in fresh).encode()).hexdigest(),
            policy=self.policy.fingerprint,
        )


def open_gateway(policy: Gateway | str | Path, *, hardened: Hardened | None = None) -> Gate:
    """Open the database (read-only), the ledger and the schema of a policy, or of a policy file."""
    if not isinstance(policy, Gateway):
        from sqlanon.policy.files import load_gateway  # a worker gets its policy from the server

        policy = load_gateway(policy)
    with ExitStack() as opened:
        ledger = Ledger.open(policy.located_ledger)
        opened.callback(ledger.close)
        engine = connect(policy.located_database, read_only=True, hardened=hardened, alone=True)
        opened.callback(engine.close)
        catalog = Catalog(policy, schema_of(engine, policy))
        require_linked_keys(engine, catalog)
        claims = Claims(policy, engine, catalog.schema)
        claims.verify()
        opened.pop_all()
    if hardened is None:  # a server tells its owner by itself, and once
        log.info("%s: %s", policy.name, "; ".join(shown_lines(policy)))
    return Gate(policy, engine, ledger, catalog, post=PostDatabase(policy.timeout), claims=claims)
