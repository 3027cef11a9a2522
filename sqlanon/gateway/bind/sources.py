"""FROM: tables, subqueries and joins. A joined row belongs to one person, because every private join is on the unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlglot import exp

from sqlanon.errors import did_you_mean
from sqlanon.gateway.bind.bounding import thin_rows
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.conditions import comparable, condition, conjuncts
from sqlanon.gateway.bind.row_work import weigh, work_of
from sqlanon.gateway.bind.scalars import bind, only, refusal
from sqlanon.gateway.bind.values import OWN, UNIT, Nature, Relation, Value

MAX_SOURCES = 12
DEFAULT_SCHEMA = "public"
SHORT = "short"  # in `meta` of a join: what the analyst wrote in place of it
MAX_PRIVATES = 4  # private tables in one FROM: a person's rows are multiplied by each
MOST_JOINED = 100_000  # rows that joins on the unit make of one person, about
FindRelation = Callable[[exp.Expr], Relation]
# How a join makes both sides the same person's rows: on the unit, or along a declared link, to either end of it.
Linked = Literal["unit", "parent", "child"]


@dataclass(frozen=True)
class NamedRelation:
    """A relation in FROM: the name that the analyst gave it, and the name that it has in the SQL written for it."""

    name: str
    alias: str
    relation: Relation
    schema: str | None = None  # of a table that has no other name here

    def is_called(self, table: str, schema: str) -> bool:
        """Whether a column with the names of a table and a schema before it may be one of this relation's."""
        if schema and (self.schema is None or _schema_key(schema) != _schema_key(self.schema)):
            return False
        return self.name.casefold() == table.casefold()

    def value(self, column: str) -> Value:
        found = self.relation.columns[column]
        return found.renamed(self.tree(column))

    def tree(self, column: str) -> exp.Expr:
        return exp.column(exp.to_identifier(column, quoted=True), table=exp.to_identifier(self.alias))


