"""Rows are dealt out to groups like cards, so that no group gets a sensitive value twice."""

from __future__ import annotations

from sqlglot import exp

from sqlanon.buckets.bucketize import MOST_BITS, Rows
from sqlanon.errors import PolicyError
from sqlanon.sqltree.draws import canonical
from sqlanon.sqltree.tree import (
    alias,
    bigint,
    case,
    column,
    count_all,
    join_clause,
    literal,
    nest_query,
    same,
    select,
    sum_bigint,
    table,
    union_all,
    window,
)
from sqlanon.transformations import KEY, ROW


def eligible(rows: Rows, sensitive: str, l: int, seed: str) -> tuple[str, int, int]:  # noqa: E741
    """The sensitive values with their numbers, in a drawn order, how many there are, and how many rows have one; none
    has too many rows. A NULL that is an unknown value comes last, and is in no group twice either."""
    grouped = select(
        alias(column(sensitive), "original"),
        alias(count_all(), "n"),
        source=nest_query(rows.tree.copy(), "t"),
        groups=[column(sensitive)],
    )
    # A label that is the same on every engine, unlike the order of values.
    label = canonical("original", rows.given.columns[sensitive])
    unknown = case((exp.column("original").is_(exp.Null()), literal(1)), default=literal(0))
    first: list[exp.Expr] = [unknown] if rows.policy.sensitive_nulls == "unknown" else []
    place = window(exp.RowNumber(), order=[*first, rows.draw(MOST_BITS, "s", label), label.copy()])
    codes = select(
        "original",
        "n",
        alias(exp.Sub(this=place, expression=literal(1)), "code"),
        source=nest_query(grouped, "c"),
        joins=[rows.seed(seed, "s")],
    )
    made = rows.make("values", codes)
    counts = [(int(n), is_null and bool(first)) for n, is_null in rows.engine.query(
        select("n", exp.column("original").is_(exp.Null()), source=table(made))
    )]  # fmt: skip
    distinct = len(counts)
    nulls = sum(n for n, is_unknown in counts if is_unknown)
    known, most = rows.records - nulls, max((n for n, is_unknown in counts if not is_unknown), default=0)
    if nulls and (not most or nulls > known // l):
        raise PolicyError(
            f"'{sensitive}' is not eligible: it is NULL, which is no value, in more rows than there are groups of {l}",
            hint="leave such rows out with 'query:', or say 'sensitive_nulls: value'",
        )
    if most * l > known:
        largest = known // most
        hint = f"it allows l up to {largest}" if largest >= 2 else "groups cannot hide it: leave the column out"
        raise PolicyError(f"'{sensitive}' is not eligible: one value has more than 1/{l} of the rows", hint=hint)
    return made, distinct, known


def deal_rows(rows: Rows, sensitive: str, codes: str, distinct: int, groups: int, seed: str) -> exp.Select:
    """row_id, code, group_id: rows in the order of their values, then of a draw, each in the next group."""
    # The value and the draw in one integer, which sorts twice as fast as two columns; where rows carry the value beside
    # it through the sorting, that takes half as long again.
    bits = min(MOST_BITS, 62 - (distinct - 1).bit_length())
    place = exp.Add(
        this=exp.Mul(this=bigint(exp.column("code", table="v")), expression=bigint(literal(2**bits))),
        expression=rows.draw(bits, "s", column(KEY, "t")),
    )
    known = same(rows.engine.dialect, column(sensitive, "t"), exp.column("original", table="v"))
    placed = select(
        alias(column(ROW, "t"), "row_id"),
        alias(place, "place"),
        source=nest_query(rows.tree.copy(), "t"),
        joins=[join_clause(table(codes, alias="v"), known), rows.seed(seed, "s")],
    )
    turn = window(exp.RowNumber(), order=[exp.column("place"), exp.column("row_id")])
    before = exp.Paren(this=exp.Sub(this=turn, expression=literal(1)))
    group = exp.Add(this=exp.Mod(this=before, expression=literal(groups)), expression=literal(1))
    return select(
        "row_id",
        alias(exp.BitwiseRightShift(this=exp.column("place"), expression=literal(bits)), "code"),
        alias(bigint(group), "group_id"),
        source=nest_query(placed, "placed"),
    )


def dealt_closely(rows: Rows, sensitive: str, codes: str, l: int, seed: str) -> tuple[exp.Query, int]:  # noqa: E741
    """The same within blocks of rows that lie close to one another, and the number of groups.

    Rows stand in the order of their quasi-identifiers. A block is cut in two where both parts are eligible and have two
    groups at least, as near to its middle as that goes, until no block can be cut; rows with equal quasi-identifiers
    stay together. What has no value is dealt out afterwards, to any groups.
    """
    known = same(rows.engine.dialect, column(sensitive, "t"), exp.column("original", table="v"))
    near: list[exp.Expr] = [column(name, "t") for name in rows.policy.quasi_identifiers]
    drawn = rows.draw(MOST_BITS, "s", column(KEY, "t"))
    placed = select(
        alias(column(ROW, "t"), "row_id"),
        alias(bigint(exp.column("code", table="v")), "code"),
        alias(drawn, "draw"),
        alias(window(exp.DenseRank(), order=near), "kin"),
        alias(case((exp.column("original", table="v").is_(exp.Null()), literal(1)), default=literal(0)), "nothing"),
        source=nest_query(rows.tree.copy(), "t"),
        joins=[join_clause(table(codes, alias="v"), known), rows.seed(seed, "s")],
    )
    every = rows.make("placed", placed)
    unknown = rows.policy.sensitive_nulls == "unknown"
    order = [exp.column("kin"), exp.column("draw"), exp.column("row_id")]
    valued = select(
        "row_id", "code", "draw", "kin", alias(window(exp.RowNumber(), order=order), "z"),
        alias(bigint(literal(1)), "block"), source=table(every),
    )  # fmt: skip
    if unknown:
        valued = valued.where(exp.column("nothing").eq(0))
    blocks, turn = rows.make("blocks_0", valued), 0
    while True:
        cuts = rows.make("cuts", _cuts(blocks, l))
        if not rows.engine.query(select("block", source=table(cuts)).limit(1)):
            break
        turn = 1 - turn
        behind = exp.column("z", table="b") >= exp.column("cut", table="c")
        block = case((behind, exp.column("cut", table="c")), default=exp.column("block", table="b"))
        blocks = rows.make(f"blocks_{turn}", select(
            *(exp.column(name, table="b") for name in ("row_id", "code", "draw", "kin", "z")),
            alias(bigint(block), "block"),
            source=table(blocks, alias="b"),
            joins=[join_clause(
                table(cuts, alias="c"), exp.column("block", table="c").eq(exp.column("block", table="b")), side="LEFT",
            )],
        ))  # fmt: skip
    number = exp.IntDiv(this=count_all(), expression=literal(l))
    counted = select("block", alias(bigint(number), "groups_"), source=table(blocks), groups=["block"])
    running = window(exp.Sum(this=exp.column("groups_")), order=[exp.column("block")])
    before = bigint(exp.Sub(this=running, expression=exp.column("groups_")))
    sizes = rows.make("sizes", select("block", "groups_", alias(before, "before_"), source=nest_query(counted, "c")))
    groups = int(rows.engine.query(select(sum_bigint(exp.column("groups_")), source=table(sizes)))[0][0])
    inside = window(
        exp.RowNumber(), partition=[exp.column("block")],
        order=[exp.column("code"), exp.column("draw"), exp.column("row_id")],
    )  # fmt: skip
    ranked = select("row_id", "code", "block", alias(inside, "turn"), source=table(blocks))
    step = exp.Mod(this=exp.paren(exp.Sub(this=exp.column("turn"), expression=literal(1))),
                   expression=exp.column("groups_"))  # fmt: skip
    group = exp.Add(this=exp.Add(this=exp.column("before_"), expression=exp.paren(step)), expression=literal(1))
    same_block = exp.column("block", table="s").eq(exp.column("block", table="r"))
    dealt_rows = select(
        "row_id", "code", alias(bigint(group), "group_id"), source=nest_query(ranked, "r"),
        joins=[join_clause(table(sizes, alias="s"), same_block)],
    )  # fmt: skip
    if not unknown:
        return dealt_rows, groups
    any_group = window(exp.RowNumber(), order=[exp.column("draw"), exp.column("row_id")])
    nothing = select("row_id", "code", alias(bigint(any_group), "group_id"), source=table(every))
    return union_all([dealt_rows, nothing.where(exp.column("nothing").eq(1))]), groups


def _cuts(blocks: str, l: int) -> exp.Select:  # noqa: E741
    """(block, cut): of each block that can be cut, the first row of its second part."""
    block, z, code = exp.column("block"), exp.column("z"), exp.column("code")
    down = exp.Neg(this=z.copy())
    counted = select(
        "block", "z", "kin",
        alias(window(exp.RowNumber(), partition=[block.copy()], order=[z.copy()]), "place"),
        alias(window(count_all(), partition=[block.copy()]), "n"),
        alias(window(exp.RowNumber(), partition=[block.copy(), code.copy()], order=[z.copy()]), "so_far"),
        alias(window(exp.RowNumber(), partition=[block.copy(), code.copy()], order=[down]), "to_come"),
        source=table(blocks),
    )  # fmt: skip
    most_before = window(exp.Max(this=exp.column("so_far")), partition=[block.copy()], order=[z.copy()])
    most_after = window(exp.Max(this=exp.column("to_come")), partition=[block.copy()], order=[down.copy()])
    most = select("block", "z", "kin", "place", "n", alias(most_before, "most_before"), alias(most_after, "most_after"),
                  source=nest_query(counted, "counted"))  # fmt: skip
    earlier = [
        alias(window(exp.Lag(this=exp.column(name)), partition=[block.copy()], order=[z.copy()]), f"last_{name}")
        for name in ("kin", "most_before")
    ]
    beside = select("block", "z", "kin", "place", "n", "most_after", *earlier, source=nest_query(most, "most"))
    left = exp.paren(exp.Sub(this=exp.column("place"), expression=literal(1)))
    right = exp.paren(exp.Sub(this=exp.column("n"), expression=left.copy()))
    fits = exp.and_(
        exp.column("kin").neq(exp.column("last_kin")),
        left.copy() >= literal(2 * l),
        right.copy() >= literal(2 * l),
        exp.Mul(this=exp.column("last_most_before"), expression=literal(l)) <= left.copy(),
        exp.Mul(this=exp.column("most_after"), expression=literal(l)) <= right.copy(),
    )
    off = exp.Abs(this=exp.Sub(this=exp.Mul(this=literal(2), expression=left), expression=exp.column("n")))
    nearest = window(exp.RowNumber(), partition=[block.copy()], order=[off, z.copy()])
    ranked = select("block", "z", alias(nearest, "choice"), source=nest_query(beside, "beside"), where=fits)
    return select("block", alias(exp.column("z"), "cut"), source=nest_query(ranked, "ranked"),
                  where=exp.column("choice").eq(1))  # fmt: skip
