"""Tables of statistics in files of other tools: tau-Argus reads a table, a description and code lists; SDMX-CSV is what
statistics offices exchange.

    NAME.tab    code;code;value;status, one cell a line, with its totals
    NAME.rda    what the columns are, and where the code lists lie
    REGION.hrc  a code list; see the hierarchy `hrc`

What is written is what the release shows. A hidden cell has no value and the status of an unsafe one, whatever the
reason for which it is hidden.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlanon.engines import Engine
from sqlanon.errors import PolicyError, SourceError
from sqlanon.hierarchies.hrc import read_code_list, write_code_list
from sqlanon.policy import Source
from sqlanon.policy.statistics import StatisticsPolicy
from sqlanon.policy.table_protection import Suppression
from sqlanon.relations.source import relation
from sqlanon.statistics.cell_tables import Workspace, make_cells
from sqlanon.statistics.dimensions import MOST_CELLS, Dimension
from sqlanon.statistics.protection_task import read_tables
from sqlanon.statistics.written_table import read_written

SEPARATOR, LEAD = ";", "@"
SAFE, UNSAFE, PROTECT = "S", "U", "P"
FORMATS = ("argus", "sdmx")
Cells = dict[tuple[str, ...], float | None]


@dataclass(frozen=True)
class ArgusTable:
    """A table that was read: its cells by their codes, None where one is hidden, and the code above each code."""

    name: str
    dimensions: tuple[str, ...]
    totals: tuple[str, ...]
    above: tuple[Mapping[str, str], ...]  # of each dimension; empty where all codes lie below the total
    cells: Cells


# ---- write


def write_files(policy: StatisticsPolicy, engine: Engine, release: str, form: str, agency: str) -> dict[str, str]:
    """The files of a release by their names."""
    workspace = Workspace(engine)
    try:
        tables = make_cells(policy, engine, workspace)
        read = read_tables(tables, Suppression(singletons="ignore"))
        written = read_written(tables, relation(engine.resolve(Source(table=release)), engine.dialect))
        if written.problems:
            raise SourceError(
                f"'{release}' is not the release of this policy", detail="\n".join(written.problems),
                hint="name the release, or publish anew",
            )  # fmt: skip
        files: dict[str, str] = {}
        for item in tables.tables:
            dimensions = [tables.dimension(place) for place in item.places]
            cells: Cells = {}
            for cell in read.published[item.name]:
                if cell in written.values[item.name]:
                    labels = tuple(dimension.labels[dimension.node_of(cell)] for dimension in dimensions)
                    cells[labels] = written.values[item.name][cell]
            if form == "argus":
                _add(files, argus_files(item.name, dimensions, cells))
            else:
                _add(files, {f"{file_name(item.name)}.csv": sdmx_file(item.name, dimensions, cells, agency)})
        return files
    finally:
        workspace.drop()


def _add(files: dict[str, str], made: Mapping[str, str]) -> None:
    for name, text in made.items():
        if files.setdefault(name, text) != text:
            raise PolicyError(f"two tables or columns would be written to '{name}'", hint="rename one of them")


def file_name(name: str) -> str:
    """A name that every system takes for a file.

    >>> file_name("turn/over 2024")
    'turn_over_2024'
    """
    return re.sub(r"[^\w.-]+", "_", name).strip(".") or "table"


def argus_files(name: str, dimensions: Sequence[Dimension], cells: Cells) -> dict[str, str]:
    files = {}
    lines = [f"   <SEPARATOR> {_quoted(SEPARATOR)}"]
    lines += [
        f"   <{word}> {_quoted(code)}" for word, code in (("SAFE", SAFE), ("UNSAFE", UNSAFE), ("PROTECT", PROTECT))
    ]
    for dimension in dimensions:
        lines += [_name(dimension.name), "   <RECODEABLE>", f"   <TOTCODE> {_quoted(dimension.labels[0])}"]
        if max(dimension.depths) > 1:
            path = f"{file_name(dimension.name)}.hrc"
            files[path] = write_code_list(_in_tree_order(dimension), LEAD)
            lines += ["   <HIERARCHICAL>", f"   <HIERCODELIST> {_quoted(path)}", f"   <HIERLEADSTRING> {_quoted(LEAD)}"]
    decimals = max((_decimals(value) for value in cells.values() if value is not None), default=0)
    lines += ["value", "   <NUMERIC>", f"   <DECIMALS> {decimals}", "   <RESPONSE>", "status", "   <STATUS>", ""]
    rows = [
        [*labels, "" if value is None else f"{value:.{decimals}f}", UNSAFE if value is None else SAFE]
        for labels, value in sorted(cells.items())
    ]
    stem = file_name(name)
    return {**files, f"{stem}.rda": "\n".join(lines), f"{stem}.tab": _csv(rows, SEPARATOR)}


def _in_tree_order(dimension: Dimension) -> list[tuple[str, int]]:
    below: dict[int, list[int]] = {}
    for node, parent in enumerate(dimension.parents):
        if node:
            below.setdefault(parent, []).append(node)
    found, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        label = dimension.labels[node]
        if label != label.strip() or label.startswith(LEAD) or "\n" in label or "\r" in label or not label:
            raise PolicyError(
                f"a label of '{dimension.name}' cannot stand in a code list",
                hint=f"labels begin with no '{LEAD}' and no space, and hold no line break: change them in a query",
            )
        found.append((label, dimension.depths[node]))
        waiting += reversed(below.get(node, []))
    return found


def _decimals(value: float) -> int:
    """Digits after the point that a value needs, up to six.

    >>> _decimals(3.0), _decimals(2.25)
    (0, 2)
    """
    text = f"{value:.6f}".rstrip("0")
    return len(text) - text.index(".") - 1


def _quoted(text: str) -> str:
    return f'"{_name(text)}"'


def _name(text: str) -> str:
    if not text.strip() or any(character in text for character in '"<>\r\n'):
        raise PolicyError(
            "a name or label cannot stand in a description of tau-Argus",
            hint="names hold no quotes, angle brackets or line breaks: change them in a query",
        )
    return text


def _csv(rows: Sequence[Sequence[str]], separator: str) -> str:
    made = io.StringIO()
    csv.writer(made, delimiter=separator, lineterminator="\n").writerows(rows)
    return made.getvalue()


def sdmx_file(name: str, dimensions: Sequence[Dimension], cells: Cells, agency: str) -> str:
    """SDMX-CSV 1.0. Hidden observations are missing since suppressed (Q), and confidential (C)."""
    flow = f"{sdmx_name(agency)}:{sdmx_name(name)}(1.0)"
    names = [sdmx_name(dimension.name) for dimension in dimensions]
    header = ["DATAFLOW", *names, "OBS_VALUE", "OBS_STATUS", "CONF_STATUS"]
    if len(set(header)) < len(header):
        raise PolicyError(
            f"columns of '{name}' would have one name in SDMX",
            hint="they differ in letters and digits alone: rename one",
        )
    rows = [
        [flow, *labels, *(("", "Q", "C") if value is None else (_plain(value), "A", "F"))]
        for labels, value in sorted(cells.items())
    ]
    return _csv([header, *rows], ",")


def sdmx_name(name: str) -> str:
    """
    >>> sdmx_name("NUTS 2-region"), sdmx_name("2024")
    ('NUTS_2_REGION', '_2024')
    """
    made = re.sub(r"[^A-Z0-9_]+", "_", name.upper())
    return made if made[:1].isalpha() else f"_{made}"


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


# ---- read


@dataclass
class _Column:
    name: str
    words: dict[str, str] = field(default_factory=dict)


def read_argus(description: Path) -> ArgusTable:
    """A table of tau-Argus, by its description; the cells lie beside it, in a file of the same name."""
    head, columns = _read_description(description)
    separator = head.get("SEPARATOR", ",")
    by = [column for column in columns if "RECODEABLE" in column.words or "RECODABLE" in column.words]
    response = [column for column in columns if "RESPONSE" in column.words]
    if not response:
        rest = ("FREQUENCY", "MAXSCORE", "COST", "SHADOW", "LOWERPL", "UPPERPL")
        response = [
            column for column in columns if "NUMERIC" in column.words and not any(w in column.words for w in rest)
        ]
    if not by or len(response) != 1:
        raise SourceError(
            f"{description.name} describes no table: it needs columns with <RECODEABLE>, and one with <RESPONSE>",
            hint="is it a description of microdata?",
        )
    places = {column.name: place for place, column in enumerate(columns)}
    status = next((places[column.name] for column in columns if "STATUS" in column.words), None)
    shown = {head.get("SAFE", SAFE), head.get("PROTECT", PROTECT)}
    cells: Cells = {}
    for number, row in enumerate(_read_lines(description, separator), start=1):
        if len(row) < len(columns):
            raise SourceError(f"line {number} has {len(row)} of {len(columns)} columns", hint="is the separator right?")
        labels = tuple(row[places[column.name]].strip() for column in by)
        if labels in cells:
            raise SourceError(f"line {number}: this cell is there already", hint="each cell stands once")
        hidden = status is not None and row[status].strip() not in shown
        cells[labels] = None if hidden else _amount(row[places[response[0].name]], number)
        if len(cells) > MOST_CELLS:
            raise PolicyError(f"the table has more than {MOST_CELLS:,} cells", hint="look at a part of it")
    totals = tuple(column.words.get("TOTCODE", "Total") or "Total" for column in by)
    above = tuple(_read_above(description.parent, column, total) for column, total in zip(by, totals, strict=True))
    return ArgusTable(description.stem, tuple(column.name for column in by), totals, above, cells)


def _read_description(path: Path) -> tuple[dict[str, str], list[_Column]]:
    head: dict[str, str] = {}
    columns: list[_Column] = []
    for line in _text_of(path).splitlines():
        text = line.strip()
        if not text:
            continue
        found = re.fullmatch(r"<\s*(\w+)\s*>\s*(.*)", text)
        if found is None:
            columns.append(_Column(text.split()[0].strip('"')))
            continue
        word, value = found[1].upper(), found[2].strip().strip('"')
        (columns[-1].words if columns else head)[word] = value
        if word == "HIERLEVELS":
            raise SourceError(
                f"{path.name}: levels by digits of a code are not read", hint="write a code list: <HIERCODELIST>"
            )
    return head, columns


def _read_lines(description: Path, separator: str) -> list[list[str]]:
    for ending in (".tab", ".csv", ".txt", ".asc"):
        beside = description.with_suffix(ending)
        if beside.exists():
            rows = csv.reader(io.StringIO(_text_of(beside), newline=""), delimiter=separator or ",")
            return [row for row in rows if row]
    raise SourceError(
        f"there is no table beside {description.name}", hint=f"the cells are read from {description.stem}.tab"
    )


def _read_above(folder: Path, column: _Column, total: str) -> Mapping[str, str]:
    path = column.words.get("HIERCODELIST")
    if not path:
        return {}
    lead = column.words.get("HIERLEADSTRING") or LEAD
    # Written on another system, the path may be one of that system; the file lies beside the description.
    file = folder / re.split(r"[\\/]", path)[-1]
    return read_code_list(_text_of(file).splitlines(), file.name, lead=lead, total=total)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise SourceError(f"{path.name} cannot be read as text in UTF-8", hint="is it there, and in UTF-8?") from None


def _amount(text: str, line: int) -> float | None:
    """A value; what is empty or a sign is hidden."""
    plain = text.strip()
    if plain.lower() in ("", "x", "-", ".", ":", "na", "c"):
        return None
    try:
        return float(plain.replace(",", ".") if plain.count(",") == 1 and "." not in plain else plain)
    except ValueError:
        raise SourceError(f"line {line}: the value is no number", hint="hidden cells are empty, or x") from None
