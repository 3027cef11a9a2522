"""What an attacker guesses about each person, in plain Python: (right, right by the margins), or None for no guess."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

Row = tuple[Any, ...]
Rows = Sequence[tuple[Row, str | None]]
Fits = Callable[[Row, Row], bool]
Guess = tuple[float, float] | None
Believe = Callable[[Row], dict[str | None, Any]]


def first_of(weights: dict[str, Any], margins: Counter[str]) -> str | None:
    """The value with the most weight; of several the one that is more frequent at large, then any: by a hash."""

    def place(value: str) -> tuple[Any, ...]:
        weight = weights[value]
        return (-weight, -margins[value], hashlib.md5(value.encode(), usedforsecurity=False).hexdigest())

    return min(weights, key=place) if weights else None


def known(rows: Rows) -> Counter[str]:
    return Counter(value for _, value in rows if value is not None)


def share_of(rows: Rows, fits: Fits) -> Believe:
    def believe(own: Row) -> dict[str | None, Any]:
        values = Counter(value for key, value in rows if fits(own, key))
        return {value: Fraction(n, values.total()) for value, n in values.items()}

    return believe


def shown(beliefs: dict[str | None, Any], margins: Counter[str]) -> dict[str, Any]:
    return {value: belief for value, belief in beliefs.items() if value is not None and value in margins}


def most_believed(person: Row, truth: str, believe: Believe, rows: Rows) -> Guess:
    margins = known(rows)
    guess = first_of(shown(believe(person), margins), margins)
    return None if guess is None else (guess == truth, first_of(dict(margins), margins) == truth)


def homogeneity(person: Row, truth: str, believe: Believe, rows: Rows) -> Guess:
    beliefs = believe(person)
    if len(beliefs) != 1 or None in beliefs:
        return None
    return most_believed(person, truth, believe, rows)


def skewness(person: Row, truth: str, believe: Believe, rows: Rows, gain: float) -> Guess:
    margins = known(rows)
    gains = {
        value: share - Fraction(margins[value], margins.total())
        for value, share in shown(believe(person), margins).items()
    }
    guess = first_of(gains, margins)
    if guess is None or gains[guess] <= Fraction(gain) + Fraction(1, 10**9):
        return None
    return guess == truth, first_of(dict(margins), margins) == truth


def background_knowledge(person: Row, truth: str, believe: Believe, rows: Rows, knowledge: int) -> Guess:
    margins = known(rows)
    left = shown(believe(person), margins)
    ruled_out: set[str] = set()
    for _ in range(knowledge):
        other = first_of({value: share for value, share in left.items() if value != truth}, margins)
        if other is not None:
            ruled_out.add(other)
            del left[other]
    guess = first_of(left, margins)
    if guess is None:
        return None
    return guess == truth, first_of({v: n for v, n in margins.items() if v not in ruled_out}, margins) == truth


def similarity(person: Row, truth: str, believe: Believe, rows: Rows, kind: Callable[[str], str]) -> Guess:
    margins = known(rows)
    at_large: Counter[str] = Counter()
    for value, n in margins.items():
        at_large[kind(value)] += n
    kinds: dict[str, Any] = {}
    for value, share in shown(believe(person), margins).items():
        kinds[kind(value)] = kinds.get(kind(value), 0) + share
    guess = first_of(kinds, at_large)
    return None if guess is None else (guess == kind(truth), first_of(dict(at_large), at_large) == kind(truth))


def fitting(person: Row, keys: Sequence[Row], fits: Fits, columns: Sequence[Fits]) -> tuple[int, float]:
    """How many records fit, and how likely one is to fit, were columns independent."""
    weight = math.prod(sum(each(person, key) for key in keys) / len(keys) for each in columns)
    return sum(fits(person, key) for key in keys), weight


def linkage(person: Row, keys: Sequence[Row], fits: Fits, columns: Sequence[Fits]) -> Guess:
    records, weight = fitting(person, keys, fits, columns)
    n = len(keys)
    return records == 1, n * weight * (1 - weight) ** (n - 1)


def membership(person: Row, keys: Sequence[Row], fits: Fits, columns: Sequence[Fits]) -> Guess:
    records, weight = fitting(person, keys, fits, columns)
    return records > 0, 1 - (1 - weight) ** len(keys)


def rates(guesses: Iterable[tuple[Hashable, Guess]]) -> tuple[int, int, float, float]:
    """(persons, guessed about, right, right by the margins); each person is the mean over their rows with a guess."""
    rows: dict[Hashable, list[Guess]] = {}
    for person, guess in guesses:
        rows.setdefault(person, []).append(guess)
    made = [[guess for guess in own if guess is not None] for own in rows.values()]
    made = [own for own in made if own]
    sums = [math.fsum(sum(guess[side] for guess in own) / len(own) for own in made) for side in (0, 1)]
    return len(rows), len(made), sums[0], sums[1]


def learned(members: Sequence[Row], others: Sequence[Row], rows: Rows, fits: Fits, rounds: int) -> Believe:
    """Naive Bayes as in the deFinetti attack: it learns from members, and is applied to everybody."""
    everybody = [*members, *others]
    share = share_of(rows, fits)
    shares = [{value: float(part) for value, part in share(own).items()} for own in everybody]
    believed = [dict(own) for own in shares]
    columns = range(len(everybody[0]))
    domains = [len({own[column] for own in everybody}) for column in columns]
    for _ in range(rounds):
        pairs = list(zip(members, believed, strict=False))
        renewed = []
        for person, own in zip(everybody, shares, strict=True):
            weights = {}
            for value, part in own.items():
                whole = sum(beliefs.get(value, 0.0) for _, beliefs in pairs)
                for column in columns:
                    alike = sum(beliefs.get(value, 0.0) for other, beliefs in pairs if other[column] == person[column])
                    part *= (alike + 1) / (whole + domains[column])
                weights[value] = part
            renewed.append({value: part / sum(weights.values()) for value, part in weights.items()})
        believed = renewed
    found = dict(zip(everybody, believed, strict=True))
    return lambda own: dict(found[own])


def wilson(guesses: int, right: float, z: float) -> tuple[float, float]:
    """All rates p from which the observed one is no more than z standard errors away, found by halving."""
    seen = right / guesses

    def end(inside: float, outside: float) -> float:
        for _ in range(200):
            middle = (inside + outside) / 2
            if abs(seen - middle) <= z * math.sqrt(middle * (1 - middle) / guesses):
                inside = middle
            else:
                outside = middle
        return inside

    return end(seen, 0.0), end(seen, 1.0)
