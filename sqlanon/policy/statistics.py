"""A policy for tables of statistics: `statistics` and `protect` in place of columns and models.

All tables of a policy are protected together, since whoever reads one reads the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, GetJsonSchemaHandler, PrivateAttr, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.families import Plugin, family
from sqlanon.policy import schema, shape, yaml_lines
from sqlanon.policy.checks import Draft
from sqlanon.policy.parts import SHARED, HierarchyUse, Names, OptionalText, Release, Source, Text
from sqlanon.policy.schedule import Schedule
from sqlanon.policy.shape import Expected
from sqlanon.policy.table_protection import METHODS, Protect, Suppression
from sqlanon.policy.validate_file import validate_file
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem

MOST_TABLES = 50
RULES = "rules"  # the family of SQL files
STATISTIC, VALUE = "statistic", "value"  # columns of the release beside the dimensions

Columns = Annotated[Names, Expected("a list of columns")]


class RuleUse(BaseModel):
    """A rule for unsafe cells with its parameters; written `rule: {parameter: value}`."""

    model_config = SHARED
    name: str
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, Mapping) or len(value) != 1 or "name" in value:
            return value
        name, params = next(iter(value.items()))
        return {"name": name, "params": {} if params is None else params}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return schema.of_rule(RULES)


class Statistic(BaseModel):
    """A table: counts of records, or sums of an amount, by every node of the hierarchies of some columns."""

    model_config = SHARED
    by: Columns = Field(description="Columns whose values, and the nodes above them, make the cells.")
    of: OptionalText = Field(None, description="Amount that is summed up; records are counted if left out.")
    contributor: OptionalText = Field(
        None,
        description="Column that says whose a record is, such as the group of an enterprise; each row if left out.",
    )
    waived: OptionalText = Field(
        None, description="Column that is true for contributors who need no protection; they may still attack."
    )
    weight: OptionalText = Field(None, description="Column with sampling weights, at least 1.")
    margins: Annotated[tuple[tuple[Text, ...], ...] | None, Expected("a list such as [[region], []]")] = Field(
        None, description="Which totals are published, by the columns that stay; all of them if left out."
    )
    rules: Annotated[
        tuple[RuleUse, ...], Field(min_length=1), Expected("a list such as [{minimum_frequency: {n: 3}}]")
    ] = Field(description="When a cell is unsafe: if any of these rules says so.")


class StatisticsPolicy(BaseModel):
    """Tables of statistics that are published together."""

    model_config = SHARED
    source: Source = Field(description="The records behind the tables.")
    person: OptionalText = Field(None, description="Column whose distinct values are contributors, by default.")
    hierarchies: dict[Text, HierarchyUse] = Field(default_factory=dict, description="What values add up to.")
    statistics: Annotated[
        dict[Text, Statistic],
        Field(min_length=1, max_length=MOST_TABLES),
        Expected("a mapping such as {turnover: {by: [region, branch], of: turnover, rules: […]}}"),
    ] = Field(description="The tables, all of which are protected together.")
    protect: Annotated[Protect, Expected("a mapping such as {suppression: {search: exact}}")] = Field(
        default_factory=lambda: Protect(suppression=Suppression()), description="How unsafe cells are protected."
    )
    release: Release | None = Field(None, description="Where the tables are written.")
    schedule: Schedule | None = Field(None, exclude=True, description="When they are refreshed.")
    _origin: Origin = PrivateAttr(default_factory=Origin)

    @property
    def name(self) -> str:
        """Name of the file, as errors show it."""
        return self._origin.name

    @property
    def base(self) -> Path:
        """Folder that relative paths start from."""
        return self._origin.base

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Every column that makes cells, once, in the order of the policy."""
        return tuple(dict.fromkeys(column for table in self.statistics.values() for column in table.by))

    def contributor_of(self, statistic: Statistic) -> str | None:
        return statistic.contributor or self.person

    def line_of(self, *path: str | int) -> int | None:
        return self._origin.line_of(*path)

    def error(self, message: str, *path: str | int, hint: str | None = None) -> PolicyError:
        """What is wrong with a part of the policy, with its line."""
        return yaml_lines.report([PolicyProblem(message, hint, path)], self._origin)

    def locate(self, path: str) -> str:
        """A path of this policy seen from the working directory; URLs stay as they are."""
        return path if "://" in path or path == ":memory:" else str(self.base / path)

    def located(self) -> StatisticsPolicy:
        """This policy with the paths of its files seen from the working directory."""
        moved: dict[str, Source | Release] = {}
        for key, part in (("source", self.source), ("release", self.release)):
            if part is not None and part.path is not None:
                ending = "/" if part.path.endswith("/") else ""
                moved[key] = part.model_copy(update={"path": self.locate(part.path).removesuffix("/") + ending})
        return self.model_copy(update=moved)


