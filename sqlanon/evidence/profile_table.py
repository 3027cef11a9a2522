"""Profile a table inside its engine: what is counted in each column, and how many rows stand alone by some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine
from sqlanon.errors import PolicyError, SourceError, did_you_mean
from sqlanon.evidence.content_checks import CHECKS, passes
from sqlanon.evidence.derived_columns import find_derived, find_one_hot
from sqlanon.evidence.linked_rows import find_link
from sqlanon.evidence.suggest_roles import (
    COMPARABLE,
    COUNTRIES,
    FLAG,
    PATTERNS,
    ColumnFacts,
    RoleDraft,
    RolesGiven,
    Shape,
    Suggestion,
    assign_roles,
    base_type,
    require_quasi_identifier,
    shape_of,
    speaks_of,
)
from sqlanon.hierarchies import build
from sqlanon.policy import from_options
from sqlanon.policy.checks import Role
from sqlanon.sqltree.labels import call
from sqlanon.sqltree.tree import TEXT, alias, bigint, case, column, count_all, literal, sum_bigint, text, union_all

COLUMNS_AT_ONCE = 40  # in one statement; each is a branch of it with a GROUP BY of its own
MOST_COUNTRIES = 300
SAMPLE = 2_000  # values of a column whose checksums are tried
SHORTEST_CODE, LONGEST_CODE = 9, 42  # characters of a number that identifies a person


def profile(engine: Engine, rows: exp.Select, name: str, given: RolesGiven) -> RoleDraft:
    """Two statements on the table, for most tables: one for the columns, one for their combinations."""
    found = engine.columns(rows)
    known = [item for item in found if item.name]
    if not known:
        raise SourceError(f"'{name}' has no columns", hint="there is nothing to write a policy about")
    _require_known(given, [item.name for item in known], name)
    facts = measure(engine, rows, known)
    if not any(item.comparable for item in facts):
        raise SourceError(
            f"'{name}' has no column whose values can be compared",
            hint="make a view that takes columns out of them, or casts them to text",
        )
    roles, person = assign_roles(facts, given)
    derived = find_derived(engine, rows, facts, roles, list(given.roles)) if facts[0].rows else {}
    roles = _without_derived(engine, rows, facts, roles, derived, given)
    roles, person = require_quasi_identifier(facts, roles, person, given)
    roles = _without_links(engine, rows, facts, roles, person, given)
    draft = replace(RoleDraft.of(facts, len(found) - len(known), roles, person), derived=derived)
    sets = draft.sets()
    return draft.combined(sets, rows_alone(engine, rows, sets, draft.person)) if sets else draft


def _without_derived(
    engine: Engine,
    rows: exp.Select,
    facts: Sequence[ColumnFacts],
    roles: dict[str, Suggestion],
    derived: Mapping[str, str],
    given: RolesGiven,
) -> dict[str, Suggestion]:
    """Leave out columns that follow from others."""
    roles = roles | {
        name: Suggestion("identifier", f"follows from {origin}: it would tell what that one hides")
        for name, origin in derived.items()
    }
    for group in find_one_hot(engine, rows, facts, roles) if facts[0].rows else []:
        *others, last = group
        listed = ", ".join(others)
        for name in others:
            roles[name] = replace(roles[name], reason=f"one category in {len(group)} columns, to {last}")
        if last not in given.roles:
            roles[last] = Suggestion("identifier", f"follows from {listed}: one of these is 1 in each row")
    return roles


def _without_links(
    engine: Engine,
    rows: exp.Select,
    facts: Sequence[ColumnFacts],
    roles: dict[str, Suggestion],
    person: ColumnFacts | None,
    given: RolesGiven,
) -> dict[str, Suggestion]:
    """Columns that would link the rows of a person, which a publish refuses: made coarser, or left out."""
    distinct = {known.name: known.distinct for known in facts}
    constant = [known.name for known in facts if known.constant]  # tells nobody from others
    while person is not None and facts[0].rows:
        named = {role: [name for name, item in roles.items() if item.role == role] for role in get_args(Role)}
        read = from_options(
            {"table": "drafted"},
            qi=named["quasi_identifier"],
            sensitive=named["sensitive"],
            identifiers=named["identifier"],
            insensitive=named["insensitive"],
            person=person.name,
            models=[("k_anonymity", {"k": 2})],
        )
        link = find_link(read, engine, rows, released=False, hidden=constant)
        open_ = [name for name in link.columns if roles[name].role != "quasi_identifier"] if link else []
        open_ = [name for name in open_ if name not in given.roles]
        if not open_:
            break
        name = max(open_, key=lambda each: distinct[each])
        why = "it links the rows of a person"
        sure = roles[name].role == "sensitive" and roles[name].sure
        roles = roles | {
            name: Suggestion("identifier", f"sensitive, and {why}: left out")
            if sure
            else Suggestion("quasi_identifier", why)
        }
    return roles


def _require_known(given: RolesGiven, known: Sequence[str], name: str) -> None:
    """Roles that were given are those of columns that are there."""
    for asked in (*given.roles, *([given.person] if given.person is not None else [])):
        if asked not in known:
            listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
            raise PolicyError(
                f"'{name}' has no column '{asked}'", hint=did_you_mean(asked, known) or f"it has {listed}"
            )


def measure(engine: Engine, rows: exp.Select, columns: Sequence[ColumnInfo]) -> list[ColumnFacts]:
    """Counts of each column, one statement for many columns; the table itself stays in the engine."""
    facts = [ColumnFacts(item.name, shape_of(item), comparable=_comparable(engine, rows, item)) for item in columns]
    places = [place for place, known in enumerate(facts) if known.comparable]
    found: dict[int, list[tuple[Any, ...]]] = {}
    for start in range(0, len(places), COLUMNS_AT_ONCE):
        branches = [_counts(rows, place, facts[place]) for place in places[start : start + COLUMNS_AT_ONCE]]
        for place, *counted in engine.query(union_all(branches)):
            found.setdefault(place, []).append(tuple(counted))
    measured = [_with_counts(known, found.get(place, [])) for place, known in enumerate(facts)]
    total = max((known.rows for known in measured), default=0)
    counted_all = [_with_countries(engine, rows, replace(known, rows=total)) for known in measured]
    return _with_quantiles(engine, rows, _with_checksums(engine, rows, counted_all))


def _comparable(engine: Engine, rows: exp.Select, item: ColumnInfo) -> bool:
    """Whether values of the type can be counted and put in order; PostgreSQL's json cannot."""
    if item.numeric or item.temporal or base_type(item.type) in COMPARABLE:
        return True
    counted = exp.Count(this=exp.Distinct(expressions=[column(item.name)]))
    try:
        engine.query(_chosen(rows, counted).where(exp.false()))
    except SourceError:
        return False
    return True


