"""What the labels of a release leave open, read off the release alone: no row of it is paired with one of the source.

    released_cells(c1, c2, …, target, records)     the release, its labels as text
    label_leaves(label, leaves, level)             the leaves that a label stands for; no level where it is no node
    recoded_classes, recoded_values, recoded_class_values     as in `loss_relations`; a `value` is not known

This is for releases in which rows with equal values may have different labels: regions, several passes, hidden cells.
Rows of the source that the release does not have are suppressed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlanon.hierarchies import Hierarchy
from sqlanon.relations.classes import NULL_NODE, Prelude
from sqlanon.relations.hierarchy_lookups import NUMBER, long_taxonomy, lookup, source_values
from sqlanon.relations.loss_relations import Recoding
from sqlanon.relations.source import SUPPRESSED
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
    text,
    union_all,
    window,
)


def released_cells(prelude: Prelude, release: exp.Select, recoding: Recoding) -> str:
    """One row a distinct row of the release, labels and class attribute alone."""

    def build() -> exp.Query:
        target = column(recoding.target) if recoding.target else exp.Null()
        chosen = [alias(text(column(name)), short) for name, short in recoding.shorts.items()]
        rows = select(*chosen, alias(text(target), "target"), source=nest_query(release.copy(), "release"))
        groups = [*recoding.shorts.values(), "target"]
        counted = alias(bigint(count_all()), "records")
        return select(*groups, counted, source=nest_query(rows, "labels"), groups=groups)

    return prelude.once("released_cells", (recoding.columns, recoding.target), build)


def released_labels(prelude: Prelude, cells: str, short: str) -> str:
    """(label, records) of one column."""
    chosen = [alias(exp.column(short), "label"), alias(sum_bigint(exp.column("records")), "records")]
    return prelude.once("released_labels", (cells, short), lambda: select(*chosen, source=table(cells), groups=[short]))


def known_nodes(prelude: Prelude, name: str, hierarchy: Hierarchy) -> str:
    """(label, leaves, level) of the nodes of a hierarchy, values included. A name that stands on several levels is
    taken for the widest of its nodes."""

    def build() -> exp.Query:
        long = long_taxonomy(prelude, name, hierarchy)
        counted = select(
            "level",
            alias(text(exp.column("node")), "label"),
            alias(count_all(), "below"),
            source=table(long),
            groups=["level", "node"],
        )
        widest = alias(bigint(exp.Max(this=exp.column("below"))), "leaves")
        lowest = alias(exp.Min(this=exp.column("level")), "level")
        return select("label", widest, lowest, source=nest_query(counted, "nodes"), groups=["label"])

    return prelude.once("known_nodes", (name,), build)


def strange_labels(prelude: Prelude, name: str, hierarchy: Hierarchy, labels: str) -> exp.Select:
    """Labels that are neither a node of the hierarchy nor hidden: regions, or what nobody can explain."""
    nodes = known_nodes(prelude, name, hierarchy)
    label = exp.column("label", table="r")
    same = exp.column("label", table="k").eq(label)
    tree = select(
        label.copy(), source=table(labels, alias="r"), joins=[join_clause(table(nodes, alias="k"), same, side="LEFT")]
    )
    unknown = exp.column("label", table="k").is_(exp.Null())
    return tree.where(unknown, label.copy().is_(exp.Null()).not_(), label.copy().neq(literal(SUPPRESSED)))


def ranked_leaves(prelude: Prelude, name: str, hierarchy: Hierarchy) -> str:
    """(value, place): the leaves in the order in which ranges run, as `regions.value_orders` has it. Leaves of a lookup
    that are no numbers are in no range."""

    def build() -> exp.Query:
        made = lookup(prelude, name, hierarchy)
        if made is None:
            place = alias(window(exp.RowNumber(), order=[exp.column("original")]), "place")
            known = exp.column("original").is_(exp.Null()).not_()
            return select("value", place, source=table(source_values(prelude, name)), where=known)
        leaf = exp.column("level_0")
        is_number = exp.RegexpLike(this=leaf, expression=literal(NUMBER))
        number = case((is_number.copy(), double(leaf.copy())), default=double(exp.Null()))
        numbers = select(alias(leaf.copy(), "value"), alias(number, "number"), source=table(made), where=is_number)
        place = alias(window(exp.RowNumber(), order=[exp.column("number")]), "place")
        return select("value", place, source=nest_query(numbers, "numbers"))

    return prelude.once("ranked_leaves", (name,), build)


def label_leaves(
    prelude: Prelude, name: str, hierarchy: Hierarchy, labels: str, pieces: str | None, domain: exp.Expr
) -> str:
    """(label, leaves, level, records) of the labels of a column; no leaves where a label cannot be read. `pieces` are
    the regions among them, as rows (label, range, low, high): both ends, or a node in `low`."""

    def build() -> exp.Query:
        nodes = known_nodes(prelude, name, hierarchy)
        label = exp.column("label", table="r")
        node = exp.column("leaves", table="k")
        cases = [(label.is_(exp.Null()), literal(1)), (node.is_(exp.Null()).not_(), node)]
        joins = [join_clause(table(nodes, alias="k"), exp.column("label", table="k").eq(label.copy()), side="LEFT")]
        if pieces is not None:
            regions = nest_query(_region_leaves(prelude, name, hierarchy, nodes, pieces), "g")
            joins.append(join_clause(regions, exp.column("label", table="g").eq(label.copy()), side="LEFT"))
            found = exp.column("leaves", table="g")
            # NULL among the values counts as one leaf more, but a label stands for all leaves at most.
            cases.append((found.is_(exp.Null()).not_(), exp.func("LEAST", found.copy(), domain.copy())))
        hidden = label.copy().eq(literal(SUPPRESSED))
        cases.append((hidden, domain.copy()))
        level = case(
            (label.copy().is_(exp.Null()), literal(0)),
            (exp.column("level", table="k").is_(exp.Null()).not_(), exp.column("level", table="k")),
            (hidden.copy(), literal(hierarchy.height)),
        )
        return select(
            label.copy(),
            alias(case(*cases, default=exp.cast(exp.Null(), BIGINT)), "leaves"),
            alias(level, "level"),
            exp.column("records", table="r"),
            source=table(labels, alias="r"),
            joins=joins,
        )

    return prelude.once("label_leaves", (name, labels), build)


def _region_leaves(prelude: Prelude, name: str, hierarchy: Hierarchy, nodes: str, pieces: str) -> exp.Select:
    """(label, leaves): what the pieces of a label stand for together; NULL where one of them cannot be read."""
    ranked = ranked_leaves(prelude, name, hierarchy)
    low, high, kind = (exp.column(part, table="p") for part in ("low", "high", "range"))
    first, last = exp.column("place", table="a"), exp.column("place", table="b")
    joins = [
        join_clause(table(ranked, alias="a"), exp.column("value", table="a").eq(low), side="LEFT"),
        join_clause(table(ranked, alias="b"), exp.column("value", table="b").eq(high), side="LEFT"),
        join_clause(table(nodes, alias="n"), exp.column("label", table="n").eq(low.copy()), side="LEFT"),
    ]
    between = exp.Add(this=exp.Sub(this=last, expression=first), expression=literal(1))
    own = case(
        (kind.eq("1"), between),
        (low.copy().eq(literal(NULL_NODE)), literal(1)),
        default=exp.column("leaves", table="n"),
    )
    each = select(exp.column("label", table="p"), alias(own, "leaves"), source=table(pieces, alias="p"), joins=joins)
    leaves = exp.column("leaves")
    # The end of a range before its start is no range.
    readable = exp.Sum(this=case((leaves >= literal(1), literal(1)), default=literal(0))).eq(count_all())
    total = case((readable, sum_bigint(leaves.copy())), default=exp.cast(exp.Null(), BIGINT))
    return select("label", alias(total, "leaves"), source=nest_query(each, "each_piece"), groups=["label"])


def count_leaves(prelude: Prelude, name: str, hierarchy: Hierarchy) -> exp.Expr:
    """The number of leaves of a hierarchy, as a subquery."""
    long = long_taxonomy(prelude, name, hierarchy)
    counted = select(bigint(count_all()), source=table(long), where=exp.column("level").eq(0))
    return exp.func("GREATEST", counted.subquery(), literal(1))  # a column of NULLs has no leaf


def overfull_labels(prelude: Prelude, name: str, hierarchy: Hierarchy, labels: str) -> exp.Select:
    """Labels that more rows of the release have than rows of the source have a value below them: no such label can come
    from this source."""
    values = source_values(prelude, name)
    long = long_taxonomy(prelude, name, hierarchy)
    pairs = select(alias(text(exp.column("node")), "label"), "leaf", source=table(long)).distinct()
    same = exp.column("value", table="v").eq(exp.column("leaf", table="p"))
    known = exp.column("original").is_(exp.Null()).not_()
    valued = nest_query(select("value", "records", source=table(values), where=known), "v")
    covered = select(
        exp.column("label", table="p"),
        alias(sum_bigint(exp.column("records", table="v")), "records"),
        source=nest_query(pairs, "p"),
        joins=[join_clause(valued, same, side="LEFT")],
        groups=[exp.column("label", table="p")],
    )
    missing = select(
        alias(text(exp.Null()), "label"),
        alias(sum_bigint(exp.column("records")), "records"),
        source=table(values),
        where=known.copy().not_(),
    )
    own, source = exp.column("records", table="r"), exp.column("records", table="c")
    here = exp.or_(
        exp.column("label", table="c").eq(exp.column("label", table="r")),
        exp.and_(exp.column("label", table="c").is_(exp.Null()), exp.column("label", table="r").is_(exp.Null())),
    )
    both = nest_query(union_all([covered, missing]), "c")
    # The root covers NULL, too; it may be on all rows.
    below = exp.or_(
        exp.column("label", table="r").is_(exp.Null()),
        exp.column("label", table="r").isin(literal(hierarchy.root), literal(SUPPRESSED)).not_(),
    )
    tree = select(count_all(), source=table(labels, alias="r"), joins=[join_clause(both, here)])
    return tree.where(own > exp.Coalesce(this=source, expressions=[literal(0)]), below)


def classes_by_labels(prelude: Prelude, cells: str, recoding: Recoding, suppressed: int) -> str:
    """recoded_classes: those of the release, and one of all suppressed rows."""

    def build() -> exp.Query:
        labels = [exp.column(short) for short in recoding.shorts.values()]
        grouped = select(
            *labels,
            alias(sum_bigint(exp.column("records")), "records"),
            source=table(cells),
            groups=[label.copy() for label in labels],
        )
        number = alias(window(exp.RowNumber(), order=[label.copy() for label in labels]), "class_id")
        kept = select(number, "records", alias(literal(1), "kept"), source=nest_query(grouped, "grouped"))
        gone = [alias(bigint(literal(0)), "class_id"), alias(bigint(literal(suppressed)), "records")]
        return _with_suppressed(kept, gone)

    return prelude.once("recoded_classes", (cells, "labels"), build)


def class_values_by_labels(prelude: Prelude, cells: str, recoding: Recoding, suppressed: int) -> str:
    """recoded_class_values: the values of the class attribute in each class of the release."""

    def build() -> exp.Query:
        labels = [exp.column(short) for short in recoding.shorts.values()]
        number = alias(window(exp.DenseRank(), order=labels), "class_id")
        kept = select(
            number, alias(exp.column("target"), "value"), "records", alias(literal(1), "kept"), source=table(cells)
        )
        gone = [bigint(literal(0)), text(exp.Null()), bigint(literal(suppressed))]
        names = ("class_id", "value", "records")
        return _with_suppressed(kept, [alias(item, name) for item, name in zip(gone, names, strict=True)])

    return prelude.once("recoded_class_values", (cells, "labels"), build)


def _with_suppressed(kept: exp.Select, row: Sequence[exp.Expr]) -> exp.Query:
    gone = nest_query(exp.select(*row, alias(literal(0), "kept")), "gone")
    return union_all([kept, select(exp.Star(), source=gone, where=exp.column("records") > literal(0))])


def values_by_labels(prelude: Prelude, leaves: Mapping[str, str], recoding: Recoding, suppressed: int) -> str:
    """recoded_values: `leaves` are the tables `label_leaves` of the columns."""

    def part(name: str, made: str) -> exp.Query:
        hierarchy = recoding.hierarchies[name]
        domain = count_leaves(prelude, name, hierarchy)

        def row(label: exp.Expr, level: exp.Expr, own: exp.Expr, kept: int, records: exp.Expr) -> list[exp.Expr]:
            return [
                alias(literal(name), "attribute"),
                alias(text(exp.Null()), "value"),
                alias(label, "label"),
                alias(level, "level"),
                alias(literal(hierarchy.height), "height"),
                alias(own, "leaves"),
                alias(domain.copy(), "domain"),
                alias(literal(recoding.weights.get(name, 1.0)), "weight"),
                alias(literal(kept), "kept"),
                alias(records, "records"),
            ]

        named = (exp.column(each) for each in ("label", "level", "leaves", "records"))
        label, level, own, records = named
        shown = select(*row(label, level, own, 1, records), source=table(made))
        gone = row(literal(SUPPRESSED), literal(hierarchy.height), domain.copy(), 0, bigint(literal(suppressed)))
        some = exp.column("records") > literal(0)
        return union_all([shown, select(exp.Star(), source=nest_query(exp.select(*gone), "gone"), where=some)])

    return prelude.once(
        "recoded_values", (*leaves.values(),), lambda: union_all([part(name, made) for name, made in leaves.items()])
    )
