"""How the journeys of a release run: how many visits there are at a place at a time, and how many go on from there.

Read from the release alone, so that it tells nothing that the release does not.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.sqltree.tree import alias, column, count_all, nest_query, select, text

MOST_PLACES = 12
MOST_TIMES = 24
MOST_MOVES = 150


def read_flows(engine: Engine, rows: exp.Select, person: str, time: str, place: str) -> dict[str, Any]:
    """Visits and moves between them by the rank of their times; where there are too many times, by their order in the
    journey of a person."""
    counted = exp.Count(this=exp.Distinct(expressions=[column(time)]))
    times = int(engine.query(select(counted, source=nest_query(rows.copy(), "r")))[0][0])
    by_time = times <= MOST_TIMES
    tops = select(alias(text(column(place)), "place"), alias(count_all(), "n"), source=nest_query(rows.copy(), "r"))
    tops = tops.group_by(text(column(place))).order_by(
        exp.Ordered(this=exp.column("n"), desc=True), exp.column("place")
    )
    places = [str(name) for name, _ in engine.query(tops.limit(MOST_PLACES))]
    order = exp.Order(expressions=[exp.Ordered(this=column(time)), exp.Ordered(this=column(place))])
    moment: exp.Expr = (
        exp.Window(
            this=exp.Anonymous(this="DENSE_RANK", expressions=[]),
            order=exp.Order(expressions=[exp.Ordered(this=column(time))]),
        )
        if by_time
        else exp.Window(this=exp.RowNumber(), partition_by=[column(person)], order=order.copy())
    )
    label = text(column(time)) if by_time else text(exp.Null())
    own = select(
        alias(column(person), "person"),
        alias(moment, "moment"),
        alias(text(column(place)), "place"),
        alias(label, "label"),
        source=nest_query(rows.copy(), "r"),
    )
    inner = exp.Order(expressions=[exp.Ordered(this=exp.column("moment")), exp.Ordered(this=exp.column("place"))])

    def following(name: str) -> exp.Expr:
        lead = exp.Anonymous(this="LEAD", expressions=[exp.column(name)])
        return alias(exp.Window(this=lead, partition_by=[exp.column("person")], order=inner.copy()), f"next_{name}")

    pairs = select("moment", "place", following("moment"), following("place"), source=nest_query(own.copy(), "o"))
    shown = exp.column("place").isin(*(exp.convert(name) for name in places))
    goes_on = exp.column("next_place").isin(*(exp.convert(name) for name in places))
    most = exp.Ordered(this=exp.column("n"), desc=True)
    visits = select("moment", "place", alias(count_all(), "n"), source=nest_query(own.copy(), "o"), where=exp.and_(
        shown.copy(), exp.column("moment") <= exp.convert(MOST_TIMES)))  # fmt: skip
    visits = visits.group_by("moment", "place").order_by("moment", "place")
    keys = ("moment", "place", "next_moment", "next_place")
    moves = select(*keys, alias(count_all(), "n"), source=nest_query(pairs, "p"), where=exp.and_(
        shown, goes_on, exp.column("next_moment") <= exp.convert(MOST_TIMES)))  # fmt: skip
    moves = moves.group_by(*keys).order_by(most, *keys).limit(MOST_MOVES)
    labels = []
    if by_time:
        named = select("moment", "label", source=nest_query(own, "o")).distinct().order_by("moment")
        labels = [str(name) for _, name in engine.query(named)]
    return {
        "by": "time" if by_time else "visit",
        "times": labels,
        "places": places,
        "visits": [[int(t), str(p), int(n)] for t, p, n in engine.query(visits)],
        "moves": [[int(a), str(b), int(c), str(d), int(n)] for a, b, c, d, n in engine.query(moves)],
    }
