"""The canonical relations that the privacy models read, as temporary tables.

    classes(class_id, records)                      one row a class; records are rows, or persons with a person key
    class_values(class_id, value, records, known)   one row a class and sensitive value; value is its rank, known is 0
                                                    for NULL, unless the policy says that NULL is a value
    totals(value, label, number, records)           one row a sensitive value of the whole table
    taxonomy(value, level, node)                    the ancestors of each sensitive value; level 0 is the value
    class_population(class_id, records, population) classes of release and population together
    class_guards(class_id, guard)                   the guarding nodes that the records of a class name
    class_categories(class_id, category, records)   as class_values, for the categories of an (l,alpha) model; the
                                                    category is NULL for what is not known
    class_supersets(class_id, superset_id)          the classes above a class, with
    superset_values(superset_id, value, records), superset_sizes(superset_id, records)
    class_probability(class_id, value, probability) the public probability of a record
    combinations(class_id, records, matching)       freeform attacks

Classes have the same number in every relation. In these tables user columns are called c1, c2, …, so that no later
statement depends on a user's names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlanon.relations.source import ROW
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
    same,
    select,
    sum_bigint,
    table,
    text,
    window,
)

# Stands for NULL where a node of a taxonomy needs a name; no sane value is spelt like this.
NULL_NODE = "\u2205 NULL"


def as_label(value: Any) -> str:
    """A value of a policy as the engines print it."""
    if value is None:
        return NULL_NODE
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Step:
    """CREATE TEMPORARY TABLE name AS query; where `rows` are given, an engine may load these instead.

    The rows of a `private` step are loaded only: no statement may hold them, and no script shows them."""

    name: str
    made: exp.Query | None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    private: bool = False
    summary: bool = False  # short by its nature, such as a hierarchy that lies in a table

    @property
    def query(self) -> exp.Query:
        if self.made is not None:
            return self.made
        shown = (("",) * len(self.columns),) if self.private else self.rows
        return rows_relation(shown, self.columns, [TEXT] * len(self.columns))


@dataclass(frozen=True)
class Grouping:
    """What makes a class and what is counted in it."""

    columns: tuple[str, ...]
    person: str | None = None
    distinct: tuple[str, ...] = ()
    nulls_match: bool = True


@dataclass
class Prelude:
    """Temporary tables in the order in which they are made, each made once however many models ask for it."""

    rows: exp.Select
    dialect: str
    steps: list[Step] = field(default_factory=list)
    made: dict[tuple[object, ...], str] = field(default_factory=dict)
    rolls_up_from: dict[Grouping, str] = field(default_factory=dict)  # an attribute whose cells are made anyway
    prefix: str = "sqlanon"  # of table names; two preludes that live at the same time need two
    baseline: exp.Select | None = None  # rows whose distribution classes are compared with, if not their own
    null_is_value: bool = False  # in sensitive columns; else NULL is not known
    originals: exp.Select | None = None  # rows whose values were generalized to the labels of `rows`, if known
    # By the column of `rows` with the number of a person's signature: the table of persons with one row each.
    entities: dict[str, str] = field(default_factory=dict)

    def once(self, kind: str, key: tuple[object, ...], query: Callable[[], exp.Query], *, summary: bool = False) -> str:
        full = (kind, *key)
        if full not in self.made:
            built = query()  # may add the steps that it builds on
            name = f"{self.prefix}_{kind}_{1 + sum(made[0] == kind for made in self.made)}"
            self.made[full] = name
            self.steps.append(Step(name, built, summary=summary))
        return self.made[full]

    def row_classes(self) -> str | None:
        """A table made earlier whose column `records` adds up to all rows."""
        for key, made in self.made.items():
            match key:
                case ("classes", Grouping(person=None, distinct=())):
                    return made
        return None

    def counted(self, name: str) -> tuple[str, str] | None:
        """A table made earlier, and its column, that hold all values of a user's column with row counts."""
        for key, made in self.made.items():
            match key:
                case ("totals", Grouping(person=None, distinct=()), attribute, _) if attribute == name:
                    return made, "original"
                case ("classes", Grouping(columns=columns, person=None, distinct=())) if name in columns:
                    return made, f"c{columns.index(name) + 1}"
                case ("combined", Grouping(columns=columns), _) if name in columns:
                    return made, f"c{columns.index(name) + 1}"
        return None

    def load(
        self,
        kind: str,
        key: tuple[object, ...],
        columns: tuple[str, ...],
        rows: tuple[tuple[str, ...], ...],
        *,
        private: bool = False,
    ) -> str:
        """A table of text whose rows are known here, such as a hierarchy from a file."""
        full = (kind, *key)
        if full not in self.made:
            name = f"{self.prefix}_{kind}_{1 + sum(made[0] == kind for made in self.made)}"
            self.made[full] = name
            self.steps.append(Step(name, None, columns, rows, private))
        return self.made[full]


