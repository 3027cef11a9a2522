"""Publish tables of statistics: protect all tables of a policy together, write and audit them, and only then show them.

While the records are the same, the pattern does not change: what was hidden stays hidden, what was shown stays shown.
Two patterns for the same records would be one larger table to whoever has both.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from sqlanon import __version__
from sqlanon.engines import Engine
from sqlanon.errors import NotReleased, PolicyError
from sqlanon.policy import Source
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.relations.source import relation, table_parts, table_tree
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.publication import Progress, tell
from sqlanon.release.record import of_version, versions_of
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.targets.relation_target import RelationTarget
from sqlanon.release.targets.target import Staged, Target, require_writable
from sqlanon.statistics.cell_tables import CellTables, Workspace, make_cells
from sqlanon.statistics.changed_loss import measure_changes
from sqlanon.statistics.changed_tables import ChangedValues, other_values, require_safe_changes
from sqlanon.statistics.keyed_values import key_check
from sqlanon.statistics.protect_tables import Protection, protect_cells
from sqlanon.statistics.protection_task import EarlierPattern, ReadTables, measure_of, read_tables, select_release
from sqlanon.statistics.table_system import Flags
from sqlanon.statistics.written_table import read_written, require_safe_table

Labels = list[str]


@dataclass(frozen=True)
class StatisticsPlan:
    """What a release shows: a function of the policy, the records and SQLANON_KEY. `pattern` are all cells by table,
    packed, each with whether it is hidden, or `values` what is shown of them; readers of the release see the same."""

    policy: str  # hash
    tables: Mapping[str, tuple[str, ...]]
    search: str
    cells: int
    hidden: int
    cost: float
    bound: float | None
    pattern: str
    method: str = "suppression"
    values: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, indent=2)

    @property
    def hash(self) -> str:
        # How it was found is no part of what it is: the same pattern is found again by keeping it.
        left_out = ("search", "cost", "bound", *(() if self.values else ("method", "values")))
        data = {key: value for key, value in asdict(self).items() if key not in left_out}
        return hashlib.sha256(json.dumps(data, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True)
class PublishedTables:
    """What was written, or with `dry_run` would be."""

    plan: StatisticsPlan
    document: Mapping[str, Any]


def publish_statistics(
    policy: StatisticsPolicy,
    engine: Engine,
    *,
    dry_run: bool = False,
    secret: str | None = None,
    progress: Progress | None = None,
    plan_hash: str | None = None,
    run: int | None = None,
) -> PublishedTables:
    """Protect, write, audit and swap in the tables of a policy. An error leaves the previous ones in place."""
    target = None if dry_run else _target_of(policy, engine)
    workspace = Workspace(engine)
    try:
        tell(progress, "making the cells", 0, 1)
        rows = relation(engine.resolve(policy.source), engine.dialect)
        known = fingerprint(engine, rows, secret)
        tables = make_cells(policy, engine, workspace)
        plans = read_plans(policy, engine, known, secret)
        earlier = read_earlier(tables, plans) if policy.protect.hides else None
        read = read_tables(tables, policy.protect.knowledge, earlier)
        before = {} if policy.protect.hides else read_values(tables, read, plans)
        tell(progress, "making the cells", 1, 1)
        tell(progress, "protecting the cells", 0, 1)
        try:
            found = protect_cells(policy, tables, read, secret, before)
        except NotReleased as error:
            if earlier is None:
                raise
            raise NotReleased(
                "an earlier release of the same records shows too much for these rules and tables: " + error.message,
                hint="what was shown is known; publish when the records have changed, or with the rules of then",
            ) from None
        if earlier is not None:
            found = replace(found, search="earlier pattern", cost=read.cost(found.hidden), bound=None)
        tell(progress, "protecting the cells", 1, 1)
        plan = _plan(policy, tables, read, found)
        if plan_hash is not None and not plan.hash.startswith(plan_hash.lower()):
            raise PolicyError(
                f"the plan is no longer the same: it is {plan.hash[:16]} now",
                hint="the policy or the data changed; look at the new one with 'sqlanon publish --dry-run'",
            )
        document = describe_tables(policy, tables, read, found, plan)
        document |= {"source_keyed": secret is not None} | ({} if run is None else {"run": run})
        if policy.protect.is_keyed:
            document["key_check"] = key_check(secret)
        if target is not None:
            document = _write(policy, engine, target, tables, read, found, plan, document, known, secret)
        return PublishedTables(plan, document)
    finally:
        workspace.drop()


def _target_of(policy: StatisticsPolicy, engine: Engine) -> RelationTarget:
    given = policy.release
    if given is None:
        raise PolicyError("the policy names no release", hint="add for example 'release: {table: turnover_released}'")
    target = RelationTarget(
        engine, given.name, "table" if given.table else "view", audience=given.audience, keep=given.keep
    )
    require_writable(target, engine)
    there = engine.find(table_parts(given.name))
    read = policy.source.table or policy.source.view
    if there is not None and read is not None and engine.find(table_parts(read)) == there:
        raise PolicyError(
            f"the release '{given.name}' would replace a table that is read", hint="give the release another name"
        )
    target.require_ours()
    return target


def _write(
    policy: StatisticsPolicy, engine: Engine, target: Target, tables: CellTables, read: ReadTables, found: Protection,
    plan: StatisticsPlan, document: dict[str, Any], known: str, secret: str | None,
) -> dict[str, Any]:  # fmt: skip
    """Others see the old tables or the new ones, and after an error the old ones."""
    changed = found.changed
    shown = None if changed is None else changed.relations
    rows = select_release(tables, read, found.hidden, tables.workspace, shown)
    ordered = exp.select("*").from_(rows.subquery("release_")).order_by(*(str(n) for n in range(1, _width(tables) + 1)))
    with engine.transaction():
        staged: Staged = target.stage(Rewriting(ordered, ()))
        try:
            as_written = exp.select("*").from_(table_tree(staged.name))
            if changed is None:
                require_safe_table(tables, read, as_written)
            else:
                written = read_written(tables, as_written)
                audited = require_safe_changes(policy, tables, read, written, secret, changed.facts.get("steps"))
                document = document | {"not_protected": [*document["not_protected"], *audited.notes]}
            document = document | {"release": target.described(staged), "holds": True}
            target.swap(staged, plan, document, known)
        except BaseException:
            target.discard(staged)
            raise
    target.finish(staged, document)
    return document


def _width(tables: CellTables) -> int:
    return len(tables.dimensions) + 1


def _plan(policy: StatisticsPolicy, tables: CellTables, read: ReadTables, found: Protection) -> StatisticsPlan:
    published = sum(len(own) for own in read.published.values())
    hidden = sum(int(found.hidden[place]) for own in read.published.values() for place in own.values())
    return StatisticsPlan(
        policy=hash_policy(policy),
        tables={item.name: item.statistic.by for item in tables.tables},
        search=found.search,
        cells=published,
        hidden=hidden,
        cost=float(f"{found.cost:.12g}"),
        bound=None if found.bound is None else float(f"{found.bound:.12g}"),
        pattern="" if found.changed is not None else pack_pattern(tables, read, found.hidden),
        method=policy.protect.name,
        values="" if found.changed is None else pack_values(tables, read, found.changed),
    )


def hash_policy(policy: StatisticsPolicy) -> str:
    """A hash of what a policy asks, whatever its file looks like. Where data lie is no part of it."""
    data = policy.model_dump(mode="json")
    data["source"].pop("database", None)
    data["protect"] = {name: given for name, given in data["protect"].items() if given is not None}
    for key in ("audience", "keep"):
        (data["release"] or {}).pop(key, None)
    return hashlib.sha256(json.dumps(data, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def serialize_statistics(policy: StatisticsPolicy) -> str:
    """The policy as a file would say it: JSON, which is YAML."""
    data = policy.model_dump(mode="json", exclude_defaults=True)
    data["source"].pop("database", None)  # may hold a password
    if "hierarchies" in data:
        data["hierarchies"] = {name: {use["kind"]: use.get("params", {})} for name, use in data["hierarchies"].items()}
    for table in data["statistics"].values():
        table["rules"] = [{use["name"]: use.get("params", {})} for use in table["rules"]]
    return json.dumps(data, indent=2, ensure_ascii=False)


# ---- patterns across releases


def pack_pattern(tables: CellTables, read: ReadTables, hidden: Flags) -> str:
    """The published cells of every table by their labels, shown and hidden."""
    whole: dict[str, dict[str, list[Labels]]] = {}
    for item in tables.tables:
        parts: dict[str, list[Labels]] = {"shown": [], "hidden": []}
        for cell, place in read.published[item.name].items():
            parts["hidden" if hidden[place] else "shown"].append(_labels(tables, item.places, cell))
        whole[item.name] = {"by": [list(item.statistic.by)], **{key: sorted(value) for key, value in parts.items()}}
    written = json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return base64.b64encode(zlib.compress(written.encode(), 9)).decode()


def _labels(tables: CellTables, places: tuple[int, ...], cell: int) -> Labels:
    dimensions = [tables.dimension(place) for place in places]
    return [dimension.labels[dimension.node_of(cell)] for dimension in dimensions]


def unpack_pattern(packed: str) -> dict[str, dict[str, list[Labels]]]:
    found: dict[str, dict[str, list[Labels]]] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return found


def pack_values(tables: CellTables, read: ReadTables, changed: ChangedValues) -> str:
    """What is shown of the published cells of every table, by their labels."""
    whole = {}
    for item in tables.tables:
        cells = [
            (_labels(tables, item.places, cell), float(changed.values[read.variable(item, cell)]))
            for cell in read.published[item.name]
        ]
        whole[item.name] = {"by": list(item.statistic.by), "of": item.statistic.of, "cells": sorted(cells)}
    written = json.dumps(whole, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return base64.b64encode(zlib.compress(written.encode(), 9)).decode()


def read_plans(policy: StatisticsPolicy, engine: Engine, known: str, secret: str | None) -> list[Mapping[str, Any]]:
    """The plans of the earlier releases of the same records under this name."""
    if policy.release is None:
        return []
    found: list[Mapping[str, Any]] = []
    for version in versions_of(engine, policy.release.name):
        document = of_version(engine, version.release, version.version)
        if document is None or "pattern" not in document["plan"]:
            continue
        if document.get("source_keyed", False) != (secret is not None):
            raise NotReleased(
                "it cannot be told whether the records are those of an earlier release: "
                + ("that one was made with a key" if secret is None else "that one was made without a key"),
                hint="set SQLANON_KEY as it was then, or retire the earlier release and choose another name",
            )
        if document.get("key_check") not in (None, key_check(secret)):
            raise NotReleased(
                "an earlier release drew its values under another key: a second draw for the same people tells more",
                hint="set SQLANON_KEY as it was then, or retire the earlier release and choose another name",
            )
        if version.shown.data_version != known:
            continue
        method = document["plan"].get("method", "suppression")
        if method != policy.protect.name:
            raise NotReleased(
                f"an earlier release of the same records was protected by {method}: both together tell more",
                hint=f"protect by {method} as then, or publish when the records have changed",
            )
        found.append(document["plan"])
    return found


def read_earlier(tables: CellTables, plans: Sequence[Mapping[str, Any]]) -> EarlierPattern | None:
    """What earlier releases of the same records hid and showed."""
    return find_cells(tables, [str(plan["pattern"]) for plan in plans]) if plans else None


def read_values(tables: CellTables, read: ReadTables, plans: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """What earlier releases of the same records showed of variables. Raises NotReleased if two differ."""
    places = {dimension.name: place for place, dimension in enumerate(tables.dimensions, start=1)}
    measures = {item.statistic.of: item for item in tables.tables}
    found: dict[int, float] = {}
    for plan in plans:
        for table in json.loads(zlib.decompress(base64.b64decode(plan["values"]))).values():
            item = measures.get(table["of"])
            if item is None or any(column not in places for column in table["by"]):
                continue
            for labels, value in table["cells"]:
                cell = _cell_of(tables, places, table["by"], labels)
                variable = None if cell is None else read.variables.get((measure_of(item), cell))
                if variable is not None and found.setdefault(variable, value) != value:
                    raise other_values()
    return found


def _cell_of(tables: CellTables, places: Mapping[str, int], by: Sequence[str], labels: Sequence[str]) -> int | None:
    """The number of a cell; None if a label is no node any more."""
    cell = 0
    for column, label in zip(by, labels, strict=True):
        dimension = tables.dimension(places[column])
        node = dimension.numbers.get(label)
        if node is None:
            return None
        cell += node * dimension.stride
    return cell


def find_cells(tables: CellTables, packed: list[str]) -> EarlierPattern:
    """Cells that some of these patterns show, and cells that none shows but one hides; equal cells of other tables too,
    whatever these were called."""
    places = {dimension.name: place for place, dimension in enumerate(tables.dimensions, start=1)}
    shown: dict[str, set[int]] = {item.name: set() for item in tables.tables}
    hidden: dict[str, set[int]] = {item.name: set() for item in tables.tables}
    for text in packed:
        for name, parts in unpack_pattern(text).items():
            by = parts["by"][0]
            if name not in shown or any(column not in places for column in by):
                continue
            for listed, found in ((parts["shown"], shown), (parts["hidden"], hidden)):
                for labels in listed:
                    if (cell := _cell_of(tables, places, by, labels)) is not None:
                        found[name].add(cell)
    return EarlierPattern(
        {name: frozenset(cells) for name, cells in shown.items()},
        {name: frozenset(cells - shown[name]) for name, cells in hidden.items()},
    )


# ---- the evidence


def describe_tables(
    policy: StatisticsPolicy, tables: CellTables, read: ReadTables, found: Protection, plan: StatisticsPlan
) -> dict[str, Any]:
    """The evidence: numbers of cells and costs, no place and no interval of a cell."""
    by_rule: dict[str, dict[str, int]] = {}
    for name, rule, _, _ in read.unsafe:
        own = by_rule.setdefault(name, {})
        own[rule] = own.get(rule, 0) + 1
    unsafe = {(name, cell) for name, _, cell, _ in read.unsafe}
    listed = []
    for item in tables.tables:
        own_places = read.published[item.name]
        listed.append(
            {
                "name": item.name,
                "by": list(item.statistic.by),
                "of": item.statistic.of,
                "cells": len(own_places),
                "unsafe": sum((item.name, cell) in unsafe for cell in own_places),
                "by_rule": by_rule.get(item.name, {}),
                "hidden": sum(bool(found.hidden[place]) for place in own_places.values()),
                "levels": _by_level(tables, read, item.name, found.hidden),
            }
        )
    return {
        "sqlanon": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": policy.source.text,
        "policy": {"name": policy.name, "hash": plan.policy, "text": serialize_statistics(policy)},
        "plan": {"passes": [], **json.loads(plan.to_json())},
        "plan_hash": plan.hash,
        "cells": plan.cells,
        "released": plan.cells - plan.hidden,
        "suppressed": plan.hidden,
        "statistics": {
            "tables": listed,
            "variables": read.task.system.cells,
            "equations": read.task.system.equations,
            "unsafe": len(read.task.primaries),
            "attackers": len(read.task.intruders) - 1,
            "shown_earlier": read.earlier_shown,
            "search": found.search,
            "cost": found.cost,
            "bound": found.bound,
            "gap": found.gap,
            "seconds": round(found.seconds, 3),
            "solver_seconds": round(found.solver_seconds, 3),
            "programs": found.programs,
            "method": policy.protect.name,
            "added": found.added,
            "changes": None if found.changed is None else measure_changes(tables, read, found.changed),
        },
        "not_protected": not_protected(policy, read),
    }


def _by_level(tables: CellTables, read: ReadTables, name: str, hidden: Flags) -> list[dict[str, Any]]:
    """By how far the cells of a table are split up: how many there are and are hidden, and how much of the value."""
    item = next(item for item in tables.tables if item.name == name)
    dimensions = [tables.dimension(place) for place in item.places]
    found: dict[tuple[int, ...], list[float]] = {}
    for cell, place in read.published[name].items():
        level = tuple(dimension.depths[dimension.node_of(cell)] for dimension in dimensions)
        numbers = found.setdefault(level, [0, 0, 0.0, 0.0])
        value = float(read.task.system.value[read.variable(item, cell)])
        numbers[0] += 1
        numbers[1] += bool(hidden[place])
        numbers[2] += value
        numbers[3] += value if hidden[place] else 0.0
    return [
        {
            "level": list(level),
            "cells": int(cells),
            "hidden": int(gone),
            "hidden_share_of_value": float(f"{lost / total:.4g}") if total else 0.0,
        }
        for level, (cells, gone, total, lost) in sorted(found.items())
    ]


def not_protected(policy: StatisticsPolicy, read: ReadTables) -> list[str]:
    """What a reader might take for granted, and must not."""
    found = [
        "other releases of the same records, under another name, were not looked at: make one policy of all tables"
    ]
    if policy.protect.knowledge.singletons == "ignore":
        found.append("contributors who know their own amount were not looked at as attackers")
    if policy.protect.knowledge.singletons == "alone":
        found.append("contributors who have most of an unsafe cell, and are not alone in it, were not looked at as "
                     "attackers")  # fmt: skip
    if any(policy.contributor_of(item) is None for item in policy.statistics.values()):
        found.append("each record counts as a contributor of its own: one with several records is protected less")
    if read.earlier_shown:
        found.append(f"{read.earlier_shown:,} unsafe cells were shown by an earlier release of the same records")
    if len(read.published) > 1:
        found.append("tables are linked by the totals that they share; that a finer table of all their columns exists, "
                     "which has no amount below 0, was not used")  # fmt: skip
    return found


def released_source(policy: StatisticsPolicy) -> Source:
    """The release of a policy, to be read."""
    assert policy.release is not None
    return Source(table=policy.release.table, view=policy.release.view)
