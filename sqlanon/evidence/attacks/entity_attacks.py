"""Attacks on persons with trees of rows along foreign keys: somebody knows all rows of a person, and how they hang
together.

In a release a target is looked for by what is left of them: rows that are suppressed tell nobody from others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.attacks.journey_attacks import JourneyOutcome, judge_matches
from sqlanon.evidence.checks import prepare, require_persons
from sqlanon.evidence.joined_tables import released_tables
from sqlanon.evidence.work_tables import Work
from sqlanon.policy import Policy, Source
from sqlanon.relations.classes import Grouping, class_values, classes
from sqlanon.relations.entities import add_signatures
from sqlanon.sqltree.tree import alias, case, double, join_clause, literal, nest_query, select, table

ALL_ROWS, BY_VALUE = "linked_rows", "homogeneity"
NAMES = (ALL_ROWS, BY_VALUE)
CERTAINTY = 1.0  # as the attacks of the same names on single rows take it
Tried = list[tuple[str, str | None, JourneyOutcome, JourneyOutcome | None]]


def attack_entities(
    policy: Policy, engine: Engine, release: Source | None, names: Sequence[str], certainty: float | None
) -> Tried:
    """Persons who are alone with all their rows, and those of whom a sensitive value follows for all who share these:
    each attack, its sensitive column, and what it achieves on the source and on the release."""
    for name in names:
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) or f"for persons with joined tables there are {', '.join(NAMES)}"
            raise PolicyError(f"there is no attack on trees of rows called '{name}'", hint=hint)
    sure = CERTAINTY if certainty is None else certainty
    if not 0 < sure <= 1:
        raise PolicyError("'certainty' must be above 0 and at most 1")
    wanted = [name for name in NAMES if not names or name in names]
    sides = [_attack_side(policy, engine, each, wanted, sure) for each in ((None, release) if release else (None,))]
    keys = [(ALL_ROWS, None)] if ALL_ROWS in wanted else []
    found: list[tuple[str, str | None]] = [*keys]
    found += [(BY_VALUE, name) for name in policy.sensitive if BY_VALUE in wanted]
    return [(*key, sides[0][key], sides[1].get(key) if len(sides) > 1 else None) for key in found]


def _attack_side(
    policy: Policy, engine: Engine, release: Source | None, wanted: Sequence[str], sure: float
) -> dict[tuple[str, str | None], JourneyOutcome]:
    where = released_tables(policy, release) if release is not None else None
    compiler, _, _ = prepare(policy.model_copy(update={"models": ()}), engine, where)
    require_persons(engine, compiler)
    own = compiler.policy
    assert compiler.entity is not None and own.person is not None
    if not own.quasi_identifiers:
        raise PolicyError("no quasi-identifier is left to look for", hint="is it a release of this source?")
    signed = add_signatures(compiler.prelude, compiler.entity, own.person, [own.quasi_identifiers])
    grouping = Grouping((signed[own.quasi_identifiers],), person=own.person)
    work = Work(engine, compiler.prelude)
    found: dict[tuple[str, str | None], JourneyOutcome] = {}
    try:
        made = classes(compiler.prelude, grouping)
        values = {name: class_values(compiler.prelude, grouping, name) for name in own.sensitive if BY_VALUE in wanted}
        work.run()
        if ALL_ROWS in wanted:
            persons = exp.Sum(this=exp.column("records"))
            sizes = engine.query(select("records", persons, source=table(made), groups=["records"]))
            found[ALL_ROWS, None] = judge_matches([(int(size), int(number)) for size, number in sizes], 2)
        for name, listed in values.items():
            found[BY_VALUE, name] = _outcome(engine.query(_follows(made, listed, sure))[0])
        return found
    finally:
        work.drop()


def _follows(made: str, values: str, sure: float) -> exp.Select:
    """How surely the most frequent value of a class follows for its persons."""
    most = select(
        "class_id", alias(exp.Max(this=exp.column("records")), "most"), source=table(values), groups=["class_id"]
    )
    same = exp.column("class_id", table="v").eq(exp.column("class_id", table="c"))
    share = exp.Div(this=double(exp.column("most", table="v")), expression=exp.column("records", table="c"))
    shares = select(
        alias(exp.column("records", table="c"), "persons"), alias(share, "share"),
        source=table(made, alias="c"), joins=[join_clause(nest_query(most, "v"), same)],
    )  # fmt: skip
    persons, own = exp.column("persons"), exp.column("share")
    over = case((exp.GTE(this=own, expression=literal(sure - 1e-9)), persons), default=literal(0))
    weighted = exp.Sum(this=exp.Mul(this=own.copy(), expression=persons.copy()))
    return select(
        exp.Sum(this=persons.copy()), exp.Sum(this=over), exp.Max(this=own.copy()), weighted,
        source=nest_query(shares, "s"),
    )  # fmt: skip


def _outcome(row: tuple[Any, ...]) -> JourneyOutcome:
    targets, broken, highest, total = row
    if not targets:
        return JourneyOutcome(0, 0, None, None)
    return JourneyOutcome(int(targets), int(broken or 0), float(highest), float(total) / int(targets))
