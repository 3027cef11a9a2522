"""Read the labels of regions, as a partition writes them: `[20, 29]`, `{France, Asia}`, `{NULL, [20, 29]}`.

Inside brackets and braces a name with one of `,"[]{}` is in double quotes, which are doubled inside.
"""

from __future__ import annotations

import re

from sqlanon.relations.classes import NULL_NODE

_NAME = r'"(?:[^"]|"")*"|[^][{},"]+'
_TOKEN = re.compile(rf" *(?:\[({_NAME}), ({_NAME})\]|({_NAME}))(?:,|$)")

Piece = tuple[str, str, str]  # '1' with both ends of a range, or '0' with a node


def pieces_of(label: str) -> list[Piece] | None:
    """The ranges and nodes that a label stands for, or None if it is no region.

    >>> pieces_of("[20, 29]"), pieces_of('{"NULL", "a, b"}')
    ([('1', '20', '29')], [('0', 'NULL', ''), ('0', 'a, b', '')])
    >>> pieces_of("{NULL, [1, 2]}")
    [('0', '∅ NULL', ''), ('1', '1', '2')]
    >>> pieces_of("[35-40)") is None
    True
    """
    inner = label[1:-1] if label.startswith("{") and label.endswith("}") else label
    if inner is label and not (label.startswith("[") and label.endswith("]")):
        return None
    found: list[Piece] = []
    place = 0
    while place < len(inner):
        match = _TOKEN.match(inner, place)
        if match is None:
            return None
        low, high, name = match.groups()
        found.append(("0", _node(name), "") if name is not None else ("1", _plain(low), _plain(high)))
        place = match.end()
    return found or None


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _node(name: str) -> str:
    return NULL_NODE if name == "NULL" else _plain(name)
