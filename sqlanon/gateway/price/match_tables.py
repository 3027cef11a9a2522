"""Which noisy tables a question follows from: by the structure of what was bound, never by text.

A noisy table holds sums over the rows of a FROM that pass some tests, by keys. A question about the same FROM follows
from it if the tests of the table are among its own, and whatever else it asks, further tests and its keys, is a
function of the keys of the table. FILTER of an aggregate is a test like those of WHERE. What is a function is decided
for a few kinds of expressions that mean the same to every engine; anything else does not match, and is paid for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlglot import exp

from sqlanon.gateway.bind.catalog import Catalog
from sqlanon.gateway.bind.conditions import conjuncts
from sqlanon.gateway.bind.core import Atom, Core, key_tree
from sqlanon.gateway.bind.keys import among_declared
from sqlanon.gateway.bind.values import Value
from sqlanon.gateway.price.noise import Limit

# What may stand between keys and literals: of the same meaning wherever it is computed.
SAME = (
    exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Is, exp.Null,
    exp.Boolean, exp.Literal, exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Add,
    exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Floor, exp.Ceil, exp.Abs, exp.Nullif, exp.Extract, exp.Var,
    exp.TimestampTrunc, exp.DateTrunc,
)  # fmt: skip
ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE)
LONGEST = 200  # characters of a text beside a key: keys are cut far behind that
CASTS = ("INT", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN")
Tests = Mapping[str, exp.Expr]  # by their text


@dataclass(frozen=True)
class AskedAtom:
    """An atom, apart from the tests that it has for itself."""

    identity: str
    kind: str
    tests: Tests
    tree: exp.Expr  # without them


@dataclass(frozen=True)
class AskedTable:
    """What a core asks, in one form for all ways to write it."""

    source: str  # the rows before tests, whose they are, and what one person can add
    tests: Tests
    keys: tuple[tuple[exp.Expr, ...], ...]  # each with the forms in which it may be written
    kinds: tuple[str, ...]
    among: tuple[tuple[str, int, tuple[str, ...]], ...]  # tests that only hold a key among the declared ones
    atoms: tuple[AskedAtom, ...]
    mode: str
    covers: bool  # every row that passes the tests has one of the keys

    def key_names(self) -> list[str]:
        """The keys, each by the form in which it is compared."""
        return [forms[-1].sql("duckdb") for forms in self.keys]

    def question(self, atom: AskedAtom | None) -> GroupNames:
        """One column of it, or its keys: named the same however it is asked.

        A test that a key, or what might be one, is equal to a literal is a key with one value. What only holds such a
        key among values that it may have is no test.
        """
        keys = {name: place for place, name in enumerate(self.key_names())}
        left, fixed = self._apart(atom, None if atom is not None else keys.keys())
        names = sorted({*keys, *fixed})
        parts = tuple((keys.get(name), fixed[name][0] if name in fixed else None) for name in names)
        told = digest([self.source, sorted(left), names, atom.identity if atom is not None else "keys"])
        return GroupNames(told, parts, len(self.keys))

    def taken_apart(self, place: int) -> tuple[dict[str, exp.Expr], dict[str, Value]]:
        """Of one atom: its tests, and what they say to be equal to a literal, as keys of one value."""
        left, fixed = self._apart(self.atoms[place], None)
        found = {
            name: Value(tree.copy(), "text" if isinstance(value, str) else "int", keys=(value,))
            for name, (value, tree) in fixed.items()
        }
        return left, found

    def _apart(
        self, atom: AskedAtom | None, among: Collection[str] | None
    ) -> tuple[dict[str, exp.Expr], dict[str, tuple[str | int, exp.Expr]]]:
        """Tests, and those that are equal to a literal: of some forms alone, where these are given."""
        tests = {**self.tests, **(atom.tests if atom is not None else {})}
        fixed: dict[str, tuple[str | int, exp.Expr]] = {}
        for text, test in list(tests.items()):
            found = _equality(test)
            if (
                found is not None
                and (among is None or found[0] in among)
                and fixed.get(found[0], found[1:]) == found[1:]
            ):
                fixed[found[0]] = found[1:]
                del tests[text]
        held = {text for text, _, _ in self.among}
        values = {name: value for name, (value, _) in fixed.items()}
        left = {text: test for text, test in tests.items() if text not in held and not _allows(test, values)}
        return left, fixed


@dataclass(frozen=True)
class GroupNames:
    """What is asked, apart from which of its groups: each key has a place among those of a statement, or one value,
    or both."""

    name: str
    parts: tuple[tuple[int | None, str | int | None], ...]
    keys: int

    def cell(self, key: Sequence[Any]) -> tuple[Any, ...] | None:
        """How a group of a statement is called here; None of one that its tests leave empty."""
        found = tuple(value if place is None else key[place] for place, value in self.parts)
        given = (value for _, value in self.parts)
        same = all(value is None or value == own for value, own in zip(given, found, strict=True))
        return found if same else None

    def name_of(self, key: Sequence[Any]) -> tuple[Any, ...] | None:
        """As `cell`, with marks in place of texts: a statement may name anybody."""
        found = self.cell(key)
        return None if found is None else tuple(mark(each) if isinstance(each, str) else each for each in found)

    def key(self, cell: Sequence[Any]) -> tuple[Any, ...]:
        """The group of a statement that is called so here."""
        found: list[Any] = [None] * self.keys
        for (place, _), value in zip(self.parts, cell, strict=True):
            if place is not None:
                found[place] = value
        return tuple(found)


def _equality(test: exp.Expr) -> tuple[str, str | int, exp.Expr] | None:
    """What a test says to be equal to which text or whole number: its text, the value, and its tree."""
    test = test.unnest()
    sides: list[exp.Expr] = []
    if type(test) is exp.EQ:
        sides = [test.this, test.expression]
    elif type(test) is exp.In and len(test.expressions) == 1:
        sides = [test.this, test.expressions[0]]
    for side, other in (sides, sides[::-1]) if sides else ():
        if type(other) is exp.Literal and type(side) is not exp.Literal:
            if other.is_string:
                return _text(side), other.name, side
            return (_text(side), int(other.name), side) if other.name.isdigit() else None
    return None


def _allows(test: exp.Expr, fixed: Mapping[str, str | int]) -> bool:
    """Whether a test lists values of a key of which it has one."""
    test = test.unnest()
    if type(test) is not exp.In or not test.expressions or test.args.get("query") is not None:
        return False
    value = fixed.get(_text(test.this))
    listed = [each for each in test.expressions if type(each) is exp.Literal]
    return any(each.name == str(value) and each.is_string == isinstance(value, str) for each in listed)


@dataclass(frozen=True)
class KnownAtom:
    identity: str
    kind: str
    tests: frozenset[str]
    start: int  # of its columns in a row
    width: int  # how many columns it has
    noise: str  # laplace, gaussian or another, which is not added to
    scale: float


@dataclass(frozen=True)
class KnownTable:
    """A noisy table that was paid for, as the ledger keeps it: with marks in place of texts, which hold literals."""

    answer: str  # where its rows are
    tests: frozenset[str]
    keys: tuple[tuple[str, ...], ...]  # the forms of each
    kinds: tuple[str, ...]
    among: tuple[tuple[str, int, tuple[str, ...]], ...]
    atoms: tuple[KnownAtom, ...]
    mode: str
    covers: bool
    threshold: int

    def as_text(self) -> str:
        held = vars(self) | {"tests": sorted(self.tests), "atoms": None}
        held["atoms"] = [vars(atom) | {"tests": sorted(atom.tests)} for atom in self.atoms]
        return json.dumps(held, sort_keys=True)


def known_table(text: str) -> KnownTable:
    held = json.loads(text)
    atoms = tuple(KnownAtom(**atom | {"tests": frozenset(atom["tests"])}) for atom in held["atoms"])
    return KnownTable(
        held["answer"], frozenset(held["tests"]), tuple(map(tuple, held["keys"])), tuple(held["kinds"]),
        _amongs(held["among"]), atoms, held["mode"], held["covers"], held["threshold"],
    )  # fmt: skip


def _amongs(found: Sequence[Any]) -> tuple[tuple[str, int, tuple[str, ...]], ...]:
    return tuple((text, place, tuple(values)) for text, place, values in found)


@dataclass(frozen=True)
class Derivation:
    """How a question follows from a noisy table: rows that count, and the keys that they are added up by."""

    table: KnownTable
    atom: KnownAtom | None
    tests: tuple[exp.Expr, ...]
    keys: tuple[exp.Expr, ...]
    same_keys: bool  # its keys are those of the table


@lru_cache(maxsize=10_000)
def mark(text: str) -> str:
    """What tells a text from others, and does not tell it."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


