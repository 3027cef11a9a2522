"""Transformations: methods that change values, or leave out rows, before a release is searched for.

Each is one module of this package, found by its file name: its docstring is the manual page, `Params` is what a policy
may say, `change(params, given)` gives the SQL. A name with an underscore in front is no method.

Nothing here has a connection: a method is told what the table looks like, and answers with the temporary tables to make
(`Make`), the questions to ask of the data before (`Ask`), and the rows as they are afterwards.

Draws are made of keyed hashes: of a seed, and of the identity of a row, or of four neighbours, each of which has its
own part of the hash. The seed is derived from the secret, the method, its parameters, and all that was done to the
column before. So the same policy gives the same release, on every engine, and in every release that follows: whoever
compares two of them cannot average the noise away. And draws under other parameters have nothing to do with these: two
releases with one draw at two levels would be two equations, which give the row back.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlanon.errors import PolicyError, did_you_mean

if TYPE_CHECKING:  # whoever reads a policy to serve it needs no SQL
    from sqlglot import exp

# Beside a user's own columns, which no sane person calls like this: what tells rows apart, be it a number or their key;
# and their identity as text, which draws are made of.
ROW = "\u2205 number"
KEY = "\u2205 identity"


@dataclass(frozen=True)
class File:
    """A statement from `sql/transformations/`, with its parameters, and the tables that its relations stand for; or
    queries, which become a part of it."""

    name: str
    params: Mapping[str, Any]
    relations: Mapping[str, str | exp.Query]


@dataclass(frozen=True)
class Make:
    """A temporary table."""

    name: str
    query: exp.Query | File


@dataclass(frozen=True)
class DataCheck:
    """What must not be found in the data: if the query gives a row, the method cannot go on."""

    query: exp.Query
    message: str
    hint: str
    at: tuple[str | int, ...] = ()  # the place in the policy


Step = Make | DataCheck


@dataclass(frozen=True)
class Given:
    """The table as a method finds it. `rows` has all `columns`, and ROW and KEY; copy it for each use."""

    rows: exp.Select
    columns: Mapping[str, exp.DataType]
    dialect: str
    seeds: str  # a table (label, seed)
    prefix: str  # of the names of temporary tables
    label: str  # of the method, among all of a policy
    person: str | None = None
    records: int = 0  # rows, where the method asks for it
    lasting: bool = False  # `rows` are read from one table, and are the same, by ROW, as often as they are read
    numbered: bool = False  # ROW is an integer by which a row is known, and KEY the same as text
    span: tuple[int, int] | None = None  # the ends of a range that ROW has most integers of; on DuckDB, if it will last
    # Digests of what draws depend on, by column, step by step; "" has those of all columns that are changed together.
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def name(self, what: str) -> str:
        """The name of a temporary table of this method."""
        return f"{self.prefix}_{what}"

    def seed(self, what: str, column: str | None = None, step: int = -1) -> str:
        """The label of the seed for one column, or for another use; `step` is one part of a sum of draws."""
        marks = self.marks.get(column or what) or self.marks[""]
        return f"{self.label}/{what}#{marks[step]}"


@dataclass(frozen=True)
class Changed:
    """`rows` are the rows afterwards, over the tables of `steps`; it has all columns, and ROW and KEY."""

    rows: exp.Select
    steps: Sequence[Step] = ()
    seeds: Sequence[str] = field(default=())  # labels of the seeds that it draws from


@cache
def names() -> tuple[str, ...]:
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name for name in found if not name.startswith("_"))


def method(name: str) -> ModuleType:
    """The module of a method.

    >>> method("rounding").__doc__.splitlines()[0]
    'Numbers are rounded to multiples of a base: 41,377 becomes 41,000.'
    """
    if name not in names():
        raise PolicyError(
            f"unknown transformation '{name}'", hint=did_you_mean(name, names()) or f"there are {', '.join(names())}"
        )
    return import_module(f"{__name__}.{name}")


def is_keyed(name: str, params: Any) -> bool:
    """Whether a method, with these parameters, draws from the secret."""
    keyed = method(name).uses_secret
    return bool(keyed(params)) if callable(keyed) else bool(keyed)


def shares_draws(name: str) -> bool:
    """Whether a method draws once for all parameters, as samples do."""
    return bool(getattr(method(name), "SHARED_DRAWS", False))
