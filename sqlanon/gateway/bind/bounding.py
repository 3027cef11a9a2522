"""The statements that read data: each bounds what one person can add before anything is summed up.

    base      the bound relation: unit, keys and the integers of the atoms, row by row
    cells     rows by person and key, where persons are counted
    heavy     persons with more rows than the limit K
    sampled   K rows of each heavy person, chosen by a keyed hash
    bounded   the rows of all others and the sampled ones
    crowded   persons with more keys than the limit G
    present   G cells of each crowded person, chosen likewise, and the cells of all others

The hash is keyed by a secret parameter, so that nobody can aim rows at the sample; equal hashes are ordered by the row
itself. Where a constraint of the database makes the unit unique, a person has one row, and nothing needs to be bounded.

The base is read up to three times and not kept: sums of whole columns by key take less time and memory than sums for
each person. Only what may differ from one reading to the next is kept: LIMIT, windows and sums of doubles over public
rows, which persons are joined with; a person with few rows in one reading might have many in another. Trees are put
together from new nodes without copies, which would take longer than the statement runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sqlglot import exp

from sqlanon.gateway.bind.core import Core, key_tree
from sqlanon.gateway.bind.row_work import weigh_nothing
from sqlanon.gateway.bind.values import UNIT, number

# Of values without declared bounds: the powers of two that bound them, and the bits of a value below its power.
LEAST_POWER, MOST_POWER = -20, 53  # the largest holds what is not declared
PRECISION = 20
HASHED = 1_000  # characters of a column: a longer text would take its time
UNSTABLE = "unstable"  # marks a query of public rows whose answer may depend on the order in which they are read


def main_statement(core: Core, rows: int, groups: int, minimum: int) -> exp.Select | None:
    """Keys with their persons, and all sums and persons that are asked for: k0…, persons, a0…; None if nothing is."""
    sums = [f"a{place}" for place, atom in enumerate(core.atoms) if atom.kind == "sum"]
    persons = [f"a{place}" for place, atom in enumerate(core.atoms) if atom.kind == "persons"]
    counted = bool(persons) or core.mode == "private"
    if not sums and not counted:
        return None
    least = minimum if core.mode == "private" else 0
    statement = _Statement(core, [(name, core.atoms[int(name[1:])].tree) for name in sums + persons])
    if core.unique:
        return statement.plain(sums, persons, least)
    if counted:
        statement.count_cells(persons)
        if sums and core.keys:
            statement.list_excess(rows, groups)
    if sums:
        statement.bound_rows(rows, sums)
    present = statement.bound_groups(groups, persons) if counted and core.keys else "cells"
    return statement.joined(sums, persons, present if counted else None, least)


def value_statement(core: Core, place: int, rows: int) -> exp.Select:
    """Of one atom that looks at values: distinct values by key, or rows by key and bin."""
    atom = core.atoms[place]
    statement = _Statement(core, [("v", atom.tree)])
    source = "base"
    if not core.unique:
        statement.bound_rows(rows, ["v"])
        source = "bounded"
    keys = statement.keys
    if atom.kind == "distinct":
        values = _named(exp.Count(this=exp.Distinct(expressions=[exp.column("v")])), "a")
        return statement.ending(_select([*_columns(keys), values], source, by=keys))
    if atom.kind == "ranged":
        statement.bin_values(source)
        found = [*_columns([*keys, "b"]), _named(_count(), "a"), _named(exp.Sum(this=_in_bin()), "s")]
        return statement.ending(_select(found, "binned", by=[*keys, "b"]))
    counted = [*_columns([*keys, "v"]), _named(_count(), "a")]
    known = exp.Not(this=exp.Is(this=exp.column("v"), expression=exp.Null()))
    return statement.ending(_select(counted, source, where=known, by=[*keys, "v"]))


class _Statement:
    """A chain of CTEs that is built step by step."""

    def __init__(self, core: Core, columns: Sequence[tuple[str, exp.Expr]]) -> None:
        self.core = core
        self.keys = [f"k{place}" for place in range(len(core.keys))]
        read = core.rows.copy()
        found = [(UNIT, core.unit.copy()), *zip(self.keys, map(key_tree, core.keys), strict=True)]
        found += [(name, tree.copy()) for name, tree in columns]
        read.set("expressions", [_named(tree, name) for name, tree in found])
        self.steps: dict[str, exp.CTE] = {}
        self.add("base", read, kept=any(node.meta.get(UNSTABLE) for node in read.walk()))

    def add(self, name: str, query: exp.Query, *, kept: bool = True) -> None:
        """`kept`: computed once and kept for all who read it, on every engine; else read anew each time."""
        alias = exp.TableAlias(this=exp.to_identifier(name))
        self.steps[name] = exp.CTE(this=query, alias=alias, materialized=kept)

    def count_cells(self, persons: Sequence[str]) -> None:
        """Rows by person and key; of persons it matters whether any row holds."""
        by = [UNIT, *self.keys]
        held = [_named(exp.Max(this=_one_if(name)), name) for name in persons]
        self.add("cells", _select([*_columns(by), _named(_count(), "n"), *held], "base", by=by))

    def list_excess(self, rows: int, groups: int) -> None:
        """Persons over either limit: one pass over the cells finds both."""
        amounts = {"heavy": ("n", exp.Sum(this=exp.column("n")), rows), "crowded": ("keys", _count(), groups)}
        over = [exp.GT(this=amount.copy(), expression=number(most)) for _, amount, most in amounts.values()]
        found = [*_columns([UNIT]), *(_named(amount, name) for name, amount, _ in amounts.values())]
        self.add("excess", _select(found, "cells", by=[UNIT], having=exp.Or(this=over[0], expression=over[1])))
        for listed, (name, _, most) in amounts.items():
            test = exp.GT(this=exp.column(name), expression=number(most))
            self.add(listed, _select(_columns([UNIT]), "excess", where=test))

    def bound_rows(self, most: int, content: Sequence[str]) -> None:
        """At most so many rows a person, over all keys together."""
        if "heavy" not in self.steps:
            over = exp.GT(this=_count(), expression=number(most))
            self.add("heavy", _select(_columns([UNIT]), "base", by=[UNIT], having=over))
        row = [*self.keys, *content]
        self._bound("bounded", "heavy", "base", row, row, most)

    def bin_values(self, source: str) -> None:
        """The bin of each value: its sign, and the power of two above its size, counted from 1."""
        size = exp.Abs(this=exp.column("v"))
        # LN fails on 0, and an engine may compute both branches of a CASE.
        held = exp.Greatest(this=size, expressions=[number(2.0 ** (LEAST_POWER - 1))], ignore_nulls=True)
        above = exp.Ceil(this=exp.Div(this=exp.Ln(this=held), expression=number(math.log(2))))
        steps = exp.Sub(this=exp.Paren(this=above), expression=number(LEAST_POWER - 1))
        most = MOST_POWER - LEAST_POWER + 1
        inside = exp.Least(
            this=exp.Greatest(this=steps, expressions=[number(1)], ignore_nulls=True),
            expressions=[number(most)], ignore_nulls=True,
        )  # fmt: skip
        place = exp.cast(inside, exp.DataType.Type.BIGINT, copy=False)
        under = exp.LT(this=exp.column("v"), expression=number(0))
        signed = exp.Case().when(under, exp.Neg(this=place.copy()), copy=False).else_(place, copy=False)
        known = exp.Not(this=exp.Is(this=exp.column("v"), expression=exp.Null()))
        found = [*_columns([*self.keys, "v"]), _named(signed, "b")]
        self.add("binned", _select(found, source, where=known), kept=False)

    def bound_groups(self, most: int, persons: Sequence[str]) -> str:
        """Cells of at most so many keys a person."""
        if "crowded" not in self.steps:
            over = exp.GT(this=_count(), expression=number(most))
            self.add("crowded", _select(_columns([UNIT]), "cells", by=[UNIT], having=over))
        self._bound("present", "crowded", "cells", self.keys, [*self.keys, *persons], most)
        return "present"

    def _bound(
        self, name: str, excess: str, source: str, content: Sequence[str], columns: Sequence[str], most: int
    ) -> None:
        self.add(name, _first_rows(excess, source, content, columns, most), kept=False)

    def plain(self, sums: Sequence[str], persons: Sequence[str], least: int) -> exp.Select:
        """One row a person: the plain query."""
        found = _columns(self.keys)
        if persons or least:
            found.append(_named(_count(), "persons"))
        found += [_named(_total(exp.column(name)), name) for name in sums]
        found += [_named(_total(_one_if(name)), name) for name in persons]
        return self.ending(_select(found, "base", by=self.keys, having=_at_least(_count(), least)))

    def joined(self, sums: Sequence[str], persons: Sequence[str], present: str | None, least: int) -> exp.Select:
        """One row a key: rows and cells are put under each other and added, which joins keys that are NULL too."""
        heads = ["persons", *persons] if present is not None else []
        names = [*heads[:1], *sums, *heads[1:]]
        sides: list[exp.Select] = []
        if sums:
            sides.append(self._side("bounded", names, sums))
        if present is not None:
            sides.append(self._side(present, names, heads))
        both = sides[0] if len(sides) == 1 else exp.Union(this=sides[0], expression=sides[1], distinct=False)
        found = [*_columns(self.keys), *(_named(_total(exp.column(name)), name) for name in names)]
        enough = _at_least(exp.Sum(this=exp.column("persons")), least)
        return self.ending(_select(found, _within(both, "sides"), by=self.keys, having=enough))

    def _side(self, source: str, names: Sequence[str], own: Sequence[str]) -> exp.Select:
        """A cell is one person; what the other side has is 0 here."""
        found = []
        for name in names:
            tree = exp.column(name) if name in own and name != "persons" else number(int(name in own))
            found.append(_named(tree, name))
        return _select([*_columns(self.keys), *found], source)

    def ending(self, final: exp.Select) -> exp.Select:
        final.set("with_", exp.With(expressions=list(self.steps.values())))
        return final


def thin_rows(query: exp.Query, columns: Sequence[str], most: int) -> exp.Query:
    """A private relation with at most so many rows a person, chosen by the keyed hash; `columns` are all but the unit.

    Before two such relations are joined on the unit: the rows of a person are multiplied there, and how long a
    statement runs would tell of a person with many rows, without noise.
    """
    over = exp.GT(this=_count(), expression=number(most))
    steps = {
        "own": query.copy(),
        "many": weigh_nothing(_select(_columns([UNIT]), "own", by=[UNIT], having=over)),
    }
    ends = _first_rows("many", "own", columns, [*columns, UNIT], most)
    weigh_nothing(ends)
    ctes = [
        exp.CTE(this=step, alias=exp.TableAlias(this=exp.to_identifier(name)), materialized=False)
        for name, step in steps.items()
    ]
    ends.set("with_", exp.With(expressions=ctes))
    return ends


def _first_rows(excess: str, source: str, content: Sequence[str], columns: Sequence[str], most: int) -> exp.Union:
    """The rows of persons that are not listed, and the first of those that are, in the order of a keyed hash."""
    order = [_keyed_hash([UNIT, *content]), *_columns(content)]
    place = exp.Window(
        this=exp.RowNumber(),
        partition_by=_columns([UNIT]),
        order=exp.Order(expressions=[exp.Ordered(this=tree, nulls_first=False) for tree in order]),
        over="OVER",
    )
    listed = exp.In(this=exp.column(UNIT), query=exp.Subquery(this=_select(_columns([UNIT]), excess)))
    name = "place"
    while name in map(str.casefold, columns):
        name += "_"
    ranked = _select([*_columns(columns), _named(place, name)], source, where=listed)
    within = exp.LTE(this=exp.column(name), expression=number(most))
    same = exp.EQ(this=exp.column(UNIT, table=excess), expression=exp.column(UNIT, table=source))
    others = exp.Not(this=exp.Exists(this=_select([number(1)], excess, where=same)))
    rest = _select(_columns(columns), source, where=others)
    sampled = _select(_columns(columns), _within(ranked, "ranked"), where=within)
    return exp.Union(this=rest, expression=sampled, distinct=False)


def _select(
    found: Sequence[exp.Expr],
    source: str | exp.Expr,
    *,
    where: exp.Expr | None = None,
    by: Iterable[str] = (),
    having: exp.Expr | None = None,
) -> exp.Select:
    """A SELECT of new nodes."""
    table = exp.Table(this=exp.to_identifier(source)) if isinstance(source, str) else source
    select = exp.Select(expressions=list(found), from_=exp.From(this=table))
    if where is not None:
        select.set("where", exp.Where(this=where))
    if grouped := _columns(by):
        select.set("group", exp.Group(expressions=grouped))
    if having is not None:
        select.set("having", exp.Having(this=having))
    return select


def _columns(names: Iterable[str]) -> list[exp.Expr]:
    return [exp.column(exp.to_identifier(name, quoted=True)) for name in names]


def _named(tree: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=tree, alias=exp.to_identifier(name))


def _within(query: exp.Query, name: str) -> exp.Expr:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name)))


def _count() -> exp.Expr:
    return exp.Count(this=exp.Star())


def _in_bin() -> exp.Expr:
    """A value as an integer of at most 2**PRECISION, in parts of the power of two of its bin."""
    power = exp.Sub(this=number(PRECISION - LEAST_POWER + 1), expression=exp.Abs(this=exp.column("b")))
    factor = exp.Pow(this=exp.cast(number(2), exp.DataType.Type.DOUBLE), expression=exp.Paren(this=power))
    size = exp.Mul(this=exp.Abs(this=exp.column("v")), expression=factor)
    held = exp.Least(this=size, expressions=[number(2**PRECISION)], ignore_nulls=True)
    return exp.cast(exp.Anonymous(this="ROUND", expressions=[held]), exp.DataType.Type.BIGINT, copy=False)


def _total(tree: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=exp.Sum(this=tree), expressions=[number(0)])


def _one_if(name: str) -> exp.Expr:
    return exp.Case().when(exp.column(name), number(1), copy=False).else_(number(0), copy=False)


def _at_least(amount: exp.Expr, least: int) -> exp.Expr | None:
    return exp.GTE(this=amount, expression=number(least)) if least else None


def _keyed_hash(columns: Sequence[str]) -> exp.Expr:
    """MD5 of the secret and the columns. Two rows that share one are put in order by the row itself."""
    tree: exp.Expr = exp.cast(exp.Parameter(this=exp.Literal.number(1)), exp.DataType.Type.TEXT, copy=False)
    for column in _columns(columns):
        shown = exp.cast(column, exp.DataType.Type.TEXT, copy=False)
        part = exp.Coalesce(this=exp.Left(this=shown, expression=number(HASHED)), expressions=[exp.Literal.string("")])
        tree = exp.DPipe(this=tree, expression=exp.Literal.string("|"), safe=True)
        tree = exp.DPipe(this=tree, expression=part, safe=True)
    return exp.MD5(this=tree)
