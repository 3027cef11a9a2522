"""Small builders of SQL trees, and the binding of `.sql` files to parameters and relations.

Every user identifier is quoted and every user value is a literal of the tree: no SQL text is put together by hand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import sqlglot
from sqlglot import exp

# The `.sql` files are written in what PostgreSQL and DuckDB share; PostgreSQL's grammar is the stricter reading.
FILE_DIALECT = "postgres"

DOUBLE = exp.DataType.build("double")
TEXT = exp.DataType.build("text")
BIGINT = exp.DataType.build("bigint")
_ARITHMETIC: dict[type[exp.Expr], Callable[..., float]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
}


def column(name: str, table: str | None = None) -> exp.Column:
    """A quoted column: `column('order by')` is "order by"."""
    return exp.column(exp.to_identifier(name, quoted=True), table=table, copy=False)


def table(name: str, alias: str | None = None) -> exp.Table:
    """A table of sqlanon's own."""
    named = exp.TableAlias(this=exp.to_identifier(alias)) if alias else None
    return exp.Table(this=exp.to_identifier(name), alias=named)


def select(
    *chosen: exp.Expr | str,
    source: exp.Expr,
    joins: Sequence[exp.Join] = (),
    where: exp.Expr | None = None,
    groups: Sequence[exp.Expr | str] = (),
) -> exp.Select:
    """A SELECT put together at once, with sqlanon's own columns by name.

    sqlglot's chain of builders parses every name and copies the tree at each link, which takes longer than some checks.

    >>> select("class_id", count_all(), source=table("classes"), groups=["class_id"]).sql()
    'SELECT class_id, COUNT(*) FROM classes GROUP BY class_id'
    """
    return exp.Select(
        expressions=_named(chosen),
        from_=exp.From(this=source),
        joins=list(joins) or None,
        where=None if where is None else exp.Where(this=where),
        group=exp.Group(expressions=_named(groups)) if groups else None,
    )


def _named(items: Sequence[exp.Expr | str]) -> list[exp.Expr]:
    return [exp.column(item) if isinstance(item, str) else item for item in items]


def join_clause(other: exp.Expr, on: exp.Expr, *, side: str | None = None) -> exp.Join:
    return exp.Join(this=other, on=on, side=side)


def nest_query(query: exp.Query, name: str) -> exp.Subquery:
    """A query in parentheses, as it is: one that is used again elsewhere must be copied first."""
    return query.subquery(alias=name, copy=False)


def literal(value: Any) -> exp.Expr:
    """A Python value as a literal of the tree. Floats are cast: 1.0 must not turn a division into one of integers,
    nor a comparison into one of decimals.
    """
    return double(exp.convert(value)) if isinstance(value, float) else exp.convert(value)


def text(expression: exp.Expr) -> exp.Expr:
    return exp.Cast(this=expression, to=TEXT.copy())


def double(expression: exp.Expr) -> exp.Expr:
    return exp.Cast(this=expression, to=DOUBLE.copy())


def bigint(expression: exp.Expr) -> exp.Expr:
    return exp.Cast(this=expression, to=BIGINT.copy())


def alias(expression: exp.Expr, name: str, *, quoted: bool = False) -> exp.Alias:
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=quoted))


def count_all() -> exp.Expr:
    return exp.Count(this=exp.Star(), big_int=True)


def sum_bigint(expression: exp.Expr) -> exp.Expr:
    """SUM as BIGINT: engines widen it to HUGEINT or NUMERIC, which is slow and prints differently."""
    return bigint(exp.Sum(this=expression))


def case(*branches: tuple[exp.Expr, exp.Expr], default: exp.Expr | None = None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=value) for condition, value in branches], default=default)


def window(
    function: exp.Expr,
    *,
    partition: Sequence[exp.Expr] = (),
    order: Sequence[exp.Expr] = (),
) -> exp.Window:
    """A window with every NULL first, since engines differ in where they put them by themselves."""
    ordered = [exp.Ordered(this=item, desc=False, nulls_first=True) for item in order]
    return exp.Window(
        this=function,
        partition_by=list(partition) or None,
        order=exp.Order(expressions=ordered) if ordered else None,
    )


