"""The models of `sql/history/` by their definitions, over releases as lists of persons: slow, and without SQL.

Each gives all that is measured: (class, version, earlier class, measured, broken), once for each set of persons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from histories import NULL, Release, Row, comparable, last_value, pasts, seen, sets_of_two


def _last(past: Sequence[int | None]) -> tuple[int | None, int | None]:
    """The latest release that a person was in, and its class there."""
    return seen(past)[-1] if seen(past) else (None, None)


def _known(values: Iterable[str]) -> set[str]:
    """Different values, without the one that nobody knows."""
    return set(values) - {NULL}


def m_invariance(releases: Sequence[Release], m: int) -> Counter[Row]:
    *earlier, new = releases
    found: set[Row] = set()
    for class_id in new.classes():
        values = list(new.values(class_id).elements())
        different = len(_known(values))
        found.add((class_id, None, None, different, different < len(values) or len(values) < m))
    for person, past in pasts(releases).items():
        version, place = _last(past)
        now = new.class_of(person)
        if version is not None and place is not None and now is not None:
            before, after = set(earlier[version - 1].values(place)), set(new.values(now))
            common = len(before & after)
            found.add((now, version, place, common, before != after or common < m))
    return Counter(found)


def composition(releases: Sequence[Release], l: int) -> Counter[Row]:  # noqa: E741 - the name of the parameter
    *earlier, new = releases
    found: Counter[Row] = Counter()
    for class_id in new.classes():
        n = len(_known(new.values(class_id)))
        found[class_id, None, None, n, n < l] += 1
    returned = {(past, new.class_of(person)) for person, past in pasts(releases).items() if seen(past)}
    for past, now in returned:
        if now is not None:
            possible = set(new.values(now))
            for version, place in seen(past):
                possible &= set(earlier[version - 1].values(place))
            n = len(_known(possible))
            found[now, *_last(past), n, n < l] += 1
    return found


def incremental_l_diversity(releases: Sequence[Release], l: int) -> Counter[Row]:  # noqa: E741
    *earlier, new = releases
    found: Counter[Row] = Counter()
    for class_id in new.classes():
        n = len(_known(new.values(class_id)))
        found[class_id, None, None, n, n < l] += 1
    for version, release in enumerate(earlier, start=1):
        if not release.rows():
            continue  # nothing was published, and nothing can be compared
        for (before, now), persons in sets_of_two(release, new).items():
            if now is not None:
                n = len(_known([new.persons[person][1] for person in persons]))
            else:
                assert before is not None
                stayed = [new.persons[other][1] for other in new.persons if release.class_of(other) == before]
                n = len(_known(release.values(before) - Counter(stayed)))
            found[now, version, before, n, n < l] += 1
    return found


def stable_partition(releases: Sequence[Release], k: int, l: int = 1) -> Counter[Row]:  # noqa: E741
    new = releases[-1]
    sets: dict[tuple[tuple[int | None, ...], int | None], list[str]] = {}
    for person, past in pasts(releases).items():
        sets.setdefault((past, new.class_of(person)), []).append(last_value(releases, person))
    return Counter(
        [
            (now, *_last(past), len(values), len(values) < k or (l > 1 and len(_known(values)) < l))
            for (past, now), values in sets.items()
        ]
    )


def bcf_anonymity(releases: Sequence[Release], k: int) -> Counter[Row]:
    *earlier, new = releases
    found: Counter[Row] = Counter()
    for class_id in new.classes():
        n = new.values(class_id).total()
        found[class_id, None, None, n, n < k] += 1
    for version, release in enumerate(earlier, start=1):
        for before, now in sets_of_two(release, new):
            if before is not None and now is not None:
                n = _after_forward_or_cross(release.values(before), new.values(now))
                found[now, version, before, n, n < k] += 1
            elif now is not None and any(_alike(release, one, new, now) for one in release.classes()):
                n = _after_backward(release, new, now)
                found[now, version, None, n, n < k] += 1
    return found


def _after_forward_or_cross(before: Counter[str], after: Counter[str]) -> int:
    forward = before.total() - sum(n - min(n, after[value]) for value, n in before.items())
    cross = after.total() - sum(n - min(n, before[value]) for value, n in after.items())
    assert forward == cross  # both are the sum of the smaller counts, as the file says
    return forward


def _after_backward(release: Release, new: Release, now: int) -> int:
    old = [one for one in release.classes() if _alike(release, one, new, now)]
    around = {other for other in new.classes() for one in old if _alike(release, one, new, other)}
    remaining = 0
    for value, own in new.values(now).items():
        in_old = sum(release.values(one)[value] for one in old)
        in_new = sum(new.values(other)[value] for other in around)
        remaining += own - min(own, max(0, in_old - (in_new - own)))
    return remaining


def _alike(release: Release, one: int, new: Release, other: int) -> bool:
    return comparable(release.label(one), new.label(other))
