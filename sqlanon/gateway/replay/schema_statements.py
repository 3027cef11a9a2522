"""Statements in the shape of a schema: what an analyst can ask of it, drawn with a fixed seed.

Each joins what the policy lets meet, and asks for aggregates of columns that are there: single tables, joins on the
unit and along links, public tables, persons with their own aggregates and windows, unions, EXISTS. Not every one is
answered, as a policy may lack the bounds that it needs; those are refused for both neighbours alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from sqlanon.gateway.bind.catalog import Catalog, kind_of
from sqlanon.gateway.bind.values import Kind

COMPARED = 3  # literals that a condition compares with


@dataclass(frozen=True)
class _Source:
    """A FROM clause, with the columns that can be used there."""

    text: str
    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    unit: str | None = None


@dataclass(frozen=True)
class _Table:
    name: str
    kinds: dict[str, Kind] = field(default_factory=dict)
    unit: str | None = None  # its column that names the person
    public: bool = False

    def of(self, alias: str, *kinds: Kind) -> tuple[str, ...]:
        """Columns of these kinds, with an alias; the person is no column to add up."""
        return tuple(f"{alias}.{quote(name)}" for name, kind in self.kinds.items() if kind in kinds)


def schema_statements(catalog: Catalog, principal: str, count: int, seed: int = 0) -> list[str]:
    """So many different statements over the tables of a principal; the same ones for the same policy and seed."""
    sources = list(_sources(_tables(catalog, principal), catalog))
    drawn = random.Random(f"sqlanon statements {seed}")
    found: dict[str, None] = {}
    for turn in range(20 * count):
        if len(found) == count or not sources:
            break
        found.setdefault(_statement(sources[turn % len(sources)], drawn))
    return list(found)


def quote(name: str) -> str:
    """
    >>> quote('a "name"')
    '"a ""name\"""'
    """
    return '"' + name.replace('"', '""') + '"'


def _tables(catalog: Catalog, principal: str) -> list[_Table]:
    policy, found = catalog.policy, []
    for name in catalog.names(principal):
        table = policy.tables[name]
        public = table.public or table.released
        holder = not public and table.link is None
        unit = (table.unit or policy.unit.key) if holder else None
        kinds: dict[str, Kind] = {}
        for info in catalog.schema.columns[name]:
            declared, kind = table.columns.get(info.name), kind_of(info.type)
            shown = policy.allows(principal, name, info.name) and not (declared is not None and declared.hidden)
            if kind is not None and shown and info.name != unit:
                kinds[info.name] = kind
        found.append(_Table(name, kinds, unit, public))
    return found


def _sources(tables: Sequence[_Table], catalog: Catalog) -> Iterator[_Source]:
    private = [table for table in tables if not table.public]
    by_name = {table.name: table for table in tables}
    for table in private:
        yield _source(_named(table, "a"), [("a", table)])
        if table.unit is not None:
            yield from _of_persons(table)
    for one, other in product(private, repeat=2):
        if one.unit is not None and other.unit is not None:
            on = f"a.{quote(one.unit)} = b.{quote(other.unit)}"
            yield _source(f"{_named(one, 'a')} JOIN {_named(other, 'b')} ON {on}", [("a", one), ("b", other)])
            if one is not other:
                yield _source(f"{_named(one, 'a')} LEFT JOIN {_named(other, 'b')} ON {on}", [("a", one), ("b", other)])
                where = f"EXISTS (SELECT 1 FROM {_named(other, 'b')} WHERE {on})"
                columns = ", ".join(f"a.{quote(name)}" for name in (one.unit, *one.kinds))
                inner = f"(SELECT {columns} FROM {_named(one, 'a')} WHERE {where}) AS a"
                yield _source(inner, [("a", one)])
    for table in private:
        link = catalog.policy.tables[table.name].link
        if link is not None and link.table in by_name:
            parent = by_name[link.table]
            on = " AND ".join(f"a.{quote(own)} = b.{quote(other)}" for own, other in link.on.items())
            yield _source(f"{_named(table, 'a')} JOIN {_named(parent, 'b')} ON {on}", [("a", table), ("b", parent)])
    for table, public in product(private, (each for each in tables if each.public)):
        both = [("a", table), ("b", public)]
        for name in sorted(table.kinds.keys() & public.kinds.keys()):
            on = f"a.{quote(name)} = b.{quote(name)}"
            yield _source(f"{_named(table, 'a')} JOIN {_named(public, 'b')} ON {on}", both)
            yield _source(f"{_named(public, 'b')} LEFT JOIN {_named(table, 'a')} ON {on}", both)
        yield _source(f"{_named(table, 'a')} CROSS JOIN {_named(public, 'b')}", both)


def _of_persons(table: _Table) -> Iterator[_Source]:
    """A table by person: aggregates and windows of the person's own rows, and unions."""
    assert table.unit is not None
    unit, numbers, texts = quote(table.unit), table.of("a", "int", "float"), table.of("a", "text")
    measured = f", SUM({numbers[0]}) AS s, MAX({numbers[-1]}) AS m" if numbers else ""
    grouped = f"SELECT a.{unit} AS unit, COUNT(*) AS n{measured} FROM {_named(table, 'a')} GROUP BY a.{unit}"
    columns = ("a.n", "a.s", "a.m") if numbers else ("a.n",)
    yield _Source(f"({grouped}) AS a", columns, unit="a.unit")
    order = (*numbers, *texts, f"a.{unit}")[0]
    ranked = f"ROW_NUMBER() OVER (PARTITION BY a.{unit} ORDER BY {order}) AS place"
    both = bool(numbers and texts)
    shown = f", {numbers[0]} AS x, {texts[0]} AS t" if both else ""
    yield _Source(
        f"(SELECT a.{unit} AS unit, {ranked}{shown} FROM {_named(table, 'a')}) AS a",
        ("LEAST(a.place, 5)", *(("a.x",) if both else ())), ("a.t",) if both else (), unit="a.unit",
    )  # fmt: skip
    if both:
        rows = f"SELECT a.{unit} AS unit, {numbers[0]} AS x, {texts[0]} AS t FROM {_named(table, 'a')}"
        yield _Source(f"({rows} UNION ALL {rows}) AS a", ("a.x",), ("a.t",), unit="a.unit")


