"""Make a release of persons as sets of items: the labels are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlglot import exp

from sqlanon import algorithms
from sqlanon.engines import Engine
from sqlanon.errors import NotReleased
from sqlanon.evidence.item_checks import item_columns, tree_of
from sqlanon.evidence.item_groups import is_of_groups
from sqlanon.evidence.item_loss import measure_itemset_loss
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.families import algorithm_traits
from sqlanon.itemsets.find_itemsets import is_of_itemsets
from sqlanon.itemsets.open_items import Items, basket_sizes, open_items
from sqlanon.itemsets.protect_items import ItemTask, ProtectedItems, number_persons
from sqlanon.plan import Plan
from sqlanon.policy import AlgorithmUse, Policy
from sqlanon.relations.itemsets import PERSON_NUMBER
from sqlanon.relations.rewrite import shuffle_rows
from sqlanon.relations.source import relation
from sqlanon.release.evidence_document import outline_release
from sqlanon.release.made_release import MadeRelease, at_one_time, plan_made, render_script, require_columns
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.target import Staged
from sqlanon.sqltree.tree import alias, count_all, select, table

MOST_SUPPORTS = 200  # of the most frequent items, for the plot of the report


@contextmanager
def make_release(policy: Policy, engine: Engine, secret: str | None) -> Iterator[MadeRelease]:
    """Read the items of all persons, and choose how they are shown, in temporary tables that go at the end."""
    policy = at_one_time(policy)
    rows = relation(engine.resolve(policy.source), engine.dialect)
    require_columns(policy, [item.name for item in engine.columns(rows)])
    # The check of what is written has tables of its own.
    items = open_items(engine, rows, item_columns(policy), prefix="sqlanon_protected")
    try:
        task = ItemTask(policy, items, tree_of(policy, engine, items))
        use = policy.algorithm or choose_algorithm(task)
        _require_tables(policy, use)
        module = algorithms.item_algorithm(use.name)
        made = module.protect(task, module.Params.model_validate(use.params))
        _require_limit(policy, items, made)
        (item,) = policy.items
        shown = number_persons(made.rows, task, item, PERSON_NUMBER, groups=made.groups)
        companions = {ending: shuffle_rows(tree) for ending, tree in made.companions.items()}
        how = Rewriting(shuffle_rows(shown), (), companions=companions)
        released = _count_shown(engine, items)
        also = {"persons": items.persons, **made.measured, "digest": made.digest}
        plan = plan_made(policy, use, made, items.occurrences, made.suppressed, items=also)
        yield MadeRelease(
            policy, policy, engine, plan, how, rows,
            meant=released["rows"],
            broken="sets",
            outline=lambda: _outline(policy, plan, how, items, made, released),
            describe=lambda outlined, staged: _add_loss(policy, engine, items, outlined, staged),
        )  # fmt: skip
    finally:
        items.close()


def choose_algorithm(task: ItemTask) -> AlgorithmUse:
    """The algorithm that reaches all models, where the policy names none."""
    models = [model for model, _ in task.models()]
    if all(is_of_groups(model) for model in models):
        return AlgorithmUse(name="permutation")
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


def _require_tables(policy: Policy, use: AlgorithmUse) -> None:
    given = policy.release
    if given is not None and algorithm_traits(use.name).two_tables and (given.view or given.is_folder):
        raise policy.error(
            f"{use.name} is released into tables or files, two at a time: no view or folder holds both", "release",
            hint="write 'release: {table: released}' or 'release: {path: released.parquet}'",
        )  # fmt: skip


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
    supports = engine.query(
        select(alias(count_all(), "persons"), source=table(shown), groups=["label"])
        .order_by(exp.Ordered(this=exp.column("persons"), desc=True), copy=False)
        .limit(MOST_SUPPORTS, copy=False)
    )
    return {
        "persons": sum(sizes.values()),
        "rows": sum(size * persons for size, persons in sizes.items()),
        "sizes": sorted(sizes.items()),
        "supports": [int(persons) for (persons,) in supports],
    }


def _add_loss(
    policy: Policy, engine: Engine, items: Items, outlined: ReleaseEvidence, staged: Staged
) -> ReleaseEvidence:
    """What became of frequent itemsets, and of how many persons have two items."""
    found = measure_itemset_loss(policy, engine, items, staged.source)
    if found is None or not found.frequent:
        return outlined
    lost = {
        "frequent_itemsets": found.frequent,
        "frequent_itemsets_kept": found.kept,
        "tkd": found.tkd,
        "relative_error": found.relative_error,
    }
    return replace(outlined, items={**(outlined.items or {}), **lost})


def _outline(
    policy: Policy, plan: Plan, how: Rewriting, items: Items, made: ProtectedItems, shown: Mapping[str, Any]
) -> ReleaseEvidence:
    """Everything that is known before it is written."""
    told: dict[str, Any] = {
        "persons": items.persons,
        "released_persons": shown["persons"],
        "suppressed_persons": items.persons - shown["persons"],
        "rows": items.occurrences,
        "released_rows": shown["rows"] + made.measured.get("private_rows", 0),
        "suppressed_rows": made.suppressed,
        "different": len(items.labels),
        **made.measured,
        "sizes_before": [list(pair) for pair in sorted(items.sizes.items())],
        "sizes_after": [list(pair) for pair in shown["sizes"]],
        "supports_before": sorted(items.supports.values(), reverse=True)[:MOST_SUPPORTS],
        "supports_after": shown["supports"],
    }
    script = render_script(items.prelude.steps, how, policy, items.engine.dialect)
    return outline_release(
        policy, plan, items.occurrences, made.suppressed, sql=script, loss={"ncp": made.loss}, items=told
    )
