"""Two tables in place of one: all columns but the sensitive one, and the sensitive values of small groups of rows.

    algorithm: {anatomy: {l: 4}}
    release: {table: patients_released}

`patients_released` has every row with its quasi-identifiers as they are, and the number of its group;
`patients_released_sensitive` has the sensitive values of each group, all of them different, and at least l. So nobody
is linked to a value with more than 1/l. The view `patients_released_estimates` pairs each row with all values of its
group: the sum of its column `estimate` over some rows and values is the expected number of rows that have both.

A column is eligible if no value of it is in more than 1/l of the rows. Rows are dealt out like cards: in the order of
their sensitive values, those of one value in a drawn order, each goes to the next of n/l groups. As no value has more
rows than there are groups, no group gets one twice, and what is left over at the end lies where its value is absent.

What it does not protect: who is in the table, since quasi-identifiers are shown as they are; and values that go with
them, since who learns from all groups how disease goes with age, say, guesses better than 1/l in one of them
(deFinetti attack). NULL is a value like any other. Two releases of the same persons give it away: their groups differ.
cite: Xiao and Tao 2006, Anatomy: simple and effective privacy preservation
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.algorithms._dealing import dealt, eligible
from sqlanon.algorithms._parting import Parted, Rows
from sqlanon.compiler.parted import ESTIMATES, GROUP, RECORDS, SENSITIVE, estimates
from sqlanon.compiler.tree import alias, bigint, column, joined, literal, nested, select, table
from sqlanon.transformations import ROW

SEEDS = ("anatomy/rows", "anatomy/values")


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    l: int = Field(ge=2, strict=True, description="Nobody is linked to a sensitive value with more than 1/l.")  # noqa: E741


def part(rows: Rows, params: Params) -> Parted:
    sensitive = rows.sensitive("anatomy")
    codes, distinct = eligible(rows, sensitive, params.l, SEEDS[1])
    number = rows.records // params.l
    groups = rows.make("groups", dealt(rows, sensitive, codes, distinct, number, SEEDS[0]))
    own = [column(name, "t") for name in rows.shown]
    main = select(
        *own,
        alias(exp.column("group_id", table="g"), GROUP),
        source=nested(rows.tree.copy(), "t"),
        joins=[joined(table(groups, alias="g"), column(ROW, "t").eq(exp.column("row_id", table="g")))],
    )
    # No group has a value twice, so that there is nothing to count; what is written is looked at again.
    values = select(
        alias(exp.column("group_id", table="c"), GROUP),
        alias(exp.column("original", table="v"), sensitive, quoted=True),
        alias(bigint(literal(1)), RECORDS),
        source=table(groups, alias="c"),
        joins=[joined(table(codes, alias="v"), exp.column("code", table="v").eq(exp.column("code", table="c")))],
    )
    shown = rows.shown
    return Parted(
        main,
        number,
        f"{number:,} groups of {params.l} rows and more, with {distinct:,} sensitive values in all",
        {SENSITIVE: values},
        {ESTIMATES: lambda name: estimates(name, shown, sensitive)},
    )
