"""A policy with other numbers in its models, another limit, other levels or another search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon.errors import PolicyError

NUMBERS = {"k": ("k_anonymity", "k"), "l": ("distinct_l_diversity", "l"), "t": ("t_closeness", "t")}
ALGORITHMS = ("auto", "full_domain", "mondrian", "bottom_up_recoding", "top_down_recoding")


def choices_of(document: Mapping[str, Any]) -> dict[str, str]:
    """What the form of the page shows of a policy: numbers of models without further parameters, and how it searches.

    >>> choices_of({"models": [{"k_anonymity": {"k": 5}}], "algorithm": "mondrian"})
    {'k': '5', 'l': '', 't': '', 'suppression_limit': '0', 'algorithm': 'mondrian'}
    """
    found = {"k": "", "l": "", "t": ""}
    models = document.get("models")
    for item in models if isinstance(models, list) else ():
        for key, (model, param) in NUMBERS.items():
            params = item.get(model) if isinstance(item, Mapping) else None
            if isinstance(params, Mapping) and param in params:
                found[key] = f"{params[param]}"
    algorithm = document.get("algorithm", "auto")
    limit = document.get("suppression_limit", 0)
    return found | {
        "suppression_limit": f"{limit}", "algorithm": algorithm if isinstance(algorithm, str) else next(iter(algorithm))
    }  # fmt: skip


def with_choices(document: Mapping[str, Any], given: Mapping[str, str], levels: Mapping[str, str]) -> dict[str, Any]:
    """A policy with other numbers in its models, another limit and another search.

    >>> before = {"models": [{"k_anonymity": {"k": 5}}, {"t_closeness": {"t": 0.3, "attribute": "x"}}]}
    >>> with_choices(before, {"k": "9", "l": "2", "t": "0.3"}, {})["models"]
    [{'k_anonymity': {'k': 9}}, {'t_closeness': {'t': 0.3, 'attribute': 'x'}}, {'distinct_l_diversity': {'l': 2}}]
    """
    models = [dict(item) for item in document.get("models") or []]
    for key, (model, param) in NUMBERS.items():
        text = given.get(key, "").strip()
        there = [item for item in models if model in item]
        if not text:
            models = [item for item in models if model not in item]
        elif there:
            for item in there:
                item[model] = {**(item[model] or {}), param: _number(key, text)}
        else:
            models.append({model: {param: _number(key, text)}})
    made = {**document, "models": models}
    if limit := given.get("suppression_limit", "").strip():
        made["suppression_limit"] = _number("suppression_limit", limit)
    if levels:
        made["algorithm"] = {
            "fixed_levels": {"levels": {name: int(_number("a level", text)) for name, text in levels.items()}}
        }
    elif (algorithm := given.get("algorithm", "")) in ALGORITHMS and algorithm != choices_of(document)["algorithm"]:
        made["algorithm"] = algorithm
    return made


def _number(key: str, text: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        raise PolicyError(f"{key} must be a number") from None
    if not 0 <= value <= 1e9:
        raise PolicyError(f"{key} must be a number of 0 or more")
    return int(value) if value == int(value) and key in ("k", "l", "a level") else value
