"""A gateway on made-up data: the same statements, rules, noise and costs, with nobody's rows and nobody's budget.

What is read of the real database is its catalog: the names and types of columns, and what is unique. Rows are drawn
from what the policy declares, with a fixed seed: uniformly between bounds or among keys; a text that is not declared
is one of 'text 1', 'text 2', …, a number one of 1, 2, …. Keys of the unit and of links lead to rows that are there.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine, connect
from sqlanon.gateway import Answer, Gate
from sqlanon.gateway.answer.post_processing import TYPES as NOISY_TYPES
from sqlanon.gateway.answer.post_processing import PostDatabase
from sqlanon.gateway.bind.catalog import Catalog, Schema, aliased_table, kind_of, stored_type
from sqlanon.gateway.bind.schema import schema_of
from sqlanon.gateway.bind.values import Kind
from sqlanon.ledger import Ledger
from sqlanon.policy.gateway import Gateway
from sqlanon.policy.gateway_column import GatewayColumn

PERSONS = 5000
ROWS_EACH = 3  # of a person, or of a row that is linked to, on average
POOL = 5  # values of a column that is not declared, and rows of a public table
LARGEST = 2**62
FIRST_DAY, DAYS = datetime(2025, 1, 1), 365
TYPES = NOISY_TYPES | {"int": "BIGINT"}

Row = dict[str, Any]
Draw = Callable[[int], Any]  # the value of the i-th row


@dataclass
class SyntheticGate(Gate):
    """Answers are marked as synthetic. The budget is that of a new principal, in a ledger that is thrown away."""

    folder: TemporaryDirectory[str] = field(default_factory=TemporaryDirectory)

    def answer(self, *args: Any, **options: Any) -> Answer:
        return replace(super().answer(*args, **options), synthetic=True)

    def close(self) -> None:
        super().close()
        self.folder.cleanup()


def open_synthetic(policy: Gateway) -> SyntheticGate:
    """Read the schema of the policy's database, close it, and make a gateway on data of that shape."""
    with closing(connect(policy.located_database, read_only=True)) as engine:
        schema = schema_of(engine, policy)
    return synthetic_gate(policy, schema)


def synthetic_gate(policy: Gateway, schema: Schema) -> SyntheticGate:
    """A gateway on tables of this schema in memory, filled with made-up rows."""
    own = policy.model_copy(update={"database": ":memory:", "answer_time": 0.0})  # nobody's data: no need to wait
    folder = TemporaryDirectory(prefix="sqlanon-")
    ledger = Ledger.create(Path(folder.name) / "synthetic.ledger")
    engine = connect(":memory:")
    made = _Maker(own, schema)
    for name in own.tables:
        load_table(engine, name, schema, made.table(name))
    post = PostDatabase(own.timeout)
    return SyntheticGate(own, engine, ledger, Catalog(own, schema), post=post, folder=folder)


class _Maker:
    """Makes each table once, after those that its rows refer to."""

    def __init__(self, policy: Gateway, schema: Schema) -> None:
        self.policy = policy
        self.schema = schema
        self.made: dict[str, list[Row]] = {}

    def table(self, name: str) -> list[Row]:
        if name not in self.made:
            self.made[name] = self._rows(name)
        return self.made[name]

    def _rows(self, name: str) -> list[Row]:
        random_of = random.Random(f"sqlanon {name}")  # a seed of its own: one more table changes no other
        table, unit = self.policy.tables[name], self.policy.unit
        fixed: list[Row]
        if table.link is not None:
            fixed = self._referring(self.table(table.link.table), table.link.on, name, random_of)
        elif table.public or table.released:
            fixed = [{} for _ in range(POOL)]
        elif name == unit.table or table.unit is None:
            fixed = [{} for _ in range(PERSONS)]
        else:
            fixed = self._referring(self.table(unit.table), {table.unit: unit.key}, name, random_of)
        in_turn = table.public or table.released
        draws = self._draws(name, random_of, in_turn=in_turn)
        return [{column: row.get(column, draw(i)) for column, draw in draws.items()} for i, row in enumerate(fixed)]

    def _referring(self, parents: list[Row], on: Mapping[str, str], name: str, random_of: random.Random) -> list[Row]:
        """Rows that refer to rows of another table: one each where a constraint asks for it, else some often."""
        once = any((name, own) in self.schema.unique for own in on)
        chosen = parents if once else random_of.choices(parents, k=len(parents) * ROWS_EACH)
        return [{own: parent[other] for own, other in on.items()} for parent in chosen]

    def _draws(self, name: str, random_of: random.Random, *, in_turn: bool) -> dict[str, Draw]:
        table = self.policy.tables[name]
        keys = {table.unit, self.policy.unit.key if name == self.policy.unit.table else None}
        # Columns that other tables refer to must tell rows apart, or one row of theirs would belong to many.
        referred = {
            column
            for other in self.policy.tables.values()
            if other.link is not None and other.link.table == name
            for column in other.link.on.values()
        }
        draws = {}
        for info in self.schema.columns[name]:
            kind = kind_of(info.type) or "text"
            distinct = info.name in keys | referred or (name, info.name) in self.schema.unique
            values = _values(kind, table.columns.get(info.name), random_of)
            if distinct:
                draws[info.name] = _numbered(kind)
            elif isinstance(values, Sequence):
                draws[info.name] = _in_turn(values) if in_turn else _among(values, random_of)
            else:
                draws[info.name] = values
        return draws