@dataclass
class FromRows:
    """The rows of a FROM clause, as a place where names are looked up."""

    dialect: str
    sources: list[NamedRelation] = field(default_factory=list)
    using: dict[str, str] = field(default_factory=dict)  # columns that a USING has merged: whose values they have
    tree: exp.Select = field(default_factory=exp.Select)
    nature: Nature = "public"
    unit: exp.Expr | None = None
    unique: bool = False
    multiplied: bool = False  # joins on the unit multiply a person's rows by each other, here or further inside
    multiplies: bool = False  # those of this FROM do
    keeps_public: bool = False  # an outer join keeps rows of public tables, which belong to nobody
    joined: int = 1  # rows that joins on the unit make of one row, at most
    equal: list[tuple[exp.Column, exp.Column]] = field(default_factory=list)  # columns that joins compare with =
    used: set[tuple[str, str]] = field(default_factory=set)  # tables and columns that were looked up

    @property
    def privates(self) -> int:
        return sum(source.relation.privates for source in self.sources)

    def column(self, node: exp.Column) -> Value:
        only(node, "this", "table", "db", "catalog")
        name, table = node.name, node.table
        if isinstance(node.this, exp.Star):
            raise refusal(node, "* is not answered here", hint="name the columns", sqlstate="42601")
        self._require_table(node)
        found: list[tuple[NamedRelation, str]] = []
        for source in self.sources:
            if table and not source.is_called(table, node.db):
                continue
            if any(name.casefold() == hidden.casefold() for hidden in source.relation.hidden):
                raise refusal(node, f'permission denied for column "{name}"', sqlstate="42501")
            found += [(source, each) for each in source.relation.columns if each.casefold() == name.casefold()]
        exact = [pair for pair in found if pair[1] == name]
        found = exact if len(found) > 1 and exact else found
        if len(found) > 1 and not (name.casefold() in self.using and not table):
            hint = "put the name of its table before it"
            raise refusal(node, f'column reference "{name}" is ambiguous', sqlstate="42702", hint=hint)
        if not found:
            known = [each for source in self.sources for each in source.relation.columns]
            near = did_you_mean(name, known) or _list(known)
            raise refusal(node, f'column "{name}" does not exist', sqlstate="42703", hint=near)
        source, column = next((pair for pair in found if pair[0].alias == self.using.get(name.casefold())), found[0])
        value = source.value(column)
        self.use(value)
        return value

    def _require_table(self, node: exp.Column) -> None:
        """A schema before a column must be that of a table in FROM: Metabase writes "public"."products"."price"."""
        if node.args.get("catalog") is not None:
            raise refusal(node, "cross-database references are not implemented")
        if node.db and not any(source.is_called(node.table, node.db) for source in self.sources):
            written = f"{node.db}.{node.table}"
            hint = "a table with an alias has no other name, and no schema"
            raise refusal(node, f'missing FROM-clause entry for table "{written[:80]}"', sqlstate="42P01", hint=hint)

    def full_name(self, node: exp.Column) -> str:
        """A column with the name of its table, as an error message has it."""
        table = _table(self.column(node))
        return ".".join([*(source.name for source in self.sources if source.alias == table), node.name])

    def use(self, value: Value) -> None:
        if value.source is not None:
            self.used.add(value.source)

    def has(self, name: str) -> bool:
        folded = name.casefold()
        return any(folded == each.casefold() for source in self.sources for each in source.relation.columns)

    def special(self, node: exp.Expr) -> Value | None:
        return None

    def star(self, node: exp.Expr) -> list[tuple[str, Value, str]] | None:
        """The columns that * or t.* stands for, with their labels; None if the node is neither."""
        if type(node) is exp.Star:
            only(node)
            sources = self.sources
        elif type(node) is exp.Column and type(node.this) is exp.Star:
            only(node, "this", "table", "db", "catalog")
            only(node.this)
            self._require_table(node)
            sources = [each for each in self.sources if each.is_called(node.table, node.db)]
        else:
            return None
        found = [
            (name, each.value(name), label)
            for each in sources
            for name, label in zip(each.relation.columns, each.relation.shown_names, strict=True)
        ]
        if self.nature == "private":  # joined with persons, even a public value is not shown as it is
            found = [(name, value, label) for name, value, label in found if value.kind != "opaque"]
        for _, value, _ in found:
            self.use(value)
        return found


def _schema_key(schema: str) -> str:
    """What schemas are compared by: the default one is called public by PostgreSQL's clients, main by DuckDB."""
    return DEFAULT_SCHEMA if schema.casefold() in ("main", "public") else schema.casefold()


def _list(names: list[str]) -> str | None:
    return f"there are {', '.join(dict.fromkeys(names[:12]))}" if names else None


def rows_of(
    select: exp.Select,
    catalog: Catalog,
    dialect: str,
    find: FindRelation,
    used: set[tuple[str, str]],
) -> FromRows:
    """Bind FROM and its joins. `find` gives the relation of a table, a CTE or a subquery."""
    start = select.args.get("from_")
    rows = FromRows(dialect, used=used)
    if start is None:
        return rows
    only(start, "this")
    joins = select.args.get("joins") or []
    if len(joins) >= MAX_SOURCES:
        raise refusal(select, f"more than {MAX_SOURCES} tables in a FROM are not answered")
    first = _named(start.this, 0, rows, find)
    rows.sources.append(first)
    rows.tree = rows.tree.from_(alias_relation(first), copy=False)
    rows.nature = first.relation.nature
    rows.unique = first.relation.unique
    if rows.nature == "private":
        rows.unit = first.tree(UNIT)
    for nested in start.this.args.get("joins") or []:
        raise refusal(nested, "a join inside parentheses is not answered")
    for number, join in enumerate(joins, start=1):
        _join(rows, join, _named(join.this, number, rows, find), catalog)
    if rows.privates > MAX_PRIVATES:
        raise refusal(select, f"more than {MAX_PRIVATES} private tables in a FROM are not answered", sqlstate="54001")
    rows.multiplies = rows.multiplied
    rows.multiplied = rows.multiplied or any(each.relation.multiplied for each in rows.sources)
    rows.joined = math.prod(each.relation.joined for each in rows.sources)
    return rows


