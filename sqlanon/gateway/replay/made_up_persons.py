"""Made-up rows in the shape of a schema, for the worst that one person can be: person 1, beside few calm ones.

Person 1 has more rows than the policy counts, far outside the bounds, in many groups, some of them nobody else's; NaN,
infinities and NULLs are among them. No value comes from the database: names, types and constraints do, and what the
policy declares. Public tables are the same for both neighbours.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal

from sqlanon.gateway.bind.catalog import Schema, kind_of
from sqlanon.gateway.bind.values import Kind
from sqlanon.policy.gateway import Gateway

Row = dict[str, Any]
Tables = dict[str, list[Row]]
World = Literal["high", "low", "odd", "mixed"]
WORLDS: tuple[World, ...] = ("high", "low", "odd", "mixed")

THE_ONE = 1  # the person whom the neighbour lacks
CALM = 3  # persons more than a group needs to appear
MOST_PERSONS = 60
MOST_ROWS = 200  # of the one: as many as make a difference where the policy counts fewer
FAR = 10**6
POOL = 5  # values of a column that is not declared, and rows of a public table
NOON = datetime(2025, 7, 1, 12)


@dataclass(frozen=True)
class Neighbours:
    """The rows of all tables with the one person, and without."""

    world: World
    one: Tables
    other: Tables


def neighbours_of(policy: Gateway, schema: Schema, world: World, seed: int = 0) -> Neighbours:
    """Two databases that differ by one person with all of the person's rows."""
    maker = _Maker(policy, schema, world, random.Random(f"sqlanon {world} {seed}"))
    for name in policy.tables:
        maker.table(name)
    return Neighbours(world, maker.made, maker.without(THE_ONE))


