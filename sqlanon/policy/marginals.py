"""The section `marginals` of a policy: tables of counts with differential privacy, made anew by each refresh.

A sibling of `gateway` in the same file, whose unit, bounds, keys and budget it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.policy import yaml_lines
from sqlanon.policy.checks import Draft, table_key
from sqlanon.policy.gateway import Epsilon, Gateway, Number
from sqlanon.policy.gateway_checks import number_of
from sqlanon.policy.gateway_column import Part, Text
from sqlanon.policy.schedule import Schedule
from sqlanon.policy.shape import Expected
from sqlanon.policy.yaml_lines import KeyPath, Origin, PolicyProblem

MOST_MARGINALS = 50
MOST_SYNTHETIC = 1_000_000
COUNTED = "records"  # the column of every table that holds the counts

Columns = Annotated[tuple[Text, ...], Field(min_length=1), Expected("a list of columns")]


class Synthetic(Part):
    """A table of made-up rows, drawn from the marginals."""

    table: Text = Field(description="Table that is written.")
    rows: Annotated[int, Field(strict=True, ge=1, le=MOST_SYNTHETIC), Expected("an integer from 1 to 1000000")] = Field(
        description="How many rows are drawn."
    )


class Marginals(Part):
    """Counts of the rows of one table by some of its columns, with noise; whole, not negative, and in agreement."""

    table: Text = Field(description="Table of the gateway whose rows are counted.")
    of: Annotated[
        dict[Text, Columns],
        Field(min_length=1, max_length=MOST_MARGINALS),
        Expected("a mapping such as {visits_by_age_sex: [age, sex]}"),
    ] = Field(description="Tables that are written, and the columns by which each counts.")
    epsilon: Epsilon = Field(description="What each refresh spends, on all of them together.")
    principal: Text | None = Field(
        None, alias="as", description="Principal whose budget is charged; the only one if left out."
    )
    bins: Annotated[
        dict[Text, Annotated[Number, Field(gt=0), Expected("a number greater than 0")]],
        Expected("a mapping such as {age: 10}"),
    ] = Field(default_factory=dict, description="Widths of classes of numbers, and of dates in days; 1 if left out.")
    synthetic: Annotated[Synthetic | None, Expected("a mapping such as {table: visits_synthetic, rows: 10000}")] = (
        Field(None, description="Table of synthetic rows with these marginals.")
    )
    _origin: Origin = PrivateAttr(default_factory=Origin)
    _gateway: Gateway | None = PrivateAttr(None)
    _schedule: Schedule | None = PrivateAttr(None)

    @property
    def name(self) -> str:
        """Name of the file, as errors show it."""
        return self._origin.name

    @property
    def gateway(self) -> Gateway:
        """The gateway whose data are counted, from the same file."""
        assert self._gateway is not None  # no file is read without one
        return self._gateway

    @property
    def schedule(self) -> Schedule | None:
        """When it is refreshed, from the same file."""
        return self._schedule

    @property
    def who(self) -> str:
        """The principal whose budget is charged."""
        return self.principal or next(iter(self.gateway.principals))

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is counted by, once, in the order of the policy."""
        return tuple(dict.fromkeys(column for columns in self.of.values() for column in columns))

    @property
    def tables(self) -> tuple[str, ...]:
        """Every table that is written."""
        return (*self.of, *([self.synthetic.table] if self.synthetic else []))

    def error(self, message: str, *path: str | int, hint: str | None = None) -> PolicyError:
        """What is wrong with a part of the section, with its line."""
        return yaml_lines.report([PolicyProblem(message, hint, ("marginals", *path))], self._origin)


def is_text(path: KeyPath) -> bool:
    """Where, below `marginals`, a number or boolean is meant as text."""
    match path:
        case ("table" | "as",) | ("of", *_) | ("synthetic", "table"):
            return True
    return False


def problems(draft: Draft) -> Iterator[PolicyProblem]:
    given = draft.data.get("marginals")
    if "marginals" not in draft.data:
        if "schedule" in draft.data and "gateway" in draft.data and "source" not in draft.data:
            hint = "add a section 'marginals', or a release with its source"
            yield PolicyProblem("the schedule has nothing to refresh", hint, ("schedule",))
        return
    if "gateway" not in draft.data:
        hint = "add the section 'gateway', which says whose data they are and what may be spent"
        yield PolicyProblem("the file has a section 'marginals' but no 'gateway'", hint, ("marginals",))
    if "source" in draft.data:
        hint = "put 'gateway' and 'marginals' into a file of their own, with the same 'ledger'"
        yield PolicyProblem("a file refreshes a release or marginals, not both", hint, ("marginals",))
    if isinstance(given, Mapping):
        for check in CHECKS:
            yield from check(draft, given)


