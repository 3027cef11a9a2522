"""A code list of tau-Argus and sdcTable: one code a line, indented by a leading string for each level below the first.

    hierarchies:
      region:
        hrc: {path: region.hrc, total: Total}

The file:

    North
    @N1
    @N2
    South

North is the total of N1 and N2, and the root, which is not in the file, that of North and South. Values are the codes
without others below them; one that is nearer to the root than others keeps its code on the levels between. The file is
UTF-8; blank lines are left out. `path` starts from the folder of the policy.

It is a lookup: NULL and a value that has no line are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sqlanon.errors import HierarchyError
from sqlanon.hierarchies import Hierarchy


class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(min_length=1, description="The file, from the folder of the policy.")
    lead: str = Field("@", min_length=1, description="What stands before a code, once for each level.")
    total: str = Field("Total", min_length=1, description="What the sum over all codes is called.")


def build(params: Params, base: Path) -> Hierarchy:
    try:
        text = (base / params.path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise HierarchyError(
            f"{params.path}: the code list cannot be read: {error.strerror}",
            hint=f"the path starts from the folder of the policy, {base}",
        ) from None
    except UnicodeDecodeError:
        raise HierarchyError(f"{params.path}: the code list is not UTF-8", hint="save the file as UTF-8") from None
    above = read_code_list(text.splitlines(), params.path, lead=params.lead, total=params.total)
    rows = code_paths(above, params.total)
    return Hierarchy(height=len(rows[0]) - 1, root=params.total, rows=rows)


def read_code_list(lines: Iterable[str], name: str, *, lead: str, total: str) -> dict[str, str]:
    """The code above each code.

    >>> read_code_list(["A", "@a1", "@a2", "B"], "x.hrc", lead="@", total="All")
    {'A': 'All', 'a1': 'A', 'a2': 'A', 'B': 'All'}
    """
    above: dict[str, str] = {}
    path = [total]
    for number, line in enumerate(lines, start=1):
        code, depth = line.strip(), 1
        while code.startswith(lead):
            code, depth = code[len(lead) :], depth + 1
        code = code.strip()
        if not code and depth == 1:
            continue
        if depth > len(path):
            raise HierarchyError(
                f"{name}:{number}: this code is {depth - len(path)} levels too deep for the one before it",
                hint=f"one more '{lead}' than on the line before, at most",
            )
        if not code or code in above or code == total:
            raise HierarchyError(
                f"{name}:{number}: this line has no code, or one that is there already",
                hint=f"each code stands once; the total, '{total}', is not in the file",
            )
        del path[depth:]
        above[code] = path[-1]
        path.append(code)
    if not above:
        raise HierarchyError(f"{name}: the code list is empty", hint="write one code on each line")
    return above


def code_paths(above: dict[str, str], total: str) -> tuple[tuple[str, ...], ...]:
    """Each code without others below it, with all above it up to the total; all of one length."""
    groups = set(above.values())
    paths: list[tuple[str, ...]] = []
    for code in above:
        if code in groups:
            continue
        path = [code]
        while path[-1] != total:
            path.append(above[path[-1]])
        paths.append(tuple(path))
    height = max(map(len, paths))
    return tuple((path[0],) * (height - len(path)) + path for path in paths)


def write_code_list(order: Sequence[tuple[str, int]], lead: str = "@") -> str:
    """The text of a code list, from codes in the order of the tree with their depth; the root, at 0, is left out.

    >>> write_code_list([("All", 0), ("A", 1), ("a1", 2)])
    'A\\n@a1\\n'
    """
    return "".join(f"{lead * (depth - 1)}{code}\n" for code, depth in order if depth)
