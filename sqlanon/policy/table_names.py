"""Names of tables as policies write them."""

from __future__ import annotations

import re

from sqlanon.errors import PolicyError

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def table_parts(name: str) -> list[str]:
    """Split `schema.table`; double quotes protect a dot, and a doubled one stands for itself, as in SQL.

    >>> table_parts('raw."visits 1.5"'), table_parts('"a""b"')
    (['raw', 'visits 1.5'], ['a"b'])
    """
    parts: list[str] = []
    place = 0
    while match := _PART.match(name, place):
        parts.append((match[1] or "").replace('""', '"') or match[2])
        place = match.end()
        if place == len(name) or name[place] != ".":
            break
        place += 1
    if place != len(name) or not 1 <= len(parts) <= 3:
        raise PolicyError(
            f"'{name}' is not the name of a table",
            hint="write table, schema.table or database.schema.table; put a name with dots into double quotes",
        )
    return parts
