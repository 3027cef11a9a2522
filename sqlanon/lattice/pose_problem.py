"""Pose a problem: compress the rows of a policy once, for any number of searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import EngineError, PolicyError
from sqlanon.families import Plugin, plugin
from sqlanon.hierarchies import Hierarchy
from sqlanon.lattice.freeform_classes import freeform
from sqlanon.lattice.model_classes import Own
from sqlanon.lattice.model_tables import probabilities, supersets
from sqlanon.lattice.problem import ALSO_SUPPRESSED, FEW_ROWS, OF_NODES, Problem
from sqlanon.lattice.requirements import WHOLE_TABLE, Requirement, Requirements
from sqlanon.lattice.search_state import SearchState, TempTables
from sqlanon.lattice.search_table import SearchTable
from sqlanon.policy import ModelUse, Policy, Source
from sqlanon.relations.checks import OF_ROW_SETS, Compiler
from sqlanon.relations.classes import Grouping, Prelude, totals
from sqlanon.relations.compressed_rows import (
    BITS,
    Compressed,
    Domain,
    combinations_of_rows,
    compress_rows,
    dictionary,
    laid_out,
    sizes,
    with_bits,
)
from sqlanon.relations.hierarchy_lookups import taxonomy
from sqlanon.relations.population import population
from sqlanon.relations.source import relation, table_parts, table_tree
from sqlanon.sqltree.tree import alias, case, count_all, find_references, literal, nest_query, select, table

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
    target: str | None = None,
    deadline: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    brings: frozenset[str] = frozenset(),
    prelude: Prelude | None = None,
    asked: Policy | None = None,
    transformed: Mapping[str, Any] | None = None,
    joined: Mapping[str, list[str]] | None = None,
    seed: str = "",
) -> Problem:
    """Compress the rows of a policy, once, for any number of searches. The caller closes it.

    `carry` names further columns that an algorithm counts, such as a class attribute; they are among
    `compressed.values` then. `target` is the column that a reader of the release should predict.
    `brings` are relations that not every algorithm has, so that it can reach models that others cannot: those of the
    nodes of the lattice, or those that it makes itself.
    `prelude` holds the tables that `rows` are made of, if these were made before. `asked`, `transformed` and `joined`
    say what they were made from, and `seed` what an algorithm draws from, as `SearchTable` has it.
    """
    before = len(prelude.steps) if prelude else 0
    draft = _draft(policy, engine.dialect, hierarchies, rows, carry, brings, prelude)
    try:
        with engine.one_thread() if _is_small(engine, policy.source) else nullcontext():
            run_steps(engine, draft.prelude.steps[before:])
            engine.bring_summary([draft.combined])
            done = len(draft.prelude.steps)
            placed, keys = laid_out(draft.domains, engine.query(sizes(draft.domains)), strangers=_has_population(draft))
            packed, models = _packed(policy, engine, hierarchies, draft, placed, keys)
            run_steps(engine, draft.prelude.steps[done:])
            counted = exp.select("COALESCE(SUM(n), 0)", "COUNT(*)").from_(table(packed.compressed.table))
            records, size = (int(value) for value in engine.query(counted)[0])
            grouped = exp.select("COALESCE(SUM(records), 0)").from_(table(draft.combined))
            spelt_once = int(engine.query(grouped)[0][0]) == records
        if not spelt_once:
            raise EngineError(
                "values of a quasi-identifier are equal to the database but written differently, such as 1.0 and 1.00",
                hint="give them one spelling in a view or 'query:'",
            )
    except BaseException:
        drop_steps(engine, draft.prelude.steps)
        raise
    packed = replace(
        packed, records=records, rows=size, asked=asked, transformed=transformed or {}, joined=joined or {}, seed=seed
    )
    requirements = Requirements(models, policy.minimize, target=target, only_nodes=draft.only_nodes)
    if requirements.may_suppress:
        # A share that is a whole number of rows must not lose one to the way that floats are written.
        requirements = replace(requirements, limit=math.floor(policy.suppression_limit * records + 1e-9))
    return Problem(packed, requirements, _begin(packed, deadline, progress))


def _begin(
    packed: SearchTable,
    deadline: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> SearchState:
    """The state of a search before its first step; all tables that were planned so far are made by others."""
    tables = TempTables(packed.engine, packed.prelude, made=len(packed.prelude.steps))
    return SearchState(packed.compressed.table, tables, deadline=deadline, progress=progress)


def _is_small(engine: Engine, source: Source) -> bool:
    """Whether a table of DuckDB has few rows; what a view or a file has is known when it is read."""
    asked = engine.dialect == "duckdb" and source.table is not None and not source.joins
    found = engine.find(table_parts(str(source.table))) if asked else None
    if found is None or found.kind != "table":
        return False
    first = exp.select("1").from_(table_tree(str(source.table))).limit(FEW_ROWS)
    return int(engine.query(select(count_all(), source=nest_query(first, "first_rows")))[0][0]) < FEW_ROWS


def outline_problem(
    policy: Policy,
    engine: Engine,
    hierarchies: Mapping[str, Hierarchy],
    rows: exp.Select,
    bits: Mapping[str, Sequence[int]],
    prelude: Prelude | None = None,
) -> Problem:
    """The same on paper: all tables planned, none made, with the bits that a plan gives each quasi-identifier."""
    draft = _draft(policy, engine.dialect, hierarchies, rows, (), OF_NODES, prelude)
    if policy.person is not None and _has_population(draft):
        raise PolicyError(
            "a script cannot tell whether the population names its persons", hint="'sqlanon publish' asks the database"
        )
    placed = tuple(with_bits(domain, bits[domain.name], leaves=1) for domain in draft.domains)
    keys = 1 + max(domain.key for domain in placed)
    packed, models = _packed(policy, engine, hierarchies, draft, placed, keys)
    return Problem(packed, Requirements(models, policy.minimize), _begin(packed))


@dataclass(frozen=True)
class _Use:
    """A model on one quasi-identifier and attribute. `by` are the columns of its classes that are no quasi-identifiers,
    `counted` those whose combinations are counted, `guard` that of guarding nodes, `secrets` those of freeform attacks.
    """

    use: ModelUse
    model: Plugin
    attribute: str | None
    qid: tuple[str, ...]
    by: tuple[str, ...]
    counted: tuple[str, ...]
    guard: str | None
    secrets: tuple[str, ...]
    persons: bool
    nulls_match: bool

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns that the compressed table has to have."""
        guards = [self.guard] if self.guard else []
        return (*([self.attribute] if self.attribute else []), *self.by, *self.counted, *guards, *self.secrets)


