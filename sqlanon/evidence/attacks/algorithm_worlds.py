"""The minimality attack on algorithms that do not search for levels: what follows from how they make their groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlanon import hierarchies
from sqlanon.engines import Engine
from sqlanon.errors import SourceError
from sqlanon.evidence.attacks.anatomy_worlds import Dealt, expected_values
from sqlanon.evidence.attacks.attacked_table import NotJudged, Side, Targets, find_target_classes
from sqlanon.evidence.attacks.bucket_attacks import Apart
from sqlanon.evidence.attacks.guarding_worlds import Guarding
from sqlanon.evidence.attacks.invariance_worlds import likely_values, likely_values_of_two
from sqlanon.evidence.attacks.invariant_release import read_release
from sqlanon.evidence.bucket_evidence import sensitive_rows
from sqlanon.families import plugin
from sqlanon.policy import Policy
from sqlanon.relations.attacks import unit_relations as relations
from sqlanon.relations.bucketization import GROUP
from sqlanon.relations.classes import NULL_NODE
from sqlanon.relations.guarding_nodes import taxonomy_of
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import select, table

MOST_CLOSE = 100_000  # rows of anatomy; of more, groups are made without a look at quasi-identifiers
FIRST = "minimality: the release is taken for the first one; where it is not, name --other and --earlier"


@dataclass(frozen=True)
class Believed:
    """The table of what is believed, and that of the targets of whom something is."""

    beliefs: str
    targets: str


def find_obstacle(policy: Policy, attribute: str) -> str | None:
    """Why nothing can be concluded from an algorithm of this kind, or None."""
    use = policy.algorithm
    assert use is not None
    if policy.transformations:
        return "values were changed before they were grouped"
    parts = policy.algorithm_traits.parts
    if parts is not None and [attribute] not in [list(names) for names in use.params[parts]]:
        return (
            f"{use.name} makes buckets larger where columns beside '{attribute}' tell too much, which is not looked at"
        )
    return None


def is_inverted(policy: Policy) -> bool:
    """Whether what the algorithm of a policy makes of values is known here."""
    return policy.algorithm_traits.worlds != ""


# Groups -----------------------------------------------------------------------------------------------------------


def beliefs_of_groups(apart: Apart, targets: Targets, attribute: str, notes: list[str]) -> Believed:
    """Of groups that do not depend on quasi-identifiers nothing more is known than what they show: values of one number
    are dealt to rows in a drawn order, and (k,e) groups are shuffled, so that each way to give the values of a group to
    its rows makes the release with the same probability."""
    policy, prelude = apart.policy, apart.people.prelude
    assert policy.algorithm is not None
    plain = Believed(apart.first_beliefs(targets, attribute), targets.table)
    if policy.algorithm_traits.worlds != "close_groups" or not policy.algorithm.params.get("close", True):
        return plain
    main = relation(apart.engine.resolve(apart.release), apart.engine.dialect)
    types = _types(policy, apart.engine)
    numbered = relations.number_units(prelude, main, types, {GROUP: "bigint"})
    apart.people.work.run()
    rows = apart.engine.query(relations.count_rows_of_groups(numbered))
    if sum(int(n) for _, _, n in rows) > MOST_CLOSE:
        return plain
    dealt = Dealt(_kins(rows), _values_of_groups(apart, attribute), int(policy.algorithm.params["l"]))
    if policy.sensitive_nulls == "unknown" and any(NULL_NODE in values for values in dealt.values.values()):
        raise NotJudged(f"'{attribute}' has NULLs, whose rows are in any block")
    shares: dict[int, dict[str, Fraction]] = {}
    left_out = 0
    for unit, (own, kin) in enumerate(zip(expected_values(dealt), dealt.kins, strict=True), start=1):
        size = sum(kin.values())
        if own is None:
            left_out += size
        else:
            shares[unit] = {value: n / size for value, n in own.items()}
    if left_out:
        records = sum(sum(kin.values()) for kin in dealt.kins)
        where = f"{left_out:,} of {records:,} rows are in blocks with too many ways to place their values"
        if left_out == records:
            raise NotJudged(where)
        notes.append(f"minimality: {where}; they are not judged, and not counted")
    return _beliefs_of_units(apart.people, targets, numbered, list(types), shares)


def _kins(rows: Sequence[tuple[int, int, int]]) -> list[dict[int, int]]:
    found: list[dict[int, int]] = []
    last = None
    for unit, group, n in rows:
        if unit != last:
            found.append({})
            last = unit
        found[-1][int(group)] = int(n)
    return found


def _values_of_groups(apart: Apart, attribute: str) -> dict[int, list[str]]:
    try:
        values = sensitive_rows(apart.engine, apart.release)
    except SourceError as error:
        raise NotJudged(error.message) from None
    found: dict[int, list[str]] = {}
    for group, value in apart.engine.query(relations.list_rows(values, [GROUP, attribute], 2 * MOST_CLOSE)):
        found.setdefault(int(group), []).append(str(value))
    return found


def _types(policy: Policy, engine: Engine) -> dict[str, str]:
    rows = relation(engine.resolve(policy.source), engine.dialect)
    held = {item.name: item.type for item in engine.columns(rows)}
    return {name: held[name] for name in policy.quasi_identifiers}


def _beliefs_of_units(
    side: Side, targets: Targets, numbered: str, names: Sequence[str], shares: Mapping[int, Mapping[str, Fraction]]
) -> Believed:
    prelude, wanted = side.prelude, targets.table
    targets.work.run()
    made = relations.units(prelude, numbered, len(names))
    places = [(targets.known.index(name) + 1, names.index(name) + 1) for name in targets.known]
    fitting = relations.target_units(prelude, wanted, made, places)
    given = [
        (str(unit), value, repr(float(share))) for unit, own in shares.items() for value, share in own.items() if share
    ]
    known = relations.unit_shares(prelude, made, given)
    believed = relations.unit_beliefs(prelude, fitting, made, known)
    judged = relations.judged_targets(prelude, wanted, fitting, made, known)
    side.work.run()
    return Believed(believed, judged)


# Guarding nodes ---------------------------------------------------------------------------------------------------


def beliefs_of_guarding(policy: Policy, targets: Targets, side: Side, attribute: str) -> Believed:
    """Classes are looked at one by one. Why the algorithm did not go down to lower levels of quasi-identifiers may
    tell something, too; that is left out."""
    assert policy.algorithm is not None
    given = policy.hierarchies[attribute]
    tree = taxonomy_of(hierarchies.build(given.kind, given.params, policy.base))
    guarding = Guarding(tree, Fraction(repr(float(policy.algorithm.params["p_breach"]))))
    prelude, engine = side.prelude, side.work.engine
    nodes = relations.class_nodes(prelude, side.grouping, attribute)
    shapes = relations.class_shapes(prelude, nodes)
    fitting = find_target_classes(targets, side)
    side.work.run()
    ranked = engine.query(select("value", "label", source=table(nodes)).distinct())
    labels = {int(rank): str(label) for rank, label in ranked}
    shares = []
    for (shape,) in engine.query(select("shape", source=table(shapes)).distinct()):
        ranks = [part.split("x") for part in str(shape).split(",")]
        shown = tuple(sorted((labels[int(rank)], int(n)) for rank, n in ranks))
        shares += [(str(shape), value, repr(float(share))) for value, share in guarding.likely_values(shown).items()]
    believed = relations.unit_beliefs(prelude, *relations.class_units(prelude, shapes, fitting, shares))
    side.work.run()
    return Believed(believed, targets.table)


# m-invariance -----------------------------------------------------------------------------------------------------


def beliefs_of_invariance(
    policy: Policy,
    targets: Targets,
    everybody: Targets,
    side: Side,
    attribute: str,
    earlier: tuple[Targets, Side] | None,
    notes: list[str],
) -> Believed:
    """`everybody` are the persons of the source; `earlier` those of an earlier release, with that release."""
    assert policy.history is not None and policy.person is not None
    asked = [use.params for use in policy.history.models if "signatures" in plugin("history", use.name).traits]
    m = max(int(params["m"]) for params in asked)
    nulls = side.work.engine.query(relations.count_nulls(everybody.work.prelude.rows, attribute))[0][0]
    if nulls and policy.sensitive_nulls == "unknown":
        raise NotJudged(f"'{attribute}' has NULLs, whose persons wait")
    own = read_release(policy, everybody, side, attribute)
    sizes = Counter(own.units.values())
    if earlier is None:
        likely = likely_values(own.release, m)
        notes.append(FIRST)
    else:
        likely = likely_values_of_two(read_release(policy, *earlier, attribute).release, own.release, m)
    shares: dict[int, dict[str, Fraction]] = {}
    for key, unit in own.units.items():
        believed = shares.setdefault(unit, {})
        for value, share in likely[key].items():
            believed[value] = believed.get(value, Fraction(0)) + share / sizes[unit]
    return _beliefs_of_units(side, targets, own.numbered, policy.quasi_identifiers, shares)
