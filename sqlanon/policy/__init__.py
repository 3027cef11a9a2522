"""The policy: what the data owner asks for, read from YAML or from options, and checked once at the door.

The names below are loaded when they are used: who reads a gateway does not load what publishes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlanon.policy.parts import AlgorithmUse as AlgorithmUse
    from sqlanon.policy.parts import Column as Column
    from sqlanon.policy.parts import HierarchyUse as HierarchyUse
    from sqlanon.policy.parts import Join as Join
    from sqlanon.policy.parts import ModelUse as ModelUse
    from sqlanon.policy.parts import Release as Release
    from sqlanon.policy.parts import Source as Source
    from sqlanon.policy.parts import TransformationUse as TransformationUse
    from sqlanon.policy.policy import Policy as Policy
    from sqlanon.policy.policy import missing_columns as missing_columns
    from sqlanon.policy.read_policy import from_options as from_options
    from sqlanon.policy.read_policy import json_schema as json_schema
    from sqlanon.policy.read_policy import load as load
    from sqlanon.policy.read_policy import parse as parse

_HOMES = {
    "AlgorithmUse": "parts",
    "Column": "parts",
    "HierarchyUse": "parts",
    "Join": "parts",
    "ModelUse": "parts",
    "Policy": "policy",
    "Release": "parts",
    "Source": "parts",
    "TransformationUse": "parts",
    "from_options": "read_policy",
    "json_schema": "read_policy",
    "load": "read_policy",
    "missing_columns": "policy",
    "parse": "read_policy",
}
__all__ = [
    "AlgorithmUse", "Column", "HierarchyUse", "Join", "ModelUse", "Policy", "Release", "Source", "TransformationUse",
    "from_options", "json_schema", "load", "missing_columns", "parse",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sqlanon.policy' has no attribute '{name}'")
    return getattr(import_module(f"sqlanon.policy.{_HOMES[name]}"), name)
