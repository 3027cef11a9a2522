"""Measure what the verdicts by regulation judge, on the release as written, and judge it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine, connect
from sqlanon.errors import EngineError, PolicyError, SourceError
from sqlanon.evidence.attacks import as_data as attack_data
from sqlanon.evidence.attacks import attack
from sqlanon.evidence.attacks.item_attacks import find_alike_sets
from sqlanon.evidence.attacks.journey_attacks import find_alike_journeys
from sqlanon.evidence.journey_checks import moves_places
from sqlanon.evidence.json_values import mapping, text
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.evidence.risk import as_data as risk_data
from sqlanon.evidence.risk import risk
from sqlanon.families import names_with_trait
from sqlanon.paths.journeys import GROUP_NUMBER
from sqlanon.policy import Policy, Source
from sqlanon.policy.gateway import Gateway
from sqlanon.policy.person_shapes import ENTITY, SEQUENCE, SET
from sqlanon.relations.bucketization import GROUP, RECORDS
from sqlanon.relations.itemsets import PERSON_NUMBER
from sqlanon.relations.source import relation
from sqlanon.release.measure_resistance import published_source
from sqlanon.release.record import current_sources
from sqlanon.release.stored_evidence import load_evidence
from sqlanon.sqltree.tree import column, count_all, nest_query, select
from sqlanon.verdict import RegulationVerdict, judge_release
from sqlanon.verdict.column_contents import ReleasedColumn, read_columns
from sqlanon.verdict.dominance import TopShare, measure_dominance
from sqlanon.verdict.release_facts import FoundChances, ReleaseFacts, found_chances
from sqlanon.verdict.safe_harbor import RESTRICTED_ZIP3
from sqlanon.verdict.statistical_office import MOST_OF_ONE

ASKED = ("singles_out", "certain", "likely", "informed")  # traits of the attacks that regulations ask for
FLAG = 2  # different values: a flag is no amount


def verdict_of_release(
    policy: Policy,
    engine: Engine,
    *,
    release: Source | None = None,
    attacked: bool = True,
    evidence: ReleaseEvidence | None = None,
    control: Source | None = None,
) -> tuple[RegulationVerdict, ...]:
    """Judge a policy's release, or another table that is named, by all regulations.

    `evidence` is what a report has gathered already, with risks and attacks; what it lacks is measured here.
    `control` are persons of the same population who are not in the source: attacks are compared with them.
    """
    facts = gather_facts(policy, engine, release=release, attacked=attacked, evidence=evidence, control=control)
    return judge_release(facts)


def gather_facts(
    policy: Policy,
    engine: Engine,
    *,
    release: Source | None = None,
    attacked: bool = True,
    evidence: ReleaseEvidence | None = None,
    control: Source | None = None,
) -> ReleaseFacts:
    together = {SEQUENCE: "journeys", SET: "sets of items", ENTITY: "persons with all their rows"}.get(policy.shape)
    if together is not None and control is not None:
        raise PolicyError(f"attacks on {together} are not compared with a control group", hint="leave --control out")
    reasons: dict[str, str] = {}
    if release is None and evidence is None:
        try:
            evidence = ReleaseEvidence.from_json(load_evidence(policy, engine))
        except PolicyError as error:
            reasons["evidence"] = error.message
            if policy.release is None:
                raise
    elif release is not None:
        evidence = None
        reasons["evidence"] = "the table that is named has no stored evidence"
    tables = [release] if release is not None else _released_tables(policy, evidence)
    created = _year(evidence)
    columns = read_columns(policy, engine, tables, restricted=RESTRICTED_ZIP3, last_birth_year=created - 90)
    if policy.shape in (SET, SEQUENCE):
        return ReleaseFacts(
            policy=policy,
            columns=tuple(_as_drawn(item) for item in columns),
            chances=_chances_of_wholes(policy, engine, tables[0], reasons),
            evidence=evidence,
            risks={"linked": [PERSON_NUMBER], "counts": "persons"},
            others=_other_releases(policy, engine, release),
            reasons=reasons,
        )
    risks = _risks(policy, engine, tables[0], evidence, reasons)
    chances = None
    if risks:
        single = text(risks.get("counts")) == "persons" or policy.person is None or _one_row_each(policy, engine)
        chances, why = found_chances(policy, risks, evidence, one_row_each=single)
        reasons["chances"] = why
    else:
        reasons["chances"] = reasons.get("risks", "")
    return ReleaseFacts(
        policy=policy,
        columns=columns,
        chances=chances,
        evidence=evidence,
        risks=risks,
        attacks=_attacks(policy, engine, tables[0], evidence, reasons, control, attacked=attacked),
        dominance=_dominance(policy, engine, tables[0], columns, reasons),
        others=_other_releases(policy, engine, release),
        reasons=reasons,
    )


def _as_drawn(item: ReleasedColumn) -> ReleasedColumn:
    """The numbers that stand in place of persons and groups are ours; they are in no policy."""
    drawn = (PERSON_NUMBER, GROUP_NUMBER, GROUP, RECORDS)
    return replace(item, role="insensitive") if item.name in drawn else item


def _chances_of_wholes(policy: Policy, engine: Engine, release: Source, reasons: dict[str, str]) -> FoundChances | None:
    """How likely a person is found by all visits or items that the release shows: records are whole journeys or
    sets."""
    of = "journeys" if policy.shape == SEQUENCE else "sets of items"
    reasons["attacks"] = f"attacks on single rows say nothing of {of}; 'sqlanon attack' tries those on {of}"
    reasons["dominance"] = f"{of} have no amounts that are added up"
    reasons["risks"] = reasons["attacks"]
    if policy.shape == SEQUENCE and moves_places(policy):
        reasons["chances"] = "the release shows places where nobody was: see how often the nearest journey is right"
        return None
    find = find_alike_journeys if policy.shape == SEQUENCE else find_alike_sets
    found = find(policy, engine, release)
    if found.highest is None:
        reasons["chances"] = "the release has no row to measure"
        return None
    return FoundChances(found.highest, found.average, found.broken, "persons")


def _released_tables(policy: Policy, evidence: ReleaseEvidence | None) -> list[Source]:
    """The table, view or file that was written, and those that belong to it."""
    main = published_source(policy, evidence)
    assert main is not None
    if main.path is not None:
        return [main]
    about = mapping(evidence.release) if evidence is not None else {}
    return [main, *(Source(table=text(name)) for name in mapping(about.get("companions")))]


def _year(evidence: ReleaseEvidence | None) -> int:
    """The year of the release; for a table without evidence, this year."""
    written = evidence.created[:4] if evidence is not None else ""
    return int(written) if written.isdigit() else datetime.now(UTC).year


def _risks(
    policy: Policy, engine: Engine, release: Source, evidence: ReleaseEvidence | None, reasons: dict[str, str]
) -> Mapping[str, Any]:
    known = mapping(mapping(evidence.risks if evidence is not None else None).get("release"))
    if known:
        return known
    try:
        return risk_data(risk(policy, engine, release=release))
    except (PolicyError, SourceError) as error:
        reasons["risks"] = f"risks were not measured: {error.message}"
        return {}


def _attacks(
    policy: Policy,
    engine: Engine,
    release: Source,
    evidence: ReleaseEvidence | None,
    reasons: dict[str, str],
    control: Source | None,
    *,
    attacked: bool,
) -> Mapping[str, Any] | None:
    if policy.shape == ENTITY:  # what follows from all rows of a person is more than what follows from one
        said = "attacks on values look at single rows; 'sqlanon check' measures values of persons with all their rows"
        reasons["attacks"] = said
        return None
    if control is None and evidence is not None and evidence.attacks is not None:
        return evidence.attacks
    if not attacked:
        reasons["attacks"] = "attacks were not tried"
        return None
    names = names_with_trait("attacks", *ASKED)
    if control is not None:  # one that cannot serve as a control group is an error of whoever gave it
        return attack_data(attack(policy, engine, release=release, control=control, names=names))
    try:
        return attack_data(attack(policy, engine, release=release, names=names))
    except (PolicyError, SourceError) as error:
        reasons["attacks"] = f"attacks were not judged: {error.message}"
        return None


def _one_row_each(policy: Policy, engine: Engine) -> bool:
    """Whether each person of the source has one row; not where rows are joined, or persons are NULL."""
    if policy.person is None or policy.source.joins:
        return policy.person is None
    rows = relation(engine.resolve(policy.source), engine.dialect)
    persons = exp.Count(this=exp.Distinct(expressions=[column(policy.person)]))
    found = engine.query(select(count_all(), persons, source=nest_query(rows, "source")))[0]
    return bool(found[0] == found[1])


def _dominance(
    policy: Policy, engine: Engine, release: Source, columns: Sequence[ReleasedColumn], reasons: dict[str, str]
) -> tuple[TopShare, ...] | None:
    if policy.shape == ENTITY:
        reasons["dominance"] = (
            "amounts are added up by classes of rows, and classes are persons with all their rows here"
        )
        return None
    shown = {item.name for item in columns}
    numbers = [
        item.name
        for item in columns
        if item.shape in ("whole", "number")
        and item.role not in ("quasi_identifier", "identifier")
        and item.name != policy.person
        and item.distinct > FLAG
    ]
    if not numbers:
        reasons["dominance"] = "no column of the release is a number that is added up"
    elif not policy.quasi_identifiers or not set(policy.quasi_identifiers) <= shown:
        reasons["dominance"] = "the release has no classes of quasi-identifiers"
    elif policy.person is not None and policy.person not in shown and not _one_row_each(policy, engine):
        reasons["dominance"] = "persons have several rows, and the release does not show whose they are"
    else:
        return measure_dominance(policy, engine, release, numbers, most=MOST_OF_ONE)
    return None


def count_persons(gateway: Gateway) -> int | None:
    """How many persons the gateway protects; None where its database cannot be read."""
    try:
        engine = connect(gateway.located_database)
    except (SourceError, EngineError):
        return None
    try:
        rows = relation(Source(table=gateway.unit.table), engine.dialect)
        persons = exp.Count(this=exp.Distinct(expressions=[column(gateway.unit.key)]))
        return int(engine.query(select(persons, source=nest_query(rows, "persons")))[0][0])
    except (SourceError, EngineError):
        return None
    finally:
        engine.close()


def _other_releases(policy: Policy, engine: Engine, release: Source | None) -> tuple[str, ...] | None:
    """Other releases of the same source that the record of the database shows."""
    own = policy.release.name if policy.release is not None else None
    if release is not None or own is None or (policy.release is not None and policy.release.path is not None):
        return None
    return tuple(name for name, source in current_sources(engine) if source == policy.source.text and name != own)
