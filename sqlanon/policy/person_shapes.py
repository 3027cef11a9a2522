"""What a policy may ask for where the rows of a person are one thing: an entity, a set of items, or a sequence.

Each shape says here which roles, keys and hierarchies it knows. Models say it in their headers (`shapes:`), algorithms
in their `TRAITS`. Everything else is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import SHAPES, algorithm_traits, family, models_of_shape, module_names
from sqlanon.policy.checks import Draft
from sqlanon.policy.policy import Policy
from sqlanon.policy.yaml_lines import KeyPath, PolicyProblem

ROWS, ENTITY, SET, SEQUENCE = SHAPES
# Keys that mean the same for every shape.
COMMON = ("source", "columns", "person", "shape", "models", "algorithm", "release", "schedule", "suppression_limit")


@dataclass(frozen=True)
class ShapeRules:
    """What a policy of a shape may say."""

    said: str  # what a person is, in words
    roles: Mapping[str, tuple[int, int | None]]  # at least so many columns of a role, and at most so many
    hierarchies: tuple[str, ...]  # roles of columns that may have one
    keys: tuple[str, ...] = ()  # beside those of every shape
    joins: bool = False
    aims: tuple[str, ...] = ()  # what a model may be asked of, beside all
    weights: bool = False  # a column may say how much its loss of detail counts
    reasons: Mapping[str, str] = field(default_factory=dict)  # why a key is refused, where it is another one


RULES: Mapping[str, ShapeRules] = {
    ENTITY: ShapeRules(
        "an entity: all its rows together",
        roles={
            "identifier": (0, None),
            "quasi_identifier": (1, None),
            "sensitive": (0, None),
            "insensitive": (0, None),
        },
        hierarchies=("quasi_identifier", "sensitive"),
        keys=("hierarchies", "sensitive_nulls", "absent_values", "transformations", "minimize"),
        joins=True,
        aims=("attribute",),
        weights=True,
        reasons={
            "qids": "a signature is made of all quasi-identifiers",
            "nulls": "two NULLs match, or no two persons were alike",
        },
    ),
    SET: ShapeRules(
        "a set of items",
        roles={"identifier": (0, None), "item": (1, 1), "sensitive": (0, 1)},
        hierarchies=("item",),
        keys=("hierarchies", "absent_values"),
    ),
    SEQUENCE: ShapeRules(
        "a sequence of places by time",
        roles={"identifier": (0, None), "time": (1, 1), "place": (1, 2), "stay": (0, 1), "sensitive": (0, 1)},
        hierarchies=("time", "place", "stay"),
        keys=("hierarchies", "absent_values"),
    ),
}
REASONS: Mapping[str, str] = {
    "qids": "an attacker knows items, and no other columns",
    "population": "persons are not looked up in a population",
    "transformations": "they change rows one by one, and would change who has which items",
    "history": "releases are not compared with each other",
    "suppressed_rows": "what is suppressed is left out",
    "suppressed_cells": "there are no cells to suppress",
    "nulls": "NULL is refused where an item or a person should be",
    "sensitive_nulls": "NULL is refused in the sensitive column",
    "linked_rows": "the rows of a person belong together, and the models look at all of them",
    "minimize": "each algorithm has a loss of its own",
}


def problems(draft: Draft) -> Iterator[PolicyProblem]:
    shape = draft.shape()
    if draft.data.get("shape", ROWS) != shape:
        return  # no shape, which is told elsewhere
    yield from _check_models(draft, shape)
    yield from _check_algorithm(draft, shape)
    if shape == ROWS:
        yield from _check_roles_of_rows(draft)
        return
    rules = RULES.get(shape)
    if rules is None:
        yield PolicyProblem(f"'shape: {shape}' is not done yet", f"it is one of {_known()}", ("shape",))
        return
    if draft.person() is None:
        hint = "add 'person: …', the column whose values tell whose row it is"
        yield PolicyProblem(f"'shape: {shape}' needs a person column: a person is {rules.said}", hint, ("shape",))
    for key in draft.data:
        if key in Policy.model_fields and key not in (*COMMON, *rules.keys):
            reason = rules.reasons.get(key) or REASONS.get(key, f"a person is {rules.said}")
            message = f"'{key}' cannot be combined with 'shape: {shape}': {reason}"
            yield PolicyProblem(message, f"leave '{key}' out", (key,))
    if draft.mapping("source").get("joins") and not rules.joins:
        hint = "join them in a view or 'query:' first"
        yield PolicyProblem(f"'shape: {shape}' does not read joined tables", hint, ("source", "joins"))
    yield from _check_roles(draft, shape, rules)


def require_shape(policy: Policy, what: str, *shapes: str) -> None:
    """Refuse what is not done for policies of a shape; without `shapes` it is done for rows alone."""
    allowed = shapes or (ROWS,)
    if policy.shape not in allowed:
        raise PolicyError(
            f"{what} cannot be done for 'shape: {policy.shape}'",
            hint=f"'sqlanon check', 'publish' and 'risk' read it; this needs 'shape: {' or '.join(allowed)}'",
        )


def _known() -> str:
    return ", ".join((ROWS, *RULES))


def _check_roles_of_rows(draft: Draft) -> Iterator[PolicyProblem]:
    for name, role in draft.roles().items():
        fitting = [shape for shape, rules in RULES.items() if role is not None and role in rules.roles]
        if role in ("item", "time", "place", "stay"):
            hint = f"add 'shape: {fitting[0]}'" if fitting else "give it another role"
            yield PolicyProblem(f"the role {role} of '{name}' means nothing for single rows", hint, ("columns", name))


def _check_roles(draft: Draft, shape: str, rules: ShapeRules) -> Iterator[PolicyProblem]:
    roles = draft.roles()
    for name, role in roles.items():
        if role is not None and role not in rules.roles:
            hint = f"the roles here are {', '.join(rules.roles)}; leave the column out with a 'query:'"
            message = f"column '{name}' cannot be {role} with 'shape: {shape}': a person is {rules.said}"
            yield PolicyProblem(message, hint, ("columns", name))
    for role, (least, most) in rules.roles.items():
        named = [name for name, given in roles.items() if given == role]
        if len(named) < least and None not in roles.values() and roles:
            hint = f"give {least} column{'s' * (least > 1)} the role {role}"
            yield PolicyProblem(
                f"'shape: {shape}' needs a column of the role {role}, none is declared", hint, ("columns",)
            )
        if most is not None and len(named) > most:
            message = f"'shape: {shape}' takes {most} column{'s' * (most > 1)} of the role {role}, not {len(named)}"
            yield PolicyProblem(message, "leave the others out with a 'query:'", ("columns", named[most]))
    for name, given in draft.mapping("columns").items():
        for key in ("pseudonym", "weight"):
            if isinstance(given, Mapping) and key in given and not (key == "weight" and rules.weights):
                message = f"'{key}' of '{name}' cannot be combined with 'shape: {shape}'"
                said = (
                    "a fresh number stands in place of the person" if key == "pseudonym" else "loss has no weights here"
                )
                yield PolicyProblem(f"{message}: {said}", f"leave '{key}' out", ("columns", name, key))
    for name in draft.mapping("hierarchies"):
        role = roles.get(name)
        if role is not None and role not in rules.hierarchies and role != "identifier":
            message = (
                f"hierarchy for '{name}', but with 'shape: {shape}' a column of the role {role} is not generalized"
            )
            yield PolicyProblem(message, "remove the hierarchy", ("hierarchies", name))


def _check_models(draft: Draft, shape: str) -> Iterator[PolicyProblem]:
    known, fitting = family("models"), models_of_shape(shape)
    for index, item in enumerate(draft.model_items()):
        if not isinstance(item, Mapping) or len(item) != 1:
            continue  # the shape of the list is checked elsewhere
        name, given = next(iter(item.items()))
        path: KeyPath = ("models", index, name)
        if name in known and name not in fitting:
            hint = (
                f"add 'shape: {known[name].shapes[0]}'"
                if shape == ROWS
                else f"the models here are {', '.join(fitting)}"
            )
            yield PolicyProblem(f"{name} is not defined for 'shape: {shape}'", hint, path)
        aims = RULES[shape].aims if shape in RULES else ()
        for key in ("attribute", "qid"):
            if shape != ROWS and key not in aims and isinstance(given, Mapping) and key in given:
                message = f"{name}: '{key}' means nothing with 'shape: {shape}'"
                yield PolicyProblem(message, f"leave '{key}' out", (*path, key))


def _check_algorithm(draft: Draft, shape: str) -> Iterator[PolicyProblem]:
    given = draft.data.get("algorithm")
    if isinstance(given, Mapping) and len(given) == 1:
        given = next(iter(given))
    if not isinstance(given, str) or given not in module_names("algorithms"):
        return
    shapes = algorithm_traits(given).shapes
    if shape not in shapes:
        fitting = [name for name in module_names("algorithms") if shape in algorithm_traits(name).shapes]
        hint = f"add 'shape: {shapes[0]}'" if shape == ROWS else f"the algorithms here are {', '.join(fitting)}"
        hint = did_you_mean(given, fitting) or hint
        yield PolicyProblem(f"{given} does not protect 'shape: {shape}'", hint, ("algorithm",))
