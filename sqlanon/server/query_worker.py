"""What a query worker does: statements of analysts through a Gate, on a database that is opened read-only."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID as Uuid

from sqlanon.engines import Hardened
from sqlanon.errors import Refused
from sqlanon.gateway import Answer, Gate, PricedStatement, open_gateway
from sqlanon.gateway.answer.arrow_rows import batch_of
from sqlanon.gateway.bind.catalog import Constraint, stored_type
from sqlanon.gateway.bind.values import Kind
from sqlanon.gateway.price.prepared_statement import type_of
from sqlanon.gateway.synthetic import synthetic_gate
from sqlanon.mechanisms import Cost
from sqlanon.pgwire import types
from sqlanon.pgwire.backend import ResultColumn
from sqlanon.server.catalog_metadata import pg_type, typmod
from sqlanon.server.work_messages import AnswerKind, Ask, Described, Opening, Summary
from sqlanon.server.worker_service import RunningAnswer

ROWS = 8192  # of a batch
TEXTS = (types.TEXT, types.VARCHAR, types.BPCHAR, types.NAME, types.CHAR, types.UUID)
KINDS: dict[int, Kind] = {
    **dict.fromkeys((types.INT2.oid, types.INT4.oid, types.INT8.oid, types.OID.oid), "int"),
    **dict.fromkeys((types.FLOAT4.oid, types.FLOAT8.oid, types.NUMERIC.oid), "float"),
    **dict.fromkeys((each.oid for each in TEXTS), "text"),
    types.BOOL.oid: "bool",
    types.DATE.oid: "date",
    types.TIMESTAMP.oid: "timestamp",
    types.TIMESTAMPTZ.oid: "timestamp",
}


# What a principal sees of a table: columns with their types, and constraints.
Seen = tuple[tuple[tuple[str, str], ...], tuple[Constraint, ...]]


class Querying:
    def __init__(
        self,
        opening: Opening,
        pause: Callable[[float], None],
        shield: Callable[[float], AbstractContextManager[None]],
    ) -> None:
        assert opening.policy is not None
        own = Hardened(memory=opening.memory // 2, temporary=opening.temporary)
        self._gate = open_gateway(opening.policy, hardened=own)
        self._gate.pause, self._gate.shield = pause, shield
        self._gate.post.memory = opening.memory // 4
        self._pause = pause
        self._made_up: Gate | None = None

    def ready(self) -> dict[str, Any]:
        """The file whose change means that another one is to be opened, and the tables as a catalog tells them."""
        policy = self._gate.policy
        path = Path(policy.located_database)
        state = file_state(path) if "://" not in policy.database and path.is_file() else None
        file = [str(path.absolute()), state] if state else None
        return {"file": file, "tables": tables_of(self._gate)}

    def describe(self, ask: Ask) -> Described:
        found = self._gate.describe(
            ask.sql, ask.principal, parameter_kinds(ask.types), dialect=ask.dialect, intervals=ask.intervals
        )
        oids = [pg_type(name).oid for name in found.parameters]
        given = [oid if oid not in (0, types.UNKNOWN.oid) else None for oid in ask.types]
        oids[: len(given)] = [mine or theirs for mine, theirs in zip(given, oids, strict=False)]
        return Described(_columns(found.columns, found.types), tuple(oids))

    def run(self, ask: Ask) -> RunningAnswer:
        gate = self._synthetic() if ask.dry_run else self._gate
        described = self.describe(ask)
        kinds = [str(kind) for kind in parameter_kinds(described.parameters)]
        if len(ask.parameters) != len(kinds):
            said = f"the statement takes {len(kinds)} parameters, {len(ask.parameters)} are given"
            raise Refused(said, sqlstate="08P01")
        values = [value_of(value, oid) for value, oid in zip(ask.parameters, described.parameters, strict=True)]
        prepared = gate.prepare(
            ask.sql, ask.principal, values, kinds=kinds, dialect=ask.dialect, epsilon=ask.epsilon,
            error=ask.error, intervals=ask.intervals,
        )  # fmt: skip
        if prepared.relation.nature == "public" and not prepared.statement.explain:
            kind: AnswerKind = "synthetic" if ask.dry_run else "plain"
            summary = _summary(prepared, kind, Answer((), (), prepared.cost))
            return RunningAnswer(described, summary, gate.plain_batches(prepared, ROWS))
        answer = gate.answer_prepared(prepared, ask.principal, ask.timeout)
        if prepared.statement.explain:
            kind = "explain"
        else:
            kind = "synthetic" if answer.synthetic or ask.dry_run else "controlled" if prepared.judges else "dp"
        try:
            batch = batch_of(answer.rows, answer.columns, answer.types)
        except ArithmeticError:
            raise Refused("a number is out of range for its type", sqlstate="22003") from None
        if kind == "synthetic":
            answer = replace(answer, cost=Cost(), left=None)  # nobody's budget was used
        return RunningAnswer(described, _summary(prepared, kind, answer), _once(batch), whole=True)

    def interrupt(self) -> None:
        for gate in (self._gate, self._made_up):
            if gate is not None:
                gate.engine.interrupt()
                gate.post.interrupt()

    def _synthetic(self) -> Gate:
        if self._made_up is None:
            self._made_up = synthetic_gate(self._gate.policy, self._gate.catalog.schema)
            self._made_up.pause = self._pause
        return self._made_up


def file_state(path: str | Path) -> list[int]:
    """What tells a file from the one that was there before."""
    found = os.stat(path)
    return [found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size]


def tables_of(gate: Gate) -> list[dict[str, Any]]:
    """The tables of the policy, once for all who may see the same columns of it, with these columns."""
    schema = gate.catalog.schema
    seen_columns = {
        who: {name: tuple(gate.catalog.base(name, who).columns.items()) for name in gate.catalog.names(who)}
        for who in gate.policy.principals
    }
    listed = []
    for name, table in gate.policy.tables.items():
        kind = "public" if table.public else "released" if table.released else "private"
        stored = {info.name: stored_type(info.type) for info in schema.columns[name]}
        seen: dict[Seen, list[str]] = {}
        for who, tables in seen_columns.items():
            if name in tables:
                columns = tuple((column, stored[column] or type_of(value)) for column, value in tables[name])
                known = {each: {column for column, _ in there} for each, there in tables.items()}
                told = tuple(each for each in schema.keys if each.table == name and _is_seen(each, known))
                seen.setdefault((columns, told), []).append(who)
        for (found, told), principals in seen.items():
            keys = [[each.kind, list(each.columns), each.other, list(each.referred)] for each in told]
            listed.append({"name": name, "kind": kind, "columns": dict(found), "seen_by": principals, "keys": keys})
    return listed


def _is_seen(key: Constraint, known: Mapping[str, Set[str]]) -> bool:
    """Whether a constraint names nothing but tables and columns that are known."""
    return known[key.table] >= set(key.columns) and known.get(key.other or key.table, set()) >= set(key.referred)


def parameter_kinds(oids: Sequence[int]) -> list[str | None]:
    """The kinds of parameters of these types; of an array, that of its elements with [] after it."""
    found: list[str | None] = []
    for oid in oids:
        element = types.by_oid(oid).element if oid not in (0, types.UNKNOWN.oid) else None
        if oid in (0, types.UNKNOWN.oid):
            found.append(None)
        elif oid in KINDS:
            found.append(KINDS[oid])
        elif element is not None and element.oid in KINDS:
            found.append(f"{KINDS[element.oid]}[]")
        else:
            raise Refused(f"a parameter of type {types.by_oid(oid).name} is not answered", sqlstate="0A000")
    return found


def value_of(value: Any, oid: int) -> Any:
    """A parameter as a value of its type; a text that a client gave without a type is read as that type is written."""
    if isinstance(value, list):
        element = types.by_oid(oid).element
        if any(isinstance(each, list) for each in value):
            raise Refused("an array of more than one dimension is not answered", sqlstate="0A000")
        return [value_of(each, element.oid) for each in value] if element is not None else value
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, str) and KINDS.get(oid) != "text":
        return types.decode(types.by_oid(oid), 0, value.encode("utf-8", "surrogatepass"))
    return value


def _columns(names: Sequence[str], of: Sequence[str]) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(name, pg_type(kind), typmod(kind)) for name, kind in zip(names, of, strict=True))


def _once(batch: Any) -> Generator[Any, None, None]:
    yield batch


def _summary(prepared: PricedStatement, kind: AnswerKind, answer: Answer) -> Summary:
    left = answer.left.left if answer.left is not None else None
    return Summary(
        len(answer.rows), kind, answer.cost.epsilon, answer.cost.delta,
        left.epsilon if left else None, left.delta if left else None, answer.cached, answer.withheld,
        prepared.threshold,
        tuple(sorted({table for table, _ in prepared.reads})),
        tuple(sorted(f"{table}.{column}" for table, column in prepared.reads if column)),
        prepared.shape, prepared.bare,
    )  # fmt: skip
