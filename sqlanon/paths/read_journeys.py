"""From the rows of a source or a release to the relations of `sql/paths/`: visits, who owns places, positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.itemsets.open_items import Items
from sqlanon.paths.path_tables import PathTables
from sqlanon.policy import Policy
from sqlanon.relations.classes import as_label
from sqlanon.sqltree.tree import (
    BIGINT,
    TEXT,
    alias,
    bigint,
    case,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    table,
    window,
)

STRANGE = ("NaN", "Infinity", "-Infinity")


def read_visits(tables: PathTables, items: Items, policy: Policy) -> None:
    """Make `places(place, name)`, `doublets(item, moment, place)` and `visits(person, visit, place)` from the items of
    persons. The visits of a person are numbered by time; places at one time follow their names."""
    if len(policy.places) != 1:
        raise PolicyError("places that adversaries know are one column", hint="give one column alone the role place")
    time, place = items.columns.names[:2]
    number = window(exp.RowNumber(), order=[exp.column("name")])
    names = select(alias(exp.column(place), "name"), source=table(items.tables.names)).distinct()
    tables.define("places", select(alias(number, "place"), "name", source=nest_query(names, "found")))
    order = _ordered_times(items, time)
    same_place = exp.column("name", table="p").eq(exp.column(place, table="n"))
    same_time = exp.column("label", table="t").eq(exp.column(time, table="n"))
    tables.define(
        "doublets",
        select(
            exp.column("item", table="n"),
            exp.column("moment", table="t"),
            exp.column("place", table="p"),
            source=table(items.tables.names, alias="n"),
            joins=[join_clause(table(tables.name("places"), alias="p"), same_place),
                   join_clause(nest_query(order, "t"), same_time)],
        ),
    )  # fmt: skip
    visit = window(
        exp.RowNumber(),
        partition=[exp.column("person", table="i")],
        order=[exp.column("moment", table="d"), exp.column("place", table="d")],
    )
    same = exp.column("item", table="d").eq(exp.column("item", table="i"))
    tables.define(
        "visit_items",
        select(
            exp.column("person", table="i"),
            alias(visit, "visit"),
            exp.column("place", table="d"),
            exp.column("item", table="i"),
            source=table(items.tables.items, alias="i"),
            joins=[join_clause(table(tables.name("doublets"), alias="d"), same)],
        ),
    )
    tables.define("visits", select("person", "visit", "place", source=table(tables.name("visit_items"))))


def _ordered_times(items: Items, time: str) -> exp.Select:
    """The place of each time in their order. Times were read as text: what all are numbers is ordered as numbers."""
    labels = select(alias(exp.column(time), "label"), source=table(items.tables.names)).distinct()
    found = items.engine.query(
        select(
            count_all(),
            exp.Sum(this=case((_is_number(exp.column("label")), literal(1)), default=literal(0))),
            source=nest_query(labels.copy(), "labels"),
        )
    )[0]
    numeric = found[0] and int(found[0]) == int(found[1] or 0)
    order = [double(exp.column("label"))] if numeric else []
    return select(
        "label", alias(window(exp.RowNumber(), order=[*order, exp.column("label")]), "moment"),
        source=nest_query(labels, "labels"),
    )  # fmt: skip


def _is_number(value: exp.Expr) -> exp.Expr:
    return exp.RegexpLike(this=value, expression=exp.Literal.string(r"^-?[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?$"))


def read_owners(tables: PathTables, items: Items, policy: Policy, owners: Mapping[str, Any], *, absent: bool) -> None:
    """Make `owners(place, adversary)` from the places that a policy gives to each adversary, in the order of names."""
    listed = []
    for number, owner in enumerate(sorted(owners)):
        places = owners[owner]
        if not isinstance(places, list | tuple) or not places:
            raise PolicyError(
                f"projections: the adversary '{owner}' needs a list of places", hint="owners: {shops: [mall, market]}"
            )
        listed += [(as_label(place), number) for place in places]
    named = items.make("owner_names", rows_relation(listed, ["name", "adversary"], [TEXT, BIGINT]))
    same = exp.column("name", table="p").eq(exp.column("name", table="o"))
    found = join_clause(table(tables.name("places"), alias="p"), same)
    tables.define(
        "owners",
        select(
            exp.column("place", table="p"), exp.column("adversary", table="o"),
            source=table(named, alias="o"), joins=[found],
        ).distinct(),
    )  # fmt: skip
    known = {str(name) for (name,) in items.engine.query(select("name", source=table(tables.name("places"))))}
    lost = [name for name, _ in listed if name not in known]
    if lost and not absent:
        raise PolicyError(
            f"projections: the place '{lost[0]}' of 'owners' is not in the data",
            hint="correct the spelling: what is not found protects nobody; or say 'absent_values: allow'",
        )


def read_published(tables: PathTables, rows: exp.Select, policy: Policy, person: str, group: str | None) -> None:
    """Make `published(path, group_id, tick, x, y)` from the rows of a release; without groups each journey is one."""
    require_positions(policy)
    (time,), (x, y) = policy.times, policy.places

    def rank(name: str) -> exp.Expr:
        return exp.Window(
            this=exp.Anonymous(this="DENSE_RANK", expressions=[]),
            order=exp.Order(expressions=[exp.Ordered(this=column(name, "r"))]),
        )

    tables.define(
        "published",
        select(
            alias(bigint(rank(person)), "path"),
            alias(bigint(rank(group or person)), "group_id"),
            alias(bigint(rank(time)), "tick"),
            alias(double(column(x, "r")), "x"),
            alias(double(column(y, "r")), "y"),
            source=nest_query(rows.copy(), "r"),
        ),
    )


def read_points(tables: PathTables, rows: exp.Select, policy: Policy, persons: str) -> None:
    """Make `points(person, moment, x, y)` from the rows of a source; moments are seconds or numbers."""
    require_positions(policy)
    engine = tables.engine
    (time,), (x, y) = policy.times, policy.places
    kinds = {item.name: item for item in engine.columns(rows)}
    for name in (x, y):
        if not kinds[name].numeric:
            raise PolicyError(
                f"the place column '{name}' is of type {kinds[name].type}, not a number",
                hint="k_delta_anonymity needs two coordinates in one unit, such as meters",
            )
    own = column(time, "r")
    if kinds[time].temporal:
        moment: exp.Expr = double(exp.Extract(this=exp.var("EPOCH"), expression=exp.Cast(
            this=own, to=exp.DataType.build("timestamp"))))  # fmt: skip
    elif kinds[time].numeric:
        moment = double(own)
    else:
        raise PolicyError(
            f"the time column '{time}' is of type {kinds[time].type}, which has no distances",
            hint="cast it in a 'query:', for example to TIMESTAMP or INTEGER",
        )
    same = exp.column("key", table="p").eq(column(policy.person or "", "r"))
    tables.define(
        "points",
        select(
            exp.column("person", table="p"),
            alias(moment, "moment"),
            alias(double(column(x, "r")), "x"),
            alias(double(column(y, "r")), "y"),
            source=nest_query(rows.copy(), "r"),
            joins=[join_clause(table(persons, alias="p"), same)],
        ).distinct(),
    )
    twice = select("person", source=table(tables.name("points")), groups=["person", "moment"]).having(count_all() > 1)
    found = int(engine.query(select(count_all(), source=nest_query(twice, "twice")))[0][0])
    if found:
        raise PolicyError(
            f"{found:,} times, a person is at two places at one time", hint="choose one of them in a 'query:'"
        )
    strange = exp.or_(*(
        exp.In(this=exp.column(name), expressions=[double(exp.Literal.string(word)) for word in STRANGE])
        for name in ("moment", "x", "y")
    ))  # fmt: skip
    wrong = int(engine.query(select(count_all(), source=table(tables.name("points")), where=strange))[0][0])
    if wrong:
        raise PolicyError(f"{wrong:,} positions are no finite numbers", hint="leave them out with a 'query:'")


def require_positions(policy: Policy) -> None:
    if len(policy.places) != 2:
        raise PolicyError(
            f"k_delta_anonymity needs two columns of the role place, the coordinates, not {len(policy.places)}",
            hint="give the columns of x and y the role place, in one unit, such as meters",
        )
    if policy.stays:
        raise PolicyError(
            f"journeys that are drawn together have no stays: '{policy.stays[0]}'",
            hint="leave the column out with a 'query:'",
        )
