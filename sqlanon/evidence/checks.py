"""Run compiled checks on an engine and gather what they measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine
from sqlanon.engines.temp_tables import SHOWN_VALUES, drop_steps, format_values, run_steps
from sqlanon.errors import PolicyError, RequirementBroken, SourceError, number
from sqlanon.evidence.absent_values import absent_values
from sqlanon.evidence.apply_transformations import apply, needs_secret
from sqlanon.evidence.bucket_evidence import as_groups, check_guarding, overfull
from sqlanon.evidence.entity_checks import count_rows, find_disclosed, key_columns, plan_disclosed, require_drawn
from sqlanon.evidence.hierarchies import build_hierarchies, require_valid
from sqlanon.evidence.joined_tables import child_columns, entity_tree, released_tables
from sqlanon.evidence.results import CheckResult, Counts, check_result, count_result
from sqlanon.families import plugin
from sqlanon.hierarchies import Hierarchy
from sqlanon.policy import Policy, Source, missing_columns
from sqlanon.policy.person_shapes import ENTITY, ROWS, SEQUENCE, SET, require_shape
from sqlanon.policy.suppressed_cells import READING
from sqlanon.relations.bucketization import parts_rows
from sqlanon.relations.checks import Check, Compiler
from sqlanon.relations.classes import Prelude
from sqlanon.relations.hierarchy_lookups import recode_columns
from sqlanon.relations.matching_classes import matches_any_value
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import column, count_all, nest_query, select, sum_bigint, table, text

if TYPE_CHECKING:
    from sqlanon.evidence.linked_rows import Linked

# What is made of the nodes above the labels of a release.
LOOKS_ABOVE = frozenset({"supersets", "probabilities"})


@dataclass(frozen=True)
class Evidence:
    """What a check measured, requirement by requirement, and whether all of them hold."""

    records: int
    checks: tuple[CheckResult, ...]
    suppressed: int = 0
    breaches: tuple[str, ...] = field(default=())  # what is wrong with the table as a whole
    notes: tuple[str, ...] = field(default=())
    counts: str = "rows"  # what classes are made of, or persons
    linked: Linked | None = None  # what sets of rows tell, where rows of a person are linked

    @property
    def holds(self) -> bool:
        safe = self.linked is None or self.linked.accepted or self.linked.holds
        return safe and not self.breaches and all(check.holds for check in self.checks)

    def raise_if_broken(self) -> Evidence:
        """An error that lists what is broken, if anything is; otherwise this evidence again."""
        if self.holds:
            return self
        broken = [
            f"{item.model}{f' of {item.attribute}' if item.attribute else ''}: {item.broken_classes:,} of "
            f"{item.classes:,} classes broken, the worst measures {number(item.measured)}"
            for item in self.checks
            if not item.holds
        ]
        if self.linked is not None and not self.linked.accepted:
            broken += self.linked.problems
        raise RequirementBroken(
            f"{len(broken) + len(self.breaches)} requirements are broken",
            detail="\n".join([*broken, *self.breaches]),
            hint="anonymize() makes a release that meets them; .checks shows the worst classes",
        )


def check(
    policy: Policy,
    engine: Engine,
    *,
    release: Source | None = None,
    hidden: Sequence[str] = (),
    limit: int = 5,
    progress: Callable[[int, int], None] | None = None,
    secret: str | None = None,
) -> Evidence:
    """Measure every model of a policy inside the engine: on its source, or on a release of it.

    Hierarchies are validated against the source; a release holds their labels instead of its values.
    `hidden` are columns of a staged release that nobody will see, such as the person key.
    `progress` is told after each step how many of how many are done.

    A policy with transformations is measured on its source as it is. A release of it is compared with the rows after
    the transformations, for which draws need the `secret`; without it, with the release itself.
    """
    engine.admit(policy)
    if policy.shape in (SET, SEQUENCE):  # what only some policies need is loaded for them
        if policy.shape == SET:
            from sqlanon.evidence.item_checks import check_items as measure
        else:
            from sqlanon.evidence.journey_checks import check_journeys as measure
        measured = measure(policy, engine, release, limit, progress)
        return Evidence(measured.records, measured.checks, 0, measured.breaches, measured.notes, counts="persons")
    require_shape(policy, "this check", ROWS, ENTITY)
    if release is not None and policy.shape == ENTITY:
        release = released_tables(policy, release)
    if not policy.transformations:
        return _check(policy, engine, release, hidden, limit, progress, [], whole=True)
    plain = policy.model_copy(update={"transformations": ()})
    if release is None:
        said = ["the source was measured as it is, before its transformations"]
        return _check(plain, engine, release, hidden, limit, progress, said, whole=True)
    if needs_secret(policy) and not secret:
        said = ["without SQLANON_KEY the rows after the transformations are not known: distributions were compared"]
        said[0] += " with that of the release itself, and what was suppressed was not counted"
        return _check(plain, engine, release, hidden, limit, progress, said, whole=False)
    made = apply(policy, engine, secret)
    try:
        return _check(made.policy, engine, release, hidden, limit, progress, [], whole=True)
    finally:
        drop_steps(engine, made.prelude.steps)


def _check(
    policy: Policy,
    engine: Engine,
    release: Source | None,
    hidden: Sequence[str],
    limit: int,
    progress: Callable[[int, int], None] | None,
    said: Sequence[str],
    *,
    whole: bool,
) -> Evidence:
    """`whole` where the source of the policy is what the release was made from."""
    parted: list[str] = []
    if release is not None and parts_rows(policy):
        policy, release, parted = as_groups(policy, engine, release)
    elif release is not None:
        parted = overfull(policy, engine, release)
        policy, beyond, unknown = check_guarding(policy, engine, release)
        parted, said = [*parted, *beyond], [*said, *unknown]
    compiler, checks, notes = prepare(policy, engine, release, whole=whole)
    notes = [*said, *notes]
    narrowed = compiler.policy
    steps = compiler.prelude.steps
    required = {item.result: item for item in checks if isinstance(item.result, str)}
    shared = plan_disclosed(compiler, checks) if compiler.entity is not None else {}
    try:
        planned = list(steps)
        for place, step in enumerate(planned, start=1):
            run_steps(engine, [step], lambda step: _require(engine, required.get(step.name)))
            if progress:
                progress(place, len(planned))
        for item in checks:
            if not isinstance(item.result, str):
                _require(engine, item)
        require_persons(engine, compiler)
        # A release holds labels in place of quasi-identifiers; its sensitive values are the original ones.
        checked = narrowed.sensitive if release else tuple(compiler.hierarchies)
        valid = {name: item for name, item in compiler.hierarchies.items() if name in checked}
        require_valid(narrowed, engine, valid, compiler.prelude)
        counted = [count_result(engine, item) for item in checks]
        by_table = {item.classes: counts for item, counts in zip(checks, counted, strict=True)}
        if compiler.entity is not None:
            records = count_rows(engine, compiler.entity)
        else:
            records = _records(engine, compiler.prelude, by_table)
        every = records
        if narrowed.suppressed_rows != "drop":
            every = _count(engine, relation(compiler.source, engine.dialect, compiler.child_columns))
        if records:
            notes += absent_values(narrowed, engine, checks)
        results = tuple(check_result(engine, item, counts, limit) for item, counts in zip(checks, counted, strict=True))
        breaches = _breaches(policy, engine, release, compiler, records if whole else None, hidden)
        breaches += parted + ([] if records else ["there is no row to measure"])
        breaches += find_disclosed(engine, shared)
        by_itself = parts_rows(policy) or compiler.entity is not None  # they look at what is linked themselves
        linked = None if by_itself or not records else _linked(policy, engine, release, compiler, hidden)
    finally:
        drop_steps(engine, steps)
    if every > records:
        notes.append("suppressed rows were left out of the checks: they must not keep their sensitive values")
    if matches_any_value(policy):
        notes.append(f"{READING}: rows that match are counted, and someone who knows a suppressed value finds fewer")
    counts = "rows" if narrowed.person is None else "persons"
    notes = list(dict.fromkeys(notes))
    return Evidence(records, results, every - records, tuple(breaches), tuple(notes), counts, linked)


def _linked(
    policy: Policy, engine: Engine, release: Source | None, compiler: Compiler, hidden: Sequence[str]
) -> Linked | None:
    """What sets of rows tell, if something in the release links the rows of a person."""
    if policy.person is None and not any(item.pseudonym for item in policy.columns.values()):
        return None  # nothing tells whose a row is
    from sqlanon.evidence.linked_rows import find_link, measure_linked

    rows = relation(compiler.source, engine.dialect, compiler.child_columns)
    link = find_link(policy, engine, rows, released=release is not None, hidden=hidden)
    if link is None:
        return None
    return measure_linked(policy, engine, compiler, link, keep=policy.suppressed_rows == "keep")


def require_persons(engine: Engine, compiler: Compiler) -> None:
    """Rows of nobody are no crowd to hide in, and no small part of one either: shares would come out too low."""
    require_persons_known(engine, compiler.policy.person, compiler.read)


def require_persons_known(engine: Engine, person: str | None, tree: exp.Select) -> None:
    """The same of rows that are not compiled yet."""
    if person is None:
        return
    rows = nest_query(tree.copy(), "source")
    found = _count(engine, select(exp.Star(), source=rows, where=column(person).is_(exp.Null())))
    if found:
        raise PolicyError(
            f"the person column '{person}' is NULL in {found} rows",
            hint="give each row a person, or leave such rows out with 'query:'",
        )


def _breaches(
    policy: Policy,
    engine: Engine,
    release: Source | None,
    compiler: Compiler,
    records: int | None,
    hidden: Sequence[str],
) -> list[str]:
    """What is wrong with the table as a whole, whatever its classes are like. `records` is None where it cannot be
    compared with the number of rows of the source."""
    found: list[str] = []
    if release is None:
        return found
    names = [item.name for item in engine.columns(relation(compiler.source, engine.dialect, compiler.child_columns))]
    shown = [name for name in policy.identifiers if name in names and name not in hidden]
    if compiler.entity is not None:
        drawn = key_columns(compiler.entity) | {policy.person}
        shown = [name for name in shown if name not in drawn]
        found += require_drawn(engine, policy.person or "", compiler.entity)
    for name in shown:
        if not policy.columns[name].pseudonym:
            found.append(f"the release holds the identifier '{name}'")
        elif _count(engine, _same_values(compiler, engine, policy, name)):
            found.append(f"the release holds values of the identifier '{name}' where pseudonyms should be")
    if records is None:
        return found
    if compiler.entity is not None:
        original = count_rows(engine, entity_tree(policy, engine, engine.resolve(policy.source)))
    else:
        original = _count(engine, relation(engine.resolve(policy.source), engine.dialect))
    missing = original - records
    # With a history rows also wait for a later release; how many more may is known when it is compared.
    limit = policy.suppression_limit if policy.history is None else 1.0
    if original and missing / original > limit + 1e-12:
        share = f"{missing / original:.1%} of the {original:,} rows of the source"
        found.append(f"{share} are suppressed, the limit is {limit:.1%}")
    return found


def _same_values(compiler: Compiler, engine: Engine, policy: Policy, name: str) -> exp.Select:
    """Released values of a column that are values of the source."""
    own = exp.select(text(column(name))).from_(
        relation(engine.resolve(policy.source), engine.dialect).subquery(alias="original")
    )
    released = relation(compiler.source, engine.dialect).subquery(alias="released")
    return exp.select("*").from_(released).where(text(column(name)).isin(query=own))


def prepare(
    policy: Policy, engine: Engine, release: Source | None = None, *, whole: bool = True
) -> tuple[Compiler, list[Check], list[str]]:
    """Compile the checks of a policy for what the engine holds; nothing but the schema is read yet."""
    source = engine.resolve(release or policy.source)
    children = child_columns(policy, engine, source)
    available = engine.columns(relation(source, engine.dialect, children))
    names = [item.name for item in available]
    freeform = [use.name for use in policy.models if "combinations" in plugin("models", use.name).needs]
    if policy.nulls == "unique" and (policy.population is not None or freeform):
        raise PolicyError(
            f"'nulls: unique' cannot be combined with {freeform[0] if freeform else 'a population'}",
            hint="NULLs would match there after all: fill them, or take 'nulls: value'",
        )
    notes: list[str] = []
    hierarchies = build_hierarchies(policy)
    if release is None:
        missing_columns(policy, names)
    else:
        policy, notes = _as_released(policy, names)
    entity = entity_tree(policy, engine, source) if policy.shape == ENTITY else None
    compiler = Compiler(policy, hierarchies, engine.dialect, source, child_columns=children, entity=entity)
    if policy.population is not None and policy.person is not None:
        held = engine.columns(relation(engine.resolve(policy.population), engine.dialect))
        compiler.population_has_persons = policy.person in [item.name for item in held]
    if release is not None and policy.population is not None:
        compiler.population = _population_like(policy, engine, compiler, hierarchies)
    if release is not None:
        compiler.prelude.originals = _originals(policy, engine) if whole else None
    if release is not None and whole:
        compiler.prelude.baseline = _distribution(policy, engine, compiler)
    checks = compiler.checks()
    _require_numbers(policy, checks, available)
    return compiler, checks, notes


def _distribution(policy: Policy, engine: Engine, compiler: Compiler) -> exp.Select | None:
    """What the world knows is the distribution of the source: a release is compared with that, as it was searched for,
    and not with what suppression left of it. With counterfeit rows it is that of the release: these may have values
    that the source has lost."""
    if policy.algorithm_traits.counterfeits:
        return None
    rows = relation(engine.resolve(policy.source), engine.dialect)
    names = [item.name for item in engine.columns(rows)]
    needed = [*policy.sensitive, *([policy.person] if policy.person else [])]
    return rows if not policy.source.joins and all(name in names for name in needed) else None


def _originals(policy: Policy, engine: Engine) -> exp.Select | None:
    """The rows whose values a release shows as labels, where a model asks for them and they have all its columns."""
    if not any(LOOKS_ABOVE.intersection(plugin("models", use.name).needs) for use in policy.models):
        return None
    source = engine.resolve(policy.source)
    rows = relation(source, engine.dialect, child_columns(policy, engine, source))
    names = [item.name for item in engine.columns(rows)]
    return rows if all(name in names for name in policy.quasi_identifiers) else None


def _as_released(policy: Policy, available: list[str]) -> tuple[Policy, list[str]]:
    """The policy as it applies to a release, which has no identifiers and perhaps no person key."""
    kept = {name: item for name, item in policy.columns.items() if item.role in ("quasi_identifier", "sensitive")}
    person = policy.person if policy.person in available else None
    narrowed = policy.model_copy(update={"columns": kept, "person": person})
    lacking = [name for name in kept if name not in available]
    if lacking and parts_rows(policy) and policy.algorithm is not None:
        raise PolicyError(
            f"{policy.algorithm.name} took sensitive values apart from their rows: this is not measured on its release",
            hint="'sqlanon check' measures its groups; for attacks on groups see 'sqlanon explain "
            f"{policy.algorithm.name}'",
        )
    if lacking:
        raise SourceError(
            f"the release lacks {', '.join(repr(name) for name in lacking)}",
            hint=f"it has {', '.join(repr(name) for name in available[:20])}",
        )
    undeclared = [name for name in available if name not in policy.columns]
    notes = [f"column '{name}' of the release has no role in the policy" for name in undeclared]
    if person is None and policy.shape == ENTITY:
        raise SourceError(
            f"the release lacks '{policy.person}', the number that tells which rows belong to one person",
            hint=f"it has {', '.join(repr(name) for name in available[:20])}",
        )
    if person != policy.person:
        needs_persons = [use.name for use in policy.models if "person" in plugin("models", use.name).needs]
        if needs_persons:
            raise PolicyError(f"{needs_persons[0]} counts persons, but the release has no column '{policy.person}'")
        notes.append(f"the release has no column '{policy.person}': rows were counted, not persons")
    return narrowed, notes


def _population_like(
    policy: Policy, engine: Engine, compiler: Compiler, hierarchies: Mapping[str, Hierarchy]
) -> exp.Select:
    """The population, generalized to the levels of the release, as the values of the source tell them."""
    from sqlanon.evidence.loss import infer_levels

    assert policy.population is not None
    values = Prelude(relation(engine.resolve(policy.source), engine.dialect), engine.dialect)
    try:
        levels = infer_levels(policy, engine, values, compiler.prelude.rows, hierarchies)
    finally:
        drop_steps(engine, values.steps)
    rows = relation(engine.resolve(policy.population), engine.dialect)
    kept = {name: name for name in policy.quasi_identifiers}
    if compiler.population_has_persons and policy.person:
        kept[policy.person] = policy.person
    return recode_columns(compiler.prelude, rows, dict(hierarchies), levels, kept)


def _require(engine: Engine, item: Check | None) -> None:
    """What a model requires of the data is looked at before its result is computed."""
    for requirement in item.requirements if item else ():
        found = engine.query(requirement.query.order_by("records DESC", "value").limit(SHOWN_VALUES + 1))
        if found:
            raise PolicyError(requirement.message, detail=format_values(found), hint=requirement.hint)


def _require_numbers(policy: Policy, checks: list[Check], available: list[ColumnInfo]) -> None:
    types = {item.name: item for item in available}
    for item in checks:
        known = types.get(item.attribute or "")
        if "numeric" in item.model.needs and known is not None and not known.numeric:
            raise PolicyError(
                f"{item.model.name} measures distances, but '{known.name}' is of type {known.type}",
                hint="use it for a numeric column, or cast the column in a query",
            )


def _records(engine: Engine, prelude: Prelude, counted: Mapping[str, Counts]) -> int:
    """The rows that were measured; a file or a view is not read again where classes of rows add up to them."""
    made = prelude.row_classes()
    if made is None:
        return _count(engine, prelude.rows.copy())
    if made in counted:
        return counted[made].records
    return int(engine.query(select(sum_bigint(exp.column("records")), source=table(made)))[0][0] or 0)


def _count(engine: Engine, rows: exp.Select) -> int:
    return int(engine.query(select(count_all(), source=nest_query(rows, "source")))[0][0])
