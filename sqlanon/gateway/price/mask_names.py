"""SQL as EXPLAIN shows it: what is not there for a principal has no name in it.

Rows of a table belong to persons by way of its links, and so it may be read together with tables and columns that the
principal must not know of.
"""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.row_copies import table_named
from sqlanon.gateway.bind.values import UNIT

Tree = TypeVar("Tree", bound=exp.Expr)
TABLE, COLUMN = "linked", "key"


def mask_names(tree: Tree, catalog: Catalog, principal: str) -> Tree:
    """A copy in which tables and columns that are not there for a principal are called alike."""
    made = tree.copy()
    for select in list(made.find_all(exp.Select)):
        start = select.args.get("from_")
        sources = [start.this, *(join.this for join in select.args.get("joins") or [])] if start is not None else []
        tables = {each.alias: table_named(catalog, each) for each in sources if isinstance(each, exp.Table)}
        known = {alias: name for alias, name in tables.items() if name is not None}
        if known:
            _mask(select, known, catalog, principal)
    for table in list(made.find_all(exp.Table)):
        name = table_named(catalog, table)
        if name is not None and not catalog.policy.allows(principal, name):
            table.set("db", None)
            table.set("this", exp.to_identifier(TABLE, quoted=True))
    return made


def _mask(select: exp.Select, known: dict[str, str], catalog: Catalog, principal: str) -> None:
    def unseen(column: exp.Column) -> bool:
        name = known.get(column.table)
        return name is not None and not catalog.policy.allows(principal, name, column.name)

    kept = [
        each for each in select.expressions if each.alias == UNIT or not any(map(unseen, each.find_all(exp.Column)))
    ]
    select.set("expressions", kept)
    for column in list(select.find_all(exp.Column)):
        if unseen(column):
            column.set("this", exp.to_identifier(COLUMN, quoted=True))