def thin(rows: FromRows, where: exp.Expr | None, counted: int) -> None:
    """Hold what joins on the unit make of one person to about MOST_JOINED rows; `counted` rows are always left.

    What WHERE asks of one side alone is asked before, so that rows which it leaves out take nobody's place.
    """
    sides = {each.alias: each.relation for each in rows.sources if each.relation.nature == "private"}
    sides = {alias: relation for alias, relation in sides.items() if not relation.unique}
    most = max(counted, int(MOST_JOINED ** (1 / max(1, len(sides)))))
    rows.joined *= most ** (len(sides) - 1)
    tests = [condition(part, rows).tree for part in (conjuncts(where) if where is not None else ())]
    start, joins = rows.tree.args["from_"], rows.tree.args.get("joins") or []
    # A row that a LEFT JOIN finds no partner for has NULL there, which WHERE may ask for: it must find all of them.
    optional = {join.this.alias for join in joins if join.args.get("side")}
    for node in (start.this, *(join.this for join in joins)):
        if node.alias in sides:
            names = list(sides[node.alias].columns)
            own = [test for test in tests if {each.table for each in test.find_all(exp.Column)} == {node.alias}]
            query = node.this
            if own and node.alias not in optional:
                columns = [exp.column(exp.to_identifier(name, quoted=True)) for name in (*names, UNIT)]
                query = exp.Select(expressions=columns).from_(node.copy(), copy=False).where(*own, copy=False)
            node.set("this", thin_rows(query, names, most))


def _named(node: exp.Expr, number: int, rows: FromRows, find: FindRelation) -> NamedRelation:
    relation = find(node)
    alias = node.args.get("alias")
    if alias is not None:
        only(alias, "this", "columns")
        if type(node) is not exp.Values and not (type(node) is exp.Table and type(node.this) is not exp.Identifier):
            relation = _relabelled(alias, relation)
    name = node.alias_or_name or f"unnamed {number}"
    if isinstance(node, exp.Table) and type(node.this) is not exp.Identifier:
        name = node.alias or "generate_series"
    if any(each.name.casefold() == name.casefold() for each in rows.sources):
        raise refusal(node, f'table name "{name}" specified more than once', sqlstate="42712", hint="use AS")
    # A CTE, which is no table of the policy, has no schema.
    plain = isinstance(node, exp.Table) and not node.alias and relation.table is not None
    return NamedRelation(name, f"r{number}", relation, (node.text("db") or DEFAULT_SCHEMA) if plain else None)


def _relabelled(alias: exp.Expr, relation: Relation) -> Relation:
    names = [each.name for each in alias.args.get("columns") or []]
    if names and relation.table is not None:
        raise refusal(alias, "column names after the alias of a table are not answered", hint="write a subquery")
    return rename_columns(alias, relation, names) if names else relation


def rename_columns(node: exp.Expr, relation: Relation, names: Sequence[str]) -> Relation:
    """A relation whose first columns have other names: `(SELECT …) AS t(a, b)`. Its rows and its unit are the same."""
    if len(names) > len(relation.columns):
        raise refusal(node, f"there are {len(relation.columns)} columns, and {len(names)} names", sqlstate="42P10")
    old = list(relation.columns)
    new = [*names, *old[len(names) :]]
    if len({each.casefold() for each in new}) < len(new) or any(each.casefold().startswith(OWN) for each in names):
        raise refusal(node, "names of columns after an alias are each there once, and not reserved", sqlstate="42701")
    inside = exp.Subquery(this=relation.tree.copy(), alias=exp.TableAlias(this=exp.to_identifier("renamed")))
    pairs = [*zip(old, new, strict=True), *([(UNIT, UNIT)] if relation.nature == "private" else [])]
    listed = [
        exp.alias_(exp.column(exp.to_identifier(before, quoted=True), table="renamed"), after, quoted=True)
        for before, after in pairs
    ]
    columns = {
        after: replace(value, tree=weigh(exp.column(exp.to_identifier(after, quoted=True)), work_of(value.tree)))
        for after, value in zip(new, relation.columns.values(), strict=True)
    }
    tree = exp.Select(expressions=listed).from_(inside, copy=False)
    return replace(relation, tree=tree, columns=columns, labels=())


