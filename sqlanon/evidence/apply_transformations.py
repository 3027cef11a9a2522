"""Apply the transformations of a policy inside the engine: what is published, searched and checked is the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlanon import transformations
from sqlanon.engines import Engine
from sqlanon.engines.identities import find_identities
from sqlanon.engines.temp_tables import drop_steps, run_steps
from sqlanon.errors import PolicyError
from sqlanon.policy import Policy, Source, missing_columns
from sqlanon.relations.classes import Prelude, Step
from sqlanon.relations.source import relation, table_parts
from sqlanon.relations.transformation_tables import Action, Outline, plan_transformations, rows_of
from sqlanon.sqltree.tree import count_all, nest_query, select
from sqlanon.transformations import DataCheck

SHORTEST_KEY = 16  # a shorter one can be found by trying


@dataclass(frozen=True)
class Transformed:
    """`policy` reads the rows after the transformations, and asks for none; `prelude` holds their tables."""

    policy: Policy
    prelude: Prelude
    outline: Outline


def needs_secret(policy: Policy) -> bool:
    """Whether a transformation of a policy draws from the secret."""
    return any(
        transformations.is_keyed(use.name, transformations.method(use.name).Params.model_validate(use.params))
        for use in policy.transformations
    )


def changes_rows(policy: Policy) -> bool:
    """Whether a transformation leaves out or adds rows."""
    return any(getattr(transformations.method(use.name), "CHANGES_ROWS", False) for use in policy.transformations)


def require_secret(secret: str | None, what: str) -> None:
    if len(secret or "") < SHORTEST_KEY:
        raise PolicyError(
            f"{what} need a key of at least {SHORTEST_KEY} characters",
            hint="set the environment variable SQLANON_KEY to a long secret",
        )


def apply(policy: Policy, engine: Engine, secret: str | None, *, prefix: str = "sqlanon") -> Transformed:
    """Make the temporary tables. The caller drops them, with `drop_steps(engine, found.prelude.steps)`."""
    if needs_secret(policy):
        require_secret(secret, "random transformations")
    if policy.source.joins:
        raise policy.error(
            "joined tables are not transformed", "transformations", hint="join them in a view or 'query:'"
        )
    rows = relation(engine.resolve(policy.source), engine.dialect)
    kinds = {item.name: item.type for item in engine.columns(rows)}
    missing_columns(policy, list(kinds))
    outline = _outlined(policy, engine, rows, kinds)
    prelude = Prelude(rows, engine.rows_dialect, prefix=prefix)
    try:
        with engine.at_rows():  # as many rows as the source has
            for action in plan_transformations(policy, rows, outline, prelude, secret):
                _run(policy, engine, action, prelude)
    except BaseException:
        drop_steps(engine, prelude.steps)
        raise
    prelude.dialect = engine.dialect
    prelude.rows = rows_of(policy, outline.types)
    text = prelude.rows.sql(engine.rows_dialect)
    source = Source(database=policy.source.database, query=text)
    return Transformed(policy.model_copy(update={"source": source, "transformations": ()}), prelude, outline)


def _outlined(policy: Policy, engine: Engine, rows: exp.Select, kinds: dict[str, str]) -> Outline:
    types = {name: exp.DataType.build(kind, dialect=engine.dialect) for name, kind in kinds.items()}
    counted = {}
    for place, use in enumerate(policy.transformations):
        if getattr(transformations.method(use.name), "COUNTS", False):
            if changes_rows(policy):
                raise policy.error(
                    f"{use.name} cannot be combined with a method that leaves out or adds rows",
                    "transformations",
                    place,
                    hint="draw the sample in a view or 'query:', or with a release of its own",
                )
            counted[str(place)] = int(engine.query(select(count_all(), source=nest_query(rows.copy(), "source")))[0][0])
    # Draws are made of identities, and groups break ties by them.
    told = find_identities(engine, policy, rows, types) if counted or needs_secret(policy) else None
    if engine.rows_dialect != engine.dialect:
        kinds = {name: kind.sql(engine.rows_dialect) for name, kind in types.items()}
    return Outline(
        kinds,
        engine.rows_dialect,
        "numbered" if told is None else "unique",
        counted or None,
        told is not None and _lasts(policy, engine),
        None if told is None else told.span,
    )


def _lasts(policy: Policy, engine: Engine) -> bool:
    """Whether the source can be read several times. A view may give other rows each time, and so may a table of a
    server, into which others write between two statements."""
    if engine.dialect != "duckdb" or policy.source.table is None:
        return False
    found = engine.find(table_parts(policy.source.table))
    return found is not None and found.kind == "table"


def _run(policy: Policy, engine: Engine, action: Action, prelude: Prelude) -> None:
    if isinstance(action, Step):
        prelude.steps.append(action)
        run_steps(engine, [action])
    elif engine.query(action.query.limit(1)):
        raise policy.error(action.message, *action.at, hint=action.hint)


def list_steps(actions: Sequence[Action]) -> list[Step]:
    """The tables alone, for a script."""
    return [action for action in actions if not isinstance(action, DataCheck)]
