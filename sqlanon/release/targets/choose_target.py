"""The target that a policy names, if it is free or holds an earlier release."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError
from sqlanon.policy import Policy, Source
from sqlanon.relations.source import query_tree, table_parts
from sqlanon.release.targets.file_target import FileTarget
from sqlanon.release.targets.relation_target import RelationTarget
from sqlanon.release.targets.target import Target


def target_of(policy: Policy, engine: Engine) -> Target:
    """The target of a policy, which is free, or holds an earlier release."""
    given = policy.release
    if engine.product == "spark":
        return _on_spark(policy, engine)
    if given is None:
        raise PolicyError("the policy names no release", hint="add for example 'release: {table: patients_released}'")
    if given.is_folder:
        from sqlanon.release.targets.folder import FolderTarget  # few releases are folders

        folder = FolderTarget(engine, given.name, audience=given.audience, keep=given.keep)
        folder.require_ours()
        return folder
    if given.path is not None:
        file = FileTarget(engine, given.path, audience=given.audience)
        file.require_ours()
        return file
    kind = "table" if given.table else "view"
    target = RelationTarget(engine, given.name, kind, audience=given.audience, keep=given.keep)
    # The policy knows its own spelling only; what a query reads, and other spellings, the database knows.
    if any(_reads(engine, source, target.name) for source in _sources(policy)):
        raise PolicyError(
            f"the release '{target.name}' would replace a table that is read", hint="give the release another name"
        )
    target.require_ours()
    return target


def _on_spark(policy: Policy, engine: Engine) -> Target:
    from sqlanon.release.targets.spark_target import SparkTarget  # few releases are there

    given = policy.release
    if given is None or given.view is None:
        raise PolicyError(
            "on Spark a release is a view over a table for each version: nothing else can be replaced in one step",
            hint="write 'release: {view: name}'",
        )
    target = SparkTarget(engine, given.name, policy, audience=given.audience, keep=given.keep)
    if any(_reads(engine, source, target.name) for source in _sources(policy)):
        raise PolicyError(
            f"the release '{target.name}' would replace a table that is read", hint="give the release another name"
        )
    target.require_ours()
    return target


def _sources(policy: Policy) -> Iterator[Source]:
    yield policy.source
    if policy.population is not None:
        yield policy.population


def _reads(engine: Engine, source: Source, name: str) -> bool:
    there = engine.find(table_parts(name))
    if there is None or source.path is not None:
        return False
    if source.query is None:
        return engine.find(table_parts(source.text)) == there
    trees = query_tree(source.query, engine.dialect).find_all(exp.Table)
    return any(engine.find([part.name for part in tree.parts]) == there for tree in trees if tree.name)
