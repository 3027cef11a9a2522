"""Exact answers count a row once: a join or UNION ALL that can copy the rows of chosen persons is refused.

A person whose rows stand a thousand times in a sum can be read off its leading digits.
"""

from __future__ import annotations

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.core import Core


def private_tables(catalog: Catalog, tree: exp.Expr) -> list[str]:
    """The private tables that a tree reads, and those on the way from them to the unit."""
    found = []
    for table in tree.find_all(exp.Table):
        name = table_named(catalog, table)
        if name is not None and name not in found and not _is_public(catalog, name):
            found.append(name)
    return sorted(found)


def refuse_copies(catalog: Catalog, core: Core) -> None:
    """Public tables join on a column that a constraint makes unique; private ones join on the unit anyway."""
    for union in core.rows.find_all(exp.Union):
        if private_tables(catalog, union):
            raise Refused("UNION ALL can hold copies of rows, which are not answered exactly", hint="ask for each part")
    for select in core.rows.find_all(exp.Select):
        if not _once(catalog, select):
            raise Refused(
                "a public table that is joined can make copies of rows, which are not answered exactly",
                hint="join it ON a column with a PRIMARY KEY or UNIQUE constraint = a column of the other table",
            )


def _once(catalog: Catalog, select: exp.Select) -> bool:
    """Whether every row of the private sources of a FROM meets at most one row of each public source."""
    start, joins = select.args.get("from_"), select.args.get("joins") or []
    sources = [start.this, *(join.this for join in joins)] if start is not None else []
    known = {source.alias for source in sources if private_tables(catalog, source)}
    if not known:
        return True
    left = {source.alias: _unique(catalog, source) for source in sources if source.alias not in known}
    pairs = [pair for join in joins for pair in _equal(join.args.get("on"))]
    while left:
        fixed = {
            one.table
            for one, other in pairs
            if one.table in left and one.name in left[one.table] and other.table in known
        }
        if not fixed:
            return False
        known |= fixed
        left = {alias: unique for alias, unique in left.items() if alias not in fixed}
    return True


def _equal(node: exp.Expr | None) -> list[tuple[exp.Column, exp.Column]]:
    """The equalities of columns that a condition asks for, both ways round."""
    if isinstance(node, exp.Paren):
        return _equal(node.this)
    if isinstance(node, exp.And):
        return _equal(node.this) + _equal(node.expression)
    if type(node) is exp.EQ and type(node.this) is exp.Column and type(node.expression) is exp.Column:
        return [(node.this, node.expression), (node.expression, node.this)]
    return []


def _unique(catalog: Catalog, source: exp.Expr) -> set[str]:
    """The columns of a public source that no two of its rows share."""
    inner = source.this if isinstance(source, exp.Subquery) else source
    if isinstance(inner, exp.Table):
        name = table_named(catalog, inner)
        return {column for table, column in catalog.schema.unique if table == name}
    if type(inner) is not exp.Select or inner.args.get("joins") or inner.args.get("from_") is None:
        return set()
    below = _unique(catalog, inner.args["from_"].this)
    return {
        each.alias_or_name
        for each in inner.expressions
        if type(each.unalias()) is exp.Column and each.unalias().name in below
    }


def _is_public(catalog: Catalog, name: str) -> bool:
    table = catalog.policy.tables[name]
    return table.public or table.released


def table_named(catalog: Catalog, table: exp.Table) -> str | None:
    """The name that a table of a tree has in the policy."""
    parts = [part.name for part in table.parts]
    for name in catalog.policy.tables:
        if [part.name for part in exp.to_table(name, dialect="duckdb").parts] == parts:
            return name
    return None