@dataclass(frozen=True)
class _Draft:
    """What is planned before the number of values of each quasi-identifier is known."""

    uses: list[_Use]
    prelude: Prelude
    grouping: Grouping
    attributes: list[str]
    combined: str
    domains: list[Domain]
    only_nodes: str | None

    @property
    def tells_rows(self) -> bool:
        return not all(item.nulls_match for item in self.uses)

    @property
    def tells_nulls(self) -> bool:
        return self.tells_rows or any(item.counted for item in self.uses)


def _draft(
    policy: Policy,
    dialect: str,
    hierarchies: Mapping[str, Hierarchy],
    rows: exp.Select,
    carry: Sequence[str],
    brings: frozenset[str] = frozenset(),
    before: Prelude | None = None,
) -> _Draft:
    prelude = before or Prelude(rows, dialect, prefix="sqlanon_search")
    compiler = Compiler(policy, hierarchies, dialect, policy.source, shared=prelude)
    _require_models(policy, brings)
    uses = [
        _use(policy, compiler, use, qid, attribute)
        for use in policy.models
        for qid in compiler.qids(use)
        for attribute in compiler.attributes(use)
    ]
    _require_searchable(policy, uses, brings)
    shown = set(policy.quasi_identifiers)
    needed = [name for item in uses for name in item.carried if name not in shown]
    attributes = list(dict.fromkeys([*needed, *carry]))
    grouping = Grouping(policy.quasi_identifiers, person=policy.person)
    alone = [name for item in uses if not item.nulls_match for name in item.by]
    unique = (*policy.quasi_identifiers, *dict.fromkeys(alone)) if policy.nulls == "unique" else ()
    made = combinations_of_rows(prelude, grouping, attributes, unique=unique)
    domains = [
        Domain(name, f"c{i}", hierarchies[name], dictionary(prelude, made, name, f"c{i}", hierarchies[name]))
        for i, name in enumerate(policy.quasi_identifiers, start=1)
    ]
    return _Draft(uses, prelude, grouping, attributes, made, domains, _why_only_nodes(policy, uses))


def _use(policy: Policy, compiler: Compiler, use: ModelUse, qid: tuple[str, ...], attribute: str | None) -> _Use:
    model = plugin("models", use.name)
    grouping = compiler.grouping(model, use, qid, attribute)
    secrets: tuple[str, ...] = ()
    if "combinations" in model.needs:
        qid = policy.quasi_identifiers
        secrets = tuple(dict.fromkeys((*policy.sensitive, *use.params["sensitive_values"])))
    return _Use(
        use,
        model,
        attribute,
        qid=tuple(name for name in (grouping.columns or qid) if name in policy.quasi_identifiers),
        by=tuple(name for name in grouping.columns if name not in policy.quasi_identifiers),
        counted=grouping.distinct,
        guard=str(use.params["guard"]) if "guards" in model.needs else None,
        secrets=tuple(name for name in secrets if name not in policy.quasi_identifiers),
        persons=grouping.person is not None,
        nulls_match=grouping.nulls_match,
    )


