"""The document that a report is made of, read once at the door: what is missing or malformed is None or empty.

A report must not fail on a field that a later version writes otherwise; it leaves the section out. Only the verdict
is read the other way round: what does not clearly hold does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from sqlanon.errors import SqlanonError
from sqlanon.families import Plugin, family

T = TypeVar("T")
REQUIRED = ("sqlanon", "created", "release", "source")


@dataclass(frozen=True)
class ReportCheck:
    model: str
    params: Mapping[str, Any]
    qid: tuple[str, ...]
    attribute: str | None
    measures: str
    classes: int | None
    broken_classes: int | None
    broken_records: int | None
    measured: float | None
    required: float | None
    holds: bool
    summary: str

    @property
    def worse_when_smaller(self) -> bool:
        return self.measures.endswith("worse when smaller")

    @property
    def margin(self) -> float | None:
        """How far the worst class is on the right side of what is required; negative where it is not."""
        if self.measured is None or self.required is None:
            return None
        return (self.measured - self.required) * (1 if self.worse_when_smaller else -1)


@dataclass(frozen=True)
class Attribute:
    name: str
    role: str
    level: int | None
    height: int | None
    loss: float | None
    what: str
    weight: float | None


@dataclass(frozen=True)
class Bin:
    """Classes of so many records, from the one size to the other."""

    smallest: int
    largest: int
    classes: int
    records: int


@dataclass(frozen=True)
class ReportRisk:
    highest: float | None
    average: float | None
    uniques: int | None


@dataclass(frozen=True)
class Distribution:
    """Values and how many rows have them; `more` values are not listed. None where a side is not given."""

    before: tuple[tuple[str, int], ...] | None
    after: tuple[tuple[str, int], ...] | None
    before_more: int
    after_more: int


@dataclass(frozen=True)
class MapPoint:
    k: int
    limit: float
    loss: float | None
    suppressed: int | None
    chosen: bool


@dataclass(frozen=True)
class ReportCandidate:
    levels: Mapping[str, int]
    loss: float | None
    suppressed: int | None
    holds: bool | None


@dataclass(frozen=True)
class Document:
    raw: Mapping[str, Any]
    version: str
    created: str
    kind: str
    name: str
    source: str
    records: int | None
    released: int | None
    suppressed: int | None
    suppression_limit: float | None
    holds: bool | None
    breaches: tuple[str, ...]
    notes: tuple[str, ...]
    not_protected: tuple[str, ...]
    checks: tuple[ReportCheck, ...]
    loss: Mapping[str, float]
    minimize: str
    attributes: tuple[Attribute, ...]
    sizes_before: tuple[Bin, ...]
    sizes_after: tuple[Bin, ...]
    risk_before: ReportRisk | None
    risk_after: ReportRisk | None
    distributions: Mapping[str, Distribution]
    workload: Mapping[str, float]
    map: tuple[MapPoint, ...]
    candidates: tuple[ReportCandidate, ...]
    levels: Mapping[str, int]

    @property
    def broken(self) -> tuple[ReportCheck, ...]:
        return tuple(check for check in self.checks if not check.holds)

    @property
    def verdict(self) -> bool | None:
        """Whether the release holds; None where nothing was checked. A contradiction counts as broken."""
        if self.holds is False or self.breaches or self.broken:
            return False
        return True if self.holds or self.checks else None

    @property
    def smallest_class(self) -> ReportCheck | None:
        return next((check for check in self.checks if check.model == "k_anonymity"), None)

    @property
    def allowed(self) -> int | None:
        """How many rows the policy allows to be suppressed."""
        if self.suppression_limit is None or self.records is None:
            return None
        # As it is written: the float 0.29 is a hair below 0.29, and 29 of 100 rows are allowed.
        return math.floor(Fraction(repr(self.suppression_limit)) * self.records)


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def number(value: Any) -> float | None:
    """A number, which may be infinite; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def whole(value: Any) -> int | None:
    """A whole number, however large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if isinstance(value, int) or value.is_integer() else None


def quantity(value: Any) -> int | None:
    """How many there are of something."""
    read = whole(value)
    return read if read is not None and read >= 0 else None


def part(value: Any) -> float | None:
    """A share of a whole."""
    read = number(value)
    return read if read is not None and 0 <= read <= 1 else None


def ratio(some: int, every: int) -> float:
    try:
        return some / every
    except OverflowError:
        return math.inf


def drawable(value: Any) -> float | None:
    """A number that can be drawn."""
    read = number(value)
    return read if read is not None and 0 <= read < 1e300 else None


def text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(text(item) for item in items(value) if item is not None)


def _numbers(value: Any, read: Callable[[Any], T | None]) -> dict[str, T]:
    found = {text(name): read(item) for name, item in mapping(value).items()}
    return {name: item for name, item in found.items() if item is not None}


def _check(raw: Mapping[str, Any]) -> ReportCheck:
    model = text(raw.get("model"))
    known = family("models").get(model)
    broken = quantity(raw.get("broken_classes"))
    holds = raw.get("holds")
    return ReportCheck(
        model=model,
        params=mapping(raw.get("params")),
        qid=_texts(raw.get("qid")),
        attribute=text(raw.get("attribute")) or None,
        measures=text(raw.get("measures")) or (known.measures if known else ""),
        classes=quantity(raw.get("classes")),
        broken_classes=broken,
        broken_records=quantity(raw.get("broken_records")),
        measured=number(raw.get("measured")),
        required=number(raw.get("required")),
        holds=broken in (0, None) if holds is True else holds is None and broken == 0,
        summary=text(raw.get("summary")) or (known.summary if known else ""),
    )


def _attribute(raw: Mapping[str, Any]) -> Attribute:
    return Attribute(
        name=text(raw.get("name")),
        role=text(raw.get("role")),
        level=whole(raw.get("level")),
        height=whole(raw.get("height")),
        loss=drawable(raw.get("loss")),
        what=text(raw.get("what")),
        weight=number(raw.get("weight")),
    )


def _bins(value: Any) -> tuple[Bin, ...]:
    read = []
    for raw in map(mapping, items(value)):
        edges = whole(raw.get("from")), whole(raw.get("to"))
        if edges[0] is not None:
            counts = [quantity(raw.get(name)) or 0 for name in ("classes", "records")]
            read.append(Bin(edges[0], edges[0] if edges[1] is None else edges[1], counts[0], counts[1]))
    return tuple(sorted(read, key=lambda item: item.smallest))


def _risk(raw: Mapping[str, Any]) -> ReportRisk | None:
    read = ReportRisk(part(raw.get("highest")), part(raw.get("average")), quantity(raw.get("uniques")))
    return None if read == ReportRisk(None, None, None) else read


def _labels(value: Any) -> tuple[tuple[str, int], ...] | None:
    if not isinstance(value, list | tuple):
        return None
    pairs = [pair for pair in map(items, value) if len(pair) == 2]
    read = [("∅ NULL" if label is None else text(label) or "(empty)", quantity(records)) for label, records in pairs]
    return tuple((label, records) for label, records in read if records is not None)


def _distribution(raw: Mapping[str, Any]) -> Distribution:
    more = [quantity(raw.get(name)) or 0 for name in ("before_more", "after_more")]
    return Distribution(_labels(raw.get("before")), _labels(raw.get("after")), more[0], more[1])


def _map(value: Any) -> tuple[MapPoint, ...]:
    read = []
    for raw in map(mapping, items(value)):
        k, limit = whole(raw.get("k")), part(raw.get("limit"))
        if k is not None and limit is not None:
            chosen = raw.get("chosen") is True
            read.append(MapPoint(k, limit, drawable(raw.get("loss")), quantity(raw.get("suppressed")), chosen))
    return tuple(read)


def _candidate(raw: Mapping[str, Any]) -> ReportCandidate:
    holds = raw.get("holds")
    return ReportCandidate(
        levels=_numbers(raw.get("levels"), whole),
        loss=number(raw.get("loss")),
        suppressed=quantity(raw.get("suppressed")),
        holds=holds if isinstance(holds, bool) else None,
    )


def _attributes_and_levels(raw: Mapping[str, Any]) -> tuple[tuple[Attribute, ...], dict[str, int]]:
    attributes = tuple(_attribute(mapping(item)) for item in items(raw.get("attributes")))
    levels = {item.name: item.level for item in attributes if item.level is not None}
    return attributes, levels | _numbers(mapping(raw.get("plan")).get("levels"), whole)


def _require(raw: Mapping[str, Any]) -> None:
    if missing := [name for name in REQUIRED if raw.get(name) is None]:
        raise SqlanonError(
            f"the document of the report lacks {', '.join(missing)}",
            hint="a report is made from the document that a release writes",
        )


def parse_document(raw: Mapping[str, Any]) -> Document:
    """The document with types."""
    _require(raw)
    release, risk, sizes = mapping(raw["release"]), mapping(raw.get("risk")), mapping(raw.get("class_sizes"))
    holds = raw.get("holds")
    attributes, levels = _attributes_and_levels(raw)
    return Document(
        raw=raw,
        version=text(raw["sqlanon"]),
        created=text(raw["created"]),
        kind=text(release.get("kind")),
        name=text(release.get("name")) or text(raw["release"]),
        source=text(raw["source"]),
        records=quantity(raw.get("records")),
        released=quantity(raw.get("released")),
        suppressed=quantity(raw.get("suppressed")),
        suppression_limit=part(raw.get("suppression_limit")),
        holds=None if holds is None else holds is True,
        breaches=_texts(raw.get("breaches")),
        notes=_texts(raw.get("notes")),
        not_protected=_texts(raw.get("not_protected")),
        checks=tuple(_check(mapping(item)) for item in items(raw.get("checks"))),
        loss=_numbers(raw.get("loss"), number),
        minimize=text(raw.get("minimize")),
        attributes=attributes,
        sizes_before=_bins(sizes.get("before")),
        sizes_after=_bins(sizes.get("after")),
        risk_before=_risk(mapping(risk.get("before"))),
        risk_after=_risk(mapping(risk.get("after"))),
        distributions={
            text(name): _distribution(mapping(item)) for name, item in mapping(raw.get("distributions")).items()
        },
        workload=_numbers(raw.get("workload"), drawable),
        map=_map(raw.get("map")),
        candidates=tuple(_candidate(mapping(item)) for item in items(raw.get("candidates"))),
        levels=levels,
    )


def metric(name: str) -> Plugin | None:
    return family("loss").get(name)
