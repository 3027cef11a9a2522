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


def insertion(
    targets: Sequence[Row] | None,
    earlier: Sequence[tuple[Row, Hashable]],
    later: Sequence[tuple[Row, Hashable]],
    fits: Fits,
    people: Sequence[Row],
) -> list[Conclusion]:
    """Take old records out of each new class. Classes are comparable where somebody of all `people`, column by column,
    may be in both; without targets, each record that is left is one newcomer."""

    def alike(one: Row, other: Row) -> bool:
        return all(
            any(
                fits(person, mixed(one, place, person)) and fits(person, mixed(other, place, person))
                for person in people
            )
            for place in range(len(one))
        )

    def mixed(shown: Row, place: int, person: Row) -> Row:
        """A row that shows the person as it is, but for one column."""
        return tuple(shown[at] if at == place else (None if own is None else str(own)) for at, own in enumerate(person))

    def left_in(own: Row) -> Counter[Hashable]:
        past = {key for key, _ in earlier if alike(own, key)}
        near = {key for key, _ in later if any(alike(key, other) for other in past)} | {own}
        old = Counter(value for key, value in earlier if key in past)
        now = Counter(value for key, value in later if key in near)
        here = Counter(_mates(later, own))
        return Counter({value: min(n, max(now[value] - old[value], 0)) for value, n in here.items()})

    classes = {key for key, _ in later}
    crowds: list[tuple[int, list[Row]]]
    if targets is None:
        crowds = [(left_in(own).total(), [own]) for own in classes]
    else:
        crowds = [(1, [own for own in classes if fits(target, own)]) for target in targets]
    found: list[Conclusion] = []
    for persons, own in crowds:
        left = sum((left_in(key) for key in own), Counter())
        every = Counter(value for key, value in later if key in own)
        counted = left if left.total() else every
        sure = Fraction(max(counted.values()), counted.total()) if counted else Fraction(0)
        found += [(sure, sure == 1)] * persons
    return found


def joined_values(
    ours: Sequence[Row], theirs: Sequence[tuple[Row, Hashable]], matches: Fits
) -> dict[tuple[Row, Row], tuple[int, Fraction]]:
    """For each class of the join of all pairs that match: persons at most, and the share of the most frequent value.
    The first column of either is what is joined on, and the others make the class."""
    pairs = [(i, j) for i, mine in enumerate(ours) for j, (row, _) in enumerate(theirs) if matches(mine, row)]
    found = {}
    for key in {(ours[i][1:], theirs[j][0][1:]) for i, j in pairs}:
        own = [(i, j) for i, j in pairs if (ours[i][1:], theirs[j][0][1:]) == key]
        values = Counter(theirs[j][1] for _, j in own)
        persons = min(len({i for i, _ in own}), len({j for _, j in own}))
        found[key] = persons, Fraction(max(values.values()), values.total())
    return found


def freeform(rows: Sequence[Row], target: int, secret: dict[int, set[Hashable]]) -> list[Conclusion]:
    """Row by row: the best of all sets of other columns that hold no secret."""
    from itertools import combinations

    found = []
    others = [place for place in range(len(rows[0])) if place != target]
    for own in rows:
        if target in secret and own[target] not in secret[target]:
            continue
        best = Fraction(0)
        for size in range(len(others) + 1):
            for known in combinations(others, size):
                if any(own[place] in secret.get(place, ()) for place in known):
                    continue
                mates = [row for row in rows if all(row[place] == own[place] for place in known)]
                best = max(best, Fraction(sum(row[target] == own[target] for row in mates), len(mates)))
        found.append((best, best == 1))
    return found


def given_prior(
    targets: Sequence[Row],
    prior: Callable[[Row, Hashable], Fraction],
    rows: Sequence[tuple[Row, Hashable]],
    fits: Fits,
    gain: float,
    ratio: float,
) -> list[tuple[Fraction, Fraction, bool]]:
    """The largest gain of each person, the posterior of a value that has it, and whether it is broken."""
    found = []
    classes = {key for key, _ in rows}
    values = {value for _, value in rows}
    for own in targets:
        mine = [key for key in classes if fits(own, key)]
        records = sum(len(_mates(rows, key)) for key in mine)
        posterior = dict.fromkeys(values, Fraction(0))
        for key in mine:
            here = Counter(_mates(rows, key))
            crowd = [other for other in targets if fits(other, key)]
            weights = {}
            for value, n in here.items():
                whole = sum((prior(other, value) for other in crowd), Fraction(0))
                weights[value] = n * prior(own, value) / whole if whole else Fraction(0)
            if not sum(weights.values()):
                weights = {value: Fraction(n) for value, n in here.items()}
            for value, weight in weights.items():
                posterior[value] += Fraction(here.total(), records) * weight / sum(weights.values())
        if not mine:
            continue
        shown = {value for key in mine for value in _mates(rows, key)}
        gains = {value: posterior[value] - prior(own, value) for value in shown}
        most = max(gains.values())
        broken = most > Fraction(gain) + Fraction(1, 10**9) or (
            ratio > 0
            and any(
                gains[value] > Fraction(1, 10**9) and posterior[value] >= Fraction(ratio) * prior(own, value)
                for value in shown
            )
        )
        found.append((most, max(posterior[value] for value in shown if gains[value] == most), broken))
    return found


