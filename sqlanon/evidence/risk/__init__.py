"""How likely persons are found in a table, or what is found out about them: all risk measures of `sql/risk`.

Everything of the size of the data is done by the statements in `sql/risk`; what is solved here are equations on counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.checks import prepare, require_persons
from sqlanon.evidence.joined_tables import released_tables
from sqlanon.evidence.linked_rows import RowLink, find_link, link_rows, say_linked
from sqlanon.evidence.risk.estimates import population_uniqueness
from sqlanon.evidence.risk.special_uniques import Score, Subset, Suda, special_uniques
from sqlanon.evidence.risk.worst_case import worst_disclosure
from sqlanon.evidence.work_tables import Work
from sqlanon.families import Plugin, family, plugin
from sqlanon.policy import Policy, Source
from sqlanon.policy.person_shapes import ENTITY, ROWS, require_shape
from sqlanon.policy.suppressed_cells import READING
from sqlanon.relations.checks import Compiler
from sqlanon.relations.classes import (
    Grouping,
    Prelude,
    class_population,
    class_values,
    classes,
    grouped_rows,
    number_classes,
    totals,
)
from sqlanon.relations.entities import add_signatures, sign_rows
from sqlanon.relations.matching_classes import matches_any_value, matching_classes
from sqlanon.relations.risk_relations import (
    class_households,
    class_weights,
    improper_weights,
    missing_values,
    own_population,
    partitions,
    persons_and_rows,
)
from sqlanon.relations.row_sets import class_rows
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import (
    alias,
    bind,
    column,
    count_all,
    find_references,
    select,
    sum_bigint,
    table,
)

Numbers = Mapping[str, float | str | None]
MOST_KNOWLEDGE = 10  # implications; how to spread more over the records of a class takes too many ways
# Whose statements are asked for one by one, since something follows from them here.
FOLLOWED = ("population_uniqueness", "ck_safety", "distinction_separation", "suda")


@dataclass(frozen=True)
class Risk:
    """Risks of one table; nothing in it tells of a single person."""

    records: int
    classes: int
    quasi_identifiers: tuple[str, ...]
    counts: str  # rows, or persons
    threshold: float  # above which a record is at risk
    measures: Mapping[str, Numbers]  # by the name of the measure
    attributes: Mapping[str, Mapping[str, Numbers]] = field(default_factory=dict)  # by sensitive attribute
    subsets: tuple[Subset, ...] = ()
    suda: Suda | None = None
    notes: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()  # columns that link the rows of a person: classes are persons with one set of rows


@dataclass(frozen=True)
class RiskParams:
    """What is known beside the table, and what shall be measured."""

    weight: str | None = None
    household: str | None = None
    sampling_fraction: float | None = None
    threshold: float = 0.2
    knowledge: int = 3
    subsets: bool = False
    suda: bool = False
    max_size: int | None = None

    @property
    def rows_only(self) -> str | None:
        """What can be measured in rows only, if it was asked for."""
        if self.weight is not None:
            return "sampling weights"
        return "sets of quasi-identifiers" if self.subsets or self.suda else None

    @property
    def classes_only(self) -> str | None:
        """What can be measured on classes that do not overlap only, if it was asked for."""
        return "sampling fractions" if self.sampling_fraction is not None else self.rows_only


def risk(
    policy: Policy,
    engine: Engine,
    *,
    release: Source | None = None,
    weight: str | None = None,
    household: str | None = None,
    sampling_fraction: float | None = None,
    threshold: float = 0.2,
    knowledge: int = 3,
    subsets: bool = False,
    suda: bool = False,
    max_size: int | None = None,
    hidden: Sequence[str] = (),
) -> Risk:
    """Measure the risks of a policy's source, or of a release of it, inside the engine.

    Where the table shows a column that links the rows of a person, a class is made of the persons with the same set of
    rows. Where nothing links them, a person is as much at risk as the row that is hidden least.

    `weight` names the column of sampling weights, `household` the one of households; `sampling_fraction` is the share
    of the population that the table holds. `knowledge` is the most implications that an attacker may know; `subsets`
    and `suda` look at all sets of up to `max_size` quasi-identifiers. `hidden` are columns of a release that nobody
    will see, such as the person key.
    """
    engine.admit(policy)
    require_shape(policy, "the risk of single rows", ROWS, ENTITY)
    if release is not None and policy.shape == ENTITY:
        release = released_tables(policy, release)
    asked = RiskParams(weight, household, sampling_fraction, threshold, knowledge, subsets, suda, max_size)
    _require_sense(policy, asked)
    compiler, _, notes = prepare(policy.model_copy(update={"models": ()}), engine, release)
    if not compiler.policy.quasi_identifiers:
        raise PolicyError("no quasi-identifier is given", hint="say which columns an attacker may know: --qi age,zip")
    rows = relation(compiler.source, engine.dialect, compiler.child_columns)
    by_itself = compiler.entity is not None
    link = None if by_itself else find_link(policy, engine, rows, released=release is not None, hidden=hidden)
    sets = None
    known: Mapping[str, Numbers] = {}
    if compiler.entity is not None:
        _require_entities(policy, asked)
        require_persons(engine, compiler)
        known = {"known_persons": _known_persons(engine, compiler)}
        sets, link = _entity_classes(compiler), RowLink((policy.person or "",), policy.person or "")
        notes.append("classes are persons with the same rows")
    elif link is not None and not asked.rows_only:
        sets = link_rows(compiler, link, keep=policy.suppressed_rows == "keep")
        compiler.policy = compiler.policy.model_copy(update={"person": link.person})
        notes = [note for note in notes if not note.endswith("rows were counted, not persons")]
        notes.append(say_linked(link.columns))
        if policy.population is not None:
            notes.append("the population is compared with single rows: sets of rows are not looked up in it")
    work = Work(engine, compiler.prelude)
    try:
        work.run()  # rows that are numbered, where a NULL matches nothing
        grouping = _grouping(engine, compiler, asked)
        found = _Measuring(compiler, work, sets or grouping, asked, grouping, link if sets else None).all(notes)
        return replace(found, measures={**known, **found.measures})
    finally:
        work.drop()


def _require_entities(policy: Policy, asked: RiskParams) -> None:
    what = asked.classes_only or ("households" if asked.household is not None else None)
    if what is not None or policy.population is not None:
        raise PolicyError(
            f"{what or 'populations'} are compared with single rows, and persons are entities here",
            hint="leave that out, or measure a table with one row a person",
        )


def _entity_classes(compiler: Compiler) -> Grouping:
    """The classes of persons with the same signature."""
    policy = compiler.policy
    assert compiler.entity is not None and policy.person is not None
    names = add_signatures(compiler.prelude, compiler.entity, policy.person, [policy.quasi_identifiers])
    return Grouping((names[policy.quasi_identifiers],), person=policy.person)


def _known_persons(engine: Engine, compiler: Compiler) -> Numbers:
    """The persons who are found by all their rows, by one of them, or by how many they have."""
    policy = compiler.policy
    assert compiler.entity is not None and policy.person is not None
    prelude = Prelude(compiler.read.copy(), engine.dialect, prefix="sqlanon_known")
    signed = sign_rows(prelude, compiler.entity, [policy.person], policy.quasi_identifiers)
    entities = prelude.once(
        "signed", (), lambda: select(alias(exp.column("k1"), "person"), "signature", source=table(signed.owners))
    )
    persons = Grouping(policy.quasi_identifiers, person=policy.person)
    single = classes(prelude, persons)
    rows = prelude.once(
        "single_rows",
        (),
        lambda: number_classes(
            prelude,
            persons,
            grouped_rows(prelude, persons, {"person": column(policy.person or "")}, count_all()),
            ["person", "records"],
        ),
    )
    work = Work(engine, prelude)
    try:
        work.run()
        made = {"entities": entities, "person_rows": rows, "classes": single}
        number, *found = engine.query(bind(plugin("linking", "known_persons").sql, {}, made))[0]
    finally:
        work.drop()
    shares = [float(item or 0) / float(number) if number else 0.0 for item in found]
    return dict(zip(("by_all_rows", "by_one_row", "by_number"), shares, strict=True))


def risks_of_release(policy: Policy, engine: Engine, release: Source, **asked: Any) -> dict[str, Any]:
    """The risks of a source and of its release side by side, as plain data for a report."""
    return {
        "source": as_data(risk(policy, engine, **asked)),
        "release": as_data(risk(policy, engine, release=release, **asked)),
    }


def as_data(found: Risk) -> dict[str, Any]:
    """A risk as mappings, lists and numbers."""
    return asdict(found)


def _require_sense(policy: Policy, asked: RiskParams) -> None:
    fraction = asked.sampling_fraction
    if fraction is not None and not 0 < fraction <= 1:
        raise PolicyError(f"the sampling fraction must be above 0 and at most 1, not {fraction:g}")
    if fraction is not None and policy.population is not None:
        raise PolicyError(
            "a sampling fraction and a population are given",
            hint="give the population table if you have it, or the fraction if you have not",
        )
    if not 0 < asked.threshold <= 1:
        raise PolicyError(f"the threshold must be above 0 and at most 1, not {asked.threshold:g}")
    if not 0 <= asked.knowledge <= MOST_KNOWLEDGE:
        raise PolicyError(f"an attacker may know 0 to {MOST_KNOWLEDGE} implications, not {asked.knowledge}")
    if asked.max_size is not None and asked.max_size < 1:
        raise PolicyError(f"sets have at least one column, not {asked.max_size}")
    if asked.household is not None and asked.weight is None:
        raise PolicyError(
            "the risk of households needs sampling weights", hint="name their column: --weight; 1 for a full census"
        )
    if matches_any_value(policy) and (policy.population is not None or asked.classes_only):
        raise PolicyError(
            f"{asked.classes_only or 'populations'} need classes that do not overlap, but {READING}",
            hint="leave that out, or measure with 'suppressed_cells: own_value'",
        )
    if policy.nulls == "unique" and (asked.subsets or asked.suda):
        raise PolicyError(
            "'nulls: unique' cannot be combined with sets of quasi-identifiers",
            hint="every NULL would be a unique of its own: fill them, or take 'nulls: value'",
        )


def _grouping(engine: Engine, compiler: Compiler, asked: RiskParams) -> Grouping:
    """The classes; what counts rows may be asked of persons too, if each has one row."""
    policy, prelude = compiler.policy, compiler.prelude
    require_persons(engine, compiler)
    known = {
        item.name: item for item in engine.columns(relation(compiler.source, engine.dialect, compiler.child_columns))
    }
    for name in (asked.weight, asked.household):
        if name is not None and name not in known:
            raise PolicyError(f"column '{name}' is not in the table", hint=did_you_mean(name, known))
    if asked.weight is not None:
        if not known[asked.weight].numeric:
            raise PolicyError(
                f"'{asked.weight}' is of type {known[asked.weight].type}, and weights are numbers",
                hint="cast the column in a query",
            )
        wrong = int(engine.query(improper_weights(prelude, asked.weight))[0][0] or 0)
        if wrong:
            raise PolicyError(
                f"the weight '{asked.weight}' is NULL, zero, negative or not finite in {wrong:,} rows",
                hint="a weight says how many persons a row stands for: leave out rows that stand for nobody",
            )
    if asked.household is not None:
        nowhere = int(engine.query(missing_values(prelude, asked.household))[0][0] or 0)
        if nowhere:
            raise PolicyError(
                f"the household '{asked.household}' is NULL in {nowhere:,} rows",
                hint="give each row a household of its own at least",
            )
    person = policy.person
    if person is not None and asked.rows_only:
        persons, rows = engine.query(persons_and_rows(prelude, person))[0]
        if persons != rows:
            raise PolicyError(
                f"{asked.rows_only} count rows, but persons of '{person}' have several",
                hint="make a table with one row a person, or leave the person out",
            )
        person = None
    return Grouping(policy.quasi_identifiers, person=person, nulls_match=policy.nulls == "value")


@dataclass
class _Measuring:
    """The measures of one table, over relations that are made once."""

    compiler: Compiler
    work: Work
    grouping: Grouping
    asked: RiskParams
    by_row: Grouping  # the classes of single rows
    link: RowLink | None  # what links the rows of a person

    def all(self, notes: list[str]) -> Risk:
        policy, asked = self.compiler.policy, self.asked
        prelude = self.work.prelude
        if policy.sensitive and self.grouping.person is None:
            prelude.rolls_up_from.setdefault(self.grouping, policy.sensitive[0])
        sizes = self._sizes()
        records = sum(size * count for size, count in sizes.items())
        fraction = self._fraction(records)
        overlap = matches_any_value(policy) and self.link is None  # sets of rows are compared as they are shown
        plain = [] if overlap else [item for item in self._plain() if "sensitive" not in item.needs]
        measures = {item.name: self._numbers(item) for item in plain}
        if overlap:
            measures |= self._of_matching()
            notes.append(f"{READING}: someone who knows a suppressed value finds fewer rows than are counted here")
            if policy.sensitive:
                notes.append("what is found out about sensitive values is not measured where classes overlap")
        persons = self._persons()
        if persons is not None and persons < records:
            records = persons
            measures |= self._of_persons()
            notes.append("persons have several rows, which nothing links: each counts by the row that is hidden least")
        if fraction is not None and policy.population is None:
            measures["population_uniqueness"] = population_uniqueness(sizes, fraction)
        short = measures.get("journalist", {}).get("short_classes")
        if short:
            notes.append(f"{short:,} classes have more records than the population: is that table the population?")
        subsets: tuple[Subset, ...] = ()
        scores: Suda | None = None
        if asked.subsets or asked.suda:
            subsets, scores = special_uniques(
                self.work,
                self.grouping,
                max_size=asked.max_size,
                sampling_fraction=fraction,
                pairs=2 * sizes.get(2, 0),
            )
        return Risk(
            records=records,
            classes=sum(sizes.values()),
            quasi_identifiers=policy.quasi_identifiers,
            counts="persons" if self.grouping.person or policy.person else "rows",
            threshold=asked.threshold,
            measures=measures,
            attributes={name: self._of_attribute(name) for name in policy.sensitive if not overlap},
            subsets=subsets if asked.subsets else (),
            suda=scores if asked.suda else None,
            notes=tuple(dict.fromkeys(notes)),
            linked=self.link.columns if self.link is not None else (),
        )

    def _persons(self) -> int | None:
        """How many persons there are, however many classes they are in; None where rows are counted."""
        if self.grouping.person is None:
            return None
        return int(self.work.engine.query(persons_and_rows(self.work.prelude, self.grouping.person))[0][0])

    def _of_persons(self) -> dict[str, Numbers]:
        """The measures of classes for persons in several of them."""
        item = plugin("linking", "weakest_classes")
        prelude = self.work.prelude
        made = {"person_rows": class_rows(prelude, self.grouping), "classes": classes(prelude, self.grouping)}
        self.work.run()
        row = self.work.engine.query(bind(item.sql, {"threshold": self.asked.threshold}, made))[0]
        at_risk, highest, average, uniques, share = (_plain_number(value) for value in row)
        return {
            "prosecutor": {"records_at_risk": at_risk, "highest": highest, "average": average},
            "sample_uniqueness": {"uniques": uniques, "share": share},
        }

    def _of_matching(self) -> dict[str, Numbers]:
        """The measures of classes for rows that match more than their own class."""
        item, prelude = plugin("linking", "overlapping_classes"), self.work.prelude
        made = {"classes": classes(prelude, self.grouping)}
        made["matching_classes"] = matching_classes(prelude, self.grouping, self.compiler.hierarchies)
        self.work.run()
        row = self.work.engine.query(bind(item.sql, {"threshold": self.asked.threshold}, made))[0]
        at_risk, highest, average, uniques, share = (_plain_number(value) for value in row)
        return {
            "prosecutor": {"records_at_risk": at_risk, "highest": highest, "average": average},
            "marketer": {"average": average},
            "sample_uniqueness": {"uniques": uniques, "share": share},
        }

    def _plain(self) -> list[Plugin]:
        """The measures whose statement gives one row of numbers, as far as what they need is given."""
        policy, asked = self.compiler.policy, self.asked
        given = {"sensitive"}
        given |= {"population"} if policy.population is not None else set()
        given |= {"weight"} if asked.weight is not None else set()
        given |= {"household"} if asked.household is not None else set()
        return [
            item
            for item in family("risk").values()
            if not item.makes and item.name not in FOLLOWED and given.issuperset(item.needs)
        ]

    def _of_attribute(self, name: str) -> dict[str, Numbers]:
        found = {item.name: self._numbers(item, name) for item in self._plain() if "sensitive" in item.needs}
        atoms = self.asked.knowledge + 1
        rows = self._rows(plugin("risk", "ck_safety"), name)
        chosen = [(int(number), int(excluded), float(chance), float(odds)) for number, excluded, chance, odds in rows]
        worst = worst_disclosure(chosen, atoms)
        found["ck_safety"] = {str(known): value for known, value in enumerate(worst)}
        return found

    def _sizes(self) -> dict[int, int]:
        return {int(size): int(count) for size, count in self._rows(plugin("risk", "population_uniqueness"))}

    def _fraction(self, records: int) -> float | None:
        """The share of the population in the table: as given, or as the weights say."""
        asked = self.asked
        if asked.sampling_fraction is not None or not records:
            return asked.sampling_fraction
        if asked.weight is not None:
            weights = exp.Sum(this=exp.column("weight"))
            name = self._relation("class_weights", None)
            self.work.run()
            whole = float(self.work.engine.query(select(weights, source=table(name)))[0][0])
            return min(1.0, records / whole)
        if self.compiler.policy.population is not None:
            name = self._relation("class_population", None)
            self.work.run()
            people = self.work.engine.query(select(sum_bigint(exp.column("population")), source=table(name)))[0][0]
            return min(1.0, records / int(people)) if people else None
        return None

    def _numbers(self, item: Plugin, attribute: str | None = None) -> Numbers:
        names = bind(item.sql, self._params(item), {}).named_selects
        row = self._rows(item, attribute)[0]
        return {name: _plain_number(value) for name, value in zip(names, row, strict=True)}

    def _rows(self, item: Plugin, attribute: str | None = None) -> list[tuple[Any, ...]]:
        relations = {name: self._relation(name, attribute) for name in find_references(item.sql)}
        self.work.run()
        return self.work.engine.query(bind(item.sql, self._params(item), relations))

    def _params(self, item: Plugin) -> dict[str, Any]:
        given = {"threshold": self.asked.threshold, "atoms": self.asked.knowledge + 1}
        return item.filled({name: value for name, value in given.items() if item.param(name)})

    def _relation(self, name: str, attribute: str | None) -> str:
        prelude, grouping, policy = self.work.prelude, self.grouping, self.compiler.policy
        match name:
            case "classes":
                return classes(prelude, grouping)
            case "class_values" if attribute is not None:
                return class_values(prelude, grouping, attribute)
            case "totals" if attribute is not None:
                return totals(prelude, grouping, attribute, numeric=False)
            case "partitions":
                return partitions(prelude, self.asked.knowledge + 1)
            case "class_population" if policy.population is not None:
                rows = self.compiler.population
                if rows is None:
                    rows = relation(self.work.engine.resolve(policy.population), prelude.dialect)
                return class_population(prelude, self.by_row, rows, self.compiler.population_has_persons)
            case "class_population":
                return own_population(prelude, grouping)
            case "class_weights" if self.asked.weight is not None:
                return class_weights(prelude, grouping, self.asked.weight)
            case "class_households" if self.asked.household is not None:
                return class_households(prelude, grouping, self.asked.household)
        maker = next(item for item in family("risk").values() if item.makes == name)
        relations = {each: self._relation(each, attribute) for each in find_references(maker.sql)}
        return prelude.once(name, (grouping,), lambda: bind(maker.sql, self._params(maker), relations))


def _plain_number(value: Any) -> float | None:
    """Engines give integers, decimals and doubles; counts stay whole."""
    if value is None:
        return None
    return value if isinstance(value, int) else float(value)


__all__ = ["Risk", "RiskParams", "Score", "Subset", "Suda", "as_data", "risk", "risks_of_release"]
