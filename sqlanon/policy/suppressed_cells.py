"""What a policy may ask for where suppressed cells match any value: rows that match are counted, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sqlanon.families import algorithm_traits, family, module_names
from sqlanon.policy.checks import Draft
from sqlanon.policy.yaml_lines import KeyPath, PolicyProblem

READING = "a suppressed cell matches any value"
HINT = "take 'suppressed_cells: own_value', for which every model is defined"


def problems(draft: Draft) -> Iterator[PolicyProblem]:
    if draft.data.get("suppressed_cells") != "any_value":
        return
    yield from _models(draft)
    if (name := _algorithm(draft)) is not None and not suppresses_cells(name):
        yield PolicyProblem(
            f"{name} suppresses no single cells, so that none can match any value",
            f"take 'algorithm: {cell_algorithms()}', or leave 'suppressed_cells' out",
            ("algorithm",),
        )
    others: Iterable[tuple[bool, str, str, KeyPath]] = (
        (
            draft.person() is not None,
            f"persons are not counted where {READING}: it is rows that match",
            "leave 'person' out if each person has one row, or take 'suppressed_cells: own_value'",
            ("person",),
        ),
        (
            draft.data.get("nulls") == "unique",
            f"'nulls: unique' cannot be combined with 'suppressed_cells: any_value': {READING}, and a NULL none",
            "fill NULLs, or take 'nulls: value'",
            ("nulls",),
        ),
        (
            draft.data.get("suppressed_rows") == "keep",
            "'suppressed_rows: keep' cannot be combined with 'suppressed_cells: any_value': a row of '*' matches all",
            "leave 'suppressed_rows' out",
            ("suppressed_rows",),
        ),
        (
            "population" in draft.data,
            f"rows are not looked up in a population where {READING}",
            "leave 'population' out, or take 'suppressed_cells: own_value'",
            ("population",),
        ),
        (
            "history" in draft.data,
            f"releases are not compared with each other where {READING}",
            "leave 'history' out, or take 'suppressed_cells: own_value'",
            ("history",),
        ),
    )
    for found, message, hint, path in others:
        if found:
            yield PolicyProblem(message, hint, path)


def suppresses_cells(algorithm: str | None) -> bool:
    """Whether an algorithm hides single cells; an unknown one does not."""
    return algorithm in module_names("algorithms") and algorithm_traits(algorithm).suppresses_cells


def cell_algorithms() -> str:
    return " or ".join(name for name in module_names("algorithms") if suppresses_cells(name))


def _models(draft: Draft) -> Iterator[PolicyProblem]:
    for index, item in enumerate(draft.model_items()):
        if not isinstance(item, Mapping) or len(item) != 1:
            continue  # the shape of the list is checked elsewhere
        name = next(iter(item))
        known = family("models")
        if name not in known or not known[name].bounds_size_alone:
            counting = " or ".join(each for each, model in known.items() if model.bounds_size_alone)
            message = f"{name} is not defined where {READING}: classes overlap, only {counting} counts what matches"
            yield PolicyProblem(message, HINT, ("models", index, name))


def _algorithm(draft: Draft) -> str | None:
    given = draft.data.get("algorithm")
    if isinstance(given, Mapping) and len(given) == 1:
        given = next(iter(given))
    return given if isinstance(given, str) else None