def build(data: Mapping[str, Any], origin: Origin, found: Iterable[PolicyProblem]) -> StatisticsPolicy:
    """The policy in what was read from a file."""
    strange = [
        PolicyProblem(
            f"the key '{key}' does not go with 'statistics'",
            "a file publishes rows or tables of statistics, not both: make two files",
            (key,),
        )
        for key in data
        if key in _OF_OTHERS
    ]
    known = {key: value for key, value in data.items() if key not in _OF_OTHERS}
    policy = validate_file(known, origin, [*found, *strange], StatisticsPolicy, _problems)
    policy._origin = origin
    return policy


_OF_OTHERS = (
    "columns", "models", "qids", "transformations", "suppression_limit", "suppressed_rows", "suppressed_cells", "nulls",
    "sensitive_nulls", "linked_rows", "absent_values", "population", "minimize", "algorithm", "history", "gateway",
    "serve", "marginals",
)  # fmt: skip


def is_text(path: KeyPath) -> bool:
    """Where a number or boolean is meant as text."""
    match path:
        case ("statistics", _, "by" | "margins", *_) | ("statistics", _, "of" | "contributor" | "waived" | "weight"):
            return True
    return False


def _problems(draft: Draft) -> Iterator[PolicyProblem]:
    by: set[str] = set()
    yield from _check_contributors(draft)
    for name, given in draft.mapping("statistics").items():
        if not isinstance(given, Mapping):
            continue
        path: KeyPath = ("statistics", name)
        columns = [item for item in given.get("by") or () if isinstance(item, str)] if given.get("by") else []
        by.update(columns)
        yield from _check_columns(given, columns, path)
        yield from _check_margins(given, columns, path)
        yield from _check_rules(draft, given, path)
        yield from _check_method(draft, given, path)
    for column in draft.mapping("hierarchies"):
        if by and column not in by:
            hint = did_you_mean(column, by) or f"the tables are made by {', '.join(sorted(by))}"
            yield PolicyProblem(f"no table is made by '{column}'", hint, ("hierarchies", column))
    if "path" in draft.mapping("release"):
        hint = "write 'table: …' or 'view: …'; the record beside it keeps what was shown of the same records"
        yield PolicyProblem("tables of statistics are written to a table or view", hint, ("release", "path"))


def _check_method(draft: Draft, given: Mapping[str, Any], path: KeyPath) -> Iterator[PolicyProblem]:
    """What the methods that draw from SQLANON_KEY need of a table."""
    method = next((name for name in draft.mapping("protect") if name in METHODS), "suppression")
    if method in Protect.KEYED and not (given.get("contributor") or draft.data.get("person")):
        hint = "add 'person: …', or 'contributor: …' to the table: the column that tells whose a record is"
        yield PolicyProblem(
            f"{method} draws for people, and nobody knows whose the records of this table are", hint, path
        )
    if method == "cell_key" and "of" in given:
        hint = "leave 'of' out, or protect the amounts by another method in a policy of their own"
        yield PolicyProblem("cell_key changes counts, and this table sums up an amount", hint, (*path, "of"))
    if method != "suppression" and "weight" in given:
        hint = "leave 'weight' out, or protect by suppression"
        yield PolicyProblem(f"{method} does not know sampling weights", hint, (*path, "weight"))


