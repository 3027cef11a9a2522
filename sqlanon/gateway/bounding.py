"""The statements that read data: each bounds what one person can add before anything is summed up.

    cells    rows by person, key (and value, where distinct values or a histogram are asked for)
    heavy    persons with more rows than the limit K
    sampled  K rows of each heavy person, chosen by a keyed hash, as cells again
    bounded  the cells of all others and the sampled ones

The hash is keyed by a secret parameter, so that nobody can aim rows at the sample; equal hashes are ordered by the row
itself. Where a constraint of the database makes the unit unique, a person has one row, and nothing needs to be bounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlanon.gateway.core import Core, key_tree
from sqlanon.gateway.values import UNIT, number


def main_statement(core: Core, rows: int, groups: int, minimum: int) -> exp.Select | None:
    """Keys with their persons, and all sums and persons that are asked for: k0…, persons, a0…; None if nothing is."""
    sums = [f"a{place}" for place, atom in enumerate(core.atoms) if atom.kind == "sum"]
    persons = [f"a{place}" for place, atom in enumerate(core.atoms) if atom.kind == "persons"]
    counted = bool(persons) or core.mode == "private"
    if not sums and not counted:
        return None
    least = minimum if core.mode == "private" else 0
    read = _rows(core, [(name, core.atoms[int(name[1:])].tree) for name in sums + persons])
    statement = _Statement(core, read)
    if core.unique:
        return statement.plain(sums, persons, least)
    statement.cells(sums + persons)
    if sums:
        statement.bound_rows(rows, sums + persons)
        statement.add("totals", statement.summed("bounded", sums))
    if counted:
        limited = statement.bound_groups(groups, persons) if core.keys else "cells"
        statement.add("heads", statement.summed(limited, persons, everyone=True))
    return statement.joined(sums, persons, least)


def value_statement(core: Core, place: int, rows: int) -> exp.Select:
    """Of one atom that looks at values: distinct values by key, or rows by key and bin."""
    atom = core.atoms[place]
    statement = _Statement(core, _rows(core, [("v", atom.tree)]))
    if core.unique:
        source = statement.base_only()
        amount: exp.Expr = exp.Count(this=exp.Star())
    else:
        statement.cells([], extra=["v"])
        statement.bound_rows(rows, [], extra=["v"])
        source = "bounded"
        amount = exp.Sum(this=exp.column("n"))
    final = exp.Select()
    for key in _key_names(core):
        final = final.select(exp.column(key), copy=False)
    if atom.kind == "distinct":
        value = exp.Count(this=exp.Distinct(expressions=[exp.column("v")]))
        final = final.select(exp.alias_(value, "a"), copy=False).from_(source, copy=False)
        if core.keys:
            final = final.group_by(*map(exp.column, _key_names(core)), copy=False)
    else:
        final = final.select(exp.column("v"), exp.alias_(_whole(amount), "a"), copy=False).from_(source, copy=False)
        final = final.where(exp.Not(this=exp.Is(this=exp.column("v"), expression=exp.Null())), copy=False)
        final = final.group_by(*map(exp.column, [*_key_names(core), "v"]), copy=False)
    return statement.ending(final)


def _key_names(core: Core) -> list[str]:
    return [f"k{place}" for place in range(len(core.keys))]


def _whole(tree: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=tree, expressions=[number(0)])


def _rows(core: Core, columns: Sequence[tuple[str, exp.Expr]]) -> exp.Select:
    """The bound relation, projected to unit, keys and the integers of the atoms."""
    select = core.rows.copy().select(exp.alias_(core.unit.copy(), UNIT), copy=False)
    for place, key in enumerate(core.keys):
        select = select.select(exp.alias_(key_tree(key), f"k{place}"), copy=False)
    for name, tree in columns:
        select = select.select(exp.alias_(tree.copy(), name), copy=False)
    return select


class _Statement:
    """A chain of CTEs that is built step by step."""

    def __init__(self, core: Core, read: exp.Select) -> None:
        self.core = core
        self.read = read
        self.steps: list[tuple[str, exp.Query]] = []
        self.keys = _key_names(core)

    def add(self, name: str, query: exp.Query) -> None:
        self.steps.append((name, query))

    def base_only(self) -> str:
        self.add("base", self.read)
        return "base"

    def _cells_of(self, source: exp.Expr, added: Sequence[str], extra: Sequence[str]) -> exp.Select:
        by = [UNIT, *self.keys, *extra]
        select = exp.Select().select(*map(exp.column, by), copy=False)
        select = select.select(exp.alias_(exp.Count(this=exp.Star()), "n"), copy=False)
        for name in added:
            select = select.select(exp.alias_(self._of_rows(name, exp.Max), name), copy=False)
        return select.from_(source, copy=False).group_by(*map(exp.column, by), copy=False)

    def _of_rows(self, name: str, hits: type[exp.Func]) -> exp.Expr:
        """How rows sum up: sums add up, of persons it matters whether any row holds."""
        if self.core.atoms[int(name[1:])].kind == "sum":
            return exp.Sum(this=exp.column(name))
        held = exp.Case().when(exp.column(name), number(1), copy=False).else_(number(0), copy=False)
        return hits(this=held)

    def cells(self, added: Sequence[str], extra: Sequence[str] = ()) -> None:
        self.add("cells", self._cells_of(_aliased(self.read, "base"), added, extra))

    def bound_rows(self, most: int, added: Sequence[str], extra: Sequence[str] = ()) -> None:
        """At most so many rows a person, over all keys together."""
        self._list("heavy", exp.Sum(this=exp.column("n")), most)
        content = [*self.keys, *extra, *added]
        first = _first(_aliased(self.read, "base"), "heavy", content, most)
        self.add("sampled", self._cells_of(_aliased(first, "chosen"), added, extra))
        self._joined("bounded", "heavy", exp.to_table("sampled"), [*self.keys, *extra, "n", *added])

    def bound_groups(self, most: int, persons: Sequence[str]) -> str:
        """Cells of at most so many keys a person."""
        self._list("crowded", exp.Count(this=exp.Star()), most)
        first = _first(exp.to_table("cells"), "crowded", self.keys, most)
        self._joined("present", "crowded", _aliased(first, "chosen"), [*self.keys, *persons])
        return "present"

    def _list(self, name: str, amount: exp.Expr, most: int) -> None:
        unit = exp.column(UNIT)
        listed = exp.Select().select(unit.copy()).from_("cells").group_by(unit.copy())
        self.add(name, listed.having(exp.GT(this=amount, expression=number(most))))

    def _joined(self, name: str, excess: str, sampled: exp.Expr, columns: Sequence[str]) -> None:
        rest = exp.Select().select(*map(exp.column, columns)).from_("cells")
        rest = rest.where(exp.Not(this=exp.In(this=exp.column(UNIT), query=_subquery(excess))))
        chosen = exp.Select().select(*map(exp.column, columns)).from_(sampled)
        self.add(name, exp.Union(this=rest, expression=chosen, distinct=False))

    def summed(self, source: str, names: Sequence[str], *, everyone: bool = False) -> exp.Select:
        select = exp.Select().select(*map(exp.column, self.keys)).from_(source)
        if everyone:
            select = select.select(exp.alias_(exp.Count(this=exp.Star()), "persons"), copy=False)
        for name in names:
            select = select.select(exp.alias_(_whole(exp.Sum(this=exp.column(name))), name), copy=False)
        return select.group_by(*map(exp.column, self.keys), copy=False) if self.keys else select

    def plain(self, sums: Sequence[str], persons: Sequence[str], least: int) -> exp.Select:
        """One row a person: the plain query."""
        select = exp.Select().select(*map(exp.column, self.keys)).from_(_aliased(self.read, "base"))
        if persons or least:
            select = select.select(exp.alias_(exp.Count(this=exp.Star()), "persons"), copy=False)
        for name in [*sums, *persons]:
            select = select.select(exp.alias_(_whole(self._of_rows(name, exp.Sum)), name), copy=False)
        return _with_least(self._grouped(select), exp.Count(this=exp.Star()), least)

    def joined(self, sums: Sequence[str], persons: Sequence[str], least: int) -> exp.Select:
        """One row a key: sums and persons are put under each other and added, which joins keys that are NULL too."""
        parts = {name for name, _ in self.steps}
        sides: list[exp.Select] = []
        for source, own in (("totals", list(sums)), ("heads", ["persons", *persons])):
            if source not in parts:
                continue
            side = exp.Select().select(*map(exp.column, self.keys)).from_(source)
            for name in self._columns(sums, persons, "heads" in parts):
                tree = exp.column(name) if name in own else number(0)
                side = side.select(exp.alias_(tree, name), copy=False)
            sides.append(side)
        if len(sides) == 1 and not least:
            return self.ending(sides[0])
        both: exp.Query = sides[0] if len(sides) == 1 else exp.Union(this=sides[0], expression=sides[1], distinct=False)
        select = exp.Select().select(*map(exp.column, self.keys)).from_(_aliased(both, "sides"))
        for name in self._columns(sums, persons, "heads" in parts):
            select = select.select(exp.alias_(exp.Sum(this=exp.column(name)), name), copy=False)
        return self.ending(_with_least(self._grouped(select), exp.Sum(this=exp.column("persons")), least))

    def _columns(self, sums: Sequence[str], persons: Sequence[str], counted: bool) -> list[str]:
        return [*(["persons"] if counted else []), *sums, *persons]

    def _grouped(self, select: exp.Select) -> exp.Select:
        return select.group_by(*map(exp.column, self.keys), copy=False) if self.keys else select

    def ending(self, final: exp.Select) -> exp.Select:
        for name, query in self.steps:
            final = final.with_(name, as_=query, copy=False)
        return final


def _with_least(select: exp.Select, persons: exp.Expr, least: int) -> exp.Select:
    return select.having(exp.GTE(this=persons, expression=number(least)), copy=False) if least else select


def _first(source: exp.Expr, excess: str, content: Sequence[str], most: int) -> exp.Select:
    """The first rows of each listed person, in the order of a keyed hash."""
    order = [_keyed_hash([UNIT, *content]), *map(exp.column, content)]
    chosen = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(UNIT)],
        order=exp.Order(expressions=[exp.Ordered(this=tree, nulls_first=False) for tree in order]),
        over="OVER",
    )
    ranked = exp.Select().select(exp.Star(), exp.alias_(chosen, "place")).from_(source)
    ranked = ranked.where(exp.In(this=exp.column(UNIT), query=_subquery(excess)))
    within = exp.LTE(this=exp.column("place"), expression=number(most))
    return exp.Select().select(exp.Star()).from_(_aliased(ranked, "ranked")).where(within)


def _aliased(query: exp.Query, name: str) -> exp.Expr:
    return exp.Subquery(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(name)))


def _subquery(name: str) -> exp.Expr:
    return exp.Subquery(this=exp.Select().select(exp.column(UNIT)).from_(name))


def _keyed_hash(columns: Sequence[str]) -> exp.Expr:
    """MD5 of the secret and the columns. Two rows that share one are put in order by the row itself."""
    tree: exp.Expr = exp.cast(exp.Parameter(this=exp.Literal.number(1)), exp.DataType.Type.TEXT)
    for name in columns:
        shown = exp.cast(exp.column(name), exp.DataType.Type.TEXT)
        part = exp.Coalesce(this=shown, expressions=[exp.Literal.string("")])
        tree = exp.DPipe(this=tree, expression=exp.Literal.string("|"), safe=True)
        tree = exp.DPipe(this=tree, expression=part, safe=True)
    return exp.MD5(this=tree)
