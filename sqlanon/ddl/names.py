"""Names of tables and columns between SQL and policies, and texts as SQL writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlanon.policy.table_names import table_parts

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
# Words that a name may not be without quotes, for PostgreSQL or for the reader of these statements.
_RESERVED = frozenset(
    {
        "all", "and", "any", "array", "as", "asc", "between", "both", "case", "cast", "check", "collate", "column",
        "constraint", "create", "cross", "current_date", "default", "desc", "distinct", "do", "else", "end", "except",
        "false", "fetch", "for", "foreign", "from", "full", "grant", "group", "having", "if", "in", "inner",
        "intersect", "into", "is", "join", "lateral", "leading", "left", "like", "limit", "natural", "not", "null",
        "offset", "on", "only", "or", "order", "outer", "primary", "references", "returning", "right", "schema",
        "select", "some", "table", "then", "to", "trailing", "true", "union", "unique", "user", "using", "values",
        "when", "where", "window", "with",
    }
)  # fmt: skip


def quote_name(name: str) -> str:
    """
    >>> quote_name("age"), quote_name("Age"), quote_name('a"b'), quote_name("select")
    ('age', '"Age"', '"a""b"', '"select"')
    """
    return name if _PLAIN.fullmatch(name) and name not in _RESERVED else '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """
    >>> quote_text("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def join_name(parts: Sequence[str]) -> str:
    """A name as policies write it: quotes only where a part holds a dot or a quote.

    >>> join_name(["research", "patients"]), join_name(["a.b", 'c"d'])
    ('research.patients', '"a.b"."c""d"')
    """
    quoted = ('"' + part.replace('"', '""') + '"' if set(part) & set('."') else part for part in parts)
    return ".".join(quoted)


def plain_name(name: str) -> str:
    """The same name with no quotes that it does not need.

    >>> plain_name('raw."visits"')
    'raw.visits'
    """
    return join_name(table_parts(name))


def write_name(name: str) -> str:
    """A name of a policy as SQL writes it.

    >>> write_name("Research.patients")
    '"Research".patients'
    """
    return ".".join(map(quote_name, table_parts(name)))
