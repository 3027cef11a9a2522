"""Data as the gateway reads them: one statement at a time, within the timeout, with one message for all that fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import EngineError
from sqlanon.gateway.answer.release_time import ReleaseTime
from sqlanon.gateway.bind.core import Core, same_key
from sqlanon.gateway.bind.keys import combine_keys, typed_key
from sqlanon.gateway.price.noise import Key, noisy_table
from sqlanon.gateway.price.prepared_statement import BY_VALUE, PricedCore, Written, main_columns
from sqlanon.ledger import Ledger


@dataclass(frozen=True)
class Data:
    engine: Engine
    ledger: Ledger
    timeout: float
    release: ReleaseTime | None = None  # of an answer about persons

    def keys(self, core: Core) -> list[Key] | None:
        """The keys that appear whatever the private data say; None if they are private."""
        if core.mode == "none":
            return [()]
        if core.mode == "private":
            return None
        if core.mode == "declared":
            return [
                tuple(typed_key(value, key.kind) for value, key in zip(row, core.keys, strict=True))
                for row in core.declared
            ]
        public_keys = core.public_keys
        assert public_keys is not None
        found = self.guarded(lambda: self.engine.query(public_keys), charged=False)
        return combine_keys(core, list(dict.fromkeys(_key(row) for row in found)))

    def noisy(self, part: PricedCore, all_keys: list[Key] | None) -> list[tuple[Any, ...]]:
        found, histograms = self.exact(part)
        return noisy_table(part.core, part.noise, found, histograms, all_keys)

    def exact(self, part: PricedCore) -> tuple[dict[Key, dict[str, int]], dict[int, dict[Key, Any]]]:
        """What the statements of a core read: integers by key, and of distinct values and quantiles by atom and key."""
        core = part.core
        width = len(core.keys)
        found: dict[Key, dict[str, int]] = {}
        histograms: dict[int, dict[Key, Any]] = {}
        values = [place for place, atom in enumerate(core.atoms) if atom.kind in BY_VALUE]
        places = list(range(len(part.statements)))
        if len(places) > len(values):
            names = main_columns(core)
            for row in self._rows_of(part, places.pop(0)):
                found[_key(row[:width])] = dict(zip(names, row[width:], strict=True))
        for place, own in zip(values, places, strict=True):
            held: dict[Key, Any] = histograms.setdefault(place, {})
            for row in self._rows_of(part, own):
                if core.atoms[place].kind == "distinct":
                    held[_key(row[:width])] = row[width]
                elif core.atoms[place].kind == "ranged":
                    held.setdefault(_key(row[:width]), {})[int(row[width])] = int(row[width + 1]), int(row[width + 2])
                else:
                    held.setdefault(_key(row[:width]), {})[row[width]] = row[width + 1]
        return found, histograms

    def rows(self, statement: exp.Select) -> list[tuple[Any, ...]]:
        statement = statement.copy()  # engines change what they write out, and a statement may be asked again
        if statement.find(exp.Parameter) is None:
            return self.guarded(lambda: self.engine.query(statement))
        return self.guarded(lambda: self.engine.prepared(statement)([self.ledger.secret]))

    def _rows_of(self, part: PricedCore, place: int) -> list[tuple[Any, ...]]:
        """As `rows`, of a statement of a part: the same at every time but for the secret, so it is written once."""
        statement = part.statements[place]
        if place not in part.written and statement.find(exp.Parameter) is None:
            return self.rows(statement)
        return self.guarded(lambda: self._written(part, place)([self.ledger.secret]))

    def _written(self, part: PricedCore, place: int) -> Written:
        if place not in part.written:
            part.written[place] = self.engine.prepared(part.statements[place].copy())
        return part.written[place]

    def guarded(self, run: Any, *, charged: bool = True) -> list[tuple[Any, ...]]:
        """Run a statement; whatever goes wrong has one message, for a special one would tell about data."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.engine.interrupt()

        timer = threading.Timer(self.timeout if self.release is None else self.release.to_work, stop)
        timer.daemon = True
        timer.start()
        try:
            return list(run())
        except KeyboardInterrupt:
            if not late.is_set():
                raise
            raise read_failure(charged) from None
        except Exception:
            raise read_failure(charged) from None
        finally:
            timer.cancel()
            timer.join()


def _key(values: Sequence[Any]) -> Key:
    return tuple(map(same_key, values))


def read_failure(charged: bool) -> EngineError:
    cost = "its cost stays charged" if charged else "it cost nothing"
    return EngineError(
        "the statement could not be answered", hint=f"{cost}; ask for less at a time, or tell the owner of the data"
    )
