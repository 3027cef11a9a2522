"""How many rows of which value go into which bucket, so that each bucket holds the same number of each of its values.

A bucket is a set of sensitive values, its signature. Persons who were released before stay with the signature of their
last class; newcomers go where a value is lacking, and the rest of them make buckets of their own. All this is counting:
which of the newcomers with a value go where is for the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

Signature = frozenset[str]


@dataclass
class Bucket:
    """`known` are persons by value, `new` the newcomers that it gets; `classes` is how many rows of each value."""

    signature: Signature
    known: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    classes: int = 0

    def counterfeits(self) -> Counter[str]:
        """The rows of nobody that it takes until all of its values are there equally often."""
        lacking = {value: self.classes - self.known[value] - self.new[value] for value in self.signature}
        return Counter({value: n for value, n in lacking.items() if n})


def fill_buckets(known: Mapping[Signature, Mapping[str, int]], newcomers: Mapping[str, int], m: int) -> list[Bucket]:
    """The buckets of a release: those of `known` persons, balanced, then those of newcomers alone.

    >>> flu_gout, gout_hiv = frozenset(["flu", "gout"]), frozenset(["gout", "hiv"])
    >>> one, two = fill_buckets({flu_gout: {"flu": 2, "gout": 1}}, {"gout": 2, "hiv": 1}, 2)
    >>> (one.signature == flu_gout, one.new, one.classes, one.counterfeits())
    (True, Counter({'gout': 1}), 2, Counter())
    >>> (two.signature == gout_hiv, two.classes)
    (True, 1)
    """
    free = Counter({value: n for value, n in newcomers.items() if n})
    buckets: dict[Signature, Bucket] = {}
    for signature in sorted(known, key=sorted):
        bucket = buckets[signature] = Bucket(signature, Counter(known[signature]))
        bucket.classes = max(bucket.known.values())
        for value in sorted(signature):
            taken = min(bucket.classes - bucket.known[value], free[value])
            if taken:
                bucket.new[value] += taken
                free[value] -= taken
    for signature, rows in _of_newcomers(free, m).items():
        bucket = buckets.setdefault(signature, Bucket(signature))
        bucket.classes += rows
        bucket.new.update(dict.fromkeys(signature, rows))
    return list(buckets.values())


def _of_newcomers(free: Counter[str], m: int) -> dict[Signature, int]:
    """Rows of each value in new buckets, by signature; what is left in `free` waits.

    The m most frequent values make a bucket, of as many rows as leave the rest possible: no value may be more than one
    in m of what is left. Rows that are over join a class without their value, which then has a value more."""
    made: Counter[Signature] = Counter()
    while True:
        ranked = sorted((value for value, n in free.items() if n > 0), key=lambda value: (-free[value], value))
        if len(ranked) < m:
            break
        chosen, rest = ranked[:m], ranked[m:]
        possible = free.total() // m - (free[rest[0]] if rest else 0)
        step = max(1, min(free[chosen[-1]], possible))
        made[frozenset(chosen)] += step
        free.subtract(dict.fromkeys(chosen, step))
    for value in sorted(value for value, n in free.items() if n > 0):
        for signature in sorted((item for item in made if value not in item), key=sorted):
            moved = min(free[value], made[signature])
            made[signature] -= moved
            made[signature | {value}] += moved
            free[value] -= moved
    return {signature: n for signature, n in made.items() if n}
