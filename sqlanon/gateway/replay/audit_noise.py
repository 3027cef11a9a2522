"""Audit the noise of a gateway: replay statements on neighbouring databases of made-up data in the shape of its schema.

Nobody's rows are read and nobody's budget is spent: of the database only its catalog is read. For each statement:
what one person moves beside what the noise is made for; whether anything but the integers depends on the data; the
epsilon that samples of the noisy answers prove beside the one that is charged; and whether all that is drawn is paid.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlanon.engines import Engine, connect
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.gateway import Gate
from sqlanon.gateway.answer.post_processing import PostDatabase
from sqlanon.gateway.bind.catalog import Catalog, Schema
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.gateway.price.noise import Mechanisms
from sqlanon.gateway.replay.drawn_noise import DrawnNoise, faults_of_charges, faults_of_limits
from sqlanon.gateway.replay.fill_shapes import fill_shape
from sqlanon.gateway.replay.made_up_persons import MOST_ROWS, WORLDS, Tables, neighbours_of
from sqlanon.gateway.replay.neighbours import NeighbourComparison, Shift, compare_neighbours
from sqlanon.gateway.replay.sample_losses import faults_of_noise, proven_epsilon
from sqlanon.gateway.replay.schema_statements import schema_statements
from sqlanon.gateway.synthetic import load_table
from sqlanon.ledger import Ledger
from sqlanon.mechanisms import Cost
from sqlanon.policy.gateway import Gateway

RUNS = 2000
STATEMENTS = 40  # that are drawn from the schema
ENDLESS = 1e6  # budget of a principal, where charges are looked at and not limits


@dataclass(frozen=True)
class Asked:
    """A statement to replay; a shape has ? in place of literals."""

    sql: str
    principal: str
    origin: str  # log, file or schema
    shape: bool = False


@dataclass(frozen=True)
class StatementAudit:
    """What was found of one statement, on all pairs of neighbours together."""

    asked: Asked
    refused: str = ""
    shift: Shift | None = None  # the largest beside its reach
    claimed: Cost = field(default_factory=Cost)
    proven: float = 0.0
    violations: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoiseAudit:
    statements: tuple[StatementAudit, ...]
    runs: int
    rows: int  # of one person, that were counted at most
    violations: tuple[str, ...] = ()  # of the gateway as a whole

    @property
    def failed(self) -> bool:
        return bool(self.violations) or any(each.violations for each in self.statements)


def audit_noise(
    policy: Gateway,
    asked: Sequence[Asked] = (),
    *,
    runs: int = RUNS,
    count: int = STATEMENTS,
    seed: int = 0,
    principal: str | None = None,
) -> NoiseAudit:
    """Read the schema of a policy's database, close it, and audit on made-up data of that shape."""
    with closing(connect(policy.located_database, read_only=True)) as engine:
        schema = schema_of(engine, policy)
    return audit_schema(policy, schema, asked, runs=runs, count=count, seed=seed, principal=principal)


def audit_schema(
    policy: Gateway,
    schema: Schema,
    asked: Sequence[Asked] = (),
    *,
    runs: int = RUNS,
    count: int = STATEMENTS,
    seed: int = 0,
    principal: str | None = None,
    mechanisms: Mechanisms | None = None,
) -> NoiseAudit:
    """`principal` asks what is drawn from the schema; `mechanisms` are those that a test breaks."""
    source = mechanisms or Mechanisms()
    own = _own_policy(policy)
    principal = principal or asking_principal(policy)
    if policy.principals[principal].controls:
        raise PolicyError(f"'{principal}' is answered without noise", hint="audit these answers without --dp")
    drawn = schema_statements(Catalog(own, schema), principal, count, seed)
    listed = [*asked, *(Asked(sql, principal, "schema") for sql in drawn)]
    compared: list[list[NeighbourComparison]] = []
    charges: list[list[str]] = [[] for _ in listed]
    general: list[str] = []
    for world in WORLDS:
        made = neighbours_of(own, schema, world, seed)
        with TemporaryDirectory(prefix="sqlanon-") as folder:
            counted = DrawnNoise(source)
            with (
                _gate(own, schema, made.one, Path(folder), "one", counted.mechanisms) as one,
                _gate(own, schema, made.other, Path(folder), "other", counted.mechanisms) as other,
            ):
                own_ledger, other.ledger = other.ledger, one.ledger  # one secret: the person is the only difference
                own_ledger.close()
                if world == WORLDS[0]:
                    listed = [_statement(one, each) for each in listed]
                compared.append([compare_neighbours(one, other, each.sql, each.principal) for each in listed])
                if world == WORLDS[-1]:
                    for place, (each, last) in enumerate(zip(listed, compared[-1], strict=True)):
                        if last.parts:
                            charges[place] = faults_of_charges(one, counted, each.sql, each.principal)
            if world == WORLDS[-1]:
                general += _limits(policy, own, schema, made.one, Path(folder), source, listed, principal)
    found = tuple(
        _judged(each, [world[place] for world in compared], charges[place], runs) for place, each in enumerate(listed)
    )
    return NoiseAudit(found, runs, own.rows, tuple(general))


