"""The parts of a policy: the source, the release, columns, and what is used of hierarchies, models and algorithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, PrivateAttr, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError

from sqlanon import hierarchies, transformations
from sqlanon.policy import schema
from sqlanon.policy.checks import Role

Text = Annotated[str, Field(min_length=1)]
OptionalText = Text | None
Names = Annotated[tuple[Text, ...], Field(min_length=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]  # strict: the text "0.05" is not a number

# Validators are built when they are first used: a process that gets a policy from another one validates nothing.
SHARED = ConfigDict(frozen=True, extra="forbid", defer_build=True)


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
    query: OptionalText = Field(None, description="SQL text of a SELECT; :due in it is the time of the refresh.")
    path: OptionalText = Field(None, description="File of rows (Parquet, CSV, JSON, Excel or Feather), folder or glob.")
    joins: tuple[Join, ...] = Field((), description="Child tables along foreign keys.")
    _due: datetime | None = PrivateAttr(None)  # what :due stands for in the query

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

    @property
    def due(self) -> datetime | None:
        return self._due

    def at(self, moment: datetime) -> Source:
        """The same rows as of a time, where the query asks for it."""
        found = self.model_copy()
        found._due = moment
        return found


class Release(BaseModel):
    """Where the release is written: exactly one of table, view and path."""

    model_config = SHARED
    table: OptionalText = Field(None, description="Table to write.")
    view: OptionalText = Field(None, description="View to write.")
    path: OptionalText = Field(
        None, description="Parquet or CSV file to write; or a folder, ending in '/', with one file a version."
    )
    audience: OptionalText = Field(None, description="Whom it is shown to, for the record.")
    keep: Annotated[int, Field(strict=True, ge=0, le=1000)] = Field(
        0, description="How many earlier versions stay, to go back to; of a view or a folder."
    )

    @model_validator(mode="after")
    def _one_of(self) -> Release:
        _require_one_of(self, ("table", "view", "path"))
        if self.keep and not (self.view or self.is_folder):
            said, hint = "a table or a single file keeps no earlier versions", "release a view, or a folder 'name/'"
            raise PydanticCustomError("policy", "{said}", {"said": said, "hint": hint, "at": "keep"})
        return self

    @property
    def is_folder(self) -> bool:
        return self.path is not None and self.path.endswith("/")

    @property
    def name(self) -> str:
        """The table, view or path itself."""
        return self.table or self.view or self.path or ""


class Column(BaseModel):
    """A column and what it is to an attacker."""

    model_config = SHARED
    role: Role = Field(description="What the column is to an attacker.")
    weight: Annotated[Number, Field(gt=0)] = Field(1.0, description="How much its loss of detail counts.")
    pseudonym: Annotated[bool, Field(strict=True)] = Field(
        False,
        description="Release an identifier as a keyed hash, in place of leaving it out. It links the rows of a person: "
        "then whole sets of rows must be shared.",
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
        if self.kind not in hierarchies.names():
            raise PydanticCustomError("policy", "unknown kind of hierarchy")
        hierarchies.kind(self.kind).Params.model_validate(self.params)
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


class TransformationUse(BaseModel):
    """A method that changes values before a release is searched for; written `method: {parameter: value}`."""

    model_config = SHARED
    name: str
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or len(value) != 1 or "name" in value:
            return value
        name, params = next(iter(value.items()))
        return {"name": name, "params": {} if params is None else params}

    @model_validator(mode="after")
    def _valid_params(self) -> TransformationUse:
        if self.name not in transformations.names():
            raise PydanticCustomError("policy", "unknown transformation")
        transformations.method(self.name).Params.model_validate(self.params)
        return self

    def changed(self) -> tuple[str, ...]:
        """The columns that the method changes."""
        names: tuple[str, ...] = transformations.method(self.name).Params.model_validate(self.params).changed()
        return names

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return schema.of_transformation(handler)


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
