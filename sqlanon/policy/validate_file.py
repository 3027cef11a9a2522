"""Check the data of a policy file, whichever sections it has, and tell all that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sqlanon.policy import checks, history, person_shapes, shape, suppressed_cells, transformation_checks, yaml_lines
from sqlanon.policy.checks import Draft
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem

# What a field takes, where its type alone would say too little in a message.
EXPECTED = {
    "source": "a mapping with table, view, query or path",
    "population": "a mapping with table, view, query or path",
    "release": "a mapping with table, view or path",
    "keep": "a number of versions, from 0 to 1000",
    "schedule": "a mapping such as {cron: '0 3 * * *', tz: Europe/Athens}",
    "retries": "a number from 0 to 10",
    "history": "a mapping such as {hold_back: 0.05}",
    "hold_back": "a number between 0 and 1",
    "beside": "a list of releases such as [visits_released]",
    "joins": "a list such as [{table: visits, on: patient_id}]",
    "on": "a column, or a mapping of columns to columns of the joined table",
    "columns": "a mapping of column names to roles",
    "weight": "a number greater than 0",
    "qids": "a mapping of names to lists of columns",
    "hierarchies": "a mapping of columns to hierarchies",
    "models": "a list such as [{k_anonymity: {k: 5}}]",
    "transformations": "a list such as [{rounding: {columns: [income], base: 1000}}]",
    "suppression_limit": "a number between 0 and 1",
    "pseudonym": "true or false",
    "encrypt": "true or false",
    "algorithm": "the name of an algorithm, or a mapping of one name to its parameters",
}

_Model = TypeVar("_Model", bound=BaseModel)


def validate_file(
    data: Any,
    origin: Origin,
    found: Iterable[PolicyProblem],
    model: type[_Model],
    more: Callable[[Draft], Iterable[PolicyProblem]] = lambda _: (),
    keys_from: Callable[[], type[BaseModel]] | None = None,
) -> _Model:
    """A file as a model; raises one error that tells all that is wrong, `more` of which its sections may know.

    `keys_from` gives the model of all keys that a file can have, for hints: a misspelt key may be any of them. It is
    called only if something is wrong, since that model loads the sections of the gateway.
    """
    problems = list(found)
    if not isinstance(data, Mapping):
        if not problems:
            said = "the policy is empty" if data is None else f"a policy is a mapping, not {_kind(data)}"
            problems = [PolicyProblem(said, "it needs the keys source, columns and models")]
        raise yaml_lines.report(problems, origin)
    draft: Draft = Draft(data, origin)
    policy: _Model | None = None
    misshapen: list[PolicyProblem] = []
    try:
        policy = model.model_validate(data)
    except ValidationError as error:
        whole = model if keys_from is None else keys_from()
        misshapen = list(shape.problems(error, whole, data, expected=EXPECTED))
    empty = {problem.path: problem for problem in checks.empty_values(draft)}
    for problem in misshapen:
        if problem.message.startswith("unknown key"):
            empty.pop(problem.path, None)
    problems += empty.values()
    problems += [problem for problem in misshapen if not _told_elsewhere(problem, empty)]
    problems += [*checks.problems(draft), *history.problems(draft), *transformation_checks.problems(draft)]
    problems += [*suppressed_cells.problems(draft), *person_shapes.problems(draft), *more(draft)]
    if policy is None or problems:
        raise yaml_lines.report(problems or misshapen, origin)
    return policy


def _told_elsewhere(problem: PolicyProblem, told: Container[KeyPath]) -> bool:
    # Models and hierarchies are checked against their own headers, which say more than a type can.
    checked = problem.path[:1] in (("models",), ("hierarchies",), ("transformations",)) and len(problem.path) > 1
    rules = problem.path[:1] == ("statistics",) and problem.path[2:3] == ("rules",) and len(problem.path) > 3
    return checked or rules or problem.path in told


def _kind(data: Any) -> str:
    return shape.describe(data) if isinstance(data, str | list) else "a single value"