def _check_contributors(draft: Draft) -> Iterator[PolicyProblem]:
    """The same cell must have one draw, whichever table shows it."""
    method = next((name for name in draft.mapping("protect") if name in METHODS), "suppression")
    found: dict[object, object] = {}
    for name, given in draft.mapping("statistics").items():
        if not isinstance(given, Mapping) or method not in Protect.KEYED:
            continue
        who = given.get("contributor") or draft.data.get("person")
        if found.setdefault(given.get("of"), who) != who:
            said = f"{method} draws by contributor, and another table of the same amount has another contributor"
            yield PolicyProblem(said, "name one contributor for both", ("statistics", name))


def _check_columns(given: Mapping[str, Any], columns: list[str], path: KeyPath) -> Iterator[PolicyProblem]:
    for index, column in enumerate(columns):
        if column in columns[:index]:
            yield PolicyProblem(f"'by' has the column '{column}' twice", "keep one", (*path, "by", index))
        if column in (STATISTIC, VALUE):
            hint = "the release has a column of this name: read the table through a view that calls it something else"
            yield PolicyProblem(f"a table cannot be made by a column '{column}'", hint, (*path, "by", index))
        if column == given.get("of"):
            yield PolicyProblem(f"'{column}' cannot be summed up and make cells", "take one of both", (*path, "of"))
    if "weight" in given and "of" not in given:
        yield PolicyProblem("'weight' needs an amount that is weighted", "add 'of: …'", (*path, "weight"))


def _check_margins(given: Mapping[str, Any], columns: list[str], path: KeyPath) -> Iterator[PolicyProblem]:
    margins = given.get("margins")
    for index, listed in enumerate(margins if isinstance(margins, list) else ()):
        for column in listed if isinstance(listed, list) else ():
            if columns and column not in columns:
                hint = did_you_mean(str(column), columns) or f"the table is made by {', '.join(columns)}"
                yield PolicyProblem(f"a margin keeps '{column}', which is not in 'by'", hint, (*path, "margins", index))


def _check_rules(draft: Draft, given: Mapping[str, Any], path: KeyPath) -> Iterator[PolicyProblem]:
    rules = given.get("rules")
    for index, item in enumerate(rules if isinstance(rules, list) else ()):
        here: KeyPath = (*path, "rules", index)
        if isinstance(item, str):
            item = {item: {}}
        if not isinstance(item, Mapping) or len(item) != 1:
            hint = "write a rule as '- minimum_frequency: {n: 3}'"
            yield PolicyProblem(f"a rule is one name with its parameters, not {shape.describe(item)}", hint, here)
            continue
        name, params = next(iter(item.items()))
        known = family(RULES)
        if name not in known:
            hint = did_you_mean(str(name), known) or f"the rules are {', '.join(known)}"
            yield PolicyProblem(f"unknown rule '{name}'", hint, (*here, name))
        elif params is not None and not isinstance(params, Mapping):
            hint = f"write '- {name}: {{parameter: value}}'"
            yield PolicyProblem(f"{name} takes a mapping of parameters, not {shape.describe(params)}", hint, here)
        else:
            yield from _check_rule(draft, known[name], given, params or {}, (*here, name))


def _check_rule(
    draft: Draft, rule: Plugin, given: Mapping[str, Any], params: Mapping[str, Any], path: KeyPath
) -> Iterator[PolicyProblem]:
    for key, message, hint in rule.problems(params):
        yield PolicyProblem(message, hint, (*path, key) if key and key in params else path)
    if "amounts" in rule.needs and "of" not in given:
        hint = "add 'of: …', or take minimum_frequency for counts"
        yield PolicyProblem(f"{rule.name} looks at amounts, and this table counts records", hint, path)
    methods = [name for name in draft.mapping("protect") if name in METHODS]
    if "empty_cells" in rule.needs and methods not in ([], ["suppression"]):
        hint = "protect by suppression, or take another rule"
        yield PolicyProblem(f"{rule.name} hides empty cells, and {methods[0]} hides none", hint, path)
        return
    suppression = draft.mapping("protect", "suppression")
    if "empty_cells" in rule.needs and suppression.get("zeros", "known") != "unknown":
        hint = "add 'zeros: unknown' to 'suppression'"
        yield PolicyProblem(f"{rule.name} hides empty cells, which everybody is said to know", hint, path)
