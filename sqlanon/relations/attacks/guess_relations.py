"""The canonical relations of guesses: what an attacker says about persons who are in the table, and about others.

known_persons(group_id, value, held, person, records)   rows of persons and what they really have; held is 1 for the
                                                         control group, person is NULL where nobody knows persons
truths(group_id, value)                                  what persons of a group really have
learners(group_id, persons, c1, c2, …)                   as targets, counting those of the source alone
margins(value, records)                                  the values of the release, whatever is beside them
kinds(value, kind)                                       the node of each value on one level of its hierarchy
fitting_shares(group_id, place, share)                   how many records fit a target by one column alone
guesses(group_id, truth, attacked, by_margins)           what a file of guesses says

Where an attack guesses no value, but whether a record is a person's, `value` is empty for everybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.relations.attacks.attack_relations import as_text
from sqlanon.relations.classes import NULL_NODE, Grouping, Prelude, grouped_rows, number_classes
from sqlanon.relations.hierarchy_lookups import long_taxonomy
from sqlanon.sqltree.tree import (
    TEXT,
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
    union_all,
)

# Beside a user's own columns, which no sane person calls like this.
HELD = "\u2205 held out"
NO_VALUE = ""


def judged_rows(members: exp.Select, held: exp.Select | None, names: Sequence[str]) -> exp.Select:
    """The rows of the source, and those of the control group, with a column that tells them apart."""
    parts: list[exp.Query] = [
        select(
            *(column(name) for name in names),
            alias(literal(place), HELD, quoted=True),
            source=nest_query(rows.copy(), "t"),
        )
        for place, rows in enumerate((members, held))
        if rows is not None
    ]
    return select(exp.Star(), source=nest_query(union_all(parts), "everybody"))


def known_persons(prelude: Prelude, grouping: Grouping, attribute: str | None, *, null_is_value: bool) -> str:
    """`prelude` is that of the persons. Whose value is not known, of them no guess is right or wrong."""

    def build() -> exp.Query:
        extra: dict[str, exp.Expr] = {"held": column(HELD)}
        value: exp.Expr = literal(NO_VALUE)
        who: exp.Expr = exp.Cast(this=exp.Null(), to=TEXT.copy())
        if attribute is not None:
            extra["original"], value = column(attribute), as_text(exp.column("original"))
        if grouping.person is not None:
            extra["person"], who = column(grouping.person), text(exp.column("person"))
        numbered = number_classes(
            prelude, grouping, grouped_rows(prelude, grouping, extra, count_all()), [*extra, "records"]
        )
        chosen = [
            alias(exp.column("class_id"), "group_id"),
            alias(value, "value"),
            exp.column("held"),
            alias(who, "person"),
            exp.column("records"),
        ]
        unknown = attribute is not None and not null_is_value
        where = exp.column("original").is_(exp.Null()).not_() if unknown else None
        return select(*chosen, source=nest_query(numbered, "numbered"), where=where)

    return prelude.once("known_persons", (grouping, attribute), build)


def truths(prelude: Prelude, persons: str) -> str:
    made = select("group_id", "value", source=table(persons)).distinct()
    return prelude.once("truths", (persons,), lambda: made)


def learners(prelude: Prelude, grouping: Grouping, targets: str) -> str:
    """The targets with the persons of the source alone: nothing is learned from the control group."""
    names = [f"c{place}" for place in range(1, len(grouping.columns) + 1)]

    def build() -> exp.Query:
        grouped = grouped_rows(prelude, grouping, {"held": column(HELD)}, _counted(grouping))
        numbered = number_classes(prelude, grouping, grouped, ["held", "records"])
        members = select("class_id", "records", source=nest_query(numbered, "n"), where=exp.column("held").eq(0))
        same = exp.column("class_id", table="m").eq(exp.column("group_id", table="t"))
        persons = exp.Coalesce(this=exp.column("records", table="m"), expressions=[literal(0)])
        return select(
            exp.column("group_id", table="t"),
            alias(persons, "persons"),
            *(exp.column(name, table="t") for name in names),
            source=table(targets, alias="t"),
            joins=[join_clause(nest_query(members, "m"), same, side="LEFT")],
        )

    return prelude.once("learners", (grouping,), build)


def _counted(grouping: Grouping) -> exp.Expr:
    if grouping.person is None:
        return count_all()
    return exp.Count(this=exp.Distinct(expressions=[column(grouping.person)]))


def margins(prelude: Prelude, named_values: str, *, null_is_value: bool) -> str:
    def build() -> exp.Query:
        known = None if null_is_value else exp.column("value").neq(literal(NULL_NODE))
        records = alias(sum_bigint(exp.column("records")), "records")
        return select("value", records, source=table(named_values), where=known, groups=["value"])

    return prelude.once("margins", (named_values,), build)


def unseen_values(persons: str, margins_of: str) -> exp.Select:
    """How many rows of the source have a known value, and how many of these one that the release shows."""
    found = exp.column("value", table="m").is_(exp.Null()).not_()
    records = exp.column("records", table="p")
    return select(
        exp.Coalesce(this=sum_bigint(records), expressions=[literal(0)]),
        exp.Coalesce(this=sum_bigint(case((found, records.copy()), default=literal(0))), expressions=[literal(0)]),
        source=table(persons, alias="p"),
        joins=[
            join_clause(
                table(margins_of, alias="m"),
                exp.column("value", table="m").eq(exp.column("value", table="p")),
                side="LEFT",
            )
        ],
        where=exp.column("held", table="p").eq(0),
    )


def kinds(prelude: Prelude, attribute: str, hierarchy: Hierarchy, level: int) -> str:
    """`prelude` holds the values of everybody."""

    def build() -> exp.Query:
        tree = long_taxonomy(prelude, attribute, hierarchy)
        chosen = [alias(as_text(exp.column("leaf")), "value"), alias(as_text(exp.column("node")), "kind")]
        return select(*chosen, source=table(tree), where=exp.column("level").eq(literal(level))).distinct()

    return prelude.once("kinds", (attribute, level), build)


def fitting_shares(prelude: Prelude, wanted: str, shown: str, places: Sequence[int], fits: Sequence[str] | None) -> str:
    """`places` are the columns of the targets that belong to those of the classes; `fits` says which labels cover which
    values, or values must be equal."""

    def part(place: int, target: int) -> exp.Select:
        label = exp.column(f"c{place}")
        counted = select(
            alias(label, "label"), alias(sum_bigint(exp.column("records")), "records"),
            source=table(shown), groups=[label.copy()],
        )  # fmt: skip
        if fits is None:
            covered = select(alias(exp.column("label"), "value"), "records", source=nest_query(counted, "l"))
        else:
            same = exp.column("label", table="l").eq(exp.column("label", table="f"))
            covered = select(
                exp.column("value", table="f"),
                alias(sum_bigint(exp.column("records", table="l")), "records"),
                source=table(fits[place - 1], alias="f"),
                joins=[join_clause(nest_query(counted, "l"), same)],
                groups=[exp.column("value", table="f")],
            )
        found = exp.Coalesce(this=exp.column("records", table="v"), expressions=[literal(0)])
        whole = nest_query(select(alias(sum_bigint(exp.column("records")), "records"), source=table(shown)), "w")
        own = exp.column("value", table="v").eq(exp.column(f"c{target}", table="t"))
        return select(
            exp.column("group_id", table="t"),
            alias(literal(place), "place"),
            alias(exp.Div(this=double(found), expression=exp.column("records", table="w")), "share"),
            source=table(wanted, alias="t"),
            joins=[exp.Join(this=whole, kind="CROSS"), join_clause(nest_query(covered, "v"), own, side="LEFT")],
        )

    def build() -> exp.Query:
        return union_all([part(place, target) for place, target in enumerate(places, start=1)])

    return prelude.once("fitting_shares", (wanted, shown), build)


def judged_guesses(prelude: Prelude, sql: str, params: Mapping[str, object], made: Mapping[str, str]) -> str:
    key = (sql, tuple(sorted(params.items())), tuple(sorted(made.items())))
    return prelude.once("guesses", key, lambda: bind(sql, dict(params), dict(made)))


def unknown_persons(rows: exp.Select, person: str) -> exp.Select:
    """How many rows say nothing about whose they are."""
    return select(count_all(), source=nest_query(rows.copy(), "c"), where=column(person).is_(exp.Null()))


def persons_in_both(ours: exp.Select, theirs: exp.Select, person: str) -> exp.Select:
    """How many persons are in both tables."""
    listed = select(column(person), source=nest_query(ours.copy(), "o"), where=_is_known(person))
    counted = exp.Count(this=exp.Distinct(expressions=[column(person)]))
    return select(counted, source=nest_query(theirs.copy(), "c"), where=column(person).isin(query=listed))


def _is_known(name: str) -> exp.Expr:
    return column(name).is_(exp.Null()).not_()
