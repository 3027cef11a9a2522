"""The rows of a source with labels in place of quasi-identifiers, table by table."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlanon.entities.forest import EntityForest, Levels
from sqlanon.relations.compressed_rows import Domain, same_value
from sqlanon.relations.entities import EntityTable
from sqlanon.sqltree.tree import alias, case, column, join_clause, literal, nest_query, select, table, text


def label_tables(forest: EntityForest, levels: Levels) -> EntityTable:
    """The trees of a forest with every quasi-identifier at its level; all other columns are as they were."""

    def of(tree: EntityTable) -> EntityTable:
        branches = tuple(replace(item, child=of(item.child)) for item in tree.branches)
        return replace(tree, rows=_labelled(forest, tree, levels), branches=branches)

    return of(forest.tree)


def _labelled(forest: EntityForest, tree: EntityTable, levels: Levels) -> exp.Select:
    domains = {domain.name: domain for domain in forest.domains[tree.name]}
    joins: list[exp.Join] = []
    chosen: list[exp.Expr] = []
    for name in tree.columns:
        domain = domains.get(name)
        level = levels[name] if domain is not None else 0
        if domain is None or level == 0:
            chosen.append(alias(column(name, "source"), name, quoted=True))
        elif level >= domain.height:
            chosen.append(alias(literal(domain.hierarchy.root), name, quoted=True))
        else:
            short = f"d{len(joins) + 1}"
            known = select("original", alias(label(level), "label"), source=table(domain.dictionary))
            met = same_value(forest.engine.dialect, column(name, "source"), short)
            joins.append(join_clause(nest_query(known, short), met))
            chosen.append(alias(exp.column("label", table=short), name, quoted=True))
    return select(*chosen, source=nest_query(tree.rows.copy(), "source"), joins=joins)


def label(level: int) -> exp.Expr:
    """What a row of a dictionary shows at a level below the root; NULL stays NULL."""
    if level == 0:
        return exp.column("original")
    return case((exp.column("original").is_(exp.Null()), text(exp.Null())), default=exp.column(f"n{level}"))


def cell_label(domain: Domain, level: int) -> exp.Expr:
    """The same as text, also of values and of the root."""
    return literal(domain.hierarchy.root) if level >= domain.height else text(label(level))


def joined_rows(tree: EntityTable) -> exp.Select:
    """A row for each row of a child, or for none, as a policy reads joined tables; the first column of a name stays."""
    taken = list(tree.columns)
    chosen: list[exp.Expr] = [alias(column(name, "source"), name, quoted=True) for name in tree.columns]
    joins: list[exp.Join] = []

    def hang(parent: EntityTable, short: str) -> None:
        for branch in parent.branches:
            name = f"child_{len(joins) + 1}"
            pairs = [column(left, short).eq(column(right, name)) for left, right in branch.on]
            joins.append(
                join_clause(nest_query(branch.child.rows.copy(), name), exp.and_(*pairs, copy=False), side="LEFT")
            )
            for own in branch.child.columns:
                if own not in taken:
                    taken.append(own)
                    chosen.append(alias(column(own, name), own, quoted=True))
            hang(branch.child, name)

    hang(tree, "source")
    return select(*chosen, source=nest_query(tree.rows.copy(), "source"), joins=joins)
