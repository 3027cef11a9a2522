"""Sets of items that break a model, level by level in the engine: minimal ones first, and nothing above them.

All subsets of a set must hold before the set is counted, so that each set that breaks a model here is minimal, and
every set that breaks it contains one of these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.families import Plugin, plugin
from sqlanon.itemsets.open_items import Items, basket_sizes
from sqlanon.relations.classes import as_label
from sqlanon.relations.itemsets import fine_sets, first_level, next_level, set_values
from sqlanon.sqltree.tree import (
    BIGINT,
    bind,
    count_all,
    double,
    join_clause,
    literal,
    rows_relation,
    select,
    table,
    with_verdict,
)

MOST_SETS = 10**9  # a person with n items has C(n, m) sets of m items; so many of them are counted in all
MOST_BROKEN = 2_000_000  # sets that break a model, where an algorithm must know them all
_LARGEST = re.compile(r"^itemsets\((\w+)\)$")


@dataclass(frozen=True)
class BrokenSet:
    """A minimal set that breaks a model: its items by number, how many persons have all, and what was measured."""

    items: tuple[int, ...]
    records: int
    measured: float


@dataclass(frozen=True)
class Level:
    """The sets of one size that were measured, in tables that stand until the next level is asked for."""

    engine: Engine
    size: int
    sets: str
    result: str
    number: int
    broken: int
    least: float | None
    most: float | None
    values: str | None = None  # how many persons with a set have a value as well

    def broken_sets(self) -> list[BrokenSet]:
        """Those that break the model, in no order."""
        if self.broken > MOST_BROKEN:
            raise PolicyError(
                f"{self.broken:,} sets of {self.size} items break the model: too many to choose from",
                hint="ask for sets of fewer items, or generalize items first",
            )
        return self._read(self._broken())

    def worst_sets(self, limit: int, *, smaller: bool, least: int = 1, without: Sequence[int] = ()) -> list[BrokenSet]:
        """The worst of those that at least so many persons have, and that hold none of some items."""
        tree = self._broken().where(exp.column("records", table="s") >= least, copy=False)
        for name in self.item_columns if without else ():
            tree = tree.where(exp.not_(_is_one_of(exp.column(name, table="s"), list(without))), copy=False)
        order = [exp.Ordered(this=exp.column("measured", table="r"), desc=not smaller)]
        order += [exp.Ordered(this=exp.column(name, table="s")) for name in ("records", *self.item_columns)]
        return self._read(tree.order_by(*order, copy=False).limit(limit, copy=False))

    def broken_rules(self, rho: float) -> list[frozenset[int]]:
        """The sets of items from which a value is concluded that surely, each with that value, which is an item too."""
        assert self.values is not None
        same = exp.column("class_id", table="v").eq(exp.column("class_id", table="s"))
        share = exp.Div(this=double(exp.column("records", table="v")), expression=exp.column("records", table="s"))
        sure = exp.GTE(this=share, expression=literal(rho - 1e-12))
        rules = select(
            *(exp.column(name, table="s") for name in self.item_columns),
            exp.column("value", table="v"),
            source=table(self.sets, alias="s"),
            joins=[join_clause(table(self.values, alias="v"), same)],
            where=sure,
        )
        found = self.engine.query(rules.limit(MOST_BROKEN + 1, copy=False))
        if len(found) > MOST_BROKEN:
            raise PolicyError(
                f"more than {MOST_BROKEN:,} conclusions from {self.size} items are too sure: too many to choose from",
                hint="take a smaller 'antecedent', or suppress frequent sensitive items first",
            )
        return [frozenset(map(int, row)) for row in found]

    def _broken(self) -> exp.Select:
        same = exp.column("class_id", table="r").eq(exp.column("class_id", table="s"))
        return select(
            *(exp.column(name, table="s") for name in (*self.item_columns, "records")),
            exp.column("measured", table="r"),
            source=table(self.sets, alias="s"),
            joins=[join_clause(table(self.result, alias="r"), same)],
            where=exp.column("broken", table="r").eq(1),
        )

    def _read(self, tree: exp.Select) -> list[BrokenSet]:
        found = self.engine.query(tree)
        return [BrokenSet(tuple(map(int, items)), int(n), float(value)) for *items, n, value in found]

    @property
    def item_columns(self) -> list[str]:
        return [f"x{place}" for place in range(1, self.size + 1)]


@dataclass(frozen=True)
class Knowledge:
    """What an attacker of a model knows, and what they want to know, as tables."""

    items: str  # what they know
    owners: str | None = None  # what they want to know
    items_too: bool = False  # it is items that they might know as well
    base: tuple[float, ...] = ()  # the share of all persons who have each of it


def is_of_itemsets(model: Plugin) -> bool:
    """Whether a model measures sets of items, and not whole persons."""
    return _LARGEST.match(model.classes) is not None


def largest_set(model: Plugin, params: Mapping[str, Any]) -> int | None:
    """The largest set of items that a model looks at; None where it looks at all of them."""
    match = _LARGEST.match(model.classes)
    assert match is not None, model.name
    found = params[match[1]]
    return None if found is None else int(found)


def know_items(items: Items, model: Plugin, params: Mapping[str, Any], *, absent: str = "refuse") -> Knowledge:
    """The tables that a model is measured over. `absent: allow` where a name that the data does not hold is no typo."""
    engine, tables = items.engine, items.tables
    if "private_items" in model.needs:
        private = find_items(items, model, params["private"], "private", absent)
        public = sorted(set(items.names) - set(private))
        return Knowledge(choose_items(items, public), _as_owners(items, private), base=_shares(items, private))
    if "sensitive_items" in model.needs:
        sensitive = find_items(items, model, params["sensitive"], "sensitive", absent)
        return Knowledge(tables.items, _as_owners(items, sensitive), items_too=True, base=_shares(items, sensitive))
    if "sensitive" not in model.needs:
        return Knowledge(tables.items)
    assert tables.values is not None and tables.owners is not None
    labels = {str(label): int(value) for value, label in engine.query(_value_labels(tables.values))}
    guarded = None if params.get("guarded") is None else [as_label(value) for value in params["guarded"]]
    if guarded is not None:
        _require_found(model, "guarded", [name for name in guarded if name not in labels], absent)
    chosen = [labels[name] for name in guarded if name in labels] if guarded is not None else list(labels.values())
    value = exp.column("value")
    tree = select("person", "value", source=table(tables.owners), where=_is_one_of(value, chosen))
    owners = items.make("guarded_owners", tree)
    counted = select(count_all(), source=table(owners), groups=["value"])
    return Knowledge(tables.items, owners, base=tuple(int(n) / items.persons for (n,) in engine.query(counted)))


def find_items(items: Items, model: Plugin, names: list[Any], param: str, absent: str) -> list[int]:
    """The numbers of items that a policy names."""
    labels = [as_label(name) for name in names]
    _require_found(model, param, [name for name in labels if name not in items.numbers], absent)
    return sorted({items.numbers[name] for name in labels if name in items.numbers})


def _require_found(model: Plugin, param: str, lost: list[str], absent: str) -> None:
    if lost and absent != "allow":
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        raise PolicyError(
            f"{model.name}: '{lost[0]}'{more} of '{param}' is not in the data",
            hint="correct the spelling: what is not found protects nobody; or say 'absent_values: allow'",
        )


def _value_labels(values: str) -> exp.Query:
    return select("value_id", exp.Cast(this=exp.column("value"), to=exp.DataType.build("text")), source=table(values))


def _shares(items: Items, chosen: list[int]) -> tuple[float, ...]:
    return tuple(items.supports[item] / items.persons for item in chosen)


def _is_one_of(column: exp.Expr, numbers: list[int]) -> exp.Expr:
    return column.isin(*(literal(number) for number in numbers)) if numbers else exp.false()


def choose_items(items: Items, chosen: list[int], source: str | None = None) -> str:
    """Who has which of some items only."""
    listed = items.make("chosen", rows_relation([(item,) for item in chosen], ["item"], [BIGINT]))
    relations = {"items": source or items.tables.items, "chosen": listed}
    return items.make("chosen_items", bind(plugin("itemsets", "chosen_items").sql, {}, relations))


def _as_owners(items: Items, chosen: list[int]) -> str:
    named = exp.Alias(this=exp.column("item"), alias=exp.to_identifier("value"))
    tree = select("person", named, source=table(items.tables.items), where=_is_one_of(exp.column("item"), chosen))
    return items.make("item_owners", tree)


def walk_levels(
    items: Items,
    model: Plugin,
    params: Mapping[str, Any],
    known: Knowledge,
    *,
    prune: bool = True,
    most: int | None = None,
) -> Iterator[Level]:
    """The sets of one item, of two, and so on, that occur and that a model looks at; those of a level only until the
    next one is asked for. Without `prune` sets are also counted that contain a broken one.

    `most` is the largest size, where that is less than what the model looks at.
    """
    engine = items.engine
    filled = model.filled(params)
    largest = largest_set(model, filled)
    largest = most if largest is None else largest if most is None else min(most, largest)
    prefix, read = items.prelude.prefix, known.items
    sets, result, values, fine, kept = (f"{prefix}_{name}" for name in ("level", "result", "values", "fine", "kept"))
    size, more = 1, True
    try:
        while more:
            engine.create_temporary(sets, first_level(read) if size == 1 else next_level(read, fine, size))
            level = _measure_level(engine, model, filled, known, read, size, (sets, result, values))
            yield level
            size += 1
            more = level.number > (level.broken if prune else 0) and (largest is None or size <= largest)
            if not more:
                break
            everything = select(exp.Star(), source=table(sets))
            engine.create_temporary(fine, fine_sets(sets, result) if prune else everything)
            if prune and level.size == 1 and level.broken:
                single = select(exp.Alias(this=exp.column("x1"), alias=exp.to_identifier("item")), source=table(fine))
                engine.create_temporary(values, single)
                relations = {"items": read, "chosen": values}
                engine.create_temporary(kept, bind(plugin("itemsets", "chosen_items").sql, {}, relations))
                read = kept
            if level.size == 1:
                require_countable(basket_sizes(engine, read), largest, model)
    finally:
        # Of a connection that is lost; what broke it is the error to show.
        with suppress(SqlanonError):
            engine.drop_temporary([sets, result, values, fine, kept])


def _measure_level(
    engine: Engine,
    model: Plugin,
    filled: Mapping[str, Any],
    known: Knowledge,
    read: str,
    size: int,
    names: tuple[str, str, str],
) -> Level:
    sets, result, values = names
    relations = {"itemsets": sets}
    if known.owners is not None:
        engine.create_temporary(values, set_values(read, sets, known.owners, size, items_too=known.items_too))
        relations["itemset_values"] = values
    engine.create_temporary(result, with_verdict(bind(model.sql, filled, relations)))
    # What has no result was not measured, and what was not measured is not safe.
    same = exp.column("class_id", table="r").eq(exp.column("class_id", table="s"))
    broken = exp.Coalesce(this=exp.column("broken", table="r"), expressions=[literal(1)])
    counts = select(
        count_all(),
        exp.Sum(this=broken),
        exp.Min(this=exp.column("measured", table="r")),
        exp.Max(this=exp.column("measured", table="r")),
        source=table(sets, alias="s"),
        joins=[join_clause(table(result, alias="r"), same, side="LEFT")],
    )
    number, broken_sets, least, most = engine.query(counts)[0]
    ends = [None if end is None else float(end) for end in (least, most)]
    told = values if known.owners is not None else None
    return Level(engine, size, sets, result, int(number), int(broken_sets or 0), ends[0], ends[1], told)


def count_sets(sizes: Mapping[int, int], largest: int | None) -> int:
    """How many sets of two items and more persons have, each by itself: the work of counting them.

    >>> count_sets({3: 10, 1: 5}, 2), count_sets({3: 10, 1: 5}, None)
    (30, 40)
    """
    return sum(
        persons * sum(math.comb(size, taken) for taken in range(2, min(size, largest or size) + 1))
        for size, persons in sizes.items()
    )


def require_countable(sizes: Mapping[int, int], largest: int | None, model: Plugin) -> None:
    """Refuse what would be counted for hours: a person with n items has C(n, m) sets of m items."""
    if (longest := max(sizes, default=0)) > 60 and largest is None:
        work = 2 ** (longest - 1)
    else:
        work = count_sets(sizes, largest)
    if work <= MOST_SETS:
        return
    word = _LARGEST.match(model.classes)
    assert word is not None
    fits = 1
    while count_sets(sizes, fits + 1) <= MOST_SETS:
        fits += 1
    raise PolicyError(
        f"{model.name}: {_about(work)} sets of items would be counted, the limit is {_about(MOST_SETS)}; "
        f"the longest basket has {longest:,} items",
        hint=f"take '{word[1]}: {fits}', or leave out persons with very many items, or rare items, with 'query:'",
    )


def _about(number: int) -> str:
    """
    >>> _about(4_999_950_000), _about(10**9), _about(2**99999)
    ('5.0e+09', '1.0e+09', 'more than 1e+300')
    """
    return f"{number:.1e}" if number < 10**300 else "more than 1e+300"