def source(prelude: Prelude) -> exp.Subquery:
    return nest_query(prelude.rows.copy(), "source")


def class_columns(grouping: Grouping) -> list[exp.Expr]:
    """The columns of a class; where NULLs match nothing, the row number makes such a row a class of its own."""
    columns: list[exp.Expr] = [column(name) for name in grouping.columns]
    if not grouping.nulls_match:
        missing = exp.or_(*(column(name).is_(exp.Null()) for name in grouping.columns))
        columns.append(case((missing, column(ROW)), default=literal(0)))
    return columns


def labels(grouping: Grouping) -> list[str]:
    return [f"c{i}" for i in range(1, len(class_columns(grouping)) + 1)]


def _counted(grouping: Grouping) -> exp.Expr:
    """Rows, or persons. Rows without a person count as one unknown person in all, never as a crowd."""
    if grouping.person is None:
        return count_all()
    person = column(grouping.person)
    unknown = exp.Max(this=case((person.copy().is_(exp.Null()), literal(1)), default=literal(0)))
    return bigint(exp.Add(this=exp.Count(this=exp.Distinct(expressions=[person])), expression=unknown))


def grouped_rows(prelude: Prelude, grouping: Grouping, extra: dict[str, exp.Expr], counted: exp.Expr) -> exp.Select:
    made_of = class_columns(grouping)
    named = [alias(item, name) for item, name in zip(made_of, labels(grouping), strict=True)]
    others = [alias(item, name) for name, item in extra.items()]
    groups = [item.copy() for item in (*made_of, *extra.values())]
    return select(*named, *others, alias(counted, "records"), source=source(prelude), groups=groups)


def number_classes(prelude: Prelude, grouping: Grouping, relation: exp.Query, kept: Sequence[str]) -> exp.Select:
    """A relation over c1, c2, … with the number of its class, and the columns to keep.

    DuckDB joins to the classes, also where a column is NULL. PostgreSQL would run such a join as a nested loop:
    there the rank of the columns is the number, which is the same in every relation that holds all classes.
    """
    if prelude.dialect != "duckdb":
        rank = window(exp.DenseRank(), order=[exp.column(name) for name in labels(grouping)])
        return select(alias(rank, "class_id"), *kept, source=nest_query(relation, "r"))
    known = classes(prelude, grouping)
    pairs = [(exp.column(name, table="k"), exp.column(name, table="r")) for name in labels(grouping)]
    alike = exp.and_(*(same(prelude.dialect, *pair) for pair in pairs), copy=False)
    chosen = [exp.column("class_id", table="k"), *(exp.column(name, table="r") for name in kept)]
    return select(*chosen, source=nest_query(relation, "r"), joins=[join_clause(table(known, alias="k"), alike)])


def cells(prelude: Prelude, grouping: Grouping, attribute: str) -> str:
    """One row a class and sensitive value, with the columns themselves: c1, c2, …, original, records."""
    return prelude.once(
        "cells",
        (grouping, attribute),
        lambda: grouped_rows(prelude, grouping, {"original": column(attribute)}, _counted(grouping)),
    )


def class_values(prelude: Prelude, grouping: Grouping, attribute: str) -> str:
    return prelude.once(
        "class_values", (grouping, attribute), lambda: class_values_of(prelude, grouping, attribute, ranked=True)
    )