def union_all(queries: Sequence[exp.Query]) -> exp.Query:
    tree = queries[0]
    for query in queries[1:]:
        tree = exp.union(tree, query, distinct=False, copy=False)
    return tree


def same(dialect: str, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Whether two values of one type are equal, NULL included, as GROUP BY sees it; made for joins.

    PostgreSQL hashes equality only, and would run IS NOT DISTINCT FROM as a nested loop: there arrays of one element
    are compared. Text would not do, since 1.0 and 1.00 are one number, and some value is spelt like any word for NULL.

    >>> same("postgres", column("a"), column("b")).sql("postgres")
    'ARRAY["a"] = ARRAY["b"]'
    >>> same("duckdb", column("a"), column("b")).sql("duckdb")
    '"a" IS NOT DISTINCT FROM "b"'
    """
    if dialect == "postgres":
        return exp.EQ(this=exp.Array(expressions=[left]), expression=exp.Array(expressions=[right]))
    return exp.NullSafeEQ(this=left, expression=right)


def rows_relation(rows: Iterable[Sequence[Any]], columns: Sequence[str], types: Sequence[exp.DataType]) -> exp.Select:
    """A small relation written out as VALUES; NULLs and empty relations keep their column types."""
    listed = [tuple(row) for row in rows]
    if not listed:
        nulls = [
            alias(exp.Cast(this=exp.Null(), to=kind.copy()), name) for name, kind in zip(columns, types, strict=True)
        ]
        return exp.select(*nulls).where(exp.false())
    names = [f"v{i}" for i in range(len(columns))]
    values = exp.values([tuple(literal(item) for item in row) for row in listed], alias="listed", columns=names)
    chosen = [
        alias(exp.Cast(this=exp.column(source), to=kind.copy()), name)
        for source, name, kind in zip(names, columns, types, strict=True)
    ]
    return exp.select(*chosen).from_(values)


@cache
def _parsed(sql: str) -> exp.Expr:
    tree = sqlglot.parse_one(sql, read=FILE_DIALECT)
    for node in tree.walk():
        node._meta = None  # the places of tokens in the text, which would be copied with every tree
    return tree


def bind(sql: str, params: Mapping[str, Any], relations: Mapping[str, str]) -> exp.Select:
    """Parse a `.sql` file, put literals for its `:parameters` and real tables for its canonical relations."""
    tree = _parsed(sql).copy()
    assert isinstance(tree, exp.Select)
    read = find_references(sql)
    for node in list(tree.find_all(exp.Placeholder, exp.Table)):
        if isinstance(node, exp.Placeholder):
            node.replace(literal(params[node.name]))
        elif node.name in read and node.name in relations:
            node.set("this", exp.to_identifier(relations[node.name]))
    return tree


@cache
def find_references(sql: str) -> frozenset[str]:
    """The relations that a `.sql` file reads, without those that it defines itself."""
    tree = _parsed(sql)
    local = {cte.alias for cte in tree.find_all(exp.CTE)}
    return frozenset(found.name for found in tree.find_all(exp.Table)) - local


@cache
def uses_column(sql: str, name: str) -> bool:
    """Whether a `.sql` file reads a column of this name.

    >>> uses_column("SELECT class_id, records AS measured FROM classes", "records")
    True
    """
    return any(found.name == name for found in _parsed(sql).find_all(exp.Column))


def put_first(tree: exp.Select, name: str, query: exp.Query) -> None:
    """Define a relation before all others of a statement: these may read it.

    >>> tree = _parsed("WITH b AS (SELECT 1 FROM a) SELECT 2 FROM b").copy()
    >>> put_first(tree, "a", _parsed("SELECT 3").copy())
    >>> tree.sql()
    'WITH a AS (SELECT 3), b AS (SELECT 1 FROM a) SELECT 2 FROM b'
    """
    own = exp.CTE(this=query, alias=exp.TableAlias(this=exp.to_identifier(name)))
    known = tree.args.get("with_")
    tree.set("with_", exp.With(expressions=[own, *(known.expressions if known else [])]))


def with_verdict(tree: exp.Select) -> exp.Select:
    """Measure every class: the outermost WHERE of a model, which lists what breaks it, becomes the column `broken`.

    A condition that is NULL counts as broken: what cannot be measured is not safe.

    >>> with_verdict(bind("SELECT class_id, records AS measured FROM classes WHERE records < :k", {"k": 3}, {})).sql()
    'SELECT class_id, records AS measured, CASE WHEN NOT records < 3 THEN 0 ELSE 1 END AS broken FROM classes'
    """
    where = tree.args["where"]
    tree.set("where", None)
    verdict = case((exp.not_(where.this, copy=False), literal(0)), default=literal(1))
    tree.append("expressions", alias(verdict, "broken"))
    return tree


def excess(text: str, params: Mapping[str, Any], result: str) -> exp.Expr:
    """How far a class of a model's result is beyond its limit, as a share of the most that is possible.

    >>> excess("measured - :t, at most 1 - :t", {"t": 0.25}, "r").sql("duckdb")[:45]
    'COALESCE(GREATEST(r.measured - CAST(0.25 AS D'
    """
    beyond, most = (_parsed(f"SELECT {part}").expressions[0].copy() for part in text.split(", at most "))
    for tree in (beyond, most):
        for node in list(tree.find_all(exp.Placeholder)):
            node.replace(literal(float(params[node.name])))
    for node in list(beyond.find_all(exp.Column)):
        node.set("table", exp.to_identifier(result))
    bounded = exp.func("GREATEST", beyond, literal(0.0))
    ratio = exp.Div(this=bounded, expression=exp.Nullif(this=exp.paren(most), expression=literal(0.0)))
    return exp.Coalesce(this=ratio, expressions=[literal(0.0)])


def threshold(sql: str, params: Mapping[str, Any], *, smaller_is_worse: bool) -> float | None:
    """What a model compares `measured` with, without the tolerance; None where it compares something else.

    >>> share = "SELECT class_id, measured FROM shares WHERE records < :k OR measured > 1.0 / :m + 1e-12"
    >>> threshold(share, {"m": 4, "k": 9}, smaller_is_worse=False)
    0.25
    >>> ratio = "SELECT class_id, most / tail AS measured FROM sums WHERE most >= :c * tail * (1 - 1e-12)"
    >>> threshold(ratio, {"c": 3}, smaller_is_worse=False)
    3.0
    """
    tree = _parsed(sql)
    measured = next(item for item in tree.expressions if item.alias_or_name == "measured").unalias()
    # A ratio may be compared without a division: most >= :c * tail.
    ratio = measured.find(exp.Div)
    own, unit = (ratio.this, ratio.expression.name) if ratio else (measured, None)
    signs = (exp.LT, exp.LTE) if smaller_is_worse else (exp.GT, exp.GTE)
    for found in tree.args["where"].find_all(*signs):
        limit = found.expression
        if found.this == own and (unit is None or unit in (item.name for item in limit.find_all(exp.Column))):
            return _number(limit, params, unit)
    return None


def _number(tree: exp.Expr, params: Mapping[str, Any], unit: str | None) -> float | None:
    """An expression of literals and parameters; `unit` is a column that counts as 1, a tolerance counts as 0."""
    match tree:
        case exp.Placeholder():
            return float(params[tree.name])
        case exp.Literal():
            number = float(tree.name)
            return number if number > 1e-6 else 0.0
        case exp.Column() if tree.name == unit:
            return 1.0
        case exp.Paren():
            return _number(tree.this, params, unit)
        case exp.Binary() if type(tree) in _ARITHMETIC:
            sides = [_number(side, params, unit) for side in (tree.this, tree.expression)]
            return None if None in sides else float(_ARITHMETIC[type(tree)](*sides))
    return None


def inline_verdict(sql: str, params: Mapping[str, Any]) -> exp.Expr | None:
    """The verdict of a model that looks at nothing but the columns of `classes`, as an expression over them.

    >>> inline_verdict("SELECT class_id, records AS measured FROM classes WHERE records < :k", {"k": 3}).sql()
    'CASE WHEN NOT records < 3 THEN 0 ELSE 1 END'
    """
    tree = _parsed(sql)
    origin = tree.args.get("from_")
    if tree.args.get("with_") or origin is None or not isinstance(origin.this, exp.Table):
        return None
    if origin.this.name != "classes" or tree.args.get("joins"):
        return None
    verdict: exp.Expr = with_verdict(bind(sql, params, {})).expressions[-1].this
    return verdict
