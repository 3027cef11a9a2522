"""Take a release away. What is kept of it stays: a later release under its name is compared with it."""

from __future__ import annotations

from sqlglot import exp

from sqlanon.compiler.source import table_parts, table_tree
from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.release.record import of_relation
from sqlanon.release.record import retire as note


def retire(engine: Engine, name: str) -> None:
    with engine.transaction():
        there = engine.find(table_parts(name))
        ours = of_relation(engine, there) if there is not None else None
        if ours is None:
            raise PolicyError(f"there is no release '{name}'", hint="see 'sqlanon releases list'")
        engine.execute(exp.Drop(tables=[table_tree(name)], kind=ours.kind.upper()))
        if ours.table is not None:
            engine.execute(exp.Drop(tables=[table_tree(ours.table)], kind="TABLE"))
        note(engine, ours.name)