def class_values_of(prelude: Prelude, grouping: Grouping, attribute: str, *, ranked: bool) -> exp.Select:
    """The statement behind class_values; without `ranked` the rows have no value, and nothing need be ranked."""
    is_known = alias(known_value(exp.column("original"), null_is_value=prelude.null_is_value), "known")
    made = select(exp.Star(), is_known, source=table(cells(prelude, grouping, attribute)))
    if not ranked:
        return number_classes(prelude, grouping, made, ["records", "known"])
    known_classes = nest_query(number_classes(prelude, grouping, made, ["original", "records", "known"]), "n")
    if prelude.dialect != "duckdb" and prelude.baseline is None:
        rank = window(exp.DenseRank(), order=[exp.column("original")])
        return select("class_id", alias(rank, "value"), "records", "known", source=known_classes)
    known = table(totals(prelude, grouping, attribute, numeric=False), alias="t")
    chosen = [exp.column("class_id", table="n"), exp.column("value", table="t")]
    chosen += [exp.column(name, table="n") for name in ("records", "known")]
    sides: list[exp.Expr] = [exp.column("original", table=side) for side in ("n", "t")]
    if prelude.dialect != "duckdb":  # compares no two types, and a release may hold its values in another
        sides = [text(side) for side in sides]
    return select(*chosen, source=known_classes, joins=[join_clause(known, same(prelude.dialect, *sides))])


def known_value(value: exp.Expr, *, null_is_value: bool) -> exp.Expr:
    """1 for a value that counts, 0 for NULL where that is an unknown value.

    >>> known_value(exp.column("s"), null_is_value=False).sql()
    'CASE WHEN s IS NULL THEN 0 ELSE 1 END'
    """
    return literal(1) if null_is_value else case((value.is_(exp.Null()), literal(0)), default=literal(1))


def class_categories(prelude: Prelude, grouping: Grouping, attribute: str, categories: Sequence[Sequence[Any]]) -> str:
    """As class_values, with the category of a sensitive value in its place: class_id, category, records."""

    def build() -> exp.Query:
        own = exp.Coalesce(this=text(column(attribute)), expressions=[literal(NULL_NODE)])
        branches: list[tuple[exp.Expr, exp.Expr]] = []
        if not prelude.null_is_value:
            branches.append((column(attribute).is_(exp.Null()), exp.Null()))
        for place, members in enumerate(categories, start=1):
            listed = [literal(as_label(value)) for value in members]
            branches.append((own.copy().isin(*listed), literal(place)))
        category = case(*branches, default=literal(0))
        grouped = grouped_rows(prelude, grouping, {"category": category}, _counted(grouping))
        return number_classes(prelude, grouping, grouped, ["category", "records"])

    return prelude.once("class_categories", (grouping, attribute, repr(categories)), build)


def classes(prelude: Prelude, grouping: Grouping) -> str:
    """One row a class, with its columns c1, c2, …: rolled up from the cells of an attribute where some model needs
    these anyway and they hold plain row counts, else counted in the rows."""

    def build() -> exp.Query:
        names = labels(grouping)
        attribute = prelude.rolls_up_from.get(grouping)
        if grouping.distinct:
            grouped = _distinct_groups(prelude, grouping)
        elif (made := _entities(prelude, grouping)) is not None:  # persons are counted once already
            own = [alias(exp.column("signature"), "c1"), alias(count_all(), "records")]
            grouped = select(*own, source=table(made), groups=["signature"])
        elif attribute is not None:
            counted = alias(sum_bigint(exp.column("records")), "records")
            grouped = select(*names, counted, source=table(cells(prelude, grouping, attribute)), groups=names)
        else:
            grouped = grouped_rows(prelude, grouping, {}, _counted(grouping))
        ranked = prelude.dialect != "duckdb"
        order = [exp.column(name) for name in names] if ranked else []
        number = window(exp.DenseRank() if ranked else exp.RowNumber(), order=order)
        return select(alias(number, "class_id"), "records", *names, source=nest_query(grouped, "grouped"))

    return prelude.once("classes", (grouping,), build)


def _entities(prelude: Prelude, grouping: Grouping) -> str | None:
    """The table of persons whose signatures are the classes, if these are no more than that."""
    only = grouping.columns[0] if len(grouping.columns) == 1 else ""
    return prelude.entities.get(only) if grouping.person is not None and grouping.nulls_match else None


def _distinct_groups(prelude: Prelude, grouping: Grouping) -> exp.Select:
    """Count distinct combinations of several columns; a combination with a NULL is not counted."""
    made_of = class_columns(grouping)
    counted = [column(name) for name in grouping.distinct]
    names = labels(grouping)
    pairs = exp.select(
        *(alias(item, name) for item, name in zip(made_of, names, strict=True)),
        *(alias(item, f"y{i}") for i, item in enumerate(counted, start=1)),
    ).distinct()
    whole = exp.and_(*(exp.column(f"y{i}").is_(exp.Null()).not_() for i in range(1, len(counted) + 1)))
    number = sum_bigint(case((whole, literal(1)), default=literal(0)))
    return (
        exp.select(*names, alias(number, "records"))
        .from_(pairs.from_(source(prelude)).subquery(alias="pairs"))
        .group_by(*names)
    )


