"""(k,δ)-anonymity in plain Python: interpolation, co-location, and the attack by the nearest published path."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

Point = tuple[float, float, float]  # time, x, y
Track = dict[int, tuple[float, float]]


def interpolate(points: Sequence[Point], step: float) -> Track:
    """The place at each multiple of the step between the first and the last point."""
    ordered = sorted(points)
    found: Track = {}
    for tick in range(math.ceil(ordered[0][0] / step), math.floor(ordered[-1][0] / step) + 1):
        at = tick * step
        after = next(index for index, point in enumerate(ordered) if point[0] >= at)
        if ordered[after][0] == at:
            found[tick] = ordered[after][1:]
            continue
        (t0, x0, y0), (t1, x1, y1) = ordered[after - 1], ordered[after]
        part = (at - t0) / (t1 - t0)
        found[tick] = (x0 * (1 - part) + x1 * part, y0 * (1 - part) + y1 * part)
    return found


def cut(track: Track, period: int) -> Track:
    """The part of a track between multiples of the period."""
    if not track:
        return {}
    low, high = -(-min(track) // period) * period, max(track) // period * period
    return {tick: place for tick, place in track.items() if low <= tick <= high}


def farthest_apart(one: Track, other: Track) -> float:
    """The largest distance at one time; infinite where the times differ."""
    if one.keys() != other.keys():
        return math.inf
    return max(math.dist(one[tick], other[tick]) for tick in one)


def mean_distance(one: Track, other: Track) -> float:
    return sum(math.dist(one[tick], other[tick]) for tick in one) / len(one)


def broken_groups(published: Mapping[int, tuple[int, Track]], k: int, delta: float) -> set[int]:
    """Groups with fewer than k paths, or with two paths that are not co-located. A path is (group, track)."""
    groups: dict[int, list[Track]] = defaultdict(list)
    for group, track in published.values():
        groups[group].append(track)
    return {
        group
        for group, tracks in groups.items()
        if len(tracks) < k
        or any(
            farthest_apart(one, other) > delta + 1e-9 * (1 + delta)
            for place, one in enumerate(tracks)
            for other in tracks[:place]
        )
    }


def guess_rate(originals: Mapping[int, Track], published: Mapping[int, Track]) -> dict[int, float]:
    """How likely the nearest published path with the same times is a person's own, for each who has such a path."""
    rates = {}
    for person, track in originals.items():
        near = {other: mean_distance(track, own) for other, own in published.items() if own.keys() == track.keys()}
        if near:
            least = min(near.values())
            best = [other for other, distance in near.items() if distance <= least * (1 + 1e-9) + 1e-12]
            rates[person] = (person in best) / len(best)
    return rates