def _packed(
    policy: Policy,
    engine: Engine,
    hierarchies: Mapping[str, Hierarchy],
    draft: _Draft,
    placed: Sequence[Domain],
    keys: int,
) -> tuple[SearchTable, tuple[Requirement, ...]]:
    flags = {"tells_nulls": draft.tells_nulls, "tells_rows": draft.tells_rows}
    packed = compress_rows(draft.prelude, draft.combined, placed, keys, draft.grouping, draft.attributes, **flags)
    models = tuple(
        _requirement(policy, draft.prelude, hierarchies, draft.grouping, packed, item) for item in draft.uses
    )
    everybody, persons = None, False
    if _has_population(draft) and policy.population is not None:
        rows = relation(engine.resolve(policy.population), engine.dialect)
        persons = policy.person is not None and policy.person in [item.name for item in engine.columns(rows)]
        everybody = population(draft.prelude, rows, placed, keys, policy.person if persons else None)
    made = SearchTable(
        packed,
        policy,
        engine,
        hierarchies,
        draft.prelude,
        everybody,
        persons,
        policy.sensitive_nulls == "value",
        {name: totals(draft.prelude, draft.grouping, name, numeric=False) for name in draft.attributes},
    )
    return made, models


def _has_population(draft: _Draft) -> bool:
    return any("class_population" in find_references(item.model.sql) for item in draft.uses)


def is_searchable(model: Plugin, brings: frozenset[str] = frozenset()) -> bool:
    """Whether a model can be measured at any node, from the compressed table alone.

    >>> is_searchable(plugin("models", "k_anonymity")), is_searchable(plugin("models", "k_map"))
    (True, False)
    """
    made = find_references(model.sql) <= SEARCHED | brings
    if WHOLE_TABLE in model.needs and "own_classes" not in brings:
        return False  # regions are cut one by one, and none of them is the table
    # What must hold for sets of rows must hold for each row: a search reaches that, and the check does the rest.
    plain = model.classes in ("", OF_ROW_SETS) and model.counts in ("", "rows")
    return made and (plain or "own_classes" in brings)


def _require_models(policy: Policy, brings: frozenset[str]) -> None:
    for use in policy.models:
        if not is_searchable(plugin("models", use.name), brings):
            name = policy.algorithm.name if policy.algorithm else "a search"
            raise _unreachable(policy, use, f"{name} cannot reach {use.name}", brings)


def _why_only_nodes(policy: Policy, uses: Sequence[_Use]) -> str | None:
    """Why algorithms that make regions cannot reach the models, if they cannot."""
    try:
        _require_models(policy, frozenset())
        _require_searchable(policy, uses, frozenset())
    except PolicyError as error:
        return error.message
    return None


def _unreachable(policy: Policy, use: ModelUse, message: str, brings: frozenset[str]) -> PolicyError:
    hint = "publish for the other models, and check this one with 'sqlanon check'"
    if is_searchable(plugin("models", use.name), OF_NODES) and "own_classes" not in brings:
        hint = f"take full_domain, which goes from node to node; or {hint}"
    return policy.error(message, "models", policy.models.index(use), hint=hint)


def _require_searchable(policy: Policy, uses: Sequence[_Use], brings: frozenset[str]) -> None:
    """Refuse what is not released, and of algorithms that do not go from node to node what only nodes can tell."""
    every = set(policy.quasi_identifiers)
    if not every:
        hint = "give the columns that an attacker may know the role quasi_identifier"
        raise PolicyError("a search needs a quasi_identifier column, none is declared", hint=hint)
    for item in uses:
        if "own_classes" not in brings:
            own = set(item.qid) != every or item.by or (policy.person is not None and not item.persons)
            if own:
                raise _unreachable(
                    policy, item.use, f"{item.use.name}: its classes are not those of the regions", brings
                )
            if not item.nulls_match:
                hint = "fill NULLs, or leave such rows out with 'query:'; or take the algorithm full_domain"
                raise policy.error("regions need 'nulls: value'", "nulls", hint=hint)
        for name in (*item.by, *item.counted, *item.secrets, *([item.guard] if item.guard else [])):
            column = policy.columns.get(name)
            hidden = column is None or (column.role == "identifier" and not column.pseudonym)
            if (hidden and name != policy.person) or (name == item.guard and (name in every or hidden)):
                message = f"{item.use.name} looks at '{name}', which is not released as it is"
                raise _unreachable(policy, item.use, message, brings)
        if item.secrets and not item.nulls_match:
            hint = "NULLs would match there after all: fill them, or take 'nulls: value'"
            raise policy.error(f"'nulls: unique' cannot be combined with {item.use.name}", "nulls", hint=hint)
        if "supersets" in item.model.needs and (not item.nulls_match or set(item.qid) != every):
            hint = "ask for it with all quasi-identifiers, and with 'nulls: value'"
            raise policy.error(f"{item.use.name}: what lies above a class of some columns is not searched", hint=hint)
    if any(not item.nulls_match or item.counted for item in uses):
        every_column = every.union(*(item.carried for item in uses))
        if len(every_column) > BITS:
            raise PolicyError(f"NULLs of more than {BITS} columns cannot be told apart", hint="declare fewer columns")


