"""Publish persons as sets of items: the labels are chosen, the release is written, checked as it is, and swapped in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sqlanon import algorithms
from sqlanon.engines import Engine
from sqlanon.errors import EngineError, NotReleased
from sqlanon.evidence.checks import Evidence, check
from sqlanon.evidence.item_checks import item_columns, tree_of
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.itemsets.find_itemsets import is_of_itemsets
from sqlanon.itemsets.open_items import Items, basket_sizes, open_items
from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems, number_persons
from sqlanon.plan import Plan, policy_hash
from sqlanon.policy import AlgorithmUse, Policy, Source, missing_columns
from sqlanon.relations.check_script import render_create
from sqlanon.relations.itemsets import PERSON_NUMBER
from sqlanon.relations.rewrite import shuffle_rows
from sqlanon.relations.source import relation
from sqlanon.release.evidence_document import add_verdict, outline_release
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.publication import Progress, Published, require_plan, require_roles, tell
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged, Target
from sqlanon.sqltree.tree import count_all, nest_query, select


@dataclass
class ItemRelease:
    """A release of sets of items on its way; each stage of `WRITING` adds its part."""

    asked: Policy
    use: AlgorithmUse
    items: Items
    made: ProtectedItems
    how: Rewriting
    released: Mapping[str, Any]  # how many persons and rows will be shown
    target: Target | None = None
    run: int | None = None
    secret: str | None = None
    plan: Plan = field(init=False)
    staged: Staged | None = None
    found: Evidence | None = None
    document: dict[str, Any] = field(default_factory=dict)

    @property
    def engine(self) -> Engine:
        return self.items.engine

    @property
    def written(self) -> tuple[Target, Staged]:
        assert self.target is not None and self.staged is not None, "a dry run writes nothing"
        return self.target, self.staged

    def close(self) -> None:
        self.items.close()


def protect_items(policy: Policy, engine: Engine) -> ItemRelease:
    """Read the items of all persons, and choose how they are shown, in temporary tables."""
    if policy.source.due is None:  # one time for all statements, or they would not read the same rows
        policy = policy.at(datetime.now(UTC))
    rows = relation(engine.resolve(policy.source), engine.dialect)
    available = [item.name for item in engine.columns(rows)]
    missing_columns(policy, available)
    require_roles(policy, available)
    columns = item_columns(policy)
    if PERSON_NUMBER in columns.needed[1:]:
        raise policy.error(
            f"a release calls its persons '{PERSON_NUMBER}', as a column of the source is called already",
            "columns", PERSON_NUMBER, hint="give the column another name with 'query:'",
        )  # fmt: skip
    # The check of what is written has tables of its own.
    items = open_items(engine, rows, columns, prefix="sqlanon_protected")
    try:
        task = ItemTask(policy, items, tree_of(policy, engine, items))
        use = policy.algorithm or choose_algorithm(task)
        module = algorithms.item_algorithm(use.name)
        made = module.protect(task, module.Params.model_validate(use.params))
        _require_limit(policy, items, made)
        (item,) = policy.items
        shown = number_persons(made.rows, task, item, PERSON_NUMBER)
        released = _count_shown(engine, items)
        how = Rewriting(shuffle_rows(shown), ())
        return ItemRelease(policy, use, items, made, how, released)
    except BaseException:
        items.close()
        raise


def choose_algorithm(task: ItemTask) -> AlgorithmUse:
    """The algorithm that reaches all models, where the policy names none."""
    models = [model for model, _ in task.models()]
    if all(is_of_itemsets(model) and model.bounds_size_alone for model in models) and task.tree is not None:
        return AlgorithmUse(name="apriori")
    if all(is_of_itemsets(model) and "sensitive_items" not in model.needs for model in models):
        return AlgorithmUse(name="item_suppression")
    if all("sensitive_items" in model.needs for model in models):
        return AlgorithmUse(name="suppress_control")
    if all(not is_of_itemsets(model) and model.bounds_size_alone for model in models):
        return AlgorithmUse(name="set_partition")
    names = ", ".join(model.name for model in models)
    raise task.policy.error(
        f"no algorithm reaches {names} together", "models", hint="publish with one of them, and check the others"
    )


def _require_limit(policy: Policy, items: Items, made: ProtectedItems) -> None:
    share = made.suppressed / items.occurrences if items.occurrences else 0.0
    if share > policy.suppression_limit + 1e-12:
        raise NotReleased(
            f"{share:.1%} of the {items.occurrences:,} rows would be suppressed, the limit is "
            f"{policy.suppression_limit:.1%}",
            hint=f"take 'suppression_limit: {_rounded_up(share)}', a coarser model, or a hierarchy with apriori",
        )


def _rounded_up(share: float) -> float:
    """
    >>> _rounded_up(0.3333), _rounded_up(0.2)
    (0.34, 0.2)
    """
    return min(1.0, -(-round(share * 10000) // 100) / 100)


def _count_shown(engine: Engine, items: Items) -> dict[str, Any]:
    """How many persons and rows will be shown, and how many persons have so many of them."""
    made = items.prelude.made
    shown = next(name for key, name in made.items() if key[0] == "shown_items")
    sizes = basket_sizes(engine, shown)
    return {
        "persons": sum(sizes.values()),
        "rows": sum(size * persons for size, persons in sizes.items()),
        "sizes": sorted(sizes.items()),
    }


def publish(
    policy: Policy,
    engine: Engine,
    target: Target | None,
    *,
    secret: str | None,
    progress: Progress | None,
    plan_hash: str | None,
    run: int | None,
) -> Published:
    """Choose labels, write the release, check it and swap it in; without a target, tell what would be done."""
    tell(progress, "choosing labels of items", 0, 1)
    release = protect_items(policy, engine)
    try:
        plan = release.plan = plan_of(release)
        require_plan(plan, plan_hash)
        tell(progress, "choosing labels of items", 1, 1)
        if target is None:
            return Published(plan, describe_items(release, plan).to_json())
        release.target, release.run, release.secret = target, run, secret
        tell(progress, "writing the release", 0, 1)
        write(release)
        tell(progress, "writing the release", 1, 1)
        return Published(plan, release.document, release.found)
    finally:
        release.close()


def plan_of(release: ItemRelease) -> Plan:
    use, made = release.use, release.made
    module = algorithms.algorithm(use.name)
    return Plan(
        policy=policy_hash(release.asked),
        algorithm=use.name,
        params=module.Params.model_validate(use.params).model_dump(mode="json"),
        minimize="ncp",
        records=release.items.occurrences,
        suppressed=made.suppressed,
        loss=made.loss,
        proven=made.proven,
        why=made.why,
        items={"persons": release.items.persons, **made.measured, "digest": made.digest},
    )


def stage(release: ItemRelease) -> None:
    """Write the release where nobody sees it yet."""
    assert release.target is not None
    release.staged = release.target.stage(release.how)


def check_as_written(release: ItemRelease) -> None:
    """Measure every model on the rows as they were written, and refuse the release if one is broken."""
    release.found = check_written(release, release.written[1])


def describe(release: ItemRelease) -> None:
    """Put together all that was measured."""
    target, staged = release.written
    evidence = describe_items(release, release.plan, release.found, target, staged)
    release.document = replace(evidence, run=release.run).to_json()


def swap(release: ItemRelease) -> None:
    """Show the release in place of the previous one, with its record."""
    target, staged = release.written
    rows = relation(release.engine.resolve(release.asked.source), release.engine.dialect)
    target.swap(staged, release.plan, release.document, fingerprint(release.engine, rows, release.secret))


WRITING: tuple[Callable[[ItemRelease], None], ...] = (stage, check_as_written, describe, swap)


def write(release: ItemRelease) -> None:
    """All of `WRITING` in one transaction: others see the old release or the new one."""
    assert release.target is not None
    try:
        with release.engine.transaction():
            for step in WRITING:
                step(release)
        release.target.finish(release.written[1], release.document)
    except BaseException:
        if release.staged is not None:
            release.target.discard(release.staged)
        raise


def check_written(release: ItemRelease, staged: Staged) -> Evidence:
    """Every model on the release as it was written; an error if one is broken, or if rows are missing."""
    engine = release.engine
    rows = relation(engine.resolve(staged.source), engine.dialect)
    number = int(engine.query(select(count_all(), source=nest_query(rows, "release")))[0][0])
    if number != release.released["rows"]:
        raise EngineError(
            f"the release was not published: {number:,} rows were written, {release.released['rows']:,} were meant",
            hint="the previous release, if any, is still in place; was the source changed meanwhile?",
        )
    found = check(release.asked, engine, release=staged.source, limit=0)
    if not found.holds:
        broken = [f"{item.model}: {item.broken_classes:,} sets broken" for item in found.checks if not item.holds]
        raise NotReleased(
            "the release was not published: as written it breaks the policy",
            detail="\n".join([*broken, *found.breaches]),
            hint="the previous release, if any, is still in place; was the source changed meanwhile?",
        )
    return found


def describe_items(
    release: ItemRelease,
    plan: Plan,
    found: Evidence | None = None,
    target: Target | None = None,
    staged: Staged | None = None,
) -> ReleaseEvidence:
    """Everything that was measured. Without `found` it is the plan of a dry run."""
    items, made, shown = release.items, release.made, release.released
    told: dict[str, Any] = {
        "persons": items.persons,
        "released_persons": shown["persons"],
        "suppressed_persons": items.persons - shown["persons"],
        "rows": items.occurrences,
        "released_rows": shown["rows"],
        "suppressed_rows": made.suppressed,
        "different": len(items.labels),
        **made.measured,
        "sizes_before": [list(pair) for pair in sorted(items.sizes.items())],
        "sizes_after": [list(pair) for pair in shown["sizes"]],
    }
    dialect = release.engine.dialect
    steps = [render_create(step, dialect) for step in items.prelude.steps]
    script = "\n\n".join([*steps, "-- the release\n" + release.how.shown.sql(dialect, pretty=True) + ";"]) + "\n"
    evidence = outline_release(
        release.asked, plan, items.occurrences, made.suppressed, sql=script, loss={"ncp": made.loss}, items=told
    )
    if found is None or target is None or staged is None:
        return evidence
    return add_verdict(evidence, found, target, staged)


def stage_aside(release: ItemRelease, name: str) -> Staged:
    """The release as a temporary table, to be looked at and forgotten; for a plan."""
    release.engine.create_temporary(name, release.how.select)
    return Staged(name, Source(table=name))
