"""A rich document for the report, as a hospital might get it: patients are generated, grouped and generalized here in
plain Python, so that all of its numbers belong together.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

ROWS = 4000
K, LIMIT = 5, 0.05
NAMES = ("age", "zip", "sex", "admitted")
HEIGHTS = {"age": 4, "zip": 5, "sex": 1, "admitted": 3}
WHAT = {
    "age": ("single years", "intervals of 5", "intervals of 10", "intervals of 40", "one value for all"),
    "zip": tuple([f"the first {5 - level} digits" if level else "all 5 digits" for level in range(5)] + ["*****"]),
    "sex": ("as it was", "one value for all"),
    "admitted": ("month", "quarter", "year", "one value for all"),
}
DISEASES = ("Hypertension", "Diabetes mellitus type 2", "Asthma", "Migraine", "Influenza", "HIV infection",
            "Gastro-oesophageal reflux disease without oesophagitis", "Depression")  # fmt: skip
Person = tuple[int, str, str, int]


@cache
def patients() -> tuple[tuple[Person, str], ...]:
    chance = random.Random(20261116)
    made = []
    for _ in range(ROWS):
        age = min(max(int(chance.gauss(54, 21)), 0), 99)
        area = chance.choices(("101", "102", "110", "121", "133"), (30, 25, 20, 15, 10))[0]
        zip_code = area + f"{min(int(chance.expovariate(0.12)), 99):02d}"
        admitted = chance.randrange(24)
        disease = chance.choices(DISEASES, (24, 18, 15, 12, 10, 3, 8, 10))[0]
        made.append(((age, zip_code, chance.choice("FM"), admitted), disease))
    return tuple(made)


def _labels(person: Person, levels: Sequence[int]) -> tuple[str, str, str, str]:
    age, zip_code, sex, admitted = person
    width = (1, 5, 10, 40, 0)[levels[0]]
    low = age // width * width if width else 0
    age_label = "*" if not width else str(age) if width == 1 else f"{low}-{low + width - 1}"
    year, month = 2024 + admitted // 12, admitted % 12
    quarter = f"{year}-Q{month // 3 + 1}"
    months = (f"{year}-{month + 1:02d}", quarter, str(year), "*")
    zip_label = zip_code[: 5 - levels[1]] + "*" * levels[1]
    return age_label, zip_label, "*" if levels[2] else sex, months[levels[3]]


@cache
def _column(place: int, level: int) -> tuple[str, ...]:
    """The labels of one attribute at one level, for every patient."""
    levels = [level if other == place else 0 for other in range(4)]
    return tuple(_labels(person, levels)[place] for person, _ in patients())


@cache
def _classes(levels: tuple[int, ...]) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(_column(place, level) for place, level in enumerate(levels)), strict=True))


@cache
def _costs(place: int, level: int) -> dict[str, float]:
    """What each label costs: the share of the other original values that it leaves open."""
    below = Counter(label for _, label in set(zip(_column(place, 0), _column(place, level), strict=True)))
    return {label: (leaves - 1) / (below.total() - 1) for label, leaves in below.items()}


@cache
def _sizes_and_costs(levels: tuple[int, ...]) -> list[tuple[int, list[float]]]:
    costs = [_costs(place, level) for place, level in enumerate(levels)]
    return [
        (size, [cost[label] for cost, label in zip(costs, labels, strict=True)])
        for labels, size in _classes(levels).items()
    ]


def _suppressed(levels: tuple[int, ...], k: int) -> int:
    return sum(size for size in _classes(levels).values() if size < k)


def _ncp(levels: tuple[int, ...], k: int) -> list[float]:
    """The normalized certainty penalty of each attribute; a suppressed row costs 1."""
    found = _sizes_and_costs(levels)
    gone = _suppressed(levels, k)
    return [(gone + sum(size * cost[place] for size, cost in found if size >= k)) / ROWS for place in range(4)]


@cache
def _lattice(k: int) -> dict[tuple[int, ...], tuple[float, int]]:
    nodes = product(*(range(HEIGHTS[name] + 1) for name in NAMES))
    return {node: (sum(_ncp(node, k)) / 4, _suppressed(node, k)) for node in nodes}


def _best(k: int, limit: float) -> tuple[tuple[int, ...], float, int] | None:
    fit = [(loss, node, gone) for node, (loss, gone) in _lattice(k).items() if gone <= limit * ROWS]
    loss, node, gone = min(fit)
    return node, loss, gone


def _bins(sizes: Sequence[int]) -> list[dict[str, int]]:
    made, low = [], 1
    while low <= max(sizes, default=0):
        inside = [size for size in sizes if low <= size < 2 * low]
        made.append({"from": low, "to": 2 * low - 1, "classes": len(inside), "records": sum(inside)})
        low *= 2
    return made


def _top(counted: Counter[str], most: int) -> list[list[Any]]:
    return [[label, number] for label, number in sorted(counted.most_common(most))]


def _distributions(levels: tuple[int, ...], kept: Sequence[tuple[Person, str]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for place, name in enumerate(NAMES):
        before = Counter(_labels(person, (0, 0, 0, 0))[place] for person, _ in patients())
        after = Counter(_labels(person, levels)[place] for person, _ in kept)
        made[name] = {
            "before": _top(before, 120), "after": _top(after, 120),
            "before_more": max(len(before) - 120, 0), "after_more": 0,
        }  # fmt: skip
    for side, rows in (("before", patients()), ("after", kept)):
        counted = Counter(disease for _, disease in rows)
        made.setdefault("diagnosis", {})[side] = [[label, number] for label, number in counted.most_common()]
    return made


def _checks(levels: tuple[int, ...], kept: Sequence[tuple[Person, str]]) -> list[dict[str, Any]]:
    grouped: dict[tuple[str, ...], list[str]] = {}
    for person, disease in kept:
        grouped.setdefault(_labels(person, levels), []).append(disease)
    smallest = min(len(found) for found in grouped.values())
    fewest = min(len(set(found)) for found in grouped.values())
    table = Counter(disease for _, disease in kept)
    far = max(
        sum(abs(Counter(found)[value] / len(found) - table[value] / len(kept)) for value in table) / 2
        for found in grouped.values()
    )
    common = {"qid": list(NAMES), "classes": len(grouped), "broken_classes": 0, "broken_records": 0, "holds": True}
    return [
        {**common, "model": "k_anonymity", "params": {"k": K}, "attribute": None, "measured": float(smallest),
         "required": float(K), "measures": "records in the class; worse when smaller",
         "summary": "Every record shares its quasi-identifiers with at least k - 1 others."},
        {**common, "model": "distinct_l_diversity", "params": {"l": 2}, "attribute": "diagnosis",
         "measured": float(fewest), "required": 2.0, "holds": fewest >= 2,
         "measures": "different sensitive values in the class; worse when smaller",
         "summary": "Every class holds at least l different sensitive values."},
        {**common, "model": "t_closeness", "params": {"t": 0.75}, "attribute": "diagnosis", "measured": far,
         "required": 0.75, "measures": "distance of the class to the table; worse when larger", "holds": far <= 0.75,
         "summary": "The distribution of the sensitive attribute in every class is within t of the whole table's."},
    ]  # fmt: skip


def _candidates(chosen: tuple[int, ...]) -> list[dict[str, Any]]:
    """Each attribute one level finer, then the best of the rest."""
    finer = [tuple(level - (i == place) for i, level in enumerate(chosen)) for place in range(4) if chosen[place]]
    others = sorted((loss, node) for node, (loss, gone) in _lattice(K).items() if gone <= LIMIT * ROWS)
    nodes = finer + [node for _, node in others if node != chosen and node not in finer][:3]
    return [
        {"levels": dict(zip(NAMES, node, strict=True)), "loss": _lattice(K)[node][0],
         "suppressed": _lattice(K)[node][1], "holds": _lattice(K)[node][1] <= LIMIT * ROWS}
        for node in nodes
    ]  # fmt: skip


POLICY = """\
# Patients of 2024 and 2025, for the regional research network.
source:
  table: patients
