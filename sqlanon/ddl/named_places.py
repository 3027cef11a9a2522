"""The parts of a document that name a file, a database or an address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlanon.errors import PolicyError
from sqlanon.policy.yaml_lines import KeyPath


def paths_of(document: Mapping[str, Any]) -> dict[KeyPath, Any]:
    """All parts of a document that name a file, a database or SQL of their own: what an owner who is not the user that
    runs the server may not choose."""
    found: dict[KeyPath, Any] = {}
    for part in ("source", "population"):
        given = document.get(part)
        for key in ("database", "path", "query"):
            if isinstance(given, Mapping) and key in given:
                found[part, key] = given[key]
    given = document.get("release")
    if isinstance(given, Mapping) and "path" in given:
        found["release", "path"] = given["path"]
    for name, use in _mapping(document.get("hierarchies")).items():
        for kind, params in _mapping(use).items():
            if "path" in _mapping(params) or kind in ("csv", "hrc"):
                found["hierarchies", str(name), str(kind)] = params
    gateway = _mapping(document.get("gateway"))
    for key in ("database", "ledger"):
        if key in gateway:
            found["gateway", key] = gateway[key]
    # Addresses, certificates and users are for whoever runs the server, and so are files of marginals.
    for section in ("serve", "marginals", "protect"):
        if section in document:
            found[section,] = document[section]
    found |= _deep_paths(document, ())
    return found


def _deep_paths(value: Any, path: KeyPath) -> dict[KeyPath, Any]:
    """Keys that are called path, file or database anywhere else: a plug-in that is added later is not forgotten."""
    found: dict[KeyPath, Any] = {}
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        here = (*path, key if isinstance(key, int) else str(key))
        if str(key) in ("path", "file", "database", "ledger") and path[:1] not in (("columns",), ("qids",)):
            found[here] = item
        found |= _deep_paths(item, here)
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def require_same_paths(
    document: Mapping[str, Any], before: Mapping[str, Any] | None, allowed: Mapping[KeyPath, Any]
) -> None:
    """Refuse a document that names a file or place which the one before it does not name, and which is not allowed."""
    known = paths_of(before) if before is not None else {}
    for path, value in paths_of(document).items():
        if (path in known and known[path] == value) or (path in allowed and allowed[path] == value):
            continue
        name = ".".join(map(str, path))
        raise PolicyError(
            f"'{name}' names a file, a database or a query of its own, which is not chosen over a connection",
            hint="whoever runs the server writes such a policy into a file",
        )
