"""A file in ARX's format: one line for each value, from the value to the most general label.

    hierarchies:
      education:
        csv: {path: hierarchies/education.csv}

The file:

    Bachelors;Undergraduate;Higher education;*
    11th;High School;Secondary education;*

There is no header. The file is UTF-8, with or without a byte order mark; a value that holds the delimiter,
a quote or a line break is put in double quotes. `path` starts from the folder of the policy. If the last
column has more than one label, a further level "*" is added.

It is a lookup: NULL and a value that has no line are refused.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sqlanon.errors import HierarchyError
from sqlanon.hierarchies import Hierarchy

ROOT = "*"
Lines = list[tuple[int, tuple[str, ...]]]


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(min_length=1, description="The file, from the folder of the policy.")
    delimiter: str = Field(";", min_length=1, max_length=1, description="What separates the levels.")

    @field_validator("delimiter")
    @classmethod
    def _can_separate(cls, delimiter: str) -> str:
        if delimiter in '"\r\n\0':
            raise ValueError("a quote or a line break cannot separate levels; use ';', ',' or a tab")
        return delimiter


def _read(params: Params, base: Path) -> str:
    try:
        content = (base / params.path).read_bytes()
    except OSError as error:
        raise HierarchyError(
            f"{params.path}: the hierarchy file cannot be read: {error.strerror}",
            hint=f"the path starts from the folder of the policy, {base}",
        ) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise HierarchyError(f"{params.path}:{line}: this line is not UTF-8", hint="save the file as UTF-8") from None


def _lines(params: Params, content: str) -> Lines:
    """Each line with the number that it starts at; blank lines are left out."""
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=params.delimiter, strict=True)
    lines: Lines = []
    start = 1
    try:
        for row in reader:
            if row:
                lines.append((start, tuple(row)))
            start = reader.line_num + 1
    except csv.Error as error:
        raise HierarchyError(
            f"{params.path}:{start}: this line cannot be read: {error}",
            hint='put a value that holds a quote in quotes, and double the inner one: "6"" pipe"',
        ) from None
    return lines


def _check(params: Params, lines: Lines) -> None:
    if not lines:
        raise HierarchyError(
            f"{params.path}: the hierarchy file is empty", hint="write one line for each value: value;group;*"
        )
    first, width = lines[0][0], len(lines[0][1])
    if width < 2:
        raise HierarchyError(
            f"{params.path}:{first}: this line has only one level",
            hint=f"separate the levels with '{params.delimiter}', or name another delimiter in the policy",
        )
    seen: dict[str, int] = {}
    for line, row in lines:
        if len(row) != width:
            raise HierarchyError(
                f"{params.path}:{line}: this line has {len(row)} levels, line {first} has {width}",
                hint="give every line the same number of levels; repeat a label to fill one up",
            )
        if row[0] in seen:
            raise HierarchyError(
                f"{params.path}:{line}: the value '{row[0]}' is already on line {seen[row[0]]}",
                hint="keep one line for each value",
            )
        seen[row[0]] = line


def build(params: Params, base: Path) -> Hierarchy:
    lines = _lines(params, _read(params, base))
    _check(params, lines)
    rows = tuple(row for _, row in lines)
    tops = {row[-1] for row in rows}
    if tops == {""}:
        raise HierarchyError(
            f"{params.path}:{lines[0][0]}: the last level has no label",
            hint=f"remove the '{params.delimiter}' at the end of each line",
        )
    if len(tops) > 1:
        rows = tuple((*row, ROOT) for row in rows)
    return Hierarchy(height=len(rows[0]) - 1, root=rows[0][-1], rows=rows)