columns:
  name: identifier
  age: quasi_identifier
  zip: quasi_identifier
  sex: quasi_identifier
  admitted: quasi_identifier
  diagnosis: sensitive
models:
  - k_anonymity: {k: 5}
  - distinct_l_diversity: {l: 2}
  - t_closeness: {t: 0.75}
suppression: 0.05
"""
SQL = """\
-- 1. What each value becomes
CREATE TABLE patients_released AS
SELECT
  CAST(FLOOR(source.age / 10) * 10 AS INT) AS age, -- a < b && c > d
  SUBSTRING(source.zip, 1, 3) || '**' AS zip,
  source.sex,
  source.diagnosis
FROM patients AS source
ORDER BY age, zip, sex, diagnosis;
"""
NOT_PROTECTED = [
    "Someone who knows the diagnosis of a person may use it to narrow down the row: it is released as it was.",
    "Two releases of the same patients may tell more together than each of them does; only this one was measured.",
    "Facts about groups remain: whoever is known to belong to a class shares what is true of the whole class.",
    "Columns that the policy calls insensitive were not measured.",
]


@cache
def _made() -> str:
    best = _best(K, LIMIT)
    assert best is not None
    levels, ncp, gone = best
    sizes = _classes(levels)
    kept = [row for row in patients() if sizes[_labels(row[0], levels)] >= K]
    before, after = list(_classes((0, 0, 0, 0)).values()), [size for size in sizes.values() if size >= K]
    losses = _ncp(levels, K)
    document = {
        "sqlanon": "0.2.0", "created": "2026-11-16T05:00:00Z", "source": "patients",
        "release": {"kind": "table", "name": "patients_released"},
        "policy": {"name": "policy.yml", "hash": hashlib.sha256(POLICY.encode()).hexdigest(), "text": POLICY},
        "plan": {"algorithm": "full_domain", "levels": dict(zip(NAMES, levels, strict=True)), "proven": True,
                 "why": "240 candidates; 31 were measured, the others were ruled out by bounds."},
        "plan_hash": hashlib.sha256(str(levels).encode()).hexdigest(),
        "records": ROWS, "released": len(kept), "suppressed": gone, "suppression_limit": LIMIT, "holds": True,
        "breaches": [], "notes": ["The column name is an identifier and was left out of the release."],
        "checks": _checks(levels, kept),
        "loss": {"ncp": ncp, "discernibility": float(sum(size * size for size in after) + gone * ROWS),
                 "c_avg": len(kept) / len(after) / K, "precision": sum(
                     level / HEIGHTS[name] for level, name in zip(levels, NAMES, strict=True)) / 4},
        "minimize": "ncp",
        "attributes": [
            {"name": name, "role": "quasi_identifier", "level": level, "height": HEIGHTS[name], "loss": loss,
             "what": WHAT[name][level], "weight": 1.0}
            for name, level, loss in zip(NAMES, levels, losses, strict=True)
        ] + [{"name": "diagnosis", "role": "sensitive", "what": "as it was"}],
        "class_sizes": {"before": _bins(before), "after": _bins(after)},
        "risk": {
            "before": {"highest": 1 / min(before), "average": len(before) / ROWS, "uniques": before.count(1)},
            "after": {"highest": 1 / min(after), "average": len(after) / len(kept), "uniques": after.count(1)},
        },
        "risks": {
            "source": {"measures": {"marketer": {"average": 0.61}, "prosecutor": {"records_at_risk": 0.8}},
                       "attributes": {"diagnosis": {"attribute_disclosure": {"guessed": 0.7, "disclosed": 0.5}}}},
            "release": {"measures": {"marketer": {"average": 0.05}, "prosecutor": {"records_at_risk": 0.0}},
                        "attributes": {"diagnosis": {"attribute_disclosure": {"guessed": 0.3, "disclosed": 0.0}}}},
        },
        "attacks": {
            "counts": "rows", "quasi_identifiers": list(NAMES),
            "attacks": [
                {"name": "homogeneity", "attribute": "diagnosis", "params": {},
                 "before": {"targets": ROWS, "broken": 2345, "confidence": 1.0, "average": 0.81},
                 "after": {"targets": len(kept), "broken": 0, "confidence": 0.8, "average": 0.31}},
                {"name": "linkage", "attribute": None, "params": {"certainty": 1.0},
                 "before": {"targets": ROWS, "broken": 2222, "confidence": 1.0, "average": 0.61},
                 "after": {"targets": ROWS, "broken": 0, "confidence": 0.2, "average": 0.05}},
            ],
            "not_judged": {"membership": "it needs an external table of persons"}, "notes": [],
        },
        "distributions": _distributions(levels, kept),
        "workload": {"queries": 1000, "all": 0.1234, "small": 0.4182, "large": 0.0311},
        "map": [
            {"k": k, "limit": limit, "loss": found[1], "suppressed": found[2], "chosen": (k, limit) == (K, LIMIT)}
            for k in (2, 3, 5, 10, 20, 50) for limit in (0.0, 0.01, 0.02, 0.05, 0.1)
            if (found := _best(k, limit))
        ],
        "candidates": _candidates(levels),
        "sql": SQL, "versions": {"python": "3.11.7", "duckdb": "2.0.0", "sqlglot": "30.1.0"},
        "not_protected": NOT_PROTECTED,
    }  # fmt: skip
    return json.dumps(document)


def sample() -> dict[str, Any]:
    """A fresh copy, which a test may change."""
    copy: dict[str, Any] = json.loads(_made())
    return copy
