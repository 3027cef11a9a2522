"""Whether the rows of a person can be linked in a release, and what whole sets of rows tell then.

A column that the release shows links the rows of a person if it is the person itself, as a pseudonym or as it is. Any
other column links them if at least one in ten rows of persons with several rows has a value that another row of the
same person has, and no row of anybody else. All columns that hardly ever change within a person are tried together in
the same way: values that many share may be rare in combination. Quasi-identifiers by themselves link nobody, since the
models look at classes of them.

Without a person column in the policy each row is taken for a person; a pseudonym that occurs in several rows is taken
for one in its place.

Where rows are linked, a class is made of the persons who have the same set of rows: as many rows in each class of the
quasi-identifiers. For sensitive values two questions are asked, and a model must hold for both: what does a person with
this set have in this row, and what in any row? Values are counted once a person. Beyond the models, no value may be
shared by all persons with one set, each of whom may have several values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.evidence.joined_tables import child_columns
from sqlanon.evidence.results import CheckResult, check_result, count_result
from sqlanon.families import plugin
from sqlanon.policy import Policy
from sqlanon.policy.parts import Column
from sqlanon.policy.person_shapes import ROWS
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.checks import BUILT_ON_COLUMNS, Compiler
from sqlanon.relations.classes import Grouping, Prelude, class_values, classes
from sqlanon.relations.row_sets import LINKED, add_row_sets, constant_columns, linked_records, shared_sets, with_linked
from sqlanon.relations.source import SUPPRESSED, relation, rows_to_check
from sqlanon.sqltree.tree import bind, column, find_references, nest_query, select, table

LINKED_SHARE = 0.1  # of the rows of persons with several rows: a column that links so many links persons
CONSTANT_SHARE = 0.9  # of persons with several rows: a column with one value for so many hardly ever changes
HINT = (
    "leave out the pseudonym or column that links rows; take coarser hierarchies, or one row a person; or write "
    "'linked_rows: accept', and these persons are published as they are, singled out"
)


@dataclass(frozen=True)
class Linked:
    """What was measured on sets of rows. `checks` ask what a person has in a known row, `any_row` what in any of them.
    `disclosed` counts, for each sensitive attribute, persons whose value is that of everybody with the same set."""

    columns: tuple[str, ...]
    persons: int
    several: int  # of them with several rows
    alone: int  # of them with a set of rows that nobody else has
    fewest: int  # persons who share a set
    sets: int
    accepted: bool = False
    checks: tuple[CheckResult, ...] = ()
    any_row: tuple[CheckResult, ...] = ()
    disclosed: Mapping[str, int] = field(default_factory=dict)
    not_measured: tuple[str, ...] = ()  # models that cannot be measured on sets: what is not measured is not safe

    @property
    def holds(self) -> bool:
        return not self.problems

    @property
    def said(self) -> str:
        return say_linked(self.columns)

    @property
    def uniqueness(self) -> str:
        return f"{self.alone:,} of {self.persons:,} persons have a set of rows that nobody else has"

    @property
    def problems(self) -> list[str]:
        """What is wrong, in words and numbers."""
        named = [(item, "on sets of rows") for item in self.checks]
        named += [(item, "in any row of a set") for item in self.any_row]
        found = [
            f"{item.model}{f' of {item.attribute}' if item.attribute else ''}, {where}: "
            f"{item.broken_classes:,} of {item.classes:,} classes broken"
            for item, where in named
            if not item.holds
        ]
        found += [
            f"{name}: {persons:,} persons share their set of rows only with persons who have the same value"
            for name, persons in self.disclosed.items()
            if persons
        ]
        return found + [f"{name} cannot be measured on sets of rows" for name in self.not_measured]


@dataclass(frozen=True)
class RowLink:
    """The columns that link rows, and the column whose values are the persons then."""

    columns: tuple[str, ...]
    person: str


def as_linked_rows(policy: Policy) -> Policy:
    """A policy of entities as one of rows that the person links: for what looks at rows, and at whole sets of them."""
    assert policy.person is not None
    linked = Column(role="identifier", pseudonym=True)
    columns = {**policy.columns, policy.person: linked}
    return policy.model_copy(update={"shape": ROWS, "columns": columns, "algorithm": None})


def say_linked(columns: Sequence[str]) -> str:
    what = f"column {columns[0]}" if len(columns) == 1 else f"the columns {', '.join(columns)} together"
    return f"rows of a person are linked by {what}: classes are persons with the same set of rows"


def find_link(
    policy: Policy, engine: Engine, rows: exp.Select, *, released: bool, hidden: Sequence[str] = ()
) -> RowLink | None:
    """What links the rows of a person in a release; or what would, if `rows` are those of the source."""
    names = [item.name for item in engine.columns(rows)]
    shown = [name for name in names if name not in hidden]
    if not released:
        shown = [name for name in shown if _is_released(policy, name)]
    person = policy.person
    if person is None:
        return _by_pseudonym(policy, engine, rows, shown)
    if person in names:
        if person in shown:
            return RowLink((person,), person) if _has_several(engine, rows, person) else None
        found = _by_values(policy, engine, rows, shown, person)
        return RowLink(found, person) if found else None
    # The release has no persons; its columns are those of the source, where they are known.
    given = engine.resolve(policy.source)
    source = relation(given, engine.dialect, child_columns(policy, engine, given))
    known = [item.name for item in engine.columns(source)]
    if person not in known:
        return None
    both = [name for name in shown if name in known and name not in policy.quasi_identifiers]
    found = _by_values(policy, engine, source, both, person)
    return RowLink(found, LINKED) if found else None


def _is_released(policy: Policy, name: str) -> bool:
    item = policy.columns.get(name)
    return item is not None and (item.role != "identifier" or item.pseudonym)


def _has_several(engine: Engine, rows: exp.Select, person: str) -> bool:
    return int(engine.query(constant_columns(rows.copy(), column(person), ()))[0][0]) > 0


def _by_pseudonym(policy: Policy, engine: Engine, rows: exp.Select, shown: Sequence[str]) -> RowLink | None:
    """The pseudonym with most values of those that occur in several rows."""
    hashed = [name for name in shown if name in policy.columns and policy.columns[name].pseudonym]
    if not hashed:
        return None
    distinct = [exp.Count(this=exp.Distinct(expressions=[column(name)])) for name in hashed]
    filled = [exp.Count(this=column(name)) for name in hashed]
    counted = engine.query(select(*distinct, *filled, source=nest_query(rows.copy(), "source")))[0]
    pairs = zip(hashed, counted[: len(hashed)], counted[len(hashed) :], strict=True)
    several = {name: int(different) for name, different, known in pairs if different < known}
    if not several:
        return None
    return RowLink((max(several, key=lambda name: several[name]),), LINKED)


def _by_values(
    policy: Policy, engine: Engine, rows: exp.Select, shown: Sequence[str], person: str
) -> tuple[str, ...] | None:
    """The columns by whose values rows of a person are known to belong together."""
    others = [name for name in shown if name not in policy.quasi_identifiers]
    if not others:
        return None
    several, records, *constant = engine.query(constant_columns(rows.copy(), column(person), shown))[0]
    if not several:
        return None
    steady = [
        name for name, number in zip(shown, constant, strict=True) if int(number) >= CONSTANT_SHARE * int(several)
    ]
    sets: list[tuple[str, ...]] = [(name,) for name in others]
    if len(steady) > 1 and set(steady) & set(others):
        sets.append(tuple(steady))
    found = {
        sets[int(place)]: int(linked or 0) for place, linked in engine.query(linked_records(rows, column(person), sets))
    }
    best = max(sets, key=lambda names: (found[names], -len(names)))
    return best if found[best] >= LINKED_SHARE * int(records) else None


def measure_linked(policy: Policy, engine: Engine, compiler: Compiler, link: RowLink, *, keep: bool) -> Linked:
    """Measure the models of a policy on the sets of rows of persons. `compiler` is that of the checks on single rows;
    `keep` where suppressed rows stay in the release, so that everybody sees how many a person has."""
    narrowed = compiler.policy
    measured = [use for use in narrowed.models if is_measurable(use.name)]
    asked = narrowed.model_copy(update={"models": tuple(measured), "person": link.person})
    prelude = sets_prelude(compiler, link)
    qids = list(dict.fromkeys(qid for use in measured for qid in compiler.qids(use)))
    every = narrowed.quasi_identifiers or (qids[0] if qids else ())
    match = narrowed.nulls == "value"
    try:
        sets = add_row_sets(prelude, link.person, [every, *qids], nulls_match=match)
        whole = shared_sets(prelude, link.person, every, nulls_match=match)
        if keep:
            prelude.rows = _without_suppressed(prelude.rows, narrowed)
        given: dict[str, Any] = {"shared": prelude, "row_sets": sets, "linked": True}
        about_values = tuple(use for use in measured if "sensitive" in plugin("models", use.name).needs)
        blind = asked.model_copy(update={"models": about_values})
        parts = (compiler.hierarchies, compiler.dialect, compiler.source)
        checks = Compiler(asked, *parts, **given).checks()
        any_row = Compiler(blind, *parts, **given, by_row=False).checks()
        looked_at = {item.attribute for item in any_row if item.attribute is not None}
        persons = Grouping((sets[every],), person=link.person)
        known = {name: (classes(prelude, persons), class_values(prelude, persons, name)) for name in sorted(looked_at)}
        run_steps(engine, prelude.steps)
        measures = [check_result(engine, item, count_result(engine, item), limit=0) for item in (*checks, *any_row)]
        disclosed = {name: _disclosed(engine, *tables) for name, tables in known.items()}
        people, several, alone, fewest, number = (int(value or 0) for value in engine.query(whole)[0])
    finally:
        drop_steps(engine, prelude.steps)
    lacking = tuple(use.name for use in narrowed.models if use not in measured)
    return Linked(
        columns=link.columns,
        persons=people,
        several=several,
        alone=alone,
        fewest=fewest,
        sets=number,
        accepted=policy.linked_rows == "accept",
        checks=tuple(measures[: len(checks)]),
        any_row=tuple(measures[len(checks) :]),
        disclosed=disclosed,
        not_measured=lacking,
    )


def link_rows(compiler: Compiler, link: RowLink, *, keep: bool) -> Grouping:
    """Give a compiler the rows of a release with the sets of its persons; the classes of persons with the same set."""
    policy = compiler.policy
    prelude = sets_prelude(compiler, link)
    match = policy.nulls == "value"
    sets = add_row_sets(prelude, link.person, [policy.quasi_identifiers], nulls_match=match)
    if keep:
        prelude.rows = _without_suppressed(prelude.rows, policy)
    compiler.prelude = prelude
    return Grouping((sets[policy.quasi_identifiers],), person=link.person)


def _without_suppressed(rows: exp.Select, policy: Policy) -> exp.Select:
    return rows_to_check(
        rows,
        policy.quasi_identifiers,
        suppressed_marker=SUPPRESSED,
        number_rows=False,
        sensitive=policy.sensitive,
    )


def is_measurable(name: str) -> bool:
    """Whether a model can be measured on classes that are sets of rows.

    >>> is_measurable("k_anonymity"), is_measurable("k_map")
    (True, False)
    """
    model = plugin("models", name)
    return not (find_references(model.sql) & BUILT_ON_COLUMNS or model.counts or "combinations" in model.needs)


def sets_prelude(compiler: Compiler, link: RowLink, prefix: str = "sqlanon_sets") -> Prelude:
    """The rows of a release, all of them, with the column that tells persons apart."""
    policy = compiler.policy
    rows = relation(compiler.source, compiler.dialect, compiler.child_columns)
    baseline = compiler.prelude.baseline
    if link.person == LINKED:
        rows = with_linked(rows, link.columns)
        baseline = with_linked(baseline.copy(), link.columns) if baseline is not None else None
    unique = policy.nulls == "unique"
    rows = rows_to_check(rows, policy.quasi_identifiers, suppressed_marker=None, number_rows=unique)
    prelude = Prelude(rows, compiler.dialect, prefix=prefix, baseline=baseline)
    prelude.null_is_value = policy.sensitive_nulls == "value"
    if unique:  # rows must keep their numbers from one statement to the next
        prelude.rows = select(exp.Star(), source=table(prelude.once("rows", (), lambda: rows)))
    return prelude


def _disclosed(engine: Engine, sizes: str, values: str) -> int:
    """Persons who share their set of rows only with persons who have the same sensitive value."""
    tree = bind(plugin("attacks", "homogeneity").sql, {}, {"classes": sizes, "class_values": values})
    return int(engine.query(relations.confidence(tree))[0][1])