def asking_principal(policy: Gateway) -> str:
    """Who asks what is drawn from the schema: the one with the most tables, of those whose answers have noise."""
    known = [name for name, own in policy.principals.items() if not own.controls]
    if not known:
        raise PolicyError("no principal of the policy is answered with noise", hint="audit these answers without --dp")
    return max(known, key=lambda name: sum(policy.allows(name, table) for table in policy.tables))


def _own_policy(policy: Gateway) -> Gateway:
    """The policy on data that is nobody's: no wait, no limit to the budget, and as many rows as are made up."""
    principal = policy.budget.principal.model_copy(update={"epsilon": ENDLESS, "delta": 1.0})
    budget = policy.budget.model_copy(update={"principal": principal, "total": None})
    nobody = {"epsilon": None, "delta": None}
    rows = min(policy.rows, MOST_ROWS // 2)
    changed = {
        "database": ":memory:", "answer_time": 0.0, "budget": budget, "failures": 10**6, "rows": rows,
        "groups": min(policy.groups, rows),
        "principals": {name: own.model_copy(update=nobody) for name, own in policy.principals.items()},
    }  # fmt: skip
    return policy.model_copy(update=changed)


@contextmanager
def _gate(
    policy: Gateway, schema: Schema, tables: Tables, folder: Path, name: str, mechanisms: Mechanisms
) -> Iterator[Gate]:
    engine = connect(":memory:")
    for table in policy.tables:
        load_table(engine, table, schema, tables[table])
    gate = Gate(
        policy, engine, Ledger.create(folder / f"{name}.ledger"), made_up_catalog(policy, schema, engine),
        mechanisms=mechanisms, post=PostDatabase(policy.timeout),
    )  # fmt: skip
    with closing(gate):
        yield gate


def made_up_catalog(policy: Gateway, schema: Schema, engine: Engine) -> Catalog:
    """The catalog of the real database over made-up tables: their types are those of the gateway's own engine."""
    return Catalog(policy, replace(schema, collated=frozenset()) if engine.dialect == "duckdb" else schema)


def _statement(gate: Gate, asked: Asked) -> Asked:
    if not asked.shape:
        return asked
    filled = fill_shape(gate, asked.sql, asked.principal)
    return replace(asked, sql=filled or asked.sql, shape=filled is None)


def _judged(asked: Asked, worlds: Sequence[NeighbourComparison], charges: Sequence[str], runs: int) -> StatementAudit:
    violations = dict.fromkeys([*(text for found in worlds for text in found.violations), *charges])
    answered = [found for found in worlds if found.parts]
    if not answered:
        refused = next((found.refused for found in worlds if found.refused), "")
        return StatementAudit(asked, refused, violations=tuple(violations))
    worst = max(answered, key=_ratio)
    faults = [text for part, one, _ in worst.parts for text in faults_of_noise(part, one)]
    violations |= dict.fromkeys(faults)
    proven = 0.0
    if not violations:
        proven = proven_epsilon(worst.parts, worst.delta, runs)
        if proven > worst.cost.epsilon:
            violations["the answers prove a larger epsilon than is charged"] = None
    shift = max((each for found in answered for each in found.shifts), key=_share, default=None)
    return StatementAudit(asked, "", shift, worst.cost, proven, tuple(violations))


def _ratio(found: NeighbourComparison) -> float:
    return sum(map(_share, found.shifts))


def _share(shift: Shift) -> float:
    return shift.moved / shift.reach if shift.reach else 0.0


def _limits(
    policy: Gateway,
    own: Gateway,
    schema: Schema,
    tables: Tables,
    folder: Path,
    source: Mechanisms,
    listed: Sequence[Asked],
    principal: str,
) -> list[str]:
    """With a budget for two statements, of one principal: a third is not answered."""
    statement = policy.budget.statement
    limit = own.budget.principal.model_copy(
        update={"epsilon": 2 * statement.epsilon, "delta": max(3 * statement.delta, policy.budget.principal.delta)}
    )
    small = own.model_copy(update={"budget": own.budget.model_copy(update={"principal": limit})})
    counted = DrawnNoise(source)
    chosen = [each for each in listed if each.principal == principal]
    random.Random(0).shuffle(chosen)
    with _gate(small, schema, tables, folder, "small", counted.mechanisms) as gate:
        try:
            return faults_of_limits(gate, counted, [each.sql for each in chosen], principal)
        except SqlanonError:
            return ["the budget of a principal cannot be asked for"]
