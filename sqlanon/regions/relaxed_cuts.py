"""Cut regions where rows that are alike may be parted: `strict: false` of Mondrian (see `_partition`)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.regions.pack_places import Slot, read_place
from sqlanon.sqltree.tree import alias, bigint, case, literal, table, union_all, window


def split_regions(slots: Sequence[Slot], keys: Sequence[str], carried: Sequence[str]) -> exp.Query:
    """The rows of `work` in the regions that `decided` cuts; of the rows at a cut itself the first `take`, in the order
    of their keys, go left."""
    at = read_place(slots, "d")
    order = [exp.column(name, table="w") for name in (*keys, "first_")]
    here = case((at.eq(exp.column("cut", table="d")), literal(1)), default=literal(0))
    before = window(
        exp.Sum(this=exp.column("n", table="w")), partition=[exp.column("region", table="d"), here], order=order
    )
    earlier = bigint(exp.Sub(this=before, expression=exp.column("n", table="w")))
    rows = exp.select(*(f"w.{name}" for name in (*carried, "n")), "d.region", "d.right_")
    rows = rows.select(alias(_goes_left(at, earlier), "goes_left"))
    same = exp.column("region", table="w").eq(exp.column("region", table="d"))
    rows = rows.from_(table("work", alias="w")).join(table("decided", alias="d"), on=same)
    kept = [name for name in carried if name not in ("first_", "last_")]
    gone, first, last = exp.column("goes_left"), exp.column("first_"), exp.column("last_")
    edge = exp.Add(this=first, expression=gone)
    inside = exp.Sub(this=edge.copy(), expression=literal(1))
    left = exp.select(*kept, alias(first.copy(), "first_"), alias(inside, "last_"), alias(gone.copy(), "n"), "region")
    rest = exp.Sub(this=exp.column("n"), expression=gone.copy())
    right = exp.select(
        *kept, alias(edge, "first_"), alias(last, "last_"), alias(rest, "n"), alias(exp.column("right_"), "region")
    )
    return union_all(
        [
            tree.from_(rows.subquery(alias="parted")).where(some)
            for tree, some in ((left, gone.copy() > 0), (right, gone.copy() < exp.column("n")))
        ]
    )


def _goes_left(at: exp.Expr, before: exp.Expr) -> exp.Expr:
    """How many of the rows that are alike go left; all of them where there is no cut."""
    own, cut = exp.column("n", table="w"), exp.column("cut", table="d")
    rest = exp.func("GREATEST", exp.Sub(this=exp.column("take", table="d"), expression=before), literal(0))
    return bigint(
        case(
            (exp.or_(cut.is_(exp.Null()), at.copy() < cut.copy()), own),
            (at.copy() > cut.copy(), literal(0)),
            default=exp.func("LEAST", own.copy(), rest),
        )
    )
