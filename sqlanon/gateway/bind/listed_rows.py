"""Rows that a statement lists by itself: VALUES and generate_series(). They are public, and few."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlanon.gateway.bind.parameters import TYPES
from sqlanon.gateway.bind.scalars import bind, common, only, refusal
from sqlanon.gateway.bind.sources import FromRows
from sqlanon.gateway.bind.values import NUMBERS, UNIT, Interval, Kind, Relation, Value, hull

MOST_VALUES = 1_000
MOST_OF_A_SERIES = 100_000
SERIES = (exp.GenerateSeries, exp.ExplodingGenerateSeries)
INT4 = 2**31


def listed_rows(node: exp.Expr, dialect: str) -> Relation | None:
    """The relation of VALUES or generate_series() in FROM; None of anything else."""
    if type(node) is exp.Values:
        only(node, "expressions", "alias")
        return _values(node, dialect)
    if type(node) is exp.Table and type(node.this) in SERIES:
        only(node, "this", "alias")
        return _series(node, dialect)
    return None


def _names(node: exp.Expr, usual: list[str]) -> list[str]:
    """The names of the columns: those after the alias, then the usual ones."""
    alias = node.args.get("alias")
    given = [each.name for each in alias.args.get("columns") or ()] if alias is not None else []
    if len(given) > len(usual):
        raise refusal(node, "more names are given than there are columns", sqlstate="42P10")
    return [*given, *usual[len(given) :]]


def _values(node: exp.Values, dialect: str) -> Relation:
    if len(node.expressions) > MOST_VALUES:
        raise refusal(node, f"VALUES of more than {MOST_VALUES:,} rows are not answered", sqlstate="54000")
    nowhere = FromRows(dialect)
    rows: list[list[Value]] = []
    for each in node.expressions:
        cells = each.expressions if type(each) is exp.Tuple else [each.this if type(each) is exp.Paren else each]
        rows.append([bind(cell, nowhere) for cell in cells])
        if any(value.literal is None and value.kind != "null" and not value.nothing for value in rows[-1]):
            raise refusal(node, "VALUES takes literals and parameters")
    width = len(rows[0])
    if not width or any(len(row) != width for row in rows):
        raise refusal(node, "VALUES lists must all be the same length", sqlstate="42601")
    kinds: list[Kind] = []
    for place in range(width):
        found = common(node, [row[place] for row in rows])
        kinds.append("text" if found == "null" else found)
    tuples = [
        exp.Tuple(
            expressions=[exp.cast(value.tree.copy(), TYPES[kind]) for value, kind in zip(row, kinds, strict=True)]
        )
        for row in rows
    ]
    inner = exp.Values(expressions=tuples, alias=_alias(width))
    names = _names(node, [f"column{place + 1}" for place in range(width)])
    columns = [_column([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    return _relation(node, inner, names, columns)


def _series(node: exp.Table, dialect: str) -> Relation:
    only(node.this, "start", "end", "step", "is_end_exclusive")
    if node.this.args.get("is_end_exclusive"):
        raise refusal(node, "range() is not answered", hint="generate_series() is")
    ends: list[int] = []
    for name in ("start", "end", "step"):
        given = node.this.args.get(name)
        value = bind(given, FromRows(dialect)) if given is not None else None
        if value is not None:
            value.must_be("int")
        if value is not None and type(value.literal) is not int:
            raise refusal(node, "generate_series() takes whole numbers here", hint="times are not answered")
        ends.append(value.literal if value is not None else 1)
    start, end, step = ends
    if step == 0:
        raise refusal(node, "step size cannot equal zero", sqlstate="22023")
    if (end - start) // step >= MOST_OF_A_SERIES:
        said = f"a series of more than {MOST_OF_A_SERIES:,} numbers is not answered"
        raise refusal(node, said, sqlstate="54000")
    numbers = [exp.cast(exp.convert(each), TYPES["int"]) for each in ends]
    call = exp.Anonymous(this="GENERATE_SERIES", expressions=numbers)
    inner = exp.Table(this=call, alias=_alias(1))
    name = node.alias or "generate_series"
    value = Value(exp.Null(), "int", Interval(min(start, end), max(start, end)), public=True)
    value = replace(value, stored="int4") if max(map(abs, ends)) < INT4 else value
    return _relation(node, inner, _names(node, [name]), [value])


def _alias(width: int) -> exp.TableAlias:
    columns = [exp.to_identifier(f"c{place}") for place in range(width)]
    return exp.TableAlias(this=exp.to_identifier("listed"), columns=columns)


def _column(values: list[Value], kind: Kind) -> Value:
    bounds = [value.bounds for value in values if value.bounds is not None]
    within = (hull(bounds) if bounds else Interval(0, 0)) if kind in NUMBERS else None
    size = max((value.longest for value in values), default=0) if kind == "text" else None
    return Value(exp.Null(), kind, within, public=True, size=size)


def _relation(node: exp.Expr, inner: exp.Expr, names: list[str], columns: list[Value]) -> Relation:
    if any(name.casefold() == UNIT for name in names):
        raise refusal(node, f"'{UNIT}' is a reserved name")
    if len({name.casefold() for name in names}) < len(names):
        raise refusal(node, "two columns have the same name", sqlstate="42701", hint="name them after the alias")
    select = exp.Select().from_(inner, copy=False)
    found: dict[str, Value] = {}
    for place, (name, value) in enumerate(zip(names, columns, strict=True)):
        select = select.select(exp.alias_(exp.column(f"c{place}"), name, quoted=True), copy=False)
        found[name] = replace(value, tree=exp.column(exp.to_identifier(name, quoted=True)))
    return Relation(select, found, "public")
