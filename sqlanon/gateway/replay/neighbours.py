"""What two gates on neighbouring databases read for a statement, compared: by how much one person moves it.

Everything but the exact integers must be the same with and without the person: the refusal, the statements that run,
the noise, the cost and the keys that always appear. The integers differ by no more than the noise was made for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from sqlanon.errors import Refused, SqlanonError
from sqlanon.gateway import Gate, PricedCore, PricedStatement
from sqlanon.gateway.bind.core import Atom
from sqlanon.gateway.price.noise import Key
from sqlanon.gateway.price.value_range import most_units, ranges
from sqlanon.mechanisms import Cost, quantile_scores

FEW_BINS = 300  # a histogram with more of them is summed up once


@dataclass(frozen=True)
class Read:
    """What the statements of a core read before noise: integers by key, and histograms by atom and key."""

    found: Mapping[Key, Mapping[str, int]]
    histograms: Mapping[int, Mapping[Key, Any]]
    keys: Sequence[Key] | None  # those that appear whatever the data say; None if they are private

    def integers(self, place: int, atom: Atom) -> dict[str, int]:
        """The integers of an atom by key, as a text: NaN equals itself there."""
        if atom.kind == "distinct":
            return {shown_key(key): int(value) for key, value in self.histograms.get(place, {}).items()}
        return self.column(f"a{place}")

    def column(self, name: str) -> dict[str, int]:
        return {shown_key(key): int(values[name]) for key, values in self.found.items() if name in values}

    def shown(self) -> set[str] | None:
        return None if self.keys is None else set(map(shown_key, self.keys))


@dataclass(frozen=True)
class Shift:
    """How far one person moves an atom, beside how far it may move."""

    label: str
    moved: int
    reach: int


@dataclass(frozen=True)
class NeighbourComparison:
    """One statement on a pair of neighbours."""

    refused: str = ""  # why, where both refuse it
    shifts: tuple[Shift, ...] = ()
    violations: tuple[str, ...] = ()
    parts: tuple[tuple[PricedCore, Read, Read], ...] = field(default=(), repr=False)
    cost: Cost = field(default_factory=Cost)
    delta: float = 0.0  # of the whole statement


def compare_neighbours(
    one: Gate, other: Gate, sql: str, principal: str, parameters: Sequence[Any] = (), **options: Any
) -> NeighbourComparison:
    """Prepare a statement on both gates, read what it reads before noise, and compare."""
    first, second = (_prepared(gate, sql, principal, parameters, options) for gate in (one, other))
    if isinstance(first, str) or isinstance(second, str):
        if first == second:
            return NeighbourComparison(refused=str(first))
        return NeighbourComparison(violations=("whether it is refused, or how, depends on the data",))
    found = list(differences(first, second))
    if found:
        return NeighbourComparison(violations=tuple(found))
    shifts: list[Shift] = []
    parts = []
    for part, same in zip(first.parts, second.parts, strict=True):
        try:
            reads = read_core(one, part), read_core(other, same)
        except (SqlanonError, ValueError, OverflowError):
            return NeighbourComparison(violations=("it fails on some rows, after it was charged",))
        parts.append((part, *reads))
        moves, wrong = compare_reads(part, *reads, groups=groups_of(part, first))
        shifts += moves
        found += wrong
    return NeighbourComparison("", tuple(shifts), tuple(found), tuple(parts), first.cost, first.delta)


def _prepared(
    gate: Gate, sql: str, principal: str, parameters: Sequence[Any], options: Mapping[str, Any]
) -> PricedStatement | str:
    try:
        return gate.prepare(sql, principal, parameters, **options)
    except Refused as error:
        return str(error)


def read_core(gate: Gate, part: PricedCore) -> Read:
    keys = gate.data.keys(part.core)
    return Read(*gate.data.exact(part), keys)


def groups_of(part: PricedCore, prepared: PricedStatement) -> int:
    """In how many groups of a core one person counts."""
    return prepared.limit.groups if part.core.keys and not part.core.unique else 1


def differences(one: PricedStatement, other: PricedStatement) -> Iterator[str]:
    """What differs between two statements that must be the same: a function of text, policy and schema alone."""
    if one.cost != other.cost:
        yield "its cost depends on the data"
    if one.noisy_sql != other.noisy_sql or one.columns != other.columns or one.types != other.types:
        yield "what follows the noise depends on the data"
    if len(one.parts) != len(other.parts):
        yield "what it reads depends on the data"
        return
    for a, b in zip(one.parts, other.parts, strict=True):
        if [each.sql("duckdb") for each in a.statements] != [each.sql("duckdb") for each in b.statements]:
            yield "the statements that read data depend on the data"
        if a.noise.sensitivities != b.noise.sensitivities:
            yield "the sensitivity of its noise depends on the data"
        if [each and each.scale for each in a.noise.atoms] != [each and each.scale for each in b.noise.atoms]:
            yield "the scale of its noise depends on the data"
        if (a.noise.keys and a.noise.keys.threshold) != (b.noise.keys and b.noise.keys.threshold):
            yield "the threshold of its groups depends on the data"


def compare_reads(part: PricedCore, one: Read, other: Read, *, groups: int) -> tuple[list[Shift], list[str]]:
    """How far each integer of a core is moved, and what goes beyond what its noise is made for."""
    core, wrong = part.core, []
    if one.shown() != other.shown():
        wrong.append("the groups that always appear depend on the data")
    persons = total_shift(one.column("persons"), other.column("persons"))
    if persons > groups:
        wrong.append(f"one person is counted in {persons} groups, and may be in {groups}")
    shifts = []
    for place, (atom, reach) in enumerate(zip(core.atoms, part.noise.sensitivities, strict=True)):
        if atom.kind == "quantile":
            change = score_shift(atom, one.histograms.get(place, {}), other.histograms.get(place, {}))
        elif atom.kind == "ranged":
            rows, change = range_shift(atom, one.histograms.get(place, {}), other.histograms.get(place, {}))
            most = reach // most_units(1)
            if rows > most:
                wrong.append(f"{atom.label} counts {rows} rows of one person, and may count {most}")
        else:
            a, b = one.integers(place, atom), other.integers(place, atom)
            if core.mode == "private" and atom.kind in ("sum", "persons"):
                # A key that only one of both can show is what delta is for: it has just the minimum of persons there.
                shown = one.column("persons").keys() & other.column("persons").keys()
                a, b = ({key: value for key, value in side.items() if key in shown} for side in (a, b))
            change = total_shift(a, b)
        shifts.append(Shift(atom.label or atom.kind, change, reach))
        if change > reach:
            wrong.append(f"{atom.label or atom.kind} moves by {change}, and its noise is made for {reach}")
    return shifts, wrong


def shown_key(key: Iterable[Any]) -> str:
    return str(tuple(map(str, key)))


def total_shift(one: Mapping[str, int], other: Mapping[str, int]) -> int:
    """The sum of all changes, over all groups.

    >>> total_shift({"a": 3, "b": 1}, {"a": 1})
    3
    """
    return sum(abs(one.get(key, 0) - other.get(key, 0)) for key in one.keys() | other.keys())


def score_shift(atom: Atom, one: Mapping[Key, Any], other: Mapping[Key, Any]) -> int:
    """The largest change of a score in each group, over all groups."""
    a, b = ({shown_key(key): value for key, value in side.items()} for side in (one, other))
    return sum(
        max(abs(x - y) for x, y in zip(scores(atom, a.get(key, {})), scores(atom, b.get(key, {})), strict=True))
        for key in keys_of(a.keys(), b.keys())
    )


def range_shift(atom: Atom, one: Mapping[Key, Any], other: Mapping[Key, Any]) -> tuple[int, int]:
    """Of a sum without declared bounds: how far its histogram moves, and its units in the worst of all ranges."""
    a, b = ({shown_key(key): held for key, held in side.items()} for side in (one, other))
    keys = keys_of(a.keys(), b.keys())
    counts: list[Counter[int]] = [Counter(), Counter()]
    for side, counted in ((a, counts[0]), (b, counts[1])):
        for held in side.values():
            counted.update({bin_: rows for bin_, (rows, _) in held.items()})
    change = max(
        sum(
            abs(found.total(a.get(key, {}), centred=atom.centred) - found.total(b.get(key, {}), centred=atom.centred))
            for key in keys
        )
        for found in ranges()
    )
    return sum(abs(counts[0][bin_] - counts[1][bin_]) for bin_ in counts[0].keys() | counts[1].keys()), change


def keys_of(one: Set[str], other: Set[str]) -> list[str]:
    return sorted(one | other)


def scores(atom: Atom, histogram: Mapping[int, int]) -> list[int]:
    """The score of each candidate of a quantile, computed from the definition."""
    counts = [0] * atom.bins
    for place, amount in histogram.items():
        counts[int(place)] += int(amount)
    belows = [sum(counts[:place]) for place in range(atom.bins)] if atom.bins < FEW_BINS else _running(counts)
    total = sum(counts)
    aboves = [total - below - count for below, count in zip(belows, counts, strict=True)]
    return quantile_scores(belows, aboves, atom.alpha)


def _running(counts: Sequence[int]) -> list[int]:
    below, found = 0, []
    for count in counts:
        found.append(below)
        below += count
    return found
