"""Read SELECT set_config('name', 'value', false), which clients send in place of SET."""

from __future__ import annotations

from dataclasses import replace

from sqlanon.server.commands import SelectSettings, SettingCall
from sqlanon.sqlfront.command_reader import CommandReader
from sqlanon.sqlfront.lexer import Statement

# How many arguments a function takes.
ARGUMENTS = {"set_config": (3,), "current_setting": (1, 2)}
COLUMN = 0  # no parameter has this number
BOOLEANS = {"true": "true", "t": "true", "on": "true", "false": "false", "f": "false", "off": "false"}


def select_settings(statement: Statement) -> SelectSettings | None:
    """None for any statement but a list of these functions, at least one of which changes a setting.

    >>> from sqlanon.sqlfront.lexer import statements
    >>> asked = "SELECT current_setting('jit') AS cur, set_config('jit', $1, false) AS new"
    >>> [(call.function, call.arguments, call.label) for call in select_settings(statements(asked)[0]).calls]
    [('current_setting', ('jit',), 'cur'), ('set_config', ('jit', 1, 'false'), 'new')]
    >>> select_settings(statements("SELECT set_config('jit', 'off', false) FROM cities")[0]) is None
    True
    >>> asked = "SELECT set_config(name, 'off', false) FROM pg_settings WHERE name = 'jit'"
    >>> select_settings(statements(asked)[0]).calls[0].arguments
    ('jit', 'off', 'false')
    >>> select_settings(statements("SELECT set_config(name, 'off', false)")[0]) is None
    True
    """
    reader = CommandReader(statement)
    if not reader.take("select"):
        return None
    calls = []
    while (call := _call(reader)) is not None:
        calls.append(call)
        if not reader.take(","):
            break
    if call is None or all(each.function != "set_config" for each in calls):
        return None
    if reader.take("from"):  # as pgAdmin asks, where a setting may be missing
        reader.take("pg_catalog", ".")
        if not (reader.take("pg_show_all_settings", "(", ")") or reader.take("pg_settings")):
            return None
        if not reader.take("where", "name", "=") or len(calls) != 1:
            return None
        asked, (first, *rest) = _argument(reader), calls[0].arguments
        if asked is None or first not in (asked, COLUMN):
            return None
        calls = [replace(calls[0], arguments=(asked, *rest))]
    if any(COLUMN in each.arguments for each in calls):
        return None
    return SelectSettings(tuple(calls)) if reader.token is None else None


def _call(reader: CommandReader) -> SettingCall | None:
    reader.take("pg_catalog", ".")
    function = next((name for name in ARGUMENTS if reader.take(name, "(")), None)
    if function is None:
        return None
    given: list[str | int] = []
    while not reader.take(")"):
        if given and not reader.take(","):
            return None
        if not given and reader.take("name"):  # the column of pg_settings, as pg_dump asks
            given.append(COLUMN)
            continue
        argument = _argument(reader, boolean=len(given) == ARGUMENTS[function][-1] - 1)
        if argument is None:
            return None
        given.append(argument)
    if len(given) not in ARGUMENTS[function]:
        return None
    label = reader.name() if reader.take("as") else function
    return SettingCall(function, tuple(given), label)


def _argument(reader: CommandReader, *, boolean: bool = False) -> str | int | None:
    """A string, or the number of a parameter; true and false also without quotes, where a boolean is wanted."""
    token = reader.token
    if token is None:
        return None
    reader.place += 1
    if token.kind == "parameter" and token.value[1:].isascii() and token.value[1:].isdigit() and len(token.value) < 5:
        return int(token.value[1:]) or None
    if boolean:
        return BOOLEANS.get(token.value) if token.kind in ("string", "word") else None
    return token.value if token.kind == "string" else None
