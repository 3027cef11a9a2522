"""The evidence of a release: one typed value from the check to the report, with JSON both ways.

`describe_release` makes it, the record of releases keeps its JSON, `from_json` reads it again, and the report shows it.
The fields are the keys of the JSON, in their order; a field that is None by default is left out where it is None.

Reading never fails on a field that another version writes otherwise: what is missing or malformed is None or empty, and
the report leaves its section out. Only the verdict is read the other way round: what does not clearly hold does not
hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from typing import Any, TypeVar

from sqlanon.evidence.json_values import drawable, items, mapping, number, numbers, part, quantity, text, texts, whole
from sqlanon.families import family

T = TypeVar("T")
KEYS = {"smallest": "from", "largest": "to"}  # of fields whose names in the JSON are words of Python


@dataclass(frozen=True)
class PolicyText:
    """The policy of a release as it was then; JSON, which is YAML."""

    name: str
    hash: str
    text: str


@dataclass(frozen=True)
class MethodEvidence:
    """A transformation with all its parameters; nothing that it drew."""

    method: str
    params: Mapping[str, Any]
    summary: str


@dataclass(frozen=True)
class ModelEvidence:
    """What a privacy model measured on the release as it was written, beside what it requires."""

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
    asks: str | None = None  # of a sensitive value of persons with several rows: which of their values

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
    """The level of a quasi-identifier, or its levels where rows have several, and the mean share of its domain that a
    released value leaves open. `what` is the kind of its hierarchy, `released_as` what readers get, in words."""

    name: str
    role: str
    level: int | None
    levels: tuple[int, ...]
    height: int | None
    loss: float | None
    what: str
    weight: float | None
    released_as: str | None = None


@dataclass(frozen=True)
class MeasuredNode:
    """A generalization that was measured on the way."""

    levels: Mapping[str, int]
    loss: float | None
    suppressed: int | None
    holds: bool | None


@dataclass(frozen=True)
class SizeBin:
    """Classes of so many records, from the one size to the other."""

    smallest: int
    largest: int
    classes: int
    records: int


@dataclass(frozen=True)
class ClassSizes:
    before: tuple[SizeBin, ...] | None = None
    after: tuple[SizeBin, ...] | None = None


@dataclass(frozen=True)
class ClassRisk:
    """The chance to find the right row: the highest, the average, and how many rows are alone in their class."""

    highest: float | None
    average: float | None
    uniques: int | None


@dataclass(frozen=True)
class RiskSides:
    before: ClassRisk | None = None
    after: ClassRisk | None = None


Counted = tuple[tuple[str | None, int], ...]


@dataclass(frozen=True)
class Distribution:
    """Values, or bins of values, and how many rows have them: before in the source, after in the release, in the same
    bins; `more` of them are not listed. `suppressed` of the rows before were left out; `outside` rows after show a
    label that belongs to no single bin. `ranges` says that bins are named by original values, which a release may not
    show. None where a side is not given."""

    after: Counted | None = None
    after_more: int | None = None
    before: Counted | None = None
    before_more: int | None = None
    suppressed: Counted | None = None
    outside: int | None = None
    ordered: bool | None = None
    ranges: bool | None = None


@dataclass(frozen=True)
class FoundByValues:
    """What suppressed cells that match any value leave to somebody who knows the values."""

    rows: int | None
    fewest: int | None
    said: str


@dataclass(frozen=True, kw_only=True)
class MapPoint:
    """The least loss for another k and another suppression limit."""

    k: int | None = None
    limit: float | None
    loss: float | None
    suppressed: int | None
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class ReleaseEvidence:
    """Everything that was measured about a release. Without `release` it is the plan of a dry run.

    `plan`, `release`, `linked_rows`, `history`, `draws`, `groups`, `items`, `journeys`, `risks`, `attacks` and
    `verdicts` are the JSON of what their own modules describe; `more` is what another version wrote.
    """

    sqlanon: str  # the version that made it
    created: str
    source: str
    policy: PolicyText | None
    plan: Mapping[str, Any]
    plan_hash: str
    records: int | None
    released: int | None
    suppressed: int | None
    suppression_limit: float | None
    minimize: str
    versions: Mapping[str, Any]
    not_protected: tuple[str, ...]
    transformations: tuple[MethodEvidence, ...] | None = None
    loss: Mapping[str, float]
    attributes: tuple[Attribute, ...]
    candidates: tuple[MeasuredNode, ...]
    groups: Mapping[str, Any] | None = None
    journeys: Mapping[str, Any] | None = None
    items: Mapping[str, Any] | None = None  # where persons are sets of items: persons, items and how many have how many
    sql: str
    found_by_values: FoundByValues | None = None
    release: Mapping[str, Any] | None = None
    holds: bool | None = None
    breaches: tuple[str, ...] | None = None
    notes: tuple[str, ...] | None = None
    checks: tuple[ModelEvidence, ...] | None = None
    linked_rows: Mapping[str, Any] | None = None
    class_sizes: ClassSizes | None = None
    risk: RiskSides | None = None
    distributions: Mapping[str, Distribution] | None = None
    draws: Mapping[str, Any] | None = None
    run: int | None = None
    history: Mapping[str, Any] | None = None
    workload: Mapping[str, Any] | None = None
    risks: Mapping[str, Any] | None = None
    attacks: Mapping[str, Any] | None = None
    verdicts: tuple[Mapping[str, Any], ...] | None = None
    map: tuple[MapPoint, ...] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The document that is kept with the release, for `json.dumps`.

        >>> made = ReleaseEvidence.from_json({"sqlanon": "0.2.0", "created": "", "source": "t", "records": 10})
        >>> made.to_json()["records"], "release" in made.to_json()
        (10, False)
        """
        document: dict[str, Any] = _plain(self)
        more: dict[str, Any] = document.pop("more")
        return document | more

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> ReleaseEvidence:
        """Read a document that was kept, or that anybody may have changed."""
        return _read(document)

    @property
    def kind(self) -> str:
        return text((self.release or {}).get("kind"))

    @property
    def name(self) -> str:
        return text((self.release or {}).get("name"))

    @property
    def sizes(self) -> ClassSizes:
        return self.class_sizes or ClassSizes()

    @property
    def chances(self) -> RiskSides:
        """The chances to find the right row, before and after."""
        return self.risk or RiskSides()

    @property
    def levels(self) -> Mapping[str, int]:
        """The level of each quasi-identifier, where all rows have the same."""
        own = {item.name: item.level for item in self.attributes if item.level is not None}
        return own | numbers(self.plan.get("levels"), whole)

    @property
    def broken(self) -> tuple[ModelEvidence, ...]:
        return tuple(check for check in self.checks or () if not check.holds)

    @property
    def verdict(self) -> bool | None:
        """Whether the release holds; None where nothing was checked. A contradiction counts as broken."""
        if self.holds is False or self.breaches or self.broken:
            return False
        return True if self.holds or self.checks else None

    @property
    def smallest_class(self) -> ModelEvidence | None:
        known = family("models")
        sizes = (check for check in self.checks or () if check.model in known and known[check.model].bounds_size_alone)
        return next(sizes, None)

    @property
    def allowed(self) -> int | None:
        """How many rows the policy allows to be suppressed."""
        if self.suppression_limit is None or self.records is None:
            return None
        # As it is written: the float 0.29 is a hair below 0.29, and 29 of 100 rows are allowed.
        return math.floor(Fraction(repr(self.suppression_limit)) * self.records)


