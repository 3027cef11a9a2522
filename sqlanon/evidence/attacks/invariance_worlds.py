"""The worlds that a release of `m_invariance` leaves possible, for an attacker who knows how it makes classes.

A world gives each person a value. The algorithm draws nothing but the numbers of the classes. How often each value
occurs says which buckets there are, and persons of one value go to buckets and classes in the order of a curve through
their quasi-identifiers, which the attacker knows. So each world makes one release, and those worlds remain that make
the release at hand; at first all are equally likely. Persons who wait may have any value that the release shows.

Persons who were in an earlier release stay in a bucket with the values of their class there, and rows of nobody fill
up what is lacking: then the worlds are those that make both releases. Values do not change between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product

from sqlanon.evidence.attacks.attacked_table import NotJudged
from sqlanon.relations.bucket_quotas import Bucket, Signature, fill_buckets

MOST_STEPS = 200_000
MOST_WORLDS = 20_000  # of two releases, looked at one by one
Places = tuple[int, ...]  # where a person stands on each quasi-identifier
Box = tuple[tuple[int, int], ...]  # the first and the last place of a class on each of them
Class = tuple[Box, Signature]


@dataclass(frozen=True)
class Person:
    key: str
    places: Places


@dataclass(frozen=True)
class ObservedRelease:
    """`people` stand in the order of the curve, those at one place in the order of their keys."""

    people: Sequence[Person]
    classes: Mapping[Class, int]  # how many classes are alike

    @property
    def values(self) -> Counter[str]:
        return Counter({
            value: sum(n for (_, signature), n in self.classes.items() if value in signature)
            for value in sorted({value for _, signature in self.classes for value in signature})
        })  # fmt: skip


def curve(places: Places, leaves: Sequence[int]) -> int:
    """Where a person stands on the curve: the bits of all places, the highest ones first.

    >>> [curve(places, (4, 4)) for places in ((1, 1), (2, 1), (1, 2), (4, 4))]
    [65535, 131071, 196607, 1048575]
    """
    bits = max(1, min(10, 60 // len(places)))
    scaled = [place * ((1 << bits) - 1) // max(most, 1) for place, most in zip(places, leaves, strict=True)]
    return sum(
        (own >> bit & 1) << (bit * len(places) + place) for bit in range(bits) for place, own in enumerate(scaled)
    )


def likely_values(release: ObservedRelease, m: int) -> dict[str, dict[str, Fraction]]:
    """How likely each person has each value, from a first release alone.

    Four persons in a row, and two classes of two. The one with a and c reaches from the first person to the last. The
    bucket of a and b comes first, and so has the first person with a: the first person of all cannot have it.

    >>> people = [Person(str(place), (place,)) for place in (1, 2, 3, 4)]
    >>> classes = {(((2, 3),), frozenset("ab")): 1, (((1, 4),), frozenset("ac")): 1}
    >>> found = likely_values(ObservedRelease(people, classes), 2)
    >>> [{value: str(share) for value, share in found[person.key].items()} for person in people]
    [{'c': '1'}, {'a': '1/2', 'b': '1/2'}, {'a': '1/2', 'b': '1/2'}, {'a': '1'}]
    """
    counted: list[dict[str, int]] = [{} for _ in release.people]
    whole = steps = 0
    for plan in _plans(release, m):
        worlds = _Worlds(release, plan, MOST_STEPS - steps)
        whole += worlds.add_to(counted)
        steps += worlds.steps
    if not whole:
        raise NotJudged("no values of these persons give this release as the first one: name the earlier one, too")
    return {
        person.key: {value: Fraction(n, whole) for value, n in sorted(own.items())}
        for person, own in zip(release.people, counted, strict=True)
    }


@dataclass(frozen=True)
class BucketPlan:
    """The buckets of a first release, and how many persons of each value wait."""

    buckets: Sequence[Bucket]
    waiting: Counter[str]


def _plans(release: ObservedRelease, m: int) -> Iterator[BucketPlan]:
    """What the numbers of values may be, such that the buckets are those of the release."""
    shown = release.values
    wanted = Counter[Signature]()
    for (_, signature), n in release.classes.items():
        wanted[signature] += n
    waits = len(release.people) - shown.total()
    if waits < 0:
        return
    for number, chosen in enumerate(combinations_with_replacement(list(shown), waits)):
        if number > MOST_WORLDS:
            raise NotJudged(f"{waits:,} persons wait, who may have too many values")
        waiting = Counter(chosen)
        buckets = fill_buckets({}, shown + waiting, m)
        if Counter({bucket.signature: bucket.classes for bucket in buckets}) == wanted:
            yield BucketPlan(buckets, waiting)


# How many persons have got each value; the classes that are begun, with the released class that each becomes and the
# ends of its box that somebody reaches so far, as bits; and how many released classes of each kind are not yet begun.
State = tuple[tuple[int, ...], tuple[tuple[tuple[int, int], int, int], ...], tuple[int, ...]]


class _Worlds:
    """All ways to give values to persons, one after another along the curve."""

    def __init__(self, release: ObservedRelease, plan: BucketPlan, most: int) -> None:
        self.people, self.plan, self.most, self.steps = release.people, plan, most, 0
        self.values = list(release.values)
        self.number = {value: number for number, value in enumerate(self.values)}
        self.kinds = sorted(release.classes, key=lambda kind: (kind[0], sorted(kind[1])))
        self.first: State = ((0,) * len(self.values), (), tuple(release.classes[kind] for kind in self.kinds))
        self.of_signature: dict[Signature, list[int]] = {}
        for at, (_, signature) in enumerate(self.kinds):
            self.of_signature.setdefault(signature, []).append(at)
        # The class of each person of a value, in their order; who comes after all of these waits.
        self.slots = {
            value: [
                (number, place)
                for number, bucket in enumerate(plan.buckets)
                for place in range(bucket.new[value])
            ]
            for value in self.values
        }  # fmt: skip
        self.order = {value: {place: at for at, place in enumerate(slots)} for value, slots in self.slots.items()}
        self.every_end = (1 << 2 * len(release.people[0].places)) - 1 if release.people else 0
        self.reached = [[_ends(box, person.places) for box, _ in self.kinds] for person in release.people]
        # The ends of each kind of class that nobody who is still to come reaches.
        behind = [self.every_end] * len(self.kinds)
        self.behind = [behind]
        for reached in reversed(self.reached):
            behind = [past & ~(own or 0) for past, own in zip(behind, reached, strict=True)]
            self.behind.append(behind)
        self.behind.reverse()

    def layers(self) -> list[dict[State, list[tuple[str, State]]]]:
        """For each person the states that may be reached before, and what may follow from each value."""
        found: list[dict[State, list[tuple[str, State]]]] = []
        states = {self.first}
        for place in range(len(self.people)):
            found.append({state: list(self._next(state, place)) for state in states})
            states = {after for moves in found[-1].values() for _, after in moves}
        return found

    def _next(self, state: State, person: int) -> Iterator[tuple[str, State]]:
        counts, begun, left = state
        behind = self.behind[person + 1]
        for number, value in enumerate(self.values):
            slots, own = self.slots[value], counts[number]
            taken = (*counts[:number], own + 1, *counts[number + 1 :])
            if own >= len(slots):
                if own < len(slots) + self.plan.waiting[value]:
                    yield from self._possible(value, (taken, begun, left), behind)
                continue
            place = slots[own]
            others = tuple(item for item in begun if item[0] != place)
            signature = self.plan.buckets[place[0]].signature
            whole = all(taken[self.number[each]] > self.order[each][place] for each in signature)
            before = next(((kind, ends) for at, kind, ends in begun if at == place), None)
            chosen = [before] if before is not None else [(at, 0) for at in self.of_signature[signature] if left[at]]
            for kind, ends in chosen:
                own_ends = self.reached[person][kind]
                if own_ends is None:
                    continue
                rest = left if before is not None else (*left[:kind], left[kind] - 1, *left[kind + 1 :])
                ends |= own_ends
                if not whole:
                    after = tuple(sorted((*others, (place, kind, ends))))
                    yield from self._possible(value, (taken, after, rest), behind)
                elif ends == self.every_end:
                    yield from self._possible(value, (taken, others, rest), behind)

    def _possible(self, value: str, state: State, behind: Sequence[int]) -> Iterator[tuple[str, State]]:
        """The state, unless a class lacks somebody at an end of its box, and nobody is to come there."""
        self.steps += 1
        if self.steps > self.most:
            raise NotJudged(f"the values of {len(self.people):,} persons have too many ways to be placed")
        _, begun, left = state
        if all(not behind[kind] & ~ends for _, kind, ends in begun) and not any(
            n and past for n, past in zip(left, behind, strict=True)
        ):
            yield value, state

    def add_to(self, counted: Sequence[dict[str, int]]) -> int:
        """Add up for each person in how many worlds they have each value; returns the number of worlds."""
        layers = self.layers()
        last = {after for moves in layers[-1].values() for _, after in moves} if layers else {self.first}
        behind: list[dict[State, int]] = [{state: 1 for state in last if _is_whole(state)}]
        for layer in reversed(layers):
            ways = {state: sum(behind[-1].get(after, 0) for _, after in moves) for state, moves in layer.items()}
            behind.append({state: n for state, n in ways.items() if n})
        behind.reverse()
        before = {self.first: 1}
        for place, layer in enumerate(layers):
            reached: dict[State, int] = {}
            for state, count in before.items():
                for value, after in layer[state]:
                    if n := behind[place + 1].get(after, 0):
                        counted[place][value] = counted[place].get(value, 0) + count * n
                        reached[after] = reached.get(after, 0) + count
            before = reached
        return behind[0].get(self.first, 0)

    def every(self) -> Iterator[tuple[str, ...]]:
        """The values of all persons, world by world."""
        layers = self.layers()

        def follow(place: int, state: State, given: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
            if place == len(layers):
                if _is_whole(state):
                    yield given
                return
            for value, after in layers[place][state]:
                yield from follow(place + 1, after, (*given, value))

        yield from follow(0, self.first, ())


def _is_whole(state: State) -> bool:
    """Whether every released class is made."""
    return not state[1] and not any(state[2])


def _ends(box: Box, places: Places) -> int | None:
    """The ends of a box that somebody reaches, as bits; None for who is not inside."""
    found = 0
    for number, ((low, high), place) in enumerate(zip(box, places, strict=True)):
        if not low <= place <= high:
            return None
        found |= (place == low) << 2 * number | (place == high) << 2 * number + 1
    return found


def _widened(box: Box | None, places: Places) -> Box:
    if box is None:
        return tuple((place, place) for place in places)
    return tuple((min(low, place), max(high, place)) for (low, high), place in zip(box, places, strict=True))


# Two releases -----------------------------------------------------------------------------------------------------


def likely_values_of_two(earlier: ObservedRelease, later: ObservedRelease, m: int) -> dict[str, dict[str, Fraction]]:
    """How likely each person of the later release has each value, from both releases together."""
    here = {person.key for person in later.people}
    known = {person.key for person in earlier.people}
    new = [person.key for person in later.people if person.key not in known]
    every = sorted({*earlier.values, *later.values})
    counted: dict[str, Counter[str]] = {person.key: Counter() for person in later.people}
    whole = looked_at = 0
    for values in _every_world(earlier, m):
        signatures = signatures_of(earlier.people, values, m)
        for chosen in product(every, repeat=len(new)):
            looked_at += 1
            if looked_at > MOST_WORLDS:
                raise NotJudged("the persons of both releases have too many values that they may have")
            given = {**values, **dict(zip(new, chosen, strict=True))}
            if make_classes(later.people, given, signatures, m) == later.classes:
                whole += 1
                for key in here:
                    counted[key][given[key]] += 1
    if not whole:
        raise NotJudged("no values of these persons give both releases, the earlier one as the first")
    return {key: {value: Fraction(n, whole) for value, n in sorted(own.items())} for key, own in counted.items()}


def _every_world(release: ObservedRelease, m: int) -> Iterator[dict[str, str]]:
    for plan in _plans(release, m):
        for values in _Worlds(release, plan, MOST_STEPS).every():
            yield {person.key: value for person, value in zip(release.people, values, strict=True)}


def signatures_of(people: Sequence[Person], values: Mapping[str, str], m: int) -> dict[str, Signature]:
    """The values of the class that each person of a first release is in; who waits has none."""
    return {key: signature for key, signature, _ in _placed(people, values, {}, m)}


def make_classes(
    people: Sequence[Person], values: Mapping[str, str], signatures: Mapping[str, Signature], m: int
) -> Mapping[Class, int]:
    """The classes that the algorithm makes of persons with these values; `signatures` are those of who was released
    before. Rows of nobody are in them, too, since every class shows all values of its bucket."""
    boxes: dict[tuple[Signature, int], Box] = {}
    where = {person.key: person.places for person in people}
    for key, signature, number in _placed(people, values, signatures, m):
        boxes[signature, number] = _widened(boxes.get((signature, number)), where[key])
    return Counter((box, signature) for (signature, _), box in boxes.items())


def _placed(
    people: Sequence[Person], values: Mapping[str, str], signatures: Mapping[str, Signature], m: int
) -> list[tuple[str, Signature, int]]:
    """Who is shown, with the values of their bucket and the number of their class in it."""
    known: dict[Signature, Counter[str]] = {}
    newcomers: Counter[str] = Counter()
    for person in people:
        own, value = signatures.get(person.key), values[person.key]
        if own is None:
            newcomers[value] += 1
        else:
            known.setdefault(own, Counter())[value] += 1
    buckets = fill_buckets(known, newcomers, m)
    room = {value: [bucket for bucket in buckets for _ in range(bucket.new[value])] for value in newcomers}
    members: dict[tuple[Signature, str], list[str]] = {}
    bucket_of = {bucket.signature: bucket for bucket in buckets}
    for person in people:
        own, value = signatures.get(person.key), values[person.key]
        if own is None:
            if not room[value]:
                continue
            own = room[value].pop(0).signature
        members.setdefault((own, value), []).append(person.key)
    return [
        (key, signature, number * bucket_of[signature].classes // len(keys))
        for (signature, _), keys in members.items()
        for number, key in enumerate(keys)
    ]
