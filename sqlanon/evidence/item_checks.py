"""Measure the models of a policy whose persons are sets of items, on its source or on a release of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, SourceError
from sqlanon.evidence.hierarchies import build_hierarchies, require_valid
from sqlanon.evidence.item_groups import is_of_groups, read_groups, shows_groups
from sqlanon.evidence.results import CheckResult, Violation
from sqlanon.families import Plugin, plugin
from sqlanon.itemsets.find_itemsets import BrokenSet, Level, is_of_itemsets, know_items, walk_levels
from sqlanon.itemsets.item_tree import ItemTree, read_tree
from sqlanon.itemsets.open_items import Items, open_items
from sqlanon.policy import ModelUse, Policy, Source, missing_columns
from sqlanon.relations.bucketization import GROUP
from sqlanon.relations.classes import Prelude, as_label
from sqlanon.relations.itemsets import PERSON_NUMBER, ItemColumns
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import bind, count_all, join_clause, select, table, with_verdict

SHOWN_ITEMS = 12  # of a set, on a screen
SETS, PERSONS, GROUPS = "set", "person's set", "group"


@dataclass(frozen=True)
class ItemEvidence:
    """What was measured: rows of persons and items, results, and what is wrong with the table as a whole."""

    records: int
    checks: tuple[CheckResult, ...]
    breaches: tuple[str, ...]
    notes: tuple[str, ...]


def item_columns(policy: Policy, *, released: bool = False) -> ItemColumns:
    """Which columns say who has what; in a release a number stands in place of the person."""
    assert policy.person is not None
    sensitive = policy.sensitive[0] if policy.sensitive else None
    return ItemColumns(PERSON_NUMBER if released else policy.person, policy.items, sensitive)


def check_items(
    policy: Policy,
    engine: Engine,
    release: Source | None,
    limit: int,
    progress: Callable[[int, int], None] | None = None,
) -> ItemEvidence:
    """Every model on the sets of items of all persons. A release holds labels in place of items."""
    columns = item_columns(policy, released=release is not None)
    rows = relation(engine.resolve(release or policy.source), engine.dialect)
    available = [item.name for item in engine.columns(rows)]
    notes: list[str] = []
    breaches: list[str] = []
    if release is None:
        missing_columns(policy, available)
    else:
        breaches, notes = _as_released(policy, columns, available)
    items = open_items(engine, rows, columns)
    try:
        if release is None:
            tree_of(policy, engine, items)
        else:
            breaches += _compare_with_source(policy, engine, items)
        checks = []
        for place, use in enumerate(policy.models, start=1):
            if is_of_groups(plugin("models", use.name)):
                checks.append(_measure_groups(items, policy, use, release, breaches))
            else:
                checks.append(measure_model(items, policy, use, limit, notes, released=release is not None))
            if progress:
                progress(place, len(policy.models))
        if not items.occurrences:
            breaches.append("there is no row to measure")
        if items.rows > items.occurrences:
            again = items.rows - items.occurrences
            notes.append(f"{again:,} rows say again that a person has an item: they were counted once")
        notes.append(f"{items.persons:,} persons have {len(items.labels):,} different items")
        return ItemEvidence(items.occurrences, tuple(checks), tuple(breaches), tuple(dict.fromkeys(notes)))
    finally:
        items.close()


def tree_of(policy: Policy, engine: Engine, items: Items) -> ItemTree | None:
    """The tree of the items, which must cover every item of the data; None without a hierarchy."""
    (column,) = policy.items
    built = build_hierarchies(policy)
    if column not in built:
        return None
    rows = relation(engine.resolve(policy.source), engine.dialect)
    prelude = Prelude(rows, engine.dialect, prefix="sqlanon_tree")
    return read_tree(
        engine, prelude, column, built[column], lambda: require_valid(policy, engine, {column: built[column]}, prelude)
    )


def measure_model(
    items: Items,
    policy: Policy,
    use: ModelUse,
    limit: int = 0,
    notes: list[str] | None = None,
    *,
    released: bool = False,
) -> CheckResult:
    """One model: how many sets of items were measured, how many minimal ones break it, and the worst of them."""
    model = plugin("models", use.name)
    if not is_of_itemsets(model):
        return _measure_persons(items, policy, model, use.params, limit)
    absent = "allow" if released or policy.absent_values == "allow" else "refuse"
    filled = model.filled(use.params)
    known = know_items(items, model, filled, absent=absent)
    sizes = []
    shown: list[BrokenSet] = []
    for level in walk_levels(items, model, use.params, known):
        sizes.append((level.number, level.broken, level.least, level.most))
        if level.broken and limit:
            shown += _worst(items, level, model, filled, limit)
    if notes is not None:
        notes += _base_rates(model, filled, known.base)
    worst: list[float] = [
        end for *_, least, most in sizes if (end := least if model.worse_when_smaller else most) is not None
    ]
    order = sorted(shown, key=lambda found: _rank(items, found, smaller=model.worse_when_smaller))
    return CheckResult(
        model=model.name,
        params=use.params,
        qid=policy.items,
        attribute=policy.sensitive[0] if "sensitive" in model.needs and policy.sensitive else None,
        measures=model.measures,
        classes=sum(number for number, *_ in sizes),
        broken_classes=sum(broken for _, broken, *_ in sizes),
        broken_records=None,  # sets overlap
        measured=(min(worst) if model.worse_when_smaller else max(worst)) if worst else None,
        violations=tuple(_shown(items, policy, found) for found in order[:limit]),
        unit=SETS,
    )


def _measure_groups(
    items: Items, policy: Policy, use: ModelUse, release: Source | None, breaches: list[str]
) -> CheckResult:
    """A model of private items in groups of persons. Nothing of a group is shown: its private items are whose they are
    with some chance."""
    model = plugin("models", use.name)
    filled = model.filled(use.params)
    made = read_groups(policy, items, model, filled, release=release)
    breaches += made.breaches
    relations = {"classes": made.classes, "class_values": made.values}
    result = items.make("verdicts", with_verdict(bind(model.sql, filled, relations)))
    number, broken, persons, least, most = items.engine.query(_count_verdicts(made.classes, result))[0]
    end = least if model.worse_when_smaller else most
    return CheckResult(
        model=model.name,
        params=use.params,
        qid=policy.items,
        attribute=None,
        measures=model.measures,
        classes=int(number),
        broken_classes=int(broken or 0),
        broken_records=int(persons or 0),
        measured=None if end is None else float(end),
        unit=GROUPS,
    )


def _count_verdicts(classes: str, result: str) -> exp.Select:
    """Classes, broken ones, persons in these, and the ends of what was measured."""
    same = exp.column("class_id", table="r").eq(exp.column("class_id", table="s"))
    broken = exp.Coalesce(this=exp.column("broken", table="r"), expressions=[exp.convert(1)])
    held = exp.column("records", table="s")
    counts = (count_all(), exp.Sum(this=broken), exp.Sum(this=exp.Mul(this=broken.copy(), expression=held)))
    ends = (exp.Min(this=exp.column("measured", table="r")), exp.Max(this=exp.column("measured", table="r")))
    joins = [join_clause(table(result, alias="r"), same, side="LEFT")]
    return select(*counts, *ends, source=table(classes, alias="s"), joins=joins)


def find_whole_sets(items: Items) -> str:
    """Persons with exactly the same items, as classes."""
    rows = items.make("person_rows", bind(plugin("itemsets", "person_rows").sql, {}, {"items": items.tables.items}))
    sets = items.make("row_sets", bind(plugin("linking", "row_sets").sql, {}, {"person_rows": rows}))
    return items.make("whole_sets", bind(plugin("itemsets", "whole_sets").sql, {}, {"row_sets": sets}))


def count_whole_sets(items: Items) -> list[tuple[int, int]]:
    """How many persons share their whole set with so many, themselves among them: (so many, persons)."""
    classes = find_whole_sets(items)
    persons = exp.Sum(this=exp.column("records"))
    found = items.engine.query(select("records", persons, source=table(classes), groups=["records"]))
    return sorted((int(records), int(number)) for records, number in found)


def _measure_persons(items: Items, policy: Policy, model: Plugin, params: Mapping[str, Any], limit: int) -> CheckResult:
    """A model of classes, where a class is all persons with exactly the same items."""
    engine = items.engine
    classes = find_whole_sets(items)
    verdict = with_verdict(bind(model.sql, model.filled(params), {"classes": classes}))
    result = items.make("verdicts", verdict)
    same = exp.column("class_id", table="r").eq(exp.column("class_id", table="s"))
    held = exp.column("records", table="s")
    every = _count_verdicts(classes, result)
    number, broken_classes, persons, least, most = engine.query(every)[0]
    found = []
    if broken_classes and limit:
        worst = select(
            exp.column("person", table="s"), held.copy(), exp.column("measured", table="r"),
            source=table(classes, alias="s"), joins=[join_clause(table(result, alias="r"), same.copy())],
            where=exp.column("broken", table="r").eq(1),
        )  # fmt: skip
        worst = worst.order_by(
            exp.column("measured", table="r"), held.copy(), exp.column("person", table="s"), copy=False
        )
        for person, records, measured in engine.query(worst.limit(limit, copy=False)):
            own = exp.column("person").eq(int(person))
            have = engine.query(select("item", source=table(items.tables.items), where=own))
            found.append(BrokenSet(tuple(sorted(int(item) for (item,) in have)), int(records), float(measured)))
    end = least if model.worse_when_smaller else most
    return CheckResult(
        model=model.name,
        params=params,
        qid=policy.items,
        attribute=None,
        measures=model.measures,
        classes=int(number),
        broken_classes=int(broken_classes or 0),
        broken_records=int(persons or 0),
        measured=None if end is None else float(end),
        violations=tuple(_shown(items, policy, item) for item in found),
        unit=PERSONS,
    )


def _worst(items: Items, level: Level, model: Plugin, filled: Mapping[str, Any], limit: int) -> list[BrokenSet]:
    """Broken sets that may be shown: what was measured on a private item or sensitive value of one person is theirs,
    and a set that names a sensitive item says something of whoever has it."""
    smaller = model.worse_when_smaller
    named = filled.get("sensitive") or () if "sensitive_items" in model.needs else ()
    secret = [items.numbers[as_label(name)] for name in named if as_label(name) in items.numbers]
    return level.worst_sets(limit, smaller=smaller, least=1 if smaller else 2, without=secret)


def _rank(items: Items, found: BrokenSet, *, smaller: bool) -> tuple[Any, ...]:
    names = sorted(items.names[item] for item in found.items)
    return (found.measured if smaller else -found.measured, len(found.items), found.records, names)


def _shown(items: Items, policy: Policy, found: BrokenSet) -> Violation:
    names = sorted(items.names[item] for item in found.items)
    more = f" and {len(names) - SHOWN_ITEMS:,} more" if len(names) > SHOWN_ITEMS else ""
    return Violation({", ".join(policy.items): ", ".join(names[:SHOWN_ITEMS]) + more}, found.records, found.measured)


def _base_rates(model: Plugin, filled: Mapping[str, Any], base: tuple[float, ...]) -> list[str]:
    """Whether what an attacker concludes from nothing is already too sure."""
    limit = next((float(filled[name]) for name in ("h", "rho", "c") if name in filled), None)
    if limit is None:
        return []
    many = sum(share > limit + 1e-12 for share in base)
    if not many:
        return []
    return [
        f"{model.name}: {many} of {len(base)} private or sensitive values are had by a share of all persons above "
        f"{limit:g}: nothing but suppressing them helps"
    ]


def _as_released(policy: Policy, columns: ItemColumns, available: list[str]) -> tuple[list[str], list[str]]:
    lacking = [name for name in columns.needed if name not in available]
    if lacking:
        raise SourceError(
            f"the release lacks {', '.join(repr(name) for name in lacking)}",
            hint=f"it has {', '.join(repr(name) for name in available[:20])}; a release of sets of items has one row "
            f"for each item of a person, whose number is in '{PERSON_NUMBER}'",
        )
    who = (*policy.identifiers, *([policy.person] if policy.person is not None else []))
    breaches = [f"the release holds the identifier '{name}'" for name in dict.fromkeys(who) if name in available]
    own = (*columns.needed, *((GROUP,) if shows_groups(policy) else ()))
    others = [name for name in available if name not in own and name not in who]
    return breaches, [f"column '{name}' of the release has no role in the policy" for name in others]


def _compare_with_source(policy: Policy, engine: Engine, released: Items) -> list[str]:
    """Whether a release shows persons or items that its source does not have, or too few persons."""
    rows = relation(engine.resolve(policy.source), engine.dialect)
    missing_columns(policy, [item.name for item in engine.columns(rows)])
    source = open_items(engine, rows, item_columns(policy), prefix="sqlanon_source")
    try:
        tree = tree_of(policy, engine, source)
        known = set(tree.nodes) if tree is not None else set(source.names.values())
        foreign = sum(name not in known for name in released.names.values())
        persons = source.persons
    finally:
        source.close()
    found = []
    if foreign:
        found.append(f"the release holds {foreign:,} items that are neither in the source nor in their hierarchy")
    if released.persons > persons:
        found.append(f"the release has {released.persons:,} persons, its source has {persons:,}")
    gone = persons - released.persons
    if persons and gone / persons > policy.suppression_limit + 1e-12:
        share = f"{gone / persons:.1%} of the {persons:,} persons of the source"
        found.append(f"{share} are suppressed, the limit is {policy.suppression_limit:.1%}")
    return found


def require_supported(policy: Policy) -> None:
    """An error where a policy that was put together in Python has no columns of items."""
    if policy.person is None or len(policy.items) != 1:
        raise PolicyError("'shape: set' needs a person column and one column of the role item")