def _chosen(rows: exp.Select, *expressions: exp.Expr) -> exp.Select:
    """These in place of the star, which would have to be expanded anew for each column of a wide table."""
    return rows.select(*expressions, append=False)


def _counts(rows: exp.Select, place: int, facts: ColumnFacts) -> exp.Query:
    """One row for each pattern among the values of a column, and one for NULL.

    Patterns are looked for once a value, not once a row.
    """
    value = exp.column("value")
    values = _chosen(rows, alias(column(facts.name), "value"))
    grouped = exp.select("value", alias(count_all(), "records")).from_(values.subquery(alias="listed"))
    kinds: list[tuple[exp.Expr, exp.Expr]] = [(value.copy().is_(exp.Null()), literal("null"))]
    if facts.shape == "text":
        kinds += [
            (exp.RegexpLike(this=text(value.copy()), expression=literal(pattern)), literal(name))
            for name, pattern in PATTERNS.items()
        ]
    told = exp.select("value", "records", alias(case(*kinds, default=literal("other")), "kind"))
    told = told.from_(grouped.group_by("value").subquery(alias="grouped"))
    length: exp.Expr = exp.Cast(this=exp.Null(), to=exp.DataType.build("bigint"))
    if facts.shape in ("text", "whole"):
        length = bigint(exp.Max(this=exp.Length(this=text(value.copy()))))
    return (
        exp.select(
            alias(literal(place), "place"),
            "kind",
            alias(sum_bigint(exp.column("records")), "records"),
            alias(count_all(), "distinct_values"),
            alias(sum_bigint(case((exp.column("records").eq(1), literal(1)), default=literal(0))), "unique_rows"),
            alias(length, "longest"),
            alias(_extreme(exp.Min, facts.shape), "least"),
            alias(_extreme(exp.Max, facts.shape), "most"),
            *_amounts(facts.shape),
            alias(exp.Max(this=exp.column("records")), "commonest"),
        )
        .from_(told.subquery(alias="told"))
        .group_by("kind")
    )


