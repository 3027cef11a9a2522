"""The policy as a value: what the data owner asks for, with the line of each part for errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, PrivateAttr

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import AlgorithmTraits, algorithm_traits
from sqlanon.policy import yaml_lines
from sqlanon.policy.checks import Role
from sqlanon.policy.database_names import is_url
from sqlanon.policy.history import History
from sqlanon.policy.parts import (
    SHARED,
    AlgorithmUse,
    Column,
    HierarchyUse,
    ModelUse,
    Names,
    Number,
    OptionalText,
    Release,
    Source,
    Text,
    TransformationUse,
)
from sqlanon.policy.schedule import Schedule
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem

RESERVED = "\u2205 "  # what the names of columns begin with that statements put beside a user's own


class Policy(BaseModel):
    """What the owner of the data asks for."""

    model_config = SHARED
    source: Source = Field(description="The rows to protect.")
    columns: Annotated[dict[Text, Column], Field(min_length=1)] = Field(description="Role of each column.")
    person: OptionalText = Field(None, description="Column whose distinct values are persons.")
    shape: Literal["rows", "entity", "set", "sequence"] = Field(
        "rows",
        description="What the rows of a person are together: nothing more, an entity, a set of items, or a sequence "
        "of places by time.",
    )
    qids: dict[Text, Names] = Field(
        default_factory=dict, description="Named quasi-identifiers; one with all of them if left out."
    )
    hierarchies: dict[Text, HierarchyUse] = Field(default_factory=dict, description="How columns are generalized.")
    models: Annotated[tuple[ModelUse, ...], Field(min_length=1)] = Field(
        description="Privacy models, all of which must hold."
    )
    transformations: tuple[TransformationUse, ...] = Field(
        (), description="Methods that change values before the search, in this order."
    )
    suppression_limit: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.0, description="Share of rows that may be suppressed."
    )
    suppressed_rows: Literal["drop", "keep"] = Field(
        "drop", description="Whether suppressed rows are left out or kept as rows of '*'."
    )
    suppressed_cells: Literal["own_value", "any_value"] = Field(
        "own_value",
        description="Whether a suppressed cell matches suppressed cells only, or any value, which promises less; the "
        "latter for k_anonymity and local_suppression.",
    )
    nulls: Literal["value", "unique"] = Field(
        "value", description="Whether two NULLs match, or a row with a NULL matches no other row."
    )
    sensitive_nulls: Literal["unknown", "value"] = Field(
        "unknown",
        description="Whether a NULL in a sensitive column is an unknown value, which protects nobody, or a value.",
    )
    linked_rows: Literal["refuse", "accept"] = Field(
        "refuse",
        description="Whether a release may single out persons by the set of their rows, where a column links these.",
    )
    absent_values: Literal["refuse", "allow"] = Field(
        "refuse", description="Whether a model may name a sensitive value that the data does not hold."
    )
    population: Source | None = Field(
        None, description="The people among whom a released person could be anyone; in the same database."
    )
    minimize: Text = Field("ncp", description="Loss metric that the search minimizes.")
    algorithm: AlgorithmUse | None = Field(
        None, description="How the anonymization is found; chosen by the size of the task if left out."
    )
    release: Release | None = Field(None, description="Where the release is written.")
    history: History | None = Field(
        None, description="What must hold across all releases; each one is taken by itself if left out."
    )
    schedule: Schedule | None = Field(None, exclude=True, description="When the release is refreshed.")
    _origin: Origin = PrivateAttr(default_factory=Origin)
    _written_paths: dict[str, str] = PrivateAttr(default_factory=dict)  # by part, where `located` moved them

    @property
    def name(self) -> str:
        """Name of the file, as errors show it."""
        return self._origin.name

    @property
    def base(self) -> Path:
        """Folder that relative paths start from."""
        return self._origin.base

    @property
    def quasi_identifiers(self) -> tuple[str, ...]:
        return self._with_role("quasi_identifier")

    @property
    def algorithm_traits(self) -> AlgorithmTraits:
        """What is special about the algorithm that the policy asks for."""
        return algorithm_traits(self.algorithm.name if self.algorithm is not None else None)

    @property
    def items(self) -> tuple[str, ...]:
        return self._with_role("item")

    @property
    def times(self) -> tuple[str, ...]:
        return self._with_role("time")

    @property
    def places(self) -> tuple[str, ...]:
        return self._with_role("place")

    @property
    def stays(self) -> tuple[str, ...]:
        return self._with_role("stay")

    @property
    def visit_columns(self) -> tuple[str, ...]:
        """What makes a visit of a journey: when, where, and how long."""
        return (*self.times, *self.places, *self.stays)

    @property
    def sensitive(self) -> tuple[str, ...]:
        return self._with_role("sensitive")

    @property
    def identifiers(self) -> tuple[str, ...]:
        return self._with_role("identifier")

    def _with_role(self, role: Role) -> tuple[str, ...]:
        return tuple(name for name, column in self.columns.items() if column.role == role)

    def qid_sets(self, *, drop_contained: bool = False) -> dict[str, tuple[str, ...]]:
        """The named quasi-identifiers, or one called 'all'.

        k-anonymity on a set of columns implies it on each subset: `drop_contained` leaves those out.
        """
        sets = dict(self.qids) or {"all": self.quasi_identifiers}
        if not drop_contained:
            return sets
        kept: dict[str, tuple[str, ...]] = {}
        for name, columns in sorted(sets.items(), key=lambda item: -len(item[1])):
            if not any(set(columns) <= set(other) for other in kept.values()):
                kept[name] = columns
        return {name: columns for name, columns in sets.items() if name in kept}

    def line_of(self, *path: str | int) -> int | None:
        """The line of a part of the policy, or of what encloses it; None if it came from options."""
        return self._origin.line_of(*path)

    def error(self, message: str, *path: str | int, hint: str | None = None) -> PolicyError:
        """What is wrong with a part of the policy, with its line."""
        return yaml_lines.report([PolicyProblem(message, hint, path)], self._origin)

    def locate(self, path: str) -> str:
        """A path of this policy seen from the working directory; URLs stay as they are."""
        return path if is_url(path) or path == ":memory:" else str(self.base / path)

    def at(self, moment: datetime) -> Policy:
        """This policy for a refresh that is due at a time."""
        return self.model_copy(update={"source": self.source.at(moment)})

    def located(self) -> Policy:
        """This policy with the paths of its files seen from the working directory."""
        if self._written_paths:
            return self
        parts = {"source": self.source, "population": self.population, "release": self.release}
        paths: dict[str, str] = {}
        moved: dict[str, Source | Release] = {}
        for key, part in parts.items():
            if part is not None and part.path is not None:
                paths[key] = part.path
                # A path in pieces loses the sign that it is a folder.
                ending = "/" if part.path.endswith("/") else ""
                moved[key] = part.model_copy(update={"path": self.locate(part.path).removesuffix("/") + ending})
        policy = self.model_copy(update=moved)
        policy._written_paths = paths
        return policy

    @property
    def written_paths(self) -> Mapping[str, str]:
        """The paths that `located` changed, as they were: source, population, release."""
        return self._written_paths


def missing_columns(policy: Policy, available: Sequence[str]) -> None:
    """Raise a PolicyError that lists every column of the policy that the source does not have; or names a column of
    the source, be it in the policy or not, that is called like those which statements put beside a user's own."""
    for name in available:
        if name.startswith(RESERVED):
            hint = "read the table through a view or 'query:' in which it is called something else"
            raise policy.error(
                f"column '{name}' of the source has a name that sqlanon uses itself", "source", hint=hint
            )
    # Quasi-identifiers and parameters name declared columns only, so these two are all.
    paths: dict[str, KeyPath] = {name: ("columns", name) for name in policy.columns}
    if policy.person is not None:
        paths.setdefault(policy.person, ("person",))
    shown = ", ".join(available[:20]) + (", …" if len(available) > 20 else "")
    hint = f"it has {shown}"
    if policy.source.path is not None and len(available) == 1 and any(sign in available[0] for sign in ",;|\t"):
        hint = "the rows of the file do not have the same number of fields, so that it was read as one column"
    problems = [
        PolicyProblem(f"column '{name}' is not in the source", did_you_mean(name, available) or hint, path)
        for name, path in paths.items()
        if name not in available
    ]
    if problems:
        raise yaml_lines.report(problems, policy._origin)
