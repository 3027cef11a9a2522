"""The functions that are answered, read from functions.txt; each becomes a macro of the metadata database."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from sqlanon.errors import Refused, did_you_mean
from sqlanon.pgcatalog.bound_expression import Bound
from sqlanon.pgcatalog.casts import implicit
from sqlanon.pgcatalog.kinds import BY_NAME, STRINGS, TEXT, array_of, sql_name
from sqlanon.pgwire.types import PgType

LINE = re.compile(r"(\w+)\(([\w, ]*)\) (\w+): (.*)")
POLYMORPHIC = ("any", "anyarray", "anyelement")


@dataclass
class Needs:
    """What a statement needs to be there before it runs: relations by name, and functions."""

    relations: set[str] = field(default_factory=set)
    functions: set[Function] = field(default_factory=set)


@dataclass(frozen=True)
class Function:
    """One of the functions of a name; the macro takes its arguments as a, b, c …"""

    name: str
    arguments: tuple[str, ...]
    result: str
    macro: str
    body: str

    @property
    def definition(self) -> str:
        letters = "abcd"[: len(self.arguments)]
        body = self.body
        if any(len(re.findall(rf"\b{letter}\b", body)) > 1 for letter in letters):
            # A macro writes its arguments wherever it names them: nested calls would grow without bound.
            held = ", ".join(f"'{letter}': {letter}" for letter in letters)
            inside = re.sub(rf"\b([{letters}])\b", r"held.\1", body)
            body = f"list_transform([{{{held}}}], lambda held: {inside})[1]"
        return f"CREATE MACRO {self.macro}({', '.join(letters)}) AS {body}"


def _read() -> dict[str, list[Function]]:
    text = files(__package__).joinpath("functions.txt").read_text(encoding="utf-8")
    found: dict[str, list[Function]] = {}
    for number, line in enumerate(text.splitlines()):
        if not line or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        assert match is not None, line
        name, arguments, result, body = match.groups()
        kinds = tuple(each.strip() for each in arguments.split(",") if each.strip())
        found.setdefault(name, []).append(Function(name, kinds, result, f"fn_{number}_{name}", body))
    return found


FUNCTIONS = _read()


def _fits(item: Bound, wanted: str) -> int | None:
    """How well an argument fits: 2 exactly, 1 after a cast, None not at all."""
    if wanted in ("any", "anyelement"):
        return 1
    if wanted == "anyarray":
        return 1 if item.type.element is not None or item.unknown else None
    kind = BY_NAME[wanted]
    if item.type.oid == kind.oid:
        return 2
    if wanted in ("int2vector", "oidvector") and item.type.element is not None:
        return None  # the places of a vector begin at 0, those of an array at 1
    if item.unknown:
        return 2 if wanted == "text" else 1
    if item.type.name in STRINGS and wanted in ("name", "text"):
        return 1
    return 1 if implicit(item.type, kind) else None


def choose_function(name: str, items: Sequence[Bound]) -> Function:
    """The function of that name that takes these arguments, or 42883."""
    best: tuple[int, Function] | None = None
    for function in FUNCTIONS.get(name, ()):
        if len(function.arguments) != len(items):
            continue
        marks = [_fits(item, wanted) for item, wanted in zip(items, function.arguments, strict=True)]
        score = None if None in marks else sum(mark for mark in marks if mark is not None)
        if score is not None and (best is None or score > best[0]):
            best = (score, function)
    if best is None:
        raise no_function(name, items)
    return best[1]


def no_function(name: str, items: Sequence[Bound]) -> Refused:
    kinds = ", ".join(sql_name(item.type) for item in items)
    hint = None if name in FUNCTIONS else did_you_mean(name, FUNCTIONS)
    return Refused(f"function {name[:80]}({kinds}) does not exist", sqlstate="42883", hint=hint)


def argument_types(function: Function, items: Sequence[Bound]) -> list[PgType]:
    """What the arguments are cast to; of a polymorphic function the first array decides."""
    array = next(
        (
            item.type
            for item, wanted in zip(items, function.arguments, strict=True)
            if wanted == "anyarray" and item.type.element is not None
        ),
        None,
    )
    given = next(
        (item.type for item, wanted in zip(items, function.arguments, strict=True) if wanted == "anyelement"), TEXT
    )
    array = array or array_of(given)
    assert array.element is not None
    made = {"anyarray": array, "anyelement": array.element}
    return [made.get(wanted) or BY_NAME[wanted] for wanted in function.arguments]


def result_type(function: Function, kinds: Sequence[PgType]) -> PgType:
    if function.result in POLYMORPHIC:
        array = next(kind for kind, wanted in zip(kinds, function.arguments, strict=True) if wanted == "anyarray")
        return array
    return BY_NAME[function.result]
