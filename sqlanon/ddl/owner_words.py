"""Whether a statement is one of an owner, by its words alone: what the server asks before it hands one on."""

from __future__ import annotations

from sqlanon.sqlfront.lexer import Statement

PROVIDER = "sqlanon"  # of labels and settings, and the schema of the relations
# Settings of a session that are no options of a view.
OF_SESSION = frozenset({"epsilon", "error", "dry_run", "intervals", "simulate", "budget"})


def is_owner_statement(statement: Statement) -> bool:
    """Whether a statement is one of these, by its first words and the relations that it names.

    >>> from sqlanon.sqlfront.lexer import statements
    >>> asked = "REFRESH MATERIALIZED VIEW v", "SELECT * FROM sqlanon.budget", "SELECT 1", "CREATE TABLE t (a INT)"
    >>> [is_owner_statement(statements(text)[0]) for text in asked]
    [True, True, False, False]
    """
    match [statement.word(place) for place in range(4)]:
        case ["create" | "drop" | "refresh", "materialized", "view", _] | ["create", "or", "replace", _]:
            return True
        case ["create", "view", *_] | ["refresh", "view", *_] | ["explain", "create", *_]:
            return True
        case ["security", "label", *_] | ["create" | "alter" | "drop", "role", *_] | ["alter", "database", *_]:
            return True
        case ["create", "schema", *_]:
            return True
        case ["select", *_]:
            return names_catalog(statement)
    return sets_option(statement) is not None


def sets_option(statement: Statement) -> str | None:
    """The option of a view that SET or RESET sqlanon.name is about; None for the settings of questions."""
    words = [statement.word(place) for place in range(2)]
    start = 2 if words[1] in ("session", "local") else 1
    tokens = statement.tokens[start : start + 3]
    if words[0] not in ("set", "reset") or len(tokens) < 3 or tokens[0].value != PROVIDER or tokens[1].value != ".":
        return None
    name = tokens[2].value
    return name if name not in OF_SESSION else None


def names_catalog(statement: Statement) -> bool:
    """Whether a SELECT reads from the schema sqlanon."""
    tokens = statement.tokens
    for place in range(1, len(tokens) - 2):
        before, name, dot = tokens[place - 1], tokens[place], tokens[place + 1]
        listed = (before.kind == "word" and before.value in ("from", "join")) or before.value == ","
        if listed and name.kind in ("word", "quoted") and name.value == PROVIDER and dot.value == ".":
            return True
    return False


def gives_rows(statement: Statement) -> bool:
    return statement.word(0) in ("select", "explain")
