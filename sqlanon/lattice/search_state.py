"""What changes while a table is searched."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.lattice.nodes import Measured, Node
from sqlanon.relations.classes import Prelude

if TYPE_CHECKING:
    from sqlanon.lattice.metrics import Known  # loads numpy, which is for searches alone

Statement = Callable[[Sequence[int | float]], list[tuple[Any, ...]]]


@dataclass
class TempTables:
    """The temporary tables of a search, each planned in the prelude before it is made. All searches of a table share
    them, so that none is made twice."""

    engine: Engine
    prelude: Prelude
    made: int = 0  # steps of the prelude

    def run(self) -> None:
        """Make the tables that were planned since the last time."""
        pending = self.prelude.steps[self.made :]
        run_steps(self.engine, pending)
        self.made = len(self.prelude.steps)

    def skip(self) -> None:
        """The planned tables were made by others."""
        self.made = len(self.prelude.steps)

    def drop(self) -> None:
        drop_steps(self.engine, self.prelude.steps)


@dataclass
class SearchState:
    """What a search has found so far, what it keeps to be faster, and until when it may go on.

    `measured` holds every node that was measured, for these requirements and this table. `source` is the table that
    nodes are measured on now: the compressed one, what is left of it, or a copy that is rolled up to a node.
    Only this package writes here; others read `measured` and `rounds`, and call `tell`, `out_of_time` and `end_after`.
    """

    source: str
    tables: TempTables
    measured: dict[Node, Measured] = field(default_factory=dict)
    rounds: int = 0  # nodes of which models were asked again, since what is suppressed may break others
    deadline: float | None = None
    progress: Callable[[str, int, int], None] | None = None
    marginals: list[list[float]] | None = None
    counting: Known | None = None  # a metric that asks for nothing but counts
    statements: dict[tuple[object, ...], Statement] = field(default_factory=dict)
    root_nats: list[float] = field(default_factory=list)  # of each attribute, for the divergence
    is_part: bool = False  # whether `source` holds a part of the rows

    def tell(self, what: str, done: int, every: int) -> None:
        if self.progress:
            self.progress(what, done, every)

    def out_of_time(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def end_after(self, seconds: float | None) -> None:
        """Let the search take so many seconds from now on; None is as long as it takes."""
        self.deadline = None if seconds is None else time.monotonic() + seconds

    def begin_again(self, source: str | None = None) -> SearchState:
        """The state of another search of the same rows, or of those of `source`: nothing is measured yet."""
        if source is None:
            return replace(self, measured={}, statements={})
        return replace(self, source=source, measured={}, statements={}, marginals=None, is_part=True)
