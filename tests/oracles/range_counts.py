"""The experiment of Sattar et al. 2013 on Adult or its look-alike: every published record meets the criterion, and
counts are estimated better than from Mondrian's partitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from adult_tables import hierarchy_uses, load_adult, read_paths
from conftest import Database
from recoded import opened, policy, released

from sqlanon.algorithms import sample_and_generalize

Array = np.ndarray[Any, Any]
ATTRIBUTES = ["age", "education", "marital-status", "sex", "race", "native-country"]
SECRET = "occupation"
RATE = 0.9


def hierarchy(folder: Path, name: str) -> list[list[str]]:
    lines = read_paths(folder, name)
    # Neighbours in the tree are neighbours in the order too.
    return lines if name == "age" else sorted(lines, key=lambda line: line[::-1])


@dataclass
class Release:
    """Groups of rows: which values their labels cover on each attribute, and how many rows have each secret."""

    covers: list[Array]  # attribute: group, value -> 0 or 1
    counts: Array  # group, secret

    def estimate(self, ranges: dict[int, tuple[int, int]], secret: int) -> float:
        """Every value that a label covers is equally likely."""
        share = self.counts[:, secret].astype(float)
        for place, (low, high) in ranges.items():
            covered = self.covers[place]
            share = share * covered[:, low:high].sum(axis=1) / covered.sum(axis=1)
        return float(share.sum())


def unsafe(release: Release, beta: float, weights: list[Array] | None = None) -> int:
    """Rows that can be inferred with more confidence than was to be expected. What is expected of a label is the sum of
    the `weights` of its values, or else the share of the rows whose labels it covers."""
    rows = release.counts.sum()
    chance = np.ones(len(release.counts))
    for place, covered in enumerate(release.covers):
        if weights is not None:
            chance = chance * (covered @ weights[place])
        else:
            inside = (1 - covered) @ covered.T == 0  # group, other group: nothing of the other is outside
            chance = chance * (inside @ release.counts.sum(axis=1)) / rows
    of_secret = release.counts.sum(axis=0) / rows
    expected = 1 - (1 - chance[:, None] * of_secret[None, :]) ** rows
    observed = beta * release.counts / release.counts.sum(axis=1)[:, None]
    return int(release.counts[(release.counts > 0) & (observed > expected + 1e-12)].sum())


def mondrian(codes: Array, secrets: Array, sizes: list[int], k: int, *, median: bool = False) -> Release:
    """Strict Mondrian: the widest dimension that can be cut, at its median, or at its best where both sides are most
    alike in size: if most rows are from one country, the median does not cut."""
    groups: list[Array] = []
    work = [np.arange(len(codes))]
    while work:
        rows = work.pop()
        own = codes[rows]
        spans = [(np.ptp(own[:, i]) / max(size - 1, 1), -i) for i, size in enumerate(sizes)]
        for _, place in sorted(spans, reverse=True):
            column = own[:, -place]
            below = np.cumsum(np.bincount(column, minlength=sizes[-place]))
            cut = int(np.argmax(np.minimum(below, len(rows) - below)))
            if median:
                cut = int(np.argmax(below * 2 >= len(rows)))
            left = column <= cut
            if min(left.sum(), len(rows) - left.sum()) >= k:
                work += [rows[left], rows[~left]]
                break
        else:
            groups.append(rows)
    covers = []
    for place, size in enumerate(sizes):
        values = np.arange(size)
        low = np.array([codes[rows, place].min() for rows in groups])[:, None]
        high = np.array([codes[rows, place].max() for rows in groups])[:, None]
        covers.append(((values >= low) & (values <= high)).astype(float))
    counts = np.array([np.bincount(secrets[rows], minlength=secrets.max() + 1) for rows in groups])
    return Release(covers, counts)


def compared(duck: Database, folder: Path, records: int, queries: int) -> dict[str, dict[str, float]]:
    """The mean relative errors of counts, by release and by kind of query."""
    load_adult(duck, folder)
    duck.run(f"CREATE TABLE t AS SELECT * FROM adult LIMIT {records}")
    roles = dict.fromkeys(ATTRIBUTES, "quasi_identifier") | {SECRET: "sensitive"}
    model = {"expected_confidence": {"beta": RATE}}
    wanted = policy(roles, hierarchy_uses(folder, ATTRIBUTES), [model], suppression_limit=0.5)
    posed = opened(duck, wanted, brings=sample_and_generalize.TRAITS.brings, seed="of the owner")
    params = sample_and_generalize.Params(rate=RATE, distortion=0.6, minimum={"age": 1})
    rows = released(duck, posed, sample_and_generalize.run(posed, params))
    posed.close()

    quoted = [f'"{name}"' for name in [*ATTRIBUTES, SECRET]]
    original = duck.fetch(f"SELECT {', '.join(quoted)} FROM t")
    present = [{row[place] for row in original} for place in range(len(ATTRIBUTES))]
    paths = [
        [line for line in hierarchy(folder, name) if line[0] in known]
        for name, known in zip(ATTRIBUTES, present, strict=True)
    ]
    places = [{line[0]: i for i, line in enumerate(tree)} for tree in paths]
    codes = np.array([[known[value] for value, known in zip(row, places, strict=False)] for row in original])
    names = sorted({row[-1] for row in original})
    secrets = np.array([names.index(row[-1]) for row in original])
    own = _release(rows, paths, names)
    sizes = [len(tree) for tree in paths]
    assert unsafe(own, RATE) == 0
    whole = [np.bincount(codes[:, i], minlength=size) / len(codes) for i, size in enumerate(sizes)]
    average = round(len(rows) / len(own.counts))
    safe = next(k for k in range(10, 400, 10) if not unsafe(mondrian(codes, secrets, sizes, k), 1, whole))
    releases = {
        "own": own,
        "median": mondrian(codes, secrets, sizes, average, median=True),
        "average": mondrian(codes, secrets, sizes, average),
        "safe": mondrian(codes, secrets, sizes, safe),
    }
    print(f"released {len(rows)} of {len(original)}, groups {len(own.counts)}, k {average} and {safe}")
    return _errors(releases, codes, secrets, sizes, queries)


def _release(rows: list[dict[str, Any]], paths: list[list[list[str]]], names: list[str]) -> Release:
    groups = sorted({tuple(row[name] for name in ATTRIBUTES) for row in rows})
    covers = [
        np.array([[float(group[place] in line) for line in tree] for group in groups])
        for place, tree in enumerate(paths)
    ]
    counted = Counter((tuple(row[name] for name in ATTRIBUTES), row[SECRET]) for row in rows)
    return Release(covers, np.array([[counted[group, name] for name in names] for group in groups]))


def _errors(
    releases: dict[str, Release], codes: Array, secrets: Array, sizes: list[int], queries: int
) -> dict[str, dict[str, float]]:
    """The mean relative error of random range counts: all, those of less than 1 % and of more than 1 % of the rows."""
    draw = np.random.default_rng(7)
    found: dict[str, dict[str, list[float]]] = {name: {"all": [], "small": [], "large": []} for name in releases}
    while len(found["own"]["all"]) < queries:
        ranges = {}
        for place in draw.choice(len(sizes), size=draw.integers(1, 4), replace=False):
            low, high = sorted(draw.choice(sizes[place] + 1, size=2, replace=False))
            ranges[int(place)] = (int(low), int(high))
        secret = int(draw.integers(secrets.max() + 1))
        hits = secrets == secret
        for place, (low, high) in ranges.items():
            hits &= (codes[:, place] >= low) & (codes[:, place] < high)
        truth = int(hits.sum())
        if not truth:
            continue
        kind = "small" if truth < 0.01 * len(codes) else "large"
        for name, release in releases.items():
            scale = RATE if name == "own" else 1.0
            error = abs(release.estimate(ranges, secret) / scale - truth) / truth
            found[name]["all"].append(error)
            found[name][kind].append(error)
    return {name: {kind: float(np.mean(errors)) for kind, errors in kinds.items()} for name, kinds in found.items()}
