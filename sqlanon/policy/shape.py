"""What pydantic finds wrong, said in the words of the person who wrote the policy."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sqlanon.errors import did_you_mean
from sqlanon.policy.yaml_lines import KeyPath, PolicyProblem

# Kinds of error that say "this should have been a ...", by what they begin with.
_TYPES = (
    ("string_", "text"),
    ("int_", "an integer"),
    ("float_", "a number"),
    ("decimal_", "a number"),
    ("bool_", "true or false"),
    ("list_", "a list"),
    ("tuple_", "a list"),
    ("set_", "a list"),
    ("dict_", "a mapping"),
    ("mapping_", "a mapping"),
    ("model_", "a mapping"),
    ("dataclass_", "a mapping"),
    ("datetime_", "a date and time"),
    ("date_", "a date"),
    ("time_", "a time"),
    ("path_", "a path"),
)
_BOUNDS = {"greater_than": ">", "greater_than_equal": ">=", "less_than": "<", "less_than_equal": "<="}
_BOUND_KEYS = ("gt", "ge", "lt", "le")


@dataclass(frozen=True)
class Expected:
    """What a field takes, in words: stands in its `Annotated`, where "a number" would be too little."""

    words: str


def describe(value: Any) -> str:
    """A value in plain words.

    >>> describe("5"), describe(1.5), describe({}), describe(None)
    ('text', '1.5', 'a mapping', 'nothing')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value}"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, date):
        return "a date and time" if isinstance(value, datetime) else "a date"
    return "nothing" if value is None else "text"


def problems(
    error: ValidationError,
    model: type[BaseModel],
    data: Any,
    prefix: KeyPath = (),
    expected: Mapping[str, str] | None = None,
) -> Iterator[PolicyProblem]:
    """One problem for each place that pydantic complains about.

    `expected` says in words what a field takes, where "a number" would be too little.
    """
    seen: set[KeyPath] = set()
    for item in error.errors(include_url=False):
        loc: KeyPath = tuple(item["loc"])
        if item["type"] == "missing":
            path = _existing(data, loc[:-1])
            yield PolicyProblem(f"{_subject(prefix + path)}'{loc[-1]}' is missing", _meaning(model, loc), prefix + path)
            continue
        if item["type"] == "extra_forbidden":
            known = keys_at(model, loc[:-1])
            hint = did_you_mean(str(loc[-1]), known) or (f"the keys here are {', '.join(known)}" if known else None)
            yield PolicyProblem(f"unknown key '{loc[-1]}'", hint, prefix + loc)
            continue
        path = _existing(data, loc)
        if path in seen or _only_fallout(item):
            continue  # the arms of a union complain one by one about the same value
        seen.add(path)
        # Only for a field: a column or qid may be called 'weight' or 'models' too.
        phrase = _phrase(_field_at(model, loc), str(loc[-1]), expected or {}) if loc else None
        message, hint = _sentence(item, prefix + path, phrase)
        yield PolicyProblem(message, hint or _meaning(model, loc), _at(prefix + path, item))


def _phrase(field: FieldInfo | None, name: str, expected: Mapping[str, str]) -> str | None:
    own = [item.words for item in field.metadata if isinstance(item, Expected)] if field else []
    return own[-1] if own else expected.get(name) if field else None


def _only_fallout(item: Any) -> bool:
    if item["type"] == "default_factory_not_called":
        return True  # the default would be that of another field, which is wrong itself
    # A list whose items are wrong is also said to be too short, since pydantic counts the right ones.
    return item["type"] == "too_short" and bool(len(item["input"]) >= item["ctx"]["min_length"])


