"""The policy: what the data owner asks for, read from YAML or from options, and checked once at the door."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError

from sqlanon import hierarchies
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import family
from sqlanon.policy import checks, options, schema, shape, yaml_lines
from sqlanon.policy.checks import Draft, Role
from sqlanon.policy.yaml_lines import KeyPath, Origin, Problem

Text = Annotated[str, Field(min_length=1)]
OptionalText = Text | None
Names = Annotated[tuple[Text, ...], Field(min_length=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]  # strict: the text "0.05" is not a number

SHARED = ConfigDict(frozen=True, extra="forbid")

# What a field takes, where its type alone would say too little in a message.
EXPECTED = {
    "source": "a mapping with table, view, query or path",
    "population": "a mapping with table, view, query or path",
    "release": "a mapping with table, view or path",
    "joins": "a list such as [{table: visits, on: patient_id}]",
    "on": "a column, or a mapping of columns to columns of the joined table",
    "columns": "a mapping of column names to roles",
    "weight": "a number greater than 0",
    "qids": "a mapping of names to lists of columns",
    "hierarchies": "a mapping of columns to hierarchies",
    "models": "a list such as [{k_anonymity: {k: 5}}]",
    "suppression_limit": "a number between 0 and 1",
    "pseudonym": "true or false",
    "algorithm": "the name of an algorithm, or a mapping of one name to its parameters",
}


def _require_one_of(part: BaseModel, keys: Sequence[str]) -> None:
    given = [key for key in keys if getattr(part, key) is not None]
    if len(given) == 1:
        return
    said, hint = f"needs one of {', '.join(keys)}", f"add '{keys[0]}: …', for instance"
    if given:
        said, hint = f"has {' and '.join(given)}", f"keep exactly one of {', '.join(keys)}"
    # A key that is there without a value is where to look; that it is empty is told once.
    at = given[-1:] or [key for key in keys if key in part.model_fields_set]
    raise PydanticCustomError("policy", "{said}", {"said": said, "hint": hint, "at": at[0] if at else ""})


class Join(BaseModel):
    """A child table that belongs to the source along a foreign key."""

    model_config = SHARED
    table: Text = Field(description="Child table, 'schema.table' allowed.")
    on: Annotated[dict[Text, Text], Field(min_length=1), WithJsonSchema(schema.TEXT_OR_TEXTS)] = Field(
        description="Column of what is already joined: column of the child; one name if both are equal."
    )

    @field_validator("on", mode="before")
    @classmethod
    def _same_name(cls, value: Any) -> Any:
        return {value: value} if isinstance(value, str) and value else value


class Source(BaseModel):
    """The rows to protect: exactly one of table, view, query and path."""

    model_config = SHARED
    database: OptionalText = Field(None, description="File or URL of the database; an in-memory DuckDB if left out.")
    table: OptionalText = Field(None, description="Table, 'schema.table' allowed.")
    view: OptionalText = Field(None, description="View, 'schema.view' allowed.")
    query: OptionalText = Field(None, description="SQL text of a SELECT.")
    path: OptionalText = Field(None, description="Parquet or CSV file, folder or glob.")
    joins: tuple[Join, ...] = Field((), description="Child tables along foreign keys.")

    @model_validator(mode="after")
    def _one_of(self) -> Source:
        _require_one_of(self, ("table", "view", "query", "path"))
        return self

    @property
    def kind(self) -> Literal["table", "view", "query", "path"]:
        return "table" if self.table else "view" if self.view else "query" if self.query else "path"

    @property
    def text(self) -> str:
        """The table, view, query or path itself."""
        return self.table or self.view or self.query or self.path or ""


class Release(BaseModel):
    """Where the release is written: exactly one of table, view and path."""

    model_config = SHARED
    table: OptionalText = Field(None, description="Table to write.")
    view: OptionalText = Field(None, description="View to write.")
    path: OptionalText = Field(None, description="Parquet or CSV file to write.")

    @model_validator(mode="after")
    def _one_of(self) -> Release:
        _require_one_of(self, ("table", "view", "path"))
        return self


class Column(BaseModel):
    """A column and what it is to an attacker."""

    model_config = SHARED
    role: Role = Field(description="What the column is to an attacker.")
    weight: Annotated[Number, Field(gt=0)] = Field(1.0, description="How much its loss of detail counts.")
    pseudonym: Annotated[bool, Field(strict=True)] = Field(
        False, description="Release an identifier as a keyed hash, in place of leaving it out."
    )

    @model_validator(mode="before")
    @classmethod
    def _role_alone(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping | Column) else {"role": value}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [schema["properties"]["role"], schema]}


class HierarchyUse(BaseModel):
    """A kind of hierarchy with its parameters; written `kind: {parameter: value}`."""

    model_config = SHARED
    kind: str
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or len(value) != 1 or "kind" in value:
            return value
        kind, params = next(iter(value.items()))
        return {"kind": kind, "params": {} if params is None else params}

    @model_validator(mode="after")
    def _valid_params(self) -> HierarchyUse:
        module = hierarchies.kinds().get(self.kind)
        if module is None:
            raise PydanticCustomError("policy", "unknown kind of hierarchy")
        module.Params.model_validate(self.params)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return schema.of_hierarchy(handler)


class ModelUse(BaseModel):
    """A privacy model with its parameters; written `model: {parameter: value}`."""

    model_config = SHARED
    name: str
    params: dict[str, Any] = Field(default_factory=dict)
    attribute: OptionalText = Field(None, description="Sensitive column; every sensitive column if left out.")
    qid: Text | Names | None = Field(None, description="Name of a qid, or a list of columns; every qid if left out.")

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or len(value) != 1 or "name" in value:
            return value
        name, given = next(iter(value.items()))
        if given is not None and not isinstance(given, Mapping):
            return value
        split = dict(given or {})
        reserved = {key: split.pop(key) for key in ("attribute", "qid") if key in split}
        return {"name": name, "params": split, **reserved}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        own = handler.resolve_ref_schema(handler(core))["properties"]
        return schema.of_model({"attribute": own["attribute"], "qid": own["qid"]})


class AlgorithmUse(BaseModel):
    """How the anonymization is found; written `name`, or `name: {parameter: value}`."""

    model_config = SHARED
    name: Text
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, Mapping) or len(value) != 1 or "name" in value:
            return value
        name, params = next(iter(value.items()))
        return {"name": name, "params": {} if params is None else params}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, {"type": "object", "minProperties": 1, "maxProperties": 1}]}


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
    suppression_limit: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.0, description="Share of rows that may be suppressed."
    )
    suppressed_rows: Literal["drop", "keep"] = Field(
        "drop", description="Whether suppressed rows are left out or kept as rows of '*'."
    )
    nulls: Literal["value", "unique"] = Field(
        "value", description="Whether two NULLs match, or a row with a NULL matches no other row."
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
        return yaml_lines.report([Problem(message, hint, path)], self._origin)

    def locate(self, path: str) -> str:
        """A path of this policy seen from the working directory; URLs stay as they are."""
        return path if "://" in path or path == ":memory:" else str(self.base / path)

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
                moved[key] = part.model_copy(update={"path": self.locate(part.path)})
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
    document = yaml_lines.read(text, _is_text)
    return _build(document.data, Origin(name, base, document.lines), document.problems)


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
    return _build(data, Origin("the options", base, places), problems)


def _build(data: Any, origin: Origin, found: Iterable[Problem]) -> Policy:
    problems = list(found)
    if not isinstance(data, Mapping):
        if not problems:
            said = "the policy is empty" if data is None else f"a policy is a mapping, not {_kind(data)}"
            problems = [Problem(said, "it needs the keys source, columns and models")]
        raise yaml_lines.report(problems, origin)
    draft = Draft(data, origin)
    policy: Policy | None = None
    misshapen: list[Problem] = []
    try:
        policy = Policy.model_validate(data)
    except ValidationError as error:
        misshapen = list(shape.problems(error, Policy, data, expected=EXPECTED))
    empty = {problem.path: problem for problem in checks.empty_values(draft)}
    for problem in misshapen:
        if problem.message.startswith("unknown key"):
            empty.pop(problem.path, None)
    problems += empty.values()
    problems += [problem for problem in misshapen if not _told_elsewhere(problem, empty)]
    problems += checks.problems(draft)
    if policy is None or problems:
        raise yaml_lines.report(problems or misshapen, origin)
    policy._origin = origin
    return policy


def _told_elsewhere(problem: Problem, told: Container[KeyPath]) -> bool:
    # Models and hierarchies are checked against their own headers, which say more than a type can.
    checked = problem.path[:1] in (("models",), ("hierarchies",)) and len(problem.path) > 1
    return checked or problem.path in told


def _is_text(path: KeyPath) -> bool:
    """Where a number or boolean is meant as text: names of columns and tables, and text parameters."""
    match path:
        case ("person" | "minimize" | "nulls" | "suppressed_rows" | "algorithm",):
            return True
        case ("source" | "population" | "release" | "qids", *_):
            return True
        case ("models", _, _, "attribute" | "qid", *_):
            return True
        case ("models", _, str(name), str(key), *_) if name in family("models"):
            param = family("models")[name].param(key)
            return param is not None and param.type in ("text", "columns")
    return False


def _kind(data: Any) -> str:
    return shape.describe(data) if isinstance(data, str | list) else "a single value"


def missing_columns(policy: Policy, available: Sequence[str]) -> None:
    """Raise a PolicyError that lists every column of the policy that the source does not have."""
    # Quasi-identifiers and parameters name declared columns only, so these two are all.
    paths: dict[str, KeyPath] = {name: ("columns", name) for name in policy.columns}
    if policy.person is not None:
        paths.setdefault(policy.person, ("person",))
    shown = ", ".join(available[:20]) + (", …" if len(available) > 20 else "")
    problems = [
        Problem(f"column '{name}' is not in the source", did_you_mean(name, available) or f"it has {shown}", path)
        for name, path in paths.items()
        if name not in available
    ]
    if problems:
        raise yaml_lines.report(problems, policy._origin)


def json_schema() -> dict[str, Any]:
    """JSON Schema of a policy file, for completion and checks in editors."""
    return schema.of_policy(Policy)
