"""Releases of other names that show the same persons: joined with the new one on the columns that both show.

What they showed is read from their tables, and of versions that were replaced from copies, which a release whose policy
says `beside` keeps of itself. They are never changed: only the new release is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.evidence.hierarchies import build_hierarchies
from sqlanon.families import Plugin, plugin
from sqlanon.policy import Policy, parse
from sqlanon.policy.history import HistoryUse, joins_releases
from sqlanon.relations import history_relations as relations
from sqlanon.relations import joined_releases as joins
from sqlanon.relations.classes import Prelude
from sqlanon.relations.compressed_rows import root_only
from sqlanon.relations.hierarchy_lookups import long_taxonomy
from sqlanon.relations.joined_releases import ShownTable
from sqlanon.relations.source import relation, table_parts, table_tree
from sqlanon.release.history.comparison import PREFIX, AcrossResult, Comparison, unknown_values
from sqlanon.release.history.history_tables import prefix_of
from sqlanon.release.record import CURRENT, Version, newest, of_version, spelling, versions
from sqlanon.release.targets.target import Staged
from sqlanon.sqltree.tree import (
    alias,
    bind,
    column,
    count_all,
    find_references,
    literal,
    nest_query,
    select,
    table,
    uses_column,
    with_verdict,
)

ON_JOINS = frozenset(["classes", "class_values", "totals"])  # what models of one release may ask of a join
RECORDS = "\u2205 records"


@dataclass(frozen=True)
class Other:
    """A release beside the new one: its policy, and the relations that show each of its versions."""

    name: str
    policy: Policy
    shown: dict[int, tuple[exp.Select, str | None]]  # with the column that holds numbers of rows, if any
    by_levels: bool


def _copy_of(engine: Engine, release: str, version: int) -> str:
    """The table that keeps what a version showed; versions are counted for each spelling of a name."""
    own = hashlib.sha256(release.encode()).hexdigest()[:8]
    return f"{prefix_of(engine, release)}_shown_{own}_{version}"


def require_named(policy: Policy, engine: Engine, name: str) -> None:
    """A release that others were compared with goes on being compared with them."""
    spelt = spelling(engine)
    named = [spelt(other) for other in (policy.history.beside or () if policy.history else ())]
    if spelt(name) in named:
        raise PolicyError(
            f"'{name}' cannot be beside itself", hint="leave it out: its own versions are always compared"
        )
    latest: dict[tuple[str, ...], Version] = {}
    for item in versions(engine):
        latest.setdefault(tuple(spelt(item.release)), item)
    for item in latest.values():
        other, found = item.release, of_version(engine, item.release, item.version)
        listed = (found or {}).get("history", {}).get("beside", [])
        if spelt(name) in [spelt(each) for each in listed] and spelt(other) not in named:
            raise PolicyError(
                f"'{other}' was published beside '{name}', whose policy does not name it",
                hint=f"add 'history: {{beside: [{other}]}}', so that both are joined as an attacker would",
            )


def others(engine: Engine, policy: Policy) -> list[Other]:
    assert policy.history is not None
    return [_other(engine, name) for name in policy.history.beside or ()]


def _other(engine: Engine, name: str) -> Other:
    spelt = spelling(engine)
    found = [item for item in versions(engine) if spelt(item.release) == spelt(name)]
    document = newest(engine, name)
    if document is None:
        raise PolicyError(f"there is no release '{name}' to stand beside", hint="publish it first, or correct its name")
    _lock(engine, name)
    shown: dict[int, tuple[exp.Select, str | None]] = {}
    by_levels = True
    for item in found:
        evidence = of_version(engine, item.release, item.version)
        by_levels = by_levels and evidence is not None and len(evidence["plan"]["passes"]) == 1
        copy = _copy_of(engine, item.release, item.version)
        if engine.find([copy]) is not None:
            shown[item.version] = (select(exp.Star(), source=table(copy)), RECORDS)
        elif item.status == CURRENT and engine.find(table_parts(item.release)) is not None:
            shown[item.version] = (select(exp.Star(), source=table_tree(item.release)), None)
        else:
            raise PolicyError(
                f"what version {item.version} of '{name}' showed was not kept, so that it cannot be joined",
                hint=f"say 'history: {{beside: []}}' in the policy of '{name}' before others stand beside it; "
                "or release to other people only",
            )
    return Other(name, parse(document["policy"]["text"]), shown, by_levels)


def _lock(engine: Engine, name: str) -> None:
    """Two releases that are beside each other are not refreshed at the same time: each would miss what the other
    shows. Where both try, one fails, and is safe to be run again."""
    kept = f"{prefix_of(engine, name)}_versions"
    if engine.find([kept]) is None:
        return
    if engine.dialect == "postgres":
        engine.execute(exp.Command(this="LOCK", expression=f"TABLE {kept} IN EXCLUSIVE MODE"))
    else:  # a row that two transactions write lets only one of them end
        engine.execute(exp.update(kept, {"held_back": exp.column("held_back")}))


def keep_shown(engine: Engine, name: str) -> None:
    """Keep what the newest version shows, for releases that will stand beside it: public, and so in plain sight."""
    item = next(item for item in versions(engine, name) if item.status == CURRENT)
    shown = select(exp.Star(), source=table_tree(name))
    names = [known.name for known in engine.columns(shown)]
    counted = select(
        *(column(each) for each in names),
        alias(count_all(), RECORDS, quoted=True),
        source=nest_query(shown, "release"),
        groups=[column(each) for each in names],
    )
    made = table(_copy_of(engine, item.release, item.version))
    engine.execute(exp.Create(this=made, kind="TABLE", expression=counted))


def _visible(engine: Engine, staged: Staged) -> list[str]:
    rows = relation(engine.resolve(staged.source), engine.dialect)
    return [item.name for item in engine.columns(rows) if item.name not in staged.hidden]


def measure_joins(found: Comparison, staged: Staged, uses: Sequence[HistoryUse]) -> tuple[AcrossResult, ...]:
    """What the models of joins find, for each of the releases beside, version by version."""
    wanted = [use for use in uses if joins_releases(use.name)]
    if not wanted:
        return ()
    return tuple(
        result
        for other in others(found.engine, found.policy)
        for version in sorted(other.shown)
        for use in wanted
        for result in _joined(found, staged, other, version, use)
    )


def _joined(found: Comparison, staged: Staged, other: Other, version: int, use: HistoryUse) -> Iterator[AcrossResult]:
    engine, policy = found.engine, found.policy
    release, records = other.shown[version]
    mine = _visible(engine, staged)
    theirs = [item.name for item in engine.columns(release) if item.name != records]
    common = _common(policy, other, mine, theirs)
    if "x" in use.params:  # an attacker who knows a column finds its labels in both
        named = list(use.params["x"])
        lost = [name for name in named if name not in mine and name not in theirs]
        if lost:
            hint = "x are columns of either release"
            raise PolicyError(f"{use.name}: no release shows '{lost[0]}'", hint=hint)
        x = [name for name in named if name in mine], [name for name in named if name in theirs]
    else:
        x = list(policy.quasi_identifiers), list(other.policy.quasi_identifiers)
    sensitive = tuple(
        name for name in dict.fromkeys((*policy.sensitive, *other.policy.sensitive)) if name in mine or name in theirs
    )
    needed = {*x[0], *x[1], *common, *sensitive}
    rows = relation(engine.resolve(staged.source), engine.dialect)
    ours = _shown(found, "ours", rows, [name for name in mine if name in needed], None)
    them = _shown(found, "theirs", release, [name for name in theirs if name in needed], records)
    matching = _matching(found, other, common, ours, them)
    pairs = found.make("pairs", joins.pairs(version, ours, them, matching, x, sensitive))
    own = {"joined": found.make("joined", relations.step("joined", {}, {"pairs": pairs}))}
    model = plugin("history", use.name)
    looked_up = sensitive if use.attribute is None else (use.attribute,)
    places: list[tuple[str | None, int]] = [(name, sensitive.index(name) + 1) for name in looked_up]
    if "joined_values" not in find_references(model.sql) or not places:
        places = [(None, 0)]
    for attribute, place in places:
        if "unknown" in find_references(model.sql):
            own["unknown"] = unknown_values(found)
        if place:
            own["joined_values"] = found.make("joined_values", joins.values_of(pairs, place))
        elif "joined_values" in find_references(model.sql):
            nothing = select("class_id", alias(literal(""), "value"), "records", source=table(own["joined"]))
            own["joined_values"] = found.make("joined_values", nothing.where(exp.false()))
        yield _result(found, model, model.filled(use.params), own, attribute, name=model.name, beside=other.name)
    if "own_models" in model.traits:
        yield from _own_models(found, other, model, pairs, own["joined"], sensitive)


def _own_models(
    found: Comparison, other: Other, join: Plugin, pairs: str, joined: str, sensitive: tuple[str, ...]
) -> Iterator[AcrossResult]:
    """The models of both policies on the join."""
    asked = [(use, owner) for owner in (found.policy, other.policy) for use in owner.models]
    own = {"classes": joined}
    for use, owner in asked:
        model = plugin("models", use.name)
        if model.bounds_size_alone:
            continue  # counted for each release, above: pairs are more than persons
        special = model.classes or model.counts or uses_column(model.sql, "number")
        if special or not find_references(model.sql) <= ON_JOINS:
            raise PolicyError(
                f"{use.name} cannot be measured on a join of releases",
                hint="say what must hold there by 'sequential_privacy: {x: […], k: …, h: …}' under 'history'",
            )
        attributes: list[str | None] = [use.attribute]
        if use.attribute is None and "sensitive" in model.needs:
            attributes = list(owner.sensitive)
        for attribute in attributes:
            if attribute is not None:
                place = sensitive.index(attribute) + 1
                own["totals"] = found.make("join_totals", joins.totals_of(pairs, place))
                values = joins.values_of(pairs, place, own["totals"], null_is_value=owner.sensitive_nulls == "value")
                own["class_values"] = found.make("join_values", values)
            name = f"{join.name}, {model.name}"
            yield _result(found, model, model.filled(use.params), own, attribute, name=name, beside=other.name)


def _result(
    found: Comparison,
    model: Plugin,
    filled: dict[str, Any],
    own: dict[str, str],
    attribute: str | None,
    name: str,
    beside: str,
) -> AcrossResult:
    result = found.make("result", with_verdict(bind(model.sql, filled, own)))
    return found.counted(result, model, filled, attribute, name=name, beside=beside)


def _shown(found: Comparison, kind: str, rows: exp.Select, columns: Sequence[str], records: str | None) -> ShownTable:
    return ShownTable(found.make(kind, joins.rows(rows, columns, records)), tuple(columns))


def _common(policy: Policy, other: Other, mine: Sequence[str], theirs: Sequence[str]) -> list[str]:
    folded = {name.lower(): name for name in theirs}
    odd = [name for name in mine if name.lower() in folded and name not in theirs]
    if odd:
        raise PolicyError(
            f"'{odd[0]}' and '{folded[odd[0].lower()]}' of '{other.name}' differ in their spelling alone",
            hint="give a column the same name in both releases, or different ones",
        )
    common = [name for name in mine if name in theirs]
    if not common:
        raise PolicyError(
            f"'{other.name}' has no column in common with this release: there is nothing to join",
            hint="leave it out of 'beside'; columns of one meaning must have one name",
        )
    return common


def _matching(
    found: Comparison, other: Other, common: Sequence[str], ours: ShownTable, theirs: ShownTable
) -> dict[str, str | None]:
    """For each common column the table of the labels that match, or None where only equal values do."""
    made: dict[str, str | None] = {}
    built = {name: build_hierarchies(policy) for name, policy in (("ours", found.policy), ("theirs", other.policy))}
    rows = relation(found.engine.resolve(found.policy.source), found.engine.dialect)
    for place, name in enumerate(common, start=1):
        general = [owner for owner in (found.policy, other.policy) if name in owner.quasi_identifiers]
        if not general:
            made[name] = None
            continue
        if (found.policy in general and found.paths is None) or (other.policy in general and not other.by_levels):
            raise PolicyError(
                f"'{name}' is shown as regions, or in several passes: such labels cannot be joined",
                hint="take an algorithm that gives every quasi-identifier one level in both releases",
            )
        uses = {str(owner.hierarchies.get(name)) for owner in general}
        if len(uses) > 1:
            raise PolicyError(
                f"'{name}' has another hierarchy in '{other.name}': labels of both cannot be joined",
                hint="give it the same hierarchy in both policies",
            )
        side = "ours" if general[0] is found.policy else "theirs"
        hierarchy = built[side].get(name) or root_only()
        prelude = Prelude(rows, found.engine.dialect, prefix=f"{PREFIX}_tree_{place}")
        taxonomy = long_taxonomy(prelude, name, hierarchy)
        try:
            run_steps(found.engine, prelude.steps)
            pairs = joins.along(taxonomy, hierarchy.root, theirs, ours, name)
            made[name] = found.make(f"along_{place}", pairs)
        finally:
            drop_steps(found.engine, prelude.steps)
    return made
