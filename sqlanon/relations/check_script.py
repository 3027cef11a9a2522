"""A check as one SQL script, for reading, for review and for running by hand."""

from __future__ import annotations

from sqlglot import exp

from sqlanon import hierarchies as hierarchy_kinds
from sqlanon.policy import Policy
from sqlanon.policy.person_shapes import require_shape
from sqlanon.relations.checks import Check, Compiler
from sqlanon.relations.classes import Step
from sqlanon.sqltree.tree import alias, count_all, sum_bigint


def check_script(policy: Policy, dialect: str) -> str:
    """Temporary tables, then one statement for each model that tells its classes, broken classes and worst measure."""
    require_shape(policy, "a script of the check")
    built = {name: hierarchy_kinds.build(use.kind, use.params, policy.base) for name, use in policy.hierarchies.items()}
    compiler = Compiler(policy, built, dialect, policy.source)
    checks = compiler.checks()
    parts = ["-- What `sqlanon check` measures: the relations, then each model with the classes that break it."]
    parts += [render_create(step, dialect) for step in compiler.prelude.steps]
    parts += [f"{_headline(item)}\n{summary(item).sql(dialect, pretty=True)};" for item in checks]
    return "\n\n".join(parts) + "\n"


def render_create(step: Step, dialect: str) -> str:
    """CREATE TEMPORARY TABLE … AS in a dialect; Spark has no temporary tables, but views."""
    if step.private:
        begin = f"CREATE TEMPORARY {'VIEW' if dialect == 'spark' else 'TABLE'} {step.name}"
        return (
            f"-- Make the table {step.name} yourself before you go on: it holds the key of pseudonyms and draws,\n"
            f"-- which no script shows, as the one row of its column {step.columns[0]}:\n"
            f"-- {begin} AS SELECT 'the value of SQLANON_KEY' AS {step.columns[0]}"
        )
    if dialect == "spark":
        view = exp.Create(
            this=exp.to_table(step.name),
            kind="VIEW",
            replace=True,
            expression=step.query,
            properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
        )
        return view.sql(dialect, pretty=True, copy=False) + ";"
    temporary = exp.Properties(expressions=[exp.TemporaryProperty()])
    made = exp.Create(this=exp.to_table(step.name), kind="TABLE", expression=step.query, properties=temporary)
    return made.sql(dialect, pretty=True, copy=False) + ";"


def summary(item: Check) -> exp.Select:
    broken = exp.column("broken")
    worst = (exp.Min if item.model.worse_when_smaller else exp.Max)(this=exp.column("measured"))
    return exp.select(
        alias(count_all(), "classes"),
        alias(sum_bigint(broken), "broken_classes"),
        alias(worst, "worst"),
    ).from_(item.measured())


def _headline(item: Check) -> str:
    """A comment that names the check. Line breaks in a user's names must not end the comment."""
    params = ", ".join(f"{key}={value}" for key, value in item.params.items())
    where = f" on ({', '.join(item.qid)})" + (f" for {item.attribute}" if item.attribute else "")
    return "-- " + " ".join(f"{item.model.name}({params}){where}".split())
