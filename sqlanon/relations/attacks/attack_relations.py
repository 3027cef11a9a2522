"""The canonical relations that attacks read, beside those of the privacy models.

    targets(group_id, persons)                  persons whom an attacker is after, alike in what they know of them
    target_classes(group_id, class_id)          the classes of the attacked table that fit them
    target_rows(person, group_id, records)      how many rows of a person are in a group
    class_rows(person, class_id, records)       how many rows of a person are in a class of the attacked table
    named_values(class_id, value, records)      as class_values, with the value itself, so that two tables agree on it

A target is known by original values, a class of a release by labels: a class fits where each of its labels covers the
target's value. Values are compared as text, and NULL is a value of its own, which the root covers like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.relations.classes import NULL_NODE, Grouping, Prelude, class_values, classes, labels, source, totals
from sqlanon.relations.hierarchy_lookups import long_taxonomy, recode_columns, source_values
from sqlanon.relations.row_sets import class_rows
from sqlanon.relations.source import SUPPRESSED
from sqlanon.sqltree.tree import (
    TEXT,
    alias,
    bigint,
    case,
    column,
    count_all,
    double,
    join_clause,
    literal,
    nest_query,
    rows_relation,
    select,
    sum_bigint,
    table,
    text,
    union_all,
)

# What a row of these relations is about.
UNITS = {"classes": "class_id", "targets": "group_id", "chosen_targets": "group_id"}


def confidence(attack: exp.Select) -> exp.Select:
    """What an attack achieves, from its rows (persons, confidence, broken): targets, broken, highest, average."""
    persons, sure = exp.column("persons"), exp.column("confidence")
    whole = exp.Sum(this=persons)
    weighed = exp.Sum(this=exp.Mul(this=double(persons.copy()), expression=sure))
    broken = exp.Sum(this=exp.Mul(this=persons.copy(), expression=exp.column("broken")))
    return select(
        exp.Coalesce(this=whole, expressions=[literal(0)]),
        exp.Coalesce(this=broken, expressions=[literal(0)]),
        exp.Max(this=sure.copy()),
        exp.Div(this=weighed, expression=exp.Nullif(this=double(whole.copy()), expression=literal(0.0))),
        source=nest_query(attack, "conclusions"),
    )


def add_unit(tree: exp.Select, units: Mapping[str, str]) -> str | None:
    """Add what each row of an attack is about, a class or a group of targets, as the column unit_id. `units` says which
    column tells that in which table; the column is returned, or None where a row is about something else.

    >>> tree = exp.select("c.records AS persons").from_("classes_1 AS c")
    >>> add_unit(tree, {"classes_1": "class_id"}), tree.sql()
    ('class_id', 'SELECT c.records AS persons, c.class_id AS unit_id FROM classes_1 AS c')
    """
    persons = next(item for item in tree.expressions if item.alias_or_name == "persons").unalias()
    origin = tree.args["from_"].this
    if not isinstance(persons, exp.Column):
        return None
    if not persons.table and isinstance(origin, exp.Subquery) and isinstance(origin.this, exp.Select):
        inner = add_unit(origin.this, units)
        if inner is not None:
            tree.append("expressions", exp.column("unit_id"))
        return inner
    read = [origin, *(item.this for item in tree.args.get("joins") or ())]
    unit = next((units.get(item.name) for item in read if item.alias == persons.table), None)
    if unit is None:
        return None
    own = exp.column(unit, table=persons.table)
    grouped = tree.args.get("group")
    if grouped is not None and own not in grouped.expressions:
        return None
    tree.append("expressions", alias(own, "unit_id"))
    return unit


def confidence_of_persons(attack: exp.Select, members: str) -> exp.Select:
    """As `confidence`, of persons in several classes or groups: each is broken as the worst of them is. `members` are
    the rows of persons in the units of the attack."""
    own = exp.column("class_id", table="m").eq(exp.column("unit_id", table="a"))
    worst = select(
        alias(exp.Max(this=exp.column("broken", table="a")), "broken"),
        alias(exp.Max(this=exp.column("confidence", table="a")), "confidence"),
        source=nest_query(attack, "a"),
        joins=[join_clause(table(members, alias="m"), own)],
        groups=[exp.column("person", table="m")],
    )
    sure = exp.column("confidence")
    return select(
        count_all(),
        exp.Coalesce(this=exp.Sum(this=exp.column("broken")), expressions=[literal(0)]),
        exp.Max(this=sure),
        exp.Avg(this=sure.copy()),
        source=nest_query(worst, "persons"),
    )


def persons_not_found(attack: exp.Select) -> exp.Select:
    """Persons of whom an attack found nothing."""
    nothing = exp.column("confidence").eq(0)
    return select(sum_bigint(exp.column("persons")), source=nest_query(attack, "conclusions"), where=nothing)


def rows_like(rows: exp.Select, types: Mapping[str, str], dialect: str) -> exp.Select:
    """The columns of a table in the types of another one, so that hierarchies and comparisons apply to them."""
    chosen = [
        alias(exp.Cast(this=column(name), to=exp.DataType.build(kind, dialect=dialect)), name, quoted=True)
        for name, kind in types.items()
    ]
    return select(*chosen, source=nest_query(rows, "given"))


def as_text(value: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=text(value), expressions=[literal(NULL_NODE)])


def spell_classes(prelude: Prelude, grouping: Grouping, known: Sequence[str]) -> str:
    """The classes of a table with the columns that are known of a target, as text: class_id, records, c1, c2, …"""

    def build() -> exp.Query:
        own = dict(zip(grouping.columns, labels(grouping), strict=True))
        values = [alias(as_text(exp.column(own[name])), f"c{place}") for place, name in enumerate(known, start=1)]
        return select("class_id", "records", *values, source=table(classes(prelude, grouping)))

    return prelude.once("spelt", (grouping, tuple(known)), build)


def targets(prelude: Prelude, grouping: Grouping) -> str:
    """`prelude` is that of the persons; a group of them is a class of what is known."""
    made = table(spell_classes(prelude, grouping, grouping.columns))
    chosen = [alias(exp.column("class_id"), "group_id"), alias(exp.column("records"), "persons")]
    names = [f"c{place}" for place in range(1, len(grouping.columns) + 1)]
    return prelude.once("targets", (grouping,), lambda: select(*chosen, *names, source=made))


def cover_values(prelude: Prelude, name: str, hierarchy: Hierarchy) -> str:
    """Which labels of a hierarchy cover which values: (value, label), for the values of `prelude`."""

    def build() -> exp.Query:
        tree = long_taxonomy(prelude, name, hierarchy)
        pairs = select(alias(as_text(exp.column("leaf")), "value"), alias(as_text(exp.column("node")), "label"),
                       source=table(tree)).distinct()  # fmt: skip
        nulls = [(NULL_NODE, NULL_NODE), (NULL_NODE, hierarchy.root), (NULL_NODE, SUPPRESSED)]
        return exp.union(pairs, rows_relation(dict.fromkeys(nulls), ("value", "label"), [TEXT, TEXT]), distinct=True)

    return prelude.once("covered", (name,), build)


def fit_labels(
    prelude: Prelude,
    places: tuple[int, int],
    wanted: str,
    shown: str,
    known: str,
    root: str,
    regions: exp.Query | None,
) -> str:
    """(value, label) of one column, for the values of targets and the labels of classes that there are; `places` are
    those of the column among what is known of targets and among what the classes show."""

    def build() -> exp.Query:
        values = select(alias(exp.column(f"c{places[0]}"), "value"), source=table(wanted)).distinct()
        occurring = select(alias(exp.column(f"c{places[1]}"), "label"), source=table(shown)).distinct()
        here = [exp.column("value").isin(query=values), exp.column("label").isin(query=occurring)]
        parts: list[exp.Query] = [select("value", "label", source=table(known), where=exp.and_(*here))]
        # A value that no hierarchy lists is shown as it is, or not at all.
        own, label = exp.column("value", table="v"), exp.column("label", table="o")
        for itself in (label.eq(own), label.isin(literal(SUPPRESSED), literal(root))):
            chosen = [alias(own.copy(), "value"), label.copy()]
            joins = [join_clause(nest_query(occurring.copy(), "o"), itself)]
            parts.append(select(*chosen, source=nest_query(values.copy(), "v"), joins=joins))
        if regions is not None:
            within = exp.column("value").isin(query=values.copy())
            parts.append(select("value", "label", source=nest_query(regions, "r"), where=within))
        return select("value", "label", source=nest_query(union_all(parts), "fits")).distinct()

    return prelude.once("fitting", (places, wanted), build)


def target_classes(prelude: Prelude, wanted: str, shown: str, places: Sequence[int], fits: Sequence[str] | None) -> str:
    """Which classes fit which targets; `fits` are the tables of `fitting`, or None where values must be equal. `places`
    are the columns of the targets that belong to those of the classes."""

    def build() -> exp.Query:
        joins = []
        equal: list[exp.Expr] = []
        for place, target in enumerate(places, start=1):
            own, other = exp.column(f"c{target}", table="t"), exp.column(f"c{place}", table="k")
            if fits is None:
                equal.append(own.eq(other))
                continue
            short = f"f{place}"
            joins.append(join_clause(table(fits[place - 1], alias=short), exp.column("value", table=short).eq(own)))
            equal.append(exp.column("label", table=short).eq(other))
        # Of whom nothing is known that the table shows, any record may be.
        joins.append(join_clause(table(shown, alias="k"), exp.and_(*equal) if equal else exp.true()))
        chosen = [exp.column("group_id", table="t"), exp.column("class_id", table="k")]
        return select(*chosen, source=table(wanted, alias="t"), joins=joins)

    return prelude.once("target_classes", (wanted, shown), build)


def unknown_labels(shown: str, place: int, known: str, values: str | None) -> exp.Select:
    """Labels of classes that neither a hierarchy nor the values themselves explain."""
    short = exp.column(f"c{place}")
    listed = select("label", source=table(known))
    where = [short.copy().isin(query=listed).not_(), short.copy().neq(literal(SUPPRESSED))]
    if values is not None:
        where.append(short.copy().isin(query=select("value", source=table(values))).not_())
    return select(alias(short, "label"), source=table(shown), where=exp.and_(*where)).distinct()


def region_values(prelude: Prelude, name: str, kind: exp.DataType, known: str, pieces: str) -> exp.Query:
    """(value, label) of regions: `pieces` are rows (label, range, low, high): both ends, or a node in `low`."""
    values = source_values(prelude, name)
    low, high = exp.column("low", table="p"), exp.column("high", table="p")
    own = exp.column("original", table="v")
    is_range = exp.column("range", table="p").eq("1")
    # Nodes are no values of the type: an engine may look at an end before it looks at what kind of piece it is.
    ends = [case((is_range, exp.Cast(this=end, to=kind.copy())), default=exp.Null()) for end in (low, high)]
    inside = exp.and_(own >= ends[0], own.copy() <= ends[1])
    chosen = [alias(as_text(exp.column("value", table="v")), "value"), exp.column("label", table="p")]
    ranges = select(*chosen, source=table(values, alias="v"), joins=[join_clause(_of(pieces, "1"), inside)])
    node = exp.column("label", table="k").eq(low.copy())
    members = [exp.column("value", table="k"), exp.column("label", table="p")]
    nodes = select(*members, source=table(known, alias="k"), joins=[join_clause(_of(pieces, "0"), node)])
    return union_all([ranges, nodes])


def _of(pieces: str, is_range: str) -> exp.Expr:
    where = exp.column("range").eq(is_range)
    return nest_query(select("label", "range", "low", "high", source=table(pieces), where=where), "p")


def named_values(prelude: Prelude, grouping: Grouping, attribute: str) -> str:
    def build() -> exp.Query:
        made = class_values(prelude, grouping, attribute)
        known = totals(prelude, grouping, attribute, numeric=False)
        same = exp.column("value", table="t").eq(exp.column("value", table="v"))
        return select(
            exp.column("class_id", table="v"),
            alias(as_text(exp.column("label", table="t")), "value"),
            exp.column("records", table="v"),
            source=table(made, alias="v"),
            joins=[join_clause(table(known, alias="t"), same)],
        )

    return prelude.once("named_values", (grouping, attribute), build)


def target_rows(prelude: Prelude, grouping: Grouping) -> str:
    """(person, group_id, records): the rows of targets, by what is known of each row."""
    made = class_rows(prelude, grouping)
    group = alias(exp.column("class_id"), "group_id")
    return prelude.once("target_rows", (grouping,), lambda: select("person", group, "records", source=table(made)))


def most_fitting(name: str) -> exp.Select:
    """The most classes that fit one target; `name` is the table target_classes."""
    fitting = select(alias(count_all(), "classes"), source=table(name), groups=["group_id"])
    return select(exp.Max(this=exp.column("classes")), source=nest_query(fitting, "fitting"))


def count_table(name: str) -> exp.Select:
    return select(count_all(), source=table(name))


def counted_rows(rows: exp.Select) -> exp.Select:
    return select(count_all(), source=nest_query(rows.copy(), "rows_of_it"))


def finer_groups(
    prelude: Prelude,
    shown: str,
    persons: Grouping,
    hierarchies: Mapping[str, Hierarchy],
    levels: Mapping[str, int],
    name: str,
) -> str:
    """(class_id, persons): how the persons of a class part on the next lower level of one column. `prelude` is that of
    the persons, and `shown` the classes of the release on the columns that are known of them."""
    finer = "\u2205 finer"

    def build() -> exp.Query:
        twice = select(exp.Star(), alias(column(name), finer, quoted=True), source=source(prelude))
        trees = {**hierarchies, finer: hierarchies[name]}
        at = {**levels, finer: levels[name] - 1}
        outputs = {each: f"c{place}" for place, each in enumerate(persons.columns, start=1)} | {finer: "finer"}
        whose = {persons.person: "person"} if persons.person else {}
        labelled = recode_columns(prelude, twice, trees, at, outputs | whose)
        groups = [as_text(column(output)) for output in outputs.values()]
        counted = exp.Count(this=exp.Distinct(expressions=[column("person")])) if persons.person else count_all()
        grouped = select(
            *(alias(value, output) for value, output in zip(groups, outputs.values(), strict=True)),
            alias(bigint(counted), "persons"),
            source=nest_query(labelled, "labelled"),
            groups=[value.copy() for value in groups],
        )
        equal = [
            exp.column(f"c{place}", table="g").eq(exp.column(f"c{place}", table="k"))
            for place in range(1, len(persons.columns) + 1)
        ]
        chosen = [exp.column("class_id", table="k"), exp.column("persons", table="g")]
        joins = [join_clause(table(shown, alias="k"), exp.and_(*equal))]
        return select(*chosen, source=nest_query(grouped, "g"), joins=joins)

    return prelude.once("finer_groups", (shown, name), build)


def guarded_values(prelude: Prelude, grouping: Grouping, attribute: str, value: str) -> str:
    """(class_id, records): the records of a class that have one value."""
    made = named_values(prelude, grouping, attribute)
    own = select("class_id", "records", source=table(made), where=exp.column("value").eq(literal(value)))
    return prelude.once("guarded_values", (grouping, attribute, value), lambda: own)


def values_named(prelude: Prelude, grouping: Grouping, attribute: str) -> exp.Select:
    made = named_values(prelude, grouping, attribute)
    return select("value", source=table(made)).distinct()


def smallest(name: str) -> exp.Select:
    return select(exp.Min(this=exp.column("persons")), source=table(name))
