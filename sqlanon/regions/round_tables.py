"""Tables that are made again in every round of an algorithm, by statements that are written once.

To build a statement and to write it as text takes longer than running it on a table of a few thousand rows, and from
round to round nothing changes but the names of the tables that it reads and a number or two.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.lattice.problem import Problem


@dataclass
class Rounds:
    problem: Problem
    # No value of a policy can be spelt like this.
    _mark: str = field(default_factory=lambda: f"given_{secrets.token_hex(8)}_")
    _written: dict[tuple[str, bool], str] = field(default_factory=dict)

    def made(
        self,
        kind: str,
        build: Callable[[], exp.Query],
        given: Mapping[str, str] | None = None,
        *,
        first: bool = False,
    ) -> str:
        """Make a table. Where `given` tells the names of this round, the statement is built over tables, and
        placeholders, called work, state and so on, and only once for each `kind` and `first`."""
        query = build() if given is None else self._with(kind, first, build, given)
        unique = (id(self), len(self.problem.prelude.steps))
        made = self.problem.prelude.once(f"mondrian_{kind}", unique, lambda: query)
        self.problem.run()
        return made

    def asked(self, kind: str, build: Callable[[], exp.Query], given: Mapping[str, str]) -> tuple[Any, ...]:
        """The one row that a statement finds."""
        return self.problem.engine.query(self._with(kind, False, build, given))[0]

    def drop(self, *names: str) -> None:
        self.problem.engine.drop_temporary(names)

    def _with(self, kind: str, first: bool, build: Callable[[], exp.Query], given: Mapping[str, str]) -> exp.Query:
        if (kind, first) not in self._written:
            self._written[kind, first] = self._text(build(), given)
        sql = re.sub(rf"{self._mark}(\w+)", lambda found: given[found[1]], self._written[kind, first])
        return exp.Subquery(this=exp.Var(this=sql))

    def _text(self, tree: exp.Query, given: Mapping[str, str]) -> str:
        for found in list(tree.find_all(exp.Table)):
            if found.name in given:
                found.set("this", exp.to_identifier(self._mark + found.name))
        for place in list(tree.find_all(exp.Placeholder)):
            place.replace(exp.Var(this=self._mark + place.name))
        return tree.sql(self.problem.engine.dialect, comments=False)
