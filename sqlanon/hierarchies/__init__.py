"""Hierarchies: how a value becomes less exact, level by level, up to one label that covers all.

Each kind is one module of this package, found by its file name: its docstring is the manual page, `Params`
is what a policy may say, `build` makes the hierarchy. A name with an underscore in front is no kind.

Two promises hold for every hierarchy that is computed (`levels`), on any value that its column can hold:
a label covers the value that it replaces, and each level is a function of the level below.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlanon.errors import HierarchyError, did_you_mean
from sqlanon.hierarchies._values import not_nested

if TYPE_CHECKING:  # whoever reads a policy to serve it needs no SQL
    from sqlglot import exp

Level: TypeAlias = "Callable[[exp.Expr], exp.Expr]"


@dataclass(frozen=True)
class Hierarchy:
    """How a column is generalized: level 0 is the value itself, level `height` is the root that covers all.

    Exactly one of three says how:
    `levels`: computed; `levels[i - 1](column)` is the label, as text, at level i;
    `rows`: a lookup; each row is (leaf, level 1, ..., root), all text;
    `relation`: a lookup that lives in the database; a SELECT of level_0 .. level_<height>, all text.

    A computed label of NULL is NULL below the root; lookups leave NULL to the caller.
    """

    height: int
    root: str = "*"
    levels: tuple[Level, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    relation: exp.Query | None = None

    def __post_init__(self) -> None:
        if self.height < 1:
            raise ValueError("a hierarchy has at least one level above the values")
        if bool(self.levels) + bool(self.rows) + (self.relation is not None) != 1:
            raise ValueError("a hierarchy has exactly one of levels, rows and relation")
        if self.levels and len(self.levels) != self.height:
            raise ValueError(f"{len(self.levels)} computed levels, but the height is {self.height}")
        if any(len(row) != self.height + 1 or row[-1] != self.root for row in self.rows):
            raise ValueError(f"each row needs {self.height + 1} values, the last of them '{self.root}'")

    def is_known_tree(self) -> bool:
        """Whether it is certain without a look into the database that leaves are listed once and levels nest.

        >>> Hierarchy(height=1, rows=(("a", "*"), ("b", "*"))).is_known_tree()
        True
        >>> Hierarchy(height=1, rows=(("a", "*"), ("a", "*"))).is_known_tree()
        False
        """
        leaves = {row[0] for row in self.rows}
        return bool(self.rows) and len(leaves) == len(self.rows) and not_nested(self.rows) is None


@cache
def names() -> tuple[str, ...]:
    """All kinds of hierarchy.

    >>> names()[:4]
    ('age', 'country', 'csv', 'dates')
    """
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name for name in found if not name.startswith("_"))


@cache
def kind(name: str) -> ModuleType:
    """The module of a kind; only kinds that are used are loaded."""
    if name not in names():
        raise HierarchyError(
            f"unknown hierarchy '{name}'", hint=did_you_mean(name, names()) or f"there are {', '.join(names())}"
        )
    return import_module(f"{__name__}.{name}")


def build(name: str, params: Mapping[str, Any] | None, base: Path) -> Hierarchy:
    """The hierarchy that a policy in the folder `base` asks for; wrong parameters raise pydantic's error.

    >>> hierarchy = build("intervals", {"widths": [5, 10]}, Path())
    >>> hierarchy.height, hierarchy.root
    (3, '*')
    """
    module = kind(name)
    hierarchy: Hierarchy = module.build(module.Params.model_validate(dict(params or {})), base)
    return hierarchy
