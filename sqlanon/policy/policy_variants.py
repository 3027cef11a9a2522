"""One policy file read several times, each time with another value in one place."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.policy import yaml_lines
from sqlanon.policy.policy import Policy
from sqlanon.policy.read_policy import build, is_date, is_text
from sqlanon.policy.yaml_lines import Origin

MOST = 100


def vary_policy(path: str | Path, asked: Sequence[str]) -> list[Policy]:
    """The policies for `models.k_anonymity.k=2,5,10` and the like: all combinations where several are given.

    A place is written with dots. In a list, the name of a model or method says which entry is meant, or its number
    from 0. Each policy has the name of the file with what was put in.
    """
    file = Path(path)
    document = yaml_lines.read_yaml(yaml_lines.text_of(file), is_text, is_date)
    found: list[tuple[str, Any]] = [(file.name, document.data)]
    for text in asked:
        place, sign, values = text.partition("=")
        listed = [value.strip() for value in values.split(",")]
        if not sign or not place.strip() or not all(listed):
            raise PolicyError(f"'{text}' does not say what to vary", hint="as in --vary models.k_anonymity.k=2,5,10")
        short = place.strip().rsplit(".", 1)[-1]
        found = [
            (f"{name} {short}={value}", replace_value(data, place.strip(), value))
            for name, data in found
            for value in listed
        ]
        if len(found) > MOST:
            raise PolicyError(f"more than {MOST} policies to compare", hint="vary fewer places, or fewer values")
    return [build(data, Origin(name, file.parent, document.lines), document.problems) for name, data in found]


def replace_value(data: Any, place: str, value: str) -> Any:
    """The data of a policy with one value replaced, or added where its parent is there.

    >>> replace_value({"models": [{"k_anonymity": {"k": 2}}]}, "models.k_anonymity.k", "5")
    {'models': [{'k_anonymity': {'k': 5}}]}
    """
    new = copy.deepcopy(data)
    *above, last = place.split(".")
    at = new
    for part in above:
        at = _inside(at, part, place)
    if isinstance(at, list):
        at[_index(at, last, place)] = _read(value, place)
    elif isinstance(at, dict):
        at[last] = _read(value, place)
    else:
        raise _nowhere(place, last, ())
    return new


def _inside(at: Any, part: str, place: str) -> Any:
    if isinstance(at, list):
        found = at[_index(at, part, place)]
        return found[part] if isinstance(found, dict) and part in found else found
    if isinstance(at, dict) and part in at:
        return at[part]
    raise _nowhere(place, part, at if isinstance(at, dict) else ())


def _index(items: list[Any], part: str, place: str) -> int:
    """The entry of a list of `name: parameters`, or of a number."""
    if part.isdecimal() and int(part) < len(items):
        return int(part)
    names = [next(iter(item)) if isinstance(item, dict) and item else item for item in items]
    if part not in names:
        raise _nowhere(place, part, [name for name in names if isinstance(name, str)])
    return names.index(part)


def _nowhere(place: str, part: str, known: Any) -> PolicyError:
    hint = did_you_mean(part, list(known)) or "write where it stands in the policy, as in models.k_anonymity.k"
    return PolicyError(f"there is no '{part}' to vary in '{place}'", hint=hint)


def _read(value: str, place: str) -> Any:
    found = yaml_lines.read_yaml(value, lambda _: is_text(tuple(place.split("."))))
    if found.problems:
        raise PolicyError(f"'{value}' cannot be put into '{place}'")
    return found.data
