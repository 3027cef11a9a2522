"""How much of the sum of a number, within a class, its largest contributor holds: the (1, k) rule of dominance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.policy import Policy, Source
from sqlanon.relations.source import SUPPRESSED, relation, rows_to_check
from sqlanon.sqltree.tree import alias, case, column, count_all, double, literal, nest_query, select, sum_bigint


@dataclass(frozen=True)
class TopShare:
    """The largest share of one contributor in a class, and how many classes it is too large in."""

    attribute: str
    classes: int  # with a sum that is not 0
    highest: float | None
    dominated: int


def measure_dominance(
    policy: Policy, engine: Engine, release: Source, attributes: Sequence[str], *, most: float
) -> tuple[TopShare, ...]:
    """The top share of each attribute over the classes of the quasi-identifiers of a release.

    Contributors are persons where the release has their column, and rows where it has not. Absolute amounts are added
    up: a loss hides nobody.
    """
    rows = relation(engine.resolve(release), engine.dialect)
    known = {item.name for item in engine.columns(rows)}
    kept = rows_to_check(
        rows,
        policy.quasi_identifiers,
        suppressed_marker=SUPPRESSED if policy.suppressed_rows == "keep" else None,
        number_rows=False,
        sensitive=tuple(name for name in policy.sensitive if name in known),
    )
    person = policy.person if policy.person in known else None
    return tuple(_top_share(engine, kept, policy.quasi_identifiers, person, name, most) for name in attributes)


def _top_share(
    engine: Engine, rows: exp.Select, groups: Sequence[str], person: str | None, name: str, most: float
) -> TopShare:
    value = double(column(name))
    # NULL contributes nothing, and infinity less infinity is NaN, which is not 0.
    finite = exp.Sub(this=value.copy(), expression=value.copy()).eq(0)
    labels = [f"c{place}" for place in range(1, len(groups) + 1)]
    chosen = [alias(column(group), label) for group, label in zip(groups, labels, strict=True)]
    amount: exp.Expr = exp.Abs(this=value)
    by: list[exp.Expr] = []
    if person is not None:
        amount = exp.Sum(this=amount)
        by = [*(column(group) for group in groups), column(person)]
    each = select(*chosen, alias(amount, "amount"), source=nest_query(rows.copy(), "released"), where=finite, groups=by)
    sums = select(
        alias(exp.Max(this=exp.column("amount")), "top"),
        alias(exp.Sum(this=exp.column("amount")), "total"),
        source=nest_query(each, "contributors"),
        groups=labels,
    )
    share = exp.Div(this=exp.column("top"), expression=exp.column("total"))
    shares = select(alias(share, "share"), source=nest_query(sums, "sums"), where=exp.column("total") > literal(0.0))
    beyond = case((exp.column("share") > literal(most + 1e-12), literal(1)), default=literal(0))
    tree = select(
        count_all(), exp.Max(this=exp.column("share")), sum_bigint(beyond), source=nest_query(shares, "shares")
    )
    classes, highest, dominated = engine.query(tree)[0]
    return TopShare(name, int(classes), None if highest is None else float(highest), int(dominated or 0))
