"""A statement on its way: bound and priced, with the statements that will read data, and at last its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlglot import exp

from sqlanon.gateway.bind.bounding import main_statement, value_statement
from sqlanon.gateway.bind.core import Core
from sqlanon.gateway.bind.read_statement import ParsedStatement
from sqlanon.gateway.bind.selects import Binder
from sqlanon.gateway.bind.values import Kind, ParameterSlot, Relation, Value
from sqlanon.gateway.price.judged_groups import Judge
from sqlanon.gateway.price.noise import Limit, Noise
from sqlanon.ledger.limits import Left
from sqlanon.mechanisms import Cost


@dataclass(frozen=True)
class Answer:
    """Columns and rows, what they cost, and what is left."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    cost: Cost
    left: Left | None = None
    types: tuple[str, ...] = ()  # of the columns, as PostgreSQL names them
    cached: bool = False
    plain: bool = False  # of public and released tables: no noise
    synthetic: bool = False  # of made-up data: tells nothing of the real one
    withheld: int = 0  # groups that the controls leave out of an exact answer
    threshold: int | None = None  # persons, about, below which a group does not appear: of statement and policy alone
    bare: tuple[str, ...] = ()  # columns of numbers that have noise, and no error bars
    reused: bool = False  # it follows from noisy tables that were paid for


@dataclass(frozen=True)
class Description:
    """What a statement gives and takes, told without reading or spending anything."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    parameters: tuple[str, ...]  # types, as PostgreSQL names them


Written = Callable[[Sequence[int | float]], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class PricedCore:
    """A core with the statements that read it and the noise that covers it."""

    core: Core
    noise: Noise
    statements: tuple[exp.Select, ...]
    cache_key: str
    # Statements with parameters, as the engine of the gate runs them: writing one out is a fifth of an answer.
    written: dict[int, Written] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class PricedStatement:
    """A statement that was bound and priced: a function of its text, the policy and the schema alone."""

    statement: ParsedStatement
    relation: Relation
    tree: exp.Query
    columns: tuple[str, ...]
    types: tuple[str, ...]  # of the columns, as PostgreSQL names them
    reads: frozenset[tuple[str, str]]  # tables and columns that the statement names; of a table alone, ''
    parts: tuple[PricedCore, ...]
    cost: Cost
    limit: Limit
    epsilon: float
    delta: float
    judges: tuple[Judge, ...] = ()  # of an exact answer under controls; it has no parts
    bare: tuple[str, ...] = ()  # columns of numbers that have noise, and no error bars
    stated: bool = False  # it says how accurate it is to be: by an epsilon, or by an error

    @property
    def threshold(self) -> int | None:
        """Persons, about, below which a group does not appear; None where all keys are declared."""
        return max((part.noise.keys.threshold for part in self.parts if part.noise.keys is not None), default=None)

    @cached_property
    def noisy_sql(self) -> str:
        """What is computed from noisy tables; a function of the tree, written once."""
        return self.tree.sql("duckdb")

    @cached_property
    def shape(self) -> str:
        """What was asked, with every literal and parameter replaced by ?, for logs: it holds no value."""

        def blanked(node: exp.Expr) -> exp.Expr:
            return exp.Placeholder() if isinstance(node, exp.Literal | exp.Placeholder) else node

        text = self.statement.tree.copy().transform(blanked, copy=False).sql("duckdb", comments=False)
        words = {"": "", "summary": "EXPLAIN ", "verbose": "EXPLAIN VERBOSE "}[self.statement.explain]
        return words + text[:LONGEST_SHAPE]


def statements_of(core: Core, limit: Limit) -> tuple[exp.Select, ...]:
    """All statements that read data for a core."""
    first = main_statement(core, limit.rows, limit.groups, limit.minimum)
    rest = [value_statement(core, place, limit.rows) for place, atom in enumerate(core.atoms) if atom.kind in BY_VALUE]
    return (*([first] if first is not None else []), *rest)


def main_columns(core: Core) -> list[str]:
    sums = [f"a{place}" for place, atom in enumerate(core.atoms) if atom.kind == "sum"]
    persons = [f"a{place}" for place, atom in enumerate(core.atoms) if atom.kind == "persons"]
    return [*(["persons"] if persons or core.mode == "private" else []), *sums, *persons]


LONGEST_SHAPE = 4_000
BY_VALUE = ("distinct", "quantile", "ranged")  # atoms that have a statement of their own
# What the kinds are to a client. Nothing but NULL is a text, as in PostgreSQL.
TYPES: dict[Kind, str] = {
    "int": "int8", "float": "float8", "text": "text", "bool": "bool", "date": "date", "timestamp": "timestamp",
    "null": "text",
}  # fmt: skip


def type_of(value: Value) -> str:
    return value.stored or TYPES[value.kind]


def type_of_slot(slot: ParameterSlot) -> str:
    return (slot.type or TYPES[slot.kind or "text"]) + ("[]" if slot.many else "")


def build_output(
    relation: Relation, binder: Binder, intervals: bool
) -> tuple[exp.Query, tuple[str, ...], tuple[str, ...]]:
    """The outermost query: with error bars if asked for, and in a fixed order if the analyst gave none."""
    tree = relation.tree
    assert isinstance(tree, exp.Query)
    tree = tree.copy()
    # PostgreSQL gives a name as often as it is asked for; elsewhere each column has one of its own.
    names = list(relation.shown_names if binder.dialect == "postgres" else relation.columns)
    types = [type_of(value) for value in relation.columns.values()]
    unordered = {place for place, value in enumerate(relation.columns.values(), start=1) if value.kind == "opaque"}
    if intervals and isinstance(tree, exp.Select) and not tree.args.get("distinct"):
        for name, bar in binder.bars.items():
            for ending, side in (("low", bar.low), ("high", bar.high)):
                tree = tree.select(exp.alias_(side(), f"{name}_{ending}", quoted=True, copy=False), copy=False)
                names.append(f"{name}_{ending}")
                types.append("float8")
    # The order of noisy rows must tell nothing; that of public ones has nothing to tell, and sorting costs.
    if relation.nature != "public" and isinstance(tree, exp.Select) and tree.args.get("order") is None:
        places = [place for place in range(1, len(names) + 1) if place not in unordered]
        order = [exp.Ordered(this=exp.Literal.number(place), nulls_first=False) for place in places]
        tree = tree.order_by(*order, copy=False) if order else tree
    return tree, tuple(names), tuple(types)
