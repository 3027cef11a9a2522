"""The stages of a release whose rows an algorithm makes itself: groups of rows, sets of items, journeys, persons with
all their rows. Each of these says in a `MadeRelease` what it does in its own way; `WRITING` is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from sqlglot import exp

from sqlanon import algorithms
from sqlanon.engines import Engine
from sqlanon.engines.companion_files import companion_file
from sqlanon.errors import EngineError, NotReleased, PolicyError
from sqlanon.evidence.checks import Evidence, check
from sqlanon.evidence.release_evidence import ReleaseEvidence
from sqlanon.plan import Plan, policy_hash
from sqlanon.policy import AlgorithmUse, Policy, Source, missing_columns
from sqlanon.policy.person_shapes import ROWS
from sqlanon.relations.bucketization import companion
from sqlanon.relations.check_script import render_create
from sqlanon.relations.classes import Step
from sqlanon.relations.itemsets import PERSON_NUMBER
from sqlanon.relations.source import relation
from sqlanon.release.evidence_document import add_verdict
from sqlanon.release.fingerprint import fingerprint
from sqlanon.release.publication import Progress, Published, require_plan, require_roles, tell
from sqlanon.release.rewrite_release import Rewriting
from sqlanon.release.second_draws import described_draws, require_same_scales
from sqlanon.release.second_patterns import KEY, Pattern, describe_pattern, require_same_pattern
from sqlanon.release.targets.file_target import FileTarget
from sqlanon.release.targets.relation_target import RelationTarget
from sqlanon.release.targets.target import Staged, Target
from sqlanon.sqltree.tree import count_all, nest_query, select

STILL_THERE = "the previous release, if any, is still in place; "
SOURCE_CHANGED = "was the source changed meanwhile?"


@dataclass(frozen=True)
class MadeRelease:
    """A release that lies in temporary tables. `asked` is the policy as it was written, `policy` reads the rows after
    its transformations. `outline` is the evidence of a dry run; `describe` adds what is measured on the rows as they
    were written, beside the models. `meant` rows must be there, as `count` finds them."""

    asked: Policy
    policy: Policy
    engine: Engine
    plan: Plan
    how: Rewriting
    rows: exp.Select  # of the source
    meant: int
    broken: str  # what breaks a model, in the plural: groups, sets
    outline: Callable[[], ReleaseEvidence]
    describe: Callable[[ReleaseEvidence, Staged], ReleaseEvidence] = lambda outlined, staged: outlined
    count: Callable[[Staged], int] | None = None
    advice: str = SOURCE_CHANGED  # where a model is broken


Making = AbstractContextManager[MadeRelease]


@dataclass(repr=False)  # it holds the key
class Writing:
    """A made release on its way; each stage of `WRITING` adds its part."""

    made: MadeRelease
    target: Target
    secret: str | None
    run: int | None
    staged: Staged | None = None
    found: Evidence = field(init=False)
    pattern: Pattern | None = None  # of persons with several rows
    document: dict[str, Any] = field(init=False)

    @property
    def written(self) -> Staged:
        assert self.staged is not None, "nothing is written yet"
        return self.staged


def stage(release: Writing) -> None:
    """Write the release where nobody sees it yet."""
    release.staged = release.target.stage(release.made.how)


def check_as_written(release: Writing) -> None:
    """Measure every model on the rows as they were written, and refuse the release if one is broken."""
    release.found = check_made(release.made, release.written)


def compare_with_earlier(release: Writing) -> None:
    """Refuse what would tell more beside an earlier release of the same persons."""
    release.pattern = compare_patterns(release.made, release.written, release.secret)


def describe(release: Writing) -> None:
    """Put together all that was measured."""
    made = release.made
    evidence = describe_made(made, release.found, release.target, release.written, release.pattern)
    draws = described_draws(made.asked, made.engine, release.secret)
    release.document = replace(evidence, draws=draws, run=release.run).to_json()


def swap(release: Writing) -> None:
    """Show the release in place of the previous one, with its record."""
    made = release.made
    known = fingerprint(made.engine, made.rows.copy(), release.secret)
    release.target.swap(release.written, made.plan, release.document, known)


WRITING: tuple[Callable[[Writing], None], ...] = (
    stage,
    check_as_written,
    compare_with_earlier,
    describe,
    swap,
)


def publish_made(
    making: Making,
    doing: str,
    target: Target | None,
    *,
    secret: str | None,
    progress: Progress | None,
    plan_hash: str | None,
    run: int | None,
) -> Published:
    """Make a release, write it, check it and swap it in; without a target, say what would be done."""
    tell(progress, doing, 0, 1)
    with making as made:
        require_plan(made.plan, plan_hash)
        tell(progress, doing, 1, 1)
        if target is None:
            return Published(made.plan, made.outline().to_json())
        require_same_scales(made.asked, made.engine)
        tell(progress, "writing the release", 0, 1)
        release = Writing(made, target, secret, run)
        write(release)
        tell(progress, "writing the release", 1, 1)
        return Published(made.plan, release.document, release.found)


def write(release: Writing) -> None:
    """All of `WRITING` in one transaction: others see the old release or the new one."""
    _require_free(release.target, release.made.how)
    try:
        with release.made.engine.transaction():
            for step in WRITING:
                step(release)
        release.target.finish(release.written, release.document)
    except BaseException:
        if release.staged is not None:
            release.target.discard(release.staged)
        raise


def _require_free(target: Target, how: Rewriting) -> None:
    """Further tables must be free, too; a file has no views beside it."""
    if isinstance(target, RelationTarget):
        target.require_free((*how.companions, *how.views))
    elif isinstance(target, FileTarget):
        target.require_free(how.companions)


def check_made(made: MadeRelease, staged: Staged) -> Evidence:
    """Every model on the release as it was written; an error if one is broken, or if rows are missing."""
    found = check(made.policy, made.engine, release=staged.source, hidden=staged.hidden, limit=0)
    number = _count_rows(made.engine, staged) if made.count is None else made.count(staged)
    if number != made.meant:
        raise EngineError(
            f"the release was not published: {number:,} rows were written, {made.meant:,} were meant",
            hint=STILL_THERE + SOURCE_CHANGED,
        )
    if not found.holds:
        broken = [
            f"{item.model}: {item.broken_classes:,} {made.broken} broken" for item in found.checks if not item.holds
        ]
        raise NotReleased(
            "the release was not published: as written it breaks the policy",
            detail="\n".join([*broken, *found.breaches]),
            hint=STILL_THERE + made.advice,
        )
    return found


def _count_rows(engine: Engine, staged: Staged) -> int:
    rows = relation(engine.resolve(staged.source), engine.dialect)
    return int(engine.query(select(count_all(), source=nest_query(rows, "release")))[0][0])


def compare_patterns(made: MadeRelease, staged: Staged, secret: str | None) -> Pattern | None:
    """What a release shows of persons with several rows, which no earlier release shows in another way."""
    if made.asked.shape == ROWS:
        return None
    pattern = describe_pattern(made.asked, made.engine, staged, made.plan.hash, secret)
    require_same_pattern(made.asked, made.engine, pattern, secret)
    return pattern


def describe_made(
    made: MadeRelease, found: Evidence, target: Target, staged: Staged, pattern: Pattern | None
) -> ReleaseEvidence:
    """The evidence of a release that was written."""
    evidence = add_verdict(made.describe(made.outline(), staged), found, target, staged)
    return evidence if pattern is None else replace(evidence, more={**evidence.more, KEY: asdict(pattern)})


def stage_aside(made: MadeRelease, name: str) -> Staged:
    """The release as temporary tables, to be looked at and forgotten; for a plan."""
    how = made.how
    made.engine.create_temporary(name, how.select)
    for ending, tree in how.companions.items():
        made.engine.create_temporary(companion(name, ending), tree)
    return Staged(name, Source(table=name), how.hidden, tuple(how.companions), how.views)


@contextmanager
def blame_algorithm(policy: Policy) -> Iterator[None]:
    """Say which part of the policy an algorithm cannot do; what names the policy or a detail says it already."""
    try:
        yield
    except NotReleased:
        raise
    except PolicyError as error:
        if error.detail or error.message.startswith(f"{policy.name}:"):
            raise
        raise policy.error(error.message, "algorithm", hint=error.hint) from None


class MadeRows(Protocol):
    """What every algorithm that makes rows says of them."""

    @property
    def loss(self) -> float: ...
    @property
    def proven(self) -> bool: ...
    @property
    def why(self) -> str: ...


def plan_made(
    policy: Policy, use: AlgorithmUse, made: MadeRows, records: int, suppressed: int, minimize: str = "ncp", **own: Any
) -> Plan:
    """What was done, as data; `own` is what one kind of release alone has."""
    params = algorithms.algorithm(use.name).Params.model_validate(use.params)
    return Plan(
        policy=policy_hash(policy),
        algorithm=use.name,
        params=params.model_dump(mode="json"),
        minimize=minimize,
        records=records,
        suppressed=suppressed,
        loss=made.loss,
        proven=made.proven,
        why=made.why,
        **own,
    )


def at_one_time(policy: Policy) -> Policy:
    """A policy whose statements all read the same rows, whatever time they ask for."""
    return policy if policy.source.due is not None else policy.at(datetime.now(UTC))


def require_columns(policy: Policy, available: list[str]) -> None:
    """Refuse columns that lack, columns without a role, and one that is called as the persons of a release are."""
    missing_columns(policy, available)
    require_roles(policy, available)
    shown = set(policy.columns) - set(policy.identifiers)
    if policy.person != PERSON_NUMBER and PERSON_NUMBER in shown:
        raise policy.error(
            f"a release calls its persons '{PERSON_NUMBER}', as a column of the source is called already",
            "columns", PERSON_NUMBER, hint="give the column another name with 'query:'",
        )  # fmt: skip


def render_script(made_of: Iterable[Step], how: Rewriting, policy: Policy, dialect: str) -> str:
    """The SQL of a release: the temporary tables that it reads, then its tables and views."""
    parts = [render_create(step, dialect) for step in made_of]
    parts.append("-- the release\n" + how.shown.sql(dialect, pretty=True) + ";")
    given = policy.release
    name = given.name if given is not None else "release"
    as_files = given is not None and given.path is not None
    of = companion_file if as_files else companion
    for ending, tree in how.companions.items():
        parts.append(f"-- {of(name, ending)}\n" + tree.sql(dialect, pretty=True) + ";")
    for ending, view in how.views.items() if not as_files else ():
        parts.append(f"-- {companion(name, ending)}, a view\n" + view(name).sql(dialect, pretty=True) + ";")
    return "\n\n".join(parts) + "\n"