def totals(prelude: Prelude, grouping: Grouping, attribute: str, *, numeric: bool) -> str:
    def build() -> exp.Query:
        number = finite(exp.column("original")) if numeric else double(exp.Null())
        if prelude.baseline is not None:
            everybody = Grouping(columns=(), person=grouping.person)
            whole = Prelude(prelude.baseline, prelude.dialect)
            counted = grouped_rows(whole, everybody, {"original": column(attribute)}, _counted(everybody))
        elif grouping.person is None:
            made = table(cells(prelude, grouping, attribute))
            records = alias(sum_bigint(exp.column("records")), "records")
            counted = select("original", records, source=made, groups=["original"])
        else:
            everybody = Grouping(columns=(), person=grouping.person)
            counted = grouped_rows(prelude, everybody, {"original": column(attribute)}, _counted(everybody))
        return select(
            alias(window(exp.RowNumber(), order=[exp.column("original")]), "value"),
            alias(text(exp.column("original")), "label"),
            alias(number, "number"),
            "records",
            "original",
            source=nest_query(counted, "counted"),
        )

    key = (grouping.person or grouping, attribute, numeric)
    return prelude.once("totals", key, build)


def finite(value: exp.Expr) -> exp.Expr:
    """A number, or NULL for NaN and infinities: they must not turn a bound into something that always holds."""
    tree: exp.Expr = double(value)
    for word in ("NaN", "Infinity", "-Infinity"):
        tree = exp.Nullif(this=tree, expression=double(literal(word)))
    return tree


def class_guards(prelude: Prelude, grouping: Grouping, guard: str) -> str:
    def build() -> exp.Query:
        grouped = grouped_rows(prelude, grouping, {"guard": text(column(guard))}, count_all())
        # Numbered before the rows without a guard are left out: they hold classes that must keep their numbers.
        return (
            exp.select("class_id", "guard")
            .from_(number_classes(prelude, grouping, grouped, ["guard"]).subquery(alias="numbered"))
            .where(exp.column("guard").is_(exp.Null()).not_())
        )

    return prelude.once("class_guards", (grouping, guard), build)


def class_population(prelude: Prelude, grouping: Grouping, population: exp.Select, population_has_persons: bool) -> str:
    """Release and population in one GROUP BY, so that equal classes meet also where a column is NULL."""

    def part(rows: exp.Subquery, released: int) -> exp.Select:
        counts_persons = grouping.person is not None and (released or population_has_persons)
        person = column(grouping.person) if grouping.person and counts_persons else exp.Null()
        named = [alias(column(name), label) for name, label in zip(grouping.columns, labels(grouping), strict=True)]
        return exp.select(*named, alias(literal(released), "released"), alias(text(person), "person")).from_(rows)

    def count(released: int, persons: bool) -> exp.Expr:
        here = exp.column("released").eq(released)
        if not persons:
            return sum_bigint(case((here, literal(1)), default=literal(0)))
        nobody = exp.and_(here, exp.column("person").is_(exp.Null()))
        unknown = exp.Max(this=case((nobody, literal(1)), default=literal(0)))
        known = exp.Count(
            this=exp.Distinct(expressions=[case((here.copy(), exp.column("person")), default=exp.Null())])
        )
        return bigint(exp.Add(this=known, expression=unknown))

    def build() -> exp.Query:
        both = exp.union(
            part(source(prelude), 1), part(population.subquery(alias="population"), 0), distinct=False
        ).subquery(alias="both_tables")
        persons = grouping.person is not None
        counted = (
            exp.select(
                *labels(grouping),
                alias(count(1, persons), "records"),
                alias(count(0, persons and population_has_persons), "population"),
            )
            .from_(both)
            .group_by(*labels(grouping))
        )
        number = window(exp.RowNumber())
        return exp.select(alias(number, "class_id"), "records", "population", *labels(grouping)).from_(
            counted.subquery(alias="counted")
        )

    return prelude.once("class_population", (grouping,), build)
