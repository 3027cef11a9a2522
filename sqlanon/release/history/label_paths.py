"""The paths from the labels of a release up to the roots of their hierarchies: which labels may be of one person.

paths(attribute, label, own, level, node)   the node of a label on its own level and on each one above it
"""

from __future__ import annotations

import json

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Solution
from sqlanon.relations import history_relations as relations
from sqlanon.relations.compressed_rows import Domain
from sqlanon.release.evidence_document import serialize_policy
from sqlanon.release.history.comparison import PREFIX, Comparison
from sqlanon.release.record import of_version, spelling, versions
from sqlanon.sqltree.tree import alias, bigint, join_clause, literal, select, table, text, union_all


def paths_of(task: Problem, solution: Solution) -> exp.Query | None:
    """The paths of a release that has one level for each quasi-identifier; None for regions and several passes, whose
    labels lie on no path, or on different levels."""
    if solution.regions is not None or len(solution.passes) != 1:
        return None
    levels = zip(task.domains, solution.passes[0], strict=True)
    return union_all([_path(domain, own, level) for domain, own in levels for level in range(own, domain.height + 1)])


def _path(domain: Domain, own: int, level: int) -> exp.Query:
    def node(at: int) -> exp.Expr:
        return exp.column(f"n{at}") if at < domain.height else text(literal(domain.hierarchy.root))

    return select(
        alias(text(literal(domain.name)), "attribute"),
        alias(node(own), "label"),
        alias(bigint(literal(own)), "own"),
        alias(bigint(literal(level)), "level"),
        alias(node(level), "node"),
        source=table(domain.dictionary),
    ).distinct()


def comparable(found: Comparison) -> str:
    """The table of the classes of all earlier releases that the new ones can be compared with."""
    kept = found.kept
    made = f"{PREFIX}_comparable"
    if made in found.temporary:
        return made
    if found.paths is None:
        raise PolicyError(
            "classes of regions, or of several passes, cannot be compared along their hierarchies",
            hint="take an algorithm that gives every quasi-identifier one level, or another model under 'history'",
        )
    own = {name: kept.table(name) for name in ("past_paths", "past_labels")}
    own["paths"] = found.paths
    own["class_labels"] = found.make("class_labels", found.class_labels())
    lacking = select(
        literal(1),
        source=table(kept.table("past_classes"), alias="c"),
        joins=[
            join_clause(
                table(own["past_paths"], alias="p"),
                exp.column("version", table="p").eq(exp.column("version", table="c")),
                side="LEFT",
            )
        ],
        where=exp.column("version", table="p").is_(exp.Null()),
    )
    if found.engine.query(lacking.limit(1)):
        raise PolicyError(
            "earlier releases had regions, or were published by an older sqlanon: their labels have no path to compare",
            hint="take another model under 'history', or release under another name, to other people only",
        )
    other = {str(name) for (name,) in found.engine.query(relations.step("other_paths", {}, own))}
    other |= _written_otherwise(found)
    if other:
        raise PolicyError(
            f"the hierarchies of {', '.join(sorted(other))} are not those of the earlier releases",
            hint="put them back, or take another model under 'history'",
        )
    return found.make("comparable", relations.step("comparable", {}, own))


def _written_otherwise(found: Comparison) -> set[str]:
    """Quasi-identifiers whose hierarchy was another one in the policy of an earlier release."""
    now = json.loads(serialize_policy(found.policy))["hierarchies"]
    other, spelt = set(), spelling(found.engine)
    for item in versions(found.engine):
        if spelt(item.release) != spelt(found.name):
            continue
        document = of_version(found.engine, item.release, item.version)
        if document is not None:
            then = json.loads(document["policy"]["text"])["hierarchies"]
            other |= {name for name in found.policy.quasi_identifiers if now.get(name) != then.get(name)}
    return other