def check_table(draft: Draft, given: Mapping[str, Any]) -> Iterator[PolicyProblem]:
    tables, name = draft.mapping("gateway", "tables"), given.get("table")
    if not isinstance(name, str) or not tables:
        return
    if name not in tables:
        hint = did_you_mean(name, tables) or f"the tables are {', '.join(list(tables)[:20])}"
        yield PolicyProblem(f"the gateway has no table '{name}'", hint, ("marginals", "table"))
        return
    kind = next((kind for kind in ("public", "released") if draft.mapping("gateway", "tables", name).get(kind)), None)
    if kind is not None:
        hint = "it can be counted as it is, without noise"
        yield PolicyProblem(
            f"table '{name}' is {kind}: nobody in it needs to be protected", hint, ("marginals", "table")
        )


def check_written(draft: Draft, given: Mapping[str, Any]) -> Iterator[PolicyProblem]:
    """Every table that is written has a name of its own, and is none that the gateway protects."""
    places: list[tuple[Any, KeyPath]] = [(name, ("marginals", "of", name)) for name in draft.mapping("marginals", "of")]
    places.append((draft.mapping("marginals", "synthetic").get("table"), ("marginals", "synthetic", "table")))
    protected = {
        table_key(name)
        for name, table in draft.mapping("gateway", "tables").items()
        if not (isinstance(table, Mapping) and table.get("released") is True)
    }
    seen: set[str] = set()
    for name, path in places:
        if not isinstance(name, str) or not name:
            continue
        if table_key(name) in protected:
            yield PolicyProblem(
                f"'{name}' is a table of the gateway, and would be replaced", "give it another name", path
            )
        elif table_key(name) in seen:
            yield PolicyProblem(f"'{name}' is written twice", "give each table a name of its own", path)
        seen.add(table_key(name))


def check_columns(draft: Draft, given: Mapping[str, Any]) -> Iterator[PolicyProblem]:
    used: set[str] = set()
    sets: dict[frozenset[str], str] = {}
    for name, listed in draft.mapping("marginals", "of").items():
        columns = [item for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
        used.update(columns)
        if len(set(columns)) < len(columns):
            yield PolicyProblem(f"'{name}' has a column twice", "keep one", ("marginals", "of", name))
        elif columns and sets.setdefault(frozenset(columns), name) != name:
            hint = "counting it twice costs twice, and tells no more; keep one"
            yield PolicyProblem(
                f"'{name}' counts the same as '{sets[frozenset(columns)]}'", hint, ("marginals", "of", name)
            )
    for column in draft.mapping("marginals", "bins"):
        if column not in used and used:
            hint = did_you_mean(column, used) or "leave it out, or count by it"
            yield PolicyProblem(f"no marginal counts by '{column}'", hint, ("marginals", "bins", column))
    if COUNTED in used:
        hint = "it is what the counts are called; read the table through a view that calls it something else"
        yield PolicyProblem(f"a column '{COUNTED}' cannot be counted by", hint, ("marginals", "of"))


def check_principal(draft: Draft, given: Mapping[str, Any]) -> Iterator[PolicyProblem]:
    principals = draft.mapping("gateway", "principals") or {"analyst": {}}
    path: KeyPath = ("marginals", "as") if "as" in given else ("marginals",)
    who = given.get("as", next(iter(principals)) if len(principals) == 1 else None)
    if who is None and "as" not in given:
        hint = f"write 'as: …' with one of {', '.join(list(principals)[:20])}, or one of their own"
        yield PolicyProblem("who pays for the marginals? The gateway has several principals", hint, path)
    if not isinstance(who, str):
        return
    if who not in principals:
        hint = did_you_mean(who, principals) or f"there are {', '.join(list(principals)[:20])}"
        yield PolicyProblem(f"the gateway has no principal '{who}'", hint, path)
        return
    own = principals[who] if isinstance(principals[who], Mapping) else {}
    if own.get("controls") is True:
        hint = "name a principal that has a budget"
        yield PolicyProblem(f"principal '{who}' is answered under controls, and spends no epsilon", hint, path)
    listed = own.get("tables")
    if isinstance(listed, list) and isinstance(given.get("table"), str) and given["table"] not in listed:
        yield PolicyProblem(
            f"principal '{who}' may not use the table '{given['table']}'", "name another principal", path
        )
    limit = number_of(own.get("epsilon", draft.mapping("gateway", "budget", "principal").get("epsilon")))
    asked = number_of(given.get("epsilon"))
    if limit is not None and asked is not None and asked > limit:
        hint = "lower epsilon, or raise what the principal may spend"
        said = f"a refresh spends epsilon {asked:g}, more than the {limit:g} of '{who}'"
        yield PolicyProblem(said, hint, ("marginals", "epsilon"))


CHECKS: tuple[Callable[[Draft, Mapping[str, Any]], Iterator[PolicyProblem]], ...] = (
    check_table,
    check_written,
    check_columns,
    check_principal,
)
