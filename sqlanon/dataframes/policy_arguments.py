"""A policy from what Python has at hand: keywords, a dict, an object, or a file. All go through the same door."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sqlanon.errors import PolicyError
from sqlanon.policy import AlgorithmUse, Policy, Source, load, yaml_lines
from sqlanon.policy.options import SHORTHANDS
from sqlanon.policy.read_policy import build, is_date, is_text
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem
from sqlanon.release.evidence_document import serialize_policy

ROLES = {
    "quasi_identifiers": "quasi_identifier",
    "sensitive": "sensitive",
    "identifiers": "identifier",
    "insensitive": "insensitive",
}
Names = str | Iterable[str]
Models = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class PolicyArguments:
    """What keywords say of a policy; the meaning of each is that of the key of the same name, or of the model."""

    quasi_identifiers: Names = ()
    sensitive: Names = ()
    identifiers: Names = ()
    insensitive: Names = ()
    person: str | None = None
    k: int | None = None
    l: int | None = None  # noqa: E741 - as in the literature
    t: float | None = None
    models: Models = ()
    hierarchies: Mapping[str, Any] = field(default_factory=dict)
    suppression_limit: float | None = None
    algorithm: str | Mapping[str, Any] | None = None
    minimize: str | None = None

    def names(self) -> list[str]:
        """All columns that have a role, or tell persons apart."""
        found = [name for key in ROLES for name in _listed(getattr(self, key), key)]
        return [*found, *([self.person] if self.person else [])]

    def given(self) -> list[str]:
        """The keywords that say something."""
        return [item.name for item in fields(self) if not _is_left_out(getattr(self, item.name))]


def _is_left_out(value: Any) -> bool:
    return value is None or (isinstance(value, Sequence | Mapping) and not value)


def policy_for(source: Source, policy: Any, arguments: PolicyArguments, *, needs_model: bool = True) -> Policy:
    """The policy for rows that are read from a source: the one that is given, or the one that the keywords make."""
    if policy is None:
        return _from_arguments(source, arguments, needs_model)
    if also := arguments.given():
        raise PolicyError(
            f"a policy is given, and beside it {', '.join(also)}",
            hint="write it into the policy, or leave the policy out",
        )
    read = policy_of(policy, source)
    return read.model_copy(update={"source": source})


def policy_of(given: Any, source: Source | None = None, name: str = "") -> Policy:
    """A policy from an object, a dict, the path of a file or its text. All are checked, also an object that was put
    together in Python. A dict may leave out its source where the rows are known; errors call it by its `name`."""
    if isinstance(given, Policy):
        data = json.loads(serialize_policy(given))
        # Checked again, and the object itself is taken: it knows its lines, and its database.
        build(data, Origin(given.name, given.base, given._origin.places), ())
        return given
    if isinstance(given, Path):
        return load(given)
    if isinstance(given, str):
        return _of_text(given, source, name) if "\n" in given else load(given)
    if not isinstance(given, Mapping):
        raise PolicyError(
            f"a policy is a dict, a file or a Policy, not {type(given).__name__}",
            hint="for example {'columns': {'age': 'quasi_identifier'}, 'models': [{'k_anonymity': {'k': 5}}]}",
        )
    data = _plain(given)
    if source is not None:
        data.setdefault("source", source.model_dump(exclude_none=True, exclude_defaults=True))
    return build(data, Origin(name or "the dict"), ())


def _of_text(text: str, source: Source | None, name: str) -> Policy:
    """The text of a policy file, which may leave out its source where the rows are known."""
    document = yaml_lines.read_yaml(text, is_text, is_date)
    data = document.data
    if source is not None and isinstance(data, dict):
        data.setdefault("source", source.model_dump(exclude_none=True, exclude_defaults=True))
    return build(data, Origin(name or "policy.yml", places=document.lines), document.problems)


def _from_arguments(source: Source, given: PolicyArguments, needs_model: bool) -> Policy:
    data: dict[str, Any] = {"source": source.model_dump(exclude_none=True, exclude_defaults=True)}
    places: dict[KeyPath, int | str] = {("models",): "models", ("columns",): "quasi_identifiers"}
    problems: list[PolicyProblem] = []
    columns: dict[str, str] = {}
    for key, role in ROLES.items():
        for name in _listed(getattr(given, key), key):
            path: KeyPath = ("columns", name)
            if name in columns:
                said = f"column '{name}' is given twice, in {places[path]} and {key}"
                problems.append(PolicyProblem(said, "keep one", path))
                continue
            columns[name], places[path] = role, key
    if not given.quasi_identifiers and not given.models:
        raise PolicyError(
            "no quasi-identifier is given", hint="say which columns others may know: quasi_identifiers=['age', 'zip']"
        )
    asked: list[Any] = []
    for short, (model, key) in SHORTHANDS.items():
        if getattr(given, short) is not None:
            places["models", len(asked)] = short
            asked.append({model: {key: _plain(getattr(given, short))}})
    by_name = given.models.items() if isinstance(given.models, Mapping) else None
    asked += _plain(list(given.models) if by_name is None else [{name: params} for name, params in by_name])
    if not asked and needs_model:
        raise PolicyError("nothing is required", hint="say what must hold, for example k=5")
    data |= {"columns": columns, "models": asked or _least_models()}
    for key in ("person", "hierarchies", "suppression_limit", "algorithm", "minimize"):
        if not _is_left_out(value := getattr(given, key)):
            data[key] = _plain(value)
            places[(key,)] = key
    return build(data, Origin("the arguments", places=places), problems)


def with_default_algorithm(policy: Policy) -> Policy:
    """The policy with an algorithm, where it names none: the least loss of several. Where columns have no hierarchy,
    levels could only hide them, so that ranges alone are looked for."""
    if policy.algorithm is not None or policy.history is not None or policy.suppressed_cells != "own_value":
        return policy
    lacking = [name for name in policy.quasi_identifiers if name not in policy.hierarchies]
    return policy.model_copy(update={"algorithm": AlgorithmUse(name="mondrian" if lacking else "auto")})


def _least_models() -> list[dict[str, Any]]:
    """Where a policy must have a model though none is asked for: risks are measured whatever is promised."""
    name, param = SHORTHANDS["k"]
    return [{name: {param: 2}}]


def _listed(given: Names, key: str) -> list[str]:
    """Names of columns; one may be written without a list."""
    names = [given] if isinstance(given, str) else list(given)
    if odd := [name for name in names if not isinstance(name, str)]:
        raise PolicyError(f"{key} are names of columns, not {type(odd[0]).__name__}", hint="for example ['age', 'zip']")
    return names


def _plain(value: Any) -> Any:
    """Data as a policy file holds it: mappings, lists, texts and numbers of Python."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value.item() if hasattr(value, "item") and type(value).__module__ == "numpy" else value
