"""Attacks that compare the classes of two releases, infer values from any columns, or begin with a prior."""

from __future__ import annotations

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.evidence.attacks.attacked_table import NotJudged, Side, Targets, find_target_classes, fits_of
from sqlanon.families import plugin
from sqlanon.policy import Policy, Source
from sqlanon.relations.attacks import attack_relations as relations
from sqlanon.relations.attacks import inference_relations
from sqlanon.relations.classes import as_label, classes
from sqlanon.relations.model_relations import MOST_FREEFORM_COLUMNS
from sqlanon.relations.source import relation


def comparable(everybody: Targets, side: Side, other: Side) -> str:
    """The classes of two releases that somebody may be in, whose values are those of the source."""
    known = side.known(everybody)
    if known != other.known(everybody):
        raise NotJudged("the releases do not show the same quasi-identifiers")
    fits = [fits_of(everybody, each) for each in (side, other)]
    pairs = [inference_relations.label_pairs(side.prelude, ours, theirs) for ours, theirs in zip(*fits, strict=True)]
    shown = [relations.spell_classes(each.prelude, each.grouping, known) for each in (side, other)]
    made = inference_relations.comparable(side.prelude, shown[0], shown[1], pairs)
    other.work.run()
    side.work.run()
    return made


def newcomers(targets: Targets, side: Side) -> str:
    listed = (targets.table, find_target_classes(targets, side)) if targets.external else None
    targets.work.run()
    made = inference_relations.newcomers(side.prelude, listed, classes(side.prelude, side.grouping))
    side.work.run()
    return made


def inferences(policy: Policy, side: Side, attribute: str) -> str:
    shown = side.compiler.policy
    others = [name for name in (*shown.quasi_identifiers, *shown.sensitive) if name != attribute]
    if len(others) >= MOST_FREEFORM_COLUMNS:
        most = f"{len(others)} columns beside '{attribute}' have too many sets to be tried"
        raise NotJudged(f"{most}; at most {MOST_FREEFORM_COLUMNS - 1} are")
    listed: dict[str, list[str]] = {}
    for use in policy.models:
        if "combinations" in plugin("models", use.name).needs:
            listed = {
                name: [as_label(value) for value in values] for name, values in use.params["sensitive_values"].items()
            }
    if listed and attribute not in listed:
        raise NotJudged(f"ff_anonymity lists no sensitive value of '{attribute}'")
    made = inference_relations.inferences(side.prelude, attribute, others, listed, side.compiler.policy.person)
    side.work.run()
    return made


def priors(policy: Policy, engine: Engine, targets: Targets, given: Source, attribute: str) -> str:
    """What is believed of the targets; a prior that is none is refused."""
    rows = relation(engine.resolve(given), engine.dialect)
    names = [item.name for item in engine.columns(rows)]
    known = [name for name in targets.known if name in names]
    source = relation(engine.resolve(policy.source), engine.dialect)
    types = {item.name: item.type for item in engine.columns(source)}
    types["probability"] = "double precision"
    alike = relations.rows_like(
        rows, {name: types[name] for name in (*known, attribute, "probability")}, engine.dialect
    )
    places = {name: targets.known.index(name) + 1 for name in known}
    made = inference_relations.priors(targets.work.prelude, targets.table, alike, attribute, places)
    targets.work.run()
    (wrong,) = engine.query(inference_relations.improper_priors(made, targets.table))[0]
    if wrong:
        raise PolicyError(
            f"the prior of '{attribute}' has no probabilities that add up to 1 for {wrong:,} kinds of persons",
            hint="give each value one probability, for every combination of the quasi-identifiers that it has",
        )
    return made


def lacks_prior(engine: Engine, given: Source | None, attribute: str) -> str | None:
    """Why there is no prior of a column, or None."""
    if given is None:
        return "it needs a prior: a table of values and their probability"
    names = [item.name for item in engine.columns(relation(engine.resolve(given), engine.dialect))]
    lacking = [name for name in (attribute, "probability") if name not in names]
    return f"the prior has no column '{lacking[0]}'" if lacking else None
