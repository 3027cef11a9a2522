"""Hold rows back: a person whose history would become too rare waits for a later release, when others share it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.families import plugin
from sqlanon.policy.history import HistoryUse
from sqlanon.relations import history_relations as relations
from sqlanon.release.history.comparison import Comparison, places, tables
from sqlanon.release.history.label_paths import comparable
from sqlanon.sqltree.tree import alias, bind, find_references, join_clause, literal, nest_query, select, table, window

EVERYBODY = 2**62


def hold_back(found: Comparison, uses: Sequence[HistoryUse], *, also: frozenset[str] = frozenset()) -> str:
    """Take out of the members whom the models cannot show yet; the table of them (person, original, group_id).

    Taking out one person may leave others too few, so it goes on until nobody has to. It ends: at worst with nobody.
    `also` names models for which rows wait only if nothing else helps.
    """
    held = found.make("held", _of(found.members, exp.false()))
    waiting = [use for use in uses if use.name in also or "wait" in plugin("history", use.name).traits]
    asked = [(use, place) for use in waiting for place in places(found, use)]
    while sum([_once(found, held, use, place) for use, place in asked]):
        pass
    return held


def _once(found: Comparison, held: str, use: HistoryUse, place: int) -> bool:
    """Hold back what one model asks for, all sets at once; whether there was anybody."""
    choose = _for_partition if "cells" in plugin("history", use.name).traits else _for_model
    chosen = choose(found, use, place)
    if chosen is None:
        return False
    added = found.make("added", chosen)
    if not found.engine.query(select(literal(1), source=table(added)).limit(1)):
        return False
    found.engine.execute(exp.insert(select("person", "original", "group_id", source=table(added)), table(held)))
    gone = exp.column("person").isin(query=select("person", source=table(added)))
    found.engine.execute(exp.delete(table(found.members), where=gone))
    found.current.clear()
    return True


def _for_model(found: Comparison, use: HistoryUse, place: int) -> exp.Query | None:
    model = plugin("history", use.name)
    filled = model.filled(use.params)
    own = tables(found, place)
    if "comparable" in find_references(model.sql):
        own = own | {"comparable": comparable(found)}
    broken = found.make("broken", bind(model.sql, filled, own))
    if not found.engine.query(select(literal(1), source=table(broken)).limit(1)):
        return None
    return relations.step("broken_sets", {"least": filled[model.params[0].name]}, own | {"broken": broken})


def _for_partition(found: Comparison, use: HistoryUse, place: int) -> exp.Query | None:
    own = tables(found, place)
    params = {**plugin("history", use.name).filled(use.params), "everybody": EVERYBODY}
    cells = found.make("small_cells", relations.step("small_cells", params, own))
    short = found.make("short_leavers", relations.step("short_leavers", params, own))
    if not any(found.engine.query(select(literal(1), source=table(name)).limit(1)) for name in (cells, short)):
        return None
    same = [exp.column(name, table="m").eq(exp.column(name, table="c")) for name in ("group_id", "class_id")]
    members = table(found.members, alias="m")
    whole = select(*_chosen(), source=members, joins=[join_clause(table(cells, alias="c"), exp.and_(*same))])
    # The hash of a person has nothing to do with its data: taking the first is taking any.
    ranked = select(
        *_chosen(),
        exp.column("quota", table="s"),
        alias(_rank(), "place"),
        source=members.copy(),
        joins=[
            join_clause(
                table(short, alias="s"), exp.column("group_id", table="s").eq(exp.column("group_id", table="m"))
            )
        ],
    )
    within = exp.column("place") <= exp.column("quota")
    few = select("person", "original", "group_id", source=nest_query(ranked, "r"), where=within)
    return exp.union(whole, few, distinct=True)


def _chosen() -> list[exp.Expr]:
    return [exp.column(name, table="m") for name in ("person", "original", "group_id")]


def _rank() -> exp.Expr:
    return window(
        exp.RowNumber(),
        partition=[exp.column("group_id", table="m")],
        order=[exp.column("person", table="m")],
    )


def _of(members: str, where: exp.Expr) -> exp.Select:
    return select("person", "original", "group_id", source=table(members), where=where)
