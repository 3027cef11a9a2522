"""Collusion: who gets two versions of a table with noise of different size puts them together."""

from __future__ import annotations

from sqlanon.evidence.attacks.attacked_table import NotJudged, Side
from sqlanon.policy import Policy
from sqlanon.relations.attacks import version_relations as relations
from sqlanon.relations.attacks.attack_relations import count_table
from sqlanon.relations.source import relation

FEWEST_ROWS = 10  # from which covariances are taken


def noisy_columns(policy: Policy) -> tuple[str, ...]:
    """The columns that noise was added to, and nothing else was done with."""
    return tuple(
        name
        for use in policy.transformations
        if use.name == "additive_noise" and use.params.get("kind", "uncorrelated") != "linear"
        for name in use.changed()
    )


def versions(policy: Policy, source: Side, side: Side, other: Side, noisy: str) -> str:
    """The numbers of rows that the other columns tell apart: first by all of them, then without those that may have
    been generalized."""
    engine = side.work.engine
    shown = []
    for each in (source, side, other):
        shown.append({item.name for item in engine.columns(relation(each.compiler.source, engine.dialect))})
    if not all(noisy in names for names in shown):
        raise NotJudged(f"the releases do not both show '{noisy}'")
    common = shown[0] & shown[1] & shown[2]
    plain = [
        name
        for name, item in policy.columns.items()
        if name in common and item.role != "identifier" and name not in side.changed
    ]
    for keys in (plain, [name for name in plain if policy.columns[name].role != "quasi_identifier"]):
        if not keys:
            continue
        sides = {"truth": source, "ours": side, "theirs": other}
        made = [
            relations.single_rows(side.prelude, name, relation(each.compiler.source, engine.dialect), keys, noisy)
            for name, each in sides.items()
        ]
        found = relations.versions(side.prelude, made[0], made[1], made[2], len(keys))
        side.work.run()
        if int(engine.query(count_table(found))[0][0]) >= FEWEST_ROWS:
            return found
    raise NotJudged(f"fewer than {FEWEST_ROWS} rows of both releases can be told apart by columns without noise")
