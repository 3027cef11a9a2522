"""SAP HANA's anonymized views: CREATE VIEW … AS SELECT … WITH ANONYMIZATION (ALGORITHM 'K-ANONYMITY' PARAMETERS '…'
COLUMN … PARAMETERS '…').

Read are k-anonymity and l-diversity, roles, weights, the share of rows that may be suppressed, and hierarchies that
stand in the statement. HANA shows a column that has no COLUMN part as it is; here it needs a label, as every column.
HANA adds noise to single records for DIFFERENTIAL_PRIVACY; here a gateway answers questions, so that this is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlanon.ddl.labels import write_column_label
from sqlanon.ddl.names import join_name
from sqlanon.ddl.source_query import read_source
from sqlanon.ddl.statements import CreateView, Label
from sqlanon.errors import PolicyError, Refused
from sqlanon.sqlfront.command_reader import CommandReader

ROOT = "*"  # above all values; HANA's own hierarchies have it too
KNOWN = frozenset({"is_quasi_identifier", "is_sensitive", "is_sequence", "hierarchy", "weight"})
# What an option of the algorithm means here; those that say how HANA keeps its own state mean nothing.
WITHOUT_MEANING = frozenset({"data_change_strategy"})


def read_hana_view(reader: CommandReader, *, explain: bool, replace: bool) -> CreateView:
    name = join_name(_parts(reader))
    if reader.take("("):  # names of the columns: those of the query
        while not reader.take(")"):
            reader.name()
            reader.take(",")
    if not reader.take("as"):
        reader.wrong()
    start = reader.place
    end = _anonymization(reader)
    if end is None:
        raise Refused(
            "a view has no privacy models", sqlstate="0A000",
            hint="write CREATE MATERIALIZED VIEW … WITH (sqlanon.k = 5) AS …, or WITH ANONYMIZATION (…) after it",
        )  # fmt: skip
    source, columns = read_source(reader.statement, start, end)
    reader.place = end + 2
    if not reader.take("("):
        reader.wrong()
    options, labels = _algorithm(reader), []
    while reader.take("column"):
        column = reader.name()
        given = _parameters(reader)
        labels.append(Label(name, column, _label(column, given)))
    if not reader.take(")"):
        reader.wrong()
    reader.end()
    return CreateView(name, options, source, columns, tuple(labels), publish=explain, replace=replace, explain=explain)


def _parts(reader: CommandReader) -> list[str]:
    parts = [reader.name()]
    while reader.take("."):
        parts.append(reader.name())
    return parts


def _anonymization(reader: CommandReader) -> int | None:
    """Where WITH ANONYMIZATION stands."""
    words = [reader.statement.word(place) for place in range(len(reader.tokens))]
    places = [place for place in range(reader.place, len(words) - 1)
              if words[place : place + 2] == ["with", "anonymization"]]  # fmt: skip
    return places[0] if places and places[0] > reader.place else None


def _algorithm(reader: CommandReader) -> tuple[tuple[str, Any], ...]:
    if not reader.take("algorithm"):
        reader.wrong()
    algorithm = reader.value().upper().replace("_", "-")
    given = _parameters(reader)
    if algorithm == "DIFFERENTIAL-PRIVACY":
        raise Refused(
            "noise on single records is not answered", sqlstate="0A000",
            hint="a gateway answers aggregates with differential privacy: 'sqlanon explain gateway'",
        )  # fmt: skip
    if algorithm not in ("K-ANONYMITY", "L-DIVERSITY"):
        raise Refused(f"there is no algorithm '{algorithm[:60]}'", sqlstate="22023", hint="K-ANONYMITY or L-DIVERSITY")
    made: list[tuple[str, Any]] = []
    for key, value in given.items():
        if key in ("k", "l"):
            made.append((key, value))
        elif key == "loss":
            made.append(("suppression_limit", value))
        elif key not in WITHOUT_MEANING:
            raise PolicyError(f"the parameter '{key[:60]}' is not read", hint="k, l and loss are")
    named = [key for key, _ in made]
    if "k" not in named:
        raise PolicyError(f"{algorithm} needs k", hint="PARAMETERS '{\"k\": 5}'")
    if (algorithm == "L-DIVERSITY") != ("l" in named):
        raise PolicyError(f"{algorithm} {'needs l' if 'l' not in named else 'takes no l'}")
    return tuple(made)


def _parameters(reader: CommandReader) -> Mapping[str, Any]:
    if not reader.take("parameters"):
        reader.wrong()
    token = reader.token
    if token is None or token.kind != "string":
        reader.wrong()
    reader.place += 1
    try:
        found = json.loads(token.value)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused("PARAMETERS are not JSON", hint="write '{\"k\": 5}'", sqlstate="22023", position=token.start + 1)
    return found


def _label(column: str, given: Mapping[str, Any]) -> str:
    for key in given:
        if key not in KNOWN:
            hint = "is_quasi_identifier, is_sensitive, is_sequence, hierarchy and weight are"
            raise PolicyError(f"column '{column}': the parameter '{key[:60]}' is not read", hint=hint)
    flags = {"is_quasi_identifier": "quasi_identifier", "is_sensitive": "sensitive", "is_sequence": "identifier"}
    roles = [role for key, role in flags.items() if given.get(key) is True]
    if len(roles) != 1:
        raise PolicyError(f"column '{column}' has {len(roles)} roles", hint=f"say one of {', '.join(flags)}")
    made: Any = roles[0] if "weight" not in given else {"role": roles[0], "weight": given["weight"]}
    hierarchy = None
    if "hierarchy" in given:
        hierarchy = {"tree": {"tree": _tree(column, given["hierarchy"])}}
    return write_column_label(made, hierarchy=hierarchy)


def _tree(column: str, hierarchy: Any) -> dict[str, Any]:
    """HANA lists a value with its groups from below; a tree has them from above."""
    rows = hierarchy.get("embedded") if isinstance(hierarchy, Mapping) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) and row for row in rows):
        raise PolicyError(
            f"column '{column}': its hierarchy is not embedded",
            hint='write {"embedded": [["Paris", "France"]]}, or label the column with a hierarchy of sqlanon',
        )
    made: dict[str, Any] = {}
    for row in rows:
        if not all(isinstance(value, str) for value in row):
            raise PolicyError(f"column '{column}': the values of its hierarchy are texts")
        place = made
        for group in reversed(row):
            place = place.setdefault(group, {})
    return {ROOT: made}
