"""The keys of a private answer: declared, public, or private ones, which a noisy number of persons selects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from sqlglot import exp

from sqlanon.errors import Refused
from sqlanon.gateway.bind.conditions import condition, conjuncts
from sqlanon.gateway.bind.core import Core, cross, key_tree
from sqlanon.gateway.bind.parameters import literal_of
from sqlanon.gateway.bind.scalars import refusal
from sqlanon.gateway.bind.sources import FromRows, NamedRelation, alias_relation
from sqlanon.gateway.bind.values import Value

MAX_KEYS = 10_000


def set_key_mode(core: Core, rows: FromRows, where: exp.Expr | None) -> None:
    keys = core.keys
    if not keys:
        return
    public = [place for place, key in enumerate(keys) if key.keys is None]
    if not public:
        core.mode = "declared"
        core.declared = cross([key.keys or () for key in keys])
        if len(core.declared) > MAX_KEYS:
            raise refusal(keys[0].tree, f"more than {MAX_KEYS} declared keys in one answer are not answered")
    else:
        owner = {each.table for place in public for each in keys[place].tree.find_all(exp.Column)}
        source = [each for each in rows.sources if {each.alias} == owner and each.relation.nature == "public"]
        if source and all(keys[place].public for place in public):
            core.mode, core.public_keys = (
                "public",
                _public_keys(source[0], [keys[p] for p in public], rows, where),
            )
        else:
            core.mode = "private"
    for key in keys:
        # Rows with other keys are left out before bounding, so that they cost their person nothing. Beside a key that
        # is private too: a value that the policy does not declare is never shown.
        if key.keys is not None and key.source is not None:
            core.rows = core.rows.where(among_declared(key), copy=True)


def _public_keys(source: NamedRelation, keys: list[Value], rows: FromRows, where: exp.Expr | None) -> exp.Select:
    relation = alias_relation(source)
    select = exp.Select(distinct=exp.Distinct()).from_(relation, copy=False)
    for place, key in enumerate(keys):
        select = select.select(exp.alias_(key_tree(key), f"k{place}"), copy=False)
    for part in conjuncts(where.this) if where is not None else []:
        value = condition(part, rows)
        if value.public and {each.table for each in value.tree.find_all(exp.Column)} == {source.alias}:
            select = select.where(value.tree, copy=False)
    return select.limit(MAX_KEYS + 1, copy=False)


def among_declared(key: Value) -> exp.In:
    """That a row has one of the declared keys."""
    values = [literal_of(each) for each in key.keys or ()]
    return exp.In(this=key_tree(key), expressions=[value.tree for value in values])


def combine_keys(core: Core, found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The keys of an answer: what a public table holds, with all values of the keys that are declared."""
    domains = [key.keys for key in core.keys if key.keys is not None]
    others = cross([domain for domain in domains if domain is not None])
    if len(found) * len(others) > MAX_KEYS:
        hint = "filter the public table"
        raise Refused(f"more than {MAX_KEYS} public keys in one answer are not answered", hint=hint)
    made = []
    for public in found:
        for other in others:
            left, right = iter(public), iter(other)
            made.append(
                tuple(next(left) if key.keys is None else typed_key(next(right), key.kind) for key in core.keys)
            )
    return sorted(made, key=lambda key: tuple((value is None, str(value)) for value in key))


def typed_key(value: Any, kind: str) -> Any:
    if kind == "timestamp" and isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, datetime.min.time())
    return value
