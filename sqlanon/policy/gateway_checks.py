"""What the parts of the section `gateway` say about each other: tables, links, budgets and principals.

As in `checks`, the section is read as it was written, so that one wrong key does not hide the next problem.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sqlanon.errors import did_you_mean
from sqlanon.policy.checks import Draft, table_key
from sqlanon.policy.gateway import KINDS, GatewayTable
from sqlanon.policy.gateway_access import check_access
from sqlanon.policy.yaml_lines import KeyPath, PolicyProblem


def problems(draft: Draft) -> Iterator[PolicyProblem]:
    if not isinstance(draft.data.get("gateway"), Mapping):
        return
    for check in CHECKS:
        yield from check(draft)


def check_names(draft: Draft) -> Iterator[PolicyProblem]:
    """SQL folds names: with two that differ in case only, a bound or a refusal could miss its column."""
    tables = _tables(draft)
    yield from _alike(draft, "table", tables, ("gateway", "tables"), table_key)
    for name, table in tables.items():
        columns = table.get("columns")
        if isinstance(columns, Mapping):
            yield from _alike(draft, "column", columns, ("gateway", "tables", name, "columns"), str.casefold)
    principals = draft.mapping("gateway", "principals")
    yield from _alike(draft, "principal", principals, ("gateway", "principals"), str.casefold)


def _alike(
    draft: Draft, what: str, names: Iterable[str], path: KeyPath, key_of: Callable[[str], str]
) -> Iterator[PolicyProblem]:
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(key_of(name), name)
        if first != name:
            line = draft.origin.line_of(*path, first)
            hint = f"'{first}' is on line {line}; keep one" if line else "keep one"
            yield PolicyProblem(f"{what} '{name}' is the same as '{first}'", hint, (*path, name))


def check_unit(draft: Draft) -> Iterator[PolicyProblem]:
    tables, unit = _tables(draft), _unit_table(draft)
    if unit is not None and tables and unit not in tables:
        hint = did_you_mean(unit, tables) or f"add '{unit}: {{}}' under tables"
        yield PolicyProblem(f"the unit's table '{unit}' is not among the tables", hint, ("gateway", "unit", "table"))


def check_kinds(draft: Draft) -> Iterator[PolicyProblem]:
    tables, unit = _tables(draft), _unit_table(draft)
    for name, table in tables.items():
        path: KeyPath = ("gateway", "tables", name)
        given = _kinds(table)
        if name == unit:
            yield from _check_own_table(draft, name, table, path)
        elif len(given) > 1:
            hint = f"keep exactly one of {', '.join(KINDS)}"
            yield PolicyProblem(f"table '{name}' has {' and '.join(given)}", hint, (*path, given[-1]))
        elif not given and unit in tables and set(table) <= set(GatewayTable.model_fields):
            hint = "add 'unit: …' with the column that tells whose a row is, for instance"
            yield PolicyProblem(f"table '{name}' needs one of {', '.join(KINDS)}", hint, path)


def _check_own_table(draft: Draft, name: str, table: Mapping[str, Any], path: KeyPath) -> Iterator[PolicyProblem]:
    key = draft.mapping("gateway", "unit").get("key")
    for kind in _kinds(table):
        if kind != "unit":
            hint = f"leave '{kind}' out; each of its rows is a person"
            yield PolicyProblem(f"table '{name}' is that of the unit, it cannot have '{kind}'", hint, (*path, kind))
        elif isinstance(key, str) and isinstance(table["unit"], str) and table["unit"] != key:
            said = f"table '{name}' is that of the unit, whose key is '{key}', not '{table['unit']}'"
            yield PolicyProblem(said, "leave 'unit' out here", (*path, "unit"))


def check_links(draft: Draft) -> Iterator[PolicyProblem]:
    tables = _tables(draft)
    links = {name: target for name in tables if (target := _target(tables[name])) is not None}
    told: set[str] = set()
    for name, target in links.items():
        path: KeyPath = ("gateway", "tables", name, "link", "table")
        if target not in tables:
            hint = did_you_mean(target, tables) or "declare it under tables"
            yield PolicyProblem(f"table '{name}' links to '{target}', which is not among the tables", hint, path)
            continue
        kind = next((kind for kind in _kinds(tables[target]) if kind in ("public", "released")), None)
        if kind is not None and target != _unit_table(draft):
            hint = "link it to a table that leads to the unit"
            yield PolicyProblem(f"table '{name}' links to '{target}', which is {kind}", hint, path)
        way = [name]
        while way[-1] in links and links[way[-1]] not in way:
            way.append(links[way[-1]])
        if links.get(way[-1]) == name and name not in told:
            told.update(way)
            round_trip = " -> ".join([*way, name])
            hint = "give one of them the column of the unit: 'unit: …'"
            yield PolicyProblem(f"the links never reach the unit: {round_trip}", hint, path)


def check_columns(draft: Draft) -> Iterator[PolicyProblem]:
    for name, table in _tables(draft).items():
        columns = table.get("columns")
        for column, given in columns.items() if isinstance(columns, Mapping) else ():
            if given == {}:
                hint = "give it low and high, or keys, or leave it out"
                yield PolicyProblem(
                    f"'{column}' has neither bounds nor keys", hint, ("gateway", "tables", name, "columns", column)
                )


def check_principals(draft: Draft) -> Iterator[PolicyProblem]:
    tables = _tables(draft)
    for who, given in draft.mapping("gateway", "principals").items():
        if not isinstance(given, Mapping):
            continue
        path: KeyPath = ("gateway", "principals", who)
        listed = given.get("tables")
        for index, name in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(name, str) and tables and name not in tables:
                hint = did_you_mean(name, tables) or f"the tables are {', '.join(list(tables)[:20])}"
                said = f"principal '{who}' has the table '{name}', which is not among the tables"
                yield PolicyProblem(said, hint, (*path, "tables", index))
        if given.get("controls") is not True:
            continue
        if "controls" not in draft.mapping("gateway"):
            hint = "add 'controls: {query_set_size: 10}' to gateway, for instance"
            yield PolicyProblem(f"principal '{who}' has controls, but the gateway has none", hint, (*path, "controls"))
        for key in ("epsilon", "delta"):
            if key in given:
                said = f"principal '{who}' is answered under controls and spends no {key}"
                yield PolicyProblem(said, "keep one of both", (*path, key))


def check_controls(draft: Draft) -> Iterator[PolicyProblem]:
    """Groups that are withheld must not come back by subtraction."""
    given, path = draft.mapping("gateway", "controls"), ("gateway", "controls")
    size, overlap = number_of(given.get("query_set_size")), number_of(given.get("overlap"))
    if size is None:
        return
    if given.get("overlap") is None:
        hint = f"write 'overlap: 0', or another number below {size:g}"
        yield PolicyProblem(
            "without overlap, withheld groups come back as margins less the groups answered", hint, path
        )
    elif overlap is not None and overlap >= size:
        said = f"an overlap of {overlap:g} lets a margin hold a group of {size:g} persons as a whole"
        yield PolicyProblem(said, f"write a number below {size:g}; 0 is the safest", (*path, "overlap"))


def check_noise(draft: Draft) -> Iterator[PolicyProblem]:
    gateway, budget = draft.mapping("gateway"), ("gateway", "budget")
    gaussian, zcdp = gateway.get("mechanism") == "gaussian", gateway.get("accounting") == "zcdp"
    if gaussian and gateway.get("accounting", "basic") == "basic":
        key = "accounting" if "accounting" in gateway else "mechanism"
        yield PolicyProblem("gaussian noise needs the accounting zcdp", "write 'accounting: zcdp'", ("gateway", key))
    needs = [("statement", gaussian, "gaussian noise"), ("principal", zcdp, "zcdp"), ("total", zcdp, "zcdp")]
    for part, needed, what in needs:
        limit = draft.mapping(*budget, part)
        if needed and limit and limit.get("delta", 0) == 0:
            said = f"{what} needs a delta above 0 for the {part}"
            yield PolicyProblem(said, "write 'delta: 1e-6', for instance", (*budget, part, "delta"))
    for who, given in draft.mapping("gateway", "principals").items():
        own = given.get("delta") if isinstance(given, Mapping) else None
        if zcdp and own == 0 and own is not False:
            said = f"zcdp needs a delta above 0 for '{who}'"
            yield PolicyProblem(said, "write 'delta: 1e-6', for instance", ("gateway", "principals", who, "delta"))


def check_budget(draft: Draft) -> Iterator[PolicyProblem]:
    path = ("gateway", "budget")
    statement = draft.mapping(*path, "statement")
    for part in ("principal", "total"):
        limit = draft.mapping(*path, part)
        for key in ("epsilon", "delta"):
            most, one = number_of(limit.get(key)), number_of(statement.get(key))
            if key == "delta" and limit and most is None and key not in limit:
                most = 0.0
            if most is not None and one is not None and one > most:
                said = f"a statement may spend {key} {one:g}, more than {_whose(part)} {most:g}"
                yield PolicyProblem(said, "lower it, or raise the other", (*path, "statement", key))


def _whose(part: str) -> str:
    return "a principal's" if part == "principal" else "the total of"


def check_times(draft: Draft) -> Iterator[PolicyProblem]:
    """An answer that would leave after the timeout never would."""
    gateway = draft.mapping("gateway")
    if "time_grid" in gateway:
        hint = "answers about persons leave after 'answer_time' seconds, and what is not done by then fails"
        yield PolicyProblem("'time_grid' is now called 'answer_time'", hint, ("gateway", "time_grid"))
    wait, most = gateway.get("answer_time", 2.0), gateway.get("timeout", 30.0)
    if type(wait) in (int, float) and type(most) in (int, float) and wait > most > 0:
        hint = "raise the timeout to some times of it: a statement may read data several times"
        yield PolicyProblem(f"'answer_time' {wait:g} is above the timeout {most:g}", hint, ("gateway", "answer_time"))


def check_files(draft: Draft) -> Iterator[PolicyProblem]:
    gateway = draft.mapping("gateway")
    ledger, database = gateway.get("ledger"), gateway.get("database")
    if not isinstance(ledger, str):
        return
    if "://" in ledger:
        yield PolicyProblem("the ledger is a file, not a URL", "write 'ledger: budget.ledger'", ("gateway", "ledger"))
    elif isinstance(database, str) and ledger and posixpath.normpath(ledger) == posixpath.normpath(database):
        yield PolicyProblem("the ledger cannot be the database", "give it a file of its own", ("gateway", "ledger"))


def _tables(draft: Draft) -> dict[str, Mapping[str, Any]]:
    given = draft.mapping("gateway", "tables").items()
    return {name: table if isinstance(table, Mapping) else {} for name, table in given}


def _unit_table(draft: Draft) -> str | None:
    name = draft.mapping("gateway", "unit").get("table")
    return name if isinstance(name, str) else None


def _kinds(table: Mapping[str, Any]) -> list[str]:
    return [kind for kind in KINDS if table.get(kind) not in (None, False)]


def _target(table: Mapping[str, Any]) -> str | None:
    link = table.get("link")
    name = link.get("table") if isinstance(link, Mapping) else None
    return name if isinstance(name, str) else None


def number_of(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if fits else None


CHECKS: tuple[Callable[[Draft], Iterator[PolicyProblem]], ...] = (
    check_names,
    check_unit,
    check_kinds,
    check_links,
    check_columns,
    check_principals,
    check_controls,
    check_access,
    check_noise,
    check_budget,
    check_files,
    check_times,
)