def _plain(value: Any) -> Any:
    """Mappings, lists and numbers in place of typed values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            KEYS.get(item.name, item.name): _plain(found)
            for item in fields(value)
            if (found := getattr(value, item.name)) is not None or item.default is not None
        }
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _read(raw: Mapping[str, Any]) -> ReleaseEvidence:
    given, holds = raw.get("release"), raw.get("holds")
    known = {item.name for item in fields(ReleaseEvidence)} - {"more"}
    return ReleaseEvidence(
        sqlanon=text(raw.get("sqlanon")),
        created=text(raw.get("created")),
        source=text(raw.get("source")),
        policy=_policy(mapping(raw.get("policy"))),
        plan=mapping(raw.get("plan")),
        plan_hash=text(raw.get("plan_hash")),
        records=quantity(raw.get("records")),
        released=quantity(raw.get("released")),
        suppressed=quantity(raw.get("suppressed")),
        suppression_limit=part(raw.get("suppression_limit")),
        minimize=text(raw.get("minimize")),
        versions=mapping(raw.get("versions")),
        not_protected=texts(raw.get("not_protected")),
        transformations=_each(raw.get("transformations"), _method),
        loss=numbers(raw.get("loss"), number),
        attributes=_each(raw.get("attributes"), _attribute) or (),
        candidates=_each(raw.get("candidates"), _node) or (),
        groups=_part(raw.get("groups")),
        journeys=_part(raw.get("journeys")),
        items=_part(raw.get("items")),
        sql=text(raw.get("sql")),
        found_by_values=_found(mapping(raw.get("found_by_values"))),
        release=_part(given) if given is None or isinstance(given, Mapping) else {"name": text(given)},
        holds=None if holds is None else holds is True,
        breaches=texts(raw["breaches"]) if raw.get("breaches") is not None else None,
        notes=texts(raw["notes"]) if raw.get("notes") is not None else None,
        checks=_each(raw.get("checks"), _check),
        linked_rows=_part(raw.get("linked_rows")),
        class_sizes=_sizes(raw.get("class_sizes")),
        risk=_risks(raw.get("risk")),
        distributions=_distributions(raw.get("distributions")),
        draws=_part(raw.get("draws")),
        run=whole(raw.get("run")),
        history=_part(raw.get("history")),
        workload=_part(raw.get("workload")),
        risks=_part(raw.get("risks")),
        attacks=_part(raw.get("attacks")),
        verdicts=_each(raw.get("verdicts"), dict),
        map=_map(raw.get("map")),
        more={key: value for key, value in raw.items() if key not in known},
    )


def _each(value: Any, read: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...] | None:
    return None if value is None else tuple(read(mapping(item)) for item in items(value))


def _part(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _policy(raw: Mapping[str, Any]) -> PolicyText | None:
    return PolicyText(text(raw.get("name")), text(raw.get("hash")), text(raw.get("text"))) if raw else None


def _method(raw: Mapping[str, Any]) -> MethodEvidence:
    return MethodEvidence(text(raw.get("method")), mapping(raw.get("params")), text(raw.get("summary")))


def _found(raw: Mapping[str, Any]) -> FoundByValues | None:
    found = FoundByValues(quantity(raw.get("rows")), quantity(raw.get("fewest")), text(raw.get("said")))
    return found if raw else None


def _check(raw: Mapping[str, Any]) -> ModelEvidence:
    model = text(raw.get("model"))
    known = family("models").get(model)
    broken = quantity(raw.get("broken_classes"))
    holds = raw.get("holds")
    return ModelEvidence(
        model=model,
        params=mapping(raw.get("params")),
        qid=texts(raw.get("qid")),
        attribute=text(raw.get("attribute")) or None,
        measures=text(raw.get("measures")) or (known.measures if known else ""),
        classes=quantity(raw.get("classes")),
        broken_classes=broken,
        broken_records=quantity(raw.get("broken_records")),
        measured=number(raw.get("measured")),
        required=number(raw.get("required")),
        holds=broken in (0, None) if holds is True else holds is None and broken == 0,
        summary=text(raw.get("summary")) or (known.summary if known else ""),
        asks=text(raw.get("asks")) or None,
    )


def _attribute(raw: Mapping[str, Any]) -> Attribute:
    return Attribute(
        name=text(raw.get("name")),
        role=text(raw.get("role")),
        level=whole(raw.get("level")),
        levels=tuple(level for item in items(raw.get("levels")) if (level := whole(item)) is not None),
        height=whole(raw.get("height")),
        loss=drawable(raw.get("loss")),
        what=text(raw.get("what")),
        weight=number(raw.get("weight")),
        released_as=text(raw.get("released_as")) or None,
    )


def _node(raw: Mapping[str, Any]) -> MeasuredNode:
    holds = raw.get("holds")
    return MeasuredNode(
        levels=numbers(raw.get("levels"), whole),
        loss=number(raw.get("loss")),
        suppressed=quantity(raw.get("suppressed")),
        holds=holds if isinstance(holds, bool) else None,
    )


def _sizes(value: Any) -> ClassSizes | None:
    raw = mapping(value)
    return ClassSizes(before=_bins(raw.get("before")), after=_bins(raw.get("after"))) if raw else None


def _bins(value: Any) -> tuple[SizeBin, ...] | None:
    if value is None:
        return None
    read = []
    for raw in map(mapping, items(value)):
        edges = whole(raw.get("from")), whole(raw.get("to"))
        if edges[0] is not None:
            counts = [quantity(raw.get(name)) or 0 for name in ("classes", "records")]
            read.append(SizeBin(edges[0], edges[0] if edges[1] is None else edges[1], counts[0], counts[1]))
    return tuple(sorted(read, key=lambda item: item.smallest))


def _risks(value: Any) -> RiskSides | None:
    raw = mapping(value)
    return RiskSides(before=_risk(raw.get("before")), after=_risk(raw.get("after"))) if raw else None


def _risk(value: Any) -> ClassRisk | None:
    raw = mapping(value)
    read = ClassRisk(part(raw.get("highest")), part(raw.get("average")), quantity(raw.get("uniques")))
    return None if read == ClassRisk(None, None, None) else read


def _distributions(value: Any) -> dict[str, Distribution] | None:
    if not isinstance(value, Mapping):
        return None
    return {text(name): _distribution(mapping(item)) for name, item in value.items()}


def _distribution(raw: Mapping[str, Any]) -> Distribution:
    return Distribution(
        after=_counted(raw.get("after")),
        after_more=quantity(raw.get("after_more")),
        before=_counted(raw.get("before")),
        before_more=quantity(raw.get("before_more")),
        suppressed=_counted(raw.get("suppressed")),
        outside=quantity(raw.get("outside")),
        ordered=_flag(raw.get("ordered")),
        ranges=_flag(raw.get("ranges")),
    )


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _counted(value: Any) -> Counted | None:
    if not isinstance(value, list | tuple):
        return None
    pairs = [pair for pair in map(items, value) if len(pair) == 2]
    read = [(None if label is None else text(label), quantity(records)) for label, records in pairs]
    return tuple((label, records) for label, records in read if records is not None)


def _map(value: Any) -> tuple[MapPoint, ...] | None:
    return _each(
        value,
        lambda raw: MapPoint(
            k=whole(raw.get("k")),
            limit=part(raw.get("limit")),
            loss=drawable(raw.get("loss")),
            suppressed=quantity(raw.get("suppressed")),
            chosen=raw.get("chosen") is True,
        ),
    )
