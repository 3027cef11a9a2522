"""Pose a problem: compress the rows of a policy once, for any number of searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlanon.algorithms._classes import Requirement
from sqlanon.algorithms._problem import ALSO_SUPPRESSED, OF_NODES, Problem
from sqlanon.compiler.checks import Compiler
from sqlanon.compiler.classes import Grouping, Prelude, totals
from sqlanon.compiler.compressed import (
    Domain,
    combinations_of_rows,
    compressed,
    dictionary,
    laid_out,
    sizes,
    with_bits,
)
from sqlanon.compiler.lookups import taxonomy
from sqlanon.compiler.population import population
from sqlanon.compiler.source import relation
from sqlanon.compiler.tree import alias, literal, referenced, table
from sqlanon.engines import Engine
from sqlanon.engines.steps import drop_steps, run_steps
from sqlanon.errors import EngineError, PolicyError
from sqlanon.families import Plugin, plugin
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import ModelUse, Policy

# Relations that can be made from the compressed table for any node.
SEARCHED = {
    "classes", "class_values", "class_categories", "totals", "taxonomy", "weights", "thresholds", "guarded",
    "dont_care", "protect",
}  # fmt: skip


def problem(
    policy: Policy,
    engine: Engine,
    hierarchies: Mapping[str, Hierarchy],
    rows: exp.Select,
    *,
    carry: Sequence[str] = (),
    deadline: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    brings: frozenset[str] = frozenset(),
) -> Problem:
    """Compress the rows of a policy, once, for any number of searches. The caller closes it.

    `carry` names further columns that an algorithm counts, such as a class attribute; they are among
    `compressed.values` then.
    `brings` are relations that not every algorithm has, so that it can reach models that others cannot: those of the
    nodes of the lattice, or those that it makes itself.
    """
    draft = _draft(policy, engine.dialect, hierarchies, rows, carry, brings)
    try:
        run_steps(engine, draft.prelude.steps)
        done = len(draft.prelude.steps)
        placed, keys = laid_out(draft.domains, engine.query(sizes(draft.domains)), strangers=_has_population(draft))
        made = _packed(policy, engine, hierarchies, draft, placed, keys)
        run_steps(engine, draft.prelude.steps[done:])
        counted = exp.select("COALESCE(SUM(n), 0)", "COUNT(*)").from_(table(made.compressed.table))
        records, size = (int(value) for value in engine.query(counted)[0])
        grouped = exp.select("COALESCE(SUM(records), 0)").from_(table(draft.combined))
        if int(engine.query(grouped)[0][0]) != records:
            raise EngineError(
                "values of a quasi-identifier are equal to the database but written differently, such as 1.0 and 1.00",
                hint="give them one spelling in a view or 'query:'",
            )
    except BaseException:
        drop_steps(engine, draft.prelude.steps)
        raise
    # A share that is a whole number of rows must not lose one to the way that floats are written.
    limit = math.floor(policy.suppression_limit * records + 1e-9) if made.may_suppress else 0
    return replace(made, records=records, limit=limit, rows=size, deadline=deadline, progress=progress)


def outlined(
    policy: Policy,
    engine: Engine,
    hierarchies: Mapping[str, Hierarchy],
    rows: exp.Select,
    bits: Mapping[str, Sequence[int]],
) -> Problem:
    """The same on paper: all tables planned, none made, with the bits that a plan gives each quasi-identifier."""
    draft = _draft(policy, engine.dialect, hierarchies, rows, (), OF_NODES)
    if policy.person is not None and _has_population(draft):
        raise PolicyError(
            "a script cannot tell whether the population names its persons", hint="'sqlanon publish' asks the database"
        )
    placed = tuple(with_bits(domain, bits[domain.name], leaves=1) for domain in draft.domains)
    return _packed(policy, engine, hierarchies, draft, placed, 1 + max(domain.key for domain in placed))


@dataclass(frozen=True)
class _Draft:
    """What is planned before the number of values of each quasi-identifier is known."""

    uses: list[tuple[ModelUse, str | None]]
    prelude: Prelude
    grouping: Grouping
    attributes: list[str]
    combined: str
    domains: list[Domain]


def _draft(
    policy: Policy,
    dialect: str,
    hierarchies: Mapping[str, Hierarchy],
    rows: exp.Select,
    carry: Sequence[str],
    brings: frozenset[str] = frozenset(),
) -> _Draft:
    uses = [
        (use, attribute)
        for use in policy.models
        for attribute in (_attributes(policy, use) if "sensitive" in plugin("models", use.name).needs else [None])
    ]
    _require_searchable(policy, [use for use, _ in uses], brings)
    prelude = Prelude(rows, dialect, prefix="sqlanon_search")
    attributes = list(dict.fromkeys([*(attribute for _, attribute in uses if attribute is not None), *carry]))
    grouping = Grouping(policy.quasi_identifiers, person=policy.person)
    made = combinations_of_rows(prelude, grouping, attributes)
    domains = [
        Domain(name, f"c{i}", hierarchies[name], dictionary(prelude, made, name, f"c{i}", hierarchies[name]))
        for i, name in enumerate(policy.quasi_identifiers, start=1)
    ]
    return _Draft(uses, prelude, grouping, attributes, made, domains)


def _packed(
    policy: Policy,
    engine: Engine,
    hierarchies: Mapping[str, Hierarchy],
    draft: _Draft,
    placed: Sequence[Domain],
    keys: int,
) -> Problem:
    packed = compressed(draft.prelude, draft.combined, placed, keys, draft.grouping, draft.attributes)
    requirements = tuple(_requirement(policy, draft.prelude, hierarchies, draft.grouping, *item) for item in draft.uses)
    everybody, persons = None, False
    if _has_population(draft) and policy.population is not None:
        rows = relation(engine.resolve(policy.population), engine.dialect)
        persons = policy.person is not None and policy.person in [item.name for item in engine.columns(rows)]
        everybody = population(draft.prelude, rows, placed, keys, policy.person if persons else None)
    made = Problem(
        packed,
        requirements,
        packed.table,
        everybody,
        persons,
        policy=policy,
        engine=engine,
        hierarchies=hierarchies,
        prelude=draft.prelude,
    )
    made.skip()
    return made


def _has_population(draft: _Draft) -> bool:
    return any("class_population" in referenced(plugin("models", use.name).sql) for use, _ in draft.uses)


def _attributes(policy: Policy, use: ModelUse) -> list[str]:
    return [use.attribute] if use.attribute else list(policy.sensitive)


def is_searchable(model: Plugin, brings: frozenset[str] = frozenset()) -> bool:
    """Whether a model can be measured at any node, from the compressed table alone; joined tables are not compressed.

    >>> is_searchable(plugin("models", "k_anonymity")), is_searchable(plugin("models", "k_map"))
    (True, False)
    """
    made = referenced(model.sql) <= SEARCHED | brings
    return made and not model.classes and model.counts in ("", "rows") and "joins" not in model.needs


def _require_searchable(policy: Policy, uses: Sequence[ModelUse], brings: frozenset[str]) -> None:
    every = set(policy.quasi_identifiers)
    for use in uses:
        model = plugin("models", use.name)
        counts_persons = model.counts == "rows" and policy.person is not None
        sets = [use.qid] if isinstance(use.qid, tuple) else [policy.qid_sets()[use.qid]] if use.qid else []
        if not is_searchable(model, brings) or counts_persons or any(set(columns) != every for columns in sets):
            raise policy.error(
                f"a search cannot reach {use.name} yet",
                *("models", policy.models.index(use)),
                hint="publish for the other models, and check this one with 'sqlanon check'",
            )
    if policy.nulls == "unique":
        hint = "fill NULLs, or leave such rows out with 'query:'"
        raise policy.error("a search needs 'nulls: value'", "nulls", hint=hint)
    if any(set(columns) != every for columns in policy.qid_sets(drop_contained=True).values()):
        raise policy.error(
            "a search needs one quasi-identifier that holds all the others",
            "qids",
            hint="leave out 'qids:', so that all quasi-identifiers count together",
        )


def _requirement(
    policy: Policy,
    prelude: Prelude,
    hierarchies: Mapping[str, Hierarchy],
    grouping: Grouping,
    use: ModelUse,
    attribute: str | None,
) -> Requirement:
    model = plugin("models", use.name)
    relations: dict[str, str] = {}
    if attribute is not None:
        relations["totals"] = totals(prelude, grouping, attribute, numeric="numeric" in model.needs)
        if "taxonomy" in referenced(model.sql):
            relations["taxonomy"] = taxonomy(prelude, grouping, attribute, hierarchies[attribute])
    compiler = Compiler(policy, hierarchies, prelude.dialect, policy.source, shared=prelude)
    compiler.parameter_relations(model, model.filled(use.params), relations)
    if "class_categories" in referenced(model.sql):
        relations["value_categories"] = _value_categories(prelude, relations["totals"], relations["weights"])
    nested = ALSO_SUPPRESSED in model.monotone
    # Shares of persons do not add up: one person may be in several classes.
    monotone = nested or (policy.person is None and is_monotone(model, use.params))
    everybody = "population" in model.needs and float(str(use.params.get("delta_min", 0))) > 0
    return Requirement(use, model, attribute, relations, nested, monotone, everybody)


def is_monotone(model: Plugin, params: Mapping[str, object]) -> bool:
    """Whether what holds goes on holding under generalization, with these parameters."""
    unless = model.monotone.partition("unless ")[2].split(";")[0].strip()
    return model.monotone.startswith("yes") and not (unless and params.get(unless))


def _value_categories(prelude: Prelude, values: str, weights: str) -> str:
    same = exp.NullSafeEQ(this=exp.column("label", table="w"), expression=exp.column("label", table="t"))
    category = exp.Coalesce(this=exp.column("category", table="w"), expressions=[literal(0)])
    tree = exp.select("t.value", alias(category, "category")).from_(table(values, alias="t"))
    joined = tree.join(table(weights, alias="w"), on=same, join_type="left")
    return prelude.once("value_categories", (values, weights), lambda: joined)
