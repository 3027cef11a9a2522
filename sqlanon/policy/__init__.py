"""The policy: what the data owner asks for, read from YAML or from options, and checked once at the door."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, PrivateAttr, ValidationError

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import AlgorithmTraits, algorithm_traits, family
from sqlanon.policy import checks, history, options, schema, shape, suppressed_cells, transformation_checks, yaml_lines
from sqlanon.policy.checks import Draft, Role
from sqlanon.policy.history import History
from sqlanon.policy.parts import (
    SHARED,
    AlgorithmUse,
    Column,
    HierarchyUse,
    Join,
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

# Of the gateway, in the same file: what reads them is loaded with them (`policy.files`), since few files have any.
SECTIONS = ("gateway", "serve", "marginals")
RESERVED = "\u2205 "  # what the names of columns begin with that statements put beside a user's own

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


class Policy(BaseModel):
    """What the owner of the data asks for."""

    model_config = SHARED
    source: Source = Field(description="The rows to protect.")
    columns: Annotated[dict[Text, Column], Field(min_length=1)] = Field(description="Role of each column.")
    person: OptionalText = Field(None, description="Column whose distinct values are persons.")
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
        return path if "://" in path or path == ":memory:" else str(self.base / path)

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


def load(path: str | Path) -> Policy:
    """Read and check a policy file."""
    file = Path(path)
    return parse(yaml_lines.text_of(file), file.name, file.parent)


def parse(text: str, name: str = "policy.yml", base: Path = Path(".")) -> Policy:
    """Check the text of a policy file; all that is wrong with it is told at once."""
    document = yaml_lines.read_yaml(text, is_text, is_date)
    return build(document.data, Origin(name, base, document.lines), document.problems)


def from_options(
    source: str | Mapping[str, Any],
    *,
    qi: Sequence[str] = (),
    sensitive: Sequence[str] = (),
    identifiers: Sequence[str] = (),
    insensitive: Sequence[str] = (),
    person: str | None = None,
    models: Sequence[tuple[str, Mapping[str, Any]]] = (),
    base: Path = Path("."),
    **settings: Any,
) -> Policy:
    """The same policy from command line options; `settings` are further keys of a policy, None if not given.

    Errors have no line but name the option: `--source`, `--qi`, `--sensitive`, `--identifier`,
    `--insensitive`, `--person`, `--model`, and `--suppression-limit` for the setting `suppression_limit`.
    """
    roles = {
        "quasi_identifier": qi,
        "sensitive": sensitive,
        "identifier": identifiers,
        "insensitive": insensitive,
    }
    data, places, problems = options.as_written(source, roles, models, {"person": person, **settings})
    return build(data, Origin("the options", base, places), problems)


def build(data: Any, origin: Origin, found: Iterable[PolicyProblem]) -> Policy:
    """The policy in what was read from a file or from options."""
    if isinstance(data, Mapping) and any(name in data for name in SECTIONS):
        from sqlanon.policy import files

        return files.build(data, origin, found, files.PolicyFile)
    policy = validate_file(data, origin, found, Policy)
    policy._origin = origin
    return policy


_Model = TypeVar("_Model", bound=BaseModel)


def validate_file(
    data: Any,
    origin: Origin,
    found: Iterable[PolicyProblem],
    model: type[_Model],
    more: Callable[[Draft], Iterable[PolicyProblem]] = lambda _: (),
) -> _Model:
    """A file as a model; raises one error that tells all that is wrong, `more` of which its sections may know."""
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
        from sqlanon.policy.files import PolicyFile

        # For hints: a misspelt key may be any that a file can have.
        whole = PolicyFile if issubclass(model, Policy) else model
        misshapen = list(shape.problems(error, whole, data, expected=EXPECTED))
    empty = {problem.path: problem for problem in checks.empty_values(draft)}
    for problem in misshapen:
        if problem.message.startswith("unknown key"):
            empty.pop(problem.path, None)
    problems += empty.values()
    problems += [problem for problem in misshapen if not _told_elsewhere(problem, empty)]
    problems += [*checks.problems(draft), *history.problems(draft), *transformation_checks.problems(draft)]
    problems += [*suppressed_cells.problems(draft), *more(draft)]
    if policy is None or problems:
        raise yaml_lines.report(problems or misshapen, origin)
    return policy


def _told_elsewhere(problem: PolicyProblem, told: Container[KeyPath]) -> bool:
    # Models and hierarchies are checked against their own headers, which say more than a type can.
    checked = problem.path[:1] in (("models",), ("hierarchies",), ("transformations",)) and len(problem.path) > 1
    return checked or problem.path in told


def is_text(path: KeyPath) -> bool:
    """Where a number or boolean is meant as text: names of columns and tables, and text parameters."""
    match path:
        case (name, *_) if name in SECTIONS:
            from sqlanon.policy import files

            return files.is_text(path)
        case ("person" | "minimize" | "nulls" | "sensitive_nulls" | "linked_rows" | "algorithm",):
            return True
        case ("suppressed_rows" | "suppressed_cells",):
            return True
        case ("release", "keep"):
            return False
        case ("source" | "population" | "release" | "qids", *_):
            return True
        case ("models", _, _, "attribute" | "qid", *_):
            return True
        case ("transformations", _, _, "columns" | "strata" | "within", *_):
            return True
        case ("models", _, str(name), str(key), *_) if name in family("models"):
            param = family("models")[name].param(key)
            return param is not None and param.type in ("text", "columns")
    return False


def is_date(path: KeyPath) -> bool:
    """Where a plain 2024-01-31 is a date."""
    match path:
        case ("gateway", "tables", _, "columns", _, "low" | "high") | ("gateway", "tables", _, "columns", _, "keys", _):
            return True
    return False


def _kind(data: Any) -> str:
    return shape.describe(data) if isinstance(data, str | list) else "a single value"


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


def json_schema() -> dict[str, Any]:
    """JSON Schema of a policy file, for completion and checks in editors."""
    from sqlanon.policy.files import PolicyFile

    return schema.of_policy(PolicyFile)


__all__ = [
    "AlgorithmUse", "Column", "HierarchyUse", "Join", "ModelUse", "Policy", "Release", "Source", "TransformationUse",
    "from_options", "json_schema", "load", "missing_columns", "parse",
]  # fmt: skip
