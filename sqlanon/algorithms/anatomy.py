"""Two tables in place of one: all columns but the sensitive one, and the sensitive values of small groups of rows.

    algorithm: {anatomy: {l: 4}}
    release: {table: patients_released}

`patients_released` has every row with its quasi-identifiers as they are, and the number of its group;
`patients_released_sensitive` has the sensitive values of each group, all of them different, and at least l. So nobody
is linked to a value with more than 1/l. The view `patients_released_estimates` pairs each row with all values of its
group: the sum of its column `estimate` over some rows and values is the expected number of rows that have both.

With `release: {path: r.parquet}` they are the files `r.parquet` and `r_sensitive.parquet`, and there is no view.

A column is eligible if no value of it is in more than 1/l of the rows. Rows are dealt out like cards: in the order of
their sensitive values, those of one value in a drawn order, each goes to the next of n/l groups. As no value has more
rows than there are groups, no group gets one twice, and what is left over at the end lies where its value is absent.
Up to 100,000 rows, this is done within blocks of rows whose quasi-identifiers are close, so that estimates are better:
rows are sorted by the quasi-identifiers as the policy lists them, and cut wherever both parts are eligible.

What it does not protect: who is in the table, since quasi-identifiers are shown as they are; and values that go with
them, since who learns from all groups how disease goes with age, say, guesses better than 1/l in one of them
(deFinetti attack). A block that could be cut in two but was not tells that one of its parts was not eligible, and
sometimes a value for sure (`sqlanon attack --attack minimality`); `close: false` makes groups without a look at
quasi-identifiers, and tells nothing of that kind. A NULL is an unknown value and comes on top of the l values of
a group, at most once, unless the policy says `sensitive_nulls: value`. Two releases of the same persons give it away:
their groups differ.
cite: Xiao and Tao 2006, Anatomy: simple and effective privacy preservation
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.buckets.bucketize import Parted, Rows
from sqlanon.buckets.deal_rows import deal_rows, dealt_closely, eligible
from sqlanon.families import AlgorithmTraits
from sqlanon.relations.bucketization import ESTIMATES, GROUP, RECORDS, SENSITIVE, estimates
from sqlanon.sqltree.tree import alias, bigint, column, join_clause, literal, nest_query, select, table
from sqlanon.transformations import ROW

SEEDS = ("anatomy/rows", "anatomy/values")
TRAITS = AlgorithmTraits(writes_rows=True, seeds=SEEDS, groups=True, two_tables=True, worlds="close_groups")
MOST_CLOSE = 100_000  # rows: each round of cuts sorts them all


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    l: int = Field(ge=2, strict=True, description="Nobody is linked to a sensitive value with more than 1/l.")  # noqa: E741
    close: bool = Field(
        True, strict=True, description="Make groups of rows with alike quasi-identifiers, up to 100,000 rows."
    )


def part(rows: Rows, params: Params) -> Parted:
    sensitive = rows.sensitive("anatomy")
    codes, distinct, known = eligible(rows, sensitive, params.l, SEEDS[1])
    number = known // params.l
    if params.close and rows.records <= MOST_CLOSE:
        tree, number = dealt_closely(rows, sensitive, codes, params.l, SEEDS[0])
    else:
        tree = deal_rows(rows, sensitive, codes, distinct, number, SEEDS[0])
    groups = rows.make("groups", tree)
    own = [column(name, "t") for name in rows.shown]
    main = select(
        *own,
        alias(exp.column("group_id", table="g"), GROUP),
        source=nest_query(rows.tree.copy(), "t"),
        joins=[join_clause(table(groups, alias="g"), column(ROW, "t").eq(exp.column("row_id", table="g")))],
    )
    # No group has a value twice, so that there is nothing to count; what is written is looked at again.
    values = select(
        alias(exp.column("group_id", table="c"), GROUP),
        alias(exp.column("original", table="v"), sensitive, quoted=True),
        alias(bigint(literal(1)), RECORDS),
        source=table(groups, alias="c"),
        joins=[join_clause(table(codes, alias="v"), exp.column("code", table="v").eq(exp.column("code", table="c")))],
    )
    shown = rows.shown
    return Parted(
        main,
        number,
        f"{number:,} groups of {params.l} rows and more, with {distinct:,} sensitive values in all",
        {SENSITIVE: values},
        {ESTIMATES: lambda name: estimates(name, shown, sensitive)},
    )
