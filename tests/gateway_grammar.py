# ruff: noqa: E501
"""Random statements that the gateway answers, and random rows for them, as hypothesis strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway_world import PUBLISHED, REGIONS, Row, Tables
from hypothesis import strategies as st


@dataclass(frozen=True)
class Source:
    """A FROM clause, and the columns that can be used there."""

    text: str
    whole: tuple[str, ...] = ("age",)
    real: tuple[str, ...] = ("income",)
    texts: tuple[str, ...] = ("region",)
    unit: str = "user_id"
    keys: tuple[str, ...] = ()  # declared or public


VISITS = "SELECT user_id, region, age, income FROM visits"
EACH = (
    "SELECT user_id, COUNT(*) AS n, SUM(visits) AS s, AVG(income) AS income, MAX(region) AS region, MIN(age) AS age "
    "FROM visits {where} GROUP BY user_id {having}"
)
RANKED = (
    "SELECT user_id, region, income, age, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY age) AS n, "
    "LAG(age) OVER (PARTITION BY user_id ORDER BY income) AS s, RANK() OVER (PARTITION BY user_id, region ORDER BY age) "
    "AS k, COUNT(*) OVER (PARTITION BY user_id) AS c, FIRST_VALUE(visits) OVER (PARTITION BY user_id) AS f FROM visits"
)
ODD_EACH = (
    "SELECT user_id, COUNT(DISTINCT region) AS n, COUNT(*) FILTER (WHERE age > 20) AS d, SUM(income) FILTER (WHERE age > 9) "
    "AS s, MAX(CASE WHEN region = 'R1' THEN visits END) AS f, MIN(note) AS region FROM visits GROUP BY user_id"
)
PERSON_ROWS = "(SELECT user_id, region, age, income FROM visits v WHERE {}) t"
SHORT = [  # what is written in short: see rewrite_shorthand
    Source(
        "(SELECT v.user_id, v.region, v.age, v.income FROM visits v, users u WHERE u.user_id = v.user_id AND age > 2) t"
    ),
    Source(
        "(SELECT v.user_id, v.region, v.age, v.income FROM visits v, regions r WHERE r.region = v.region AND size > 1) t"
    ),
    Source(PERSON_ROWS.format("EXISTS (SELECT 1 FROM orders o WHERE o.user_id = v.user_id AND o.amount > 4)")),
    Source(
        PERSON_ROWS.format(
            "NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = v.user_id AND o.amount > 4) AND age > 3"
        )
    ),
    Source(PERSON_ROWS.format("EXISTS (SELECT 1 FROM regions r WHERE r.region = v.region AND r.size > 1)")),
    Source(PERSON_ROWS.format("NOT EXISTS (SELECT 1 FROM regions r WHERE r.region = v.region)")),
    Source(
        PERSON_ROWS.format(
            "user_id IN (SELECT user_id FROM orders GROUP BY user_id HAVING COUNT(*) > 1) AND region IN (SELECT region FROM regions)"
        )
    ),
    Source(
        "(SELECT user_id, region, age, income FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id, region ORDER BY age) = 1) t"
    ),
    Source(
        "(SELECT user_id, region, age, income, RANK() OVER (PARTITION BY user_id ORDER BY age) AS k FROM visits QUALIFY k < 3) t"
    ),
    Source(f"({VISITS} UNION SELECT user_id, home, 5, 0.5 FROM users UNION {VISITS} WHERE age > 9) t"),
    Source(f"({VISITS}) AS t(user_id, place, years)", ("years",), texts=("place",)),
    Source("visits v NATURAL JOIN regions", ("age", "size"), texts=("region", "note"), keys=("country",)),
    Source(
        "(visits v JOIN users u ON v.user_id = u.user_id)",
        ("v.age",),
        ("v.income",),
        ("v.region", "u.home"),
        "v.user_id",
    ),
    Source(
        "(SELECT user_id, CONCAT(region, '-', age) AS region, seen::date - CURRENT_DATE AS age, income FROM visits WHERE REPLACE(region, 'R', 'xx') <> 'xx1') t",
        ("LEAST(GREATEST(age, -9999), 99)",),
    ),
]
SOURCES = [
    *SHORT,
    Source("visits", ("age", "visits"), ("income", "price"), ("region", "note"), keys=("ward",)),
    Source("visits v JOIN users u USING (user_id)", texts=("v.region", "u.home"), keys=("ward",)),
    Source("users u LEFT JOIN visits v USING (user_id)", texts=("home", "region"), keys=("ward",)),
    Source("visits v JOIN visits w ON v.user_id = w.user_id", ("v.age", "w.visits"), ("w.income",), ("v.region",), "v.user_id"),
    Source("visits v LEFT JOIN visits w ON v.user_id = w.user_id AND v.age < w.age", ("v.age", "w.age"), ("w.income",), ("w.note",), "v.user_id"),
    Source("visits v JOIN regions r ON v.region = r.region", ("age", "size"), texts=("v.region",), keys=("country", "r.region", "ward")),
    Source("regions r LEFT JOIN visits v USING (region)", ("age",), texts=("note",), keys=("country", "region")),
    Source("visits v LEFT JOIN regions r USING (region)", ("age", "size"), texts=("region", "country")),
    Source("visits, regions r", ("age", "size"), texts=("note",), keys=("country",)),
    Source("regions r RIGHT JOIN visits v USING (region)", ("age", "size"), texts=("region",)),
    Source("items i JOIN orders o USING (order_id)", ("amount",), ("price",), ("sku",)),
    Source("items", ("order_id % 7",), ("price",), ("sku",), "order_id"),
    Source("items i JOIN orders o ON o.order_id = i.order_id JOIN visits v USING (user_id)", ("amount", "age"), ("i.price",), ("sku", "region")),
    Source("users", ("user_id % 5",), ("(user_id % 90) / 7.5",), ("home",)),
    Source(f"({EACH.format(where='', having='')}) t", ("n", "s", "age"), ("income",)),
    Source(f"({EACH.format(where='WHERE age > 20', having='HAVING COUNT(*) > 1')}) t", ("n", "s", "age"), ("income",)),
    Source(f"({EACH.format(where='', having='')}) t JOIN visits v USING (user_id)", ("n", "s", "v.age"), ("v.income",), ("v.region",)),
    Source(f"({RANKED}) t", ("LEAST(n, 9)", "s", "LEAST(k, 9)", "LEAST(GREATEST(c, 0), 9)", "f", "age")),
    Source(f"({RANKED}) t JOIN users USING (user_id)", ("LEAST(n, 9)", "s", "f"), texts=("region", "home")),
    Source(f"({VISITS} UNION ALL SELECT user_id, home, 5, 0.5 FROM users) t"),
    Source(f"(SELECT user_id, 'x' AS region, 5 AS age, 1.5 AS income FROM users UNION ALL {VISITS}) t"),
    Source(f"({VISITS} WHERE age > 30 UNION ALL {VISITS} UNION ALL {VISITS} WHERE region = 'R1') t"),
    Source("(SELECT DISTINCT user_id, region, age, income FROM visits) t"),
    Source("(SELECT user_id, region, COUNT(*) AS age, SUM(income) AS income FROM visits GROUP BY user_id, region) t"),
    Source("items i JOIN orders o ON o.order_id = i.order_id JOIN items j ON j.order_id = o.order_id", ("o.amount",), ("i.price", "j.price"), ("i.sku", "j.sku"), "o.user_id"),
    Source(f"({ODD_EACH}) t", ("n", "d", "f"), ("s",)),
    Source(f"({ODD_EACH}) t JOIN ({RANKED}) u USING (user_id) JOIN visits v USING (user_id)", ("t.n", "v.age", "u.s"), ("v.income",), ("v.note",)),
    Source("(SELECT user_id, region, MIN(income) OVER (PARTITION BY user_id, region) AS income, MAX(age) OVER (PARTITION BY user_id ORDER BY visits) AS age FROM visits) t"),
    Source(f"(SELECT x.user_id, x.region, y.age, x.income FROM visits x JOIN visits y USING (user_id) UNION ALL {VISITS}) t"),
    Source("(SELECT v.*, CASE WHEN age > 40 THEN 'old' WHEN age > 20 THEN 'young' END AS band FROM visits v) t", texts=("region", "band"), keys=("band", "ward")),
]  # fmt: skip


@st.composite
def number(draw: st.DrawFn, source: Source, depth: int = 2) -> str:
    """A number with bounds that are not too wide."""
    column = st.sampled_from([*source.whole, *source.real])
    if depth == 0 or draw(st.booleans()):
        return draw(column)
    inner = number(source, depth - 1)
    shape = draw(
        st.sampled_from(
            [
                "({a} + {b})", "({a} - {b})", "-({a})", "ABS({a})", "({a} * 3)", "COALESCE({a}, 7)", "LEAST({a}, 50)",
                "GREATEST({a}, {b})", "CASE WHEN {c} THEN {a} ELSE {b} END", "CASE WHEN {c} THEN {a} END",
                "LEAST(GREATEST({a} * {b}, -90), 90)", "NULLIF({a}, 3)", "FLOOR({a})", "ROUND({a})", "LENGTH({t})",
                "CAST({c} AS INT)", "SIGN({a})", "LEAST(GREATEST({a} / NULLIF({b}, 0), -9), 9)", "SQRT(ABS({a}))",
            ]
        )
    )  # fmt: skip
    parts = {"a": draw(inner), "b": draw(inner), "c": "", "t": draw(st.sampled_from(source.texts))}
    if "{c}" in shape:
        parts["c"] = draw(condition(source, depth - 1))
    return shape.format(**parts)


@st.composite
def condition(draw: st.DrawFn, source: Source, depth: int = 1) -> str:
    text, unit = draw(st.sampled_from(source.texts)), source.unit
    simple = [
        f"{text} = 'R1'", f"{text} IN ('R0', 'R2', 'a')", f"{text} IS NULL", f"{text} LIKE '%1'", f"{unit} <> 3",
        f"{unit} = 2", f"{unit} BETWEEN 2 AND 4", f"LENGTH({text}) > 1", f"UPPER({text}) <> 'R0'", "TRUE",
    ]  # fmt: skip
    shape = draw(st.sampled_from([*simple, "{a} > {b}", "{a} <= 40", "{a} BETWEEN 5 AND 60", "NOT ({c})", "({c} AND {d})", "({c} OR {d})"]))  # fmt: skip
    if "{c}" in shape and depth == 0:
        return draw(st.sampled_from(simple))
    inner = condition(source, depth - 1) if "{c}" in shape else st.just("")
    return shape.format(
        a=draw(number(source, 0)), b=draw(number(source, 0)), c=draw(inner), d=draw(inner) if "{d}" in shape else ""
    )


AGGREGATES = ["COUNT(*)", "COUNT({a})", "SUM({a})", "AVG({a})", "VARIANCE({a})", "VAR_POP({a})", "STDDEV({a})"]
AGGREGATES += ["COUNT(DISTINCT {a})", "COUNT(DISTINCT {t})", "COUNT(DISTINCT {u})", "COUNT_IF({c})", "COUNT({t})"]
QUANTILES = ["MEDIAN({a})", "QUANTILE_CONT({a}, 0.1)", "PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY {a})"]


@st.composite
def aggregate(draw: st.DrawFn, source: Source, quantiles: bool) -> str:
    shape = draw(st.sampled_from(AGGREGATES + (QUANTILES if quantiles else [])))
    made = shape.format(
        a=draw(number(source)), t=draw(st.sampled_from(source.texts)), u=source.unit, c=draw(condition(source))
    )
    if draw(st.integers(0, 3)) == 0 and "COUNT_IF" not in made:
        made += f" FILTER (WHERE {draw(condition(source))})"
    return made


@dataclass(frozen=True)
class Asked:
    sql: str
    keys: int
    aggregates: tuple[str, ...]


@st.composite
def statements(draw: st.DrawFn, quantiles: bool = True, post: bool = True, fractions: bool = True) -> Asked:
    source = draw(st.sampled_from(SOURCES))
    private = st.sampled_from([*source.texts, *source.whole])
    computed = number(source, 1).map(lambda made: f"FLOOR(({made}) / 10)")
    keyed = st.sampled_from(source.real) if fractions else private
    key = st.one_of(private, keyed, computed, condition(source).map(lambda made: f"({made})"))
    if source.keys:
        key = st.one_of(st.sampled_from(source.keys), key)
    keys = draw(st.lists(key, max_size=2, unique=True))
    found = draw(st.lists(aggregate(source, quantiles), min_size=1, max_size=3))
    listed = [f"{each} AS k{place}" for place, each in enumerate(keys)]
    listed += [f"{each} AS x{place}" for place, each in enumerate(found)]
    sql = f"SELECT {', '.join(listed)} FROM {source.text}"
    if draw(st.booleans()):
        sql += f" WHERE {draw(condition(source))}"
    if keys:
        sql += f" GROUP BY {', '.join(str(place + 1) for place in range(len(keys)))}"
    if post:
        sql += draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1", " ORDER BY 1 DESC LIMIT 2"]))
    return Asked(sql, len(keys), tuple(found))


# ---- rows

WILD: dict[str, list[Any]] = {
    "age": [None, -7, 0, 15, 35, 60, 120, 10**6],
    "income": [
        None,
        float("nan"),
        float("inf"),
        float("-inf"),
        -1.0,
        -0.0,
        0.0,
        0.1,
        1e-300,
        40.0,
        50_000.0,
        200_000.0,
        1e12,
    ],
    "visits": [None, 0, 1, 7, 50, 10**12],
    "price": [None, -50, -9.5, 0.25, 10.5, 99],
    "region": [None, "R0", "R1", "R2", "R9", "R77", ""],
    "ward": [None, "W0", "W1", "W9"],
}
TAME: dict[str, list[Any]] = {
    "age": [None, 0, 15, 35, 60, 120],
    "income": [None, 0.5, 40.0, 50_000.25, 200_000.0],
    "visits": [None, 0, 1, 7, 50],
    "price": [None, -9.5, 0.25, 10.5],
    "region": [None, "R0", "R1", "R2", "R9"],
    "ward": [None, "W0", "W1", "W2"],
}


@st.composite
def rows(draw: st.DrawFn, values: dict[str, list[Any]] = WILD, persons: int = 6, most: int = 14) -> Tables:
    """Tables of a few persons: some with many rows, some alone in a key, some rows of nobody."""
    wild = values is WILD
    who = st.sampled_from([None, *range(1, persons + 1), 1, 1] if wild else list(range(1, persons + 1)))
    columns: dict[str, st.SearchStrategy[Any]] = {name: st.sampled_from(given) for name, given in values.items()}
    visit = st.fixed_dictionaries(
        {
            "user_id": who, **columns, "note": st.sampled_from([None, "a", "b", "R1"]), "ok": st.sampled_from([True, None]),
            "seen": st.sampled_from(["2026-01-01 10:00:00", None]),
        }
    )  # fmt: skip
    visits = draw(st.lists(visit, max_size=most))
    visits += visits[: draw(st.integers(0, 3))]  # rows that are equal
    here = draw(st.sets(st.integers(1, persons))) if wild else set(range(1, persons + 1))
    users = [
        {"user_id": each, "email": f"e{each}", "home": draw(st.sampled_from(["R0", "R1", None])), "born": None, "secret": "s"}
        for each in sorted(here)
    ]  # fmt: skip
    users += users[:1] if wild and draw(st.booleans()) else []
    amounts = draw(st.lists(st.tuples(who, st.sampled_from([None, 0, 5, 700, *([9999] if wild else [])])), max_size=6))
    orders = [{"order_id": place, "user_id": each, "amount": amount} for place, (each, amount) in enumerate(amounts)]
    item = st.tuples(st.integers(0, 6), st.sampled_from(["a", "b", None]), st.sampled_from([None, 0.5, 100.0]))
    sold = [{"order_id": order, "sku": sku, "price": price} for order, sku, price in draw(st.lists(item, max_size=8))]
    return {
        "visits": visits, "users": users, "orders": orders, "items": sold, "regions": REGIONS, "published": PUBLISHED,
        "staff": [],
    }  # fmt: skip


def without(tables: Tables, person: int) -> dict[str, list[Row]]:
    """The tables without one person: all rows, in all linked tables."""
    own = {row["order_id"] for row in tables["orders"] if row["user_id"] == person}
    kept = {name: [row for row in found if row.get("user_id") != person] for name, found in tables.items()}
    return kept | {"items": [row for row in tables["items"] if row["order_id"] not in own]}
