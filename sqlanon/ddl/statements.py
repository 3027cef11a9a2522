"""The statements of owners, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Label:
    """SECURITY LABEL FOR sqlanon ON TABLE or COLUMN … IS 'text'; a text of None takes the label away."""

    table: str
    column: str | None
    text: str | None
    tag = "SECURITY LABEL"


@dataclass(frozen=True)
class CreateView:
    """CREATE MATERIALIZED VIEW … WITH (sqlanon.…) AS …, or HANA's CREATE VIEW … WITH ANONYMIZATION."""

    name: str
    options: tuple[tuple[str, Any], ...]
    source: Mapping[str, str] = field(default_factory=dict)  # table or query, after AS
    columns: tuple[str, ...] | None = None  # that a query of one table shows; all of them if None
    labels: tuple[Label, ...] = ()  # that stand in the statement itself
    publish: bool = True
    if_missing: bool = False
    replace: bool = False
    explain: bool = False

    @property
    def tag(self) -> str:
        return "EXPLAIN" if self.explain else "CREATE MATERIALIZED VIEW"


@dataclass(frozen=True)
class RefreshView:
    name: str
    tag = "REFRESH MATERIALIZED VIEW"


@dataclass(frozen=True)
class DropView:
    name: str
    if_exists: bool = False
    tag = "DROP MATERIALIZED VIEW"


@dataclass(frozen=True)
class ChangeRole:
    """CREATE, ALTER or DROP ROLE; `role` is None for ALL, and a value of None takes a setting away."""

    verb: Literal["create", "alter", "drop"]
    role: str | None
    setting: str = ""
    value: Any = None

    @property
    def tag(self) -> str:
        return f"{self.verb.upper()} ROLE"


@dataclass(frozen=True)
class ChangeGateway:
    """ALTER DATABASE … SET sqlanon.key = value, of the gateway."""

    setting: str
    value: Any = None
    tag = "ALTER DATABASE"


@dataclass(frozen=True)
class LookUp:
    """SELECT from the relations sqlanon.releases, sqlanon.budget and so on."""

    text: str
    tag = "SELECT"


@dataclass(frozen=True)
class CreateSchema:
    """CREATE SCHEMA IF NOT EXISTS, which clients send before a view: a schema is made when a release needs it."""

    name: str
    tag = "CREATE SCHEMA"


@dataclass(frozen=True)
class SetOption:
    """SET sqlanon.k = 5: an option of the views that are created after it; None takes it back."""

    name: str
    value: Any = None

    @property
    def tag(self) -> str:
        return "SET" if self.value is not None else "RESET"


OwnerStatement = (
    Label | CreateView | RefreshView | DropView | ChangeRole | ChangeGateway | LookUp | CreateSchema | SetOption
)
