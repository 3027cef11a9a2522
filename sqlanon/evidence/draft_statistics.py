"""Draft a policy for tables of statistics from a table: dimensions with hierarchies, amounts, whose the records are.

The draft shows counts, never a value of the table. What it leaves out, and why, is a comment: a column with NULLs makes
no cells, and an amount below 0 cannot be protected. The finest cells hold many records on average, so that there is a
pattern for the draft as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlglot import exp

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, did_you_mean
from sqlanon.evidence.build_hierarchy import read_levels
from sqlanon.evidence.draft_policy import key, name_release, open_table, scalar, source_lines
from sqlanon.evidence.profile_table import profile
from sqlanon.evidence.suggest_roles import ColumnFacts, RolesGiven, is_person_key, speaks_of
from sqlanon.evidence.value_tree import write_rows
from sqlanon.policy.options import split_target
from sqlanon.policy.statistics import STATISTIC, VALUE
from sqlanon.sqltree.tree import column, text

MOST_VALUES, MOST_DIMENSIONS, MOST_AMOUNTS = 200, 3, 3
RECORDS_A_CELL = 12  # of the finest, on average
FEWEST, PERCENT = 3, 10
CODES = range(2, 11)  # characters of values that are taken for codes with a common beginning
CONTRIBUTORS = """
    group* holding* enterprise* firm* company* companies unternehm* betrieb* business* establishment* entreprise*
    empresa* azienda* owner* employer* supplier* vendor* merchant* konzern* legal_unit* siren siret
