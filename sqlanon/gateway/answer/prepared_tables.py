"""Tables that are bought before anybody asks: the fewest and finest for a list of statements together.

Statements about the same rows whose groups differ only in what their tests are equal to share one table, with what is
tested as a key: one drill-down for each ward is a table by ward. A coarser table is left out where a finer one, with
less noise than it would have needed alone, costs less than both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.core import Atom, cross
from sqlanon.gateway.bind.keys import among_declared
from sqlanon.gateway.bind.values import Value
from sqlanon.gateway.price.match_tables import AskedTable, asked_table, digest, is_complete
from sqlanon.gateway.price.noise import (
    Limit,
    Mechanisms,
    Noise,
    amount_of,
    cost_of,
    counts_everyone,
    mechanism_for,
    sensitivity,
)
from sqlanon.gateway.price.prepared_statement import PricedCore, PricedStatement, statements_of


@dataclass
class WantedTable:
    """A table to buy: its keys by name, and its atoms by identity with the epsilon (or rho) of each."""

    part: PricedCore
    limit: Limit
    delta: float
    source: str
    tests: dict[str, exp.Expr]
    keys: dict[str, Value]
    atoms: dict[str, tuple[Atom, float]] = field(default_factory=dict)
    mode: str = "declared"  # with tests that were taken apart; else public or private, as a statement has it

    @property
    def merged(self) -> bool:
        return self.mode == "declared"

    @property
    def cells(self) -> int:
        return math.prod(len(key.keys or ()) for key in self.keys.values())

    @property
    def amount(self) -> float:
        return sum(amount for _, amount in self.atoms.values())

    def add(self, identity: str, atom: Atom, amount: float) -> None:
        known = self.atoms.get(identity)
        self.atoms[identity] = atom, max(amount, known[1] if known is not None else 0.0)


def tables_for(
    statements: Sequence[PricedStatement], catalog: Catalog, mechanism: str, source: Mechanisms
) -> list[tuple[PricedCore, Limit]]:
    """The tables from which all statements follow, each as accurate as it asks to be."""
    found: dict[str, WantedTable] = {}
    parts = [(statement, part) for statement in statements for part in statement.parts]
    # First those that name no group: others are rows of their tables.
    for statement, part in sorted(parts, key=lambda pair: len(asked_table(pair[1].core, pair[0].limit, catalog).tests)):
        _add_part(found, part, statement, catalog, mechanism)
    wanted = _without_coarser(list(found.values()), catalog, mechanism)
    return [(_priced(each, number, mechanism, source), each.limit) for number, each in enumerate(wanted)]


def _add_part(
    found: dict[str, WantedTable], part: PricedCore, statement: PricedStatement, catalog: Catalog, mechanism: str
) -> None:
    asked = asked_table(part.core, statement.limit, catalog)
    delta = statement.delta / len(statement.parts)
    apart = part.core.mode in ("none", "declared")
    for place, (atom, own) in enumerate(zip(part.core.atoms, part.noise.atoms, strict=True)):
        amount = amount_of(own, part.noise.keys, mechanism)
        if not apart:
            table = _table_of_keys(found, part, statement, asked, delta)
            table.add(str(atom.identity), atom, amount)
            continue
        tests, keys = asked.taken_apart(place)
        for name, key in zip(asked.key_names(), part.core.keys, strict=True):
            keys[name] = _with_values(key, keys[name].keys or ()) if name in keys else key
        bare = replace(atom, tree=asked.atoms[place].tree)
        shared = next((each for each in found.values() if _is_row_of(tests, keys, asked, each, catalog)), None)
        if shared is not None:
            shared.add(str(bare.identity), bare, amount)
            continue
        name = _name(asked, (*sorted(tests), "", *sorted(keys)))
        table = found.setdefault(name, WantedTable(part, statement.limit, delta, asked.source, tests, {}))
        for each, key in keys.items():
            known = table.keys.get(each)
            first, other = (key, known) if known is not None and known.source is None else (known or key, key)
            table.keys[each] = _with_values(first, (other or key).keys or ())
        table.add(asked.atoms[place].identity, bare, amount)
    if not part.core.atoms and part.core.mode == "private":
        _table_of_keys(found, part, statement, asked, delta)


def _is_row_of(
    tests: Mapping[str, exp.Expr], keys: Mapping[str, Value], asked: AskedTable, table: WantedTable, catalog: Catalog
) -> bool:
    """Whether groups that are named are rows of a table by the keys of a public one."""
    if table.mode != "public" or table.source != asked.source:
        return False
    other = asked_table(table.part.core, table.limit, catalog)
    return other.tests.keys() == tests.keys() and sorted(other.key_names()) == sorted(keys)


def _table_of_keys(
    found: dict[str, WantedTable], part: PricedCore, statement: PricedStatement, asked: AskedTable, delta: float
) -> WantedTable:
    """A table whose keys are not declared: as a statement has it, with the most keys and the lowest threshold."""
    named = asked.question(None)
    whole = all(value is None for _, value in named.parts)
    name = named.name if whole else digest([named.name, sorted(asked.tests)])
    general = found.get(named.name)
    if general is not None:
        name = named.name
    own = WantedTable(part, statement.limit, delta, asked.source, dict(asked.tests), {}, mode=asked.mode)
    table = found.setdefault(name, own)
    more, known = part.noise.keys, table.part.noise.keys
    if more is not None and known is not None and more.threshold < known.threshold and table.tests == own.tests:
        table.part, table.delta = part, delta
    return table


def _name(asked: AskedTable, parts: Iterable[str]) -> str:
    return digest([asked.source, *parts])


def _with_values(key: Value, values: Iterable[Any]) -> Value:
    """A key that may have these values too."""
    return replace(key, keys=tuple(dict.fromkeys((*(key.keys or ()), *values))))


def _without_coarser(tables: list[WantedTable], catalog: Catalog, mechanism: str) -> list[WantedTable]:
    """Leave out a table that follows from a finer one, where to draw that with less noise costs less than both."""
    left = sorted(tables, key=lambda table: len(table.keys))
    for coarse in list(left):
        best: tuple[float, WantedTable, int] | None = None
        for fine in left:
            groups = _groups(coarse, fine, catalog)
            if fine is coarse or groups is None:
                continue
            more = 0.0
            for identity, (_, amount) in coarse.atoms.items():
                known = fine.atoms[identity][1] if identity in fine.atoms else 0.0
                more += max(0.0, _times(amount, groups, mechanism) - known)
            if more < coarse.amount and (best is None or more < best[0]):
                best = more, fine, groups
        if best is not None:
            _, fine, groups = best
            for identity, (atom, amount) in coarse.atoms.items():
                fine.add(identity, atom, _times(amount, groups, mechanism))
            left.remove(coarse)
    return left


def _times(amount: float, groups: int, mechanism: str) -> float:
    """What a sum of so many groups needs, to be as accurate: variances add up, and a little for rounding."""
    return amount * (groups if mechanism == "gaussian" else math.sqrt(groups)) * (1.05 if groups > 1 else 1.0)


def _groups(coarse: WantedTable, fine: WantedTable, catalog: Catalog) -> int | None:
    """How many groups of the fine table are one of the coarse one; None where it does not follow."""
    if not (coarse.merged and fine.merged) or coarse.source != fine.source or coarse.tests.keys() != fine.tests.keys():
        return None
    if not coarse.keys.keys() < fine.keys.keys() or any(atom.kind != "sum" for atom, _ in coarse.atoms.values()):
        return None
    if any(set(key.keys or ()) - set(fine.keys[name].keys or ()) for name, key in coarse.keys.items()):
        return None
    groups = 1
    for name in fine.keys.keys() - coarse.keys.keys():
        key = fine.keys[name]
        if key.source is None and key.keys is not None and type(key.tree) is exp.Case:
            pass  # CASE names all values that it has
        elif not is_complete(key, catalog):
            return None
        groups *= len(key.keys or ())
    return groups


def _priced(wanted: WantedTable, number: int, mechanism: str, source: Mechanisms) -> PricedCore:
    core = wanted.part.core
    made = replace(core, number=number, atoms=[atom for atom, _ in wanted.atoms.values()])
    if wanted.merged:
        rows = core.rows.copy()
        rows.set("where", None)
        for _, test in sorted(wanted.tests.items()):
            rows = rows.where(test.copy(), copy=False)
        names = sorted(wanted.keys)
        keys = [wanted.keys[name] for name in names]
        for key in keys:
            if not (key.source is None and type(key.tree) is exp.Case):
                rows = rows.where(among_declared(key), copy=False)
        declared = cross([key.keys or () for key in keys]) if keys else ()
        made = replace(made, rows=rows, keys=keys, mode="declared" if keys else "none", declared=declared)
    private = made.mode == "private"
    selection = wanted.part.noise.keys if private else None
    amounts = [amount for _, amount in wanted.atoms.values()]
    drawn = tuple(
        None
        if private and counts_everyone(atom)  # as the selection of the keys does
        else mechanism_for(made, atom, wanted.limit, amount, wanted.delta, mechanism, source)
        for atom, amount in zip(made.atoms, amounts, strict=True)
    )
    reaches = tuple(sensitivity(made, atom, wanted.limit) for atom in made.atoms)
    noise = Noise(drawn, selection, reaches, cost_of(drawn, selection, wanted.delta, mechanism))
    name = digest([wanted.part.cache_key, number])
    return PricedCore(made, noise, statements_of(made, wanted.limit), name)
