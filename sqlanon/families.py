"""Families: a plug-in is a file, found by its name.

A family of SQL plug-ins is a folder below `sql/`. The header of a file is its manual page and its interface:

    -- First lines: what it promises, in words.
    -- cite: where it was defined
    -- param: k integer >= 2: what it means
    -- measures: what the column `measured` holds; worse when smaller
    -- needs: sensitive
    -- monotone: yes, also under record suppression
    -- classes: x (what makes a class, where it is not the quasi-identifiers; row_sets: the set of a person's rows)
    -- counts: y (what is counted in a class, where it is not rows or persons)
    -- shapes: set, sequence (of which shapes of policies it speaks, where it is not rows alone)
    -- excess: measured - :t, at most 1 - :t (how far a class is beyond the limit: a convex function of the shares of
    --   its sensitive values, which lets a search leave out what lies below a node)
    -- makes: class_risks (the relation that the statement makes for other files of the family)
    -- bounds: share(value, h) (what a model bounds in a class, and by which parameters; the words are `BOUNDS`)
    -- traits: wait, join (what others must know of it; the words are `TRAITS`)
    -- no_guess: why an attack guesses nothing about a person that could be right or wrong; any other attack has a file
    --   of its name in `guesses/`
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from sqlanon.errors import PolicyError, did_you_mean

KEYS = (
    "cite", "param", "measures", "needs", "monotone", "classes", "counts", "shapes", "excess", "makes", "bounds",
    "traits", "no_guess",
)  # fmt: skip
# What the rows of a person are together; one is what a policy says nothing about.
SHAPES = ("rows", "entity", "set", "sequence")
# What a model may bound in a class. A model with another condition has no `bounds:`, and nobody concludes from it.
BOUNDS = {
    "size": "at least so many records, and nothing else",
    "share": "a value, or each of a list, or every value: at most this share of the records",
    "distinct": "at least so many different values",
    "entropy": "the entropy of the values is at least the logarithm of this number",
    "tail": "the most frequent value is rarer than c times all values from the l-th on",
    "distance": "half the sum of the differences to the shares in the table is at most this",
    "range": "at least so many different numbers, which span at least this range",
}
# What others must know of a model across releases, of a loss metric, or of an attack.
TRAITS = {
    "history": {
        "wait": "it holds in the end if the rows that break it wait for a later release",
        "wait_last": "rows may wait for it where no level helps",
        "raise": "more general labels help: more classes can be compared, and more rows of a join match",
        "join": "it looks at releases of other names, joined with the new one",
        "own_models": "it also measures the models of both policies on the join",
        "cells": "persons with the same past and present are a cell of at least k persons and l values",
        "signatures": "a person keeps one set of at least m values in all releases",
    },
    "loss": {
        "levels": "it asks what became of each value: defined where each column has one level",
        "nodes": "it counts levels: defined where every label is a node of its hierarchy",
    },
    "attacks": {
        "slow": "it compares persons with classes again and again, or tries every set of columns",
        "nearest": "it also finds values that were changed a little",
        "beliefs": "it can go by what an attacker believes of rows whose sensitive values are shown apart from them",
        "singles_out": "regulations ask for it: it finds the records of a person",
        "certain": "regulations ask for it: a value of a person follows with certainty",
        "likely": "regulations ask for it: a value of a person becomes likely",
        "informed": "the same, for an attacker who knows something that the policy has to say",
    },
}
_HEADER_KEY = re.compile(rf"^({'|'.join(KEYS)}):\s*(.*)$")
_PARAM = re.compile(
    r"^(?P<name>\w+) (?P<type>integer|number|text|boolean|list|map|columns|column|column_map)"
    r"(?: (?P<bound>(?:>=|<=|>|<) [-\d.]+(?: (?:>=|<=|>|<) [-\d.]+)?))?"
    r"(?: default (?P<default>\S+))?: (?P<meaning>.+)$"
)
_BOUND = re.compile(r"^(?P<kind>\w+)\((?P<params>\w+(?:, \w+)*)\)$")
_COMPARE = {
    ">=": lambda value, edge: value >= edge,
    "<=": lambda value, edge: value <= edge,
    ">": lambda value, edge: value > edge,
    "<": lambda value, edge: value < edge,
}


def sql_root() -> Path:
    """The folder `sql/`: inside the installed package, or beside it in a checkout."""
    installed = Path(__file__).parent / "sql"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "sql"


@dataclass(frozen=True)
class Param:
    name: str
    type: str
    meaning: str
    bounds: tuple[tuple[str, float], ...] = ()
    default: Any = None
    required: bool = True

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value for this parameter, or None."""
        if self.type in ("integer", "number"):
            if isinstance(value, bool) or not isinstance(value, int | float):
                return f"'{self.name}' must be {_article(self.type)}, not {_describe(value)}"
            if self.type == "integer" and not float(value).is_integer():
                return f"'{self.name}' must be an integer, not {value}"
            if value != value or value in (float("inf"), float("-inf")):
                return f"'{self.name}' must be a finite number"
            for sign, edge in self.bounds:
                if not _COMPARE[sign](value, edge):
                    return f"'{self.name}' must be {self.bound_text()}, not {value}"
            return None
        if self.type == "columns":
            ok = isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)
            return None if ok else f"'{self.name}' must be a list of column names, not {_describe(value)}"
        kinds: dict[str, type] = {
            "text": str, "boolean": bool, "list": list, "map": dict, "column": str, "column_map": dict,
        }  # fmt: skip
        if not isinstance(value, kinds[self.type]):
            return f"'{self.name}' must be {_article(self.type)}, not {_describe(value)}"
        if self.type in ("list", "map", "column_map") and not value:
            return f"'{self.name}' must not be empty"
        return None

    def columns_in(self, value: Any) -> list[Any]:
        """The columns that a value of this parameter names."""
        if self.type == "column":
            return [value]
        return list(value) if self.type in ("columns", "column_map") else []

    def bound_text(self) -> str:
        return " and ".join(f"{sign} {edge:g}" for sign, edge in self.bounds)