def alias_relation(named: NamedRelation) -> exp.Expr:
    tree = named.relation.tree
    return exp.Subquery(this=tree.copy(), alias=exp.TableAlias(this=exp.to_identifier(named.alias)))


def _join(rows: FromRows, join: exp.Join, right: NamedRelation, catalog: Catalog) -> None:
    only(join, "this", "side", "kind", "on", "using", "method")
    if join.args.get("method"):
        join = _without_natural(rows, join, right)
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    if side not in ("", "LEFT", "RIGHT") or kind not in ("", "INNER", "CROSS", "OUTER"):
        raise refusal(join, f"{side or kind} JOIN is not answered", hint="INNER, LEFT, RIGHT and CROSS JOIN are")
    natures = {rows.nature, right.relation.nature}
    if SHORT in join.meta and "noisy" in natures:
        hint = "compare the privacy unit with that of the subquery, or read a public table in it"
        raise refusal(
            join, f"{join.meta[SHORT]} is answered on the privacy unit and over public tables alone", hint=hint
        )
    if "noisy" in natures and natures != {"noisy"}:
        raise refusal(join, "a noisy result does not join other tables", hint="join first, then aggregate")
    left_private, right_private = rows.nature == "private", right.relation.nature == "private"
    before = list(rows.sources)
    left_unit = rows.unit
    rows.sources.append(right)
    on, linked = _on(rows, join, before, right, catalog)
    if left_private and right_private:
        if not linked:
            raise refusal(
                join,
                "two private tables join only on the privacy unit",
                hint=f"{_unit_hint(rows, catalog)}, or join along a declared link",
            )
        if side == "RIGHT":
            raise refusal(join, "RIGHT JOIN of private tables is not answered", hint="write it as a LEFT JOIN")
        assert left_unit is not None
        several = sum(each.relation.nature == "private" for each in before) > 1
        once = rows.unique or right.relation.unique or linked == "parent" or (linked == "child" and not several)
        rows.multiplied = rows.multiplied or not once
        on.append(exp.EQ(this=left_unit.copy(), expression=right.tree(UNIT)))
    elif side and (left_private if side == "RIGHT" else right_private):
        side = ""  # rows without a person would be added, and those are never read: see `outer_joins`
        rows.keeps_public = True
    if not on and (side or (join.args.get("using") is None and join.args.get("on") is not None)):
        on.append(exp.Boolean(this=True))
    both = exp.and_(*on, copy=False) if on else None
    kind = side or ("INNER" if on else "CROSS")
    rows.tree = rows.tree.join(alias_relation(right), on=both, join_type=kind, copy=False)
    if right_private and not left_private:
        rows.unit, rows.nature = right.tree(UNIT), "private"
    rows.nature = "noisy" if "noisy" in natures else rows.nature
    rows.unique = rows.unique and right.relation.unique and left_private and right_private
    if side == "LEFT" and right_private:
        # Without a match the unit of the right side is NULL: it no longer names the person of the row.
        rows.sources[-1] = replace(right, relation=_without_unit(right.relation))


def _without_natural(rows: FromRows, join: exp.Join, right: NamedRelation) -> exp.Join:
    """NATURAL JOIN as the JOIN … USING that it is, of the columns that both sides have, if none of them is hidden."""
    if join.args["method"].upper() != "NATURAL" or join.args.get("on") or join.args.get("using"):
        raise refusal(join, f"{join.args['method']} JOIN is not answered", hint="INNER, LEFT, RIGHT and CROSS JOIN are")
    sides = (rows.sources, [right])
    there = [{n.casefold() for each in side for n in (*each.relation.columns, *each.relation.hidden)} for side in sides]
    hidden = {n.casefold() for each in (*rows.sources, right) for n in each.relation.hidden} & there[0] & there[1]
    shared = [name for name in right.relation.columns if rows.has(name)]
    if hidden or not shared:
        said = "it would join on a hidden column" if hidden else "the tables share no column"
        raise refusal(join, f"NATURAL JOIN is not answered: {said}", hint="write JOIN … USING (…) with the columns")
    made = join.copy()
    made.set("method", None)
    made.set("using", [exp.to_identifier(name, quoted=True) for name in shared])
    return made


