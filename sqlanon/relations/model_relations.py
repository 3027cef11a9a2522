"""Canonical relations that one model each needs: supersets, public probabilities, freeform combinations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations as subsets
from typing import Any

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.hierarchies import Hierarchy
from sqlanon.relations.classes import (
    NULL_NODE,
    Grouping,
    Prelude,
    as_label,
    class_values,
    classes,
    grouped_rows,
    labels,
    number_classes,
    source,
    totals,
)
from sqlanon.relations.hierarchy_lookups import label_paths
from sqlanon.sqltree.tree import (
    alias,
    case,
    column,
    count_all,
    double,
    literal,
    sum_bigint,
    table,
    text,
    union_all,
    window,
)

# 2^9 combinations for each sensitive column: more columns than this are refused rather than left to run for hours.
MOST_FREEFORM_COLUMNS = 10


def _known(value: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=text(value), expressions=[literal(NULL_NODE)])


def _same(name: str, left: str, right: str) -> exp.Expr:
    return exp.column(name, table=left).eq(exp.column(name, table=right))


def ancestors(prelude: Prelude, values: str, label: str, name: str, hierarchy: Hierarchy | None) -> str:
    """For each value of a class column, as it stands in the table: itself and every node above it."""

    def build() -> exp.Query:
        own = exp.column(label, table="v")
        origin = exp.select(exp.column(label)).distinct().from_(table(values)).subquery(alias="v")
        parts = [exp.select(alias(_known(own.copy()), "value"), alias(_known(own.copy()), "node")).from_(origin.copy())]
        root = hierarchy.root if hierarchy else "*"
        parts.append(exp.select(alias(_known(own.copy()), "value"), alias(literal(root), "node")).from_(origin.copy()))
        made = label_paths(prelude, name, hierarchy) if hierarchy else None
        if hierarchy and made:
            parts += _levels(hierarchy, made, own, origin)
        return exp.select("value", "node").distinct().from_(union_all(parts).subquery(alias="all_nodes"))

    return prelude.once("ancestors", (values, label), build)


def _levels(hierarchy: Hierarchy, made: str, own: exp.Column, origin: exp.Subquery) -> list[exp.Select]:
    found = []
    for below in range(hierarchy.height):
        for above in range(below + 1, hierarchy.height):
            tree = exp.select(
                alias(_known(own.copy()), "value"), alias(exp.column(f"level_{above}", table="l"), "node")
            )
            condition = exp.column(f"level_{below}", table="l").eq(text(own.copy()))
            found.append(tree.from_(origin.copy()).join(table(made, alias="l"), on=condition))
    return found


def supersets(
    prelude: Prelude, grouping: Grouping, attribute: str, hierarchies: Mapping[str, Hierarchy]
) -> tuple[str, str, str]:
    """The classes above each class in the generalization lattice, the sensitive values in them, and their sizes."""
    values = class_values(prelude, grouping, attribute)
    known = classes(prelude, grouping)
    names = labels(grouping)
    # Where NULLs match nothing there is one label more, the row number, without a hierarchy.
    columns = [*grouping.columns, ""][: len(names)]
    above = [
        ancestors(prelude, known, label, name, hierarchies.get(name))
        for label, name in zip(names, columns, strict=True)
    ]

    def build() -> exp.Query:
        tree = exp.select(exp.column("class_id", table="k")).from_(table(known, alias="k"))
        nodes = []
        for place, (label, made) in enumerate(zip(names, above, strict=True)):
            node = exp.column("node", table=f"a{place}")
            nodes.append(node)
            condition = exp.column("value", table=f"a{place}").eq(_known(exp.column(label, table="k")))
            tree = tree.join(table(made, alias=f"a{place}"), on=condition)
        return tree.select(alias(window(exp.DenseRank(), order=nodes), "superset_id"))

    links = prelude.once("class_supersets", (grouping, attribute), build)

    members = values if grouping.person is None else class_members(prelude, grouping, attribute)
    return (
        links,
        _superset_counts(prelude, grouping, (grouping, attribute, "values"), links, members, by_value=True),
        _superset_counts(prelude, grouping, (grouping, attribute, "sizes"), links, members, by_value=False),
    )


def class_members(prelude: Prelude, grouping: Grouping, attribute: str) -> str:
    """Who has which sensitive value in which class: a person in several classes of a superset is one person there."""

    def build() -> exp.Query:
        assert grouping.person is not None
        extra: dict[str, exp.Expr] = {"original": column(attribute), "person": column(grouping.person)}
        grouped = grouped_rows(prelude, grouping, extra, count_all())
        return exp.select(
            "class_id",
            alias(window(exp.DenseRank(), order=[exp.column("original")]), "value"),
            alias(_known(exp.column("person")), "person"),
        ).from_(number_classes(prelude, grouping, grouped, ["original", "person"]).subquery(alias="numbered"))

    return prelude.once("class_members", (grouping, attribute), build)


def _superset_counts(
    prelude: Prelude, grouping: Grouping, key: tuple[object, ...], links: str, members: str, *, by_value: bool
) -> str:
    def build() -> exp.Query:
        counted: exp.Expr = sum_bigint(exp.column("records", table="v"))
        if grouping.person is not None:
            counted = exp.Count(this=exp.Distinct(expressions=[exp.column("person", table="v")]))
        groups = [exp.column("superset_id", table="l")]
        if by_value:
            groups.append(exp.column("value", table="v"))
        same = exp.column("class_id", table="v").eq(exp.column("class_id", table="l"))
        return (
            exp.select(*groups, alias(counted, "records"))
            .from_(table(links, alias="l"))
            .join(table(members, alias="v"), on=same)
            .group_by(*(item.copy() for item in groups))
        )

    return prelude.once("superset_values" if by_value else "superset_sizes", key, build)


def class_probability(
    prelude: Prelude,
    grouping: Grouping,
    attribute: str,
    public: Mapping[str, Mapping[Any, float]] | None,
    conditional: Sequence[Mapping[str, Any]] | None,
    hierarchies: Mapping[str, Hierarchy] | None = None,
) -> str:
    """Pr(record) = product of the public probabilities of its values; a value that nobody announced has none.

    Without an announcement it is the share of the rows at or below a label: rows may be on different levels of a
    hierarchy.
    """
    known = public or {}
    names = dict(zip(grouping.columns, labels(grouping), strict=False))

    def announced(column_name: str, label: exp.Expr, own_share: exp.Expr) -> exp.Expr:
        if column_name not in known:
            return own_share
        branches = [
            (_known(label.copy()).eq(literal(as_label(value))), double(literal(probability)))
            for value, probability in known[column_name].items()
        ]
        return case(*branches, default=double(literal(0)))

    def share(label: exp.Expr) -> exp.Expr:
        total = window(exp.Sum(this=exp.column("records", table="v")))
        part = window(exp.Sum(this=exp.column("records", table="v")), partition=[label])
        return exp.Div(this=double(part), expression=double(total))

    def build() -> exp.Query:
        values = class_values(prelude, grouping, attribute)
        known_classes = classes(prelude, grouping)
        all_values = totals(prelude, grouping, attribute, numeric=False)
        label = exp.column("label", table="t")
        of_value = announced(attribute, label, share(exp.column("value", table="v")))
        for rule in conditional or ():
            of_value = case((_applies(rule, names, label), double(literal(rule["probability"]))), default=of_value)
        factors = [of_value]
        below: dict[str, str] = {}
        for name, short in names.items():
            owned = exp.column(short, table="k")
            hierarchy = (hierarchies or {}).get(name)
            if hierarchy is None or name in known:
                factors.append(announced(name, owned, share(owned)))
                continue
            below[short] = shares_below(prelude, known_classes, short, name, hierarchy)
            factors.append(exp.column("share", table=f"below_{short}"))
        product = factors[0]
        for factor in factors[1:]:
            product = exp.Mul(this=exp.paren(product), expression=exp.paren(factor))
        tree = (
            exp.select(exp.column("class_id", table="v"), exp.column("value", table="v"), alias(product, "probability"))
            .from_(table(values, alias="v"))
            .join(table(all_values, alias="t"), on=_same("value", "t", "v"))
            .join(
                table(known_classes, alias="k"),
                on=exp.column("class_id", table="k").eq(exp.column("class_id", table="v")),
            )
        )
        for short, made in below.items():
            same = exp.column("node", table=f"below_{short}").eq(_known(exp.column(short, table="k")))
            tree = tree.join(table(made, alias=f"below_{short}"), on=same)
        return tree

    return prelude.once("class_probability", (grouping, attribute, repr(public), repr(conditional)), build)


def shares_below(prelude: Prelude, values: str, label: str, name: str, hierarchy: Hierarchy) -> str:
    """For each node the share of the rows whose label is that node or lies below it."""

    def build() -> exp.Query:
        above = exp.select("value", "node").from_(table(ancestors(prelude, values, label, name, hierarchy)))
        counted = exp.select(
            alias(_known(exp.column(label)), "value"), alias(sum_bigint(exp.column("records")), "records")
        )
        rows = counted.from_(table(values)).group_by(_known(exp.column(label))).subquery(alias="v")
        whole = exp.select(double(exp.Sum(this=exp.column("records")))).from_(table(values)).subquery()
        own = double(exp.Sum(this=exp.column("records", table="v")))
        tree = exp.select("a.node", alias(exp.Div(this=own, expression=whole), "share")).from_(
            above.subquery(alias="a")
        )
        return tree.join(rows, on=_same("value", "v", "a")).group_by("a.node")

    return prelude.once("shares_below", (values, label), build)


def _applies(rule: Mapping[str, Any], names: Mapping[str, str], label: exp.Expr) -> exp.Expr:
    try:
        conditions = [
            _known(exp.column(names[name], table="k")).eq(literal(as_label(value)))
            for name, value in rule["when"].items()
        ]
        return exp.and_(_known(label.copy()).eq(literal(as_label(rule["value"]))), *conditions)
    except (KeyError, AttributeError, TypeError):
        raise PolicyError(
            "a rule of 'conditional' cannot be read",
            hint="write {when: {quasi-identifier: value}, value: sensitive value, probability: number}",
        ) from None


def combinations(
    prelude: Prelude, columns: Sequence[str], sensitive_values: Mapping[str, Sequence[Any]], person: str | None
) -> tuple[str, str]:
    """Every combination of non-sensitive values beside each sensitive value, with its rows and the matching ones;
    and the table of distinct records that they were made of."""
    if len(columns) > MOST_FREEFORM_COLUMNS:
        raise PolicyError(
            f"ff_anonymity looks at every combination of columns; {len(columns)} columns are too many",
            hint=f"declare at most {MOST_FREEFORM_COLUMNS} quasi-identifiers and sensitive columns in all",
        )
    short = {name: f"c{i}" for i, name in enumerate(columns, start=1)}

    def compressed() -> exp.Query:
        named = [alias(column(name), label) for name, label in short.items()]
        plain = [column(name) for name in columns]
        who = [] if person is None else [column(person)]
        chosen = [*named, *(alias(item, "person") for item in who)]
        tree = exp.select(*chosen, alias(count_all(), "records")).from_(source(prelude))
        return tree.group_by(*plain, *(item.copy() for item in who))

    base = prelude.once("freeform", (tuple(columns), person), compressed)

    def harmless(name: str) -> exp.Expr:
        listed = [literal(as_label(value)) for value in sensitive_values.get(name, ())]
        if not listed:
            return exp.true()
        hit = _known(exp.column(short[name])).isin(*listed)
        return case((hit, literal(0)), default=literal(1)).eq(1)

    def part(target: str, value: Any, given: tuple[str, ...]) -> exp.Select:
        matches = _known(exp.column(short[target])).eq(literal(as_label(value)))
        known = [exp.column(short[name]) for name in given]
        shown = [
            _known(item.copy()) if name in given else exp.cast(exp.Null(), "text")
            for name, item in ((name, exp.column(short[name])) for name in columns)
        ]
        rows: exp.Expr = sum_bigint(exp.column("records"))
        matching: exp.Expr = sum_bigint(case((matches, exp.column("records")), default=literal(0)))
        if person is not None:
            rows = exp.Count(this=exp.Distinct(expressions=[_known(exp.column("person"))]))
            whose = case((matches.copy(), _known(exp.column("person"))), default=exp.Null())
            matching = exp.Count(this=exp.Distinct(expressions=[whose]))
        tree = exp.select(
            *(alias(item, short[name]) for name, item in zip(columns, shown, strict=True)),
            alias(literal(f"{target} = {as_label(value)}"), "secret"),
            alias(rows, "records"),
            alias(matching, "matching"),
        ).from_(table(base))
        tree = tree.where(*(harmless(name) for name in given)) if given else tree
        return tree.group_by(*known) if known else tree

    def build() -> exp.Query:
        parts = [
            part(target, value, given)
            for target, values in sensitive_values.items()
            for value in values
            for size in range(len(columns))
            for given in subsets([name for name in columns if name != target], size)
        ]
        number = window(exp.RowNumber())
        return (
            exp.select(alias(number, "class_id"), "records", "matching", "secret", *short.values())
            .from_(union_all(parts).subquery(alias="parts"))
            .where(exp.column("matching") > 0)
        )

    return prelude.once("combinations", (tuple(columns), repr(sensitive_values), person), build), base
