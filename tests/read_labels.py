"""Labels of regions, read as a person would: `[20, 29]`, `{France, Asia}`, `{NULL, [20, 29]}`."""

from __future__ import annotations


def parsed(label: str) -> list[str]:
    """The items inside brackets or braces; quotes are taken off."""
    items, item, quoted, depth = [], "", False, 0
    for place, sign in enumerate(inner := label[1:-1]):
        if sign == '"':
            quoted = not quoted
        depth += (sign in "[{") - (sign in "]}") if not quoted else 0
        if sign == "," and not quoted and depth == 0 and inner[place + 1] == " ":
            items.append(item.strip(" "))
            item = ""
        else:
            item += sign
    return [*items, item.strip(" ")]


def unquoted(item: str) -> str:
    return item[1:-1].replace('""', '"') if item.startswith('"') else item
