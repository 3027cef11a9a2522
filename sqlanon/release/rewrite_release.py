"""From a solution to the SELECT that writes it, with the temporary tables that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sqlanon.lattice.problem import Problem
from sqlanon.lattice.solution import Assigned, Solution
from sqlanon.relations.classes import NULL_NODE, Grouping, totals
from sqlanon.relations.history_relations import CLASS
from sqlanon.relations.rewrite import HASHED, SHOWN, Output, Pass, by_levels, by_regions, shuffle_rows
from sqlanon.sqltree.tree import alias, column, join_clause, literal, nest_query, select, table, window


@dataclass(frozen=True)
class Rewriting:
    """`select` is the release; `hidden` are columns that only the checks may see, such as the person key. `companions`
    are further tables, and `views` over them, by what is added to the name of the release."""

    select: exp.Select
    hidden: tuple[str, ...]
    passes: tuple[Pass, ...] = ()
    companions: Mapping[str, exp.Select] = field(default_factory=dict)
    views: Mapping[str, Callable[[str], exp.Select]] = field(default_factory=dict)

    @property
    def shown(self) -> exp.Select:
        """The release as everybody may see it, for a script that is run by hand: nobody drops a column afterwards."""
        tree = self.select.copy()
        tree.set("expressions", [item for item in tree.expressions if item.alias_or_name not in self.hidden])
        return tree


def plan_rewriting(task: Problem, solution: Solution, secret: str | None) -> Rewriting:
    policy = task.policy
    others: dict[str, str] = {}
    hidden = []
    for name, item in policy.columns.items():
        if item.role in ("sensitive", "insensitive"):
            others[name] = SHOWN
        elif item.role == "identifier" and item.pseudonym:
            others[name] = HASHED
    if policy.person is not None and policy.person not in others and policy.person not in policy.quasi_identifiers:
        others[policy.person] = SHOWN
        hidden.append(policy.person)
    key = _secret(task, secret) if HASHED in others.values() else None
    output = Output(others, policy.sensitive, keep_suppressed=policy.suppressed_rows == "keep", secret=key)
    rows = task.prelude.rows
    if solution.assigned is not None:
        return Rewriting(_assigned(task, solution.assigned), tuple(hidden))
    if solution.regions is not None:
        ranks = {
            name: totals(task.prelude, Grouping(policy.quasi_identifiers, policy.person), name, numeric=False)
            for name in task.compressed.values
        }
        task.run()
        select = by_regions(
            task.engine.dialect,
            rows,
            task.compressed,
            solution.regions.members,
            solution.regions.labels,
            output,
            values=ranks if solution.regions.by_value else None,
            split=solution.regions.split,
        )
        return Rewriting(select, tuple(hidden))
    passes = tuple(task.passes(solution.passes, suppresses=solution.suppressed > 0))
    select = by_levels(task.engine.dialect, rows, task.compressed, passes, output)
    return Rewriting(select, tuple(hidden), passes)


def _assigned(task: Problem, given: Assigned) -> exp.Select:
    """Every person with the labels of its class, and the rows of nobody; the column CLASS tells classes apart, whose
    labels may be alike. Its numbers are drawn: their order tells nothing."""
    policy, person = task.policy, task.policy.person
    assert person is not None
    (sensitive,) = policy.sensitive
    kinds = {
        item.name: exp.DataType.build(item.type, dialect=task.engine.dialect)
        for item in task.engine.columns(task.prelude.rows)
    }
    drawn = task.prelude.once(
        "drawn", (given.labels,), lambda: select("region", alias(exp.Rand(), "drawn"), source=table(given.labels))
    )
    order = [exp.column("drawn"), exp.column("region")]
    ranked = select("region", alias(window(exp.RowNumber(), order=order), "number"), source=table(drawn))
    numbers = task.prelude.once("class_numbers", (given.labels,), lambda: ranked)
    task.run()
    shown: list[exp.Expr] = [
        alias(
            exp.Nullif(this=exp.column(f"l{place}", table="l"), expression=literal(NULL_NODE)), domain.name, quoted=True
        )
        for place, domain in enumerate(task.domains, start=1)
    ]
    shown.append(alias(exp.column("number", table="c"), CLASS, quoted=True))

    def of_region(which: str) -> list[exp.Join]:
        return [
            join_clause(
                table(name, alias=short), exp.column("region", table=short).eq(exp.column("region", table=which))
            )
            for name, short in ((given.labels, "l"), (numbers, "c"))
        ]

    own = exp.column("original", table="p").eq(column(person, "original"))
    real = select(
        *(item.copy() for item in shown),
        alias(column(sensitive, "original"), sensitive, quoted=True),
        alias(column(person, "original"), person, quoted=True),
        source=nest_query(task.prelude.rows.copy(), "original"),
        joins=[join_clause(table(given.people, alias="p"), own), *of_region("p")],
    )
    value = exp.Cast(
        this=exp.Nullif(this=exp.column("value", table="f"), expression=literal(NULL_NODE)), to=kinds[sensitive]
    )
    nobody = exp.Cast(this=exp.Null(), to=kinds[person])
    made_up = select(
        *shown,
        alias(value, sensitive, quoted=True),
        alias(nobody, person, quoted=True),
        source=table(given.counterfeits, alias="f"),
        joins=of_region("f"),
    )
    return shuffle_rows(select(exp.Star(), source=nest_query(exp.union(real, made_up, distinct=False), "released")))


def _secret(task: Problem, secret: str | None) -> str:
    """The key, in a table of one row: it is loaded, so that no statement holds it. A dry run shows no pseudonym."""
    made = task.prelude.load("secret", (), ("key",), ((secret or "",),), private=True)
    task.run()
    return made
