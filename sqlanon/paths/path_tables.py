"""The temporary tables that the statements of `sql/paths/` read and make."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import SqlanonError
from sqlanon.families import plugin
from sqlanon.sqltree.tree import bind, table

PREFIX = "sqlanon_paths"


class PathTables:
    """The canonical relations of one task by their names in `sql/paths/`; they go when it ends."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._made: dict[str, str] = {}

    def __enter__(self) -> PathTables:
        return self

    def __exit__(self, *_: object) -> None:
        # A connection that broke off takes its temporary tables with it; the error that broke it is the one to show.
        with suppress(SqlanonError):
            self.engine.drop_temporary(list(self._made.values()))

    def name(self, relation: str) -> str:
        return self._made[relation]

    def define(self, relation: str, query: exp.Query) -> None:
        """Make a canonical relation, in place of the one of that name; the query may read the old one."""
        target = f"{PREFIX}_{relation}"
        if self._made.get(relation) == target:
            target = f"{PREFIX}_{relation}_"
        former = self._made.get(relation)
        self.engine.create_temporary(target, query)
        self._made[relation] = target
        if former is not None:
            self.engine.drop_temporary([former])

    def make(self, relation: str, file: str, **params: Any) -> None:
        """Make a canonical relation by a file of `sql/paths/`."""
        self.define(relation, self.bound(file, params))

    def add(self, relation: str, query: exp.Query) -> None:
        """Add rows to a relation."""
        self.engine.execute(exp.insert(query, table(self.name(relation))))

    def ask(self, file: str, **params: Any) -> list[tuple[Any, ...]]:
        """The rows of a file of `sql/paths/`: a summary."""
        return self.engine.query(self.bound(file, params))

    def bind_model(self, name: str, params: Mapping[str, Any]) -> exp.Select:
        """A privacy model over these relations: what breaks it."""
        return bind(plugin("models", name).sql, {key: _as_float(value) for key, value in params.items()}, self._made)

    def bound(self, file: str, params: Mapping[str, Any]) -> exp.Select:
        item = plugin("paths", file)
        numbers = {param.name for param in item.params if param.type == "number"}
        given = {name: float(value) if name in numbers else value for name, value in params.items()}
        return bind(item.sql, given, self._made)


def _as_float(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) else value
