"""The policy: what the data owner asks for, read from YAML or from options, and checked once at the door."""

from __future__ import annotations

from sqlanon.policy.parts import AlgorithmUse, Column, HierarchyUse, Join, ModelUse, Release, Source, TransformationUse
from sqlanon.policy.policy import Policy, missing_columns
from sqlanon.policy.read_policy import from_options, json_schema, load, parse

__all__ = [
    "AlgorithmUse", "Column", "HierarchyUse", "Join", "ModelUse", "Policy", "Release", "Source", "TransformationUse",
    "from_options", "json_schema", "load", "missing_columns", "parse",
]  # fmt: skip
