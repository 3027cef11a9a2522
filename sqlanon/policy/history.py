"""The section `history`: what must hold across all releases of a table, and how much may be held back for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from sqlanon.errors import did_you_mean
from sqlanon.families import family
from sqlanon.policy import shape
from sqlanon.policy.checks import Draft
from sqlanon.policy.parts import SHARED, ModelUse, Number, OptionalText, Text
from sqlanon.policy.yaml_lines import KeyPath, PolicyProblem


class HistoryUse(BaseModel):
    """A model across releases with its parameters; written `model: {parameter: value}`."""

    model_config = SHARED
    name: Text
    params: dict[str, Any] = Field(default_factory=dict)
    attribute: OptionalText = Field(None, description="Sensitive column; every sensitive column if left out.")

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or len(value) != 1 or "name" in value:
            return value
        name, given = next(iter(value.items()))
        if given is not None and not isinstance(given, Mapping):
            return value
        split = dict(given or {})
        own = {"attribute": split.pop("attribute")} if "attribute" in split else {}
        return {"name": name, "params": split, **own}


class History(BaseModel):
    """A table that is released again and again, each time checked against all that was released before."""

    model_config = SHARED
    models: tuple[HistoryUse, ...] = Field((), description="Models across releases; chosen by `models` if left out.")
    hold_back: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.05, description="Share of rows that may be held back for a later release."
    )
    encrypt: Annotated[bool, Field(strict=True)] = Field(
        False, description="Encrypt what is kept about persons, so that it is useless without the key."
    )

    beside: tuple[Text, ...] | None = Field(
        None, description="Releases of other names of the same persons: joined with this one, as an attacker would."
    )

    def uses(self, models: tuple[ModelUse, ...], *, sensitive: bool) -> tuple[HistoryUse, ...]:
        """What is asked for, or else the safe choice: see `chosen`."""
        found = self.models or (default_history(models, sensitive=sensitive),)
        if self.beside and not any(joins_releases(use.name) for use in found):
            found += (
                HistoryUse(
                    name="join_of_views", params={"k": default_history(models, sensitive=sensitive).params["k"]}
                ),
            )
        return found


def joins_releases(name: str) -> bool:
    """Whether a model looks at releases of other names, joined with the new one."""
    return name in family("history") and "join" in family("history")[name].traits


def default_history(models: tuple[ModelUse, ...], *, sensitive: bool) -> HistoryUse:
    """An attacker who compares releases, and knows who was in each, finds no set of fewer persons than k, nor one whose
    sensitive values are all the same. Most models say how a class is like the table, which no part of one can be: for
    them it is two values."""
    ks = [int(use.params["k"]) for use in models if isinstance(use.params.get("k"), int)]
    ls = [math.ceil(use.params["l"]) for use in models if isinstance(use.params.get("l"), int | float)]
    return HistoryUse(name="stable_partition", params={"k": max([2, *ks, *ls]), "l": max([2 if sensitive else 1, *ls])})


def problems(draft: Draft) -> Iterator[PolicyProblem]:
    given = draft.data.get("history")
    if not isinstance(given, Mapping):
        return
    here: KeyPath = ("history",)
    if draft.person() is None:
        yield PolicyProblem(
            "history needs a person column", "add 'person: …': releases are compared person by person", here
        )
    release = draft.data.get("release")
    if not isinstance(release, Mapping) or not (release.get("table") or release.get("view")):
        yield PolicyProblem("history needs a release in the database", "add 'release: {view: …}'", here)
    if draft.data.get("suppressed_rows") == "keep":
        hint = "leave 'suppressed_rows' out"
        yield PolicyProblem("history cannot tell a kept row of '*' from a person who left", hint, ("suppressed_rows",))
    if "beside" in given and isinstance(release, Mapping):
        own = release.get("table") or release.get("view")
        if isinstance(given["beside"], list) and own in given["beside"]:
            yield PolicyProblem(
                f"'{own}' cannot be beside itself",
                "leave it out: its own versions are always compared",
                (*here, "beside"),
            )
    listed = given.get("models")
    for index, item in enumerate(listed if isinstance(listed, list) else ()):
        yield from _use(draft, item, ("history", "models", index))


def _use(draft: Draft, item: Any, path: KeyPath) -> Iterator[PolicyProblem]:
    if not isinstance(item, Mapping) or len(item) != 1:
        yield PolicyProblem("a model is one name with its parameters", "write '- stable_partition: {k: 5}'", path)
        return
    name, given = next(iter(item.items()))
    path, known = (*path, name), family("history")
    if name not in known:
        hint = did_you_mean(str(name), known) or f"there are {', '.join(known)}"
        yield PolicyProblem(f"unknown model across releases '{name}'", hint, path)
        return
    if given is not None and not isinstance(given, Mapping):
        hint = f"write '- {name}: {{parameter: value}}'"
        yield PolicyProblem(f"{name} takes a mapping of parameters, not {shape.describe(given)}", hint, path)
        return
    if joins_releases(name) and not (
        isinstance(draft.data["history"], Mapping) and draft.data["history"].get("beside")
    ):
        yield PolicyProblem(f"{name} needs other releases", "name them: 'history: {beside: [other_release]}'", path)
    params = dict(given or {})
    attribute, sensitive = params.pop("attribute", None), draft.with_role("sensitive")
    if attribute is not None and attribute not in sensitive:
        hint = did_you_mean(str(attribute), sensitive) or f"the sensitive columns are {', '.join(sensitive)}"
        yield PolicyProblem(f"{name}: attribute '{attribute}' is no sensitive column", hint, (*path, "attribute"))
    for key, message, hint_ in known[name].problems(params):
        yield PolicyProblem(message, hint_, (*path, key) if key else path)
    if "sensitive" in known[name].needs and not sensitive:
        yield PolicyProblem(
            f"{name} needs a sensitive column, none is declared", "give a column the role sensitive", path
        )
