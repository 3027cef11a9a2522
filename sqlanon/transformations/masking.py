"""Letters and digits of e-mail addresses, phone numbers and names become others, so that the format stays.

    transformations:
      - masking: {columns: [email], format: email}
      - masking: {columns: [phone], format: phone, keep_first: 3}

Each digit becomes a digit, each letter a letter, large or small as it was; all other signs, such as '@' and spaces,
stay where they are. `email` keeps what follows the last dot (.com), `phone` and `name` only what `keep_first` and
`keep_last` ask for, and nothing of a value that would be kept as a whole. The same value of a column becomes the same
result, in all rows and all releases under one secret, and two values never become the same one: so results can be
counted and joined. (Letters beyond A to Z become letters of A to Z; where they are all that two values differ in, these
may fall together.) NULL stays NULL. Values whose masked part has more than 64 characters are refused.

What it does not protect: anybody. It is a pseudonym, whatever it looks like: how often a value occurs, its length, its
shape and the kept characters stay the same, and an attacker finds a person by them and by other columns. A masked
address or number may belong to somebody else: never write to it, nor call it.
cite: Luby and Rackoff 1988 (permutations from keyed hashes, by rounds); Bellare, Ristenpart, Rogaway and Stegers 2009
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator
from sqlglot import exp

from sqlanon.sqltree.draws import (
    TEXTS,
    alias,
    call,
    concatenate,
    cross_join,
    is_known,
    minus,
    nest_copy,
    over,
    plus,
    seed_row,
    string,
    times,
)
from sqlanon.sqltree.tree import case, column, table, text
from sqlanon.transformations import Changed, DataCheck, Given, Make, Step
from sqlanon.transformations._params import Base, Columns
from sqlanon.transformations._rows import require, select_rows

HALF = 32  # characters, one for each digit of a hash: a round changes one half of a value by a hash of the other
ROUNDS = 8
KINDS = ("0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
BEYOND = 127  # the last code of ASCII
# Where capital letters lie beyond it: Latin, Greek, Cyrillic.
CAPITALS = ((192, 222), (913, 939), (1040, 1071))


class Params(Base):
    columns: Columns = Field(description="Columns of text.")
    format: Literal["email", "phone", "name"] = Field(description="What the values are.")
    keep_first: int = Field(0, strict=True, ge=0, le=20, description="Characters at the start that stay.")
    keep_last: int = Field(0, strict=True, ge=0, le=20, description="Characters at the end that stay.")

    @model_validator(mode="after")
    def _whole_address(self) -> Params:
        if self.format == "email" and (self.keep_first or self.keep_last):
            raise ValueError("an e-mail address keeps what follows its last dot, and nothing else")
        return self


uses_secret = True


def change(params: Params, given: Given) -> Changed:
    steps: list[Step] = []
    labels: list[str] = []
    for place, name in enumerate(params.columns, start=1):
        require(given, [name], given.columns[name].this in TEXTS, "which has no letters")
        prefix, label = given.name(f"column_{place}"), given.seed(name)
        split = f"{prefix}_parts"
        steps += [Make(f"{prefix}_values", _values(given, name)), Make(split, _parts(params, f"{prefix}_values"))]
        steps.append(_long(name, split))
        source, wheels = f"{prefix}_halves", f"{prefix}_wheels"
        steps += [Make(source, _halves(split)), Make(wheels, _wheels())]
        for number in range(1, ROUNDS + 1):
            made = f"{prefix}_round_{number}"
            steps.append(Make(made, _round(given, label, source, wheels, number)))
            source = made
        whole = concatenate(exp.column(item, table="m") for item in ("head", "one", "other", "tail"))
        masked = exp.Cast(this=whole, to=given.columns[name].copy())
        tree = select_rows(given, {name: masked}, nest_copy(given.rows, "t"))
        same = exp.column("value", table="m").eq(column(name, "t"))
        tree.append("joins", exp.Join(this=table(source, "m"), side="LEFT", on=same))
        labels.append(label)
        given = replace(given, rows=tree)
    return Changed(given.rows, steps, labels)


def _values(given: Given, name: str) -> exp.Select:
    chosen = [alias(column(name, "t"), "value")]
    tree = exp.Select(expressions=chosen, from_=exp.From(this=nest_copy(given.rows, "t")))
    return tree.where(is_known(column(name, "t"))).group_by(column(name, "t"))


def _parts(params: Params, source: str) -> exp.Select:
    """(value, head, body, tail): what stays before and after, and what is masked."""
    value = text(exp.column("value"))
    length = call("LENGTH", value.copy())
    long = exp.GT(this=length.copy(), expression=exp.convert(params.keep_first + params.keep_last))
    first = case((long, exp.convert(params.keep_first)), default=exp.convert(0))
    last = case((long.copy(), exp.convert(params.keep_last)), default=exp.convert(0))
    if params.format == "email":
        dots = exp.StrPosition(this=call("REVERSE", value.copy()), substr=string("."))
        signs = exp.StrPosition(this=call("REVERSE", value.copy()), substr=string("@"))
        # Only of an address: of a text without '@', or without a dot after it, nothing stays.
        dotted = exp.GT(this=dots, expression=exp.convert(0))
        last = case((exp.and_(dotted, exp.LT(this=dots.copy(), expression=signs)), dots.copy()), default=exp.convert(0))
    end = minus(length, last)  # of what is masked
    return exp.select(
        exp.column("value"),
        alias(_cut(value, exp.convert(1), first), "head"),
        alias(_cut(value, plus(first.copy(), exp.convert(1)), minus(end.copy(), first.copy())), "body"),
        alias(_cut(value, plus(end.copy(), exp.convert(1)), last.copy()), "tail"),
    ).from_(table(source))


def _cut(value: exp.Expr, start: exp.Expr, length: exp.Expr) -> exp.Expr:
    return exp.Substring(this=value.copy(), start=start, length=length)


def _long(name: str, parts: str) -> DataCheck:
    beyond = exp.GT(this=call("LENGTH", exp.column("body")), expression=exp.convert(2 * HALF))
    return DataCheck(
        exp.select(exp.convert(1)).from_(table(parts)).where(beyond),
        f"'{name}' holds values of more than {2 * HALF} characters",
        "cut them in a query, or leave the column out",
    )


def _halves(parts: str) -> exp.Select:
    """(value, head, one, other, tail), where letters are those of A to Z."""
    body = exp.column("body")
    plain = concatenate(_plain(_cut(body, exp.convert(at), exp.convert(1))) for at in range(1, 2 * HALF + 1))
    names = [exp.column(item) for item in ("value", "head", "tail")]
    inner = exp.select(*names, alias(plain, "body")).from_(table(parts)).subquery(alias="p")
    half = exp.Cast(
        this=exp.Floor(this=over(call("LENGTH", exp.column("body")), exp.convert(2.0))), to=exp.DataType.build("int")
    )
    whole = call("LENGTH", exp.column("body"))
    return exp.select(
        *(item.copy() for item in names),
        alias(_cut(body, exp.convert(1), half), "one"),
        alias(_cut(body, plus(half.copy(), exp.convert(1)), whole), "other"),
    ).from_(inner)


def _plain(sign: exp.Expr) -> exp.Expr:
    code = call("ASCII", sign)
    within = [exp.Between(this=code.copy(), low=exp.convert(low), high=exp.convert(high)) for low, high in CAPITALS]
    first = case((exp.or_(*within), exp.convert(ord("A"))), default=exp.convert(ord("a")))
    letter = call("CHR", plus(first, exp.Mod(this=code.copy(), expression=exp.convert(26))))
    return case((exp.GT(this=code, expression=exp.convert(BEYOND)), letter), default=sign.copy())


def _wheels() -> exp.Select:
    """What characters are, and the same moved on by 1 to 16 places among their like, one after the other."""
    moved = ["".join(kind[at % len(kind) :] + kind[: at % len(kind)] for kind in KINDS) for at in range(1, 17)]
    return exp.select(
        alias(text(string("".join(KINDS))), "signs"),
        alias(text(string("".join(moved))), "wheels"),
        alias(text(string("0123456789abcdef")), "digits"),
    )


def _round(given: Given, label: str, source: str, wheels: str, number: int) -> exp.Select:
    """One half is changed by a hash of the other, which stays: so it can be undone by who has the secret, and no two
    values become the same."""
    changed, stays = ("one", "other") if number % 2 else ("other", "one")
    keyed = concatenate([exp.column("seed", table="s"), string(f"{number}:"), exp.column(stays, table="t")])
    own: list[exp.Expr] = [exp.column(item, table="t") for item in ("value", "head", "tail", changed, stays)]
    own += [exp.column(item, table="w") for item in ("signs", "wheels", "digits")]
    inner = exp.Select(
        expressions=[*own, alias(exp.MD5(this=keyed), "stream")], from_=exp.From(this=table(source, "t"))
    )
    inner = cross_join(inner, seed_row(given.seeds, label, "s"), table(wheels, "w"))
    shifted = concatenate(_shifted(changed, at) for at in range(1, HALF + 1))
    kept = [exp.column(item) for item in ("value", "head", "tail", stays)]
    return exp.Select(expressions=[*kept, alias(shifted, changed)], from_=exp.From(this=inner.subquery(alias="r")))


def _shifted(half: str, at: int) -> exp.Expr:
    """A character, moved on among its like by as many places as one digit of the hash says."""
    place, one = exp.convert(at), exp.convert(1)
    digit = exp.StrPosition(this=exp.column("digits"), substr=_cut(exp.column("stream"), place, one))
    size = sum(len(kind) for kind in KINDS)
    start = minus(times(digit, exp.convert(size)), exp.convert(size - 1))
    wheel = _cut(exp.column("wheels"), start, exp.convert(size))
    return call("TRANSLATE", _cut(exp.column(half), place.copy(), one.copy()), exp.column("signs"), wheel)