def _source(text: str, parts: Sequence[tuple[str, _Table]]) -> _Source:
    numbers = tuple(each for alias, table in parts for each in table.of(alias, "int", "float"))
    texts = tuple(each for alias, table in parts for each in table.of(alias, "text", "bool"))
    times = tuple(each for alias, table in parts for each in table.of(alias, "date", "timestamp"))
    unit = next((f"{alias}.{quote(table.unit)}" for alias, table in parts if table.unit is not None), None)
    return _Source(text, numbers, texts, times, unit)


def _named(table: _Table, alias: str) -> str:
    return f"{'.'.join(quote(part) for part in table.name.split('.'))} AS {alias}"


def _statement(source: _Source, drawn: random.Random) -> str:
    keys = [key for key in _keys(source, drawn) if drawn.random() < 0.6][:2]
    found = list(dict.fromkeys(_aggregate(source, drawn) for _ in range(drawn.randint(1, 3))))
    listed = [f"{each} AS k{place}" for place, each in enumerate(keys)]
    listed += [f"{each} AS x{place}" for place, each in enumerate(found)]
    sql = f"SELECT {', '.join(listed)} FROM {source.text}"
    if drawn.random() < 0.4:
        sql += f" WHERE {_condition(source, drawn)}"
    if keys:
        sql += f" GROUP BY {', '.join(str(place + 1) for place in range(len(keys)))}"
    return sql


def _keys(source: _Source, drawn: random.Random) -> list[str]:
    keys = [drawn.choice(source.texts)] if source.texts else []
    if source.numbers and drawn.random() < 0.3:
        keys.append(f"FLOOR({drawn.choice(source.numbers)} / 10)")
    if source.times and drawn.random() < 0.5:
        keys.append(f"YEAR({drawn.choice(source.times)})")
    drawn.shuffle(keys)
    return keys


def _aggregate(source: _Source, drawn: random.Random) -> str:
    shapes = ["COUNT(*)"]
    if source.unit is not None:
        shapes.append(f"COUNT(DISTINCT {source.unit})")
    if source.texts:
        shapes.append(f"COUNT(DISTINCT {drawn.choice(source.texts)})")
    if source.numbers:
        number = drawn.choice(source.numbers)
        shapes += [f"SUM({number})", f"AVG({number})", f"VARIANCE({number})", f"MEDIAN({number})", f"COUNT({number})"]
    made = drawn.choice(shapes)
    return made + (f" FILTER (WHERE {_condition(source, drawn)})" if drawn.random() < 0.25 else "")


def _condition(source: _Source, drawn: random.Random) -> str:
    shapes = ["TRUE"]
    if source.unit is not None:
        shapes.append(f"{source.unit} IS NOT NULL")
    if source.texts:
        shapes.append(f"{drawn.choice(source.texts)} IS NOT NULL")
    if source.numbers:
        number = drawn.choice(source.numbers)
        shapes += [f"{number} > {drawn.randint(0, COMPARED)}", f"{number} IS NULL", f"{number} + 1 < 100"]
    return drawn.choice(shapes)