def _amounts(shape: Shape) -> list[exp.Expr]:
    """Rows whose number is not whole; spaces and characters of all texts."""
    value, zero = exp.column("value"), bigint(literal(0))
    decimals = spaces = characters = zero
    if shape == "number":
        # Of infinity and NaN, FLOOR is the same.
        whole = exp.Floor(this=value.copy()).eq(value.copy())
        decimals = sum_bigint(case((whole, literal(0)), default=exp.column("records")))
    if shape == "text":
        length = exp.Length(this=text(value.copy()))
        bare = exp.Length(this=call("REPLACE", text(value.copy()), " ", ""))
        characters = sum_bigint(length)
        spaces = sum_bigint(exp.Sub(this=length.copy(), expression=bare))
    return [alias(decimals, "decimals"), alias(spaces.copy(), "spaces"), alias(characters.copy(), "characters")]


def _extreme(function: type[exp.AggFunc], shape: Shape) -> exp.Expr:
    """The least or the largest finite number as text: a number may be larger than a float can be."""
    if shape not in ("whole", "number"):
        return exp.Cast(this=exp.Null(), to=TEXT.copy())
    value = exp.column("value")
    # Infinity less infinity is NaN, which is not 0.
    finite = exp.Sub(this=value, expression=value.copy()).eq(0)
    return text(function(this=exp.Case().when(finite, value.copy())))


def _with_counts(facts: ColumnFacts, counted: Sequence[tuple[Any, ...]]) -> ColumnFacts:
    values = [row for row in counted if row[0] != "null"]
    least, most = ([Decimal(row[place]) for row in values if row[place] is not None] for place in (5, 6))
    return replace(
        facts,
        rows=sum(row[1] for row in counted),
        nulls=sum(row[1] for row in counted if row[0] == "null"),
        distinct=sum(row[2] for row in values),
        unique=sum(row[3] for row in values),
        patterns={row[0]: row[1] for row in values if row[0] != "other"},
        longest=max((row[4] for row in values if row[4] is not None), default=0),
        least=min(least, default=None),
        most=max(most, default=None),
        decimals=sum(row[7] or 0 for row in values),
        spaces=sum(row[8] or 0 for row in values),
        characters=sum(row[9] or 0 for row in values),
        commonest=max((row[10] for row in values), default=0),
    )


def _with_checksums(engine: Engine, rows: exp.Select, facts: Sequence[ColumnFacts]) -> list[ColumnFacts]:
    """Try the checksums on a sample of the values of columns that are long enough."""
    places = [
        place
        for place, known in enumerate(facts)
        if known.shape in ("text", "whole") and SHORTEST_CODE <= known.longest <= LONGEST_CODE and known.distinct
    ]
    if not places:
        return list(facts)
    found: dict[int, tuple[int, ...]] = {}
    for start in range(0, len(places), COLUMNS_AT_ONCE):
        branches = [_right(rows, place, facts[place].name) for place in places[start : start + COLUMNS_AT_ONCE]]
        found |= {place: tuple(counted) for place, *counted in engine.query(union_all(branches))}
    return [
        replace(known, sampled=found[place][0], checksums=dict(zip(CHECKS, found[place][1:], strict=True)))
        if place in found
        else known
        for place, known in enumerate(facts)
    ]


