"""What the gateway may use of a column: its bounds, its declared keys, or nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, PlainValidator, model_validator
from pydantic.json_schema import JsonSchemaValue, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError

from sqlanon.errors import did_you_mean
from sqlanon.policy.dates import date_of
from sqlanon.policy.shape import Expected, describe

MAX_KEYS = 10_000
MAX_LENGTH = 1_000  # characters of a text that are looked at, where a policy does not say
LONGEST = 10_000

Text = Annotated[str, Field(min_length=1)]
Flag = Annotated[bool, Field(strict=True)]


class Part(BaseModel):
    # Validators are built when they are first used: a worker gets its policy from the server, and validates nothing.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def wrong(said: str, hint: str, at: str | int = "") -> PydanticCustomError:
    return PydanticCustomError("policy", "{said}", {"said": said, "hint": hint, "at": at})


def _bound(value: Any) -> Any:
    """A number or a date; JSON has no dates, so that one between quotes is read too."""
    found = date_of(value) if isinstance(value, str) else value
    if found is None and value is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float | date):
        hint = "write 18, 0.5, 1900-01-01 or 1900-01-01 12:30:00, a time without its zone"
        raise wrong(f"must be a number or a date, not {describe(value)}", hint)
    if isinstance(found, float) and not math.isfinite(found):
        raise wrong(f"must be a finite number, not {found}", "values outside are moved to the nearer bound")
    return found


def _keys(value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise wrong(f"must be a list such as [R0, R1, R2], not {describe(value)}", "these keys appear, and no others")
    if not value:
        raise wrong("must not be empty", "leave it out if the keys are not to be declared")
    if len(value) > MAX_KEYS:
        raise wrong(f"must have at most {MAX_KEYS:,} items", "leave it out, and the keys are found in the data")
    seen: dict[Any, int] = {}
    for index, key in enumerate(value):
        if type(key) not in (str, int, bool, date, datetime):
            said = f"must hold text, integers, true and false, or dates, not {describe(key)}"
            raise wrong(f"{said} as item {index + 1}", "put quotes around it if it is meant as text", index)
        if type(key) is not type(value[0]):
            said = f"must hold keys of one type, not {_kind(value[0])} and {_kind(key)}"
            raise wrong(said, "write all of them alike; quotes make text", index)
        if key in seen:
            raise wrong(f"has one key twice, as items {seen[key] + 1} and {index + 1}", "keep one", index)
        seen[key] = index
    return tuple(value)


def _kind(key: Any) -> str:
    named = {bool: "true or false", int: "integers", str: "text", date: "dates", datetime: "dates with times"}
    return named[type(key)]


_BOUND_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}"}]}
_KEYS_SCHEMA = {
    "type": "array",
    "items": {"type": ["string", "integer", "boolean"]},
    "minItems": 1,
    "maxItems": MAX_KEYS,
    "uniqueItems": True,
}
Bound = Annotated[int | float | datetime | date | None, PlainValidator(_bound), WithJsonSchema(_BOUND_SCHEMA)]
Keys = Annotated[
    tuple[str | bool | int | datetime | date, ...] | None, PlainValidator(_keys), WithJsonSchema(_KEYS_SCHEMA)
]


class GatewayColumn(Part):
    """What an answer may use of a column; written `hidden` for nothing at all."""

    low: Bound = Field(None, description="Smallest value; what lies below counts as this one.")
    high: Bound = Field(None, description="Largest value; what lies above counts as this one.")
    keys: Keys = Field(None, description="Declared keys: these appear in an answer, and no others.")
    max_length: Annotated[
        int | None, Field(strict=True, ge=1, le=LONGEST), Expected(f"an integer from 1 to {LONGEST}")
    ] = Field(None, description="Characters of a text that are looked at; 1000 if left out.")
    complete: Flag = Field(
        False, description="Every row has one of the keys, so that groups by it add up to the whole."
    )
    hidden: Flag = Field(False, description="The column may not be used at all.")

    @model_validator(mode="before")
    @classmethod
    def _hidden_alone(cls, value: Any) -> Any:
        if isinstance(value, Mapping | GatewayColumn):
            return value
        if value == "hidden":
            return {"hidden": True}
        takes = "'hidden', or a mapping such as {low: 18, high: 95} or {keys: [R0, R1]}"
        if isinstance(value, str):
            raise wrong(f"cannot be '{value}'", did_you_mean(value, ["hidden"]) or f"it is {takes}")
        raise wrong(f"must be {takes}, not {describe(value)}", "what an answer may use of the column")

    @model_validator(mode="after")
    def _consistent(self) -> GatewayColumn:
        low, high = self.low, self.high
        if self.hidden and not (low is None and high is None and self.keys is None and self.max_length is None):
            raise wrong("is hidden, and has bounds or keys all the same", "keep one of both", "hidden")
        if self.complete and self.keys is None:
            raise wrong("is complete, and has no keys", "list its keys, or leave complete out", "complete")
        if (low is None) != (high is None):
            given, lacks = ("low", "high") if high is None else ("high", "low")
            raise wrong(f"has {given} but not {lacks}", "give both", given)
        if low is None or high is None:
            return self
        of_one_kind = type(low) is type(high) or not (isinstance(low, date) or isinstance(high, date))
        if not of_one_kind:
            raise wrong(f"has {_bound_kind(low)} as low and {_bound_kind(high)} as high", "use one kind", "high")
        if low >= high:  # type: ignore[operator]  # both are numbers, both are dates, or both have times
            raise wrong(f"has low {low}, which is not below high {high}", "give low < high", "low")
        if not isinstance(low, date) and not isinstance(high, date) and not math.isfinite(float(high) - float(low)):
            raise wrong("has low and high too far apart", "give bounds that fit the data", "high")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"const": "hidden"}, handler.resolve_ref_schema(handler(core))]}


def _bound_kind(value: Any) -> str:
    return describe(value) if isinstance(value, date) else "a number"
