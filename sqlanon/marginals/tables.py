"""Write the tables of a refresh: all of them are swapped in within one transaction, and recorded as releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.gateway.bind.values import Kind
from sqlanon.plan import RecordedPlan
from sqlanon.policy import Source
from sqlanon.policy.marginals import Marginals
from sqlanon.relations.source import table_parts
from sqlanon.release.targets.relation_target import RelationTarget, beside, create
from sqlanon.release.targets.target import Staged

TYPES = {
    "int": "BIGINT", "float": "DOUBLE", "text": "TEXT", "bool": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP",
}  # fmt: skip
LOADED = "sqlanon_marginals"  # temporary


@dataclass(frozen=True)
class Made:
    """A table that is to be written."""

    name: str
    columns: Sequence[str]
    kinds: Sequence[Kind]
    rows: Sequence[Sequence[Any]]


def require_free(section: Marginals, engine: Engine) -> None:
    """Refuse, before anything is spent, to replace what somebody else made or what is read."""
    read = [engine.find(table_parts(name)) for name, table in section.gateway.tables.items() if not table.released]
    for name in section.tables:
        there = engine.find(table_parts(name))
        if there is not None and there in read:
            raise section.error(f"'{name}' would replace a table of the gateway", "of", hint="give it another name")
        RelationTarget(engine, name, "table").require_ours()


def write(engine: Engine, tables: Sequence[Made], plan: RecordedPlan, document: Mapping[str, Any]) -> None:
    """The record has no fingerprint of the data: that tells, without noise, whether a row changed."""
    with engine.transaction():
        for made in tables:
            target = RelationTarget(engine, made.name, "table")
            staged = Staged(beside(made.name, "staged"), Source(table=beside(made.name, "staged")))
            names = [f"c{place}" for place in range(len(made.columns))]
            engine.load_temporary(LOADED, names, [[str(value) for value in row] for row in made.rows])
            create(engine, staged.name, _typed(made, names))
            target.swap(staged, plan, {**document, "release": target.described(staged)}, None)
            engine.drop_temporary([LOADED])


def _typed(made: Made, names: Sequence[str]) -> exp.Select:
    """What was loaded as text, as values of its own types."""
    select = exp.Select().from_(LOADED)
    for name, column, kind in zip(names, made.columns, made.kinds, strict=True):
        value = exp.cast(exp.column(name), TYPES[kind], dialect="duckdb")
        select = select.select(exp.alias_(value, column, quoted=True), copy=False)
    return select
