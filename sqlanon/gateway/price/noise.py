"""Noise: the budget of a statement is split over its integers, and each gets a mechanism that carries its cost.

All of this is a function of the query and the policy alone. Data comes in only at `noisy_table`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.core import Atom, Core
from sqlanon.gateway.price.value_range import SHARE, RangedSum, most_units
from sqlanon.mechanisms import (
    Choice,
    Cost,
    KeySelection,
    Mechanism,
    choose_best,
    gaussian,
    laplace,
    quantile_scores,
    quantile_sensitivity,
    select_keys,
)

KEY_WEIGHT = 0.5  # of the selection of keys, beside a weight of 1 for a count


@dataclass(frozen=True)
class Mechanisms:
    """Where noise comes from. There is one of these; tests that compare with exact answers pass another."""

    laplace: Callable[[int, float], Mechanism] = laplace
    gaussian: Callable[[float, float, float], Mechanism] = gaussian
    select_keys: Callable[[int, int, float, float], KeySelection] = select_keys
    choose_best: Callable[[float, float], Choice] = choose_best


@dataclass(frozen=True)
class Limit:
    """What one person can add to an answer."""

    rows: int
    groups: int
    minimum: int


NoiseOf = Mechanism | Choice | RangedSum | None  # None: the persons that the selection of keys counts anyway


@dataclass(frozen=True)
class Noise:
    """The mechanisms of one core, and what they cost together."""

    atoms: tuple[NoiseOf, ...]
    keys: KeySelection | None
    sensitivities: tuple[int, ...]
    cost: Cost


def noise_for(core: Core, limit: Limit, epsilon: float, delta: float, *, mechanism: str, source: Mechanisms) -> Noise:
    """Split epsilon (and delta) over the atoms of a core and its keys, by weight."""
    private = core.mode == "private"
    if private and delta <= 0:
        raise Refused(
            "keys that are not declared need a delta, and the policy gives none",
            hint="group by columns with declared keys, or by columns of public tables",
        )
    shared = [private and counts_everyone(atom) for atom in core.atoms]
    weights = [0.0 if free else atom.weight for atom, free in zip(core.atoms, shared, strict=True)]
    key_weight = (1.0 if any(shared) else KEY_WEIGHT) if private else 0.0
    if not core.atoms and private:
        key_weight = 1.0
    whole = sum(weights) + key_weight
    sensitivities = tuple(sensitivity(core, atom, limit) for atom in core.atoms)
    rho = _rho_of(epsilon, delta / 2) if mechanism == "gaussian" else 0.0
    whole_amount = rho if mechanism == "gaussian" else epsilon
    atoms: list[NoiseOf] = []
    for atom, weight in zip(core.atoms, weights, strict=True):
        share = weight / whole if whole else 0.0
        made = mechanism_for(core, atom, limit, whole_amount * share, delta, mechanism, source) if weight else None
        atoms.append(made)
    keys = None
    if private:
        share = key_weight / whole
        key_epsilon = math.sqrt(2 * rho * share) if mechanism == "gaussian" else epsilon * share
        key_delta = delta / 2 if mechanism == "gaussian" else delta
        keys = source.select_keys(1 if core.unique else limit.groups, limit.minimum, key_epsilon, key_delta)
    return Noise(tuple(atoms), keys, sensitivities, cost_of(atoms, keys, delta, mechanism))


def cost_of(atoms: Sequence[NoiseOf], keys: KeySelection | None, delta: float, mechanism: str) -> Cost:
    """What the mechanisms of one core cost together."""
    cost = sum((part.cost for part in (*atoms, keys) if part is not None), Cost())
    if mechanism == "gaussian":
        # What counts is rho; of delta, only what the keys spend: the other half belongs to the conversion of rho.
        cost = Cost(_epsilon_of(cost.rho, delta / 2), keys.cost.delta if keys is not None else 0.0, cost.rho)
    return cost


def amount_of(mechanism: NoiseOf, keys: KeySelection | None, kind: str) -> float:
    """The epsilon of noise, or its rho where noise is Gaussian; of persons that keys are selected by, that of these."""
    cost = mechanism.cost if mechanism is not None else keys.cost if keys is not None else Cost()
    return cost.rho if kind == "gaussian" else cost.epsilon


def mechanism_for(
    core: Core, atom: Atom, limit: Limit, amount: float, delta: float, mechanism: str, source: Mechanisms
) -> Mechanism | Choice | RangedSum:
    """The noise of one atom, for an epsilon, or for a rho where the noise is Gaussian."""
    reach = sensitivity(core, atom, limit)
    if mechanism == "gaussian":
        return _gaussian(atom, core, limit, reach, amount, delta, source)
    if atom.kind == "quantile":
        return source.choose_best(reach, amount)
    if atom.kind == "ranged":
        rows = 1 if core.unique else limit.rows
        return RangedSum(source.laplace(rows, amount * SHARE), source.laplace(reach, amount * (1 - SHARE)))
    return source.laplace(reach, amount)


def counts_everyone(atom: Atom) -> bool:
    """Whether an atom is the number of all persons of a group, which selects keys anyway."""
    return atom.kind == "persons" and type(atom.tree) is exp.Boolean and atom.tree.this is True


def sensitivity(core: Core, atom: Atom, limit: Limit) -> int:
    """How far one person moves all groups of an atom together (L1); of a quantile, its scores."""
    rows = 1 if core.unique else limit.rows
    if atom.kind == "persons":
        return limit.groups if core.keys and not core.unique else 1
    if atom.kind == "quantile":
        return quantile_sensitivity(rows, atom.alpha)
    if atom.kind == "ranged":
        return most_units(rows)
    return rows * atom.step


def _gaussian(
    atom: Atom, core: Core, limit: Limit, reach: int, rho: float, delta: float, source: Mechanisms
) -> Mechanism | Choice | RangedSum:
    if atom.kind == "quantile":
        return source.choose_best(reach, math.sqrt(2 * rho))
    if atom.kind == "ranged":
        rows = 1 if core.unique else limit.rows
        return RangedSum(
            source.gaussian(float(rows), rho * SHARE, delta / 2),
            source.gaussian(float(reach), rho * (1 - SHARE), delta / 2),
        )
    # All rows of a person may lie in one group, so L2 is no smaller than L1; persons are 0 or 1 in each group.
    spread = math.sqrt(reach) if atom.kind == "persons" else float(reach)
    return source.gaussian(spread, rho, delta / 2)


def _rho_of(epsilon: float, delta: float) -> float:
    """The zCDP whose conversion at delta is epsilon: epsilon = rho + 2 sqrt(rho log(1/delta)).

    >>> round(_rho_of(1.0, 1e-6), 5)
    0.01747
    """
    log = math.log(1 / delta)
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2


def _epsilon_of(rho: float, delta: float) -> float:
    """
    >>> round(_epsilon_of(_rho_of(1.0, 1e-6), 1e-6), 9)
    1.0
    """
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


Key = tuple[Any, ...]


def noisy_table(
    core: Core,
    noise: Noise,
    found: Mapping[Key, Mapping[str, int]],
    histograms: Mapping[int, Mapping[Key, Any]],
    all_keys: Sequence[Key] | None,
) -> list[tuple[Any, ...]]:
    """The noisy table of a core: keys, then a value and the half of its 95 % interval for each atom.

    `found` holds exact integers by key, `histograms` those of distinct values and quantiles by atom; `all_keys` are
    the keys that appear whatever the data say, None where they are private. The one place where exact becomes noisy.
    """  # fmt: skip
    persons: list[int | None]
    if all_keys is not None:
        keys, persons = list(all_keys), [None] * len(all_keys)
    else:
        assert noise.keys is not None
        candidates = list(found)
        counts = noise.keys.select([int(found[key]["persons"]) for key in candidates])
        selected = [(key, count) for key, count in zip(candidates, counts, strict=True) if count is not None]
        # The order of an engine's hash table tells of rows that were dropped.
        selected.sort(key=lambda pair: _order(pair[0]))
        keys, persons = [key for key, _ in selected], [count for _, count in selected]
    columns: list[list[Any]] = []
    for place, (atom, mechanism) in enumerate(zip(core.atoms, noise.atoms, strict=True)):
        if mechanism is None:
            assert noise.keys is not None
            width = key_width(noise.keys)
            columns += [list(persons), [width] * len(keys)]
        elif isinstance(mechanism, Choice):
            bins = histograms.get(place, {})
            columns += [[_quantile(atom, mechanism, bins.get(key, {})) for key in keys], [0.0] * len(keys)]
        elif isinstance(mechanism, RangedSum):
            columns += _ranged(atom, mechanism, histograms.get(place, {}), keys)
        else:
            held = histograms.get(place, {}) if atom.kind == "distinct" else None
            exact = [found.get(key, {}).get(f"a{place}", 0) if held is None else held.get(key, 0) for key in keys]
            values = [int(value) for value in exact]
            columns += [mechanism.add_noise(values) if values else [], [mechanism.half_width()] * len(keys)]
    return [(*key, *cells) for key, *cells in zip(keys, *columns, strict=True)] if columns else [tuple(k) for k in keys]


def atom_width(noise: Noise, place: int) -> float:
    """Half of the 95 % interval of an integer."""
    mechanism = noise.atoms[place]
    if mechanism is None:
        assert noise.keys is not None
        return key_width(noise.keys)
    assert isinstance(mechanism, Mechanism)  # how far the others are off depends on the data
    return mechanism.half_width()


def key_width(keys: KeySelection) -> float:
    """Half of the 95 % interval of the number of persons that keys are selected by."""
    return math.ceil(keys.scale * math.log(20))


def _quantile(atom: Atom, mechanism: Choice, histogram: Mapping[int, int]) -> int:
    """The bin that the mechanism chooses, from exact rows by bin."""
    counts = [0] * atom.bins
    for place, rows in histogram.items():
        counts[int(place)] += int(rows)
    total, below, belows, aboves = sum(counts), 0, [], []
    for count in counts:
        belows.append(below)
        below += count
        aboves.append(total - below)
    return mechanism.choose(quantile_scores(belows, aboves, atom.alpha))


def _ranged(atom: Atom, mechanism: RangedSum, held: Mapping[Key, Any], keys: Sequence[Key]) -> list[list[Any]]:
    """The sum in units, half of its interval, what a unit stands for, and both ends of the range that was found."""
    found = mechanism.find(list(held.values()))
    exact = [found.total(held.get(key, {}), centred=atom.centred) for key in keys]
    noisy = mechanism.total.add_noise(exact) if exact else []
    same = (mechanism.half_width(), found.unit(centred=atom.centred), found.low, found.high)
    return [noisy, *([value] * len(keys) for value in same)]


def _order(key: Key) -> tuple[Any, ...]:
    """Keys in order, NULL last; of one column all values are of one type."""
    return tuple((value is None, "" if value is None else value) for value in key)
