"""What an algorithm must know of earlier releases: with which values a person was last released, for m-invariance; and
where regions were cut, and who was together in them, for a partition that stays."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlanon.errors import PolicyError
from sqlanon.families import plugin
from sqlanon.lattice.problem import Problem
from sqlanon.lattice.requirements import Past, Stable
from sqlanon.relations import history_relations as relations
from sqlanon.release.history.history_tables import HistoryTables
from sqlanon.sqltree.tree import alias, column, join_clause, nest_query, select, table


def read_past(task: Problem, name: str, secret: str | None) -> Problem:
    """The task with what its algorithm must know of earlier releases, if it is one that asks."""
    policy = task.policy
    if policy.history is None:
        return task
    if policy.algorithm_traits.history == "signatures":
        return replace(task, requirements=replace(task.requirements, past=_signatures(task, name, secret)))
    if policy.algorithm_traits.history == "cuts":
        return replace(task, requirements=replace(task.requirements, stable=_cuts(task, name, secret)))
    return task


def _people(task: Problem, kept: HistoryTables, secret: str | None) -> exp.Select:
    """(original, person): the persons of the source by their keyed hashes, if the key is the right one."""
    policy, engine = task.policy, task.engine
    assert policy.person is not None
    kinds = {item.name: item.type for item in engine.columns(task.prelude.rows)}
    kept.require_key(secret or "", policy, kinds[policy.person])
    key = task.prelude.load("secret", (), ("key",), ((secret or "",),), private=True)
    return select(
        alias(column(policy.person), "original"),
        alias(relations.person_hash(policy.person, engine.dialect), "person"),
        source=nest_query(task.prelude.rows.copy(), "source"),
        joins=[exp.Join(this=table(key, alias="secret"), kind="CROSS")],
    )


def _of_person(kept: HistoryTables) -> exp.Join:
    same = exp.column("person", table="p").eq(exp.column("person", table="h"))
    return join_clause(table(kept.table("persons"), alias="p"), same)


def _signatures(task: Problem, name: str, secret: str | None) -> Past:
    """The persons who were released before, with the values of their last class."""
    if relations.CLASS in task.policy.columns:
        raise PolicyError(f"'{relations.CLASS}' is the column that tells classes apart", hint="rename yours")
    with task.engine.transaction():
        kept = HistoryTables(task.engine, name)
        people = _people(task, kept, secret)  # opens what is kept
        own = {short: kept.table(short) for short in ("past", "past_values")}
        found = task.prelude.once("signatures", (name,), lambda: relations.step("signatures", {}, own))
        group = exp.column("group_id", table="s").eq(exp.column("group_id", table="p"))
        known = select(
            exp.column("original", table="h"),
            exp.column("signature", table="s"),
            alias(exp.column("version", table="s"), "seen"),
            source=nest_query(people, "h"),
            joins=[_of_person(kept), join_clause(table(found, alias="s"), group)],
        )
        past = Past(task.prelude.once("known_people", (name,), lambda: known), kept.version)
        task.run()
        kept.close()
    return past


def _cuts(task: Problem, name: str, secret: str | None) -> Stable:
    policy = task.policy
    assert policy.history is not None
    uses = policy.history.uses(policy.models, sensitive=bool(policy.sensitive))
    asked = [use.params for use in uses if "cells" in plugin("history", use.name).traits]
    with task.engine.transaction():
        kept = HistoryTables(task.engine, name)
        people = _people(task, kept, secret)
        cuts = select(exp.Star(), source=table(kept.table("cuts")))
        known = select(
            exp.column("original", table="h"),
            exp.column("group_id", table="p"),
            source=nest_query(people, "h"),
            joins=[_of_person(kept)],
        )
        stable = Stable(
            cuts=task.prelude.once("past_cuts", (name,), lambda: cuts),
            groups=task.prelude.once("past_groups", (name,), lambda: known),
            k=max([1, *(int(params["k"]) for params in asked)]),
            l=max([1, *(int(params.get("l", 1)) for params in asked)]),
            attributes=policy.sensitive,
        )
        task.run()
        kept.close()
    return stable
