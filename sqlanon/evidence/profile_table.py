"""Profile a table inside its engine, and draft a policy for it: roles, hierarchies and models, with the reasons.

The draft shows counts and shares, never a value of the table.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlanon.engines import ColumnInfo, Engine, connect
from sqlanon.errors import PolicyError, SourceError
from sqlanon.evidence.suggest_roles import (
    COMPARABLE,
    COUNTRIES,
    FLAG,
    PATTERNS,
    ColumnFacts,
    RoleDraft,
    Shape,
    base_type,
    hierarchy,
    is_person_key,
    shape_of,
    speaks_of,
    words,
)
from sqlanon.hierarchies import build
from sqlanon.policy import Source
from sqlanon.policy.options import holds_rows, split_target, without_password
from sqlanon.relations.source import relation
from sqlanon.sqltree.tree import TEXT, alias, bigint, case, column, count_all, literal, sum_bigint, text, union_all

COLUMNS_AT_ONCE = 40  # in one statement; each is a branch of it with a GROUP BY of its own
MOST_COUNTRIES = 300
VERY_LARGE = 2_000_000
COPY = "sqlanon_profile"


def starter_policy(database: str, table: str | None, *, base: Path = Path(".")) -> str:
    """A commented policy for a table, as YAML; `base` is the folder that it will be written to."""
    if not table and not holds_rows(database):
        raise _which_table(database)
    url, given = split_target(database, table or None)
    engine = connect(url)
    try:
        source = engine.resolve(Source(**given))
        rows = relation(source, engine.dialect)
        if source.path is not None and not source.path.lower().endswith(".parquet"):
            # A CSV or JSON file would be read anew by each GROUP BY.
            engine.create_temporary(COPY, rows)
            rows = exp.select("*").from_(COPY)
        draft = profile(engine, rows, table or database)
    finally:
        engine.close()
    parts = (_header(draft), _source(url, given, base), _columns(draft), _person(draft), _hierarchies(draft))
    return "\n".join("\n".join((*part, "")) for part in (*parts, _models(draft)) if part)


def _which_table(database: str) -> PolicyError:
    engine = connect(database)
    try:
        known = engine.tables()
    finally:
        engine.close()
    shown = without_password(database)
    if not known:
        return PolicyError(f"'{shown}' is a database without tables", hint="create one, or give a Parquet or CSV file")
    listed = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    command = shlex.join(["sqlanon", "init", shown, known[0]])
    return PolicyError(
        f"'{shown}' is a database: which table of it?", detail=f"it has {listed}", hint=f"for example: {command}"
    )


def profile(engine: Engine, rows: exp.Select, name: str) -> RoleDraft:
    """Two statements on the table, for most tables: one for the columns, one for their combinations."""
    found = engine.columns(rows)
    known = [item for item in found if item.name]
    if not known:
        raise SourceError(f"'{name}' has no columns", hint="there is nothing to write a policy about")
    facts = measure(engine, rows, known)
    if not any(item.comparable for item in facts):
        raise SourceError(
            f"'{name}' has no column whose values can be compared",
            hint="make a view that takes columns out of them, or casts them to text",
        )
    draft = RoleDraft.of(facts, unnamed=len(found) - len(known))
    sets = draft.sets()
    return draft.combined(sets, rows_alone(engine, rows, sets, draft.person)) if sets else draft


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
    return [_with_countries(engine, rows, replace(known, rows=total)) for known in measured]


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
        )
        .from_(told.subquery(alias="told"))
        .group_by("kind")
    )


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
    )


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


def _header(draft: RoleDraft) -> list[str]:
    lines = [
        f"# Drafted by 'sqlanon init' from {_number(draft.rows, 'row')} and {_number(len(draft.columns), 'column')}.",
        "# Roles are guesses: read each line, and correct it. To an attacker, a column is",
        "#   identifier        who it is: not released",
        "#   quasi_identifier  known from elsewhere, such as age and place: made coarser",
        "#   sensitive         what nobody should learn about a person",
        "#   insensitive       none of these",
        "# Then run 'sqlanon check' with this file; 'sqlanon explain k_anonymity' tells what a model means.",
    ]
    if draft.rows == 0:
        lines.append("# The table has no rows yet: roles are guessed from names and types only.")
    if draft.unnamed:
        lines.append(f"# {_number(draft.unnamed, 'column')} without a name cannot be part of a policy: name it first.")
    return lines


def _source(url: str | None, given: dict[str, str], base: Path) -> list[str]:
    lines = ["source:"]
    if url is not None:
        database = without_password(url)
        if database != url:
            lines.append("  # The password stays out of the file: put it into PGPASSWORD, or into ~/.pgpass.")
        lines.append(f"  database: {scalar(_seen_from(base, database))}")
    for key, value in given.items():
        lines.append(f"  {key}: {scalar(_seen_from(base, value) if key == 'path' else value)}")
    return lines


def _columns(draft: RoleDraft) -> list[str]:
    entries = [
        (f"  {key(facts.name)} {draft.roles[facts.name].role}", _figures(draft, facts)) for facts in draft.columns
    ]
    lines = ["columns:", *_aligned(entries)]
    if len(draft.candidates) > 1 and draft.rows:
        names = ", ".join(scalar(name) for name in draft.candidates)
        what = "single out a person" if draft.person else "are unique"
        lines.append(f"# {percent(draft.together, draft.rows)} of the rows {what} by {names} together.")
    if draft.rows > VERY_LARGE:
        lines.append("# Pairs of these were measured on all rows; pairs of other columns were not.")
    return lines


def _figures(draft: RoleDraft, facts: ColumnFacts) -> str:
    """Why the column has its role, and what was counted."""
    suggestion = draft.roles[facts.name]
    if not draft.rows or not facts.comparable or facts.constant:
        return suggestion.reason
    figures = [_number(facts.distinct, "distinct value")]
    if facts.nulls:
        figures.append(f"{percent(facts.nulls, facts.rows)} NULL")
    if suggestion.role == "quasi_identifier":
        alone = draft.alone[facts.name]
        count, other = draft.partner.get(facts.name, (0, ""))
        what = "of rows single out a person" if draft.person else "of rows unique"
        if alone:
            figures.append(f"{percent(alone, facts.rows)} {what}")
        if count:
            figures.append(f"{percent(count, facts.rows)}{'' if alone else f' {what}'} together with {scalar(other)}")
    return f"{suggestion.reason}; {', '.join(figures)}"


def _person(draft: RoleDraft) -> list[str]:
    if draft.person is not None:
        facts = next(facts for facts in draft.columns if facts.name == draft.person)
        each = (facts.rows - facts.nulls) / facts.distinct
        return [
            f"# A person has {each:.1f} rows on average: persons are counted, not rows.",
            f"person: {scalar(draft.person)}",
        ]
    keys = [facts.name for facts in draft.columns if is_person_key(facts.name) and facts.distinct and not facts.repeats]
    if keys:
        return [f"# {scalar(keys[0])} differs from row to row: each row is a person."]
    return ["# If a person can have several rows, name the column that tells persons apart:", "# person: …"]


def _hierarchies(draft: RoleDraft) -> list[str]:
    fitting, others = [], []
    for facts in draft.columns:
        if draft.roles[facts.name].role != "quasi_identifier":
            continue
        found = hierarchy(facts)
        if found:
            fitting.append((f"  {key(facts.name)} {{{found[0]}}}", found[1]))
        elif facts.distinct > FLAG:
            others.append(facts)
    lines = ["# How values become coarser, level by level.", "hierarchies:", *_aligned(fitting)] if fitting else []
    if not others:
        return lines
    names = ", ".join(scalar(facts.name) for facts in others[:8]) + (", …" if len(others) > 8 else "")
    advice = [
        f"No kind fits {names}: group the values in a tree ('sqlanon explain tree'),",
        "or in a file with one line for each value, such as: value;group;*",
        *(
            f"The kind 'country' does not know {_number(facts.unlisted, 'value')} of {scalar(facts.name)}."
            for facts in others
            if facts.unlisted
        ),
        *([] if fitting else ["hierarchies:"]),
        f"{'' if fitting else '  '}{scalar(others[0].name)}: {{csv: {{path: {_file_name(others[0].name)}}}}}",
    ]
    return lines + [f"{'  ' if fitting else ''}# {line}" for line in advice]


def _models(draft: RoleDraft) -> list[str]:
    others = "the rows of at least 4 other persons" if draft.person else "at least 4 others"
    diversity = ("- distinct_l_diversity: {l: 2}", "rows that look alike differ in each sensitive column")
    closeness = ("  # - t_closeness: {t: 0.3}", "stricter: they differ much as in the whole table")
    models = [("  - k_anonymity: {k: 5}", f"each row looks like {others}")]
    if any(suggestion.role == "sensitive" for suggestion in draft.roles.values()):
        return ["models:", *_aligned([*models, (f"  {diversity[0]}", diversity[1]), closeness])]
    missing = "  # No column looks sensitive. If one is, give it the role sensitive, and ask for more:"
    return ["models:", *_aligned(models), missing, f"  # {diversity[0]}"]


def _aligned(entries: Sequence[tuple[str, str]]) -> list[str]:
    """Comments in one column, as far as that keeps lines short."""
    width = max((len(text) for text, _ in entries if len(text) <= 60), default=0)
    return [f"{text:<{width}}  # {comment}" for text, comment in entries]


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percent(part: int, whole: int) -> str:
    """A share, rounded but never to none or to all.

    >>> percent(1, 3), percent(1, 9000), percent(8999, 9000), percent(5, 5), percent(3, 1000)
    ('33 %', '<0.1 %', '>99.9 %', '100 %', '0.3 %')
    """
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "<0.1 %"
    if 99.9 < share < 100:
        return ">99.9 %"
    return f"{share:.1f} %" if share < 1 or 99 < share < 100 else f"{share:.0f} %"


# Words that some reader of YAML takes for something else than text.
_RESERVED = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def scalar(text: str) -> str:
    """Text in YAML: as it is where that is safe, otherwise in double quotes.

    >>> print(scalar("zip"), scalar("on"), scalar("2024"), scalar('a "b"'), scalar("data/visits-2024.csv"))
    zip "on" "2024" "a \\"b\\"" data/visits-2024.csv
    """
    if re.fullmatch(r"/?[^\W\d][\w./-]*", text) and text.casefold() not in _RESERVED and text.isprintable():
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def key(name: str) -> str:
    """A name as key of a mapping; YAML wants a mark before one of more than 1,024 characters."""
    written = scalar(name)
    return f"{written}:" if len(written) < 1000 else f"? {written}\n  :"


def _file_name(name: str) -> str:
    return f"hierarchies/{'_'.join(words(name))[:40] or 'values'}.csv"


def _seen_from(base: Path, path: str) -> str:
    """A path of the working directory, as the policy in the folder `base` has to name it."""
    if "://" in path or path == ":memory:" or os.path.isabs(path) or base == Path("."):
        return path
    return Path(os.path.relpath(path, base)).as_posix()
