"""What the commands of the gateway print: answers, errors as PostgreSQL words them, and budgets."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from sqlanon.errors import SqlanonError, number

if TYPE_CHECKING:
    from sqlanon.gateway import Answer
    from sqlanon.gateway.price.budgets import Standing
    from sqlanon.ledger import Event
    from sqlanon.ledger.limits import Left
    from sqlanon.mechanisms import Cost
    from sqlanon.policy.gateway import Gateway

SYNTHETIC = "SYNTHETIC DATA: these rows are made up, and tell nothing of the real ones"
WIDEST_LINE = 100  # of a statement, around the place of an error


def answer_text(answer: Answer, form: str, *, plan: bool, shown: int) -> str:
    """An answer in one of the formats; of its columns the first `shown` were asked for, the others are error bars."""
    if form == "csv":
        return _csv(answer)
    if form == "json":
        return _json(answer)
    if plan:
        return "".join(f"{line}\n" for (line,) in answer.rows)
    title = f"{SYNTHETIC}\n" if answer.synthetic else ""
    return title + _table(answer.columns[:shown], _with_bars(answer, shown))


def notice(answer: Answer, principal: str, *, plan: bool = False) -> str:
    """What an answer cost, and what is left; for standard error."""
    if plan:
        return "nothing was asked of the data, and nothing spent"
    if answer.synthetic:
        real = "would cost nothing" if answer.plain else f"would spend {_cost(answer.cost)}"
        return f"synthetic data; nothing was spent; asked of the real data this {real}"
    if answer.left is None and not answer.plain:
        groups = "no group was" if not answer.withheld else f"{answer.withheld:,} groups were"
        groups = "1 group was" if answer.withheld == 1 else groups
        return f"exact, without noise; {groups} withheld by the controls"
    if answer.plain or answer.left is None:
        return "no persons in it: answered as it is, at no cost"
    spent = "answered before, so it cost nothing" if answer.cached else f"spent {_cost(answer.cost)}"
    told = []
    if answer.threshold is not None:
        told.append(f"groups of fewer than about {answer.threshold:g} persons are left out\n")
    elif not answer.rows:
        told.append("groups of too few persons do not appear: EXPLAIN tells how many it takes\n")
    if answer.bare:
        told.append(f"{', '.join(map(printable, answer.bare))}: with noise, but how much is not known\n")
    return f"{''.join(told)}{spent}; {left_text(answer.left, principal)}"


def left_text(left: Left, principal: str) -> str:
    until = f"renewed on {left.renewal:%Y-%m-%d}" if left.renewal else "not renewed"
    return f"{principal} has {_cost(left.left)} left, {until}"


def _cost(cost: Cost) -> str:
    return f"epsilon {number(cost.epsilon)}" + (f" and delta {cost.delta:.2g}" if cost.delta else "")


def error_text(error: SqlanonError, sql: str) -> str:
    """An error as psql shows it, with its SQLSTATE."""
    lines = [f"ERROR:  {printable(error.message)}"]
    position = getattr(error, "position", None)
    if position is not None and 1 <= position <= len(sql) + 1:
        lines += _pointed(sql, position)
    if error.detail:
        lines.append(f"DETAIL:  {printable(error.detail)}")
    if error.hint:
        lines.append(f"HINT:  {printable(error.hint)}")
    return "\n".join([*lines, f"SQLSTATE:  {error.sqlstate}"])


def _pointed(sql: str, position: int) -> list[str]:
    """The line of a statement with a caret below the place, cut on both sides if it is long."""
    start = sql.rfind("\n", 0, position - 1) + 1
    line = sql[start:].split("\n", 1)[0]
    place = min(position - 1 - start, len(line))
    first = max(0, place - WIDEST_LINE // 2)
    last = first + WIDEST_LINE
    before = ("..." if first else "") + printable(line[first:place], tab=" ")
    after = printable(line[place:last], tab=" ") + ("..." if last < len(line) else "")
    label = f"LINE {sql.count(chr(10), 0, start) + 1}: "
    return [f"{label}{before}{after}", " " * cell_len(label + before) + "^"]


def printable(text: str, tab: str = "\\t") -> str:
    """Text without signs that a terminal would obey.

    >>> printable("a\\x1b[31mb\\nc")
    'a\\\\x1b[31mb\\\\nc'
    """
    if text.isprintable():
        return text
    spelled = {"\n": "\\n", "\r": "\\r", "\t": tab}
    return "".join(
        sign if sign.isprintable() else spelled.get(sign) or sign.encode("unicode_escape").decode() for sign in text
    )


# ---- tables


def _table(names: Sequence[str], rows: Sequence[Sequence[tuple[str, bool]]]) -> str:
    """Columns side by side as psql has them; a cell is its text, and whether it is a number."""
    heads = [printable(name) for name in names]
    widths = [max(cell_len(head), *(cell_len(row[at][0]) for row in rows), 1) for at, head in enumerate(heads)]
    made = [" | ".join(_centred(head, width) for head, width in zip(heads, widths, strict=True))]
    made.append("-+-".join("-" * width for width in widths))
    for row in rows:
        made.append(" | ".join(_padded(*cell, width) for cell, width in zip(row, widths, strict=True)))
    made = [f" {line}".rstrip() if at != 1 else f"-{line}-" for at, line in enumerate(made)]
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    return "\n".join([*made, f"({count})"]) + "\n"


def _centred(text: str, width: int) -> str:
    room = width - cell_len(text)
    return " " * (room // 2) + text + " " * (room - room // 2)


def _padded(text: str, right: bool, width: int) -> str:
    room = " " * (width - cell_len(text))
    return room + text if right else text + room


def _with_bars(answer: Answer, shown: int) -> list[list[tuple[str, bool]]]:
    """The cells of the first `shown` columns, with the error bars of the others as ±."""
    columns = [[row[at] for row in answer.rows] for at in range(len(answer.columns))]
    cells: list[list[tuple[str, bool]]] = []
    for at in range(shown):
        bars = _bars_of(answer.columns, at, shown)
        if bars is None:
            cells.append([_cell(value) for value in columns[at]])
        else:
            triples = zip(columns[at], columns[bars], columns[bars + 1], strict=True)
            cells.append(_aligned([_between(*triple) for triple in triples]))
    return [list(row) for row in zip(*cells, strict=True)]


def _bars_of(names: Sequence[str], at: int, shown: int) -> int | None:
    for place in range(shown, len(names) - 1, 2):
        if names[place] == f"{names[at]}_low":
            return place
    return None


def _between(value: Any, low: Any, high: Any) -> tuple[str, str]:
    """A value and the larger side of its interval, with as many digits as the interval leaves a meaning.

    >>> _between(764, 749.0, 779.0), _between(52.728459, 50.872399, 54.378545), _between(None, None, None)
    (('764', '15'), ('52.7', '1.9'), ('NULL', ''))
    """
    if value is None or low is None or high is None:
        return _cell(value)[0], ""
    half = max(float(high) - float(value), float(value) - float(low))
    if isinstance(value, int) or not math.isfinite(half) or not math.isfinite(value):
        return _cell(value)[0], number(math.ceil(half)).replace(",", "") if math.isfinite(half) else number(half)
    digits = 2 if half <= 0 else min(12, max(0, 1 - math.floor(math.log10(half))))
    return f"{value:.{digits}f}", f"{half:.{digits}f}"


def _aligned(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, bool]]:
    most = max((len(half) for _, half in pairs), default=0)
    return [(f"{value} ± {half:>{most}}" if half else value, True) for value, half in pairs]


def _cell(value: Any) -> tuple[str, bool]:
    if value is None:
        return "NULL", False
    if isinstance(value, bool):
        return str(value).lower(), False
    if isinstance(value, float):
        return f"{value:.10g}", True
    if isinstance(value, int | Decimal):
        return str(value), True
    return printable(str(value)), False


# ---- files


def _csv(answer: Answer) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_distinct(answer.columns))
    for row in answer.rows:
        writer.writerow([str(value).lower() if isinstance(value, bool) else value for value in row])
    return out.getvalue()


def _json(answer: Answer) -> str:
    names = _distinct(answer.columns)
    left = answer.left
    document = {
        "columns": names,
        "rows": [dict(zip(names, map(_plain, row), strict=True)) for row in answer.rows],
        "cost": {"epsilon": answer.cost.epsilon, "delta": answer.cost.delta},
        "left": {"epsilon": left.left.epsilon, "delta": left.left.delta} if left else None,
        "renewal": left.renewal.isoformat() if left and left.renewal else None,
        "cached": answer.cached,
        "exact": answer.plain,
        "synthetic": answer.synthetic,
        "left_out_below": answer.threshold,
        "without_bars": list(answer.bare),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _distinct(names: Sequence[str]) -> list[str]:
    """Error bars may be called as a column that was asked for.

    >>> _distinct(["n", "n_low", "n_low"])
    ['n', 'n_low', 'n_low_1']
    """
    made: list[str] = []
    for name in names:
        free, count = name, 1
        while free in made:
            free, count = f"{name}_{count}", count + 1
        made.append(free)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


# ---- budgets


def standings_text(found: Sequence[Standing], policy: Gateway) -> str:
    with_delta = any(each.limit.delta for each in found)
    names = ["principal", "epsilon", "spent", "left", *(["delta", "spent", "left"] if with_delta else []), "renewed"]
    rows = []
    for each in found:
        cells = [(printable(each.principal), False)]
        cells += [(number(cost.epsilon), True) for cost in (each.limit, each.left.spent, each.left.left)]
        if with_delta:
            cells += [(f"{cost.delta:.3g}", True) for cost in (each.limit, each.left.spent, each.left.left)]
        renewal = each.left.renewal
        rows.append([*cells, (f"{renewal:%Y-%m-%d}" if renewal else "never", False)])
    said = _table(names, rows).rsplit("(", 1)[0]
    for each in found:
        if each.granted.epsilon or each.granted.delta:
            said += f"{printable(each.principal)} was granted {_cost(each.granted)} of it\n"
    if policy.budget.total is not None:
        said += f"all together: limit epsilon {number(policy.budget.total.epsilon)}; what is left is the less of both\n"
    if policy.accounting == "zcdp":
        said += "accounting zcdp: epsilon spent is what all statements together amount to\n"
    return said


def standings_json(found: Sequence[Standing]) -> list[dict[str, Any]]:
    def pair(cost: Cost) -> dict[str, float]:
        return {"epsilon": cost.epsilon, "delta": cost.delta}

    return [
        {
            "principal": each.principal,
            "limit": pair(each.limit),
            "granted": pair(each.granted),
            "spent": pair(each.left.spent),
            "left": pair(each.left.left),
            "renewal": each.left.renewal.isoformat() if each.left.renewal else None,
        }
        for each in found
    ]


def history_text(events: Sequence[Event]) -> str:
    names = ["event", "at", "principal", "what", "epsilon", "delta", "of"]
    rows = []
    for each in events:
        amounts = (number(each.epsilon), f"{each.delta:.3g}") if each.kind in ("charge", "grant") else ("", "")
        told = f"by {each.by}: {each.reason}" if each.kind == "grant" else each.shape or f"event {each.settles}"
        cells = [(str(each.id), True), (f"{each.at[:10]} {each.at[11:19]}", False), (printable(each.principal), False)]
        rows.append([*cells, (each.kind, False), *((text, True) for text in amounts), (printable(told), False)])
    return _table(names, rows)