def digest(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def asked_table(core: Core, limit: Limit, catalog: Catalog) -> AskedTable:
    """A core in the form in which tables are matched."""
    where = core.rows.args.get("where")
    tests = {_text(part): part for part in (conjuncts(where.this) if where is not None else [])}
    rows = core.rows.copy()
    rows.set("where", None)
    source = json.dumps([rows.sql("duckdb"), core.unit.sql("duckdb"), core.unique, limit.rows, limit.groups])
    outer = any(join.args.get("side") for join in core.rows.find_all(exp.Join))
    among = []
    for place, key in enumerate(core.keys):
        if key.keys is None or _text(held := among_declared(key)) not in tests:
            continue
        text = _text(held)
        if not outer and is_complete(key, catalog):
            tests.pop(text, None)  # it holds of every row
        else:
            among.append((text, place, tuple(_text(each) for each in held.expressions)))
    keys = tuple(_forms(key, catalog) for key in core.keys)
    covers = core.mode in ("none", "declared") or (core.mode == "public" and not outer)
    return AskedTable(
        source, tests, keys, tuple(key.kind for key in core.keys), tuple(among), tuple(map(_asked_atom, core.atoms)),
        core.mode, covers,
    )  # fmt: skip


def _text(node: exp.Expr) -> str:
    return node.sql("duckdb", copy=False)


def is_complete(key: Value, catalog: Catalog) -> bool:
    """Whether the policy says that every row has one of the values of a key."""
    table = catalog.policy.tables.get(key.source[0]) if key.source is not None else None
    column = table.columns.get(key.source[1]) if table is not None and key.source is not None else None
    return column is not None and column.complete and set(column.keys or ()) <= set(key.keys or ())


def _forms(key: Value, catalog: Catalog) -> tuple[exp.Expr, ...]:
    """The ways in which a key is written in tests: as it is grouped by, computed with, and compared."""
    forms = [key_tree(key)]
    own = key.source is not None and key.source in catalog.schema.collated
    if key.kind != "text" or not (own or key.stored is not None):  # where equal texts may be written differently
        forms += [key.tree, key.whole]
    return tuple(forms)


def _asked_atom(atom: Atom) -> AskedAtom:
    """An atom without its FILTER: CASE WHEN the test THEN what is summed ELSE 0 END, as the binder writes it."""
    inner, tests = atom.tree.unnest(), {}
    if atom.kind == "persons":
        tests = {} if isinstance(inner, exp.Boolean) else {_text(part): part for part in conjuncts(inner)}
        inner = exp.Boolean(this=True)
    elif type(inner) is exp.Case and inner.this is None and len(inner.args["ifs"]) == 1:
        default = inner.args.get("default")
        rest = "0" if atom.kind == "sum" else "NULL"
        if default is not None and _text(default) == rest:
            tests = {_text(part): part for part in conjuncts(inner.args["ifs"][0].this)}
            inner = inner.args["ifs"][0].args["true"]
    identity = (atom.kind, _text(inner), atom.step, atom.quantum, atom.alpha, atom.low, atom.high, atom.bins)
    return AskedAtom(json.dumps([*identity, atom.centred]), atom.kind, tests, inner)


def derive(asked: AskedTable, atom: AskedAtom | None, table: KnownTable, known: KnownAtom | None) -> Derivation | None:
    """How one column of a question follows from one of a noisy table, or None. Without atoms: its keys alone."""
    if atom is not None and known is not None and mark(atom.identity) != known.identity:
        return None
    tests_of = {**asked.tests, **(atom.tests if atom is not None else {})}
    wanted = {mark(text): test for text, test in tests_of.items()}
    given = table.tests | (known.tests if known is not None else frozenset())
    forms = {form: place for place, each in enumerate(table.keys) for form in each}
    implied = {text for text, place, values in table.among if _holds(place, values, wanted.values(), forms)}
    if not given <= wanted.keys() | implied:
        return None
    tests = [_over_keys(wanted[text], forms, table.kinds) for text in sorted(wanted.keys() - given)]
    keys = [
        next((made for form in each if (made := _over_keys(form, forms, table.kinds)) is not None), None)
        for each in asked.keys
    ]
    if any(made is None for made in (*tests, *keys)):
        return None
    plain = {made.name for made in keys if type(made) is exp.Column}
    same = len(plain) == len(keys) == len(table.keys)
    if not same and not table.covers:
        return None
    return Derivation(table, known, tuple(tests), tuple(keys), same)  # type: ignore[arg-type]


def _holds(place: int, values: Sequence[str], tests: Any, forms: Mapping[str, int]) -> bool:
    """Whether one of several tests lets only declared keys pass."""
    for test in tests:
        test = test.unnest()
        if type(test) is exp.EQ:
            sides = (test.this, test.expression)
            listed = [other for side, other in (sides, sides[::-1]) if forms.get(mark(_text(side))) == place]
        elif type(test) is exp.In and forms.get(mark(_text(test.this))) == place:
            listed = test.expressions
        else:
            continue
        if listed and all(mark(_text(each)) in values for each in listed):
            return True
    return False


def _over_keys(node: exp.Expr, forms: Mapping[str, int], kinds: Sequence[str]) -> exp.Expr | None:
    """An expression with the columns k0, k1, … of a noisy table in place of its keys; None of any other."""
    place = forms.get(mark(_text(node)))
    if place is not None:
        return exp.column(f"k{place}")
    if type(node) not in SAME or (type(node) is exp.Literal and node.is_string and len(node.name) > LONGEST):
        return None
    if type(node) is exp.Cast and node.args["to"].this.name not in CASTS:
        return None
    made = type(node)()
    for name, value in node.args.items():
        parts = value if isinstance(value, list) else [value]
        found = [_over_keys(each, forms, kinds) if isinstance(each, exp.Expr) else each for each in parts]
        if any(isinstance(each, exp.Expr) and one is None for each, one in zip(parts, found, strict=True)):
            return None
        made.set(name, found if isinstance(value, list) else found[0])
    if type(node) in ORDERED and any(_is_text(side, kinds) for side in (made.this, made.expression)):
        return None  # which text comes first is a matter of collations
    return made


def _is_text(node: exp.Expr, kinds: Sequence[str]) -> bool:
    node = node.unnest()
    if type(node) is exp.Column:
        return kinds[int(node.name[1:])] == "text"
    if type(node) is exp.Case:
        results = [each.args["true"] for each in node.args["ifs"]]
        return any(_is_text(each, kinds) for each in (*results, node.args.get("default") or exp.Null()))
    if type(node) in (exp.Coalesce, exp.Nullif):
        return any(_is_text(each, kinds) for each in node.iter_expressions())
    return type(node) is exp.Literal and node.is_string
