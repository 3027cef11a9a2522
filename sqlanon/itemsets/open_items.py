"""Read who has which item from a source or a release, once, and refuse what cannot be counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.families import plugin
from sqlanon.relations.classes import Prelude
from sqlanon.relations.itemsets import ItemColumns, ItemTables, read_items
from sqlanon.sqltree.tree import alias, bigint, bind, count_all, nest_query, select, table

SEPARATOR = " @ "  # between the columns of an item, where several make one


@dataclass
class Items:
    """The relations of persons and items as temporary tables; `names` is read when it is asked for."""

    engine: Engine
    prelude: Prelude
    columns: ItemColumns
    tables: ItemTables
    rows: int  # that were read
    persons: int
    occurrences: int  # a person and an item, once
    recoded: Mapping[int, str] | None = None  # what each item is, where they were recoded

    @cached_property
    def labels(self) -> dict[int, tuple[str, ...]]:
        """What each item is: as many texts as columns make an item."""
        if self.recoded is not None:
            return {item: (name,) for item, name in self.recoded.items()}
        found = self.engine.query(select("item", *self.columns.names, source=table(self.tables.names)))
        return {int(item): tuple(parts) for item, *parts in found}

    @cached_property
    def names(self) -> dict[int, str]:
        """The same as one text."""
        return {item: SEPARATOR.join(parts) for item, parts in self.labels.items()}

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: item for item, name in self.names.items()}

    @cached_property
    def sizes(self) -> dict[int, int]:
        """How many persons have so many items."""
        return basket_sizes(self.engine, self.tables.items)

    @cached_property
    def supports(self) -> dict[int, int]:
        """How many persons have an item."""
        counted = bind(plugin("itemsets", "item_counts").sql, {}, {"items": self.tables.items})
        return {int(item): int(records) for item, records in self.engine.query(counted)}

    def make(self, kind: str, query: exp.Query) -> str:
        """A further temporary table, dropped with the others."""
        name = self.prelude.once(kind, (len(self.prelude.steps),), lambda: query)
        run_steps(self.engine, self.prelude.steps[-1:])
        return name

    def load(self, kind: str, columns: tuple[str, ...], rows: Iterable[Sequence[object]]) -> str:
        """A further temporary table of text, from what is known here."""
        listed = tuple(tuple(map(str, row)) for row in rows)
        name = self.prelude.load(kind, (len(self.prelude.steps),), columns, listed)
        run_steps(self.engine, self.prelude.steps[-1:])
        return name

    def recode(self, labels: Mapping[int, str]) -> Items:
        """The same persons with a label in place of each item, once a person; an item without one is left out."""
        numbers = {label: place for place, label in enumerate(sorted(set(labels.values())), start=1)}
        listed = ((item, numbers[label]) for item, label in labels.items())
        cut = self.make("cut", _as_numbers(self.load("cut_text", ("item", "node"), listed), ("item", "node")))
        relations = {"items": self.tables.items, "cut": cut}
        made = self.make("recoded_items", bind(plugin("itemsets", "recoded_items").sql, {}, relations))
        people = exp.Count(this=exp.Distinct(expressions=[exp.column("person")]), big_int=True)
        persons, occurrences = self.engine.query(select(people, count_all(), source=table(made)))[0]
        tables = replace(self.tables, items=made)
        named = {number: label for label, number in numbers.items()}
        return Items(self.engine, self.prelude, self.columns, tables, self.rows, int(persons), int(occurrences), named)

    def close(self) -> None:
        drop_steps(self.engine, self.prelude.steps)


def _as_numbers(text_table: str, columns: Sequence[str]) -> exp.Query:
    """A table of text whose columns are numbers; empty ones are NULL."""
    return select(*(alias(bigint(exp.column(name)), name) for name in columns), source=table(text_table))


def basket_sizes(engine: Engine, items: str) -> dict[int, int]:
    sizes = bind(plugin("itemsets", "basket_sizes").sql, {}, {"items": items})
    return {int(size): int(persons) for size, persons in engine.query(sizes)}


def open_items(engine: Engine, rows: exp.Select, columns: ItemColumns, *, prefix: str = "sqlanon_items") -> Items:
    """The relations of a source or a release; an error where a person or an item is NULL, or a person has several
    sensitive values."""
    prelude = Prelude(rows, engine.dialect, prefix=prefix)
    tables = read_items(prelude, columns)
    try:
        run_steps(engine, prelude.steps[:1])
        number = _require_known(engine, tables.rows, columns)
        run_steps(engine, prelude.steps[1:])
        if tables.owners is not None:
            _require_one_value(engine, tables.owners, columns)
        (persons,), (occurrences,) = (
            engine.query(select(count_all(), source=table(name)))[0] for name in (tables.persons, tables.items)
        )
    except BaseException:
        drop_steps(engine, prelude.steps)
        raise
    return Items(engine, prelude, columns, tables, number, int(persons), int(occurrences))


def _require_known(engine: Engine, rows: str, columns: ItemColumns) -> int:
    own = ["key", *columns.names, *(["value"] if columns.sensitive is not None else [])]
    counts = [count_all(), *(exp.Count(this=exp.column(name), big_int=True) for name in own)]
    every, *known = (int(found) for found in engine.query(select(*counts, source=table(rows)))[0])
    what = ["person", *("item" for _ in columns.items), *(["sensitive"] if columns.sensitive is not None else [])]
    for name, kind, number in zip(columns.needed, what, known, strict=True):
        if number < every:
            gone = every - number
            raise PolicyError(
                f"the {kind} column '{name}' is NULL in {gone:,} row{'s' * (gone > 1)}",
                hint=f"give each row a value there, or leave such rows out with 'query:'; who has no {kind} is no row",
            )
    return every


def _require_one_value(engine: Engine, owners: str, columns: ItemColumns) -> None:
    several = select("person", source=table(owners), groups=["person"]).having(count_all() > 1)
    found = int(engine.query(select(count_all(), source=nest_query(several, "several")))[0][0])
    if found:
        raise PolicyError(
            f"'{columns.sensitive}' says several things of one person, of {found:,} person{'s' * (found > 1)} in all",
            hint="it must be the same in all rows of a person; choose one with 'query:', or make it an item",
        )