def _requirement(
    policy: Policy,
    prelude: Prelude,
    hierarchies: Mapping[str, Hierarchy],
    grouping: Grouping,
    packed: Compressed,
    item: _Use,
) -> Requirement:
    use, model, attribute = item.use, item.model, item.attribute
    relations: dict[str, str] = {}
    if attribute is not None:
        relations["totals"] = totals(prelude, grouping, attribute, numeric="numeric" in model.needs)
        if "taxonomy" in find_references(model.sql):
            relations["taxonomy"] = taxonomy(prelude, grouping, attribute, hierarchies[attribute])
    if item.guard is not None:
        relations["guards"] = totals(prelude, grouping, item.guard, numeric=False)
    compiler = Compiler(policy, hierarchies, prelude.dialect, policy.source, shared=prelude)
    compiler.parameter_relations(model, model.filled(use.params), relations)
    if "class_categories" in find_references(model.sql):
        null_is_value = policy.sensitive_nulls == "value"
        made = _value_categories(prelude, relations["totals"], relations["weights"], null_is_value=null_is_value)
        relations["value_categories"] = made
    special = None
    if attribute is not None and "class_probability" in find_references(model.sql):
        special = probabilities(packed, item.qid, attribute, relations["totals"], model.filled(use.params))
    elif attribute is not None and "class_supersets" in find_references(model.sql):
        special = supersets(packed, packed.values[attribute])
    elif "combinations" in model.needs:
        ranks = {name: totals(prelude, grouping, name, numeric=False) for name in item.secrets}
        special = freeform(packed, (*item.qid, *item.secrets), ranks, use.params["sensitive_values"])
    own = _own(policy, packed, item, everywhere=special is not None)
    # What is counted beside NULL, or on the levels of a node, may be less where more is generalized.
    grows = not any(name in policy.quasi_identifiers for name in item.counted)
    # A class of the release may have rows in a class that is broken and in others that are not; single rows with a NULL
    # fare alike where nothing but their number counts.
    alike = own is None or (not own.values and not (own.rows and attribute is not None))
    nested = ALSO_SUPPRESSED in model.monotone and alike and grows
    # Shares of persons do not add up: one person may be in several classes.
    adds_up = policy.person is None or ALSO_SUPPRESSED in model.monotone
    monotone = nested or (adds_up and grows and is_monotone(model, use.params))
    everybody = "population" in model.needs and float(str(use.params.get("delta_min", 0))) > 0
    return Requirement(use, model, attribute, relations, nested, monotone, everybody, own, special)


def _own(policy: Policy, packed: Compressed, item: _Use, *, everywhere: bool) -> Own | None:
    """The classes of a model, None where they are those of the release."""
    places = {name: place for place, name in enumerate(policy.quasi_identifiers)}
    qid = tuple(sorted(places[name] for name in item.qid))
    own = Own(
        qid,
        values=tuple(packed.values[name] for name in item.by),
        rows=not item.nulls_match,
        persons=item.persons,
        counted=tuple(places[name] if name in places else packed.values[name] for name in item.counted),
        partial=len(qid) < len(places),
        everywhere=everywhere,
    )
    plain = Own(tuple(places.values()), persons=policy.person is not None)
    return None if own == plain else own


def is_monotone(model: Plugin, params: Mapping[str, object]) -> bool:
    """Whether what holds goes on holding under generalization, with these parameters."""
    unless = model.monotone.partition("unless ")[2].split(";")[0].strip()
    return model.monotone.startswith("yes") and not (unless and params.get(unless))


def _value_categories(prelude: Prelude, values: str, weights: str, *, null_is_value: bool) -> str:
    same = exp.NullSafeEQ(this=exp.column("label", table="w"), expression=exp.column("label", table="t"))
    category: exp.Expr = exp.Coalesce(this=exp.column("category", table="w"), expressions=[literal(0)])
    if not null_is_value:
        category = case((exp.column("label", table="t").is_(exp.Null()), exp.Null()), default=category)
    tree = exp.select("t.value", alias(category, "category")).from_(table(values, alias="t"))
    joined = tree.join(table(weights, alias="w"), on=same, join_type="left")
    return prelude.once("value_categories", (values, weights), lambda: joined)
