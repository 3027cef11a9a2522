"""Measure the models of a policy whose persons are sequences of places by time, on its source or on a release of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError, SourceError
from sqlanon.evidence.hierarchies import build_hierarchies, require_valid
from sqlanon.evidence.item_checks import ItemEvidence, measure_model
from sqlanon.evidence.results import CheckResult, Violation
from sqlanon.families import Plugin, plugin
from sqlanon.hierarchies import Hierarchy
from sqlanon.itemsets.find_itemsets import is_of_itemsets
from sqlanon.itemsets.open_items import Items, open_items
from sqlanon.paths.journeys import GROUP_NUMBER, journey_columns
from sqlanon.paths.path_tables import PathTables
from sqlanon.paths.read_journeys import read_owners, read_published, read_visits
from sqlanon.paths.suppress_projections import check_projections, split_projection
from sqlanon.paths.walk_together import check_colocation
from sqlanon.policy import Column, ModelUse, Policy, Source, missing_columns
from sqlanon.relations.classes import Prelude
from sqlanon.relations.hierarchy_lookups import generalize_value, lookup
from sqlanon.relations.itemsets import PERSON_NUMBER, ItemColumns
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import alias, column, count_all, join_clause, nest_query, select, table, text, union_all

SETS, INFERENCES, GROUPS = "sequence", "inference", "group"


def as_items(policy: Policy) -> Policy:
    """The same policy with doublets as items, for what is defined on sets: a part of a journey is a set of doublets."""
    roles = {name: item.role for name, item in policy.columns.items()}
    chosen = policy.visit_columns
    columns = {name: Column(role="item") for name in chosen}
    columns |= {name: policy.columns[name] for name, role in roles.items() if name not in chosen}
    return policy.model_copy(update={"columns": columns, "shape": "set"})


def check_journeys(
    policy: Policy,
    engine: Engine,
    release: Source | None,
    limit: int,
    progress: Callable[[int, int], None] | None = None,
) -> ItemEvidence:
    """Every model on the journeys of all persons. A release holds labels in place of times and places."""
    released = release is not None
    columns = journey_columns(policy, released=released)
    rows = relation(engine.resolve(release or policy.source), engine.dialect)
    available = [item.name for item in engine.columns(rows)]
    notes: list[str] = []
    breaches: list[str] = []
    moves = moves_places(policy)
    if release is None:
        missing_columns(policy, available)
        require_order(engine, rows, policy)
    else:
        breaches, notes = _as_released(policy, columns, available, grouped=moves)
    items = open_items(engine, rows, columns)
    try:
        if release is None:
            require_hierarchies(policy, engine)
        else:
            breaches += _compare_with_source(policy, engine, items, same_labels=not moves)
        checks = []
        for place, use in enumerate(policy.models, start=1):
            checks.append(_measure(items, policy, use, limit, notes, rows, released=released))
            if progress:
                progress(place, len(policy.models))
        if not items.occurrences:
            breaches.append("there is no row to measure")
        if items.rows > items.occurrences:
            again = items.rows - items.occurrences
            notes.append(f"{again:,} rows say again that a person was at a place at a time: they were counted once")
        notes.append(f"{items.persons:,} persons have {items.occurrences:,} visits at {len(items.labels):,} doublets")
        return ItemEvidence(items.occurrences, tuple(checks), tuple(breaches), tuple(dict.fromkeys(notes)))
    finally:
        items.close()


def moves_places(policy: Policy) -> bool:
    """Whether a release shows places where nobody was: journeys that are drawn together."""
    return any("positions" in plugin("models", use.name).needs for use in policy.models)


def require_hierarchies(policy: Policy, engine: Engine) -> dict[str, Hierarchy]:
    """The hierarchies of times and places, which must cover every value of the source."""
    built = build_hierarchies(policy)
    prelude = Prelude(relation(engine.resolve(policy.source), engine.dialect), engine.dialect, prefix="sqlanon_tree")
    try:
        require_valid(policy, engine, built, prelude)
    finally:
        drop_steps(engine, prelude.steps)
    return built


def _measure(
    items: Items, policy: Policy, use: ModelUse, limit: int, notes: list[str], rows: exp.Select, *, released: bool
) -> CheckResult:
    model = plugin("models", use.name)
    if is_of_itemsets(model):
        found = measure_model(items, as_items(policy), use, limit, notes, released=released)
        return CheckResult(**{**vars(found), "unit": SETS})
    if "visits" in model.needs:
        return _measure_projections(items, policy, model, use.params, limit, released=released)
    return _measure_groups(items, policy, model, use.params, rows, released=released)


def _measure_projections(
    items: Items, policy: Policy, model: Plugin, params: Mapping[str, Any], limit: int, *, released: bool
) -> CheckResult:
    with PathTables(items.engine) as tables:
        read_visits(tables, items, policy)
        read_owners(tables, items, policy, params["owners"], absent=released or policy.absent_values == "allow")
        found = check_projections(tables, float(params["p"]))
        shown = _worst_inferences(tables, items, policy, sorted(params["owners"]), limit) if found.breaches else ()
        number, most = tables.engine.query(
            select(
                count_all(),
                exp.Max(this=exp.Div(this=exp.Cast(this=exp.column("matching"), to=exp.DataType.build("double")),
                                     expression=exp.column("records"))),
                source=table(tables.name("inferences")),
            )
        )[0]  # fmt: skip
    return CheckResult(
        model=model.name,
        params=params,
        qid=policy.places,
        attribute=None,
        measures=model.measures,
        classes=int(number),
        broken_classes=found.breaches,
        broken_records=found.persons,
        measured=None if most is None else float(most),
        violations=shown,
        unit=INFERENCES,
    )


def _worst_inferences(
    tables: PathTables, items: Items, policy: Policy, owners: list[str], limit: int
) -> tuple[Violation, ...]:
    """Only of projections that several persons have: an inference about one person is what they did."""
    same = exp.column("class_id", table="b").eq(exp.column("class_id", table="i"))
    tree = select(
        "adversary", "projection", "place", "records", "measured",
        source=table(tables.name("breached"), alias="b"),
        joins=[join_clause(table(tables.name("inferences"), alias="i"), same)],
        where=exp.column("records") > exp.convert(1),
    )  # fmt: skip
    order = [
        exp.Ordered(this=exp.column("measured"), desc=True),
        *map(exp.column, ("adversary", "projection", "place")),
    ]
    names = {int(number): str(name) for number, name in tables.engine.query(
        select("place", "name", source=table(tables.name("places")))
    )}  # fmt: skip
    (place,) = policy.places
    return tuple(
        Violation(
            {
                "adversary": owners[int(adversary)],
                "knows": " → ".join(names[int(item)] for item in split_projection(projection)),
                place: names[int(inferred)],
            },
            int(records),
            float(measured),
        )
        for adversary, projection, inferred, records, measured in tables.engine.query(
            tree.order_by(*order, copy=False).limit(limit, copy=False)
        )
    )


def _measure_groups(
    items: Items, policy: Policy, model: Plugin, params: Mapping[str, Any], rows: exp.Select, *, released: bool
) -> CheckResult:
    """A source has no groups: there, each journey is one of its own."""
    with PathTables(items.engine) as tables:
        read_published(tables, rows, policy, PERSON_NUMBER if released else policy.person or "",
                       GROUP_NUMBER if released else None)  # fmt: skip
        found = check_colocation(tables, int(params["k"]), float(params["delta"]))
    return CheckResult(
        model=model.name,
        params=params,
        qid=(*policy.times, *policy.places),
        attribute=None,
        measures=model.measures,
        classes=found.groups,
        broken_classes=found.broken_groups,
        broken_records=found.broken_paths,
        measured=float(found.smallest) if found.groups else None,
        unit=GROUPS,
    )


def require_order(engine: Engine, rows: exp.Select, policy: Policy) -> None:
    """Times are numbers, dates or times of day: text has an order of its own, in which 10 is before 9."""
    (time,) = policy.times
    kinds = {item.name: item for item in engine.columns(rows)}
    for name in policy.stays:
        if not kinds[name].numeric:
            raise PolicyError(
                f"the column '{name}' says how long somebody stayed, and is of type {kinds[name].type}, not a number",
                hint="cast it in a 'query:', for example to hours",
            )
    kind = kinds[time]
    clock = exp.DataType.build(kind.type, dialect=engine.dialect).is_type("time", "timetz")
    if not kind.numeric and not kind.temporal and not clock:
        raise PolicyError(
            f"the time column '{time}' is of type {kind.type}, which has no order of time",
            hint="cast it in a 'query:', for example to TIMESTAMP or INTEGER",
        )


def _as_released(
    policy: Policy, columns: ItemColumns, available: list[str], *, grouped: bool
) -> tuple[list[str], list[str]]:
    needed = (*columns.needed, *([GROUP_NUMBER] if grouped else []))
    lacking = [name for name in needed if name not in available]
    if lacking:
        raise SourceError(
            f"the release lacks {', '.join(repr(name) for name in lacking)}",
            hint=f"it has {', '.join(repr(name) for name in available[:20])}; a release of journeys has one row "
            f"for each visit of a person, whose number is in '{PERSON_NUMBER}'",
        )
    who = (*policy.identifiers, *([policy.person] if policy.person is not None else []))
    breaches = [f"the release holds the identifier '{name}'" for name in dict.fromkeys(who) if name in available]
    others = [name for name in available if name not in needed and name not in who]
    return breaches, [f"column '{name}' of the release has no role in the policy" for name in others]


def _compare_with_source(policy: Policy, engine: Engine, released: Items, *, same_labels: bool) -> list[str]:
    """Whether a release shows persons, times or places that its source does not have, or too few persons."""
    rows = relation(engine.resolve(policy.source), engine.dialect)
    missing_columns(policy, [item.name for item in engine.columns(rows)])
    person = exp.Count(this=exp.Distinct(expressions=[column(policy.person or "")]))
    persons = int(engine.query(select(person, source=nest_query(rows.copy(), "source")))[0][0])
    found = []
    if same_labels:
        for place, name in enumerate(policy.visit_columns):
            foreign = _count_foreign(policy, engine, rows, name, released, released.columns.names[place])
            if foreign:
                found.append(f"'{name}' of the release holds {foreign:,} labels that neither the source nor its "
                             "hierarchy has")  # fmt: skip
    if released.persons > persons:
        found.append(f"the release has {released.persons:,} persons, its source has {persons:,}")
    gone = persons - released.persons
    if persons and gone / persons > policy.suppression_limit + 1e-12:
        share = f"{gone / persons:.1%} of the {persons:,} persons of the source"
        found.append(f"{share} are suppressed, the limit is {policy.suppression_limit:.1%}")
    return found


def _count_foreign(policy: Policy, engine: Engine, rows: exp.Select, name: str, released: Items, own: str) -> int:
    """How many labels of a column of the release are none of its values, on any level."""
    built = build_hierarchies(policy)
    prelude = Prelude(rows, engine.dialect, prefix="sqlanon_labels")
    try:
        known = known_labels(prelude, rows, name, built.get(name))
        run_steps(engine, prelude.steps)
        shown = select(alias(exp.column(own), "label"), source=table(released.tables.names)).distinct()
        same = exp.column("label", table="k").eq(exp.column("label", table="s"))
        tree = select(
            count_all(),
            source=nest_query(shown, "s"),
            joins=[join_clause(nest_query(known, "k"), same, side="LEFT")],
            where=exp.column("label", table="k").is_(exp.Null()),
        )
        return int(engine.query(tree)[0][0])
    finally:
        drop_steps(engine, prelude.steps)


def known_labels(prelude: Prelude, rows: exp.Select, name: str, hierarchy: Hierarchy | None) -> exp.Query:
    """Every label of a column, on every level of its hierarchy."""
    values = select(alias(column(name), "own"), source=nest_query(rows.copy(), "source")).distinct()
    found: list[exp.Query] = [select(alias(text(exp.column("own")), "label"), source=nest_query(values.copy(), "v"))]
    if hierarchy is not None:
        made = lookup(prelude, name, hierarchy)
        for level in range(1, hierarchy.height + 1):
            label = generalize_value(hierarchy, level, exp.column("own", table="v"), "l" if made else None)
            on = exp.column("level_0", table="l").eq(text(exp.column("own", table="v")))
            joins = [join_clause(table(made, alias="l"), on)] if made else []
            found.append(select(alias(text(label), "label"), source=nest_query(values.copy(), "v"), joins=joins))
    return select("label", source=nest_query(union_all(found), "labels")).distinct()
