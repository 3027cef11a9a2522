"""Attack a policy: set some persons aside, anonymize the others by the policy, and attack both.

Who was part of a release cannot be its control group. So a keyed sample of the persons is set aside first; the rows of
the others go through the same policy, search and algorithm into a scratch table, and that release is attacked as it
would be shown. What is measured is the policy: the release that was published was made of all rows, and may have other
levels. Nothing is published, and nothing of it is kept.
cite: Giomi, Boenisch, Wehmeyer and Tasnadi 2023
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, SqlanonError
from sqlanon.evidence.attacks import Attacks, attack
from sqlanon.policy import Policy, Source
from sqlanon.relations.attacks import holdout_relations as relations
from sqlanon.relations.source import relation
from sqlanon.release.algorithm_kind import is_parted
from sqlanon.release.rewrite_release import plan_rewriting
from sqlanon.release.solve_policy import prepare_problem, solve_problem

EVERYBODY = "source_divided_by_sqlanon"
DRAWN = "persons_set_aside_by_sqlanon"
HELD = "control_of_sqlanon"
MEMBERS = "members_kept_by_sqlanon"
RELEASED = "release_attacked_by_sqlanon"
FEW = 100  # held-out persons, with whom intervals are wide


def attack_policy(
    policy: Policy,
    engine: Engine,
    *,
    holdout: float,
    secret: str | None = None,
    time_limit: float | None = None,
    names: Sequence[str] = (),
    **asked: Any,
) -> Attacks:
    """Try attacks on a release that a share of the persons was left out of: `holdout=0.1` leaves out a tenth.

    `secret` is the key of draws: another key sets other persons aside. `names` and what is `asked` are as for `attack`.
    """
    _require_divisible(policy, holdout)
    policy = policy.at(datetime.now(UTC))
    try:
        held, persons = _divide(policy, engine, holdout, _seed(secret))
        own = policy.model_copy(
            update={"source": Source(database=policy.source.database, table=MEMBERS), "history": None}
        )
        task = prepare_problem(own, engine, time_limit=time_limit, secret=secret)
        try:
            solution, plan = solve_problem(task)
            engine.create_temporary(RELEASED, plan_rewriting(task, solution, secret).shown)
        finally:
            task.close()
        found = attack(own, engine, release=Source(table=RELEASED), control=Source(table=HELD), names=names, **asked)
    finally:
        with suppress(SqlanonError):  # of a connection that is lost; what broke it is the error to show
            engine.drop_temporary([RELEASED, MEMBERS, HELD, DRAWN, EVERYBODY])
    return replace(found, notes=(*_notes(policy, plan.algorithm, held, persons), *found.notes))


def _notes(policy: Policy, algorithm: str, held: int, persons: int) -> list[str]:
    unit = "persons" if policy.person else "rows"
    notes = [
        f"{held:,} of {persons:,} {unit} were set aside, and a release of the others was made by {algorithm}: these "
        "numbers are about the policy, not about a release that was published"
    ]
    if policy.person is None:
        notes.append(
            "the policy names no person: whoever has several rows may be in the release and in the control group"
        )
    if policy.history is not None:
        notes.append("the history is left aside: the release is attacked by itself")
    if held < FEW:
        notes.append(f"{held} {unit} are few to compare with: intervals are wide, and an advantage may be missed")
    return notes


def _require_divisible(policy: Policy, holdout: float) -> None:
    if not 0 < holdout < 1:
        raise PolicyError("the share of the persons to set aside must be between 0 and 1", hint="0.1 is a tenth")
    if is_parted(policy) and policy.algorithm is not None:
        raise PolicyError(
            f"{policy.algorithm.name} writes rows itself: persons cannot be set aside here",
            hint="publish without some persons, and name these with --control",
        )
    if policy.source.joins:
        raise PolicyError(
            "persons of joined tables cannot be set aside", hint="join them in a view or 'query:', or use --control"
        )
    if policy.nulls == "unique":
        raise PolicyError("NULLs that match nothing cannot be looked up", hint="leave 'nulls: unique' out")


def _divide(policy: Policy, engine: Engine, holdout: float, seed: str) -> tuple[int, int]:
    """Write both parts of the source aside; how many persons were set aside, and of how many."""
    rows = relation(engine.resolve(policy.source), engine.dialect)
    columns = [item.name for item in engine.columns(rows)]
    if policy.person is not None and policy.person not in columns:
        raise PolicyError(f"the source has no column '{policy.person}'", hint="'person:' names a column of the source")
    engine.create_temporary(EVERYBODY, relations.number_rows(rows))
    person = policy.person or relations.ROW_NUMBER
    persons, unknown = (int(value) for value in engine.query(relations.count_persons(EVERYBODY, person))[0])
    if unknown:
        raise PolicyError(f"{unknown:,} rows have no '{person}'", hint="leave these rows out, or give them a person")
    held = max(1, round(holdout * persons))
    if held >= persons:
        raise PolicyError(
            f"{persons:,} persons are too few to set some aside",
            hint="a release needs persons, and a control group too",
        )
    engine.create_temporary(DRAWN, relations.drawn_persons(EVERYBODY, person, seed, held))
    for name, is_held in ((HELD, True), (MEMBERS, False)):
        part = relations.rows_of(EVERYBODY, person, DRAWN, held=is_held, columns=columns)
        engine.create_temporary(name, part)
    return held, persons


def _seed(secret: str | None) -> str:
    """What persons are drawn by: no statement holds the key itself."""
    return hmac.new((secret or "").encode(), b"held-out persons", hashlib.sha256).hexdigest()


__all__ = ["attack_policy"]
