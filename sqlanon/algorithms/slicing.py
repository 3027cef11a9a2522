"""Columns are cut into parts, rows into buckets, and in each bucket every part is shuffled by itself.

    algorithm: {slicing: {parts: [[age, sex], [zip, disease]], l: 3}}

Columns of one part stay together, so that their relation stays visible. Between parts only the bucket is known, which
the column `sqlanon_group` gives. An attacker links no record of the source to a sensitive value with more than 1/l: a
record may be in any bucket where it matches all parts, and there have any sensitive value of the rows that match it in
the part of the sensitive column.

Where the sensitive column is a part of its own, buckets are dealt out as for anatomy, n/l of them. Otherwise the
probability is measured for every record, and buckets are made twice as large until it is low enough. Every record is
then compared with every bucket, so there may be at most 20 million pairs of them at the start.

What it does not protect: who is in the table, if a part tells it; separate the columns that single out persons. Nor
values that go with others: an attacker who learns from all buckets how the parts go together guesses better than 1/l
(deFinetti attack). Two releases of the same persons have different buckets, and together tell more.
cite: Li, Li, Zhang and Molloy 2012, Slicing: a new approach for privacy preserving data publishing
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.buckets.bucketize import Parted, Rows, draw_twice, permute_rows
from sqlanon.buckets.deal_rows import deal_rows, eligible
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import AlgorithmTraits
from sqlanon.relations.bucketization import GROUP
from sqlanon.relations.slicing_posterior import posterior
from sqlanon.sqltree.tree import alias, column, count_all, join_clause, nest_query, select, table
from sqlanon.transformations import ROW

MOST_PARTS = 20
MOST_PAIRS = 20_000_000
TOLERANCE = 1e-9
SEEDS = ("slicing/rows", "slicing/values", *(f"slicing/part {place}" for place in range(1, MOST_PARTS)))
TRAITS = AlgorithmTraits(writes_rows=True, seeds=SEEDS, groups=True, parts="parts", worlds="groups")

Part = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    parts: Annotated[tuple[Part, ...], Field(min_length=2, max_length=MOST_PARTS)] = Field(
        description="Lists of columns that stay together; every released column is in one of them."
    )
    l: int = Field(ge=2, strict=True, description="An attacker links nobody to a sensitive value with more than 1/l.")  # noqa: E741


def part(rows: Rows, params: Params) -> Parted:
    sensitive = rows.sensitive("slicing")
    _require_parts(rows, params)
    codes, distinct, known = eligible(rows, sensitive, params.l, SEEDS[1])
    alone = (sensitive,) in params.parts
    number = known // params.l
    if not alone:
        number = max(1, min(number, MOST_PAIRS // _records(rows, sensitive)))
    while True:
        groups = rows.make("groups", deal_rows(rows, sensitive, codes, distinct, number, SEEDS[0]))
        measured = None if alone else _worst(rows, params, groups, sensitive)
        if measured is None or measured <= 1 / params.l + TOLERANCE:
            break
        if number == 1:
            raise PolicyError(
                f"the columns beside '{sensitive}' tell too much of it: "
                f"even in one bucket somebody is linked to a value with more than 1/{params.l}",
                hint="take them apart from it, or ask for a smaller l",
            )
        number //= 2
    main = _shuffled(rows, params, groups)
    why = f"{number:,} buckets of {rows.records // number:,} rows and more"
    told = {} if measured is None else {"largest_posterior": measured}
    if measured is not None:
        why += f"; nobody is linked to a sensitive value with more than {measured:.4g}"
    return Parted(main, number, why, measured=told)


def _require_parts(rows: Rows, params: Params) -> None:
    wanted = [*rows.shown, *rows.policy.sensitive]
    named = [name for names in params.parts for name in names]
    for place, name in enumerate(named):
        if name not in wanted:
            raise PolicyError(f"'{name}' is not released: it is in no part", hint=did_you_mean(name, wanted))
        if name in named[:place]:
            raise PolicyError(f"'{name}' is there twice: a column is in one part", hint="keep one of them")
    missing = [name for name in wanted if name not in named]
    if missing:
        raise PolicyError(f"no part has {', '.join(map(repr, missing))}", hint="put every released column into a part")


def _records(rows: Rows, sensitive: str) -> int:
    """How many different records there are, without their sensitive value."""
    different = select(*(column(name) for name in rows.shown), source=nest_query(rows.tree.copy(), "t")).distinct()
    return max(1, int(rows.engine.query(select(count_all(), source=nest_query(different, "d")))[0][0]))


def _worst(rows: Rows, params: Params, groups: str, sensitive: str) -> float:
    """The largest probability with which buckets link a record to a value; it does not depend on the shuffling."""
    names = [*rows.shown, sensitive]
    bucketed = select(
        *(column(name, "t") for name in names),
        alias(exp.column("group_id", table="g"), GROUP),
        source=nest_query(rows.tree.copy(), "t"),
        joins=[join_clause(table(groups, alias="g"), column(ROW, "t").eq(exp.column("row_id", table="g")))],
    )
    steps, query = posterior(bucketed, rows.tree, params.parts, sensitive, rows.given.columns)
    try:
        run_steps(rows.engine, steps)
        return float(rows.engine.query(query)[0][0])
    finally:
        drop_steps(rows.engine, steps)


def _shuffled(rows: Rows, params: Params, groups: str) -> exp.Select:
    """The first part stays where it is; in every other one each row takes the values of a row of its bucket."""
    joins = [join_clause(table(groups, alias="g"), column(ROW, "t").eq(exp.column("row_id", table="g")))]
    owner = dict.fromkeys(params.parts[0], "t")
    for place, names in enumerate(params.parts[1:], start=1):
        bucket = join_clause(table(groups, alias="g"), column(ROW, "t").eq(exp.column("row_id", table="g")))
        label = SEEDS[place + 1]
        drawn = rows.make(f"drawn_{place}", draw_twice(rows, label, exp.column("group_id", table="g"), (), bucket))
        pairs = rows.make(f"pairs_{place}", permute_rows(drawn))
        mine, theirs = f"w{place}", f"p{place}"
        joins += [
            join_clause(table(pairs, alias=mine), exp.column("row_id", table=mine).eq(column(ROW, "t"))),
            join_clause(
                nest_query(rows.tree.copy(), theirs), column(ROW, theirs).eq(exp.column("partner", table=mine))
            ),
        ]
        owner |= dict.fromkeys(names, theirs)
    shown = [column(name, owner[name]) for name in rows.policy.columns if name in owner]
    return select(
        *shown, alias(exp.column("group_id", table="g"), GROUP), source=nest_query(rows.tree.copy(), "t"), joins=joins
    )
