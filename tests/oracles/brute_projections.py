"""What an adversary who knows some places infers from a path (Terrovitis and Mamoulis 2008), in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

Paths = Mapping[int, Sequence[str]]
Breach = tuple[str, tuple[str, ...], str]  # adversary, what they know, the place that they infer


def project(path: Sequence[str], owners: Mapping[str, set[str]], adversary: str) -> tuple[str, ...]:
    return tuple(place for place in path if adversary in owners.get(place, set()))


def breaches(paths: Paths, owners: Mapping[str, set[str]], p: Fraction) -> dict[Breach, Fraction]:
    found = {}
    places = {place for path in paths.values() for place in path}
    for adversary in set().union(*owners.values()) if owners else set():
        known = {person: project(path, owners, adversary) for person, path in paths.items()}
        for own in set(known.values()) - {()}:
            alike = [person for person in known if known[person] == own]
            for place in places:
                if adversary not in owners.get(place, set()):
                    share = Fraction(sum(place in paths[person] for person in alike), len(alike))
                    if share > p:
                        found[adversary, own, place] = share
    return found


def is_part(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether one path is the other without some visits."""
    rest = iter(other)
    return all(place in rest for place in one)
