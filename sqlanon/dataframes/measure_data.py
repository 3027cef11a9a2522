"""Check, measure, attack, compare and publish: with a policy and an engine, or with rows and what is known of them.

Each function here is the one of the same name below it, with another way in: where a policy and an engine are given,
nothing is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlanon.dataframes.anonymize_data import AnonymizedTable
from sqlanon.dataframes.arrow_tables import is_tabular
from sqlanon.dataframes.comparison_plot import ComparedPolicies
from sqlanon.dataframes.open_data import add_rows, is_engine, open_data
from sqlanon.dataframes.policy_arguments import (
    Models,
    Names,
    PolicyArguments,
    policy_for,
    policy_of,
    with_default_algorithm,
)
from sqlanon.engines import Engine, connect
from sqlanon.errors import PolicyError
from sqlanon.evidence import attacks as attacking
from sqlanon.evidence import checks as checking
from sqlanon.evidence import risk as risks
from sqlanon.evidence.attacks import Attacks
from sqlanon.evidence.checks import Evidence
from sqlanon.evidence.risk import Risk
from sqlanon.policy import Policy, Source
from sqlanon.release import compare_policies, hold_out_persons, publish_release
from sqlanon.release.publication import Progress, Published

RELEASE = "release"  # what rows of a release are called beside those of the source


def check(
    data: Any = None,
    engine: Any = None,
    *,
    policy: Any = None,
    connection: Any = None,
    quasi_identifiers: Names = (),
    sensitive: Names = (),
    person: str | None = None,
    k: int | None = None,
    l: int | None = None,  # noqa: E741 - as in the literature
    t: float | None = None,
    models: Models = (),
    hierarchies: Mapping[str, Any] | None = None,
    release: Any = None,
    hidden: Sequence[str] = (),
    limit: int = 5,
    progress: Callable[[int, int], None] | None = None,
    secret: str | None = None,
) -> Evidence:
    """Measure every requirement on rows, or on a release of them: `check(df, quasi_identifiers=["age"], k=5)`.

    `data` is what `anonymize` takes, and so are the other keywords; or it is a policy, with an `engine`, a connection
    or a URL after it. With a `release` (rows, a file, a table or a `Source`) that is measured, and its source compared.
    `limit` is the number of broken classes that are shown of each requirement. `secret` is the key of draws.
    The result tells whether all requirements hold; `raise_if_broken()` makes an error of one that does not.
    """
    given = PolicyArguments(quasi_identifiers, sensitive, (), (), person, k, l, t, models, hierarchies or {})
    release, policy = _of_release(release, policy, given)
    with _open(data, engine, policy, connection, given) as (asked, opened):
        beside = None if release is None else add_rows(opened, release, RELEASE)
        return checking.check(
            asked, opened, release=beside, hidden=hidden, limit=limit, progress=progress, secret=secret
        )


def risk(
    data: Any = None,
    engine: Any = None,
    *,
    policy: Any = None,
    connection: Any = None,
    quasi_identifiers: Names = (),
    sensitive: Names = (),
    person: str | None = None,
    release: Any = None,
    weight: str | None = None,
    household: str | None = None,
    sampling_fraction: float | None = None,
    threshold: float = 0.2,
    knowledge: int = 3,
    subsets: bool = False,
    suda: bool = False,
    max_size: int | None = None,
    hidden: Sequence[str] = (),
) -> Risk:
    """Measure how easily rows are found again: `risk(df, quasi_identifiers=["age", "zip"])`.

    `data`, `engine`, `policy` and `release` are as for `check`. `weight` names the column of sampling weights,
    `household` the one of households; `sampling_fraction` is the share of the population that the table holds.
    `knowledge` is the most implications that an attacker may know; `subsets` and `suda` look at all sets of up to
    `max_size` quasi-identifiers. `hidden` are columns of a release that nobody will see.
    """
    given = PolicyArguments(quasi_identifiers, sensitive, person=person)
    release, policy = _of_release(release, policy, given)
    with _open(data, engine, policy, connection, given, needs_model=False) as (asked, opened):
        return risks.risk(
            asked, opened, release=None if release is None else add_rows(opened, release, RELEASE), weight=weight,
            household=household, sampling_fraction=sampling_fraction, threshold=threshold, knowledge=knowledge,
            subsets=subsets, suda=suda, max_size=max_size, hidden=hidden,
        )  # fmt: skip


def attack(
    data: Any = None,
    engine: Any = None,
    *,
    policy: Any = None,
    connection: Any = None,
    quasi_identifiers: Names = (),
    sensitive: Names = (),
    person: str | None = None,
    release: Any = None,
    external: Any = None,
    other: Any = None,
    prior: Any = None,
    earlier: Any = None,
    control: Any = None,
    holdout: float | None = None,
    secret: str | None = None,
    names: Sequence[str] = (),
    **asked: Any,
) -> Attacks:
    """Try attacks on rows and on a release of them: `attack(df, release)`, with the release that `anonymize` gave.

    `data`, `engine` and `policy` are as for `check`; a release that `anonymize` gave knows its policy. `external` are
    persons whom the attacker knows, `other` is another release of the same persons, `earlier` the persons of an earlier
    one, `prior` what is known of the sensitive values, `control` persons of the same population who are not in the
    data: rows, files, tables or `Source`s. With a policy, `holdout=0.1` sets a tenth of the persons aside as a control
    group and attacks a release of the others, which it makes; `secret` is the key that they are drawn by. `names` are
    the attacks to try, all by default; further keywords are their parameters: certainty, knowledge, gain, ratio, level,
    epsilon, rounds, and `least_advantage`, from which an advantage is a finding.
    """
    if release is None and is_tabular(engine):
        engine, release = None, engine
    given = PolicyArguments(quasi_identifiers, sensitive, person=person)
    release, policy = _of_release(release, policy, given)
    with _open(data, engine, policy, connection, given, needs_model=False) as (policy_asked, opened):
        beside = {RELEASE: release, "external": external, "other": other, "prior": prior, "earlier": earlier}
        beside["control"] = control
        sources: dict[str, Any] = {
            name: None if rows is None else add_rows(opened, rows, name) for name, rows in beside.items()
        }
        if holdout is not None:
            clashing = [name for name, rows in beside.items() if rows is not None and name != "prior"]
            if clashing:
                raise PolicyError(
                    f"'holdout' makes a release of its own: it does not go with '{clashing[0]}'",
                    hint="a release that exists was made of everybody; give persons who are not in it as 'control'",
                )
            return hold_out_persons.attack_policy(
                policy_asked, opened, holdout=holdout, secret=secret, prior=sources["prior"], names=names, **asked
            )
        return attacking.attack(policy_asked, opened, names=names, **sources, **asked)


def compare(
    data: Any = None,
    engine: Any = None,
    *,
    policies: Any = None,
    connection: Any = None,
    secret: str | None = None,
    categories: Sequence[str] = (),
    target: str | None = None,
    features: Sequence[str] | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> ComparedPolicies:
    """Measure what policies would leave of risk and of utility: `compare(df, [policy_a, policy_b]).plot()`.

    `data` is what `anonymize` takes, with a list of policies after it, or a dict of them by name; or it is the
    policies, with an engine after them. Nothing is published. `categories` are columns of numbers that are codes;
    `target` is a column that a classifier learns to predict from the `features`. `time_limit` is for each search, in
    seconds.
    """
    own: dict[str, Any] = {
        "secret": secret, "categories": categories, "target": target, "features": features,
        "time_limit": time_limit, "progress": progress,
    }  # fmt: skip
    if data is None:
        data, policies = policies, None
    if isinstance(data, list | tuple) and policies is None and not _are_policies(engine):
        with _engine_of(list(data), engine or connection) as (asked, opened):
            return ComparedPolicies.of(compare_policies.compare(asked, opened, **own), asked)
    if policies is None:
        policies, engine = engine, None
    given = list(policies.items()) if isinstance(policies, Mapping) and "models" not in policies else None
    if given is None:
        listed = policies if isinstance(policies, list | tuple) else [policies]
        given = [(f"policy {place}" if isinstance(item, Mapping) else "", item) for place, item in enumerate(listed, 1)]
    read = [policy_of(item, Source(table="df"), name=name) for name, item in given]
    columns = [name for item in read for name in (*item.columns, *([item.person] if item.person else []))]
    with open_data(data, connection or engine, index=columns) as from_data:
        asked = [with_default_algorithm(policy_for(from_data.source, item, PolicyArguments())) for item in read]
        return ComparedPolicies.of(compare_policies.compare(asked, from_data.engine, **own), asked)


def publish(
    data: Any = None,
    engine: Any = None,
    *,
    policy: Any = None,
    connection: Any = None,
    dry_run: bool = False,
    time_limit: float | None = None,
    secret: str | None = None,
    workload: bool = True,
    progress: Progress | None = None,
    plan_hash: str | None = None,
    run: int | None = None,
) -> Published:
    """Find, write, check and swap in the release of a policy: `publish(policy, engine)`, or `publish(df, policy)`.

    `data` is a policy, with an engine, a connection or a URL after it that may be written to; or it is what `anonymize`
    takes, with a policy that releases to a file. An error at any point leaves the previous release in place.

    `time_limit` in seconds is for the search; `secret` is the key of pseudonyms and draws; `workload` asks for the
    error of random counts, which takes a few seconds. With `plan_hash`, or how it begins, only that plan is carried
    out. `run` is the number of the run in the record of runs. `progress` is told what is going on, and how much of it
    is done.
    """
    with _open(data, engine, policy, connection, PolicyArguments()) as (asked, opened):
        return publish_release.publish(
            asked, opened, dry_run=dry_run, time_limit=time_limit, secret=secret, workload=workload, progress=progress,
            plan_hash=plan_hash, run=run,
        )  # fmt: skip


def is_policy(given: object) -> bool:
    """Whether this is a policy, or names a file of one, rather than rows or a database."""
    named = isinstance(given, str | Path) and str(given).lower().endswith((".yml", ".yaml"))
    return isinstance(given, Policy | Mapping) or named or (isinstance(given, str) and "\n" in given)


def _are_policies(given: object) -> bool:
    return is_policy(given) or (isinstance(given, list | tuple) and all(map(is_policy, given)))


def _of_release(release: Any, policy: Any, given: PolicyArguments) -> tuple[Any, Any]:
    """A release that `anonymize` gave brings its policy, where none is given."""
    if isinstance(release, AnonymizedTable):
        return release.to_arrow(), release.policy if policy is None and not given.given() else policy
    return release, policy


@contextmanager
def _open(
    data: Any, second: Any, policy: Any, connection: Any, given: PolicyArguments, *, needs_model: bool = True
) -> Iterator[tuple[Policy, Engine]]:
    """The policy and the engine, from any of the ways to give them."""
    if data is None:
        data, policy = policy, None
    if data is None:
        raise PolicyError("there is nothing to read", hint="give rows, or a policy that names its source")
    if is_policy(data):
        if policy is not None or given.given():
            raise PolicyError("two policies are given", hint="give rows and a policy, or a policy and a database")
        with _engine_of([data], second or connection) as ((read,), engine):
            yield read, engine
        return
    if is_policy(second) and policy is None:
        policy, second = second, None
    known = None if policy is None else policy_of(policy, Source(table="df"))
    index = given.names() if known is None else [*known.columns, *([known.person] if known.person else [])]
    with open_data(data, second or connection, index=index) as opened:
        yield policy_for(opened.source, known, given, needs_model=needs_model), opened.engine


@contextmanager
def _engine_of(policies: Sequence[Any], database: Any) -> Iterator[tuple[list[Policy], Engine]]:
    """Policies that name their source, and the engine: the one that is given, or that of the first of them."""
    if is_engine(database):  # as it is: whoever has an engine has a policy that goes with it
        yield [item if isinstance(item, Policy) else policy_of(item).located() for item in policies], database
        return
    read = [policy_of(item).located() for item in policies]
    if database is None and read and read[0].source.database is not None:
        database = read[0].locate(read[0].source.database)
    engine = connect(database)
    try:
        yield read, engine
    finally:
        engine.close()