def _unit_hint(rows: FromRows, catalog: Catalog) -> str:
    """How to join on the unit, which may be a column that is not there for everybody."""
    key = catalog.policy.unit.key
    return f"add ON a.{key} = b.{key}" if rows.has(key) else "join on the privacy unit"


def _without_unit(relation: Relation) -> Relation:
    return replace(relation, columns={name: replace(value, unit=False) for name, value in relation.columns.items()})


def _on(
    rows: FromRows, join: exp.Join, before: list[NamedRelation], right: NamedRelation, catalog: Catalog
) -> tuple[list[exp.Expr], Linked | None]:
    """The conditions of a join, and whether one of them makes both sides the same person's rows."""
    conditions: list[exp.Expr] = []
    linked: Linked | None = None
    on, using = join.args.get("on"), join.args.get("using")
    if using:
        left_rows = FromRows(rows.dialect, before, rows.using, used=rows.used)
        for identifier in using:
            column = exp.Column(this=identifier)
            if type(identifier) is exp.Column:
                column = identifier
            a = left_rows.column(column.copy())
            b = FromRows(rows.dialect, [right], used=rows.used).column(column.copy())
            left_side, right_side = comparable(join, a, b)  # an engine would cast a text to a number, and fail
            conditions.append(exp.EQ(this=left_side, expression=right_side))
            _compare(rows, a, b)
            linked = _nearer(linked, _same_person(a, b, catalog))
            kept = right.alias if (join.args.get("side") or "").upper() == "RIGHT" else _table(a)
            rows.using[column.name.casefold()] = kept or right.alias
    if on is not None:
        whole = condition(on, rows)
        conditions.append(whole.tree)
        for part in conjuncts(on):
            if type(part) is exp.EQ and type(part.this) is exp.Column and type(part.expression) is exp.Column:
                a, b = bind(part.this, rows), bind(part.expression, rows)
                across = (_table(a) == right.alias) != (_table(b) == right.alias)
                _compare(rows, a, b)
                if across:
                    left, other = (a, b) if _table(b) == right.alias else (b, a)
                    linked = _nearer(linked, _same_person(left, other, catalog))
    return conditions, linked


def _compare(rows: FromRows, a: Value, b: Value) -> None:
    if isinstance(a.shown, exp.Column) and isinstance(b.shown, exp.Column):
        rows.equal += [(a.shown, b.shown), (b.shown, a.shown)]


def _table(value: Value) -> str | None:
    return value.shown.table if isinstance(value.shown, exp.Column) else None


def _nearer(one: Linked | None, two: Linked | None) -> Linked | None:
    """Of two ways in which a join is linked, the one that makes fewer rows."""
    nearest: tuple[Linked, ...] = ("parent", "child", "unit")
    return next((each for each in nearest if each in (one, two)), None)


def _same_person(left: Value, right: Value, catalog: Catalog) -> Linked | None:
    """Both are the unit, or they are the two ends of a declared link: then, which end the right one is."""
    if left.source is not None and right.source is not None:
        ends: tuple[tuple[Linked, Value, Value], ...] = (("parent", left, right), ("child", right, left))
        for found, child, parent in ends:
            assert child.source is not None and parent.source is not None
            table = catalog.policy.tables.get(child.source[0])
            link = table.link if table is not None else None
            if link is not None and link.table == parent.source[0] and link.on == {child.source[1]: parent.source[1]}:
                return found
    return "unit" if left.unit and right.unit else None
