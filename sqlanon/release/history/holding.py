"""Hold rows back: a person whose history would become too rare waits for a later release, when others share it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.compiler import history as relations
from sqlanon.compiler.tree import alias, joined, literal, nested, select, table, window
from sqlanon.families import plugin
from sqlanon.policy.history import HistoryUse
from sqlanon.release.history.comparison import Comparison, tables

EVERYBODY = 2**62


def hold_back(found: Comparison, uses: Sequence[HistoryUse]) -> str:
    """Take out of the members whom `stable_partition` cannot show yet; the table of them (person, original).

    Taking out one person may leave others too few, so it goes on until nobody has to. It ends: at worst with nobody.
    """
    held = found.make("held", _of(found.members, exp.false()))
    for use in uses:
        if use.name != "stable_partition":
            continue
        params = {**plugin("history", use.name).filled(use.params), "everybody": EVERYBODY}
        places = range(1, len(found.attributes) + 1)
        while sum(_once(found, held, params, place) for place in places):
            pass
    return held


def _once(found: Comparison, held: str, params: dict[str, int], place: int) -> bool:
    own = tables(found, place)
    cells = found.make("small_cells", relations.step("small_cells", params, own))
    short = found.make("short_leavers", relations.step("short_leavers", params, own))
    if not any(found.engine.query(select(literal(1), source=table(name)).limit(1)) for name in (cells, short)):
        return False
    same = [exp.column(name, table="m").eq(exp.column(name, table="c")) for name in ("group_id", "class_id")]
    members = table(found.members, alias="m")
    whole = select(*_chosen(), source=members, joins=[joined(table(cells, alias="c"), exp.and_(*same))])
    # The hash of a person has nothing to do with its data: taking the first is taking any.
    ranked = select(
        *_chosen(),
        exp.column("quota", table="s"),
        alias(_rank(), "place"),
        source=members.copy(),
        joins=[
            joined(table(short, alias="s"), exp.column("group_id", table="s").eq(exp.column("group_id", table="m")))
        ],
    )
    within = exp.column("place") <= exp.column("quota")
    few = select("person", "original", "group_id", source=nested(ranked, "r"), where=within)
    added = found.make("added", exp.union(whole, few, distinct=True))
    any_held = bool(found.engine.query(select(literal(1), source=table(added)).limit(1)))
    if any_held:
        found.engine.execute(exp.insert(select("person", "original", "group_id", source=table(added)), table(held)))
        gone = exp.column("person").isin(query=select("person", source=table(added)))
        found.engine.execute(exp.delete(table(found.members), where=gone))
    return any_held


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