def _sentence(item: Any, path: KeyPath, phrase: str | None) -> tuple[str, str | None]:
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    label = label_of(path)
    if kind == "policy":
        return f"{label} {item['msg']}", context.get("hint")
    if kind in ("value_error", "assertion_error"):
        said = str(context.get("error", "")).strip()
        return (f"{label}: {said}" if said else f"{label} is not valid"), None
    if kind in ("literal_error", "enum"):
        subject = "a role" if item["loc"][-1:] == ("role",) else label
        return _unknown_word(subject, value, str(context.get("expected", "")))
    if kind.endswith("too_short") and not value:
        return f"{label} must not be empty", None
    if kind.endswith(("too_short", "too_long")):
        edge = context.get("min_length", context.get("max_length"))
        what = "characters" if isinstance(value, str) else "items"
        return f"{label} must have at {'least' if 'short' in kind else 'most'} {edge} {what}", None
    if phrase is None and kind in _BOUNDS:
        edge = next(context[key] for key in _BOUND_KEYS if key in context)
        phrase = f"{_BOUNDS[kind]} {edge}"
    if phrase is None and kind == "multiple_of":
        phrase = f"a multiple of {context.get('multiple_of')}"
    if phrase is None and kind == "finite_number":
        phrase = "a finite number"
    if phrase is None:
        phrase = next((words for start, words in _TYPES if kind.startswith(start)), None)
    return (f"{label} must be {phrase}, not {describe(value)}" if phrase else f"{label} is not valid"), None


def _unknown_word(label: str, value: Any, expected: str) -> tuple[str, str | None]:
    words = [word.strip().strip("'") for word in expected.replace(" or ", ", ").split(",")]
    hint = f"it is one of {', '.join(words)}"
    if not isinstance(value, str):
        return f"{label} must be one of {', '.join(words)}, not {describe(value)}", None
    message = f"unknown role '{value}'" if label == "a role" else f"{label} cannot be '{value}'"
    return message, did_you_mean(value, words) or hint


def _at(path: KeyPath, item: Any) -> KeyPath:
    at = item.get("ctx", {}).get("at")
    return path if at in (None, "") else (*path, at)


def label_of(path: KeyPath) -> str:
    """What a problem at a path is about.

    >>> label_of(("qids", "census", 1))
    "item 2 of 'census'"
    """
    if not path:
        return "the policy"
    if isinstance(path[-1], int):
        owner = next((str(part) for part in reversed(path) if isinstance(part, str)), "the list")
        return f"item {path[-1] + 1} of '{owner}'"
    return f"'{path[-1]}'"


def _subject(path: KeyPath) -> str:
    return f"{label_of(path)}: " if path else ""


def _existing(data: Any, loc: Sequence[str | int]) -> KeyPath:
    """The part of a location that is in the data: pydantic adds names of types and fields of its own."""
    path: list[str | int] = []
    for key in loc:
        if isinstance(data, Mapping) and key in data:
            data = data[str(key)]
        elif isinstance(data, list | tuple) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            break
        path.append(key)
    return tuple(path)


def keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The keys that a mapping may have at a location below a model."""
    annotation: Any = model
    for key in loc:
        annotation = _step(annotation, key)
    found = _model_in(annotation)
    return [field.alias or name for name, field in found.model_fields.items()] if found else []


def _meaning(model: type[BaseModel], loc: Sequence[str | int]) -> str | None:
    """The description of the field at a location, as a hint."""
    field = _field_at(model, loc)
    text = field.description if field else None
    if not text:
        return None
    first = text[0].lower() if text[1:2].islower() else text[0]
    return first + text[1:].rstrip(".")


def _field_at(model: type[BaseModel], loc: Sequence[str | int]) -> FieldInfo | None:
    annotation: Any = model
    for key in loc[:-1]:
        annotation = _step(annotation, key)
    owner = _model_in(annotation)
    return owner.model_fields.get(str(loc[-1])) if owner and loc else None


def _step(annotation: Any, key: str | int) -> Any:
    owner = _model_in(annotation)
    if owner is not None:
        field = owner.model_fields.get(str(key))
        return field.annotation if field else None
    for option in _options(annotation):
        origin, args = get_origin(option), get_args(option)
        if args and isinstance(origin, type):
            return args[1] if issubclass(origin, Mapping) and len(args) > 1 else args[0]
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def _options(annotation: Any) -> Iterator[Any]:
    """The types that an annotation allows, without Annotated and unions."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _options(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for arm in get_args(annotation):
            yield from _options(arm)
    else:
        yield annotation