def _right(rows: exp.Select, place: int, name: str) -> exp.Select:
    """How many of the sampled values of a column pass each checksum."""
    value = text(column(name))
    sample = _chosen(rows, alias(value, "value")).where(column(name).is_(exp.Null()).not_()).distinct().limit(SAMPLE)
    counts = [alias(sum_bigint(passes(check, exp.column("value"))), check) for check in CHECKS]
    return exp.select(alias(literal(place), "place"), alias(count_all(), "sampled"), *counts).from_(
        sample.subquery(alias="sampled")
    )


def _with_quantiles(engine: Engine, rows: exp.Select, facts: Sequence[ColumnFacts]) -> list[ColumnFacts]:
    """The numbers that nine of ten rows lie between: bands for these are of use, bands up to an outlier are not."""
    names = [known.name for known in facts if known.least is not None and known.distinct > FLAG]
    found: dict[str, tuple[Decimal, Decimal]] = {}
    for start in range(0, len(names), COLUMNS_AT_ONCE):
        chosen = names[start : start + COLUMNS_AT_ONCE]
        ends = [text(_quantile(name, share)) for name in chosen for share in (0.05, 0.95)]
        told = engine.query(_chosen(rows, *ends))[0]
        found |= {name: (Decimal(told[2 * i]), Decimal(told[2 * i + 1])) for i, name in enumerate(chosen)}
    return [
        replace(known, low=found[known.name][0], high=found[known.name][1]) if known.name in found else known
        for known in facts
    ]


def _quantile(name: str, share: float) -> exp.Expr:
    value = column(name)
    finite = exp.Sub(this=value, expression=value.copy()).eq(0)
    kept = exp.Case().when(finite, value.copy())
    order = exp.Order(expressions=[exp.Ordered(this=kept, nulls_first=False)])
    return exp.WithinGroup(this=exp.PercentileDisc(this=exp.Literal.number(share)), expression=order)


def _with_countries(engine: Engine, rows: exp.Select, facts: ColumnFacts) -> ColumnFacts:
    if facts.shape != "text" or not 0 < facts.distinct <= MOST_COUNTRIES or not speaks_of(facts.name, COUNTRIES):
        return facts
    known = {row[0] for row in build("country", {}, Path()).rows}
    named = text(column(facts.name))
    tree = _chosen(rows, alias(named, "value")).distinct().limit(MOST_COUNTRIES + 1)
    values = {value for (value,) in engine.query(tree) if value is not None}
    return replace(facts, unlisted=len(values - known))


def rows_alone(engine: Engine, rows: exp.Select, sets: Sequence[Sequence[str]], person: str | None) -> list[int]:
    """For each set of columns, the rows whose values no other row has; with a person key, no other person."""

    def branch(place: int, names: Sequence[str]) -> exp.Query:
        labels = [f"c{i}" for i in range(1, len(names) + 1)]
        chosen = [alias(column(name), label) for name, label in zip(names, labels, strict=True)]
        condition: exp.Expr = count_all().eq(1)
        if person is not None:
            chosen.append(alias(text(column(person)), "person"))
            who = exp.column("person")
            # Rows without a person count as one unknown person.
            condition = exp.NullSafeEQ(this=exp.Min(this=who), expression=exp.Max(this=who.copy()))
        values = _chosen(rows, *chosen).subquery(alias="listed")
        grouped = exp.select(alias(count_all(), "records")).from_(values).group_by(*labels).having(condition)
        counted = exp.Coalesce(this=sum_bigint(exp.column("records")), expressions=[literal(0)])
        return exp.select(alias(literal(place), "place"), alias(counted, "records")).from_(
            grouped.subquery(alias="grouped")
        )

    found = dict(engine.query(union_all([branch(place, names) for place, names in enumerate(sets)])))
    return [int(found[place]) for place in range(len(sets))]
