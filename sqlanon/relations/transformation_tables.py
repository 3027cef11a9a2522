"""The rows of a policy after its transformations, as temporary tables in front of all others.

The identity of a row, which draws are made of, is what identifies it: the person column and all identifiers. Where
several rows share them, they are numbered in the order of a hash over all their columns; without any such column, the
identity is that hash, with a number among rows that are equal in everything, and so may stand for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlglot import exp

from sqlanon import transformations
from sqlanon.errors import PolicyError
from sqlanon.families import plugin
from sqlanon.policy import Policy
from sqlanon.relations.classes import Prelude, Step
from sqlanon.relations.draw_chains import marks
from sqlanon.sqltree.draws import FLOATS, canonical
from sqlanon.sqltree.tree import (
    alias,
    bind,
    case,
    column,
    count_all,
    literal,
    nest_query,
    put_first,
    select,
    table,
    text,
    union_all,
    window,
)
from sqlanon.transformations import KEY, ROW, DataCheck, File, Given, Make

PREFIX = "sqlanon_changed"
OWN, WHOLE = "\u2205 own", "\u2205 whole"  # beside a user's own columns
RESULT = f"{PREFIX}_rows"
Identity = Literal["unique", "numbered"]
Kind = exp.DataType.Type
SMALL_INTEGERS = {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.UTINYINT, Kind.USMALLINT, Kind.UINT}


@dataclass(frozen=True)
class Outline:
    """What must be known of a table to write the SQL of its transformations; kept with the plan."""

    types: Mapping[str, str]  # of all columns, in the dialect of the engine that has them
    dialect: str
    identity: Identity = "numbered"
    records: Mapping[str, int] | None = None  # rows before each method that asks for their number
    lasting: bool = False  # the source is a table that nobody writes while it is read several times
    # The ends of a range that the identities have most integers of. It makes draws faster, and is not kept with a plan,
    # since draws are the same without it.
    span: tuple[int, int] | None = None

    def described(self) -> dict[str, Any]:
        written = {"types": dict(self.types), "dialect": self.dialect, "identity": self.identity}
        return (
            written
            | ({"records": dict(self.records)} if self.records else {})
            | ({"lasting": True} if self.lasting else {})
        )


Action = Step | DataCheck


def key_columns(policy: Policy) -> tuple[str, ...]:
    """The columns that identify a row, if there are any."""
    person = (policy.person,) if policy.person is not None else ()
    return tuple(dict.fromkeys((*person, *policy.identifiers)))


def integer_key(policy: Policy, types: Mapping[str, exp.DataType]) -> str | None:
    """The one column that identifies a row, if it holds integers of at most 64 bits."""
    named = key_columns(policy)
    return named[0] if len(named) == 1 and types[named[0]].this in SMALL_INTEGERS else None


def rises(policy: Policy, rows: exp.Select, types: Mapping[str, exp.DataType]) -> exp.Select | None:
    """Asks for the number of rows, of those with a key, of those whose key is above that of the row before, and for the
    least and the largest integer. If only the first key is not above another, all are different, whatever order the
    engine reads them in: most tables lie in the order of their key, and to see that is far faster than to count
    different values. Draws are made of the text of a key, which may be the same for floating-point numbers that differ:
    these are not asked here."""
    named = key_columns(policy)
    if len(named) != 1 or types[named[0]].this in FLOATS:
        return None
    before = alias(window(exp.Lag(this=column(named[0]))), "before")
    read = select(alias(column(named[0]), "own"), before, source=nest_query(rows.copy(), "source"))
    above = case((exp.GT(this=exp.column("own"), expression=exp.column("before")), literal(1)), default=literal(0))
    known = exp.Count(this=exp.column("own"))
    ends = _ends(exp.column("own"), policy, types)
    return select(count_all(), known, exp.Sum(this=above), *ends, source=nest_query(read, "r"))


def _ends(key: exp.Expr, policy: Policy, types: Mapping[str, exp.DataType]) -> list[exp.Expr]:
    if integer_key(policy, types) is None:
        return [exp.Null(), exp.Null()]
    return [exp.Min(this=key), exp.Max(this=key.copy())]


def uniqueness(policy: Policy, rows: exp.Select, types: Mapping[str, exp.DataType]) -> exp.Select | None:
    """Asks for the number of rows, of different identities, and for the least and the largest integer."""
    named = key_columns(policy)
    if not named:
        return None
    told: exp.Expr = written_key(named, types)
    if len(named) == 1:  # NULL is no identity: it is not counted, and joins with nothing
        # Values are counted faster than their text, which may be the same for floating-point numbers that differ.
        inexact = types[named[0]].this in FLOATS
        missing = column(named[0]).is_(exp.Null())
        told = case((missing, exp.Null()), default=told) if inexact else column(named[0])
    distinct = exp.Count(this=exp.Distinct(expressions=[told]))
    return select(count_all(), distinct, *_ends(told, policy, types), source=nest_query(rows.copy(), "source"))


def written_key(names: Sequence[str], types: Mapping[str, exp.DataType]) -> exp.Expr:
    tree = canonical(names[0], types[names[0]])
    for name in names[1:]:
        tree = exp.DPipe(this=exp.DPipe(this=tree, expression=literal("|")), expression=canonical(name, types[name]))
    return tree


def identify_rows(
    policy: Policy, rows: exp.Select, types: Mapping[str, exp.DataType], identity: Identity
) -> exp.Select:
    """The rows with ROW and KEY."""
    named = key_columns(policy)
    columns = [column(name) for name in types]
    source = nest_query(rows.copy(), "source")
    if identity == "unique":
        # The identity itself tells rows apart, and unlike a number is the same whenever the rows are read.
        own = column(named[0]) if len(named) == 1 else written_key(named, types)
        written = alias(written_key(named, types), KEY, quoted=True)
        return select(alias(own, ROW, quoted=True), written, *columns, source=source)
    whole = exp.MD5(this=written_key(list(types), types))
    own = written_key(named, types) if named else whole.copy()
    hashed = select(alias(own, OWN, quoted=True), alias(whole, WHOLE, quoted=True), *columns, source=source)
    place = window(exp.RowNumber(), partition=[column(OWN)], order=[column(WHOLE)])
    key = exp.DPipe(this=exp.DPipe(this=column(OWN), expression=literal("#")), expression=text(place))
    numbered = alias(window(exp.RowNumber()), ROW, quoted=True)
    return select(
        numbered, alias(key, KEY, quoted=True), *(item.copy() for item in columns), source=nest_query(hashed, "h")
    )


def plan_transformations(
    policy: Policy, rows: exp.Select, outline: Outline, prelude: Prelude, secret: str | None
) -> list[Action]:
    """The tables to make, and the questions to ask between them; the last table, RESULT, is the new source.

    The secret and what is derived from it come first, and are added to the prelude, which pseudonyms share.
    """
    types = {name: exp.DataType.build(kind, dialect=outline.dialect) for name, kind in outline.types.items()}
    tree = identify_rows(policy, rows, types, outline.identity)
    actions: list[Action] = []
    labels: list[str] = []
    seeds = f"{PREFIX}_seeds"
    numbered = outline.identity == "unique" and integer_key(policy, types) is not None
    for place, (use, marked) in enumerate(zip(policy.transformations, marks(policy), strict=True)):
        module = transformations.method(use.name)
        params = module.Params.model_validate(use.params)
        given = Given(
            tree,
            types,
            prelude.dialect,
            seeds,
            f"{PREFIX}_{place + 1}",
            use.name,
            policy.person,
            (outline.records or {}).get(str(place), 0),
            lasting=outline.lasting and outline.identity == "unique" and place == 0,
            numbered=numbered,
            span=outline.span if numbered and outline.lasting else None,
            marks=marked,
        )
        try:
            made = module.change(params, given)
        except PolicyError as error:
            raise policy.error(
                f"{use.name}: {error.message}", "transformations", place, use.name, hint=error.hint
            ) from None
        numbered = numbered and not getattr(module, "NEW_ROWS", False)
        labels += made.seeds
        actions += _bound(made.steps, policy, place)
        tree = made.rows
    last = select(*(column(name) for name in types), source=nest_query(tree, "changed"))
    actions.append(Step(RESULT, last))
    before = seeds_of(prelude, seeds, labels, secret) if labels else []
    return [*before, *actions]


def seeds_of(
    prelude: Prelude, name: str, labels: Sequence[str], secret: str | None, mark: str | None = None
) -> list[Action]:
    """A table (label, seed): each seed is a keyed hash of its label, and tells nothing of the others. With a `mark`, it
    is one of that, too."""
    done = len(prelude.steps)
    private = prelude.load("secret", (), ("key",), ((secret or "",),), private=True)
    rows = []
    for label in dict.fromkeys(labels):
        named = exp.DPipe(
            this=exp.column("key"), expression=literal(f":{label}" if mark is None else f":{label}#{mark}")
        )
        inner = _sha256(named, prelude.dialect)
        outer = _sha256(exp.DPipe(this=exp.column("key"), expression=inner), prelude.dialect)
        # Half of it: with the identity of a row it fits into one block of the hash that draws are made of.
        half = exp.Substring(this=outer, start=literal(1), length=literal(32))
        seed = exp.DPipe(this=half, expression=literal(":"))
        rows.append(select(alias(text(literal(label)), "label"), alias(seed, "seed"), source=table(private)))
    loaded = list(prelude.steps[done:])
    del prelude.steps[done:]
    return [*loaded, Step(name, union_all(rows))]


def _sha256(value: exp.Expr, dialect: str) -> exp.Expr:
    if dialect == "postgres":
        value = exp.Anonymous(this="convert_to", expressions=[value, literal("UTF8")])
    return exp.SHA2(this=value, length=literal(256))


def _bound(steps: Sequence[transformations.Step], policy: Policy, place: int) -> Iterator[Action]:
    for step in steps:
        if isinstance(step, DataCheck):
            use = policy.transformations[place]
            yield replace(step, message=f"{use.name}: {step.message}", at=("transformations", place, use.name))
        else:
            yield Step(step.name, _query(step))


def _query(item: Make) -> exp.Query:
    if not isinstance(item.query, File):
        return item.query
    given = item.query.relations
    # Queries read the table of a user, which may be called like one of them: no such table has a name of this kind.
    names = {name: made if isinstance(made, str) else f"sqlanon_{name}" for name, made in given.items()}
    tree = bind(plugin("transformations", item.query.name).sql, item.query.params, names)
    for name, made in given.items():
        if not isinstance(made, str):
            put_first(tree, names[name], made)
    return tree


def rows_of(policy: Policy, types: Mapping[str, str]) -> exp.Select:
    """The new source: the columns of the old one, after all transformations."""
    return select(*(column(name) for name in types), source=table(RESULT))
