"""Levels that several kinds of hierarchy share."""

from __future__ import annotations

from sqlanon.hierarchies import Level
from sqlanon.sqltree.labels import string, text


def root(label: str) -> Level:
    """The top level: one label, for NULL too."""
    # A cast, since PostgreSQL refuses to group by a bare constant.
    return lambda column: text(string(label))