class _Maker:
    """Makes each table once, after those that its rows refer to; remembers whose rows they are."""

    def __init__(self, policy: Gateway, schema: Schema, world: World, drawn: random.Random) -> None:
        self.policy = policy
        self.schema = schema
        self.world = world
        self.drawn = drawn
        self.made: Tables = {}
        self.owners: dict[str, list[int | None]] = {}
        self.serial = 0

    def table(self, name: str) -> list[Row]:
        if name not in self.made:
            pairs = self._kept(name, list(self._rows(name)))
            self.made[name] = [row for row, _ in pairs]
            self.owners[name] = [owner for _, owner in pairs]
        return self.made[name]

    def without(self, person: int) -> Tables:
        return {
            name: [row for row, owner in zip(rows, self.owners[name], strict=True) if owner != person]
            for name, rows in self.made.items()
        }

    def _rows(self, name: str) -> Iterator[tuple[Row, int | None]]:
        table, unit = self.policy.tables[name], self.policy.unit
        if table.public or table.released:
            for place in range(POOL):
                yield self._row(name, {}, place, calm=True, in_turn=True), None
            return
        if table.link is not None:
            parents = self.table(table.link.table)
            owners = self.owners[table.link.table]
            for place, (parent, owner) in enumerate(zip(parents, owners, strict=True)):
                # A few parents have many rows: all rows of the one together are more than the policy counts.
                for _ in range(4 if place % 3 == 0 else 1):
                    fixed = {own: parent[other] for own, other in table.link.on.items()}
                    yield self._row(name, fixed, place, calm=owner != THE_ONE), owner
            return
        column = table.unit or unit.key
        kind = self._kind(name, column)
        for person in range(1, min(self.policy.minimum_group + CALM, MOST_PERSONS) + 2):
            for place in range(self._rows_of(name, person)):
                fixed = {column: nth_value(kind, person)}
                yield self._row(name, fixed, place, calm=person != THE_ONE), person
        if name != unit.table:  # rows of nobody are not read
            yield self._row(name, {column: None}, 0, calm=True), None

    def _rows_of(self, name: str, person: int) -> int:
        if name == self.policy.unit.table:
            return 1
        if person != THE_ONE:
            return 1 + person % 2
        return min(self.policy.rows + self.policy.rows // 2 + 3, MOST_ROWS)

    def _row(self, name: str, fixed: Row, place: int, *, calm: bool, in_turn: bool = False) -> Row:
        made: Row = {}
        for info in self.schema.columns[name]:
            kind = kind_of(info.type) or "text"
            if info.name in fixed:
                made[info.name] = fixed[info.name]
            elif info.name in self._told_apart(name):
                self.serial += 1
                made[info.name] = nth_value(kind, 100 + self.serial)
            else:
                made[info.name] = self._value(name, info.name, kind, place, calm=calm, in_turn=in_turn)
        return made

    def _value(self, name: str, column: str, kind: Kind, place: int, *, calm: bool, in_turn: bool) -> Any:
        keys = self._keys(column, self.policy.tables[name].columns.get(column))
        if keys is not None:
            own = list(keys) if calm or in_turn else [*keys, self._undeclared(kind)]
            return own[place % len(own)]
        values = self._calm(name, column, kind) if calm else self._wild(name, column, kind)
        if in_turn or kind in ("text", "bool"):
            return values[place % len(values)]
        return self.drawn.choice(values)

    def _keys(self, column: str, declared: Any) -> Sequence[Any] | None:
        """Declared keys; those of a column of the same name elsewhere, so that tables have rows to join."""
        if declared is not None and declared.keys is not None:
            return tuple(declared.keys)
        for table in self.policy.tables.values():
            other = table.columns.get(column)
            if other is not None and other.keys is not None and declared is None:
                return tuple(other.keys)
        return None

    def _undeclared(self, kind: Kind) -> Any:
        return "text of the one" if kind == "text" else nth_value(kind, FAR)

    def _bounds(self, name: str, column: str) -> tuple[Any, Any]:
        declared = self.policy.tables[name].columns.get(column)
        return (None, None) if declared is None else (declared.low, declared.high)

    def _calm(self, name: str, column: str, kind: Kind) -> list[Any]:
        low, high = self._bounds(name, column)
        if kind == "text":
            return ["text 1"]
        if kind == "bool":
            return [True, False]
        if low is None:
            return [nth_value(kind, 1)]
        if kind in ("int", "float"):
            middle = (low + high) / 2
            return [round(middle) if kind == "int" else middle]
        return [low]

    def _wild(self, name: str, column: str, kind: Kind) -> list[Any]:
        low, high = self._bounds(name, column)
        if kind == "text":
            return ["text 1", "text 2", "text of the one", *(["", None] if self._odd else [])]
        if kind == "bool":
            return [True, None] if self._odd else [True]
        if kind in ("date", "timestamp"):
            start = _moment(low) if low is not None else _moment(nth_value("timestamp", 1))
            end = _moment(high) if high is not None else _moved(start, 400)
            by_world: dict[str, list[datetime | None]] = {
                "high": [start],
                "low": [start, _moved(start, -3000)],
                "odd": [None, start, end],
                "mixed": [start, end, None, _moved(end, 1)],
            }
            moments = by_world[self.world]
            return [each if each is None or kind == "timestamp" else each.date() for each in moments]
        bottom, top = (0, POOL) if low is None else (low, high)
        size = max(FAR, 2 * (abs(bottom) + abs(top)))
        size = min(int(size), 2**62) if kind == "int" else size
        infinite = [] if kind == "int" else [float("inf"), float("-inf"), float("nan")]
        far: list[Any] = {
            "high": [size, *infinite[:1]],
            "low": [-size, *infinite[1:2]],
            "odd": [None, 0, *infinite],
            "mixed": [bottom, top, size, -size, 0, None],
        }[self.world]
        return [each if each is None or kind == "float" else int(each) for each in far]

    @property
    def _odd(self) -> bool:
        return self.world in ("odd", "mixed")

    def _told_apart(self, name: str) -> set[str]:
        """Columns in which no two rows are alike: other tables refer to them, or a constraint says so."""
        table = self.policy.tables[name]
        owned = {table.unit, *(table.link.on if table.link else ())}
        referred = {
            column
            for other in self.policy.tables.values()
            if other.link is not None and other.link.table == name
            for column in other.link.on.values()
        }
        keys = [columns for known, columns in self.schema.unique_keys if known == name]
        firsts = {next((column for column in columns if column not in owned), None) for columns in keys}
        return {each for each in referred | firsts if each is not None and each not in owned}

    def _kept(self, name: str, pairs: list[tuple[Row, int | None]]) -> list[tuple[Row, int | None]]:
        """Rows that a constraint would keep out are left out: the first of them stays."""
        for known, columns in self.schema.unique_keys:
            if known != name:
                continue
            seen: set[tuple[Any, ...]] = set()
            kept = []
            for row, owner in pairs:
                key = tuple(row[column] for column in columns)
                if key not in seen or None in key:
                    kept.append((row, owner))
                seen.add(key)
            pairs = kept
        return pairs

    def _kind(self, name: str, column: str) -> Kind:
        return next(kind_of(info.type) or "text" for info in self.schema.columns[name] if info.name == column)


def nth_value(kind: Kind, number: int) -> Any:
    """A value for each number, another one for another number.

    >>> nth_value("text", 3), nth_value("date", 3)
    ('text 3', datetime.date(2025, 7, 4))
    """
    made: Mapping[Kind, Callable[[], Any]] = {
        "int": lambda: number,
        "float": lambda: float(number),
        "bool": lambda: bool(number % 2),
        "date": lambda: (NOON + timedelta(days=number % FAR)).date(),
        "timestamp": lambda: NOON + timedelta(hours=number),
    }
    return made[kind]() if kind in made else f"text {number}"


def _moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime.combine(value, datetime.min.time())


def _moved(moment: datetime, days: int) -> datetime:
    """Days later, or as it is at the end of time.

    >>> _moved(datetime(9999, 12, 31), 1).year
    9999
    """
    try:
        return moment + timedelta(days=days)
    except OverflowError:
        return moment
