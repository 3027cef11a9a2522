"""The canonical relations of attacks that compare classes, or infer a value from any others.

comparable(class_id, other_id)                   classes of two releases that one person may be in
newcomers(group_id, persons, class_id)           who came between them, and the classes that fit; persons may be unknown
inferences(row_id, persons, confidence)          what each set of columns tells of the rows that are alike
priors(group_id, value, prior)                   what is believed of targets before
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from sqlglot import exp

from sqlanon.relations.attacks.attack_relations import as_text
from sqlanon.relations.classes import Prelude, source
from sqlanon.sqltree.tree import (
    BIGINT,
    alias,
    bigint,
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
    union_all,
    window,
)


def label_pairs(prelude: Prelude, ours: str, theirs: str) -> str:
    """(ours, theirs): labels of one column that cover a value in common; both tables are made by `fitting`."""

    def build() -> exp.Query:
        sides = [exp.column("label", table=short) for short in ("a", "b")]
        same = exp.column("value", table="a").eq(exp.column("value", table="b"))
        chosen = [alias(label, name) for label, name in zip(sides, ("ours", "theirs"), strict=True)]
        return select(
            *chosen, source=table(ours, alias="a"), joins=[join_clause(table(theirs, alias="b"), same)]
        ).distinct()

    return prelude.once("label_pairs", (ours, theirs), build)


def comparable(prelude: Prelude, shown: str, other: str, pairs: Sequence[str]) -> str:
    """`shown` and `other` are the classes of both releases with the same columns c1, c2, …"""

    def build() -> exp.Query:
        joins = []
        equal: list[exp.Expr] = []
        for place, made in enumerate(pairs, start=1):
            short = f"p{place}"
            own = exp.column("ours", table=short).eq(exp.column(f"c{place}", table="k"))
            joins.append(join_clause(table(made, alias=short), own))
            equal.append(exp.column("theirs", table=short).eq(exp.column(f"c{place}", table="o")))
        joins.append(join_clause(table(other, alias="o"), exp.and_(*equal)))
        chosen = [exp.column("class_id", table="k"), alias(exp.column("class_id", table="o"), "other_id")]
        return select(*chosen, source=table(shown, alias="k"), joins=joins)

    return prelude.once("comparable", (shown, other), build)


def newcomers(prelude: Prelude, listed: tuple[str, str] | None, classes: str) -> str:
    """Those of a list (its targets, and the classes that fit them), or whoever came into a class."""

    def build() -> exp.Query:
        if listed is None:
            unknown = alias(exp.Cast(this=exp.Null(), to=BIGINT.copy()), "persons")
            return select(alias(exp.column("class_id"), "group_id"), unknown, "class_id", source=table(classes))
        targets, found = listed
        same = exp.column("group_id", table="f").eq(exp.column("group_id", table="t"))
        chosen = [exp.column(name, table="t") for name in ("group_id", "persons")]
        fitting = join_clause(table(found, alias="f"), same, side="LEFT")
        return select(*chosen, exp.column("class_id", table="f"), source=table(targets, alias="t"), joins=[fitting])

    return prelude.once("newcomers", (listed, classes), build)


def inferences(
    prelude: Prelude, attribute: str, others: Sequence[str], listed: Mapping[str, Sequence[str]], person: str | None
) -> str:
    """`others` are the columns that may be known. `listed` are values that are sensitive, by column, if not all of the
    attribute are: these are attacked there, and not known elsewhere."""
    short = {name: f"c{place}" for place, name in enumerate(others, start=1)}

    def compressed() -> exp.Query:
        values = {
            **{label: as_text(column(name)) for name, label in short.items()},
            "value": as_text(column(attribute)),
        }
        if person is not None:
            values["person"] = as_text(column(person))
        grouped = select(
            *(alias(value, label) for label, value in values.items()),
            alias(bigint(literal(1) if person is not None else count_all()), "persons"),
            source=source(prelude),
            groups=[value.copy() for value in values.values()],
        )
        number = window(exp.RowNumber(), order=[exp.column(label) for label in values])
        return select(alias(number, "row_id"), exp.Star(), source=nest_query(grouped, "alike"))

    base = prelude.once("alike", (attribute, tuple(others), person), compressed)
    attacked = listed.get(attribute)

    def part(known: Sequence[str]) -> exp.Select:
        harmless = [
            exp.column(short[name]).isin(*(literal(value) for value in listed[name])).not_()
            for name in known
            if listed.get(name)
        ]
        rows = select(exp.Star(), source=table(base), where=exp.and_(*harmless) if harmless else None)
        counted: exp.Expr = (
            exp.Count(this=exp.Distinct(expressions=[exp.column("person")]))
            if person is not None
            else sum_bigint(exp.column("persons"))
        )
        keys = [short[name] for name in known]
        counts = []
        for place, group in enumerate(([*keys, "value"], keys)):
            made = select(*group, alias(double(counted.copy()), "n"), source=nest_query(rows.copy(), "r"), groups=group)
            counts.append(nest_query(made, f"n{place}"))
        joins = []
        for place, group in enumerate(([*keys, "value"], keys)):
            same = [exp.column(key, table=f"n{place}").eq(exp.column(key, table="r")) for key in group]
            joins.append(join_clause(counts[place], exp.and_(*same) if same else exp.true()))
        share = exp.Div(this=exp.column("n", table="n0"), expression=exp.column("n", table="n1"))
        hit = None
        if attacked:
            hit = exp.column("value", table="r").isin(*(literal(value) for value in attacked))
        chosen = [exp.column(name, table="r") for name in ("row_id", "persons")]
        return select(*chosen, alias(share, "confidence"), source=nest_query(rows, "r"), joins=joins, where=hit)

    def build() -> exp.Query:
        sets = [known for size in range(len(others) + 1) for known in combinations(others, size)]
        return union_all([part(known) for known in sets])

    return prelude.once("inferences", (attribute, tuple(others), person), build)


def priors(prelude: Prelude, targets: str, given: exp.Select, attribute: str, places: Mapping[str, int]) -> str:
    """`given` has the attribute, `probability`, and the columns of `places`, which are those of the targets."""

    def build() -> exp.Query:
        values = [alias(as_text(column(name)), f"k{place}") for name, place in places.items()]
        own = alias(as_text(column(attribute)), "value")
        chance = alias(double(column("probability")), "prior")
        rows = select(*values, own, chance, source=nest_query(given.copy(), "given"))
        same = [exp.column(f"k{place}", table="p").eq(exp.column(f"c{place}", table="t")) for place in places.values()]
        return select(
            exp.column("group_id", table="t"),
            exp.column("value", table="p"),
            exp.column("prior", table="p"),
            source=table(targets, alias="t"),
            joins=[join_clause(nest_query(rows, "p"), exp.and_(*same) if same else exp.true())],
        )

    return prelude.once("priors", (targets, attribute), build)


def improper_priors(priors_table: str, targets: str) -> exp.Select:
    """How many kinds of targets have no probabilities that add up to 1, or one that is below 0, unknown or twice."""
    chance = exp.column("prior")
    wrong = case((exp.and_(chance >= 0, chance.copy() <= 1), literal(0)), default=literal(1))
    added = select(
        "group_id",
        alias(exp.Sum(this=chance.copy()), "whole"),
        alias(sum_bigint(wrong), "wrong"),
        alias(count_all(), "n"),
        alias(exp.Count(this=exp.Distinct(expressions=[exp.column("value")])), "different"),
        source=table(priors_table),
        groups=["group_id"],
    )
    whole = exp.column("whole", table="p")
    proper = exp.and_(
        whole > 1 - 1e-6,
        whole.copy() < 1 + 1e-6,
        exp.column("wrong", table="p").eq(0),
        exp.column("n", table="p").eq(exp.column("different", table="p")),
    )
    bad = case((proper, literal(0)), default=literal(1))
    same = exp.column("group_id", table="p").eq(exp.column("group_id", table="t"))
    left = join_clause(nest_query(added, "p"), same, side="LEFT")
    total = exp.Coalesce(this=sum_bigint(bad), expressions=[literal(0)])
    return select(total, source=table(targets, alias="t"), joins=[left])