def apart(known: Sequence[Row], rows: Sequence[tuple[int, Row, Row, Hashable]]) -> list[dict[Hashable, Fraction]]:
    """What a release by parts tells of each person, from all ways to put its parts together again.

    A row has a bucket, what it shows of a person in the first part, what it shows of them beside the sensitive value,
    and that value. Every way to match the first parts of a bucket with the second ones is as likely as another: the
    share of a value among all matched rows that show what is known of a person."""
    from itertools import permutations

    expected: list[dict[Hashable, Fraction]] = [{} for _ in known]
    for bucket in {number for number, *_ in rows}:
        mine = [row for row in rows if row[0] == bucket]
        ways = list(permutations(range(len(mine))))
        for way in ways:
            for (_, first, _, _), other in zip(mine, way, strict=True):
                shown, value = (*first, *mine[other][2]), mine[other][3]
                for place, own in enumerate(known):
                    if own == shown:
                        share = expected[place]
                        share[value] = share.get(value, Fraction(0)) + Fraction(1, len(ways))
    found = []
    for share in expected:
        whole = sum(share.values(), Fraction(0))
        found.append({value: part / whole for value, part in share.items()} if whole else {})
    return found


def learned(
    targets: Sequence[Row], shares: Sequence[dict[Hashable, Fraction]], truth: Sequence[Hashable], rounds: int
) -> list[float]:
    """Naive Bayes with counts one higher than they are, from any first beliefs: how sure of what each person has."""
    believed = [{value: float(part) for value, part in own.items()} for own in shares]
    columns = range(len(targets[0]))
    for _ in range(rounds):
        revised = []
        for person, share in zip(targets, shares, strict=True):
            weight = {}
            for value, part in share.items():
                weight[value] = float(part)
                whole = sum(own.get(value, 0.0) for own in believed)
                for column in columns:
                    alike = [
                        own for other, own in zip(targets, believed, strict=True) if other[column] == person[column]
                    ]
                    domain = len({other[column] for other in targets})
                    weight[value] *= (sum(own.get(value, 0.0) for own in alike) + 1) / (whole + domain)
            every = sum(weight.values())
            revised.append({value: part / every for value, part in weight.items()})
        believed = revised
    return [own.get(value, 0.0) for own, value in zip(believed, truth, strict=True)]


def _entropy(group: Sequence[Hashable]) -> float:
    from math import log

    return -sum(n / len(group) * log(n / len(group)) for n in Counter(group).values())


def _recursive(group: Sequence[Hashable], c: float) -> bool:
    falling = [n for _, n in Counter(group).most_common()]
    return falling[0] >= c * sum(falling[1:])


# Whether a group of persons is too much, of the seven professionals.
BREACHES: dict[str, Callable[[Sequence[Hashable]], bool]] = {
    "distinct_l_diversity": lambda group: len(set(group)) < 2,
    "t_closeness": lambda group: abs(group.count("HIV") / len(group) - 2 / 7) > 0.2 + 1e-9,
    "recursive_cl_diversity": lambda group: _recursive(group, 2),
    "entropy_l_diversity": lambda group: 2.718281828459045 ** _entropy(group) < 1.9,
}


def minimality_of_values(
    sizes: Sequence[int], values: Sequence[Hashable], breaks: Callable[[Sequence[Hashable]], bool]
) -> list[float]:
    """How sure each person's most likely value is: all orders of the values in which some group breaks it."""
    from itertools import accumulate, permutations

    ends = list(accumulate(sizes))
    worlds = set(permutations(values))
    left = [w for w in worlds if any(breaks(w[end - size : end]) for size, end in zip(sizes, ends, strict=True))]
    left = left or list(worlds)
    return [max(Counter(world[place] for world in left).values()) / len(left) for place in range(len(values))]


def probabilistic_linkage(targets: Sequence[Row], rows: Sequence[Row]) -> list[float]:
    """Fellegi and Sunter by hand: the share of a person's likeliest record in the odds of all records that agree with
    them on some column. A column of a true pair agrees in 99 of 100, of any two combinations as often as it does."""
    kinds, classes = sorted(set(targets)), Counter(rows)
    columns = range(len(targets[0]))
    chance = [
        sum(one[column] == other[column] for one in kinds for other in classes) / (len(kinds) * len(classes))
        for column in columns
    ]

    def odds(own: Row, other: Row) -> float:
        found = 1.0
        for column in columns:
            agree = own[column] == other[column]
            found *= 0.99 / chance[column] if agree else 0.01 / (1 - chance[column])
        return found

    result = []
    for own in targets:
        near = {other: odds(own, other) for other in classes if any(own[at] == other[at] for at in columns)}
        best = max(near.values(), default=0.0)
        every = sum(near[other] * classes[other] for other in near)
        records = sum(classes[other] for other in near if near[other] >= best * (1 - 1e-9))
        result.append(best / every * min(1.0, records / targets.count(own)) if near else 0.0)
    return result
