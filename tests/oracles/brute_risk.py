"""Risk measures in plain Python, record by record, as their definitions read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product
from typing import Any

import numpy as np

Row = tuple[Any, ...]


def prosecutor(rows: Sequence[Row], threshold: float) -> dict[str, float]:
    sizes = Counter(rows)
    own = [1 / sizes[row] for row in rows]
    return {
        "records_at_risk": sum(risk > threshold + 1e-12 for risk in own) / len(rows),
        "highest": max(own),
        "average": sum(own) / len(rows),
    }


def journalist(rows: Sequence[Row], population: Sequence[Row], threshold: float) -> dict[str, float]:
    sizes, people = Counter(rows), Counter(population)
    crowd = {row: max(sizes[row], people[row]) for row in sizes}
    own = [1 / crowd[row] for row in rows]
    return {
        "records_at_risk": sum(risk > threshold + 1e-12 for risk in own) / len(rows),
        "highest": max(own),
        "average": max(len(sizes) / sum(crowd.values()), sum(own) / len(rows)),
        "population_unique": sum(risk == 1 for risk in own) / len(rows),
        "short_classes": sum(people[row] < sizes[row] for row in sizes),
    }


def marketer(rows: Sequence[Row], population: Sequence[Row]) -> float:
    sizes, people = Counter(rows), Counter(population)
    return sum(1 / max(sizes[row], people[row]) for row in rows) / len(rows)


def expected_inverse(found: int, weight: float) -> float:
    """E(1 / F) for F negative binomial with `found` successes of chance found / weight: summed up, term by term."""
    p = min(1.0, found / weight)
    if p == 1:
        return 1 / found
    if found >= 3:  # where sdcMicro takes an approximation
        return p / (found - (1 - p))
    total = 0.0
    chance = p**found  # of F = found
    size = found
    while chance > 1e-18 or size < found / p:
        total += chance / size
        chance *= (1 - p) * size / (size - found + 1)
        size += 1
    return total


def individual(rows: Sequence[Row], weights: Sequence[float]) -> list[float]:
    sizes = Counter(rows)
    sums: dict[Row, float] = {}
    for row, weight in zip(rows, weights, strict=True):
        sums[row] = sums.get(row, 0.0) + weight
    return [expected_inverse(sizes[row], sums[row]) for row in rows]


def of_households(own: Sequence[float], households: Sequence[Any]) -> list[float]:
    safe: dict[Any, float] = {}
    for risk, household in zip(own, households, strict=True):
        safe[household] = safe.get(household, 1.0) * (1 - risk)
    return [1 - safe[household] for household in households]


def minimal_uniques(rows: Sequence[Row]) -> list[list[tuple[int, ...]]]:
    """For each record the sets of columns on which it alone has its values, without those that hold a smaller one."""
    columns = range(len(rows[0]))
    sets = [chosen for size in range(1, len(rows[0]) + 1) for chosen in combinations(columns, size)]

    def alone(record: int, chosen: tuple[int, ...]) -> bool:
        own = [rows[record][place] for place in chosen]
        return sum([row[place] for place in chosen] == own for row in rows) == 1

    found = []
    for record in range(len(rows)):
        unique = {chosen for chosen in sets if alone(record, chosen)}
        found.append([chosen for chosen in sorted(unique) if not any(set(x) < set(chosen) for x in unique)])
    return found


def suda_scores(rows: Sequence[Row]) -> list[int]:
    columns = len(rows[0])
    return [sum(math.factorial(columns - len(chosen)) for chosen in sets) for sets in minimal_uniques(rows)]


def count_scores(rows: Sequence[Row]) -> dict[int, int]:
    """How many records have each SUDA score, set by set of columns, for tables of thousands of rows."""
    columns = len(rows[0])
    unique: list[set[int]] = [set() for _ in rows]
    for chosen in sorted(range(1, 1 << columns), key=int.bit_count):
        cut = [tuple(row[place] for place in range(columns) if chosen >> place & 1) for row in rows]
        counts = Counter(cut)
        for record, key in enumerate(cut):
            if counts[key] == 1 and not any(part & chosen == part for part in unique[record]):
                unique[record].add(chosen)
    scores = Counter(sum(math.factorial(columns - chosen.bit_count()) for chosen in own) for own in unique)
    return {score: records for score, records in scores.items() if score}


def told_apart(rows: Sequence[Row], chosen: Sequence[int]) -> tuple[float, float | None]:
    """Distinction and separation, by looking at every pair."""
    cut = [tuple(row[place] for place in chosen) for row in rows]
    pairs = list(combinations(cut, 2))
    return len(set(cut)) / len(cut), sum(a != b for a, b in pairs) / len(pairs) if pairs else None


def attribute(rows: Sequence[Row], values: Sequence[Any]) -> dict[str, float]:
    by_class: dict[Row, Counter[Any]] = {}
    for row, value in zip(rows, values, strict=True):
        by_class.setdefault(row, Counter())[value] += 1
    right = [max(by_class[row].values()) / by_class[row].total() for row in rows]
    return {
        "guessed": sum(right) / len(rows),
        "guessed_without": max(Counter(values).values()) / len(rows),
        "highest": max(right),
        "disclosed": sum(len(by_class[row]) == 1 for row in rows) / len(rows),
    }


def worlds(buckets: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """All ways to give the values of each bucket to its persons; each way is as likely as any other."""
    return [sum(chosen, ()) for chosen in product(*(sorted(set(permutations(bucket))) for bucket in buckets))]


def worst_case(buckets: Sequence[Sequence[str]], implications: int) -> float:
    """The largest probability of a value of a person, under any so many implications between two values of persons."""
    possible = worlds(buckets)
    values = sorted({value for bucket in buckets for value in bucket})
    atoms = [
        np.array([world[person] == value for world in possible])
        for person in range(len(possible[0]))
        for value in values
    ]
    rules = [np.ones(len(possible), dtype=bool)]
    rules += [~atom | other for atom in atoms for other in atoms]
    distinct = list({rule.tobytes(): rule for rule in rules}.values())
    known = {distinct[0].tobytes(): distinct[0]}
    for _ in range(implications):
        known = {(a & b).tobytes(): a & b for a in known.values() for b in distinct if (a & b).any()}
    stacked = np.stack(atoms).astype(float)
    return max(float((stacked @ rule).max() / rule.sum()) for rule in known.values())


def pitman_likelihood(sizes: dict[int, int], theta: float, alpha: float) -> float:
    records = sum(size * count for size, count in sizes.items())
    classes = sum(sizes.values())
    total = sum(math.log(theta + i * alpha) for i in range(1, classes))
    total -= sum(math.log(theta + i) for i in range(1, records))
    return total + sum(count * sum(math.log(j - alpha) for j in range(1, size)) for size, count in sizes.items())


def zayatz(sizes: dict[int, int], population: int) -> float:
    """With the hypergeometric distribution in whole numbers."""
    records = sum(size * count for size, count in sizes.items())
    ways = math.comb(population, records)
    once = {size: size * math.comb(population - size, records - 1) / ways for size in sizes}
    chance = sizes[1] * once[1] / sum(count * once[size] for size, count in sizes.items())
    return sizes[1] * chance / (records / population) / population


def shifted_negative_binomial(alpha: float, beta: float, fraction: float) -> tuple[float, float, float]:
    """The chances that a class has one record in a sample, two, and one in the population, summed up term by term."""
    one = two = 0.0
    chance = beta**alpha
    for size in range(1, 20_000):
        one += chance * size * fraction * (1 - fraction) ** (size - 1)
        two += chance * size * (size - 1) / 2 * fraction**2 * (1 - fraction) ** max(0, size - 2)
        chance *= (1 - beta) * (alpha + size - 1) / size
    return one, two, beta**alpha


def partitions_into_classes(rows: Sequence[Row], values: Sequence[str]) -> Iterator[list[str]]:
    by_class: dict[Row, list[str]] = {}
    for row, value in zip(rows, values, strict=True):
        by_class.setdefault(row, []).append(value)
    yield from by_class.values()