@dataclass(frozen=True)
class ClassBound:
    """What a model bounds in a class: a word of `BOUNDS`, and the parameters of the model that say how far."""

    kind: str
    params: tuple[str, ...]


@dataclass(frozen=True)
class Plugin:
    """One `.sql` file: its manual page, its interface and its statement."""

    family: str
    name: str
    summary: str
    sql: str
    cite: str = ""
    measures: str = ""
    monotone: str = ""
    classes: str = ""
    counts: str = ""
    shapes: tuple[str, ...] = SHAPES[:1]
    excess: str = ""
    makes: str = ""
    bounds: ClassBound | None = None
    traits: frozenset[str] = frozenset()
    no_guess: str = ""
    needs: tuple[str, ...] = ()
    params: tuple[Param, ...] = field(default=())

    @property
    def worse_when_smaller(self) -> bool:
        return self.measures.endswith("worse when smaller")

    @property
    def bounds_size_alone(self) -> bool:
        """Whether the model counts the records of a class and looks at nothing else."""
        return self.bounds is not None and self.bounds.kind == "size"

    def param(self, name: str) -> Param | None:
        return next((param for param in self.params if param.name == name), None)

    def problems(self, given: Mapping[str, Any]) -> list[tuple[str | None, str, str | None]]:
        """All that is wrong with these parameters: (parameter or None, message, hint)."""
        found: list[tuple[str | None, str, str | None]] = []
        for name, value in given.items():
            param = self.param(name)
            if param is None:
                known = [p.name for p in self.params]
                hint = did_you_mean(name, known) or (
                    f"it takes {', '.join(known)}" if known else "it takes no parameter"
                )
                found.append((name, f"{self.name} has no parameter '{name}'", hint))
            elif problem := param.problem(value):
                found.append((name, f"{self.name}: {problem}", param.meaning))
        for param in self.params:
            if param.required and param.name not in given:
                found.append((None, f"{self.name} needs the parameter '{param.name}'", param.meaning))
        return found

    def filled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The given parameters with the defaults of the others; a number is a float however it was written."""
        chosen = {param.name: given.get(param.name, param.default) for param in self.params}
        numbers = {param.name for param in self.params if param.type == "number"}
        return {name: float(value) if name in numbers else value for name, value in chosen.items()}


def _article(kind: str) -> str:
    words = {
        "integer": "an integer",
        "map": "a mapping",
        "column_map": "a mapping of columns",
        "column": "a column name",
    }
    return words.get(kind, f"a {kind}")


def _describe(value: Any) -> str:
    names = {str: "text", bool: "a boolean", list: "a list", dict: "a mapping", type(None): "nothing"}
    return names.get(type(value), f"{value!r}")


def _parse_param(text: str, where: str) -> Param:
    match = _PARAM.match(text)
    if match is None:
        raise PolicyError(f"{where}: the header line 'param: {text}' cannot be read")
    bounds = re.findall(r"(>=|<=|>|<) ([-\d.]+)", match["bound"] or "")
    default: Any = match["default"]
    if default is not None:
        default = {"true": True, "false": False, "none": None}.get(default, default)
        if isinstance(default, str) and match["type"] in ("integer", "number"):
            default = int(default) if match["type"] == "integer" else float(default)
        if match["type"] in ("list", "map", "columns", "column_map"):
            default = None  # the word says what stands in for a collection that is not given
    return Param(
        name=match["name"],
        type=match["type"],
        meaning=match["meaning"],
        bounds=tuple((sign, float(edge)) for sign, edge in bounds),
        default=default,
        required=match["default"] is None,
    )


def _parse_bound(text: str, params: tuple[Param, ...], where: str) -> ClassBound | None:
    if not text:
        return None
    match = _BOUND.match(text)
    if match is None or match["kind"] not in BOUNDS:
        raise PolicyError(
            f"{where}: the header line 'bounds: {text}' cannot be read",
            hint=f"write 'bounds: word(parameter, …)', where the word is one of {', '.join(BOUNDS)}",
        )
    names = tuple(match["params"].split(", "))
    known = [param.name for param in params]
    for name in names:
        if name not in known:
            raise PolicyError(
                f"{where}: 'bounds' names '{name}', which is no parameter", hint=did_you_mean(name, known)
            )
    return ClassBound(match["kind"], names)


def _parse_traits(family: str, lines: list[str], where: str) -> frozenset[str]:
    known = TRAITS.get(family, {})
    found = frozenset(word.strip() for line in lines for word in line.split(","))
    for word in sorted(found):
        if word not in known:
            hint = did_you_mean(word, known) or (f"there are {', '.join(known)}" if known else "the family has none")
            raise PolicyError(f"{where}: unknown trait '{word}'", hint=hint)
    return found


def _parse_shapes(lines: list[str], where: str) -> tuple[str, ...]:
    found = tuple(word.strip() for line in lines for word in line.split(","))
    for word in found:
        if word not in SHAPES:
            hint = did_you_mean(word, SHAPES) or f"there are {', '.join(SHAPES)}"
            raise PolicyError(f"{where}: unknown shape '{word}'", hint=hint)
    return found or SHAPES[:1]


def parse(family: str, name: str, text: str) -> Plugin:
    """Read a `.sql` file: the leading comment is the header, the rest is the statement."""
    summary: list[str] = []
    values: dict[str, list[str]] = {key: [] for key in KEYS}
    current: list[str] | None = None
    lines = text.splitlines()
    body = 0
    for body, line in enumerate(lines):  # noqa: B007 - the index after the header is used below
        if not line.startswith("--"):
            break
        content = line[2:].strip()
        if match := _HEADER_KEY.match(content):
            values[match[1]].append(match[2])
            current = values[match[1]]
        elif current is not None and line.startswith("--   "):
            current[-1] += " " + content
        else:
            summary.append(content)
            current = None
    where = f"{family}/{name}.sql"
    params = tuple(_parse_param(line, where) for line in values["param"])
    return Plugin(
        family=family,
        name=name,
        summary=" ".join(summary).strip(),
        sql="\n".join(lines[body:]).strip().rstrip(";"),
        cite=" ".join(values["cite"]),
        measures=" ".join(values["measures"]),
        monotone=" ".join(values["monotone"]),
        classes=" ".join(values["classes"]),
        counts=" ".join(values["counts"]),
        shapes=_parse_shapes(values["shapes"], where),
        excess=" ".join(values["excess"]),
        makes=" ".join(values["makes"]),
        bounds=_parse_bound(" ".join(values["bounds"]), params, where),
        traits=_parse_traits(family, values["traits"], where),
        no_guess=" ".join(values["no_guess"]),
        needs=tuple(word.strip() for line in values["needs"] for word in line.split(",") if word.strip()),
        params=params,
    )


@cache
def family(folder: str) -> dict[str, Plugin]:
    """All plug-ins of a family of SQL files, by name."""
    files = sorted((sql_root() / folder).glob("*.sql"))
    return {file.stem: parse(folder, file.stem, file.read_text(encoding="utf-8")) for file in files}


def plugin(folder: str, name: str) -> Plugin:
    known = family(folder)
    if name not in known:
        kind = {
            "models": "privacy model",
            "loss": "loss metric",
            "risk": "risk measure",
            "attacks": "attack",
            "utility": "measure of utility",
            "rules": "rule",
        }.get(folder, folder)
        raise PolicyError(
            f"unknown {kind} '{name}'",
            hint=did_you_mean(name, known) or f"'sqlanon models' lists every {kind}",
        )
    return known[name]


def models_of_shape(shape: str) -> dict[str, Plugin]:
    """The privacy models that speak of policies of a shape.

    >>> list(models_of_shape("rows"))[:2]
    ['alpha_k_anonymity', 'average_risk']
    """
    return {name: item for name, item in family("models").items() if shape in item.shapes}


def names_with_trait(folder: str, *traits: str) -> tuple[str, ...]:
    """The plug-ins of a family that have one of these traits.

    >>> names_with_trait("attacks", "certain")
    ('attribute_linkage', 'homogeneity')
    """
    return tuple(sorted(name for name, item in family(folder).items() if item.traits & set(traits)))


def explain(name: str) -> Plugin:
    """The manual page of a privacy model, rule, loss metric, measure of risk or utility, or attack, as data."""
    known = {**family("utility"), **family("attacks"), **family("risk"), **family("loss")}
    known |= {**family("models"), **family("history"), **family("rules")}
    if name not in known:
        message = f"there is no model, metric, measure or attack called '{name}'"
        raise PolicyError(message, hint=did_you_mean(name, known))
    return known[name]


@cache
def module_names(package: str) -> tuple[str, ...]:
    """The plug-ins of a package whose plug-ins are modules, found without loading one of them.

    >>> module_names("algorithms")[:3]
    ('anatomy', 'apriori', 'auto')
    """
    found = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent / package)]))
    return tuple(name for name in found if not name.startswith("_"))


@dataclass(frozen=True)
class AlgorithmTraits:
    """What others must know of an algorithm beside how it is run: the constant `TRAITS` of its module.

    Policies, releases, checks and attacks look here; none of them asks for an algorithm by its name.
    """

    shapes: tuple[str, ...] = SHAPES[:1]  # of policies that it protects
    # The search
    brings: frozenset[str] = frozenset()  # relations that it makes itself, so that it reaches models that others cannot
    target: str | None = None  # the parameter that names the column that the release should predict
    seconds: float | None = None  # how long it looks for a proof, if no time limit is given
    history: Literal["", "signatures", "cuts"] = ""  # what it must know of earlier releases
    # The release
    writes_rows: bool = False  # its module has `part`, which writes the rows, in place of `run`, which says how
    seeds: tuple[str, ...] = ()  # what it draws, each from a seed of its own
    groups: bool = False  # rows are put into groups, which take the place of classes; values are shown as they are
    two_tables: bool = False  # the sensitive values of groups are in a table of their own
    parts: str | None = None  # the parameter that says which columns stay together in a row
    counterfeits: bool = False  # rows of nobody are added
    suppresses_cells: bool = False  # single cells are hidden, so that a suppressed cell can match any value
    distorts: bool = False  # sensitive values of some rows are replaced, until few rows of a class have one
    guards: bool = False  # sensitive values are shown as nodes of their taxonomy, below a guarding node where given
    # What follows for somebody who knows how it works (the attack `minimality`): values of groups are dealt in any
    # way, or to the closest rows; guarding nodes; the same values in every release
    worlds: Literal["", "groups", "close_groups", "guarding", "invariance"] = ""


def algorithm_traits(name: str | None) -> AlgorithmTraits:
    """The traits of an algorithm; where none is named, those of a search that has nothing special.

    >>> algorithm_traits("anatomy").two_tables, algorithm_traits("mondrian").history, algorithm_traits(None).groups
    (True, 'cuts', False)
    """
    if name is None:
        return AlgorithmTraits()
    traits: AlgorithmTraits = load_module("algorithms", name).TRAITS
    return traits


def load_module(package: str, name: str) -> ModuleType:
    """The module of a plug-in, whose docstring is its manual page and whose `Params` is what a policy may say."""
    return import_module(f"sqlanon.{package}.{name}")
