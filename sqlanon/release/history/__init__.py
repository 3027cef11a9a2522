"""What a release tells beside all earlier ones of the same table: compared before it is shown, kept once it is.

Kept are, for each release, its classes as they were published; and for each person ever released a keyed hash and the
number of its group: the persons who were in the same classes all along. No row, and no value of a person.
"""

from __future__ import annotations

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.families import plugin
from sqlanon.policy import Policy
from sqlanon.policy.history import HistoryUse, joins_releases
from sqlanon.relations import history_relations as relations
from sqlanon.relations.classes import Prelude
from sqlanon.relations.source import relation, table_tree
from sqlanon.release.history.comparison import BUILT, PREFIX, AcrossResult, Comparison, find_members, places, tables
from sqlanon.release.history.earlier_releases import read_past
from sqlanon.release.history.history_tables import HistoryTables, kept_versions
from sqlanon.release.history.hold_back import hold_back
from sqlanon.release.history.joined_releases import keep_shown, require_named
from sqlanon.release.history.joined_releases import measure_joins as joined_results
from sqlanon.release.history.label_paths import comparable, paths_of
from sqlanon.release.record import newest
from sqlanon.release.targets.target import Staged
from sqlanon.sqltree.tree import (
    alias,
    bind,
    column,
    count_all,
    find_references,
    join_clause,
    literal,
    select,
    table,
    with_verdict,
)


def compare(
    policy: Policy,
    engine: Engine,
    staged: Staged,
    name: str,
    secret: str | None,
    paths: exp.Query | None = None,
    also: frozenset[str] = frozenset(),
    counterfeits: int | None = None,
    cuts: str | None = None,
) -> Comparison:
    """Hold back from a staged release what would tell too much beside its past, and measure the rest. `paths` are those
    of its labels, where they have any; `also` names models for which rows wait only where nothing else helps;
    `counterfeits` is the number of rows of nobody, where there may be any; `cuts` the table of those that are new."""
    assert policy.history is not None and policy.person is not None
    kept = HistoryTables(engine, name)
    rows = relation(engine.resolve(staged.source), engine.dialect)
    kinds = {item.name: item.type for item in engine.columns(rows)}
    kept.require_key(secret or "", policy, kinds[policy.person])
    prelude = Prelude(rows, engine.dialect, prefix=f"{PREFIX}_of")
    attributes: tuple[str | None, ...] = policy.sensitive or (None,)
    found = Comparison(name, policy, engine, kept, prelude, f"{PREFIX}_members", attributes)
    found.cuts = cuts
    if counterfeits is not None:
        found.counterfeits, found.made_up = "", counterfeits
    try:
        find_members(found, secret or "")
        if paths is not None:
            found.paths = found.make("paths", paths)
        uses = policy.history.uses(policy.models, sensitive=bool(policy.sensitive))
        held = hold_back(found, uses, also=also)
        found.held_back = _count(engine, held)
        limit = policy.history.hold_back
        everybody = _count(engine, found.members) + found.held_back
        now = _newly_held(found, held)
        if now > limit * everybody + 1e-9:
            raise NotReleased(
                f"the release was not published: {now:,} of {everybody:,} more rows would have to be held back, "
                f"because together with earlier releases they reveal too much; the limit is {limit:.1%}",
                hint="raise 'hold_back' under 'history'; the last release is still in place",
            )
        _delete(found, staged, held)
        own = [use for use in uses if not joins_releases(use.name)]
        found.results = tuple(_measured(found, use, place) for use in own for place in places(found, use))
        found.results += joined_results(found, staged, uses)
    except BaseException:
        found.close()
        raise
    return found


def require_history(policy: Policy, engine: Engine, name: str) -> None:
    """A release whose past is compared must go on so, and one whose past is not known cannot begin with it: not even
    if it was dropped meanwhile, since what was seen was seen."""
    earlier = newest(engine, name)
    if policy.history is None and earlier is None and kept_versions(engine, name):
        earlier = {"history": {}}
    if earlier is None or ("history" in earlier) == (policy.history is not None):
        return
    if policy.history is None:
        raise PolicyError(
            f"'{name}' was published with a history, and this policy asks for none",
            hint="add 'history: {}', or release under another name",
        )
    raise policy.error(
        f"'{name}' was published without a history: what both reveal together cannot be measured",
        "history",
        hint="release under another name, and drop the old release",
    )


