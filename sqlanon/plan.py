"""The plan: what will be done to a table, as data. Frozen, written as JSON, known by its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from sqlanon.errors import PolicyError
from sqlanon.policy import Policy

VERSION = 1


class RecordedPlan(Protocol):
    """What the record of releases keeps of any plan."""

    @property
    def policy(self) -> str: ...

    @property
    def hash(self) -> str: ...

    def to_json(self) -> str: ...


@dataclass(frozen=True)
class Plan:
    """`passes` are levels by column: rows whose class breaks a model at the first are shown at the second, and so on.
    Local recodings have `regions` instead: how many there are, and a digest of them."""

    policy: str  # hash
    algorithm: str
    params: Mapping[str, Any]
    minimize: str
    records: int
    suppressed: int
    loss: float
    proven: bool
    why: str
    passes: tuple[Mapping[str, int], ...] = ()
    regions: Mapping[str, Any] | None = None
    bits: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # how each column lies in the packed key
    # What the SQL of transformations depends on beside the policy: types of columns, and how rows are told apart.
    transformed: Mapping[str, Any] = field(default_factory=dict)
    joined: Mapping[str, list[str]] = field(default_factory=dict)  # the columns that each child table brings
    # Where persons are sets of items: how many labels there are, how many items are suppressed, and a digest.
    items: Mapping[str, Any] = field(default_factory=dict)
    version: int = VERSION

    def to_json(self) -> str:
        """The same plan always gives the same text; losses are kept to 12 digits, which no order of sums changes."""
        data = asdict(self)
        for part in ("transformed", "joined", "items"):
            if not data[part]:
                del data[part]
        data["loss"] = float(f"{self.loss:.12g}")
        return json.dumps(data, sort_keys=True, ensure_ascii=False, indent=2)

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @staticmethod
    def from_json(text: str) -> Plan:
        try:
            data = json.loads(text)
            if data.get("version") != VERSION:
                raise PolicyError(f"the plan has version {data.get('version')}, this is version {VERSION}")
            data["passes"] = tuple(data["passes"])
            data["bits"] = {name: tuple(shifts) for name, shifts in data["bits"].items()}
            return Plan(**data)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise PolicyError(
                "the plan cannot be read", hint="make a new one with 'sqlanon publish --dry-run'"
            ) from None


def policy_hash(policy: Policy) -> str:
    """A hash of what a policy asks, whatever its file looks like. Where files lie is no part of it."""
    data = policy.model_dump(mode="json")
    data["source"].pop("database", None)
    if data["sensitive_nulls"] == "unknown":  # as plans of before it could be said
        del data["sensitive_nulls"]
    if data["shape"] == "rows":  # as plans of before there were other shapes
        del data["shape"]
    if data["linked_rows"] == "refuse":  # as plans of before it could be accepted
        del data["linked_rows"]
    if data["suppressed_cells"] == "own_value":  # as plans of before there was another reading
        del data["suppressed_cells"]
    if not data["transformations"]:  # as plans of before there were any
        del data["transformations"]
    if data["history"] is None:  # as plans of before there was one
        del data["history"]
    else:  # how the past is kept is not seen in a release
        del data["history"]["encrypt"]
        if data["history"]["beside"] is None:
            del data["history"]["beside"]
    if data["release"] is not None:  # what is shown does not depend on these
        for key in ("audience", "keep"):
            del data["release"][key]
    for part, path in policy.written_paths.items():
        data[part]["path"] = path
    return hashlib.sha256(json.dumps(data, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
