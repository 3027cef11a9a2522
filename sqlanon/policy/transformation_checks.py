"""What is wrong with the transformations of a policy, as they were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from sqlanon import transformations
from sqlanon.errors import did_you_mean
from sqlanon.policy import shape
from sqlanon.policy.checks import Draft
from sqlanon.policy.yaml_lines import KeyPath, PolicyProblem


def problems(draft: Draft) -> Iterator[PolicyProblem]:
    listed = draft.data.get("transformations")
    if not isinstance(listed, list):
        return
    for index, item in enumerate(listed):
        yield from _use(draft, item, index)
    if listed and "history" in draft.data:
        # Two releases would differ in what was drawn as well as in who is in them.
        hint = "leave one of them out"
        yield PolicyProblem("transformations cannot be combined with a history", hint, ("transformations",))
    if listed and draft.mapping("source").get("joins"):
        hint = "join them in a view or 'query:' first"
        yield PolicyProblem("transformations of joined tables are not made", hint, ("transformations",))


def _use(draft: Draft, item: Any, index: int) -> Iterator[PolicyProblem]:
    path: KeyPath = ("transformations", index)
    known = transformations.names()
    if not isinstance(item, Mapping) or len(item) != 1:
        many = f"{len(item)} methods" if isinstance(item, Mapping) and item else shape.describe(item or None)
        hint = "write '- rounding: {columns: [income], base: 1000}'"
        yield PolicyProblem(f"a transformation is one method with its parameters, not {many}", hint, path)
        return
    name, given = next(iter(item.items()))
    path = (*path, name)
    if name not in known:
        hint = did_you_mean(str(name), known) or f"the methods are {', '.join(known)}"
        yield PolicyProblem(f"unknown transformation '{name}'", hint, path)
        return
    if given is not None and not isinstance(given, Mapping):
        hint = f"write '- {name}: {{parameter: value}}'"
        yield PolicyProblem(f"{name} takes a mapping of parameters, not {shape.describe(given)}", hint, path)
        return
    model = transformations.method(name).Params
    try:
        params = model.model_validate(given or {})
    except ValidationError as error:
        yield from shape.problems(error, model, given or {}, path)
        return
    yield from _columns(draft, name, params, path)


def _columns(draft: Draft, method: str, params: Any, path: KeyPath) -> Iterator[PolicyProblem]:
    roles = draft.roles()
    declared = [*roles, *filter(None, [draft.person()])]
    changed = params.changed()
    for key, names in params.read().items():
        for place, name in enumerate(names):
            here = (*path, key, place)
            if roles and name not in declared:
                hint = did_you_mean(name, declared) or "declare it under columns"
                yield PolicyProblem(f"{method}: column '{name}' of '{key}' is not declared", hint, here)
            elif name in changed and name == draft.person():
                hint = "take another column: persons are counted by it"
                yield PolicyProblem(f"{method}: '{name}' is the person column, which is not changed", hint, here)
            elif name in changed and roles.get(name) == "identifier":
                hint = "an identifier is left out, or becomes a pseudonym, which links the rows of a person; give it "
                hint += "another role to release it changed"
                yield PolicyProblem(f"{method}: '{name}' is an identifier, which is not changed", hint, here)
