"""The canonical relations of attacks that learn, or that look for what is near.

truths(group_id, value, persons)                what persons really have; empty where that is not known
beliefs(group_id, value, share, belief)         what is believed of them; share is that of their class
chosen_targets(group_id, persons)               those who are compared with every class
distances(group_id, class_id, distance)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.relations.attacks.attack_relations import named_values
from sqlanon.relations.classes import NULL_NODE, Grouping, Prelude, finite
from sqlanon.sqltree.tree import (
    BIGINT,
    TEXT,
    alias,
    case,
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


def truths(prelude: Prelude, grouping: Grouping, attribute: str | None) -> str:
    """`prelude` is that of the persons; without an attribute nothing is known of them."""
    if attribute is None:
        columns, kinds = ("group_id", "value", "persons"), [BIGINT, TEXT, BIGINT]
        return prelude.once("truths", (None,), lambda: rows_relation([], columns, kinds))
    made = named_values(prelude, grouping, attribute)
    chosen = [alias(exp.column("class_id"), "group_id"), exp.column("value"), alias(exp.column("records"), "persons")]
    return prelude.once("truths", (grouping, attribute), lambda: select(*chosen, source=table(made)))


def first_beliefs(prelude: Prelude, fitting: str, values: str) -> str:
    """The shares of values among the records that fit."""

    def build() -> exp.Query:
        group, value = exp.column("group_id", table="f"), exp.column("value", table="v")
        records = exp.Sum(this=exp.column("records", table="v"))
        same = exp.column("class_id", table="v").eq(exp.column("class_id", table="f"))
        counted = select(
            group, value, alias(double(records), "records"),
            source=table(fitting, alias="f"), joins=[join_clause(table(values, alias="v"), same)],
            groups=[group.copy(), value.copy()],
        )  # fmt: skip
        whole = window(exp.Sum(this=exp.column("records")), partition=[exp.column("group_id")])
        share = exp.Div(this=exp.column("records"), expression=whole)
        return select(
            "group_id", "value", alias(share, "share"), alias(share.copy(), "belief"),
            source=counted.subquery(alias="counted", copy=False),
        )  # fmt: skip

    return prelude.once("beliefs", (fitting, values, 0), build)


def learn_beliefs(prelude: Prelude, targets: str, columns: int, first: str, rounds: int) -> str:
    """What is believed after rounds of learning by naive Bayes (Kifer 2009).

    From the beliefs about persons it is counted how often each label of a column occurs beside a sensitive value, each
    count one higher than it is. From that, and from the shares of the classes, come the new beliefs. Labels and values
    are numbered first, and each belief has the labels of its person beside it: a round reads them several times.
    """
    if rounds == 0:
        return first
    numbers = [f"k{place}" for place in range(1, columns + 1)]

    def code_targets() -> exp.Query:
        ranks = [
            alias(window(exp.DenseRank(), order=[exp.column(f"c{place}")]), name)
            for place, name in enumerate(numbers, start=1)
        ]
        return select("group_id", "persons", *ranks, source=table(targets))

    def code_values() -> exp.Query:
        rank = alias(window(exp.DenseRank(), order=[exp.column("value")]), "code")
        return select("value", rank, source=select("value", source=table(first)).distinct().subquery(alias="v"))

    coded = prelude.once("coded_targets", (targets,), code_targets)
    values = prelude.once("coded_values", (first,), code_values)

    def begin() -> exp.Query:
        own = [exp.column(name, table="t") for name in ("persons", *numbers)]
        believed = [exp.column(name, table="b") for name in ("group_id", "share", "belief")]
        person = exp.column("group_id", table="t").eq(exp.column("group_id", table="b"))
        value = exp.column("value", table="v").eq(exp.column("value", table="b"))
        joins = [join_clause(table(coded, alias="t"), person), join_clause(table(values, alias="v"), value)]
        return select(
            *believed, exp.column("code", table="v"), *own, source=table(first, alias="b"), joins=joins
        )  # fmt: skip

    made = prelude.once("coded_beliefs", (first, targets, 0), begin)
    for number in range(1, rounds + 1):
        made = prelude.once("coded_beliefs", (first, targets, number), lambda made=made: _learn(made, coded, numbers))  # type: ignore[misc]
    same = exp.column("code", table="v").eq(exp.column("code", table="b"))
    named = select(
        exp.column("group_id", table="b"), exp.column("value", table="v"), exp.column("share", table="b"),
        exp.column("belief", table="b"),
        source=table(made, alias="b"), joins=[join_clause(table(values, alias="v"), same)],
    )  # fmt: skip
    return prelude.once("beliefs", (first, targets, rounds), lambda: named)


def _learn(beliefs: str, coded: str, numbers: Sequence[str]) -> exp.Select:
    """One round: (group_id, share, belief, code, persons, k1, k2, …) from the same of the round before."""
    weight = exp.Sum(this=exp.Mul(this=exp.column("persons"), expression=exp.column("belief")))
    whole = select("code", alias(weight, "weight"), source=table(beliefs), groups=["code"])
    parts: list[tuple[str, exp.Query]] = [("whole", whole)]
    score: exp.Expr = exp.Ln(this=exp.column("share", table="b"))
    joins = []
    for place, number in enumerate(numbers, start=1):
        beside = select(
            number, "code", alias(weight.copy(), "weight"), source=table(beliefs),
            groups=[exp.column(number), exp.column("code")],
        )  # fmt: skip
        labels = select(exp.Max(this=exp.column(number)), source=table(coded)).subquery(copy=False)
        often = exp.Add(this=exp.column("weight", table="s"), expression=literal(1.0))
        of = exp.Add(this=exp.column("weight", table="w"), expression=labels)
        fact = alias(exp.Ln(this=exp.Div(this=exp.paren(often), expression=exp.paren(of))), "fact")
        same = exp.column("code", table="w").eq(exp.column("code", table="s"))
        own = [exp.column(name, table="s") for name in (number, "code")]
        facts = select(
            *own, fact, source=nest_query(beside, "s"), joins=[join_clause(table("whole", alias="w"), same)]
        )  # fmt: skip
        short = f"s{place}"
        parts.append((f"facts_{place}", facts))
        found = exp.and_(
            exp.column(number, table=short).eq(exp.column(number, table="b")),
            exp.column("code", table=short).eq(exp.column("code", table="b")),
        )
        joins.append(join_clause(table(f"facts_{place}", alias=short), found))
        score = exp.Add(this=score, expression=exp.column("fact", table=short))
    kept = [exp.column(name, table="b") for name in ("group_id", "share", "code", "persons", *numbers)]
    scores = select(*kept, alias(score, "score"), source=table(beliefs, alias="b"), joins=joins)
    best = select(
        "group_id", alias(exp.Max(this=exp.column("score")), "best"), source=table("scores"), groups=["group_id"]
    )
    # The best of a person weighs 1, so that none is too small for a number.
    gap = exp.Sub(this=exp.column("score", table="b"), expression=exp.column("best", table="m"))
    person = exp.column("group_id", table="m").eq(exp.column("group_id", table="b"))
    weighed = select(
        *(item.copy() for item in kept), alias(exp.Exp(this=gap), "weight"), source=table("scores", alias="b"),
        joins=[join_clause(table("best", alias="m"), person)],
    )  # fmt: skip
    every = select(
        "group_id", alias(exp.Sum(this=exp.column("weight")), "weight"), source=table("weighed"), groups=["group_id"]
    )
    parts += [("scores", scores), ("best", best), ("weighed", weighed), ("every", every)]
    belief = exp.Div(this=exp.column("weight", table="b"), expression=exp.column("weight", table="m"))
    tree = select(
        *(item.copy() for item in kept), alias(belief, "belief"), source=table("weighed", alias="b"),
        joins=[join_clause(table("every", alias="m"), person.copy())],
    )  # fmt: skip
    for name, query in parts:
        tree = tree.with_(name, as_=query, copy=False)
    return tree


def chosen_targets(prelude: Prelude, targets: str, columns: int, most: int) -> str:
    """So many groups of targets, by a hash of what is known of them: the same ones in every run."""

    def build() -> exp.Query:
        names = [f"c{place}" for place in range(1, columns + 1)]
        line: exp.Expr = exp.column(names[0])
        for name in names[1:]:
            line = exp.DPipe(this=exp.DPipe(this=line, expression=literal("|")), expression=exp.column(name))
        tree = select("group_id", "persons", *names, source=table(targets))
        ordered = [exp.Ordered(this=exp.MD5(this=line)), *(exp.Ordered(this=exp.column(name)) for name in names)]
        return tree.order_by(*ordered).limit(most)

    return prelude.once("chosen_targets", (targets, most), build)


def distances(
    prelude: Prelude,
    chosen: str,
    shown: str,
    numbers: Mapping[int, float],
    fits: Sequence[str] | None,
    places: Sequence[int],
) -> str:
    """Each chosen target with each class. `numbers` are the columns that both show as numbers, with half their ranges;
    of the others `fits` says which labels cover which values, or None where values must be equal. `places` are the
    columns of the targets that belong to those of the classes."""

    def build() -> exp.Query:
        joins = [exp.Join(this=_with_halves(shown, "k", {place: place for place in numbers}), kind="CROSS")]
        total: exp.Expr = literal(0.0)
        for place, target in enumerate(places, start=1):
            own, other = exp.column(f"c{target}", table="t"), exp.column(f"c{place}", table="k")
            equal: exp.Expr = own.eq(other)
            if place in numbers:
                widest = numbers[place] or 0.5  # where all numbers are the same, a difference of 1 is far
                term = case((equal, literal(0.0)), default=_share(place, widest))
            else:
                if fits is not None:
                    short = f"f{place}"
                    found = [exp.column("value", table=short).eq(own), exp.column("label", table=short).eq(other)]
                    joins.append(join_clause(table(fits[place - 1], alias=short), exp.and_(*found), side="LEFT"))
                    equal = exp.column("value", table=short).is_(exp.Null()).not_()
                term = case((equal, literal(0.0)), default=literal(1.0))
            total = exp.Add(this=total, expression=term)
        keys = [exp.column("group_id", table="t"), exp.column("class_id", table="k")]
        wanted = _with_halves(chosen, "t", {place: places[place - 1] for place in numbers})
        return select(*keys, alias(total, "distance"), source=wanted, joins=joins)

    return prelude.once("distances", (chosen, shown), build)


def ambiguous(fits: str) -> exp.Select:
    """A value that several labels cover, if there is one."""
    tree = select("value", source=table(fits), groups=["value"]).having(count_all() > 1)
    return tree.limit(1)


def labelled_targets(prelude: Prelude, targets: str, places: Sequence[int], fits: Sequence[str] | None) -> str:
    """The targets with the labels that the attacked table would show: group_id, persons, c1, c2, …"""

    def build() -> exp.Query:
        joins = []
        chosen: list[exp.Expr] = []
        for place, target in enumerate(places, start=1):
            own: exp.Expr = exp.column(f"c{target}", table="t")
            if fits is not None:
                short = f"f{place}"
                found = exp.column("value", table=short).eq(own)
                joins.append(join_clause(table(fits[place - 1], alias=short), found, side="LEFT"))
                own = exp.column("label", table=short)
            chosen.append(alias(own, f"c{place}"))
        keys = [exp.column(name, table="t") for name in ("group_id", "persons")]
        return select(*keys, *chosen, source=table(targets, alias="t"), joins=joins)

    return prelude.once("labelled_targets", (targets,), build)


def ranges(targets: str, places: Sequence[int]) -> exp.Select:
    """How far apart the halves of the numbers of each of these columns lie."""
    found = []
    for place in places:
        own = _half(exp.column(f"c{place}"))
        widest = exp.Sub(this=exp.Max(this=own), expression=exp.Min(this=own.copy()))
        found.append(exp.Coalesce(this=widest, expressions=[literal(0.0)]))
    return select(*found, source=table(targets))


def _with_halves(name: str, short: str, places: Mapping[int, int]) -> exp.Subquery:
    """A table with halves h1, h2, … of the numbers in some of its columns: reading them anew for each pair is slow."""
    halves = [alias(_half(exp.column(f"c{own}")), f"h{place}") for place, own in places.items()]
    return select(exp.Star(), *halves, source=table(name)).subquery(alias=short, copy=False)


def _share(place: int, widest: float) -> exp.Expr:
    """The distance of two numbers as a share of the range, 1 at most, and 1 where one of them is missing."""
    own, other = (exp.column(f"h{place}", table=side) for side in ("t", "k"))
    gap = exp.Abs(this=exp.Sub(this=own, expression=other))
    known = exp.Coalesce(this=gap, expressions=[literal(widest)])
    # Cut off before the division, which would overflow for a gap that is far wider than the range.
    return exp.Div(this=exp.func("LEAST", known, literal(widest)), expression=literal(widest))


def _half(value: exp.Expr) -> exp.Expr:
    """Half of a number, so that the difference of two is always finite; NULL for one that is missing or not finite."""
    known = finite(exp.Nullif(this=value, expression=literal(NULL_NODE)))
    return exp.Mul(this=known, expression=literal(0.5))
