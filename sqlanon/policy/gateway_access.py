"""Who may use which tables and columns: rules with TO and EXCEPT.

A table or column that a rule names is there only for principals to whom a rule gives it. For others it does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from sqlanon.errors import did_you_mean
from sqlanon.policy.checks import Draft
from sqlanon.policy.gateway_column import Part, Text
from sqlanon.policy.shape import Expected
from sqlanon.policy.yaml_lines import KeyPath, PolicyProblem

ALL = "all"
Names = Annotated[tuple[Text, ...], Field(min_length=1)]


class Access(Part):
    """A rule: these tables, or these columns of theirs, are there for these principals."""

    tables: Annotated[Names, Expected("a list of tables")] = Field(description="Tables that the rule is about.")
    columns: Annotated[Names | None, Expected("a list of columns")] = Field(
        None, description="Columns of these tables that the rule is about; the tables as a whole if left out."
    )
    to: Annotated[Names, Expected("a list of principals, or [all]")] = Field(
        description="Principals to whom it gives them; [all] is everybody."
    )
    but: Annotated[tuple[Text, ...], Expected("a list of principals")] = Field(
        (), alias="except", description="Principals to whom it does not."
    )

    def gives(self, principal: str) -> bool:
        return (ALL in self.to or principal in self.to) and principal not in self.but


def allows(rules: tuple[Access, ...], principal: str, table: str, column: str | None = None) -> bool:
    """Whether the rules leave a table, and a column of it, to a principal."""
    about = [rule for rule in rules if table in rule.tables]
    whole = [rule for rule in about if rule.columns is None]
    if whole and not any(rule.gives(principal) for rule in whole):
        return False
    named = [rule for rule in about if column is not None and column in (rule.columns or ())]
    return not named or any(rule.gives(principal) for rule in named)


def is_text(path: KeyPath) -> bool:
    """Where, below `access`, a number or boolean is meant as text."""
    match path:
        case (_, "tables" | "columns" | "to" | "except", *_):
            return True
    return False


def check_access(draft: Draft) -> Iterator[PolicyProblem]:
    """Names that do not exist would leave what they meant open to everybody, or to nobody."""
    rules = draft.mapping("gateway").get("access")
    if not isinstance(rules, list) or not rules:
        return
    tables = list(draft.mapping("gateway", "tables"))
    principals = list(draft.mapping("gateway", "principals") or ["analyst"])
    if ALL in principals:
        hint = "give the principal another name"
        yield PolicyProblem("in rules of access 'all' is everybody", hint, ("gateway", "principals", ALL))
    for index, rule in enumerate(rules):
        if not isinstance(rule, Mapping):
            continue
        path: KeyPath = ("gateway", "access", index)
        if tables:
            yield from _unknown(rule, "tables", tables, "table", "tables", path)
        yield from _unknown(rule, "to", [*principals, ALL], "principal", "principals", path)
        yield from _unknown(rule, "except", principals, "principal", "principals", path)


def _unknown(
    rule: Mapping[str, Any], key: str, known: list[str], what: str, where: str, path: KeyPath
) -> Iterator[PolicyProblem]:
    listed = rule.get(key)
    for place, name in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(name, str) and name and name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known[:20])}"
            if (key, name) == ("except", ALL):
                hint = "leave the rule out, and nobody else gets it either"
            said = f"the rule names the {what} '{name}', which is not among the {where}"
            yield PolicyProblem(said, hint, (*path, key, place))
