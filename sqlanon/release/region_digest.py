"""Regions of a local recoding in a plan: too many to list, so their number and a digest stand for them."""

from __future__ import annotations

from sqlglot import exp

from sqlanon.lattice.problem import Problem
from sqlanon.sqltree.tree import alias, literal, table


def digest(task: Problem, labels: str) -> dict[str, object]:
    """How many regions there are, and a digest of their labels that does not depend on the order of rows."""
    names = [
        exp.Coalesce(this=exp.column(f"l{i}"), expressions=[literal("\u2205")]) for i in range(1, len(task.domains) + 1)
    ]
    line: exp.Expr = names[0]
    for name in names[1:]:
        line = exp.DPipe(this=exp.DPipe(this=line, expression=literal("|")), expression=name)
    ordered = exp.select(alias(line, "line")).from_(table(labels))
    lines = exp.GroupConcat(
        this=exp.Order(this=exp.column("line"), expressions=[exp.Ordered(this=exp.column("line"))]),
        separator=literal("\n"),
    )
    tree = exp.select("COUNT(*)", exp.MD5(this=lines)).from_(ordered.subquery(alias="labels"))
    count, digest = task.engine.query(tree)[0]
    return {"count": int(count), "md5": str(digest)}