"""


@dataclass(frozen=True)
class StatisticsGiven:
    """What is known beforehand, and not to be guessed."""

    by: Sequence[str] = ()
    of: Sequence[str] = ()
    contributor: str | None = None


@dataclass(frozen=True)
class StatisticsDraft:
    """The text of a policy, and what an unedited `publish` would do with it, in one line."""

    text: str
    summary: str
    files: Mapping[str, str] = field(default_factory=dict)  # hierarchies beside the policy, by their path from there


@dataclass
class _Dimension:
    facts: ColumnFacts
    hierarchy: str | None = None  # as YAML
    said: str = ""


def draft_statistics(
    database: str,
    table: str | None,
    *,
    base: Path = Path("."),
    given: StatisticsGiven | None = None,
    folder: str | None = None,
) -> StatisticsDraft:
    """A commented policy for tables of a table, as YAML; `base` is the folder that it will be written to, and `folder`
    where in it hierarchies go that the table holds itself; without it, columns that follow from others are left out."""
    asked = given or StatisticsGiven()
    url, place = split_target(database, table or None)
    if "path" in place:
        raise PolicyError(
            "tables of statistics are published in a database",
            hint="load the file into one: duckdb business.duckdb \"CREATE TABLE … AS FROM 'file.csv'\"",
        )
    files: dict[str, str] = {}
    with open_table(database, table) as (engine, rows):
        facts = list(profile(engine, rows, table or database, RolesGiven(person=asked.contributor)).columns)
        if not facts[0].rows:
            raise PolicyError("the table has no rows: nothing is known of its columns", hint="write the policy by hand")
        known = {item.name: item for item in facts}
        _require_columns(asked, known)
        contributor = known[asked.contributor] if asked.contributor else _find_contributor(facts)
        notes: list[str] = []
        amounts = _find_amounts(facts, asked, contributor, notes)
        dimensions = _find_dimensions(engine, rows, facts, asked, contributor, amounts, notes)
        _add_hierarchies(engine, rows, facts, dimensions, contributor, amounts, folder, files, notes)
    release = name_release(place)
    summary = _summary(dimensions, amounts, release)
    lines = [
        f"# Drafted by 'sqlanon init --statistics' from {facts[0].rows:,} rows.",
        "# All tables of this policy are protected together: a cell that tells about a few contributors is hidden, and",
        "# others with it, so that nobody can compute the first. Read each line, and correct it.",
        f"# As it stands, {summary}.",
        *(f"# {note}" for note in notes),
        "",
        *source_lines(url, place, base),
        "",
        *_hierarchies(dimensions),
        "statistics:",
        *_tables(dimensions, amounts, contributor),
        "",
        "# 'exact' stops after so many seconds, and says how far from the least loss it may be.",
        "protect: {suppression: {search: by_size, seconds: 60, singletons: protect, weight: value}}",
        f"release: {{table: {scalar(release['table'])}}}",
        "",
    ]
    return StatisticsDraft("\n".join(lines), summary, files)


def _require_columns(asked: StatisticsGiven, known: Mapping[str, ColumnFacts]) -> None:
    for name in (*asked.by, *asked.of, *([asked.contributor] if asked.contributor else [])):
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(list(known)[:20])}"
            raise PolicyError(f"column '{name}' is not in the table", hint=hint)
    for name in asked.by:
        if known[name].nulls:
            raise PolicyError(
                f"column '{name}' has NULLs: a record without it is in a total, and in no part of it",
                hint="say what they are in a view, such as COALESCE(…, 'unknown')",
            )
        if known[name].distinct > MOST_VALUES:
            raise PolicyError(f"column '{name}' has {known[name].distinct:,} values", hint="take a coarser column")
    for name in asked.of:
        item = known[name]
        if item.shape not in ("whole", "number"):
            raise PolicyError(f"column '{name}' holds no amounts", hint="name a column of numbers")
        if item.nulls or (item.least is not None and item.least < 0):
            raise PolicyError(
                f"the amount '{name}' has NULLs, or is below 0 in some records",
                hint="leave these records out in a view, or make two tables, one of gains and one of losses",
            )


def _find_contributor(facts: Sequence[ColumnFacts]) -> ColumnFacts | None:
    """Whose a record is: the column with the fewest values that is called so, as groups of enterprises come before
    enterprises; or what tells persons apart."""
    named = [item for item in facts if speaks_of(item.name, CONTRIBUTORS) and not item.nulls and item.distinct > 1]
    keys = [item for item in named if item.distinct > MOST_VALUES or item.distinct * 3 > item.rows]
    if keys:
        return min(keys, key=lambda item: item.distinct)
    persons = [item for item in facts if is_person_key(item.name) and not item.nulls and item.repeats]
    return min(persons, key=lambda item: -item.distinct) if persons else None


def _find_amounts(
    facts: Sequence[ColumnFacts], asked: StatisticsGiven, contributor: ColumnFacts | None, notes: list[str]
) -> list[ColumnFacts]:
    if asked.of:
        return [next(item for item in facts if item.name == name) for name in asked.of]
    found = []
    for item in facts:
        numeric = item.shape in ("whole", "number") and item.distinct > MOST_VALUES
        a_key = (item.unique >= item.rows * 0.999 and item.whole) or is_person_key(item.name)
        if item is contributor or not numeric or a_key or item.name in asked.by:
            continue
        if item.nulls or item.least is None or item.least < 0:
            what = "has NULLs" if item.nulls else "is below 0 in some records"
            notes.append(f"{scalar(item.name)} is not summed up: it {what}.")
            continue
        found.append(item)
    for item in found[MOST_AMOUNTS:]:
        notes.append(f"{scalar(item.name)} could be summed up too: add a table of it.")
    return found[:MOST_AMOUNTS]


def _find_dimensions(
    engine: Engine, rows: exp.Select, facts: Sequence[ColumnFacts], asked: StatisticsGiven,
    contributor: ColumnFacts | None, amounts: Sequence[ColumnFacts], notes: list[str],
) -> list[_Dimension]:  # fmt: skip
    """Columns of few values, as long as the finest cells hold enough records."""
    if asked.by:
        return [_Dimension(next(item for item in facts if item.name == name)) for name in asked.by]
    able = []
    for item in facts:
        if item is contributor or item in amounts or item.constant or not item.comparable:
            continue
        if not 2 <= item.distinct <= MOST_VALUES or item.shape in ("number", "date"):
            continue
        if item.name in (STATISTIC, VALUE):
            notes.append(f"{scalar(item.name)} makes no cells: the release has a column of this name.")
            continue
        if item.nulls:
            notes.append(f"{scalar(item.name)} makes no cells: it has NULLs; say what they are in a view.")
            continue
        able.append(item)
    # Text names groups; a number of few values may be a code or a count. What follows from a finer column is a level.
    able.sort(key=lambda item: (item.shape != "text", item.name != item.name.lower()))
    chosen: list[ColumnFacts] = []
    cells = 1
    for item in able:
        finer = [each for each in able if item.distinct < each.distinct <= item.rows / RECORDS_A_CELL]
        if any(_follows(engine, rows, item, each) for each in finer):
            continue
        if len(chosen) < MOST_DIMENSIONS and cells * item.distinct * RECORDS_A_CELL <= item.rows:
            chosen.append(item)
            cells *= item.distinct
        else:
            notes.append(f"{scalar(item.name)} ({item.distinct:,} values) is not among the dimensions.")
    if not chosen:
        raise PolicyError(
            "no column makes cells: none has 2 or more values with enough records of each",
            hint="name them: --by region,branch",
        )
    return [_Dimension(item) for item in chosen]


def _follows(engine: Engine, rows: exp.Select, coarse: ColumnFacts, fine: ColumnFacts) -> bool:
    """Whether the value of one column tells that of the other."""
    pairs = rows.select(column(fine.name), column(coarse.name), append=False).distinct().subquery("pairs")
    return int(engine.query(exp.select(exp.Count(this=exp.Star())).from_(pairs))[0][0]) == fine.distinct


def _add_hierarchies(
    engine: Engine, rows: exp.Select, facts: Sequence[ColumnFacts], dimensions: Sequence[_Dimension],
    contributor: ColumnFacts | None, amounts: Sequence[ColumnFacts], folder: str | None, files: dict[str, str],
    notes: list[str],
) -> None:  # fmt: skip
    """Columns that follow from a dimension are its levels; codes have their beginnings."""
    for dimension in dimensions:
        own = dimension.facts
        coarser = [
            item
            for item in facts
            if item is not contributor and item not in amounts and item not in [each.facts for each in dimensions]
            and not item.nulls and 1 < item.distinct < own.distinct and item.shape in ("text", "whole")
            and item.comparable and _follows(engine, rows, item, own)
        ]  # fmt: skip
        coarser.sort(key=lambda item: -item.distinct)
        if coarser and folder is not None:
            found = read_levels(engine, rows, own.name, [item.name for item in coarser])
            if found is not None and _one_node_a_label(found):
                path = f"{folder}/{len(files) + 1}.csv"
                files[path] = write_rows(found)
                dimension.hierarchy = f"csv: {{path: {scalar(path)}}}"
                dimension.said = f"levels: {', '.join(scalar(item.name) for item in coarser)}"
                continue
        if coarser:
            names = ", ".join(scalar(item.name) for item in coarser)
            notes.append(f"{names} follows from {scalar(own.name)}: with -o it becomes a level of its hierarchy.")
        _add_prefix(engine, rows, dimension)


def _one_node_a_label(rows: Sequence[Sequence[str]]) -> bool:
    """Whether each label is on one level, below one label: cells are told apart by their labels."""
    level: dict[str, tuple[int, str | None]] = {}
    for row in rows:
        for place, label in enumerate(row):
            here = (place, row[place + 1] if place + 1 < len(row) else None)
            if level.setdefault(label, here) != here:
                return False
    return True


def _add_prefix(engine: Engine, rows: exp.Select, dimension: _Dimension) -> None:
    """Codes of one length: the shortest beginning that several of them share, and not all."""
    facts = dimension.facts
    if facts.shape != "text" or facts.longest not in CODES or facts.characters != facts.longest * facts.distinct:
        return
    if facts.spaces or facts.distinct < 4:
        return
    for kept in range(1, facts.longest):
        start = exp.Substring(this=text(column(facts.name)), start=exp.Literal.number(1),
                              length=exp.Literal.number(kept))  # fmt: skip
        counted = exp.Count(this=exp.Distinct(expressions=[start]))
        groups = int(engine.query(rows.select(counted, append=False))[0][0])
        if groups > facts.distinct // 2:
            return
        if groups > 1:
            step = facts.longest - kept
            dimension.hierarchy = f"prefix: {{length: {facts.longest}, keep: {kept}, step: {step}}}"
            dimension.said = f"the first {kept} of {facts.longest} characters: {groups:,} groups"
            return


def _hierarchies(dimensions: Sequence[_Dimension]) -> list[str]:
    listed = [each for each in dimensions if each.hierarchy is not None]
    if not listed:
        return ["# Without a hierarchy, the values of a column add up to its total.", ""]
    return [
        "# What values add up to, level by level.",
        "hierarchies:",
        *(f"  {key(each.facts.name)} {{{each.hierarchy}}}  # {each.said}" for each in listed),
        "",
    ]


def _tables(
    dimensions: Sequence[_Dimension], amounts: Sequence[ColumnFacts], contributor: ColumnFacts | None
) -> list[str]:
    by = ", ".join(scalar(each.facts.name) for each in dimensions)
    lines = []
    for amount in (*amounts, None):
        rules = f"{{minimum_frequency: {{n: {FEWEST}}}}}"
        lines.append(f"  {key(f'{amount.name}_total' if amount is not None else 'records')}")
        lines.append(f"    by: [{by}]")
        if amount is not None:
            lines.append(f"    of: {scalar(amount.name)}")
            rules += f", {{p_percent: {{p: {PERCENT}}}}}"
        if contributor is not None:
            lines.append(f"    contributor: {scalar(contributor.name)}")
        else:
            lines.append("    # contributor: …  the column that says whose a record is; without it, each is its own")
        lines.append(f"    rules: [{rules}]")
    return lines


def _summary(dimensions: Sequence[_Dimension], amounts: Sequence[ColumnFacts], release: Mapping[str, str]) -> str:
    names = ", ".join(scalar(each.facts.name) for each in dimensions)
    tables = f"{len(amounts) + 1} tables" if amounts else "1 table"
    return f"an unedited publish writes {scalar(release['table'])}: {tables} by {names}"
