"""Draft a policy for a table that can be published as it is: roles, hierarchies, models and a release, with reasons.

The draft shows counts and shares, never a value of the table.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlglot import exp

from sqlanon.engines import Engine, connect, table_name
from sqlanon.errors import PolicyError
from sqlanon.evidence.build_hierarchy import MOST_VALUES, group_dates, grow_hierarchy, list_values, read_levels
from sqlanon.evidence.profile_table import profile
from sqlanon.evidence.suggest_roles import FLAG, ColumnFacts, RoleDraft, RolesGiven, hierarchy, is_person_key, words
from sqlanon.evidence.value_tree import Row, write_rows
from sqlanon.policy import Source
from sqlanon.policy.file_formats import describe_other_format, ending_of, is_other_format
from sqlanon.policy.options import holds_rows, split_target, without_password
from sqlanon.relations.source import relation

VERY_LARGE = 2_000_000
COPY = "sqlanon_profile"
K = 5
SUPPRESSION_LIMIT = 0.02


@dataclass(frozen=True)
class PolicyDraft:
    """The text of a policy, and what an unedited `publish` would do with it, in one line."""

    text: str
    summary: str
    roles: RoleDraft
    files: Mapping[str, str] = field(default_factory=dict)  # hierarchies beside the policy, by their path from there


def draft_policy(
    database: str,
    table: str | None,
    *,
    base: Path = Path("."),
    given: RolesGiven | None = None,
    k: int = K,
    folder: str | None = None,
) -> PolicyDraft:
    """A commented policy for a table, as YAML; `base` is the folder that it will be written to.

    `folder` is where in `base` hierarchies go that are built from the values; without it, none are built.
    """
    with open_table(database, table) as (engine, rows):
        draft = profile(engine, rows, table or database, given or RolesGiven())
        files = _trees(engine, rows, draft, folder) if folder is not None else {}
    url, place = split_target(database, table or None)
    release = name_release(place)
    if draft.person is not None and "path" in place:
        # A file cannot hold the persons apart while it is checked: the release is a table of a new database.
        url = str(Path(release["path"]).with_suffix(".duckdb"))
        release = {"table": Path(url).stem}
    made = url if "path" in place else None
    summary = _summary(draft, release, made, k)
    parts = (
        [*_header(draft, summary), *_lone_column(draft, place)],
        source_lines(url, place, base),
        _columns(draft),
        _person(draft),
        _hierarchies(draft, {name: path for name, (path, _) in files.items()}),
        _models(draft, k),
        _search(draft),
        _release(release, base),
    )
    return PolicyDraft(
        "\n".join("\n".join((*part, "")) for part in parts if part), summary, draft, dict(files.values())
    )


@contextmanager
def open_table(database: str, table: str | None) -> Iterator[tuple[Engine, exp.Select]]:
    """A table to look at, and the engine that it is in."""
    if not table and not holds_rows(database):
        raise _which_table(database)
    url, place = split_target(database, table or None)
    with closing(connect(url)) as engine:
        source = engine.resolve(Source(**place))
        rows = relation(source, engine.dialect)
        if source.path is not None and not source.path.lower().endswith(".parquet"):
            # A CSV file would be read anew by each GROUP BY.
            engine.create_temporary(COPY, rows)
            rows = exp.select("*").from_(COPY)
        yield engine, rows


def _trees(engine: Engine, rows: exp.Select, draft: RoleDraft, folder: str) -> dict[str, tuple[str, str]]:
    """Files for quasi-identifiers that no computed kind fits: the path and the text of each."""
    shown = [facts for facts in draft.columns if draft.roles[facts.name].role != "identifier"]
    # What a reader wants to learn about comes first: values are alike if they tell the same about it.
    shown.sort(key=lambda facts: draft.roles[facts.name].role != "sensitive")
    files: dict[str, tuple[str, str]] = {}
    for facts in shown:
        if not needs_tree(draft, facts) or facts.distinct > MOST_VALUES:
            continue
        path = _file_name(folder, facts.name, {path for path, _ in files.values()})
        files[facts.name] = path, write_rows(_tree(engine, rows, draft, facts, shown))
    return files


def needs_tree(draft: RoleDraft, facts: ColumnFacts) -> bool:
    """Whether the values of a quasi-identifier have to be grouped one by one."""
    role = draft.roles[facts.name].role
    return role == "quasi_identifier" and facts.comparable and facts.distinct > FLAG and hierarchy(facts) is None


def _tree(
    engine: Engine, rows: exp.Select, draft: RoleDraft, facts: ColumnFacts, others: Sequence[ColumnFacts]
) -> list[Row]:
    if facts.looks_like("date", 1) or facts.looks_like("day_first_date", 1):
        return group_dates(list_values(engine, rows, facts.name))
    sizes = {each.name: each.distinct for each in draft.columns}
    coarser = [name for name, origin in draft.derived.items() if origin == facts.name and sizes[name] < facts.distinct]
    coarser.sort(key=lambda name: -sizes[name])
    known = read_levels(engine, rows, facts.name, coarser) if coarser else None
    return known or grow_hierarchy(engine, rows, facts, others)


def choose_algorithm(draft: RoleDraft) -> tuple[str, str] | None:
    """The algorithm that loses least for these quasi-identifiers, and what it does; None leaves the choice to a search.

    Regions can be cut along any column whose values have an order, and quasi-identifiers of a draft all have one.
    """
    return "auto", "the least loss of several algorithms; 'publish' shows what each would lose"


def name_release(place: Mapping[str, str]) -> dict[str, str]:
    """A release beside its source, which no pattern of the source reads as further rows.

    >>> name_release({"table": 'raw."v 1.5"'}), name_release({"path": "data/visits.csv.gz"})
    ({'table': 'raw."v 1.5_released"'}, {'path': 'data/visits_released.csv'})
    >>> name_release({"path": "parts/"}), name_release({"path": "parts/*.parquet"}), name_release({"path": "*.parquet"})
    ({'path': 'parts_released.parquet'}, {'path': 'parts_released.parquet'}, {'path': 'released.csv'})
    """
    if "table" in place:
        *schema, name = [part.strip('"') for part in re.findall(r'"[^"]*(?:""[^"]*)*"|[^."]+', place["table"])]
        return {"table": table_name(*schema, f"{name}_released".replace('""', '"'))}
    path = place["path"]
    if "*" in path:
        folder = re.split(r"[^/]*[*]", path, maxsplit=1)[0].rstrip("/")
        stem = f"{folder}_released" if folder else "released"
        ends = [".parquet", ".csv"]
        return {"path": next((stem + end for end in ends if not fnmatch.fnmatch(stem + end, path)), stem + ends[0])}
    known = re.fullmatch(r"(.*?)(?:[.](csv[.]gz|csv|tsv|parquet))?/?", path, re.IGNORECASE | re.DOTALL)
    stem, kind = (known[1], (known[2] or "").lower()) if known else (path, "")
    return {"path": f"{stem}_released.{'csv' if kind in ('csv', 'tsv', 'csv.gz') else 'parquet'}"}


def _summary(draft: RoleDraft, release: Mapping[str, str], made: str | None, k: int) -> str:
    """What an unedited `publish` does, in one line."""
    what, name = next(iter(release.items()))
    target = f"the table {name}{f' of {made}' if made else ''}" if what == "table" else name
    persons, who = draft.persons
    if persons < k:
        return f"an unedited publish refuses: {_number(persons, who)} cannot hide in groups of {k}"
    counts = {role: sum(item.role == role for item in draft.roles.values()) for role in ROLES_IN_WORDS}
    parts = [f"{_number(counts[role], 'column')} {said}" for role, said in ROLES_IN_WORDS.items() if counts[role]]
    return f"an unedited publish writes {target}: groups of at least {k} {who}s, {', '.join(parts)}"


ROLES_IN_WORDS = {
    "quasi_identifier": "made coarser",
    "sensitive": "shown as sensitive",
    "insensitive": "as it is",
    "identifier": "left out",
}


def _which_table(database: str) -> PolicyError:
    if is_other_format(database):
        message, hint = describe_other_format(database)
        return PolicyError(message, hint=hint)
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


def _header(draft: RoleDraft, summary: str) -> list[str]:
    lines = [
        f"# Drafted by 'sqlanon init' from {_number(draft.rows, 'row')} and {_number(len(draft.columns), 'column')}.",
        "# Roles are guesses: read each line, and correct it. To an attacker, a column is",
        "#   identifier        who it is: not released",
        "#   quasi_identifier  known from elsewhere, such as age and place: made coarser",
        "#   sensitive         what nobody should learn about a person",
        "#   insensitive       none of these",
        f"# As it stands, {summary}.",
        "# 'sqlanon check' with this file measures the table; 'sqlanon explain k_anonymity' tells what a model means.",
    ]
    if draft.rows == 0:
        lines.append("# The table has no rows yet: roles are guessed from names and types only.")
    if draft.unnamed:
        lines.append(f"# {_number(draft.unnamed, 'column')} without a name cannot be part of a policy: name it first.")
    return lines


def _lone_column(draft: RoleDraft, place: Mapping[str, str]) -> list[str]:
    """A file that was read otherwise than its owner thinks has one column that holds all others."""
    if len(draft.columns) > 1 or ending_of(place.get("path", "")) not in (".csv", ".tsv"):
        return []
    return [
        "# Only one column was found. Is the first line the header, and has each row as many values? Lines above it",
        "# are not skipped: remove them, or write 'query: SELECT * FROM read_csv('…', skip = 1)' in place of the path.",
    ]


def source_lines(url: str | None, given: dict[str, str], base: Path) -> list[str]:
    lines = ["source:"]
    if url is not None:
        database = without_password(url)
        if database != url:
            lines.append("  # The password stays out of the file: put it into PGPASSWORD, or into ~/.pgpass.")
        made = "  # made by 'sqlanon publish': a release that counts persons is a table" if "path" in given else ""
        lines.append(f"  database: {scalar(_seen_from(base, database))}{made}")
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
        rows = f"{each:.1f} rows on average" if each >= 1.05 else "one row mostly, and some have more"
        return [
            f"# A person has {rows}: persons are counted, not rows.",
            f"person: {scalar(draft.person)}",
        ]
    keys = [facts.name for facts in draft.columns if is_person_key(facts.name) and facts.distinct and not facts.repeats]
    if keys:
        return [f"# {scalar(keys[0])} differs from row to row: each row is a person."]
    return ["# If a person can have several rows, name the column that tells persons apart:", "# person: …"]


def _hierarchies(draft: RoleDraft, files: Mapping[str, str]) -> list[str]:
    fitting, others = [], []
    for facts in draft.columns:
        if draft.roles[facts.name].role != "quasi_identifier":
            continue
        found = hierarchy(facts)
        if found:
            fitting.append((f"  {key(facts.name)} {{{found[0]}}}", found[1]))
        elif facts.name in files:
            what = f"a tree of {facts.distinct:,} values; edit it, or see it with 'sqlanon hierarchy'"
            fitting.append((f"  {key(facts.name)} {{csv: {{path: {scalar(files[facts.name])}}}}}", what))
        elif facts.distinct > FLAG:
            others.append(facts)
    lines = ["# How values become coarser, level by level.", "hierarchies:", *_aligned(fitting)] if fitting else []
    if not others:
        return lines
    names = ", ".join(scalar(facts.name) for facts in others[:8]) + (", …" if len(others) > 8 else "")
    advice = [
        f"No computed kind fits {names}: 'sqlanon init' with -o builds a file of groups,",
        f"'sqlanon hierarchy' does so too, up to {MOST_VALUES:,} values; 'sqlanon explain csv' shows its form.",
        *(
            f"The kind 'country' does not know {_number(facts.unlisted, 'value')} of {scalar(facts.name)}."
            for facts in others
            if facts.unlisted
        ),
    ]
    return lines + [f"{'  ' if fitting else ''}# {line}" for line in advice]


def _models(draft: RoleDraft, k: int) -> list[str]:
    others = f"the rows of at least {k - 1} other persons" if draft.person else f"at least {_number(k - 1, 'other')}"
    models = [(f"  - k_anonymity: {{k: {k}}}", f"each row looks like {others}")]
    sensitive = [facts for facts in draft.columns if draft.roles[facts.name].role == "sensitive"]
    if not sensitive:
        missing = "  # No column looks sensitive. If one is, give it the role sensitive, and ask for more:"
        return ["models:", *_aligned(models), missing, "  # - distinct_l_diversity: {l: 2}"]
    skewed = [facts.name for facts in sensitive if facts.skewed]
    varied = [facts.name for facts in sensitive if not facts.skewed]
    for name in varied if skewed else [""] * bool(varied):
        of = f", attribute: {scalar(name)}" if name else ""
        what = f"differ in {scalar(name)}" if name else "differ in each sensitive column"
        models.append((f"  - distinct_l_diversity: {{l: 2{of}}}", f"rows that look alike {what}"))
    for name in skewed:
        why = f"nearly all rows have one value of {scalar(name)}: no group has far more of the others"
        models.append((f"  - t_closeness: {{t: 0.5, attribute: {scalar(name)}}}", why))
    if not skewed:
        models.append(("  # - t_closeness: {t: 0.3}", "stricter: they differ much as in the whole table"))
    return ["models:", *_aligned(models)]


def _search(draft: RoleDraft) -> list[str]:
    lines = [(f"suppression_limit: {SUPPRESSION_LIMIT}", "share of the rows that may be left out")]
    if chosen := choose_algorithm(draft):
        lines.append((f"algorithm: {chosen[0]}", chosen[1]))
    return _aligned(lines)


def _release(release: Mapping[str, str], base: Path) -> list[str]:
    place = [
        f"  {key}: {scalar(_seen_from(base, value) if key == 'path' else value)}" for key, value in release.items()
    ]
    return ["release:", *place]


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


def _file_name(folder: str, name: str, taken: set[str]) -> str:
    stem = "_".join(words(name))[:40] or "values"
    names = [f"{folder}/{stem}.csv", *(f"{folder}/{stem}_{place}.csv" for place in range(2, len(taken) + 3))]
    return next(each for each in names if each not in taken)


def _seen_from(base: Path, path: str) -> str:
    """A path of the working directory, as the policy in the folder `base` has to name it."""
    if "://" in path or path == ":memory:" or os.path.isabs(path) or base == Path("."):
        return path
    return Path(os.path.relpath(path, base)).as_posix()