def _values(kind: Kind, declared: GatewayColumn | None, random_of: random.Random) -> Sequence[Any] | Draw:
    """The values of a column, or how to draw one between its bounds."""
    if declared is not None and declared.keys is not None:
        return declared.keys
    low: Any = declared.low if declared is not None else None
    high: Any = declared.high if declared is not None else None
    if low is None or high is None:
        if kind in ("date", "timestamp"):
            return _between_times(FIRST_DAY, FIRST_DAY + timedelta(days=DAYS), kind, random_of)
        return [False, True] if kind == "bool" else [_numbered(kind)(i) for i in range(POOL)]
    if isinstance(low, date):
        return _between_times(_start(low), _start(high), kind, random_of)
    if kind == "int":
        first, last = max(math.ceil(low), -LARGEST), min(math.floor(high), LARGEST)
        return [first] if first >= last else lambda _: random_of.randint(first, last)
    if kind == "float":
        digits = 2 if high - low >= 1 else 17
        return lambda _: round(random_of.uniform(low, high), digits)
    return [_numbered(kind)(i) for i in range(POOL)]


def _between_times(first: datetime, last: datetime, kind: Kind, random_of: random.Random) -> Draw:
    def draw(_: int) -> Any:
        drawn = first + timedelta(seconds=random_of.randint(0, int((last - first).total_seconds())))
        return drawn if kind == "timestamp" else drawn.date()

    return draw


def _start(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, datetime.min.time())


def _numbered(kind: Kind) -> Draw:
    """A value for each number, another one for another number."""
    if kind in ("int", "float"):
        return lambda i: i + 1
    if kind == "date":
        return lambda i: FIRST_DAY.date() + timedelta(days=i)
    if kind == "timestamp":
        return lambda i: FIRST_DAY + timedelta(hours=i)
    if kind == "bool":
        return lambda i: bool(i % 2)
    return lambda i: f"text {i + 1}"


def _in_turn(values: Sequence[Any]) -> Draw:
    return lambda i: values[i % len(values)]


def _among(values: Sequence[Any], random_of: random.Random) -> Draw:
    return lambda _: random_of.choice(values)


def load_table(engine: Engine, name: str, schema: Schema, rows: Sequence[Row]) -> None:
    """Create a table of the policy with these rows: as text first, which the engine casts to types of its own."""
    table = aliased_table(name, "t0")
    table.set("alias", None)
    infos = list(schema.columns[name])
    engine.load_temporary(
        "made", [f"c{i}" for i in range(len(infos))], [[_text(row[info.name]) for info in infos] for row in rows]
    )
    select = exp.Select().from_("made")
    for place, info in enumerate(infos):
        value = exp.cast(exp.column(f"c{place}"), TYPES[kind_of(info.type) or "text"], dialect="duckdb")
        if stored_type(info.type) == "timestamptz":
            value = exp.cast(exp.column(f"c{place}"), exp.DataType.Type.TIMESTAMPTZ)
        select = select.select(exp.alias_(value, info.name, quoted=True), copy=False)
    if isinstance(schema_name := table.args.get("db"), exp.Identifier):
        engine.execute(exp.Create(this=exp.Table(db=schema_name.copy()), kind="SCHEMA", exists=True))
    engine.execute(exp.Create(this=table, kind="TABLE", expression=select))
    engine.drop_temporary(["made"])


def _text(value: Any) -> Any:
    return None if value is None else str(value)
