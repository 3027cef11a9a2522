"""Take a release away, or show an earlier version of it again. What is kept of its past stays: what was seen was seen.

To show a version again tells nothing that it did not tell before, if its rows are bit for bit those that were shown
then, under the policy of today, to the same people. So only that is done. A later release is compared with all that
was ever published, the version that was withdrawn included.
"""

from __future__ import annotations

from pathlib import Path

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.engines.companion_files import evidence_file
from sqlanon.errors import PolicyError
from sqlanon.plan import policy_hash
from sqlanon.policy import Policy
from sqlanon.policy.marginals import Marginals
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.relations.source import table_parts, table_tree
from sqlanon.release import versions
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.record import CURRENT, Version, of_file, of_relation, show_again
from sqlanon.release.record import retire as note
from sqlanon.release.targets import folder
from sqlanon.release.targets.relation_target import RelationTarget


def retire(policy: Policy | Marginals | StatisticsPolicy, engine: Engine) -> list[str]:
    """Drop the release of a policy, with the tables or files of all its versions; or its tables of marginals, as many
    as there are. The names of what was dropped."""
    if isinstance(policy, Marginals):
        names = policy.tables
    else:
        assert policy.release is not None
        names = (policy.release.name,)
        if policy.release.is_folder:
            folder.retire(Path(policy.release.name))
            return list(names)
        if policy.release.path is not None:
            return _removed_files(Path(policy.release.path))
    with engine.transaction():
        found = [name for name in names if _dropped(engine, name)]
        if not found:
            raise PolicyError(f"there is no release '{', '.join(names)}'", hint="see 'sqlanon releases list'")
    return found


def _removed_files(path: Path) -> list[str]:
    """Remove a file that was published, with those that belong to it and its evidence, which goes last."""
    document = of_file(str(path))
    if document is None:
        raise PolicyError(
            f"there is no release '{path}'", hint="only files with their evidence beside them are removed"
        )
    belonging = [path.with_name(Path(name).name) for name in document["release"].get("companions", {})]
    for file in (path, *belonging, evidence_file(str(path))):
        file.unlink(missing_ok=True)
    return [str(path), *map(str, belonging)]


def _dropped(engine: Engine, name: str) -> bool:
    """Drop a release of a database, if it is there."""
    there = engine.find(table_parts(name))
    ours = of_relation(engine, there) if there is not None else None
    if ours is None:
        return False
    for theirs, kind in ours.companions.items():
        engine.execute(exp.Drop(tables=[table_tree(theirs)], kind=kind.upper(), exists=True))
    engine.execute(exp.Drop(tables=[table_tree(name)], kind=ours.kind.upper()))
    if ours.table is not None:
        engine.execute(exp.Drop(tables=[table_tree(ours.table)], kind="TABLE"))
    note(engine, ours.name)
    RelationTarget(engine, name, ours.kind).prune(0)
    return True


def rollback(policy: Policy, engine: Engine, version: int) -> Version:
    """Show an earlier version of a release again; what was shown until then, which is withdrawn."""
    given = policy.release
    if given is None or not (given.view or given.is_folder):
        raise PolicyError(
            "only a view or a folder can go back to an earlier version", hint="release a view, with 'keep: 3' or so"
        )
    with engine.transaction():
        listed = versions.versions(policy, engine)
        now = next((item for item in listed if item.status == CURRENT), None)
        wanted = next((item for item in listed if item.version == version), None)
        if now is None or wanted is None:
            missing = "is not shown now" if now is None else f"has no version {version}"
            raise PolicyError(f"'{given.name}' {missing}", hint="see 'sqlanon releases list POLICY'")
        if now == wanted:
            raise PolicyError(f"version {version} is the one that is shown", hint="there is nothing to do")
        if (wanted.policy_hash, wanted.shown.audience) != (policy_hash(policy), given.audience):
            raise PolicyError(
                f"version {version} was published under another policy, or to other people",
                hint="put the policy of that version back first: 'sqlanon releases diff POLICY OLD NEW' shows it",
            )
        if given.is_folder:
            folder.rollback(policy, now, wanted)
        else:
            RelationTarget(engine, given.name, "view").show(_behind(engine, wanted))
            show_again(engine, now, wanted)
    return now


def _behind(engine: Engine, wanted: Version) -> str:
    """The table behind a version, whose rows are those that were shown."""
    behind = wanted.shown.behind
    if behind is None or engine.find(table_parts(behind)) is None:
        raise PolicyError(
            f"the rows of version {wanted.version} are not kept",
            hint="'keep: 3' under 'release' keeps the last three from now on",
        )
    rows = exp.select("*").from_(table_tree(behind))
    if wanted.shown.fingerprint is None or fingerprint(engine, rows) != wanted.shown.fingerprint:
        raise PolicyError(
            f"the rows of version {wanted.version} are not those that were shown then",
            hint="somebody changed the table behind it, or the database was replaced by another version: publish anew",
        )
    return behind
