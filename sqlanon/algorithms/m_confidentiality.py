"""Classes are made without looking at the sensitive column; where too many rows have a sensitive value, some change.

    models:
      - k_anonymity: {k: 5}
    algorithm: {m_confidentiality: {m: 2, values: [HIV, cancer]}}

An attacker who knows that an algorithm generalizes only as much as the sensitive values require learns from what it did
(minimality attack). So the best generalization is searched for with only those models that do not look at the sensitive
column. In most classes, at most 1/(2m) of the rows then have one of `values`. Let V be the classes where it is more.
Each of them takes the share of one of the (2m - 1)·|V| other classes with the largest shares, drawn at random. That
many of its rows, drawn at random, keep their value; the others get a value that is not sensitive, drawn from its
distribution in the table.

An attacker links nobody to `values` with more than 1/m, even if they know all of this: of the classes that look like
one of V, 1 in 2m is one; there the link may be certain, and in the others it is at most 1/(2m), which adds up to less
than 1/m. Other models of the sensitive column may be asked for; they are checked, not searched for.

What it does not protect: values that are not among `values`, and the truth: some rows of the release are false, and its
evidence says how many. The argument assumes that classes differ only in their sensitive values: an attacker who knows
that a disease goes with an age knows better. Two releases of the same persons may tell more.
cite: Wong, Fu, Wang and Pei 2007, Minimality attack in privacy preserving data publishing
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field
from sqlglot import exp

from sqlanon.buckets.bucketize import MOST_BITS, Parted, Rows
from sqlanon.errors import PolicyError
from sqlanon.families import AlgorithmTraits, plugin
from sqlanon.relations.classes import as_label
from sqlanon.relations.rewrite import SHOWN, Output, by_levels
from sqlanon.relations.transformation_tables import written_key
from sqlanon.sqltree.draws import canonical
from sqlanon.sqltree.tree import (
    alias,
    bind,
    case,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    select,
    sum_bigint,
    table,
    text,
    window,
)
from sqlanon.transformations import KEY, ROW

SEEDS = tuple(f"m_confidentiality/{what}" for what in ("classes", "rows", "values"))
TRAITS = AlgorithmTraits(writes_rows=True, seeds=SEEDS, distorts=True)


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    m: int = Field(
        ge=2, strict=True, description="An attacker links nobody to the sensitive values with more than 1/m."
    )
    values: tuple[str | int | bool, ...] = Field(
        min_length=1, description="Values that an attacker must not link to a person."
    )


def part(rows: Rows, params: Params) -> Parted:
    sensitive = rows.sensitive("m_confidentiality")
    labels = list(dict.fromkeys(as_label(value) for value in params.values))
    _require_values(rows, sensitive, labels)
    task, solution = rows.search(rows.policy)
    try:
        others = dict.fromkeys(
            [ROW, KEY, *(name for name in rows.shown if name not in rows.policy.quasi_identifiers)], SHOWN
        )
        output = Output({**others, sensitive: SHOWN}, rows.policy.sensitive)
        passes = task.passes(solution.passes, suppresses=solution.suppressed > 0)
        tree = by_levels(rows.engine.dialect, task.prelude.rows, task.compressed, passes, output)
        general = rows.make("general", tree)
        levels = tuple(task.table.levels(node) for node in solution.passes)
    finally:
        task.close()
    distorted, broken, changed = _distorted(rows, params.m, sensitive, labels, general)
    value = case(
        (exp.column("row_id", table="d").is_(exp.Null()), column(sensitive, "g")),
        default=exp.column("original", table="d"),
    )
    shown = [
        alias(value, name, quoted=True) if name == sensitive else column(name, "g")
        for name in rows.policy.columns
        if name in rows.shown or name == sensitive
    ]
    main = select(
        *shown,
        source=table(general, alias="g"),
        joins=[
            join_clause(table(distorted, alias="d"), column(ROW, "g").eq(exp.column("row_id", table="d")), side="LEFT")
        ],
    )
    why = f"{solution.why}; then {changed:,} rows were given another value, in {broken:,} classes"
    return Parted(
        main,
        broken,
        why,
        measured={"distorted_rows": changed},
        suppressed=solution.suppressed,
        loss=solution.loss,
        proven=solution.proven,
        passes=levels,
    )


def _is_sensitive(sensitive: str, labels: Sequence[str], of: str) -> exp.Expr:
    found = text(column(sensitive, of)).isin(*(literal(label) for label in labels))
    return exp.Coalesce(this=found, expressions=[exp.false()])


def _require_values(rows: Rows, sensitive: str, labels: Sequence[str]) -> None:
    own = text(column(sensitive, "t"))
    tree = select(
        own, source=nest_query(rows.tree.copy(), "t"), where=own.isin(*(literal(item) for item in labels))
    ).distinct()
    found = {value for (value,) in rows.engine.query(tree)}
    if len(found) < len(labels) and rows.policy.absent_values == "refuse":
        raise PolicyError(
            f"'{sensitive}' does not hold {len(labels) - len(found)} of the {len(labels)} given values",
            hint="correct them, or say 'absent_values: allow'",
        )


def _distorted(rows: Rows, m: int, sensitive: str, labels: Sequence[str], general: str) -> tuple[str, int, int]:
    """row_id, original: the rows that get another value; with the number of classes, and of rows."""
    kinds = {item.name: item.type for item in rows.engine.columns(select(exp.Star(), source=table(general)))}
    types = {name: exp.DataType.build(kind, dialect=rows.engine.dialect) for name, kind in kinds.items()}
    label = written_key(rows.policy.quasi_identifiers, types)
    is_one = case((_is_sensitive(sensitive, labels, "g"), literal(1)), default=literal(0))
    known = select(
        alias(column(ROW, "g"), "row_id"),
        alias(column(KEY, "g"), "key"),
        alias(label, "label"),
        alias(is_one, "one"),
        source=table(general, alias="g"),
    )
    identity = exp.column("key", table="i")
    members = rows.make(
        "members",
        select(
            *(exp.column(name, table="i") for name in ("row_id", "label", "one")),
            alias(rows.draw(MOST_BITS, "s", identity), "draw"),
            alias(rows.draw(MOST_BITS, "t", identity.copy()), "second"),
            source=nest_query(known, "i"),
            joins=[rows.seed(SEEDS[1], "s"), rows.seed(SEEDS[2], "t")],
        ),
    )
    counted = select(
        "label",
        alias(count_all(), "n"),
        alias(sum_bigint(exp.column("one")), "sensitive"),
        source=table(members),
        groups=["label"],
    )
    drawn = rows.draw(MOST_BITS, "s", exp.column("label", table="c"))
    chosen = [exp.column(name, table="c") for name in ("label", "n", "sensitive")]
    classes = rows.make(
        "classes",
        select(*chosen, alias(drawn, "draw"), source=nest_query(counted, "c"), joins=[rows.seed(SEEDS[0], "s")]),
    )
    most = exp.Mul(this=exp.column("sensitive"), expression=literal(2 * m))
    over = case((exp.GT(this=most, expression=exp.column("n")), literal(1)), default=literal(0))
    every, broken = rows.engine.query(select(count_all(), sum_bigint(over), source=table(classes)))[0]
    broken = int(broken)
    if broken * 2 * m > int(every):
        raise PolicyError(
            f"in {broken:,} of {int(every):,} classes more than 1/{2 * m} of the rows have a sensitive value: "
            "they cannot hide among the others",
            hint="ask for a larger k or a smaller m, or name fewer values",
        )
    others = rows.make("others", _others(rows, sensitive, labels))
    wanted = {"classes": classes, "members": members, "others": others}
    params = {"twice_m": 2 * m, "broken": broken, "draws": 2**MOST_BITS}
    made = rows.make("distorted", bind(plugin("parting", "distortion").sql, params, wanted))
    changed = int(rows.engine.query(select(count_all(), source=table(made)))[0][0])
    return made, broken, changed


def _others(rows: Rows, sensitive: str, labels: Sequence[str]) -> exp.Select:
    """original, low, high: the values that are not sensitive, each with its part of the way from 0 to 1."""
    counted = select(
        alias(column(sensitive, "t"), "original"),
        alias(count_all(), "n"),
        source=nest_query(rows.tree.copy(), "t"),
        where=exp.not_(_is_sensitive(sensitive, labels, "t")),
        groups=[column(sensitive, "t")],
    )
    label = canonical("original", rows.given.columns[sensitive])
    order = [rows.draw(MOST_BITS, "s", label), label.copy()]
    upto = double(window(exp.Sum(this=exp.column("n")), order=order))
    whole = double(window(exp.Sum(this=exp.column("n"))))
    high = exp.Div(this=upto, expression=whole)
    before = exp.Paren(this=exp.Sub(this=upto.copy(), expression=double(exp.column("n"))))
    low = exp.Div(this=before, expression=whole.copy())
    tree = select(
        "original",
        alias(low, "low"),
        alias(high, "high"),
        source=nest_query(counted, "c"),
        joins=[rows.seed(SEEDS[2], "s")],
    )
    if not rows.engine.query(tree.copy().limit(1)):
        raise PolicyError(
            f"every value of '{sensitive}' is sensitive: there is none to put in its place", hint="name fewer"
        )
    return tree
