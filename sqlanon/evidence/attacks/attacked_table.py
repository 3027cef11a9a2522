"""One table that is attacked: the source of a policy as it is, or a release of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.checks import prepare, require_persons
from sqlanon.evidence.region_labels import pieces_of
from sqlanon.evidence.work_tables import Work
from sqlanon.policy import Policy, Source
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.checks import Compiler
from sqlanon.relations.classes import Grouping, Prelude
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import column, nest_query, select, table, union_all

MOST_REGIONS = 200_000  # labels of one column that are read one by one


class NotJudged(PolicyError):
    """An attack cannot tell anything about a table; the message is the reason."""


@dataclass
class Side:
    """A table with its classes. `changed` are columns whose values a transformation may have replaced; `fits` are the
    tables of which labels cover which values of whom, which most attacks ask for."""

    compiler: Compiler
    work: Work
    grouping: Grouping
    released: bool
    changed: frozenset[str] = frozenset()
    fits: dict[tuple[str, str, str], str] = field(default_factory=dict)

    @property
    def prelude(self) -> Prelude:
        return self.compiler.prelude

    def known(self, targets: Targets) -> list[str]:
        """The columns that the table shows, and that are known of targets."""
        return [name for name in targets.known if name in self.grouping.columns]

    def numeric(self) -> set[str]:
        rows = relation(self.compiler.source, self.work.engine.dialect, self.compiler.child_columns)
        return {item.name for item in self.work.engine.columns(rows) if item.numeric}

    def drop(self) -> None:
        self.work.drop()


def side_of(
    policy: Policy, engine: Engine, release: Source | None, prefix: str, notes: list[str], *, partial: bool = False
) -> Side:
    """Prepare a table; its temporary tables begin with `prefix`, so that several may live at a time. One that is
    `partial` need not show all columns: it is one view of several."""
    plain = policy.model_copy(update={"models": (), "population": None})
    if partial and release is not None:
        held = [item.name for item in engine.columns(relation(engine.resolve(release), engine.dialect))]
        shown = {name: item for name, item in policy.columns.items() if name in held or item.role == "identifier"}
        kept = {name: use for name, use in policy.hierarchies.items() if name in shown}
        plain = plain.model_copy(update={"columns": shown, "hierarchies": kept})
    compiler, _, said = prepare(plain, engine, release, whole=not policy.transformations)
    notes += said
    narrowed = compiler.policy
    if not narrowed.quasi_identifiers:
        raise PolicyError("no quasi-identifier is given", hint="say which columns an attacker may know: --qi age,zip")
    compiler.prelude = _prefixed(compiler.prelude, prefix)
    compiler.read = compiler.prelude.rows
    work = Work(engine, compiler.prelude)
    work.run()  # rows that are numbered, where a NULL matches nothing
    require_persons(engine, compiler)
    grouping = Grouping(narrowed.quasi_identifiers, person=narrowed.person, nulls_match=narrowed.nulls == "value")
    changed = {name for use in policy.transformations for name in use.changed()} if release else set()
    if release and policy.algorithm_traits.guards:
        changed |= set(policy.sensitive)
    return Side(compiler, work, grouping, release is not None, frozenset(changed))


def _prefixed(prelude: Prelude, prefix: str) -> Prelude:
    """The same with names of its own, also for the rows that are numbered where a NULL matches nothing."""
    made = Prelude(prelude.rows, prelude.dialect, prefix=prefix, baseline=prelude.baseline)
    for step in prelude.steps:
        made.rows = select(exp.Star(), source=table(made.once("rows", (), lambda step=step: step.query)))  # type: ignore[misc]
    return made


@dataclass
class Targets:
    """The persons whom an attacker is after: those of an external table, or of the source itself.

    `known` are the quasi-identifiers that the attacker knows of them; `values` holds all values of these columns that
    occur in the source or the external table, for hierarchies to be read."""

    work: Work
    grouping: Grouping
    known: tuple[str, ...]
    types: Mapping[str, str]
    values: Work
    external: bool
    numeric: frozenset[str]  # columns that hold numbers

    @property
    def table(self) -> str:
        return relations.targets(self.work.prelude, self.grouping)

    def drop(self) -> None:
        self.work.drop()
        self.values.drop()


def targets_of(policy: Policy, engine: Engine, external: Source | None, prefix: str = "sqlanon_targets") -> Targets:
    source = relation(engine.resolve(policy.source), engine.dialect)
    held = {item.name: item.type for item in engine.columns(source)}
    numbers = frozenset(item.name for item in engine.columns(source) if item.numeric)
    types = {name: held[name] for name in policy.quasi_identifiers}
    rows, known, person = source, policy.quasi_identifiers, policy.person
    if external is not None:
        given = relation(engine.resolve(external), engine.dialect)
        names = [item.name for item in engine.columns(given)]
        known = tuple(name for name in policy.quasi_identifiers if name in names)
        if not known:
            raise PolicyError(
                "the external table has none of the quasi-identifiers",
                hint=did_you_mean(policy.quasi_identifiers[0], names) or "columns of one meaning must have one name",
            )
        person = policy.person if policy.person in names and policy.person in held else None
        kept = [*known, *([person] if person else [])]
        rows = relations.rows_like(given, {name: held[name] for name in kept}, engine.dialect)
    else:
        needed = dict.fromkeys((*known, *policy.sensitive, *([person] if person else [])))
        rows = select(*(column(name) for name in needed), source=nest_query(source, "given"))
    columns = [
        select(*(column(name) for name in known), source=nest_query(each.copy(), "t")) for each in (source, rows)
    ]
    everything = columns[0] if external is None else union_all(columns)
    whole = select(exp.Star(), source=nest_query(everything, "every_value"))
    every = Prelude(whole, engine.dialect, prefix=f"{prefix}_values")
    prelude = Prelude(rows, engine.dialect, prefix=prefix)
    return Targets(
        Work(engine, prelude), Grouping(known, person=person), known, {name: types[name] for name in known},
        Work(engine, every), external is not None, numbers,
    )  # fmt: skip


def find_target_classes(targets: Targets, side: Side) -> str:
    """The table target_classes(group_id, class_id) of a side."""
    known = side.known(targets)
    wanted, shown = targets.table, relations.spell_classes(side.prelude, side.grouping, known)
    targets.work.run()
    side.work.run()
    fits = fits_of(targets, side) if side.released else None
    places = [targets.known.index(name) + 1 for name in known]
    made = relations.target_classes(side.prelude, wanted, shown, places, fits)
    side.work.run()
    return made


def fits_of(targets: Targets, side: Side) -> list[str]:
    """For each column that is known and shown, which labels cover which values of the targets."""
    known = side.known(targets)
    wanted, shown = targets.table, relations.spell_classes(side.prelude, side.grouping, known)
    targets.work.run()
    side.work.run()
    for place, name in enumerate(known, start=1):
        if (wanted, shown, name) not in side.fits:
            side.fits[wanted, shown, name] = _fits(targets, side, name, place, wanted, shown)
    return [side.fits[wanted, shown, name] for name in known]


def _fits(targets: Targets, side: Side, name: str, place: int, wanted: str, shown: str) -> str:
    hierarchy = side.compiler.hierarchies.get(name) or root_only()
    known = relations.cover_values(targets.values.prelude, name, hierarchy)
    targets.values.run()
    regions = _regions(targets, side, name, place, known, shown)
    places = (targets.known.index(name) + 1, place)
    made = relations.fit_labels(side.prelude, places, wanted, shown, known, hierarchy.root, regions)
    side.work.run()
    return made


def _regions(targets: Targets, side: Side, name: str, place: int, known: str, shown: str) -> exp.Query | None:
    """What labels stand for that are regions. Any other label that nobody can read is refused: an attack that looks for
    it in vain would seem to fail."""
    engine = side.work.engine
    strange = engine.query(relations.unknown_labels(shown, place, known, None).limit(MOST_REGIONS + 1))
    if not strange or name in side.changed:
        return None
    read = {str(label): pieces_of(str(label)) for (label,) in strange}
    if len(strange) > MOST_REGIONS or not all(read.values()):
        raise PolicyError(
            f"the release shows '{name}' by labels that neither its hierarchy nor the values of the source explain",
            hint="is it a release of this source, under this policy, and was the source changed since?",
        )
    rows = [(label, kind, low, high) for label, pieces in read.items() for kind, low, high in pieces or ()]
    columns = ("label", "range", "low", "high")
    pieces = targets.values.prelude.load("pieces", (name, shown), columns, tuple(rows))
    kind = exp.DataType.build(targets.types[name], dialect=engine.dialect)
    regions = relations.region_values(targets.values.prelude, name, kind, known, pieces)
    targets.values.run()
    return regions
