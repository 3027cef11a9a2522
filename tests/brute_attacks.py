"""Attacks in plain Python, person by person, as their definitions read: (confidence, broken) of every person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

Row = tuple[Any, ...]
Conclusion = tuple[Fraction, bool]
Fits = Callable[[Row, Row], bool]  # whether a target may be in a class


def summary(conclusions: Iterable[Conclusion]) -> tuple[int, int, float | None, float | None]:
    every = list(conclusions)
    if not every:
        return 0, 0, None, None
    total = sum((confidence for confidence, _ in every), Fraction(0))
    highest = max(confidence for confidence, _ in every)
    return len(every), sum(broken for _, broken in every), float(highest), float(total / len(every))


def _mates(rows: Sequence[tuple[Row, Hashable]], own: Row) -> list[Hashable]:
    return [value for key, value in rows if key == own]


def homogeneity(rows: Sequence[tuple[Row, Hashable]]) -> list[Conclusion]:
    found = []
    for key, _ in rows:
        mates = _mates(rows, key)
        found.append((Fraction(max(Counter(mates).values()), len(mates)), len(set(mates)) == 1))
    return found


def background_knowledge(rows: Sequence[tuple[Row, Hashable]], knowledge: int) -> list[Conclusion]:
    """All sets of values that can be ruled out, and the worst of them."""
    from itertools import combinations

    found = []
    for key, own in rows:
        mates = _mates(rows, key)
        others = sorted(set(mates) - {own}, key=repr)
        best = Fraction(0)
        for excluded in combinations(others, min(knowledge, len(others))):
            left = [value for value in mates if value not in excluded]
            best = max(best, Fraction(left.count(own), len(left)))
        found.append((best, best == 1))
    return found


def skewness(rows: Sequence[tuple[Row, Hashable]], whole: Sequence[Hashable], gain: float) -> list[Conclusion]:
    """Only how far beliefs rise is compared: of values that rise alike, an attacker may take any."""
    found = []
    for key, _ in rows:
        mates = _mates(rows, key)
        gains = {
            value: Fraction(mates.count(value), len(mates)) - Fraction(whole.count(value), len(whole))
            for value in set(mates)
        }
        found.append((max(gains.values()), max(gains.values()) > Fraction(gain) + Fraction(1, 10**9)))
    return found


def similarity(rows: Sequence[tuple[Row, Hashable]], kind: Callable[[Any], Hashable]) -> list[Conclusion]:
    return homogeneity([(key, kind(value)) for key, value in rows])


def proximity(rows: Sequence[tuple[Row, float | None]], epsilon: float, certainty: float) -> list[Conclusion]:
    found = []
    for key, own in rows:
        mates = _mates(rows, key)
        near = [
            value for value in mates
            if (value is None and own is None)
            or (value is not None and own is not None and abs(value - own) <= epsilon)  # type: ignore[operator]
        ]  # fmt: skip
        share = Fraction(len(near), len(mates))
        found.append((share, share >= Fraction(certainty)))
    return found


def linkage(targets: Sequence[Row], rows: Sequence[Row], fits: Fits, certainty: float = 1) -> list[Conclusion]:
    found = []
    for own in targets:
        records = sum(fits(own, row) for row in rows)
        # Of the classes that fit, the one that fewest of the listed persons fit.
        crowd = min((sum(fits(other, row) for other in targets) for row in set(rows) if fits(own, row)), default=0)
        sure = Fraction(1, max(records, crowd)) if records else Fraction(0)
        found.append((sure, sure >= Fraction(certainty)))
    return found


def attribute_linkage(targets: Sequence[Row], rows: Sequence[tuple[Row, Hashable]], fits: Fits) -> list[Conclusion]:
    found = []
    for own in targets:
        values = Counter(value for key, value in rows if fits(own, key))
        sure = Fraction(max(values.values()), values.total()) if values else Fraction(0)
        found.append((sure, sure == 1))
    return found


def membership(targets: Sequence[Row], rows: Sequence[Row], fits: Fits) -> list[Conclusion]:
    found = []
    for own in targets:
        chance = sum(
            (Fraction(1, sum(fits(other, row) for other in targets)) for row in rows if fits(own, row)), Fraction(0)
        )
        sure = min(chance, Fraction(1))
        found.append((sure, sure == 1))
    return found


def intersection(
    targets: Sequence[Row], first: Sequence[tuple[Row, Hashable]], second: Sequence[tuple[Row, Hashable]], fits: Fits
) -> list[Conclusion]:
    found = []
    for own in targets:
        sets = [{value for key, value in rows if fits(own, key)} for rows in (first, second)]
        left = sets[0] & sets[1] if sets[1] else sets[0]
        sure = Fraction(1, len(left)) if left else Fraction(0)
        found.append((sure, sure == 1))
    return found


def correspondence(
    targets: Sequence[Row], first: Sequence[tuple[Row, Hashable]], second: Sequence[tuple[Row, Hashable]], fits: Fits
) -> list[Conclusion]:
    found = []
    for own in targets:
        left = 0
        for key in {key for key, _ in first if fits(own, key)}:
            for other in {other for other, _ in second if fits(own, other)}:
                left += (Counter(_mates(first, key)) & Counter(_mates(second, other))).total()
        sure = Fraction(1, left) if left else Fraction(0)
        found.append((sure, sure == 1))
    return found


def minimality(groups: Sequence[Sequence[int]], counts: Sequence[int], bound: float) -> list[float]:
    """How likely each person has the value: all placements in all classes in which some group breaks the bound."""
    from itertools import combinations, product

    owners = [[place for place, size in enumerate(sizes) for _ in range(size)] for sizes in groups]
    worlds = []
    for placed in product(*(combinations(range(len(own)), c) for own, c in zip(owners, counts, strict=True))):
        broken = any(
            sum(owners[number][person] == group for person in chosen) > bound * size + 1e-12
            for number, chosen in enumerate(placed)
            for group, size in enumerate(groups[number])
        )
        worlds.append((broken, placed))
    left = [placed for broken, placed in worlds if broken] or [placed for _, placed in worlds]
    return [
        sum(person in placed[number] for placed in left) / len(left)
        for number, own in enumerate(owners)
        for person in range(len(own))
    ]


def definetti(
    targets: Sequence[Row],
    truth: Sequence[Hashable] | None,
    rows: Sequence[tuple[Row, Hashable]],
    fits: Fits,
    rounds: int,
    certainty: float,
) -> list[Conclusion]:
    """Naive Bayes with counts one higher than they are, person by person."""
    shares: list[dict[Hashable, float]] = []
    for own in targets:
        values = Counter(value for key, value in rows if fits(own, key))
        shares.append({value: count / values.total() for value, count in values.items()})
    believed = [dict(own) for own in shares]
    columns = range(len(targets[0]))
    domains = [len({own[column] for own in targets}) for column in columns]
    for _ in range(rounds):
        every = {value for own in believed for value in own}
        whole = {value: sum(own.get(value, 0.0) for own in believed) for value in every}
        weights = []
        for person, share in zip(targets, shares, strict=True):
            weight = {}
            for value, part in share.items():
                weight[value] = part
                for column in columns:
                    alike = sum(
                        own.get(value, 0.0)
                        for other, own in zip(targets, believed, strict=True)
                        if other[column] == person[column]
                    )
                    weight[value] *= (alike + 1) / (whole[value] + domains[column])
            weights.append(weight)
        believed = [{value: part / sum(own.values()) for value, part in own.items()} for own in weights]
    found = []
    for place, own in enumerate(believed):
        sure = max(own.values(), default=0.0) if truth is None else own.get(truth[place], 0.0)
        found.append((Fraction(sure), sure >= certainty - 1e-9))
    return found


def distance_linkage(
    targets: Sequence[Row],
    truth: Sequence[Hashable] | None,
    rows: Sequence[Row],
    values: Sequence[Hashable],
    numbers: bool,
    job_fits: Callable[[Any, Any], bool],
) -> list[Conclusion]:
    """Jobs fit or not; ages are numbers, or labels that fit or not."""
    from test_attacks import fits

    ages = [int(age) for _, age in targets if age is not None]
    width = (max(ages) - min(ages) if ages else 0) or 1
    found = []
    for place, (job, age) in enumerate(targets):
        gaps = []
        for other_job, other_age in rows:
            gap = Fraction(0 if job_fits(job, other_job) else 1)
            if not numbers:
                gap += 0 if fits((None, age), (None, other_age)) else 1
            elif age is None or other_age is None:
                gap += 0 if age == other_age else 1
            else:
                gap += min(Fraction(1), Fraction(abs(int(age) - int(other_age)), width))
            gaps.append(gap)
        near = [value for gap, value in zip(gaps, values, strict=True) if gap == min(gaps)]
        own = max(Counter(near).values()) if truth is None else near.count(truth[place])
        found.append((Fraction(own, len(near)), own == len(near)))
    return found
