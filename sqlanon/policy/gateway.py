"""The section `gateway` of a policy: whose privacy the query gateway protects, how far, and who may ask.

Where a choice is left open the stricter one is the default. What the parts say about each other is checked
in `gateway_checks`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import WithJsonSchema

from sqlanon.errors import did_you_mean
from sqlanon.policy import gateway_access, schema
from sqlanon.policy.gateway_access import Access
from sqlanon.policy.gateway_column import Flag, GatewayColumn, Part, Text, wrong
from sqlanon.policy.shape import Expected
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem

Function = Literal["count", "count_distinct", "sum", "avg", "variance", "stddev", "median", "quantile", "min", "max"]
FUNCTIONS: tuple[str, ...] = get_args(Function)
KINDS = ("unit", "link", "public", "released")  # what a table may be: exactly one of these
MINIMAL = (
    "gateway: {database: warehouse.duckdb, unit: {table: users, key: user_id}, tables: {users: {}}, rows: 20, "
    "budget: {statement: {epsilon: 1, delta: 1e-6}, principal: {epsilon: 10, delta: 1e-4}}}"
)

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=1), Expected("an integer >= 1")]
Epsilon = Annotated[Number, Field(gt=0, le=100), Expected("a number greater than 0, at most 100")]
Delta = Annotated[Number, Field(ge=0, le=0.01), Expected("a number from 0 to 0.01")]


class Unit(Part):
    """The privacy unit: one person, with all rows that belong to that person."""

    table: Text = Field(description="Table with one row a person.")
    key: Text = Field(description="Its column that tells persons apart.")


class Link(Part):
    """A foreign key to a table whose rows belong to persons."""

    table: Text = Field(description="Table that the foreign key refers to.")
    on: Annotated[
        dict[Text, Text],
        Field(min_length=1),
        WithJsonSchema(schema.TEXT_OR_TEXTS),
        Expected("a column, or a mapping of own columns to columns of the other table"),
    ] = Field(description="Own column: column of the other table; one name if both are equal.")

    @field_validator("on", mode="before")
    @classmethod
    def _same_name(cls, value: Any) -> Any:
        return {value: value} if isinstance(value, str) and value else value


class GatewayTable(Part):
    """A table that statements may read: exactly one of unit, link, public and released."""

    unit: Text | None = Field(None, description="Column that refers to the key of the unit.")
    link: Annotated[Link | None, Expected("a mapping such as {table: orders, on: order_id}")] = Field(
        None, description="Foreign key to a table that leads to the unit."
    )
    public: Flag = Field(False, description="No row of it belongs to a person; it is read as it is.")
    released: Flag = Field(False, description="Written by 'sqlanon publish'; it is answered plainly.")
    columns: Annotated[dict[Text, GatewayColumn], Expected("a mapping of column names to bounds, keys or hidden")] = (
        Field(default_factory=dict, description="What an answer may use of each column.")
    )


class StatementLimit(Part):
    """The most that one statement may spend."""

    epsilon: Epsilon = Field(description="Most that a statement may spend.")
    delta: Delta = Field(0.0, description="Most delta of a statement; 0 refuses keys that are not declared.")
    default: Epsilon = Field(
        default_factory=lambda data: data["epsilon"],
        description="What a statement spends if it names no epsilon; all of epsilon if left out.",
    )

    @model_validator(mode="after")
    def _default_within(self) -> StatementLimit:
        if self.default > self.epsilon:
            said = f"has the default {self.default:g}, above its epsilon {self.epsilon:g}"
            raise wrong(said, "lower the default, or raise epsilon", "default")
        return self


class PeriodLimit(Part):
    """The most that one principal may spend in a period."""

    epsilon: Epsilon = Field(description="Most that a principal may spend in a period.")
    delta: Delta = Field(0.0, description="Most delta of a principal in a period.")
    period: Literal["day", "week", "month", "year"] | None = Field(
        None, description="Period after which the limit is renewed; never if left out."
    )


class Total(Part):
    """The most that all principals together may spend, for ever."""

    epsilon: Epsilon = Field(description="Most that all principals together may spend.")
    delta: Delta = Field(0.0, description="Most delta of all principals together.")


class Budget(Part):
    """How much privacy may be spent."""

    statement: Annotated[StatementLimit, Expected("a mapping such as {epsilon: 1.0, delta: 1e-6}")] = Field(
        description="Most that one statement may spend."
    )
    principal: Annotated[PeriodLimit, Expected("a mapping such as {epsilon: 10, delta: 1e-4, period: month}")] = Field(
        description="Most that one principal may spend in a period."
    )
    total: Annotated[Total | None, Expected("a mapping such as {epsilon: 50, delta: 1e-3}")] = Field(
        None, description="Most that all principals together may spend, for ever."
    )


class Principal(Part):
    """Somebody who may ask; `tables` is None for all, and limits that are None are those of the budget."""

    tables: Annotated[tuple[Text, ...] | None, Field(min_length=1), Expected("a list of tables")] = Field(
        None, description="Tables that the principal may use; all if left out."
    )
    epsilon: Annotated[Epsilon | None, Expected("a number greater than 0, at most 100")] = Field(
        None, description="Own limit for the period, in place of the one under budget."
    )
    delta: Annotated[Delta | None, Expected("a number from 0 to 0.01")] = Field(
        None, description="Own limit for the period, in place of the one under budget."
    )
    controls: Flag = Field(False, description="Trusted: exact answers under the controls, without noise.")
    auditor: Flag = Field(
        False, description="May read the audit log of everybody, not only the own records, and the metrics."
    )
    owner: Flag = Field(
        False, description="May publish, roll back and retire releases and grant budget in the web console."
    )


class Dominance(Part):
    """No SUM in which few persons hold most."""

    n: Count = Field(description="How many persons are looked at together.")
    k: Annotated[Number, Field(gt=0, le=1), Expected("a number greater than 0, at most 1")] = Field(
        description="Share of a SUM that they must stay below."
    )


class Controls(Part):
    """Statistical disclosure control for trusted principals: exact answers, or none."""

    query_set_size: Annotated[int, Field(strict=True, ge=2), Expected("an integer >= 2")] = Field(
        description="Fewest persons in an answer, and in its complement."
    )
    overlap: Annotated[int | None, Field(strict=True, ge=0), Expected("an integer >= 0")] = Field(
        None, description="Most persons that two query sets may share."
    )
    dominance: Annotated[Dominance | None, Expected("a mapping such as {n: 1, k: 0.8}")] = Field(
        None, description="The top n persons hold less than the share k of a SUM."
    )
    p_percent: Annotated[Number | None, Field(gt=0), Expected("a number greater than 0")] = Field(
        None, description="Nobody's value in a SUM can be estimated to within p percent."
    )


class Gateway(Part):
    """What the query gateway protects, how far, and who may ask."""

    database: Text = Field(description="File or URL of the database.")
    ledger: Text | None = Field(None, description="SQLite file with what was spent; beside the policy if left out.")
    unit: Annotated[Unit, Expected("a mapping such as {table: users, key: user_id}")] = Field(
        description="The privacy unit: table and key of the persons."
    )
    tables: Annotated[dict[Text, GatewayTable], Field(min_length=1), Expected("a mapping of table names to {…}")] = (
        Field(description="Tables that statements may read.")
    )
    rows: Count = Field(description="Most rows of one person in an answer.")
    groups: Count = Field(
        default_factory=lambda data: data["rows"],
        description="Most groups of one person in an answer; as many as rows if left out.",
    )
    minimum_group: Count = Field(5, description="Groups of fewer persons never appear.")
    functions: Annotated[
        tuple[Function, ...] | None, Field(min_length=1), Expected("a list such as [count, sum, avg]")
    ] = Field(None, description="Aggregates that are answered; all but min and max if left out.")
    mechanism: Literal["laplace", "gaussian"] = Field("laplace", description="Distribution of the noise.")
    accounting: Literal["basic", "zcdp"] = Field("basic", description="How what was spent is added up.")
    budget: Annotated[Budget, Expected("a mapping with statement and principal")] = Field(
        description="What a statement, a principal and all together may spend."
    )
    principals: Annotated[dict[Text, Principal], Field(min_length=1), Expected("a mapping of names to {…}")] = Field(
        default_factory=lambda: {"analyst": Principal()},
        description="Who may ask; one called 'analyst' if left out.",
    )
    access: Annotated[
        tuple[Access, ...],
        Expected("a list such as [{tables: [visits], columns: [note], to: [all], except: [intern]}]"),
    ] = Field((), description="Who may use which tables and columns; everybody may use what no rule names.")
    controls: Annotated[Controls | None, Expected("a mapping such as {query_set_size: 10}")] = Field(
        None, description="Statistical disclosure control for trusted principals."
    )
    reuse: Flag = Field(
        False,
        description="Noisy tables that a principal paid for answer later questions that follow from them, at no cost.",
    )
    prepare: Annotated[
        dict[Text, Annotated[tuple[Text, ...], Field(min_length=1), Expected("a list of statements")]],
        Expected("a mapping such as {analyst: [SELECT COUNT(*) FROM visits]}"),
    ] = Field(
        default_factory=dict,
        description="By principal, statements whose tables are bought together: by 'sqlanon budget prepare'.",
    )
    answer_time: Annotated[Number, Field(ge=0, le=3600), Expected("a number of seconds from 0 to 3600")] = Field(
        2.0, description="Seconds after which an answer about persons leaves, for each time that it reads their data."
    )
    failures: Count = Field(
        5,
        description="How many charged statements of a principal may fail within a day before the principal is locked.",
    )
    timeout: Annotated[
        Number, Field(gt=0, le=86_400), Expected("a number of seconds greater than 0, at most 86400")
    ] = Field(30.0, description="Seconds that a statement may run.")
    _origin: Origin = PrivateAttr(default_factory=Origin)

    @field_validator("tables")
    @classmethod
    def _unit_of_its_own_table(cls, tables: dict[str, GatewayTable], info: ValidationInfo) -> dict[str, GatewayTable]:
        unit = info.data.get("unit")
        own = tables.get(unit.table) if unit else None
        if unit is None or own is None:
            return tables
        return tables | {unit.table: own.model_copy(update={"unit": unit.key})}

    @model_validator(mode="after")
    def _prepared_for_principals(self) -> Gateway:
        for who in self.prepare:
            if who not in self.principals:
                hint = did_you_mean(who, self.principals) or "name one of the principals"
                raise wrong(f"prepares for '{who}', who is no principal", hint, "prepare")
            if self.principals[who].controls:
                raise wrong(f"prepares for '{who}', who gets exact answers", "leave them out", "prepare")
        if self.prepare and not self.reuse:
            raise wrong("prepares tables that are not used again", "add reuse: true", "prepare")
        return self

    @property
    def name(self) -> str:
        """Name of the file, as errors show it."""
        return self._origin.name

    @property
    def base(self) -> Path:
        """Folder that relative paths start from."""
        return self._origin.base

    @property
    def located_database(self) -> str:
        """The database, seen from the working directory."""
        return self._located(self.database)

    @property
    def located_ledger(self) -> str:
        """The ledger, seen from the working directory."""
        return self._located(self.ledger or f"{Path(self.name).stem}.ledger")

    def _located(self, path: str) -> str:
        return path if "://" in path or path == ":memory:" else str(self.base / path)

    def allows(self, principal: str, table: str, column: str | None = None) -> bool:
        """Whether a table, and a column of it, are there for a principal; `hidden` columns are, but not to be used."""
        own = self.principals[principal].tables
        return (own is None or table in own) and gateway_access.allows(self.access, principal, table, column)

    def line_of(self, *path: str | int) -> int | None:
        """The line of a part of the section, such as `line_of("tables", "visits")`, or of what encloses it."""
        return self._origin.line_of("gateway", *path)

    @property
    def fingerprint(self) -> str:
        """A hash of all that an answer depends on: not of where files stand, nor of who has how much left.

        No key for a ledger: a change of the policy must not begin a budget anew.
        """
        data = self.model_dump(
            exclude={"database", "ledger", "answer_time", "failures", "timeout", "budget", "principals", "prepare"}
        )
        # Answers that were kept under a policy of before these keys stay valid.
        for name in ("access", "reuse"):
            if not data[name]:
                del data[name]
        for table in data["tables"].values():
            for column in table["columns"].values():
                if not column["complete"]:
                    del column["complete"]
        data["statement"] = self.budget.statement.model_dump()
        data["principals"] = {who: (item.tables, item.controls) for who, item in self.principals.items()}
        text = json.dumps(data, sort_keys=True, ensure_ascii=False, default=_tagged)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _tagged(value: date) -> dict[str, str]:
    # The date 2024-01-31 and the text '2024-01-31' are two keys.
    return {type(value).__name__: value.isoformat()}


def missing_section(data: Any) -> PolicyProblem:
    """That a file has no such section, with the shortest one as a hint."""
    near = [key for key in data if did_you_mean(key, ["gateway"])] if isinstance(data, Mapping) else []
    if near:
        return PolicyProblem(
            f"the file has no section 'gateway' but '{near[0]}'", "did you mean 'gateway'?", (near[0],)
        )
    return PolicyProblem("the file has no section 'gateway'", f"the shortest is '{MINIMAL}'")


def is_text(path: KeyPath) -> bool:
    """Where, below `gateway`, a number or boolean is meant as text."""
    match path:
        case ("database" | "ledger" | "mechanism" | "accounting",) | ("unit" | "functions", *_):
            return True
        case ("tables", _, "unit") | ("tables", _, "link", *_) | ("principals", _, "tables", *_):
            return True
        case ("budget", _, "period"):
            return True
        case ("access", *inner):
            return gateway_access.is_text(tuple(inner))
    return False