def _newly_held(found: Comparison, held: str) -> int:
    """Those who were in the last release, or in none so far; a person who left earlier is not counted again."""
    last = exp.and_(
        exp.column("group_id", table="p").eq(exp.column("group_id", table="h")),
        exp.column("version", table="p").eq(literal(found.kept.version)),
    )
    fresh = exp.or_(exp.column("group_id", table="h").eq(0), exp.column("group_id", table="p").is_(exp.Null()).not_())
    past = join_clause(table(found.kept.table("past"), alias="p"), last, side="LEFT")
    return int(found.engine.query(select(count_all(), source=table(held, alias="h"), joins=[past], where=fresh))[0][0])


def _measured(found: Comparison, use: HistoryUse, place: int) -> AcrossResult:
    model = plugin("history", use.name)
    if not find_references(model.sql) <= BUILT:
        raise PolicyError(f"{use.name} cannot be checked in a policy yet", hint="take stable_partition")
    filled = model.filled(use.params)
    own = tables(found, place)
    if "comparable" in find_references(model.sql):
        own["comparable"] = comparable(found)
    result = found.make("result", with_verdict(bind(model.sql, filled, own)))
    return found.counted(result, model, filled, found.attributes[place - 1])


def _delete(found: Comparison, staged: Staged, held: str) -> None:
    if not found.held_back:
        return
    assert found.policy.person is not None
    mine = column(found.policy.person).isin(query=select("original", source=table(held)))
    found.engine.execute(exp.delete(table_tree(staged.name), where=mine))


def require_safe(found: Comparison) -> None:
    if found.holds:
        return
    broken = [f"{item.model}: {item.broken:,} of {item.looked_at:,} broken" for item in found.results if not item.holds]
    raise NotReleased(
        "the release was not published: together with earlier releases it breaks the policy",
        detail="\n".join(broken),
        hint="the last release is still in place; see 'sqlanon explain' for what the models ask",
    )


def remember(found: Comparison, plan_hash: str) -> None:
    """Keep what the next release must be compared with; in the transaction that shows this one."""
    kept = found.kept
    own = tables(found, 1)
    last = kept.last_group()
    own["next_groups"] = found.make("next_groups", relations.step("next_groups", {"last": last}, own))
    version = {"version": found.version}
    now = alias(exp.cast(literal(found.version), "bigint"), "version")
    classes_now = select(now.copy(), "class_id", "records", source=table(own["classes"]))
    kept.append("past_classes", classes_now)
    kept.append("past_labels", found.class_labels())
    if found.cuts is not None:
        kept.append("cuts", select(exp.Star(), source=table(found.cuts)))
    if found.paths is not None:
        kept.append("past_paths", select(now.copy(), exp.Star(), source=table(found.paths)))
    parts = {
        "past": [relations.step(name, version, own) for name in ("past_next", "past_new", "past_left")],
        "candidates": [],
        "group_values": [],
    }
    for place, attribute in enumerate(found.attributes, start=1):
        own |= tables(found, place)
        named = {"attribute": attribute or relations.NOTHING}
        values_now = select(
            now.copy(),
            alias(exp.cast(literal(named["attribute"]), "text"), "attribute"),
            "class_id", "value", "records", source=table(own["class_values"]),
        )  # fmt: skip
        kept.append("past_values", values_now)
        for key, names in (
            ("candidates", ("candidates_next", "candidates_new", "candidates_left")),
            ("group_values", ("group_values_next", "group_values_left")),
        ):
            for name in names:
                made = found.make(f"{name}_{place}", relations.step(name, named, own))
                parts[key].append(select(exp.Star(), source=table(made)))
    persons = [relations.step(name, {}, own) for name in ("members_next", "persons_left")]
    kept.replace("persons", persons)
    for key, queries in parts.items():
        kept.replace(key, queries)
    kept.close_version(found.version, plan_hash, found.held_back)


def _count(engine: Engine, name: str) -> int:
    return int(engine.query(select(count_all(), source=table(name)))[0][0])


__all__ = [
    "AcrossResult",
    "Comparison",
    "compare",
    "keep_shown",
    "paths_of",
    "read_past",
    "remember",
    "require_history",
    "require_named",
    "require_safe",
]
