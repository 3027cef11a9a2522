"""Sensitive values that a policy names but the data does not hold: most often a typo, which would weaken it."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.policy import Policy
from sqlanon.relations.checks import Check
from sqlanon.relations.classes import as_label
from sqlanon.sqltree.tree import sum_bigint, table

# A suggestion must not reveal a value that only few people have.
FEW = 5


def absent_values(policy: Policy, engine: Engine, checks: list[Check]) -> list[str]:
    """An error, unless the policy allows such values; then the notes that say which they are."""
    lines = list(dict.fromkeys(line for item in checks for line in _lines(engine, item)))
    if lines and policy.absent_values == "refuse":
        raise PolicyError(
            "\n".join(lines),
            hint="write values as the database prints them; if they may be absent, say 'absent_values: allow'",
        )
    return lines


def _lines(engine: Engine, item: Check) -> Iterator[str]:
    named: dict[str, list[str]] = {}
    for name, value in item.freeform_values:
        named.setdefault(name, []).append(value)
    if item.attribute is not None and item.listed_values:
        named[item.attribute] = list(item.listed_values)
    for name, values in named.items():
        query = _freeform(item, name) if item.freeform_values else _totals(item)
        known = {as_label(label): int(records) for label, records in engine.query(query.limit(100_000))}
        for value in values:
            if value not in known:
                near = did_you_mean(value, [label for label, records in known.items() if records >= FEW])
                said = f"{item.model.name}: the value '{value}' does not occur in '{name}'"
                yield f"{said}; {near}" if near else said


def _totals(item: Check) -> exp.Select:
    assert item.totals is not None
    return exp.select("label", "records").from_(table(item.totals))


def _freeform(item: Check, name: str) -> exp.Select:
    """The values of a column that freeform attacks are about, from the records that their combinations were made of."""
    assert item.rows is not None
    short = next(label for label, known in item.shown.items() if known == name)
    value = exp.cast(exp.column(short), "text")
    tree = exp.select(value.as_("label"), sum_bigint(exp.column("records")).as_("records"))
    return tree.from_(table(item.rows)).group_by(value.copy())
