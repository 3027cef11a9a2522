"""What a label says of a column or table: a role for releases, and what the gateway may use.

    'quasi_identifier'                      'identifier; person'              'sensitive; weight 2'
    'quasi_identifier; hierarchy age'       'identifier; pseudonym'           'quasi_identifier; between 0 and 120'
    'keys [north, south]'                   'between 2000-01-01 and 2030-12-31'   'hidden'   'max_length 40'

Of a table: 'persons by patient_id', 'unit patient_id', 'link {table: orders, on: order_id}', 'public', 'released'.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from sqlanon.ddl.yaml_values import read_value, write_value
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import module_names
from sqlanon.policy.checks import ROLES

_PARTS = re.compile(r"""(?:[^;"]|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
_BETWEEN = re.compile(r"between\s+(.+?)\s+and\s+(.+)", re.IGNORECASE | re.DOTALL)
WORDS = (*ROLES, "person", "pseudonym", "weight", "hierarchy", "between", "keys", "max_length", "hidden")
TABLE_WORDS = ("persons by", "unit", "link", "public", "released", "listed")


@dataclass(frozen=True)
class ColumnLabel:
    """`column` is the part of a policy, `gateway` that of a gateway; None where a label says nothing of it."""

    column: Any = None
    person: bool = False
    hierarchy: Any = None
    gateway: Any = None


@dataclass(frozen=True)
class TableLabel:
    """`persons_by` is the key of the table of persons; `table` is what a gateway says of a table, without columns."""

    persons_by: str | None = None
    table: Mapping[str, Any] = field(default_factory=dict)


def read_column_label(text: str) -> ColumnLabel:
    """
    >>> read_column_label("quasi_identifier; hierarchy age; between 0 and 120")
    ColumnLabel(column='quasi_identifier', person=False, hierarchy={'age': {}}, gateway={'low': 0, 'high': 120})
    """
    role: str | None = None
    more: dict[str, Any] = {}
    gateway: Any = None
    person, hierarchy = False, None
    seen: set[str] = set()
    for part in _parts(text):
        word, _, rest = part.partition(" ")
        word, rest = word.lower(), rest.strip()
        kind = "role" if word in ROLES else word
        if kind in seen:
            raise _wrong(f"a label says '{kind}' twice")
        seen.add(kind)
        if word in ROLES and not rest:
            role = word
        elif word in ("person", "pseudonym", "hidden") and not rest:
            person |= word == "person"
            if word == "pseudonym":
                more["pseudonym"] = True
            if word == "hidden":
                gateway = (gateway or {}) | {"hidden": True}
        elif word == "weight" and rest:
            more["weight"] = read_value(rest)
        elif word == "hierarchy" and rest:
            hierarchy = _hierarchy(rest)
        elif word == "between" and (found := _BETWEEN.fullmatch(part)) is not None:
            low, high = (read_value(bound, dates=True) for bound in found.groups())
            gateway = (gateway or {}) | {"low": low, "high": high}
        elif word in ("keys", "max_length") and rest:
            gateway = (gateway or {}) | {word: read_value(rest, dates=True)}
        else:
            raise _unknown(part, word)
    if more and role is None:
        raise _wrong(f"a column with a {next(iter(more))} needs a role", f"begin with one of {', '.join(ROLES)}")
    return ColumnLabel({"role": role, **more} if more else role, person, hierarchy, _gateway_column(gateway))


def _gateway_column(value: Any) -> Any:
    return "hidden" if value == {"hidden": True} else value


def _hierarchy(text: str) -> Any:
    found = read_value(text)
    if isinstance(found, str):
        if found not in module_names("hierarchies"):
            raise _wrong(f"there is no hierarchy '{found[:60]}'", did_you_mean(found, module_names("hierarchies")))
        return {found: {}}
    return found


def _parts(text: str) -> list[str]:
    found = [part.strip() for part in _PARTS.findall(text)]
    if not found or not all(found):
        raise _wrong("a label is empty", f"it says for example one of {', '.join(ROLES)}; IS NULL takes it away")
    return found


def _unknown(part: str, word: str) -> PolicyError:
    hint = did_you_mean(word, WORDS) or f"a label of a column says {', '.join(WORDS)}"
    return _wrong(f"a label cannot say '{part[:60]}'", hint)


def _wrong(said: str, hint: str | None = None) -> PolicyError:
    return PolicyError(said, hint=hint)


def read_table_label(text: str) -> TableLabel:
    """
    >>> read_table_label("unit person"), read_table_label("persons by id").persons_by
    (TableLabel(persons_by=None, table={'unit': 'person'}), 'id')
    """
    plain = text.strip()
    word, _, rest = plain.partition(" ")
    word, rest = word.lower(), rest.strip()
    if word == "persons" and rest.lower().startswith("by ") and rest[3:].strip():
        return TableLabel(str(_name(rest[3:].strip())))
    if word == "unit" and rest:
        return TableLabel(None, {"unit": _name(rest)})
    if word == "link" and rest:
        return TableLabel(None, {"link": read_value(rest)})
    if word in ("public", "released") and not rest:
        return TableLabel(None, {word: True})
    if word == "listed" and not rest:
        return TableLabel()
    hint = did_you_mean(word, TABLE_WORDS) or f"a label of a table says {', '.join(TABLE_WORDS)}"
    raise _wrong(f"a label of a table cannot say '{plain[:60]}'", hint)


def _name(text: str) -> str:
    found = read_value(text)
    return found if isinstance(found, str) else text


# ---- and back


def write_column_label(
    column: Any = None, *, person: bool = False, hierarchy: Any = None, gateway: Any = None
) -> str:  # fmt: skip
    """The label that says these parts of a policy and a gateway."""
    parts: list[str] = []
    given = column if isinstance(column, Mapping) else {"role": column} if column is not None else {}
    if "role" in given:
        parts.append(str(given["role"]))
    if person:
        parts.append("person")
    if given.get("pseudonym"):
        parts.append("pseudonym")
    if "weight" in given:
        parts.append(f"weight {write_value(given['weight'])}")
    if hierarchy is not None:
        parts.append(f"hierarchy {write_value(hierarchy)}")
    use = {"hidden": True} if gateway == "hidden" else gateway or {}
    if "low" in use:
        parts.append(f"between {_bound(use['low'])} and {_bound(use['high'])}")
    for key in ("keys", "max_length"):
        if key in use:
            parts.append(f"{key} {write_value(use[key])}")
    if use.get("hidden"):
        parts.append("hidden")
    return "; ".join(parts)


def _bound(value: Any) -> str:
    """A date between quotes is read as one too."""
    return value.isoformat() if isinstance(value, date) else write_value(value)


def write_table_label(table: Mapping[str, Any], persons_by: str | None) -> str:
    if persons_by is not None:
        return f"persons by {write_value(persons_by)}"
    if "unit" in table:
        return f"unit {write_value(table['unit'])}"
    if "link" in table:
        return f"link {write_value(table['link'])}"
    return next((kind for kind in ("public", "released") if table.get(kind)), "listed")
